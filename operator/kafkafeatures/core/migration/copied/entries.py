"""Entries: the values in a znode, and those in the metadata log, in a form in which both can be compared.

Pure. Made by the readers of znodes in this folder, and by `expected.py` from the metadata log. No entry contains a
secret: a value that may be secret is a digest (`kraftlog.digests`); of a password, which is encoded in ZooKeeper and
plain in the log, an entry has only that it is set.
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
"""Ends of the names of configs that can be changed while a broker runs and that are encoded in ZooKeeper with
`password.encoder.secret`.
"""


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
    """Key of an entry. `name`: for people; unique among entries of its kind."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


class Flag(StrEnum):
    """Value of an entry that has none to compare."""

    SET = "(set)"  # a password
    GRANTED = "granted"  # an ACL, of which the name says everything


IN_SYNC = ", in sync "
"""Text in the string of a `Placed` between the replicas, and leader and replicas in sync. What follows it changes with
each restart.
"""


class Placed(Struct, frozen=True):
    """Placement of a partition: broker ids, in ascending order but for `replicas`. `recovers`: its leader was elected
    without being in sync (`leader_recovery_state` 1; Kafka leaves the field out of a znode if it is 0).
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
    """A SCRAM credential, with a digest of salt and keys."""

    iterations: int
    digest: Digest

    def __str__(self) -> str:
        return f"{self.iterations} iterations"


class NextId(Struct, frozen=True):
    """The next producer id, one of `either`: a znode does not always show which one it is.

    A broker writes the block that it has taken, and the next id comes after it. A controller in a migration writes the
    block that begins with the next id, with broker id -1 (`ZkMigrationClient.writeProducerId`, Kafka 3.9).
    """

    either: tuple[int, ...]

    def __str__(self) -> str:
        return " or ".join(map(str, self.either))


Value: TypeAlias = str | float | Flag | Digest | Placed | Credential | Token | NextId
Entries: TypeAlias = Mapping[EntryKey, Value]


def config_value(resource_type: int, name: str, value: str) -> str | Flag | Digest:
    """Value of a config of a topic or broker, without secrets."""
    if is_password(name):
        return Flag.SET
    return value if is_shown(resource_type, name) else digest_of(value)


def is_password(name: str) -> bool:
    """Tell whether a config is a password, which is encoded in ZooKeeper (`DynamicBrokerConfig.isPasswordConfig`)."""
    return name.endswith(PASSWORDS)


def are_the_same(in_zookeeper: Value | None, in_log: Value | None) -> bool:
    """Tell whether two values are equal; None: the entry is absent there."""
    if isinstance(in_zookeeper, NextId) and isinstance(in_log, NextId):
        return not set(in_zookeeper.either).isdisjoint(in_log.either)
    if isinstance(in_zookeeper, float) and isinstance(in_log, float):  # two quotas that are NaN are equal
        return in_zookeeper == in_log or (isnan(in_zookeeper) and isnan(in_log))
    return in_zookeeper == in_log


def shown(value: Value | None) -> str:
    """The value for people, without secrets."""
    if value is None:
        return "absent"
    if isinstance(value, Token):
        renewers = f", renewers {', '.join(value.renewers)}" if value.renewers else ""
        return f"owner {value.owner}, requester {value.requester}{renewers}, expires at {value.expires_ms} ms"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _ids(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids)) or "none"
