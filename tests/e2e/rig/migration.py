"""A real cluster of Kafka 3.9 on its way from ZooKeeper to KRaft: a broker and a controller, phase by phase.

The settings are those of Kafka's documentation (3.9, "ZooKeeper to KRaft Migration"), applied by hand.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Self

from tests.e2e.rig.process import Daemon, free_port
from tests.e2e.rig.releases import OLD, release
from tests.e2e.rig.zookeeper import ZooKeeper

FLAG = {"zookeeper.metadata.migration.enable": "true"}
IBP = "3.9"


AUTHORIZERS = {
    True: "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    False: "kafka.security.authorizer.AclAuthorizer",
}
"""By whether it is for a node in KRaft mode."""


class Migration:
    """`broker`, `controller`: the processes; the second one is there once it was formatted.

    `authorizer`: ACLs hold, for all but ANONYMOUS, which is everyone who does not log in.
    """

    def __init__(self, root: Path, zookeeper: ZooKeeper, chroot: str = "/kafka", *, authorizer: bool = False) -> None:
        self.root, self._has_authorizer = root, authorizer
        self.ensemble = zookeeper.connect + chroot
        self.port, self.controller_port = free_port(), free_port()
        self._nodes: dict[str, Daemon] = {}
        self._common = {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "offsets.topic.replication.factor": "1",
            "log.cleaner.dedupe.buffer.size": "2097152",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "password.encoder.secret": "encodes-for-tests",
            "delegation.token.secret.key": "signs-for-tests",
            **({"super.users": "User:ANONYMOUS"} if authorizer else {}),
        }
        self._quorum = {
            "controller.quorum.voters": f"3001@127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
        }
        self._zookeeper = {"zookeeper.connect": self.ensemble}
        self._broker = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(root / "broker-data"),
            **self._common,
        }

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def bootstrap_controllers(self) -> str:
        return f"127.0.0.1:{self.controller_port}"

    @property
    def plain(self) -> dict[str, str]:
        """A broker in ZooKeeper mode."""
        ours = {"broker.id": "1", "inter.broker.protocol.version": IBP}
        return {**self._broker, **self._zookeeper, **self._authorizer(kraft=False), **ours}

    @property
    def flagged(self) -> dict[str, str]:
        """A broker in ZooKeeper mode, ready to be migrated."""
        return {**self.plain, **self._quorum, **FLAG}

    @property
    def kraft(self) -> dict[str, str]:
        """A broker in KRaft mode."""
        ours = {"process.roles": "broker", "node.id": "1"}
        return {**self._broker, **self._quorum, **self._authorizer(kraft=True), **ours}

    @property
    def controller(self) -> dict[str, str]:
        """A controller that knows nothing of ZooKeeper."""
        return {
            **self._common,
            **self._quorum,
            "process.roles": "controller",
            "node.id": "3001",
            "listeners": f"CONTROLLER://127.0.0.1:{self.controller_port}",
            "log.dirs": str(self.root / "controller-data"),
            "inter.broker.listener.name": "PLAINTEXT",
            **self._authorizer(kraft=True),
        }

    @property
    def migrating_controller(self) -> dict[str, str]:
        """A controller with the flag."""
        return {**self.controller, **self._zookeeper, **FLAG}

    def _authorizer(self, *, kraft: bool) -> dict[str, str]:
        return {"authorizer.class.name": AUTHORIZERS[kraft]} if self._has_authorizer else {}

    def run(self, name: str, properties: dict[str, str]) -> None:
        """Start a node, or start it again with other settings."""
        before = self._nodes.get(name)
        if before is not None:
            before.stop()
        path = self._written(name, properties)
        node = Daemon(release(OLD).java("kafka.Kafka", str(path)), self.root / f"{name}.log")
        self._nodes[name] = node
        node.start()

    def stop(self, name: str) -> None:
        """Stop a node, which is not started again."""
        self._nodes.pop(name).stop()

    @property
    def quorum_epoch(self) -> int:
        """At which the controller was elected last, by its own file; -1 while it never was."""
        try:
            found = json.loads(self._quorum_state.read_text())
        except (OSError, ValueError):  # it is being written
            return -1
        return int(found["leaderEpoch"]) if found["leaderId"] == 3001 else -1

    def raise_quorum_epoch(self, to: int) -> None:
        """While the controller is stopped: as if it had been elected that often."""
        found = json.loads(self._quorum_state.read_text())
        self._quorum_state.write_text(json.dumps({**found, "leaderEpoch": to}))

    @property
    def _quorum_state(self) -> Path:
        return self.root / "controller-data" / "__cluster_metadata-0" / "quorum-state"

    def format_controller(self, cluster_id: str) -> None:
        path = self._written("format", self.migrating_controller)
        command = release(OLD).java(
            "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(path), "--release-version", IBP
        )
        subprocess.run(command, check=True, capture_output=True, timeout=120)

    def _written(self, name: str, properties: dict[str, str]) -> Path:
        path = self.root / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for node in self._nodes.values():
            node.kill()
