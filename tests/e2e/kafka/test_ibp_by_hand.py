"""The inter.broker.protocol.version of real brokers in ZooKeeper mode is raised; a person restarts them as asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.core.migration.settings import Shape
from tests.e2e.kafka import by_hand
from tests.e2e.kafka.cli import run
from tests.e2e.rig.migrating import MigratingCluster
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.zookeeper import ZooKeeper

ASKED = re.compile(rf"restart broker (\d+) with the same Kafka, and {re.escape(IBP)}=([^;]+);")


class Person(by_hand.Person[str]):
    """A person who restarts the broker that the status names, with the version that it names.

    `uses`: the inter.broker.protocol.version in the file of each broker; None if the file has none.
    """

    patience = 120.0

    def __init__(self, cluster: MigratingCluster, folder: Path) -> None:
        super().__init__(cluster, folder)
        self.uses: dict[int, str | None] = dict.fromkeys(cluster.brokers, "3.8")

    def start(self, id_: int) -> None:
        settings, uses = self.cluster.settings(id_, Shape.PLAIN_BROKER), self.uses[id_]
        del settings[IBP]
        self.cluster.start(id_, settings if uses is None else {**settings, IBP: uses})

    def wants(self, ibp: str) -> None:
        self.writes(controllers=False, rollout={"stableFor": "1s"}, interBrokerProtocolVersion=ibp)

    def asked_in(self, says: str) -> tuple[int, str] | None:
        request = ASKED.match(says)
        return (int(request[1]), request[2]) if request is not None else None

    def restart(self, id_: int, how: str) -> None:
        self.uses[id_] = how
        self.start(id_)


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with ZooKeeper(tmp_path / "zookeeper") as zookeeper, MigratingCluster(tmp_path / "nodes", zookeeper) as cluster:
        person = Person(cluster, tmp_path)
        person.uses[3] = None
        client = KazooClient(zookeeper.connect)
        client.start()
        try:
            for id_ in cluster.brokers:
                person.start(id_)
                if id_ == 1:  # so that it is the controller, and is restarted last
                    wait_until("broker 1 is controller", lambda: client.exists("/kafka/controller") is not None)
            ids = "/kafka/brokers/ids"
            wait_until("all brokers are registered", lambda: len(client.get_children(ids)) == 3)
        finally:
            client.stop()
            client.close()
        yield person


def test_a_protocol_version_is_set_where_it_is_missing_then_raised_on_each_broker_and_never_lowered(
    person: Person,
) -> None:
    """Broker 3 has no version in its file, so Kafka 3.9.2 uses 3.9-IV0 by itself, which all brokers support."""
    person.wants("3.9")
    plan = person.plan()
    assert "3.9-IV0" in plan
    assert f"restart each broker with {IBP}=3.9 irreversible" in plan

    person.apply()
    assert person.restarted[0] == (3, "3.9-IV0")
    assert person.restarted[1:] == [(2, "3.9"), (1, "3.9")]
    assert f"every broker uses {IBP} 3.9" in person.says()
    assert person.status["interBrokerProtocolVersion"] == "3.9 (brokers 1, 2), 3.9-IV0 (broker 3)"
    rolled = next(one for one in person.status["conditions"] if one["type"] == "NodesRolled")
    assert rolled["reason"] == "AllCurrent"

    person.wants("3.8")
    refused = run("plan", "-f", str(person.file))
    assert refused.returncode == 4
    assert "3.8 would be a downgrade" in " ".join(refused.stdout.split())
