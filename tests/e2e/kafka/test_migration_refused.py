"""States of a migration that Kafka does not leave by itself, made on real nodes: `apply` names each and sends nothing.

`apply` has every consent and every right. All tests use one cluster, in their order.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from kazoo.client import KazooClient

from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.core.migration.settings import Shape
from tests.e2e.kafka import by_hand
from tests.e2e.kafka.cli import run
from tests.e2e.rig.migrating import MigratingCluster
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.zookeeper import ZooKeeper, read_znode

BROKER, CONTROLLER = 1, 3001
WATCHED = ("/controller", "/controller_epoch", "/migration")
FLAG = "zookeeper.metadata.migration.enable"
STALE = {
    "version": 0, "kraft_metadata_offset": 5, "kraft_controller_id": 3001, "kraft_controller_epoch": 1,
    "kraft_metadata_epoch": 1,
}  # fmt: skip
LIES: Mapping[str, Any] = {
    "phase": "DualWrite", "position": "DualWrite", "since": "2020-01-01T00:00:00Z", "zkMigrationState": "MIGRATION",
    "brokers": {"kraft": 1}, "equality": {"at": "2020-01-01T00:00:00Z", "state": "Equal", "differences": 0},
    "lagRecords": 0, "restartsLeft": 0,
}  # fmt: skip
"""A status that claims that the migration reached dual write years ago."""


class Refused:
    """The cluster, a client of its ensemble that may write, and a document that `apply` refuses."""

    def __init__(self, cluster: MigratingCluster, client: KazooClient, folder: Path) -> None:
        self.cluster, self.client, self.folder = cluster, client, folder
        self.cluster_id = ""

    def at(self, path: str) -> Any:
        return read_znode(self.client, f"/kafka{path}")

    def written(self) -> list[Any]:
        """The last transaction of each znode. Of `/migration` the first one, because an idle quorum writes it again."""
        stats = [self.client.exists(f"/kafka{path}") for path in WATCHED]
        both = zip(WATCHED, stats, strict=True)
        return [stat and (stat.czxid if path == "/migration" else stat.mzxid) for path, stat in both]

    def apply(self, desired: str, *consents: str, migration: Mapping[str, Any] | None = None) -> str:
        """The output of `apply` until it gives up. Asserts that it changed no znode and sent nothing.

        `migration`: what a person wrote into the status.
        """
        file = self.folder / "orders.yaml"
        document = by_hand.document(
            self.cluster, consents=list(consents), migration={"desired": desired, "holdDualWriteFor": "0m"}
        )
        file.write_text(yaml.safe_dump(document))
        state = file.with_suffix(".status.yaml")
        state.unlink(missing_ok=True)
        if migration is not None:
            status = {"clusterId": self.cluster_id, "migration": migration}
            metadata = {"name": "orders", "namespace": "default", "generation": 1}
            state.write_text(yaml.safe_dump({**document, "metadata": metadata, "status": status}))
        before = self.written()
        done = run("apply", "-f", str(file), "--yes", "--timeout", "10s", "-o", "yaml")
        assert self.written() == before
        assert done.returncode not in (0, 1), done.stderr  # 1 is the code of an unexpected error
        assert "Traceback" not in done.stderr
        status = yaml.safe_load(state.read_text())["status"]
        assert not status.get("intents")
        assert not [one for one in status.get("history", ()) if one["result"] == "Applied"]
        return " ".join((done.stdout + done.stderr).split())

    def begins_anew(self, shape: Shape) -> None:
        """Wipe, format and start the controller."""
        before = self.cluster.nodes.get(CONTROLLER)
        if before is not None and before.alive:
            before.stop()
        shutil.rmtree(self.cluster.root / f"{CONTROLLER}-data", ignore_errors=True)
        self.cluster.format_controllers(self.cluster_id)
        self.cluster.run(CONTROLLER, shape)

    def describe(self) -> dict[str, Any]:
        """The output of `describe`; empty while a node does not answer yet."""
        addresses = (
            *("--bootstrap-server", self.cluster.bootstrap_servers),
            *("--bootstrap-controller", self.cluster.bootstrap_controllers),
        )
        done = run("describe", "--zookeeper", self.cluster.ensemble, *addresses, "-o", "json")
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {}

    def until_led(self) -> None:
        """Wait until the controller leads its quorum."""
        wait_until("the controller leads", lambda: self.describe().get("source", {}).get("kind") == "MetadataLog")

    def until_copied(self) -> None:
        """Wait until the quorum has claimed ZooKeeper and copied all metadata."""
        offset = "kraft_metadata_offset"
        wait_until("ZooKeeper is copied", lambda: (self.at("/migration") or {}).get(offset, -1) > 0)

    def until_answers(self) -> None:
        """Wait until the broker answers."""

        def answers() -> bool:
            return any(
                one["id"] == BROKER and one["state"] != "Unreachable" for one in self.describe().get("nodes", ())
            )

        wait_until("the broker answers", answers)


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refused]:
    root = tmp_path_factory.mktemp("refused")
    extra = {"offsets.topic.replication.factor": "1"}
    with (
        ZooKeeper(root / "zookeeper") as zookeeper,
        MigratingCluster(
            root / "nodes", zookeeper, brokers=(BROKER,), controllers=(CONTROLLER,), extra=extra
        ) as cluster,
    ):
        client = KazooClient(zookeeper.connect)
        client.start()
        try:
            refused = Refused(cluster, client, root)
            cluster.run(BROKER, Shape.PLAIN_BROKER)
            wait_until("a broker is controller", lambda: refused.at("/controller") is not None)
            refused.cluster_id = refused.at("/cluster/id")["id"]
            yield refused
        finally:
            client.stop()
            client.close()


def test_a_controller_that_was_started_without_the_flag_blocks_the_migration(refused: Refused) -> None:
    refused.begins_anew(Shape.CONTROLLER)
    refused.until_led()
    output = refused.apply("DualWrite")
    assert f"controllers were started without {FLAG}: {CONTROLLER}" in output
    assert "wipe the controllers' disks" in output
    assert "wipe the controllers' disks" in refused.apply("Finalized", "zk-finalize")


def test_a_stale_migration_znode_of_an_earlier_attempt_blocks_the_migration(refused: Refused) -> None:
    refused.cluster.nodes[CONTROLLER].stop()
    refused.client.create("/kafka/migration", json.dumps(STALE).encode())
    assert "start no controller; delete /migration" in refused.apply("DualWrite")  # before a controller uses it
    refused.begins_anew(Shape.MIGRATING_CONTROLLER)
    refused.until_led()
    output = refused.apply("DualWrite")
    assert "/migration says that ZooKeeper was copied up to offset 5" in output
    assert "delete every topic" in output
    refused.cluster.nodes[CONTROLLER].stop()
    refused.client.delete("/kafka/migration")


def test_a_missing_voter_of_a_dynamic_quorum_blocks_the_migration(refused: Refused) -> None:
    """Two of three controllers run. Kafka would start the migration: it does not check this for a dynamic quorum."""
    dynamic = refused.cluster.with_controllers((3001, 3002, 3003), "dynamic")
    with dynamic:
        dynamic.format_controllers(refused.cluster_id)
        for id_ in (3001, 3002):
            dynamic.run(id_, Shape.MIGRATING_CONTROLLER)
        quorum = Refused(dynamic, refused.client, refused.folder)
        quorum.until_led()
        output = quorum.apply("DualWrite")
    assert "controller 3003 is a voter that has not registered" in output
    assert "start controller 3003" in output
    refused.client.delete("/kafka/migration")


def test_a_broker_whose_protocol_version_is_changed_while_it_has_the_flag_blocks_the_migration(
    refused: Refused,
) -> None:
    """Kafka only logs this: before the copy it waits forever, and after it, it fences that broker."""
    cluster = refused.cluster
    changed = {**cluster.settings(BROKER, Shape.FLAGGED_BROKER), IBP: "3.8"}
    says = f"broker {BROKER} has {IBP} 3.8, and the controllers have metadata.version 3.9-IV0"
    refused.begins_anew(Shape.MIGRATING_CONTROLLER)
    cluster.start(BROKER, changed)
    refused.until_led()
    refused.until_answers()
    assert says in refused.apply("DualWrite")
    cluster.run(BROKER, Shape.FLAGGED_BROKER)
    refused.until_copied()
    cluster.start(BROKER, changed)
    refused.until_answers()
    output = refused.apply("DualWrite")
    assert says in output
    assert f"set {IBP}=3.9 on broker {BROKER}, and restart it" in output


def test_a_status_edited_by_hand_does_not_move_a_migration(refused: Refused) -> None:
    output = refused.apply("Finalized", "zk-finalize", migration=LIES)
    assert "the cluster is at Copied; a migration can be finalized only from DualWrite" in output
    assert "phase: Migrating position: Copied" in output


def test_controllers_with_the_disks_of_a_rolled_back_attempt_block_the_migration(refused: Refused) -> None:
    refused.cluster.nodes[CONTROLLER].stop()  # ZooKeeper is copied by now
    refused.client.delete("/kafka/migration")
    refused.client.delete("/kafka/controller")
    wait_until("a broker is controller", lambda: (refused.at("/controller") or {}).get("brokerid") == BROKER)
    refused.cluster.run(CONTROLLER, Shape.MIGRATING_CONTROLLER)
    refused.until_led()
    output = refused.apply("DualWrite")
    assert "still have the disks of an earlier attempt, or /controller and /migration were deleted" in output
    assert "wipe the controllers' disks, format them, and begin again" in output
