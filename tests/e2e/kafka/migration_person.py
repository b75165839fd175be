"""A person who migrates a real cluster from ZooKeeper with `apply`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from kazoo.client import KazooClient

from kafkafeatures.core.migration.edges import PersonAction
from kafkafeatures.core.migration.settings import Shape
from tests.e2e.kafka import by_hand
from tests.e2e.rig.migrating import MigratingCluster
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.zookeeper import ZooKeeper, read_znode

ASKED = re.compile(r"restart (?:broker|controller) (\d+) as ([^:;]*):")


class Person(by_hand.Person[Shape]):
    """Restarts nodes as what they are to be, and stops the controllers where they are to be gone."""

    patience = 150.0

    def wants(self, desired: str, *consents: str, stable_for: str = "1s") -> None:
        self.writes(
            rollout={"stableFor": stable_for},
            consents=list(consents),
            migration={"desired": desired, "holdDualWriteFor": "0m"},
        )

    def asked_in(self, says: str) -> tuple[int, Shape] | None:
        asked = ASKED.match(says)
        return (int(asked[1]), Shape(asked[2])) if asked is not None else None

    def restart(self, id_: int, how: Shape) -> None:
        self.cluster.run(id_, how)

    def meanwhile(self, says: str) -> None:
        if PersonAction.NO_CONTROLLERS.value in says:
            for id_ in self.cluster.controllers:
                if self.cluster.nodes[id_].alive:
                    self.cluster.nodes[id_].stop()

    def finds(self, **where: Any) -> None:
        """The document leads elsewhere; all else in it stays."""
        written = yaml.safe_load(self.file.read_text())
        written["spec"]["cluster"] |= where
        self.file.write_text(yaml.safe_dump(written))

    def at(self, path: str, chroot: str = "") -> Any:
        """What stands in a znode below the chroot, that of the cluster if it is empty; None where it is absent."""
        with self._client(chroot) as client:
            return read_znode(client, path)

    def deletes(self, *paths: str) -> None:
        """Znodes below the chroot, by hand."""
        with self._client("") as client:
            for path in paths:
                client.delete(path)

    def follows(self, remedy: str) -> None:
        """What is advised where a znode was deleted: it is created again, and the active controller restarted."""
        content = re.search(r"create /migration '([^']*)'", remedy)
        if content is not None:
            with self._client("") as client:
                client.create("/migration", content[1].encode())
        active = self.cluster.leader()
        self.cluster.run(active, self.cluster.shapes[active])

    def ensemble_of_another_cluster(self) -> str:
        """Where the same servers keep another cluster, of which a migration has begun."""
        with self._client("/") as client:
            for path, content in (
                ("/cluster/id", {"version": "1", "id": "another"}),
                ("/migration", {**self.at("/migration"), "kraft_metadata_offset": 5}),
                ("/controller", self.at("/controller")),
            ):
                client.create(f"/another{path}", json.dumps(content).encode(), makepath=True)
            client.ensure_path("/another/brokers/ids")
        return self._connect("/another")

    def _connect(self, chroot: str) -> str:
        return self.cluster.ensemble.partition("/")[0] + chroot if chroot else self.cluster.ensemble

    @contextmanager
    def _client(self, chroot: str) -> Iterator[KazooClient]:
        client = KazooClient(self._connect(chroot))
        client.start()
        try:
            yield client
        finally:
            client.stop()
            client.close()

    def start_controllers(self) -> None:
        """With the flag, as they are for a migration."""
        for id_ in self.cluster.controllers:
            self.cluster.run(id_, Shape.MIGRATING_CONTROLLER)


@contextmanager
def migrating(folder: Path, **how: Any) -> Iterator[Person]:
    """A person with a cluster in ZooKeeper mode, whose controllers have formatted disks and do not run yet. `how`: the
    cluster is otherwise than `MigratingCluster` makes it.
    """
    with ZooKeeper(folder / "zookeeper") as zookeeper, MigratingCluster(folder / "nodes", zookeeper, **how) as cluster:
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
