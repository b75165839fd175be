"""The inter.broker.protocol.version of real brokers in ZooKeeper mode is raised; a person restarts them as asked."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kazoo.client import KazooClient

from kafkafeatures.api.names import API_VERSION, KIND
from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.core.migration.settings import Shape
from tests.e2e.kafka.cli import KAFKAFEATURES, run
from tests.e2e.rig.migrating import MigratingCluster
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.zookeeper import ZooKeeper

ASKED = re.compile(rf"restart broker (\d+) with the same Kafka, and {re.escape(IBP)}=([^;]+);")
PATIENCE = 120.0


class Person:
    """Runs `apply` on one document, and restarts the brokers that its status names with the line that it names.

    `uses`: by broker, what its file has; None where it has nothing.
    """

    def __init__(self, cluster: MigratingCluster, folder: Path) -> None:
        self.cluster, self.file = cluster, folder / "orders.yaml"
        self.uses: dict[int, str | None] = dict.fromkeys(cluster.brokers, "3.8")
        self.restarted: list[tuple[int, str]] = []

    def start(self, id_: int) -> None:
        settings, uses = self.cluster.settings(id_, Shape.PLAIN_BROKER), self.uses[id_]
        del settings[IBP]
        self.cluster.start(id_, settings if uses is None else {**settings, IBP: uses})

    def wants(self, ibp: str) -> None:
        spec = {
            "cluster": {
                "bootstrapServers": self.cluster.bootstrap_servers,
                "zookeeper": {"connect": self.cluster.ensemble},
            },
            "workload": {"driver": "Manual"},
            "rollout": {"stableFor": "1s"},
            "interBrokerProtocolVersion": ibp,
        }
        document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "orders"}, "spec": spec}
        self.file.write_text(yaml.safe_dump(document))

    @property
    def status(self) -> dict[str, Any]:
        state = self.file.with_suffix(".status.yaml")
        return dict(yaml.safe_load(state.read_text())["status"]) if state.exists() else {}

    def says(self) -> str:
        """The message of Ready."""
        return next((one["message"] for one in self.status.get("conditions", ()) if one["type"] == "Ready"), "")

    def plan(self) -> str:
        done = run("plan", "-f", str(self.file))
        return " ".join((done.stdout + done.stderr).split())  # a table is cut into lines

    def apply(self) -> None:
        command = [*KAFKAFEATURES, "apply", "-f", str(self.file), "--yes", "--timeout", "3m"]
        done: list[tuple[int, str]] = []
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:

            def over() -> bool:
                asked = ASKED.match(self.says())
                if asked is not None and (one := (int(asked[1]), asked[2])) not in done:
                    done.append(one)
                    self.uses[one[0]] = one[1]
                    self.start(one[0])
                return running.poll() is not None

            wait_until(f"apply ends; it says {self.says()}", over, PATIENCE, step=0.2)
            assert running.stderr is not None
            assert running.returncode == 0, running.stderr.read()
        self.restarted += done


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with ZooKeeper(tmp_path / "zookeeper") as zookeeper, MigratingCluster(tmp_path / "nodes", zookeeper) as cluster:
        found = Person(cluster, tmp_path)
        found.uses[3] = None
        client = KazooClient(zookeeper.connect)
        client.start()
        try:
            for id_ in cluster.brokers:
                found.start(id_)
                if id_ == 1:  # so that it is controller, and goes last
                    wait_until("broker 1 is controller", lambda: client.exists("/kafka/controller") is not None)
            ids = "/kafka/brokers/ids"
            wait_until("all brokers are registered", lambda: len(client.get_children(ids)) == 3)
        finally:
            client.stop()
            client.close()
        yield found


def test_a_version_that_is_not_set_is_set_first_then_it_is_raised_on_each_broker_and_never_lowered(
    person: Person,
) -> None:
    """Broker 3 has none in its file, so Kafka 3.9.2 uses 3.9-IV0 by itself, which all brokers know."""
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
    assert "3.8 is lower" in " ".join(refused.stdout.split())
