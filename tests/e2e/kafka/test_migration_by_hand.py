"""A real cluster goes from ZooKeeper to KRaft: three brokers and three controllers, a person restarts them as asked."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
import yaml
from kazoo.client import KazooClient

from kafkafeatures.api.names import API_VERSION, KIND
from kafkafeatures.core.migration.edges import Beside
from kafkafeatures.core.migration.settings import Shape
from tests.e2e.kafka.cli import KAFKAFEATURES, run
from tests.e2e.rig.migrating import MigratingCluster
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.zookeeper import ZooKeeper

ASKED = re.compile(r"restart (?:broker|controller) (\d+) as ([^:;]*):")
PATIENCE = 150.0


class Person:
    """Runs `apply` on one document, and does what its status asks for."""

    def __init__(self, cluster: MigratingCluster, folder: Path) -> None:
        self.cluster, self.file = cluster, folder / "orders.yaml"
        self.restarted: list[tuple[int, Shape]] = []

    def wants(self, desired: str, *consents: str) -> None:
        spec = {
            "cluster": {
                "bootstrapServers": self.cluster.bootstrap_servers,
                "bootstrapControllers": self.cluster.bootstrap_controllers,
                "zookeeper": {"connect": self.cluster.ensemble},
            },
            "workload": {"driver": "Manual"},
            "rollout": {"stableFor": "1s"},
            "consents": list(consents),
            "migration": {"desired": desired, "holdDualWriteFor": "0m"},
        }
        document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "orders"}, "spec": spec}
        self.file.write_text(yaml.safe_dump(document))

    @property
    def status(self) -> dict[str, Any]:
        state = self.file.with_suffix(".status.yaml")
        return dict(yaml.safe_load(state.read_text())["status"]) if state.exists() else {}

    def ready(self) -> tuple[str, str]:
        """Reason and message."""
        found = [one for one in self.status.get("conditions", ()) if one["type"] == "Ready"]
        return (found[0]["reason"], found[0]["message"]) if found else ("", "")

    def asked_in(self, says: str) -> tuple[int, Shape] | None:
        """The node that is to be restarted, and as what."""
        asked = ASKED.match(says)
        return (int(asked[1]), Shape(asked[2])) if asked is not None else None

    def at(self, path: str) -> Any:
        """What stands in a znode below the chroot; None where it is absent."""
        client = KazooClient(self.cluster.ensemble)
        client.start()
        try:
            return json.loads(client.get(path)[0]) if client.exists(path) else None
        finally:
            client.stop()
            client.close()

    def plan(self) -> str:
        done = run("plan", "-f", str(self.file))
        return " ".join((done.stdout + done.stderr).split())  # a table is cut into lines

    def apply(self, *flags: str, killed_after: int | None = None) -> None:
        """Until it ends by itself, or is killed once so many nodes were restarted. Meanwhile all is done that the
        status asks for: nodes are restarted, controllers are stopped.
        """
        command = [*KAFKAFEATURES, "apply", "-f", str(self.file), "--yes", "--timeout", "3m", *flags]
        done: list[tuple[int, Shape]] = []
        before = self.ready()[1] if self.asked_in(self.ready()[1]) else None  # of a process that was killed
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:

            def over() -> bool:
                says = self.ready()[1]
                one = self.asked_in(says)
                if says != before and one is not None and one not in done:
                    done.append(one)
                    self.cluster.run(*one)
                if Beside.NO_CONTROLLERS.value in says:
                    for id_ in self.cluster.controllers:
                        if self.cluster.nodes[id_].alive:
                            self.cluster.nodes[id_].stop()
                if len(done) == killed_after:
                    running.kill()
                return running.poll() is not None

            wait_until(f"apply ends; it says {self.ready()}", over, PATIENCE, step=0.2)
            assert running.stderr is not None
            assert running.returncode == (0 if killed_after is None else -SIGKILL), running.stderr.read()
        self.restarted += done


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with ZooKeeper(tmp_path / "zookeeper") as zookeeper, MigratingCluster(tmp_path / "nodes", zookeeper) as cluster:
        for id_ in cluster.brokers:
            cluster.run(id_, Shape.PLAIN_BROKER)
        client = KazooClient(zookeeper.connect)
        client.start()
        try:
            wait_until("all brokers are registered", lambda: len(_children(client, "/kafka/brokers/ids")) == 3)
            data, _ = client.get("/kafka/cluster/id")
        finally:
            client.stop()
            client.close()
        cluster.format_controllers(json.loads(data)["id"])
        yield Person(cluster, tmp_path)


def _children(client: KazooClient, path: str) -> list[str]:
    return list(client.get_children(path)) if client.exists(path) else []


def test_a_cluster_goes_all_the_way_and_each_node_is_restarted_once_for_each_phase(person: Person) -> None:
    cluster = person.cluster
    person.wants("PreMigration")
    first = person.plan()
    assert "start the controllers of the quorum" in first
    assert "way back to ZooKeeper: stop the controllers, delete /migration; nothing is lost" in first
    assert "Plan: Changes" in first
    for id_ in cluster.controllers:
        cluster.run(id_, Shape.MIGRATING_CONTROLLER)
    person.apply()
    assert person.status["migration"]["phase"] == "PreMigration"
    assert person.restarted == []

    person.wants("Finalized", "zk-finalize")
    assert "from DualWrite only" in person.plan()

    person.wants("DualWrite")
    person.apply()
    assert person.status["migration"]["phase"] == "DualWrite"
    brokers = [id_ for id_, shape in person.restarted if shape is Shape.FLAGGED_BROKER]
    assert sorted(brokers) == list(cluster.brokers)
    assert sorted(id_ for id_, shape in person.restarted if shape is Shape.KRAFT_BROKER) == list(cluster.brokers)
    assert len(person.restarted) == 6
    there, back = person.status["migration"], person.status["wayBack"]["how"]
    assert (there["restartsLeft"], there["equality"]["state"]) == (0, "Equal")
    assert there["nodeSeconds"] > 0
    assert back.startswith("to ZooKeeper mode: set spec.migration.desired to RolledBack")
    assert "nothing is lost: both held the same" in back
    assert run("migration", "compare", *where(cluster)).returncode == 0

    person.wants("Finalized", "zk-finalize")
    waits = person.plan()
    assert "irreversible" in waits
    assert "no way back: the first controller without the flag that leads ends it" in waits
    assert "3 restarts of nodes left, about" in waits
    (plan_hash,) = set(re.findall(r"sha256:[0-9a-f]{12}", waits))
    person.apply("--approve", plan_hash)
    assert person.status["migration"]["phase"] == "Finalized"
    assert len(person.restarted) == 9
    assert person.status["spentConsents"] == ["zk-finalize"]
    assert "wayBack" not in person.status


def test_a_cluster_goes_back_from_half_way_after_apply_was_killed(person: Person) -> None:
    """Three brokers got the flag, and one of them runs in KRaft mode already."""
    cluster = person.cluster
    for id_ in cluster.controllers:
        cluster.run(id_, Shape.MIGRATING_CONTROLLER)
    person.wants("DualWrite")
    person.apply(killed_after=4)
    in_kraft, shape = person.restarted[-1]
    assert shape is Shape.KRAFT_BROKER

    person.wants("RolledBack")
    person.apply()
    assert person.restarted[4] == (in_kraft, Shape.FLAGGED_BROKER)
    assert sorted(person.restarted[5:]) == [(id_, Shape.PLAIN_BROKER) for id_ in cluster.brokers]
    migration = person.status["migration"]
    assert (migration["phase"], migration["brokers"]) == ("RolledBack", {"zooKeeper": 3})
    assert "kraft_metadata_offset" in migration["keptMigrationNode"]
    (deleted,) = [one for one in person.status["history"] if one["kind"] == "DeleteZnodes"]
    assert deleted["result"] == "Applied"


def test_a_migration_is_given_up_before_the_quorum_has_taken_over(person: Person) -> None:
    """First while brokers get the flag, then before any has it: nothing of the controllers stays in ZooKeeper."""
    cluster = person.cluster
    for id_ in cluster.controllers:
        cluster.run(id_, Shape.MIGRATING_CONTROLLER)
    person.wants("DualWrite")
    person.apply(killed_after=1)
    flagged, shape = person.restarted[-1]
    assert shape is Shape.FLAGGED_BROKER
    person.wants("RolledBack")
    assert "delete /migration" in person.plan()
    person.apply()
    assert person.restarted[1:] == [(flagged, Shape.PLAIN_BROKER)]
    assert person.status["migration"]["brokers"] == {"zooKeeper": 3}
    assert person.at("/migration") is None

    for id_ in cluster.controllers:
        cluster.run(id_, Shape.MIGRATING_CONTROLLER)
    person.wants("PreMigration")
    person.apply()
    assert person.at("/migration")["kraft_metadata_offset"] == -1
    person.wants("RolledBack")
    person.apply()
    assert len(person.restarted) == 2
    assert person.at("/migration") is None
    assert person.at("/controller")["brokerid"] in cluster.brokers
    deleted = [one for one in person.status["history"] if one["kind"] == "DeleteZnodes"]
    assert [(one["target"], one["result"]) for one in deleted] == [("/migration", "Applied")] * 2


def where(cluster: MigratingCluster) -> list[str]:
    return [
        "--bootstrap-server", cluster.bootstrap_servers, "--bootstrap-controller", cluster.bootstrap_controllers,
        "--zookeeper", cluster.ensemble,
    ]  # fmt: skip
