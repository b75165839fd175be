"""Entries of a znode, and those of the metadata log about the same, which can be compared. Pure.

No secret is an entry: of what may be one there is a digest (`kraftlog.digests`), of a password, which ZooKeeper has
encoded and the log has not, only that it is set. Called by the readers of znodes in this room and by `expected.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import isnan
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from kraftlog.clients import Token
from kraftlog.digests import Digest, digest_of
from kraftlog.redaction import is_shown

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
"""`ConfigResource.Type`."""

PASSWORDS = (
    "ssl.keystore.password", "ssl.key.password", "ssl.truststore.password", "ssl.keystore.key",
    "ssl.keystore.certificate.chain", "ssl.truststore.certificates", "sasl.jaas.config",
)  # fmt: skip
"""Configs that can be changed while a broker runs, and that ZooKeeper has encoded with `password.encoder.secret`."""


class Kind(StrEnum):
    """Kinds of entries, in the order in which they are shown; the value is the name in texts and in documents."""

    TOPIC = "topic"
    PARTITION = "partition"
    TOPIC_CONFIG = "topic config"
    BROKER_CONFIG = "broker config"
    QUOTA = "quota"
    CREDENTIAL = "SCRAM credential"
    RIGHT = "ACL"
    TOKEN = "delegation token"  # noqa: S105 - a name for people
    PRODUCER_ID = "producer id"


class EntryKey(NamedTuple):
    """Subject of an entry. name: for people, and one of its kind."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


class Flag(StrEnum):
    """All that is known of a value, or all that there is to it."""

    SET = "(set)"  # a password
    GRANTED = "granted"  # an ACL, of which the name says everything


IN_SYNC = ", in sync "
"""Between where the replicas of a partition are, and what changes with each restart."""


class Placed(Struct, frozen=True):
    """Placement of a partition. All but `replicas` in ascending order. recovers: its leader was elected without being
    in sync (`leader_recovery_state` 1, which Kafka leaves out of a znode where it is 0).
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    leader: int
    in_sync: tuple[int, ...]
    leader_epoch: int
    recovers: bool = False

    def __str__(self) -> str:
        moves = f", adding {_ids(self.adding)}" if self.adding else ""
        moves += f", removing {_ids(self.removing)}" if self.removing else ""
        return (
            f"replicas {_ids(self.replicas)}{moves}{IN_SYNC}{_ids(self.in_sync)}, "
            f"leader {self.leader} at epoch {self.leader_epoch}" + (", recovering" if self.recovers else "")
        )


class Credential(Struct, frozen=True):
    """A SCRAM credential: salt and keys only as a digest."""

    iterations: int
    digest: Digest

    def __str__(self) -> str:
        return f"{self.iterations} iterations"


class NextId(Struct, frozen=True):
    """The next producer id: one of these.

    A broker writes the block that it was given, and the next id is behind it. A controller that writes for a migration
    writes the block that begins with the next id, with the broker -1 (`ZkMigrationClient.writeProducerId`, Kafka 3.9).
    """

    either: tuple[int, ...]

    def __str__(self) -> str:
        return " or ".join(map(str, self.either))


Value: TypeAlias = str | float | Flag | Digest | Placed | Credential | Token | NextId
Entries: TypeAlias = Mapping[EntryKey, Value]


def config_value(resource_type: int, name: str, value: str) -> str | Flag | Digest:
    """The value of a config of a topic or broker, as it may be kept."""
    if is_password(name):
        return Flag.SET
    return value if is_shown(resource_type, name) else digest_of(value)


def is_password(name: str) -> bool:
    """Tell whether ZooKeeper has it encoded (`DynamicBrokerConfig.isPasswordConfig`)."""
    return name.endswith(PASSWORDS)


def are_the_same(in_zookeeper: Value | None, in_log: Value | None) -> bool:
    """Tell whether both say the same; None: it is not there."""
    if isinstance(in_zookeeper, NextId) and isinstance(in_log, NextId):
        return not set(in_zookeeper.either).isdisjoint(in_log.either)
    if isinstance(in_zookeeper, float) and isinstance(in_log, float):  # a quota that is NaN is like another one
        return in_zookeeper == in_log or (isnan(in_zookeeper) and isnan(in_log))
    return in_zookeeper == in_log


def shown(value: Value | None) -> str:
    """For people; no secret."""
    if value is None:
        return "absent"
    if isinstance(value, Token):
        renewers = f", renewers {', '.join(value.renewers)}" if value.renewers else ""
        return f"owner {value.owner}, requester {value.requester}{renewers}, expires at {value.expires_ms} ms"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _ids(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids)) or "none"
