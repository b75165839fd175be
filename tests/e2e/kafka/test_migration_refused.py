"""States of a migration that Kafka does not leave by itself, made on real nodes: each is refused by name, by an `apply`
that may do everything, and nothing is sent. One cluster lives through all of them, in their order.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kazoo.client import KazooClient

from kafkafeatures.api.names import API_VERSION, KIND
from kafkafeatures.core.migration.settings import Shape
from tests.e2e.kafka.cli import run
from tests.e2e.rig.migrating import MigratingCluster
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.zookeeper import ZooKeeper

BROKER, CONTROLLER = 1, 3001
WATCHED = ("/controller", "/controller_epoch", "/migration")
FLAG = "zookeeper.metadata.migration.enable"
STALE = {
    "version": 0, "kraft_metadata_offset": 5, "kraft_controller_id": 3001, "kraft_controller_epoch": 1,
    "kraft_metadata_epoch": 1,
}  # fmt: skip


class Refused:
    """The cluster, a client of its ensemble that may write, and one document."""

    def __init__(self, cluster: MigratingCluster, client: KazooClient, folder: Path) -> None:
        self.cluster, self.client, self.folder = cluster, client, folder
        self.cluster_id = ""

    def at(self, path: str) -> Any:
        """What stands in a znode; None where it is absent."""
        return json.loads(self.client.get(f"/kafka{path}")[0]) if self.client.exists(f"/kafka{path}") else None

    def written(self) -> list[Any]:
        """By which transactions znodes are as they are. An idle quorum moves `/migration`, so of that who made it."""
        found = [self.client.exists(f"/kafka{path}") for path in WATCHED]
        both = zip(WATCHED, found, strict=True)
        return [one and (one.czxid if path == "/migration" else one.mzxid) for path, one in both]

    def apply(self, desired: str, *consents: str) -> str:
        """What `apply` says until it gives up; znodes and processes are as they were."""
        spec = {
            "cluster": {
                "bootstrapServers": self.cluster.bootstrap_servers,
                "bootstrapControllers": self.cluster.bootstrap_controllers,
                "zookeeper": {"connect": self.cluster.ensemble},
            },
            "workload": {"driver": "Manual"},
            "consents": list(consents),
            "migration": {"desired": desired, "holdDualWriteFor": "0m"},
        }
        file = self.folder / "orders.yaml"
        document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "orders"}, "spec": spec}
        file.write_text(yaml.safe_dump(document))
        file.with_suffix(".status.yaml").unlink(missing_ok=True)
        before = self.written()
        done = run("apply", "-f", str(file), "--yes", "--timeout", "10s")
        assert self.written() == before
        assert done.returncode not in (0, 1), done.stderr  # 1 is what no message was written for
        assert "Traceback" not in done.stderr
        status = yaml.safe_load(file.with_suffix(".status.yaml").read_text())["status"]
        assert not status.get("intents")
        assert not [one for one in status.get("history", ()) if one["result"] == "Applied"]
        return " ".join((done.stdout + done.stderr).split())

    def begins_anew(self, shape: Shape) -> None:
        """The controller is wiped, formatted and started."""
        before = self.cluster.nodes.get(CONTROLLER)
        if before is not None and before.alive:
            before.stop()
        shutil.rmtree(self.cluster.root / f"{CONTROLLER}-data", ignore_errors=True)
        self.cluster.format_controllers(self.cluster_id)
        self.cluster.run(CONTROLLER, shape)

    def describe(self) -> dict[str, Any]:
        """What is read of the cluster; empty while something does not answer yet."""
        where = (
            *("--bootstrap-server", self.cluster.bootstrap_servers),
            *("--bootstrap-controller", self.cluster.bootstrap_controllers),
        )
        done = run("describe", "--zookeeper", self.cluster.ensemble, *where, "-o", "json")
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {}

    def until_led(self) -> None:
        """Wait until the controller leads its quorum."""
        wait_until("the controller leads", lambda: self.describe().get("source", {}).get("kind") == "MetadataLog")


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refused]:
    root = tmp_path_factory.mktemp("refused")
    extra = {"offsets.topic.replication.factor": "1"}
    with (
        ZooKeeper(root / "zookeeper") as zookeeper,
        MigratingCluster(root / "nodes", zookeeper, brokers=(BROKER,), controllers=(CONTROLLER,), extra=extra) as made,
    ):
        client = KazooClient(zookeeper.connect)
        client.start()
        try:
            found = Refused(made, client, root)
            made.run(BROKER, Shape.PLAIN_BROKER)
            wait_until("a broker is controller", lambda: found.at("/controller") is not None)
            found.cluster_id = found.at("/cluster/id")["id"]
            yield found
        finally:
            client.stop()
            client.close()


def test_a_controller_that_was_started_without_the_flag(refused: Refused) -> None:
    refused.begins_anew(Shape.CONTROLLER)
    refused.until_led()
    found = refused.apply("DualWrite")
    assert f"controllers were started without {FLAG}: {CONTROLLER}" in found
    assert "wipe the controllers' disks" in found
    assert "wipe the controllers' disks" in refused.apply("Finalized", "zk-finalize")


def test_a_stale_migration_znode_of_an_earlier_attempt(refused: Refused) -> None:
    refused.cluster.nodes[CONTROLLER].stop()
    refused.client.create("/kafka/migration", json.dumps(STALE).encode())
    assert "start no controller; delete /migration" in refused.apply("DualWrite")  # while there is still time
    refused.begins_anew(Shape.MIGRATING_CONTROLLER)
    refused.until_led()
    found = refused.apply("DualWrite")
    assert "/migration says that ZooKeeper was copied up to offset 5" in found
    assert "every topic deleted" in found
    refused.cluster.nodes[CONTROLLER].stop()
    refused.client.delete("/kafka/migration")


def test_controllers_that_kept_their_disks_of_an_attempt_that_was_rolled_back(refused: Refused) -> None:
    refused.begins_anew(Shape.MIGRATING_CONTROLLER)
    refused.cluster.run(BROKER, Shape.FLAGGED_BROKER)
    wait_until(
        "ZooKeeper is copied",
        lambda: (refused.at("/migration") or {}).get("kraft_metadata_offset", -1) > 0,
    )
    refused.cluster.nodes[CONTROLLER].stop()
    refused.client.delete("/kafka/migration")
    refused.client.delete("/kafka/controller")
    wait_until("a broker is controller", lambda: (refused.at("/controller") or {}).get("brokerid") == BROKER)
    refused.cluster.run(CONTROLLER, Shape.MIGRATING_CONTROLLER)
    refused.until_led()
    found = refused.apply("DualWrite")
    assert "the controllers kept their disks of an earlier attempt, and take over never" in found
    assert "wipe the controllers' disks, format them, and begin again" in found
