"""The image: the state of a cluster at one offset of its metadata log, in sections such as registrations and features.

This module has the values only; `replay.Replay` makes them. An image is immutable and exact: it contains the effects of
every record below its offset, and of no other. The records of a metadata transaction that is still open have no effect
yet. If `unreadable` is above 0, records below the offset could not be understood: decisions must treat whatever these
may have changed as unknown. An image can be pickled.

Reading a section that was not requested raises `SectionNotRead`, so that it cannot be mistaken for an empty one.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from kraftlog.errors import SectionNotRead

if TYPE_CHECKING:
    from kraftlog.clients import Clients
    from kraftlog.configs import Configs
    from kraftlog.partitions import Partitions

S = TypeVar("S")


class Section(enum.Enum):
    """A part of an image, to be requested from a reader; its value is the name of the field. Records of other sections
    are not decoded.
    """

    REGISTRATIONS = "registrations"
    FEATURES = "finalized"
    QUORUM = "quorum"
    MIGRATION = "migration"
    PARTITIONS = "partitioned"  # with topics and configs of min.insync.replicas; needs numpy
    CLIENTS = "client_data"  # ACLs, credentials, tokens, quotas, producer ids; without secrets
    CONFIGS = "configured"  # all configs and credentials; possible secrets as digests only


SMALL = frozenset(Section) - {Section.PARTITIONS, Section.CLIENTS, Section.CONFIGS}
"""Sections whose size depends on the number of nodes, not of partitions or clients."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One listener of a node. `security_protocol`: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL, -1 where the
    record does not say.
    """

    name: str
    host: str
    port: int
    security_protocol: int


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """One registered broker, running or not. `features` maps a feature to its supported (min, max) at registration.
    `log_dirs`: the ids of its log directories that are online; empty below metadata.version 3.7-IV2.
    """

    id: int
    epoch: int
    incarnation: UUID
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    is_migrating_zk_broker: bool
    log_dirs: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    """One registered controller (KIP-919), running or not."""

    id: int
    incarnation: UUID
    zk_migration_ready: bool
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Voter:
    """One voter of a dynamic quorum (KIP-853); `kraft_version` is its supported (min, max)."""

    id: int
    directory_id: UUID
    endpoints: tuple[Endpoint, ...]
    kraft_version: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Registrations:
    """Registered nodes, running or not.

    unregistered: node id -> time in ms, by the controller's clock, at which the node lost its registration, if it did
        not register again. Only what happened after the snapshot that was read, or the beginning of the log.
    registered: broker id -> latest possible `Image.elapsed_ms` of its last registration; 0 if that is known from a
        snapshot only, which has no times.
    returned: node id -> the same of its last registration or unfencing.
    """

    brokers: Mapping[int, BrokerRegistration]
    controllers: Mapping[int, ControllerRegistration]
    unregistered: Mapping[int, int] = field(default_factory=dict, compare=False)
    registered: Mapping[int, int] = field(default_factory=dict, compare=False)
    returned: Mapping[int, int] = field(default_factory=dict, compare=False)


Moves = tuple[tuple[int, int], ...]
"""Changes of a feature's level, in the order of the log: (end offset of the batch, new level)."""
MOST_MOVES = 16
"""Newest changes of a feature that are kept."""


@dataclass(frozen=True, slots=True)
class FormerLevels:
    """Levels above 0 that were finalized once and are no longer, and the latest changes of levels.

    dropped: (feature, level) -> time in ms at which the feature last left that level. Complete from `since_offset` on.
    since_offset, since_ms: end of the snapshot that was read first, and time of its last record; 0 and -1 if the log
        was read from its beginning.
    moves: feature -> its changes since `since_offset`, also of kraft.version, and to level 0; the newest `MOST_MOVES`
        of each.
    """

    dropped: Mapping[tuple[str, int], int] = field(default_factory=dict)
    since_offset: int = 0
    since_ms: int = -1
    moves: Mapping[str, Moves] = field(default_factory=dict)

    def with_earlier(self, earlier: FormerLevels, until: int) -> FormerLevels:
        """Add the changes that an earlier reading of the same log knew. `until`: offset up to which these are complete.
        Unchanged if there is a gap between both.
        """
        if until < self.since_offset or earlier.since_offset > self.since_offset:
            return self
        dropped = {**earlier.dropped, **self.dropped}
        moves = {
            name: tuple(sorted({*earlier.moves.get(name, ()), *self.moves.get(name, ())}))[-MOST_MOVES:]
            for name in {**earlier.moves, **self.moves}
        }
        return FormerLevels(
            {key: max(at, earlier.dropped.get(key, at)) for key, at in dropped.items()},
            earlier.since_offset,
            earlier.since_ms,
            moves,
        )


@dataclass(frozen=True, slots=True)
class FinalizedFeatures:
    """Finalized levels.

    levels: feature -> level, by FeatureLevel records; a feature at level 0 is left out. kraft_version: by control
    records; 0 if the log has none. record_kraft_version: level in a FeatureLevel record for kraft.version, which has no
    effect on the quorum (KAFKA-18979). offset: end of the last batch with a change, or of the snapshot: levels changed
    only below it. former: earlier levels.
    """

    levels: Mapping[str, int]
    kraft_version: int
    record_kraft_version: int | None
    offset: int = field(compare=False)  # depends on how the log was read, so it does not count for equality
    former: FormerLevels = field(default_factory=FormerLevels, compare=False)  # the same


@dataclass(frozen=True, slots=True)
class Quorum:
    """Voters and leader of the quorum.

    voters: None if the log has none (static quorum). leader_id: of the last LeaderChange record; None if there was none
    after the snapshot.
    """

    voters: tuple[Voter, ...] | None
    leader_id: int | None


class ZkMigrationState(enum.IntEnum):
    """States of a migration from ZooKeeper, by the code in its record: `ZkMigrationState.java` of Kafka 3.5 to 3.9.

    In Kafka 3.4 the codes 1 and 2 have each other's meaning (`kraftlog.history.may_be_by_3_4`).
    """

    NONE = 0
    MIGRATION = 1
    PRE_MIGRATION = 2
    POST_MIGRATION = 3

    @classmethod
    def of(cls, code: int) -> ZkMigrationState | None:
        """The state with this code; None for a code that no release writes."""
        return next((state for state in cls if state == code), None)


MIGRATION_UNDER_WAY = frozenset({ZkMigrationState.PRE_MIGRATION, ZkMigrationState.MIGRATION})
"""States of a migration that has begun and is not finalized: until all metadata is copied, and while changes are
written to both. Kafka 3.4 swaps their two codes, so as a set they mean the same in every release.
"""


def is_under_way(code: int | None) -> bool | None:
    """True if a migration from ZooKeeper has begun and is not over. `code`: of the last record of its state, None if
    there is none.

    Returns None for a code that no release writes.
    """
    if code is None:
        return False
    state = ZkMigrationState.of(code)
    return None if state is None else state in MIGRATION_UNDER_WAY


@dataclass(frozen=True, slots=True)
class Migration:
    """State of the migration from ZooKeeper. zk_state: the raw code; None if no record has one."""

    zk_state: int | None


MOST_ELAPSED_MS = 60_000
"""An idle controller appends a NoOp every 500 ms (`metadata.max.idle.interval.ms`). Where more than a minute lies
between two batches, a clock was set, or no controller was active: how long that was is not known."""


@dataclass(frozen=True, slots=True)
class Image:
    """The state at `offset`.

    offset: end offset, exclusive. epoch: leader epoch of the last batch, -1 before any. timestamp_ms: its largest
    timestamp (controller's clock), of a snapshot the time of the last record it contains, -1 before any.
    in_transaction: a metadata transaction is open (KIP-868), whose records are not in the image yet. counts: number of
    records by api key, of all sections, with aborted ones, without control records. unreadable: number of records and
    batches that could not be decoded, or contradict the state. elapsed_ms: time that has certainly passed since the
    first batch, even if a clock was set: the difference between two batches counts as at most `MOST_ELAPSED_MS`. The
    fields that follow are the sections, None if not requested; the properties below raise SectionNotRead then.
    """

    offset: int
    epoch: int
    timestamp_ms: int
    in_transaction: bool
    counts: Mapping[int, int]
    unreadable: int
    registrations: Registrations | None = None
    finalized: FinalizedFeatures | None = None
    quorum: Quorum | None = None
    migration: Migration | None = None
    partitioned: Partitions | None = None
    client_data: Clients | None = None
    configured: Configs | None = None
    elapsed_ms: int = field(default=0, compare=False)

    @property
    def brokers(self) -> Mapping[int, BrokerRegistration]:
        """Registered brokers by id."""
        return _read(self.registrations, Section.REGISTRATIONS).brokers

    @property
    def controllers(self) -> Mapping[int, ControllerRegistration]:
        """Registered controllers by id."""
        return _read(self.registrations, Section.REGISTRATIONS).controllers

    @property
    def unregistered(self) -> Mapping[int, int]:
        """Times at which unregistered nodes lost their registrations, in ms."""
        return _read(self.registrations, Section.REGISTRATIONS).unregistered

    @property
    def registered(self) -> Mapping[int, int]:
        """Latest possible time of the last registration of each broker, as `elapsed_ms`."""
        return _read(self.registrations, Section.REGISTRATIONS).registered

    @property
    def returned(self) -> Mapping[int, int]:
        """Latest possible time of the last registration or unfencing of each node, as `elapsed_ms`."""
        return _read(self.registrations, Section.REGISTRATIONS).returned

    @property
    def features(self) -> Mapping[str, int]:
        """Finalized levels by feature, without kraft.version."""
        return _read(self.finalized, Section.FEATURES).levels

    @property
    def features_offset(self) -> int:
        """No level changed at or above this offset."""
        return _read(self.finalized, Section.FEATURES).offset

    @property
    def former_levels(self) -> FormerLevels:
        """Levels that were finalized once and are no longer, and the latest changes."""
        return _read(self.finalized, Section.FEATURES).former

    @property
    def feature_record_kraft_version(self) -> int | None:
        """Level of kraft.version in a FeatureLevel record, which has no effect."""
        return _read(self.finalized, Section.FEATURES).record_kraft_version

    @property
    def kraft_version(self) -> int:
        """The finalized kraft.version."""
        return _read(self.finalized, Section.FEATURES).kraft_version

    @property
    def voters(self) -> tuple[Voter, ...] | None:
        """Voters of a dynamic quorum."""
        return _read(self.quorum, Section.QUORUM).voters

    @property
    def leader_id(self) -> int | None:
        """The leader by the last LeaderChange record."""
        return _read(self.quorum, Section.QUORUM).leader_id

    @property
    def zk_migration_state(self) -> int | None:
        """The raw code of the migration."""
        return _read(self.migration, Section.MIGRATION).zk_state

    @property
    def is_migrating(self) -> bool | None:
        """True if a migration from ZooKeeper has begun and is not over; None for a code that no release writes."""
        return is_under_way(self.zk_migration_state)

    @property
    def partitions(self) -> Partitions:
        """Topics, partitions, and the configured values of min.insync.replicas."""
        return _read(self.partitioned, Section.PARTITIONS)

    @property
    def clients(self) -> Clients:
        """ACLs, credentials, tokens, quotas and the next producer id."""
        return _read(self.client_data, Section.CLIENTS)

    @property
    def configs(self) -> Configs:
        """All configs, and digests of SCRAM credentials."""
        return _read(self.configured, Section.CONFIGS)


def _read(section: S | None, name: Section) -> S:
    if section is None:
        raise SectionNotRead(f"the reader of this image did not ask for {name}")
    return section
