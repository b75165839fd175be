"""The network between a client and a node, cut for one connection: the kernels keep what was written, and try again."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kafkafeatures.kafka.wire.connection import Connection
from tests.e2e.rig.kubernetes.binaries import PACKAGES, install_packages, run


def install_iptables() -> None:
    """Install iptables, which may take a minute: called before anything that must not wait."""
    install_packages({"iptables": PACKAGES["iptables"]})


class Link(NamedTuple):
    """A TCP connection on loopback, by its ports."""

    client: int
    node: int

    @classmethod
    def of(cls, connection: Connection) -> Link:
        transport = connection._writer.transport
        return cls(transport.get_extra_info("sockname")[1], transport.get_extra_info("peername")[1])

    def cut(self) -> None:
        """What the client sends from now on is lost."""
        run("iptables", "-w", "-I", *self._rule)

    def heal(self) -> None:
        run("iptables", "-w", "-D", *self._rule)

    @property
    def bytes_kept(self) -> int:
        """By the client's kernel, which continues sending them."""
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            local, remote, _, queues = line.split()[1:5]
            if (_port(local), _port(remote)) == self:
                return int(queues.split(":")[0], 16)
        return 0

    @property
    def _rule(self) -> list[str]:
        ports = "--sport", str(self.client), "--dport", str(self.node)
        return ["INPUT", "-i", "lo", "-p", "tcp", *ports, "-j", "DROP"]


def _port(address: str) -> int:
    return int(address.split(":")[1], 16)
