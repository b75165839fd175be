"""A person who migrates a real cluster with `apply`: writes the document, and does what its status asks for."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL
from typing import Any

import yaml
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

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
            return json.loads(client.get(path)[0])
        except NoNodeError:
            return None
        finally:
            client.stop()
            client.close()

    def plan(self) -> str:
        done = run("plan", "-f", str(self.file))
        return " ".join((done.stdout + done.stderr).split())  # a table is cut into lines

    def start_controllers(self) -> None:
        """With the flag, as they are for a migration."""
        for id_ in self.cluster.controllers:
            self.cluster.run(id_, Shape.MIGRATING_CONTROLLER)

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


@contextmanager
def migrating(folder: Path, **options: Any) -> Iterator[Person]:
    """A person with a cluster in ZooKeeper mode, whose controllers have formatted disks and do not run yet.

    `options`: of the cluster.
    """
    with (
        ZooKeeper(folder / "zookeeper") as zookeeper,
        MigratingCluster(folder / "nodes", zookeeper, **options) as cluster,
    ):
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
        yield Person(cluster, folder)


def _children(client: KazooClient, path: str) -> list[str]:
    return list(client.get_children(path)) if client.exists(path) else []
