"""Real Kafka nodes as plain processes on loopback: isolated or combined, static or dynamic quorum, every security kind.

    with Cluster(tmp_path, NEWEST, controllers=3, brokers=3) as cluster:
        cluster.bootstrap_servers, cluster.nodes[3001].kill(), cluster.leader(), cluster.tool(...)

A kind is what a listener speaks: PLAINTEXT, SSL (mTLS required), PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER (the
last four over SASL_SSL). The listener for clients is of `kind`, the controllers' of `controller_kind`; brokers speak
with each other over a plaintext listener of their own. `host` is where the others are, of a secured cluster: pods do
not reach loopback. Nothing outlives the test process: the kernel kills the nodes with it.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
import uuid
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.e2e.rig.asking import listed_brokers, past_moving_leaders
from tests.e2e.rig.certificates import Certificates
from tests.e2e.rig.listeners import SASL_KINDS, USERS, listener, protocol_of
from tests.e2e.rig.process import Daemon, free_port, wait_until
from tests.e2e.rig.releases import Release, release

CLIENT, INTERNAL, CONTROLLER = "CLIENT", "INTERNAL", "CONTROLLER"
LOOPBACK = "127.0.0.1"

REGISTERED = "registration has been persisted to the metadata log"  # ControllerRegistrationManager.scala


def uuid64() -> str:
    """A Kafka Uuid in base64; never with a leading dash, which tools take for a flag."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


class Node(Daemon):
    """One node. Ports by listener name. Its log is that of this life; those of earlier ones lie beside it."""

    def __init__(self, cluster: Cluster, id_: int, roles: str, version: str) -> None:
        self.cluster, self.id, self.roles, self.version = cluster, id_, roles, version
        self.folder = cluster.root / str(id_)
        self.folder.mkdir(parents=True, exist_ok=True)
        super().__init__([], self.folder / "log", lambda: "Kafka Server started" in self.log, os.environ)
        self.directory_id = uuid64()
        listeners = [CONTROLLER] if "controller" in roles else []
        if "broker" in roles:
            listeners += [CLIENT] if cluster.internal == CLIENT else [CLIENT, INTERNAL]
        self.ports = {name: free_port() for name in listeners}
        self.extra: dict[str, str] = {}

    @property
    def name(self) -> str:
        return f"node {self.id}"

    @property
    def port(self) -> int:
        """The port of the listener for clients, or of the controller's."""
        return self.ports.get(CLIENT) or self.ports[CONTROLLER]

    def has_registered(self) -> bool:
        """Whether it registered as a controller since it was started."""
        return REGISTERED in self.log

    @property
    def metadata_dir(self) -> Path:
        return self.folder / "data" / "__cluster_metadata-0"

    def start(self, version: str | None = None, *, wait: bool = True) -> None:
        self.version = version or self.version
        self.write_properties()
        if self.log_file.exists():
            self.log_file.rename(self.folder / f"log.{time.monotonic_ns()}")
        self.command = release(self.version).java("kafka.Kafka", str(self.folder / "server.properties"))
        self.command[1:1] = self.cluster.jvm
        super().start(wait=wait)

    def write_properties(self) -> None:
        lines = {**self.cluster.node_properties(self), **self.extra}
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        (self.folder / "server.properties").write_text(text)


class Cluster:
    """See the prologue. `versions`: node id -> version where it differs; `properties`: for all nodes."""

    def __init__(
        self,
        root: Path,
        version: str,
        *,
        controllers: int = 3,
        brokers: int = 3,
        combined: int = 0,
        dynamic: bool = False,
        kind: str = "PLAINTEXT",
        controller_kind: str | None = None,
        release_version: str | None = None,
        authorizer: bool = False,
        versions: Mapping[int, str] | None = None,
        properties: Mapping[str, str] | None = None,
        node_certificate: tuple[str, str] | None = None,
        certificates: Certificates | None = None,
        jwks: Path | None = None,
        host: str = LOOPBACK,
    ) -> None:
        self.root, self.version, self.host = root, version, host
        self.dynamic, self.kind, self.authorizer = dynamic, kind, authorizer
        # SCRAM credentials lie in the metadata log, which controllers read only once they have spoken with each other.
        self.controller_kind = controller_kind or ("PLAIN" if kind.startswith("SCRAM") else kind)
        self.internal = CLIENT if kind == "PLAINTEXT" else INTERNAL
        self.release_version = release_version
        self.properties = dict(properties or {})
        self.certificates = certificates or Certificates(host)
        self.node_certificate = node_certificate or self.certificates.node
        self.jwks = jwks
        self.jvm = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks.as_uri()}"] if jwks else []
        self.cluster_id = uuid64()
        own = dict(versions or {})
        roles = {3001 + n: "controller" for n in range(controllers)}
        roles |= {1 + n: "broker,controller" for n in range(combined)}
        roles |= {1 + combined + n: "broker" for n in range(brokers)}
        root.mkdir(parents=True, exist_ok=True)
        self._write_pem()
        self.nodes = {id_: Node(self, id_, role, own.get(id_, version)) for id_, role in roles.items()}

    @property
    def release(self) -> Release:
        return release(self.version)

    @property
    def controllers(self) -> list[Node]:
        return [node for node in self.nodes.values() if "controller" in node.roles]

    @property
    def brokers(self) -> list[Node]:
        return [node for node in self.nodes.values() if "broker" in node.roles]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{self.host}:{node.ports[CLIENT]}" for node in self.brokers)

    @property
    def bootstrap_controllers(self) -> str:
        return ",".join(f"{self.host}:{node.ports[CONTROLLER]}" for node in self.controllers)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def start(self) -> None:
        try:
            for node in self.nodes.values():
                self._format(node)
            for node in self.nodes.values():
                node.start(wait=False)
            self.wait_ready()
        except BaseException:
            self.stop()
            raise

    def wait_ready(self) -> None:
        """All nodes started, and known to each other: that comes a little later (controllers register from 3.7 on)."""
        living = [node for node in self.nodes.values() if node.alive]
        for node in living:
            self._started(node)
            if "controller" in node.roles and (self.release_version or "4") >= "3.7":
                wait_until(f"controller {node.id} is registered", node.has_registered)
        brokers = {node.id for node in living if "broker" in node.roles}
        ports = [self.nodes[id_].ports[self.internal] for id_ in sorted(brokers)]
        wait_until(f"each broker lists {brokers}", lambda: all(listed_brokers(port) >= brokers for port in ports))

    def _started(self, node: Node) -> None:
        """Wait for it. A broker of Kafka 4.1 may hang if the leader changes while it registers: it is started anew."""
        try:
            node.wait_ready(60)
        except AssertionError:
            if not node.alive:
                raise
            node.kill()
            node.start()

    def stop(self) -> None:
        for node in self.nodes.values():
            node.kill()

    def heal(self) -> None:
        """All nodes run again, whatever a test did to them."""
        for node in self.nodes.values():
            node.thaw()
            if not node.alive:
                node.start(wait=False)
        self.wait_ready()

    def add_broker(self, id_: int, version: str | None = None, *, start: bool = True) -> Node:
        node = Node(self, id_, "broker", version or self.version)
        self.nodes[id_] = node
        self._format(node)
        if start:
            node.start()
        return node

    def remove_node(self, id_: int) -> None:
        """Kill a node that a test added, and take it out of the cluster."""
        self.nodes.pop(id_).kill()

    def leader(self, *, other_than: int | None = None, seconds: float = 60.0) -> int:
        """The active controller, as the quorum-state files of the live controllers have it."""
        found: list[int] = []

        def known() -> bool:
            states = []
            for node in self.controllers:
                path = node.metadata_dir / "quorum-state"
                if node.alive and path.exists():
                    try:
                        state = json.loads(path.read_text())
                    except ValueError:
                        continue  # being replaced
                    states.append((state["leaderEpoch"], state["leaderId"]))
            newest = max(states, default=(-1, -1))
            found[:] = [newest[1]]
            return newest[1] >= 0 and newest[1] != other_than and self.nodes[newest[1]].alive

        wait_until("a leader is elected", known, seconds)
        return found[0]

    # --- Kafka's own tools ---

    def tool_command(self, main: str, *arguments: str, user: str | None = "alice") -> list[str]:
        """The command line; for a secured cluster with a client's properties."""
        words = list(arguments)
        if self.kind != "PLAINTEXT" and user is not None:
            flag = "--command-config"
            path = self.client_config(user)
            where = 1 if main.endswith("StorageTool") else 0
            words[where:where] = [flag, str(path)]
        return self.release.java(main, *words, log4j="tool")

    def tool(self, main: str, *arguments: str, user: str | None = "alice") -> subprocess.CompletedProcess[str]:
        command = self.tool_command(main, *arguments, user=user)
        return past_moving_leaders(
            lambda: subprocess.run(command, capture_output=True, text=True, check=False, timeout=120), self.leader
        )

    def remove_voter(self, node: Node) -> None:
        """Take a controller out of a dynamic quorum. It stays registered.

        Asked of the controllers: a broker continues forwarding to one that answers NotLeaderOrFollower.
        """
        done = self.tool(
            "org.apache.kafka.tools.MetadataQuorumCommand",
            *("--bootstrap-controller", self.bootstrap_controllers, "remove-controller"),
            *("--controller-id", str(node.id), "--controller-directory-id", node.directory_id),
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def features(self) -> dict[str, tuple[str, str, str]]:
        """feature -> (min, max, finalized) in the words of `FeatureCommand describe`."""
        done = self.tool(
            "org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", self.bootstrap_servers, "describe"
        )
        assert done.returncode == 0, done.stderr
        found = {}
        for line in done.stdout.splitlines():
            words = line.replace("\t", " ").split()
            row = dict(zip(words[::2], words[1::2], strict=False))
            found[row["Feature:"]] = (
                row["SupportedMinVersion:"],
                row["SupportedMaxVersion:"],
                row["FinalizedVersionLevel:"],
            )
        return found

    def client_config(self, user: str = "alice", *, kind: str | None = None) -> Path:
        """Kafka client properties for a listener of `kind`, by default the clients' one."""
        kind = kind or self.kind
        lines = {"security.protocol": protocol_of(kind)}
        if kind != "PLAINTEXT":
            lines |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.root / "ca.pem")}
        if kind == "SSL":
            certificate, key = self.certificates.client(user)
            path = self.root / f"client-{user}.pem"
            path.write_text(certificate + key)
            lines |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}
        elif kind in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            module = "plain.Plain" if kind == "PLAIN" else "scram.Scram"
            lines["sasl.mechanism"] = kind
            lines["sasl.jaas.config"] = (
                f"org.apache.kafka.common.security.{module}LoginModule required "
                f'username="{user}" password="{USERS[user]}";'
            )
        path = self.root / f"client-{user}-{kind}-{uuid64()[:6]}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return path

    # --- configuration ---

    def node_properties(self, node: Node) -> dict[str, str]:
        voters = ",".join(f"{n.id}@{self.host}:{n.ports[CONTROLLER]}" for n in self.controllers)
        kinds = {CLIENT: self.kind, self.internal: "PLAINTEXT", CONTROLLER: self.controller_kind}
        hosts = {CLIENT: self.host, self.internal: LOOPBACK, CONTROLLER: self.host}
        lines = {
            "process.roles": node.roles,
            "node.id": str(node.id),
            "log.dirs": str(node.folder / "data"),
            "listeners": ",".join(f"{name}://{hosts[name]}:{port}" for name, port in node.ports.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol_of(kind)}" for name, kind in kinds.items()),
            "controller.listener.names": CONTROLLER,
            "inter.broker.listener.name": self.internal,
            "offsets.topic.replication.factor": "1",
            "log.cleaner.dedupe.buffer.size": "2097152",
            "group.initial.rebalance.delay.ms": "0",
            "initial.broker.registration.timeout.ms": "120000",  # as long as a start is waited for
        }
        if self.dynamic:
            lines["controller.quorum.bootstrap.servers"] = self.bootstrap_controllers
        else:
            lines["controller.quorum.voters"] = voters
        for name in {*node.ports, CONTROLLER}:
            lines |= listener(name, kinds[name], self.root, self.jwks)
        if self.controller_kind in SASL_KINDS:
            lines["sasl.mechanism.controller.protocol"] = self.controller_kind
        if self.authorizer:
            lines["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            lines["super.users"] = "User:node;User:ANONYMOUS;User:CN=node"
        return {**lines, **self.properties}

    def _write_pem(self) -> None:
        (self.root / "ca.pem").write_text(self.certificates.ca)
        (self.root / "node.pem").write_text("".join(self.node_certificate))

    # --- formatting ---

    def _format(self, node: Node) -> None:
        """With Kafka's tool once for each kind of node on this machine; others get a copy: a JVM for each is slow.

        The first records of a dynamic quorum name its voters, so that cluster alone can use them; what all others of a
        kind begin with is the same, and kept with the release.
        """
        voter = "controller" in node.roles
        logins = f"{self.kind}-{zlib.crc32(repr(USERS).encode()):x}" if self.kind.startswith("SCRAM") else "none"
        quorum, role = "dynamic" if self.dynamic else "static", "voter" if voter else "broker"
        kind = "-".join((self.release_version or "newest", quorum, role, logins))
        formatted = self.root / "formatted" if self.dynamic and voter else self.release.home / "formatted" / kind
        if not formatted.exists():
            self._format_with_tool(node)
            _keep(node.folder / "data", formatted)
        else:
            shutil.copytree(formatted, node.folder / "data")
        meta = node.folder / "data" / "meta.properties"
        lines = dict(line.split("=", 1) for line in meta.read_text().splitlines() if "=" in line and line[0] != "#")
        lines |= {"node.id": str(node.id), "cluster.id": self.cluster_id}
        if self.dynamic or "directory.id" in lines:
            lines["directory.id"] = node.directory_id
        meta.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    def _format_with_tool(self, node: Node) -> None:
        node.write_properties()
        words = ["format", f"--cluster-id={self.cluster_id}", "-c", str(node.folder / "server.properties")]
        if self.release_version:
            words += ["--release-version", self.release_version]
        if self.dynamic and "controller" in node.roles:
            voters = (f"{n.id}@{self.host}:{n.ports[CONTROLLER]}:{n.directory_id}" for n in self.controllers)
            words += ["--initial-controllers", ",".join(voters)]
        if self.kind.startswith("SCRAM"):
            for user, password in USERS.items():
                words += ["--add-scram", f"{self.kind}=[name={user},password={password}]"]
        done = subprocess.run(
            self.release.java("kafka.tools.StorageTool", *words, log4j="tool"),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def _keep(folder: Path, name: Path) -> None:
    """A copy under this name, whole or not at all; another process may be about the same."""
    name.parent.mkdir(exist_ok=True)
    copy = name.with_name(f"{name.name}.{uuid64()}")
    shutil.copytree(folder, copy)
    try:
        copy.rename(name)
    except OSError:  # the other one was faster
        shutil.rmtree(copy)
