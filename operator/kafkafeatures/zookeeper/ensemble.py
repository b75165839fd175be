"""Settings of connections to an ensemble: addresses, TLS, user. References to Secrets are resolved already
(`reconcile/credentials.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkafeatures.kafka.base.settings import Address, parse_addresses
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kafka.wire.pem import Tls


@dataclass(frozen=True, slots=True)
class Digest:
    """User name and password of ZooKeeper's digest scheme. ZooKeeper accepts any: a wrong password only shows in znodes
    that cannot be read.
    """

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ensemble:
    """An ensemble.

    chroot: path below which Kafka's znodes are; empty for the root.
    policy: addresses that may be connected to; None: any.
    timeout: seconds for each step, such as a connection or a request.
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
    """Servers and chroot of a text in the form of `zookeeper.connect`: `host:port,host:port/chroot`.

    Raises ValueError with the problem. `location`: field or flag that the text is from, for the message.
    """
    servers, slash, path = text.strip().partition("/")
    chroot = (slash + path).rstrip("/")
    if "//" in chroot or "\0" in chroot or any(segment in (".", "..") for segment in chroot.split("/")):
        raise ValueError(f"{location}: invalid chroot {chroot!r}: expected a path such as /kafka")
    addresses = parse_addresses(servers, location)
    if not addresses:
        raise ValueError(f"{location}: expected host:port, and after the last one the chroot if there is one")
    return addresses, chroot
