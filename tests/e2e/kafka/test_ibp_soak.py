"""Brokers of Kafka 3.8 in ZooKeeper mode get a newer Kafka, then its protocol, and are ready to migrate.

Only with SOAK=1.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.core.migration.settings import Shape
from tests.e2e.kafka import by_hand
from tests.e2e.kafka.cli import run
from tests.e2e.rig.migrating import MigratingCluster
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import BEFORE, OLD
from tests.e2e.rig.zookeeper import ZooKeeper

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

NEWER = re.compile(rf"restart broker (\d+) with Kafka 3\.9 \(3\.x, at least 3\.9\), and still {re.escape(IBP)}=3\.8;")
RAISED = re.compile(rf"restart broker (\d+) with the same Kafka, and {re.escape(IBP)}=3\.9;")


class Person(by_hand.Person[str]):
    """A person who gives a broker a newer Kafka, or the newer protocol version, whichever the status asks for."""

    patience = 150.0

    def asked_in(self, says: str) -> tuple[int, str] | None:
        for how, words in (("Kafka", NEWER), (IBP, RAISED)):
            if request := words.match(says):
                return int(request[1]), how
        return None

    def restart(self, id_: int, how: str) -> None:
        self.cluster.version = OLD
        self.start(id_, "3.8" if how == "Kafka" else "3.9")

    def start(self, id_: int, ibp: str) -> None:
        self.cluster.start(id_, {**self.cluster.settings(id_, Shape.PLAIN_BROKER), IBP: ibp})


def test_every_broker_runs_kafka_3_9_before_any_uses_its_protocol_and_the_preflight_has_no_blocker_after(
    tmp_path: Path,
) -> None:
    with ZooKeeper(tmp_path / "zookeeper") as zookeeper, MigratingCluster(tmp_path / "nodes", zookeeper) as cluster:
        cluster.version = BEFORE
        person = Person(cluster, tmp_path)
        for id_ in cluster.brokers:
            person.start(id_, "3.8")
        client = KazooClient(zookeeper.connect)
        client.start()
        try:
            ids = "/kafka/brokers/ids"
            wait_until(
                "all brokers are registered", lambda: bool(client.exists(ids)) and len(client.get_children(ids)) == 3
            )
        finally:
            client.stop()
            client.close()

        person.writes(controllers=False, rollout={"stableFor": "1s"}, migration={"desired": "PreMigration"})
        refused = run("plan", "-f", str(person.file))
        assert refused.returncode != 0
        assert "3.9" in refused.stdout

        person.writes(controllers=False, rollout={"stableFor": "1s"}, interBrokerProtocolVersion="3.9")
        person.apply()
        assert sorted(person.restarted[:3]) == [(1, "Kafka"), (2, "Kafka"), (3, "Kafka")]
        assert sorted(person.restarted[3:]) == [(1, IBP), (2, IBP), (3, IBP)]
        assert person.status["interBrokerProtocolVersion"] == "3.9"

        person.writes(rollout={"stableFor": "1s"}, migration={"desired": "PreMigration"})
        assert "start the controllers of the quorum" in person.plan()
