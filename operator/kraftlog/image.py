"""What a metadata log says at one offset: registrations, finalized levels, migration state, quorum.

The values only; `replay.Replay` makes them. An image is immutable and complete up to its offset: every record below it
is in, none at or above it. `unreadable` above 0 means that something below the offset could not be understood: whoever
decides on the image must say so and treat what could be missing as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID


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
    """One registered broker, running or not. `features` maps a feature to its supported (min, max) at registration."""

    id: int
    epoch: int
    incarnation: UUID
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    is_migrating_zk_broker: bool


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
class Image:
    """The state at `offset`.

    offset: end offset, exclusive. epoch: leader epoch of the last batch, -1 before any. timestamp_ms: its largest
    timestamp (controller's clock), of a snapshot the time of the last record it contains, -1 before any. features:
    finalized levels by FeatureLevel records, level 0 meaning absent; one for kraft.version has no effect on the quorum
    (KAFKA-18979) and is kept apart in `feature_record_kraft_version`. features_offset: no level was moved at or above
    it; the end of the last batch that moved one, or of the snapshot, which does not say. kraft_version, voters: from
    control records, 0 and None when the log has none (static quorum). zk_migration_state: the raw code. leader_id: of
    the last LeaderChange seen, None after a snapshot until the next one. in_transaction: between Begin and End
    (KIP-868); what lies in between is not in the image yet. counts: records read per api key, aborted ones included,
    control records not. unreadable: records and batches that could not be decoded, or that contradict the state they
    act on. unregistered: when a node whose registration was taken back, and that did not come again, lost it; since the
    beginning of the log or the last snapshot, which does not say.
    """

    offset: int
    epoch: int
    timestamp_ms: int
    brokers: Mapping[int, BrokerRegistration]
    controllers: Mapping[int, ControllerRegistration]
    features: Mapping[str, int]
    features_offset: int = field(compare=False)  # of how it was read, not of what it says
    feature_record_kraft_version: int | None
    kraft_version: int
    voters: tuple[Voter, ...] | None
    zk_migration_state: int | None
    leader_id: int | None
    in_transaction: bool
    counts: Mapping[int, int]
    unreadable: int
    unregistered: Mapping[int, int] = field(default_factory=dict, compare=False)
