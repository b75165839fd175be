"""The requests and responses that most commands use, independent of protocol versions. Messages that few commands need
are in `topic_messages.py`, `sasl_codec.py`, `unregister_codec.py` and `logger_codec.py`, so that the other commands
start without them.

One frozen class per message, with the fields the operator uses and nothing else. A request class names the class of its
response: a `Request[FetchResponse]` gets a `FetchResponse`. `codec.py` and the other `*_codec.py` modules translate
between these and bytes; other modules of the operator use these types only. Field names follow Kafka's message schemas
in snake case. A field that the negotiated version cannot carry has the documented default.

Nothing here decides anything: error codes are kept as the plain integers of the wire
(`kafkafeatures.kafka.base.errors` names them).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar
from uuid import UUID

from msgspec import Struct, field

from kafkafeatures import __version__
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.readings import Host

R = TypeVar("R")

NO_OPERATIONS = -(1 << 31)
"""Value of authorized operations if they were not requested."""
METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = UUID(int=1)  # Uuid.METADATA_TOPIC_ID of Kafka: AAAAAAAAAAAAAAAAAAAAAQ


class Request(Struct, Generic[R], frozen=True):
    """A request whose response is an `R`."""

    api_key: ClassVar[int]


# --- ApiVersions (18) ---


class ApiVersionsRequest(Request["ApiVersionsResponse"], frozen=True):
    """The first request of each connection (KIP-35). It may name the node that it is meant for, by cluster and id
    (KIP-1242). Brokers of Kafka 4.4 check that, except before SASL is complete: a broker that is not this node refuses
    the request. Controllers do not check it.
    """

    api_key: ClassVar[int] = 18
    names_node_from: ClassVar[int] = 5  # the first version with the two fields for it
    client_software_name: str = "kafka-features-operator"
    client_software_version: str = __version__
    cluster_id: str | None = None  # set together with `node_id`: a node refuses one without the other as invalid
    node_id: int = -1


class ApiVersionsResponse(Struct, frozen=True):
    """APIs and levels that the answering process supports, and the finalized levels. `finalized_features_epoch` is -1
    when unknown.
    """

    error_code: int
    api_keys: Mapping[int, VersionRange]
    supported_features: Mapping[str, VersionRange] = field(default_factory=dict)
    finalized_features_epoch: int = -1
    finalized_features: Mapping[str, int] = field(default_factory=dict)  # name -> max version level
    zk_migration_ready: bool = False
    version: int = 0  # the version it was read with: below 4, features with minimum 0 are left out (KAFKA-17492)


# --- DescribeCluster (60) ---


class DescribeClusterRequest(Request["DescribeClusterResponse"], frozen=True):
    """`endpoint_type` 1 brokers, 2 controllers (v1+). `include_fenced_brokers` needs v2 (Kafka 4.0+).
    `authorized_operations`: also what this user may do with the cluster.
    """

    api_key: ClassVar[int] = 60
    endpoint_type: int = 1
    include_fenced_brokers: bool = True  # dropped silently below v2; read `version` of the answer
    authorized_operations: bool = False


class DescribeClusterResponse(Struct, frozen=True):
    """`controller_id`: with endpoint type 2 the active controller (-1 none); with 1 a random broker in KRaft.
    `operations`: codes of `AclOperation` as bits; 0 also where this user may not describe the cluster, and None
    where the node does not say.
    """

    error_code: int
    error_message: str | None
    endpoint_type: int
    cluster_id: str
    controller_id: int
    nodes: tuple[Host, ...]
    version: int
    operations: int | None = None


# --- DescribeQuorum (55) ---


class DescribeQuorumRequest(Request["DescribeQuorumResponse"], frozen=True):
    """DescribeQuorum of `__cluster_metadata`, partition 0."""

    api_key: ClassVar[int] = 55


class ReplicaState(Struct, frozen=True):
    """A voter or observer, as the leader knows it. Timestamps in ms since 1970; -1: unknown, as always in v0."""

    id: int
    directory_id: UUID | None  # v2; None where unknown or zero
    log_end_offset: int
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1


class DescribeQuorumResponse(Struct, frozen=True):
    """`leader_id`, `leader_epoch` and the lists mean nothing unless both error codes are 0."""

    error_code: int
    error_message: str | None
    partition_error_code: int
    partition_error_message: str | None
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[ReplicaState, ...]
    observers: tuple[ReplicaState, ...]
    nodes: tuple[Host, ...]  # v2: the voters, each with the first of its listeners
    version: int = 0


# --- UpdateFeatures (57) ---

UPGRADE, SAFE_DOWNGRADE = 1, 2  # UNSAFE_DOWNGRADE (3) is never sent


class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"], frozen=True):
    """v1 or later only: v0 has no validateOnly and its downgrade flag is ignored by KRaft."""

    api_key: ClassVar[int] = 57
    updates: tuple[tuple[str, int, int], ...] = ()  # (feature, level, upgrade type)
    validate_only: bool = True
    timeout_ms: int = 60_000  # ignored by KRaft


class UpdateFeaturesResponse(Struct, frozen=True):
    """`results` per feature (code, text) exist in v1 only. Success is code 0, whatever the text says."""

    error_code: int
    error_message: str | None
    results: Mapping[str, tuple[int, str | None]]


# --- Fetch (1) and FetchSnapshot (59) of the metadata log ---


class FetchRequest(Request["FetchResponse"], frozen=True):
    """One partition: `__cluster_metadata`-0, as an ordinary client (replica id -1). v17 (by topic id)."""

    api_key: ClassVar[int] = 1
    cluster_id: str | None = None
    fetch_offset: int = 0
    current_leader_epoch: int = -1
    last_fetched_epoch: int = 0  # of the record before fetch_offset; 0 at offset 0
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 8 * 1024 * 1024


class OffsetAndEpoch(Struct, frozen=True):
    """A position in the log: an end offset (exclusive) and the epoch of the record before it."""

    offset: int
    epoch: int


class LeaderAndEpoch(Struct, frozen=True):
    """The id of the quorum's leader and its epoch; -1 where the answering node does not know it."""

    leader_id: int
    epoch: int


class FetchResponse(Struct, frozen=True):
    """`high_watermark` and `log_start_offset` are -1 when unknown. `diverging`: where the leader's log differs from the
    position of the request. `snapshot_id`: a snapshot to fetch first, since the leader has no records for that
    position. `records`: whole batches, and maybe a last one that is cut.
    """

    error_code: int
    partition_error_code: int
    high_watermark: int
    log_start_offset: int
    current_leader: LeaderAndEpoch | None
    diverging: OffsetAndEpoch | None
    snapshot_id: OffsetAndEpoch | None
    records: bytes
    nodes: tuple[Host, ...] = ()


class FetchSnapshotRequest(Request["FetchSnapshotResponse"], frozen=True):
    """A part of the snapshot with this id, from byte `position` on."""

    api_key: ClassVar[int] = 59
    cluster_id: str | None = None
    snapshot_id: OffsetAndEpoch = OffsetAndEpoch(0, 0)
    current_leader_epoch: int = -1
    position: int = 0
    max_bytes: int = 8 * 1024 * 1024


class FetchSnapshotResponse(Struct, frozen=True):
    """`data` starts at `position` of a file of `size` bytes; batches may be cut at its end."""

    error_code: int
    partition_error_code: int
    current_leader: LeaderAndEpoch | None
    snapshot_id: OffsetAndEpoch | None
    size: int
    position: int
    data: bytes
