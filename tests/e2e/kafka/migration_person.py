"""A person who migrates a real cluster from ZooKeeper with `apply`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from kafkafeatures.core.migration.edges import Beside
from kafkafeatures.core.migration.settings import Shape
from tests.e2e.kafka import by_hand
from tests.e2e.rig.migrating import MigratingCluster
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.zookeeper import ZooKeeper

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
        if Beside.NO_CONTROLLERS.value in says:
            for id_ in self.cluster.controllers:
                if self.cluster.nodes[id_].alive:
                    self.cluster.nodes[id_].stop()

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
