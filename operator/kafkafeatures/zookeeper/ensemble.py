"""Addresses of an ensemble and how to speak to it, resolved: no reference to any Secret is left in here."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkafeatures.kafka.base.settings import Address, parse_addresses
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kafka.wire.pem import Tls


@dataclass(frozen=True, slots=True)
class Digest:
    """A user of ZooKeeper's digest scheme, which knows users by what they may read, and refuses none."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ensemble:
    """`chroot`: the path below which Kafka's znodes are; empty for the root. `timeout`: seconds for each step.

    `policy` None: any address may be connected to.
    """

    servers: tuple[Address, ...]
    chroot: str = ""
    tls: Tls | None = None
    digest: Digest | None = None
    policy: AddressPolicy | None = None
    timeout: float = 10.0

    def __str__(self) -> str:
        return ",".join(map(str, self.servers)) + self.chroot


def parse_connect(text: str, location: str) -> tuple[tuple[Address, ...], str]:
    """Servers and chroot of a text as `zookeeper.connect` has it: `host:port,host:port/chroot`.

    Raises ValueError that names what is wrong with it.
    """
    servers, slash, path = text.strip().partition("/")
    chroot = (slash + path).rstrip("/")
    if "//" in chroot or "\0" in chroot or any(segment in (".", "..") for segment in chroot.split("/")):
        raise ValueError(f"{location}: invalid chroot {chroot!r}: expected a path such as /kafka")
    addresses = parse_addresses(servers, location)
    if not addresses:
        raise ValueError(f"{location}: expected host:port, and after the last one the chroot if there is one")
    return addresses, chroot
