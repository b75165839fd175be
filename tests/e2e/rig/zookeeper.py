"""A real ZooKeeper ensemble as plain processes on loopback: the one that Kafka 3.9 brings.

    with ZooKeeper(tmp_path) as ensemble:
        ensemble.connect, ensemble.servers[0].kill()

Each server has a port without TLS; with `certificates` a second one with it, where a client certificate is required.
Clients reach it at `address`, which for those in pods is another one than loopback.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.e2e.rig.certificates import Certificates
from tests.e2e.rig.process import Daemon, free_port
from tests.e2e.rig.releases import OLD, release

TICK_MS = 500


def read_znode(client: KazooClient, path: str) -> Any:
    """The JSON of a znode; None where it is absent. In one request: an ephemeral one may go after it was seen."""
    try:
        return json.loads(client.get(path)[0])
    except NoNodeError:
        return None


class Server(Daemon):
    """One server of an ensemble."""

    def __init__(self, folder: Path, number: int, address: str) -> None:
        self.folder, self.number, self.address = folder, number, address
        self.port, self.secure_port, self.peer_port, self.election_port = (free_port() for _ in range(4))
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "myid").write_text(str(number))
        command = release(OLD).java("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(folder / "zoo.cfg"))
        super().__init__(command, folder / "log", lambda: self.asked("srvr").startswith("Zookeeper version"))

    @property
    def name(self) -> str:
        return f"ZooKeeper {self.number}"

    def asked(self, word: str) -> str:
        """What it answers to a word of four letters; empty where it does not."""
        try:
            with socket.create_connection((self.address, self.port), timeout=2) as link:
                link.sendall(word.encode())
                return link.makefile().read()
        except OSError:
            return ""

    @property
    def leads(self) -> bool:
        return "Mode: leader" in self.asked("srvr")


class ZooKeeper:
    """See the prologue. `servers`: one, or three that elect a leader."""

    def __init__(
        self, root: Path, servers: int = 1, certificates: Certificates | None = None, *, address: str = "127.0.0.1"
    ) -> None:
        self.root, self.certificates = root, certificates
        self.servers = [Server(root / f"zookeeper-{number}", number, address) for number in range(1, servers + 1)]
        for one in self.servers:
            (one.folder / "zoo.cfg").write_text("".join(f"{key}={value}\n" for key, value in self._lines(one).items()))

    @property
    def connect(self) -> str:
        return ",".join(f"{one.address}:{one.port}" for one in self.servers)

    @property
    def secure_connect(self) -> str:
        return ",".join(f"localhost:{one.secure_port}" for one in self.servers)

    def _lines(self, server: Server) -> dict[str, str]:
        lines = {
            "tickTime": str(TICK_MS),
            "initLimit": "10",
            "syncLimit": "4",
            "dataDir": str(server.folder / "data"),
            "clientPort": str(server.port),
            "clientPortAddress": server.address,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr",
        }
        if len(self.servers) > 1:
            for one in self.servers:
                lines[f"server.{one.number}"] = f"127.0.0.1:{one.peer_port}:{one.election_port}"
        if self.certificates is not None:
            (self.root / "node.pem").write_text("".join(self.certificates.node))
            (self.root / "ca.pem").write_text(self.certificates.ca)
            lines |= {
                "secureClientPort": str(server.secure_port),
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "ssl.keyStore.location": str(self.root / "node.pem"),
                "ssl.keyStore.type": "PEM",
                "ssl.trustStore.location": str(self.root / "ca.pem"),
                "ssl.trustStore.type": "PEM",
            }
        return lines

    def __enter__(self) -> Self:
        try:
            for one in self.servers:
                one.start(wait=False)
            for one in self.servers:
                one.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def stop(self) -> None:
        for one in self.servers:
            one.kill()
