"""A whole cluster of Kafka 3.9 on its way from ZooKeeper to KRaft: three brokers, three controllers, as processes.

Settings are those of Kafka's documentation (3.9, "ZooKeeper to KRaft Migration"); each node is started with those of a
shape, and the test is the person who changes them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Self

from kafkafeatures.core.migration.settings import Shape
from tests.e2e.rig.cluster import uuid64
from tests.e2e.rig.process import Daemon, free_port
from tests.e2e.rig.releases import OLD, release
from tests.e2e.rig.zookeeper import ZooKeeper

FLAG = {"zookeeper.metadata.migration.enable": "true"}
IBP = "3.9"
BROKERS, CONTROLLERS = (1, 2, 3), (3001, 3002, 3003)


class MigratingCluster:
    """`nodes`: by id, those that were started, and `shapes`: as what. `version`: of Kafka, of a node that is started.
    `extra`: settings of every broker besides.

    `dynamic`: the first records of the quorum's log name its voters, and no node's settings do. `disks`: of each node.
    """

    def __init__(
        self,
        root: Path,
        zookeeper: ZooKeeper,
        *,
        chroot: str = "/kafka",
        brokers: tuple[int, ...] = BROKERS,
        controllers: tuple[int, ...] = CONTROLLERS,
        extra: Mapping[str, str] | None = None,
        dynamic: bool = False,
        disks: int = 1,
    ) -> None:
        self.root, self.ensemble = root, zookeeper.connect + chroot
        self.brokers, self.controllers = brokers, controllers
        self.ports = {id_: free_port() for id_ in (*brokers, *controllers)}
        self.nodes: dict[int, Daemon] = {}
        self.shapes: dict[int, Shape] = {}
        self.version = OLD
        self.extra, self.dynamic, self.disks = dict(extra or {}), dynamic, disks
        root.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{self.ports[id_]}" for id_ in self.brokers)

    @property
    def bootstrap_controllers(self) -> str:
        return ",".join(f"127.0.0.1:{self.ports[id_]}" for id_ in self.controllers)

    def settings(self, id_: int, shape: Shape) -> dict[str, str]:
        """All settings of a node that is to be this."""
        voters = ",".join(f"{one}@127.0.0.1:{self.ports[one]}" for one in self.controllers)
        dynamic = {"controller.quorum.bootstrap.servers": self.bootstrap_controllers}
        quorum = {
            **(dynamic if self.dynamic else {"controller.quorum.voters": voters}),
            "controller.listener.names": "CONTROLLER",
        }
        common = {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.cleaner.dedupe.buffer.size": "2097152",
            "log.dirs": ",".join(str(self.root / f"{id_}-data{'' if n == 0 else n}") for n in range(self.disks)),
        }
        zookeeper = {"zookeeper.connect": self.ensemble}
        plain = {
            **common, **zookeeper, "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[id_]}",
            "offsets.topic.replication.factor": "3", "num.replica.fetchers": "1", **self.extra,
        }  # fmt: skip
        controller = {
            **common, **quorum, "process.roles": "controller", "node.id": str(id_),
            "listeners": f"CONTROLLER://127.0.0.1:{self.ports[id_]}", "inter.broker.listener.name": "PLAINTEXT",
        }  # fmt: skip
        in_zookeeper = {**plain, "broker.id": str(id_), "inter.broker.protocol.version": IBP}
        kraft = {name: value for name, value in plain.items() if name not in zookeeper}
        return {
            Shape.PLAIN_BROKER: in_zookeeper,
            Shape.FLAGGED_BROKER: {**in_zookeeper, **quorum, **FLAG},
            Shape.KRAFT_BROKER: {**kraft, **quorum, "process.roles": "broker", "node.id": str(id_)},
            Shape.MIGRATING_CONTROLLER: {**controller, **zookeeper, **FLAG},
            Shape.CONTROLLER: controller,
        }[shape]

    def with_controllers(self, controllers: tuple[int, ...], name: str) -> MigratingCluster:
        """This cluster with the controllers of a dynamic quorum beside its brokers, which run already."""
        made = copy(self)
        made.controllers, made.dynamic, made.nodes = controllers, True, {}
        made.ports = {**self.ports, **{id_: free_port() for id_ in controllers}}
        made.root = self.root / name
        made.root.mkdir()
        return made

    def leader(self) -> int:
        """The active controller, by the files of the quorum; -1 while none is."""
        found = []
        for id_ in self.controllers:
            with suppress(OSError, ValueError):  # it is being written
                state = json.loads((self.root / f"{id_}-data" / "__cluster_metadata-0" / "quorum-state").read_text())
                found.append((int(state["leaderEpoch"]), int(state["leaderId"])))
        return max(found, default=(-1, -1))[1]

    def run(self, id_: int, shape: Shape, *, wait: bool = False) -> None:
        """Start a node, or start it again with other settings."""
        self.shapes[id_] = shape
        self.start(id_, self.settings(id_, shape), wait=wait)

    def kill_and_run(self, id_: int) -> None:
        """SIGKILL, and started again as it was."""
        self.nodes[id_].kill()
        self.run(id_, self.shapes[id_])

    def start(self, id_: int, properties: Mapping[str, str], *, wait: bool = False) -> None:
        """Start a node with these settings, or start it again with them."""
        before = self.nodes.get(id_)
        if before is not None and before.alive:
            before.stop()
        path = self.root / f"{id_}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        node = Daemon(release(self.version).java("kafka.Kafka", str(path)), self.root / f"{id_}.log")
        self.nodes[id_] = node
        node.start(wait=wait)

    def format_controllers(self, cluster_id: str, level: str = IBP) -> None:
        """Format the disks of all controllers for this cluster. level: the metadata.version, by its name."""
        voters = ",".join(f"{one}@127.0.0.1:{self.ports[one]}:{uuid64()}" for one in self.controllers)
        words = ("--release-version", level, *(("--initial-controllers", voters) if self.dynamic else ()))
        for id_ in self.controllers:
            path = self.root / f"{id_}.format"
            settings = self.settings(id_, Shape.MIGRATING_CONTROLLER)
            path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            tool = ("kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(path))
            subprocess.run(release(OLD).java(*tool, *words), check=True, capture_output=True, timeout=120)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for node in self.nodes.values():
            if node.alive:
                node.kill()
