"""The requests we send and the answers we read, free of protocol versions.

One frozen class per message, with the fields the operator uses and nothing else. A request is the class of its answer
too: who sends a `Request[FetchResponse]` gets a `FetchResponse`. `codec.py` is the only translator between these and
bytes; every other module speaks in these types. Field names follow Kafka's message schemas in snake case. A field that
the negotiated version cannot carry has the documented default.

Nothing here decides anything: error codes are kept as the plain integers of the wire
(`kafkafeatures.kafka.errors` names them).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Generic, NamedTuple, TypeVar
from uuid import UUID

from kafkafeatures.core.levels import VersionRange
from kafkafeatures.core.readings import Host

R = TypeVar("R")

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = UUID(int=1)  # Uuid.METADATA_TOPIC_ID of Kafka: AAAAAAAAAAAAAAAAAAAAAQ


class Request(Generic[R]):
    """A question, whose answer is an `R`."""

    __slots__ = ()
    api_key: ClassVar[int]


# --- ApiVersions (18) ---


@dataclass(frozen=True, slots=True)
class ApiVersionsRequest(Request["ApiVersionsResponse"]):
    """Always the first request of a connection (KIP-35)."""

    api_key: ClassVar[int] = 18
    client_software_name: str = "kafka-features-operator"
    client_software_version: str = "0"


@dataclass(frozen=True, slots=True)
class ApiVersionsResponse:
    """What the answering process itself supports. `finalized_features_epoch` is -1 when unknown."""

    error_code: int
    api_keys: Mapping[int, VersionRange]
    supported_features: Mapping[str, VersionRange] = field(default_factory=dict)
    finalized_features_epoch: int = -1
    finalized_features: Mapping[str, int] = field(default_factory=dict)  # name -> max version level
    zk_migration_ready: bool = False
    version: int = 0  # the version it was read with: below 4, features with minimum 0 are left out (KAFKA-17492)


# --- SaslHandshake (17), SaslAuthenticate (36) ---


@dataclass(frozen=True, slots=True)
class SaslHandshakeRequest(Request["SaslHandshakeResponse"]):
    """Which mechanism is to be used."""

    api_key: ClassVar[int] = 17
    mechanism: str = ""


@dataclass(frozen=True, slots=True)
class SaslHandshakeResponse:
    """`mechanisms`: those the listener offers, also where it refuses this one."""

    error_code: int
    mechanisms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"]):
    """One message of the mechanism's exchange."""

    api_key: ClassVar[int] = 36
    auth_bytes: bytes = b""

    def __repr__(self) -> str:  # a password may be inside
        return "SaslAuthenticateRequest(...)"


@dataclass(frozen=True, slots=True)
class SaslAuthenticateResponse:
    """The node's message of the exchange."""

    error_code: int
    error_message: str | None
    auth_bytes: bytes
    session_lifetime_ms: int = 0  # 0: for ever


# --- DescribeCluster (60) ---


@dataclass(frozen=True, slots=True)
class DescribeClusterRequest(Request["DescribeClusterResponse"]):
    """`endpoint_type` 1 brokers, 2 controllers (v1+). `include_fenced_brokers` needs v2 (Kafka 4.0+)."""

    api_key: ClassVar[int] = 60
    endpoint_type: int = 1
    include_fenced_brokers: bool = True  # dropped silently below v2; read `version` of the answer


@dataclass(frozen=True, slots=True)
class DescribeClusterResponse:
    """`controller_id`: with endpoint type 2 the active controller (-1 none); with 1 a random broker in KRaft."""

    error_code: int
    error_message: str | None
    endpoint_type: int
    cluster_id: str
    controller_id: int
    nodes: tuple[Host, ...]
    version: int


# --- Metadata (3), DescribeTopicPartitions (75) ---


class PartitionAnswer(NamedTuple):
    """A partition as a broker knows it. Ids of brokers; leader -1: none, or one that the broker cannot name."""

    error_code: int
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    eligible: tuple[int, ...] = ()  # DescribeTopicPartitions only


class TopicAnswer(NamedTuple):
    """A topic, or the part of it that a page has. `id` None: the version has none."""

    error_code: int
    name: str
    id: UUID | None
    partitions: tuple[PartitionAnswer, ...]


@dataclass(frozen=True, slots=True)
class MetadataRequest(Request["MetadataResponse"]):
    """Of the brokers; with `all_topics` also of every topic the user may see."""

    api_key: ClassVar[int] = 3
    all_topics: bool = False


@dataclass(frozen=True, slots=True)
class MetadataResponse:
    cluster_id: str | None
    controller_id: int
    brokers: tuple[Host, ...]
    topics: tuple[TopicAnswer, ...] = ()

    @property
    def replicas(self) -> Mapping[str, frozenset[int]]:
        """Topic to the ids of all brokers that a replica of it is assigned to."""
        return {
            topic.name: frozenset(id_ for partition in topic.partitions for id_ in partition.replicas)
            for topic in self.topics
        }


@dataclass(frozen=True, slots=True)
class DescribeTopicPartitionsRequest(Request["DescribeTopicPartitionsResponse"]):
    """Of every topic the user may see, from `cursor` (topic, partition) on: at most `limit` partitions."""

    api_key: ClassVar[int] = 75
    cursor: tuple[str, int] | None = None
    limit: int = 2000  # more than `max.request.partition.size.limit` is not sent


@dataclass(frozen=True, slots=True)
class DescribeTopicPartitionsResponse:
    """`cursor`: where the next page begins; None behind the last."""

    topics: tuple[TopicAnswer, ...]
    cursor: tuple[str, int] | None


# --- ListPartitionReassignments (46) ---


class Reassignment(NamedTuple):
    """Of one partition, ids of brokers. `replicas`: all, those that come and those that go among them."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ListPartitionReassignmentsRequest(Request["ListPartitionReassignmentsResponse"]):
    """All that are running."""

    api_key: ClassVar[int] = 46
    timeout_ms: int = 10_000


@dataclass(frozen=True, slots=True)
class ListPartitionReassignmentsResponse:
    error_code: int
    error_message: str | None
    reassignments: Mapping[tuple[str, int], Reassignment]


# --- DescribeConfigs (32) ---

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET_ON_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, IN_FILE, DEFAULT = 1, 2, 3, 4, 5  # DescribeConfigsResponse.ConfigSource


class ConfigAnswer(NamedTuple):
    """Of one resource, and the one key. `value` None: it has none. `layers`: source -> value, of all there are."""

    error_code: int
    error_message: str | None
    value: str | None
    source: int
    layers: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class DescribeConfigsRequest(Request["DescribeConfigsResponse"]):
    """One key of resources of one kind. A broker is asked for its own alone, by its id."""

    api_key: ClassVar[int] = 32
    resource: int = TOPIC_RESOURCE
    names: tuple[str, ...] = ()
    key: str = ""


@dataclass(frozen=True, slots=True)
class DescribeConfigsResponse:
    configs: Mapping[str, ConfigAnswer]


# --- DescribeLogDirs (35) ---


class LogDir(NamedTuple):
    """A directory of a broker. `hosted`: topic to its partitions in it, also those on their way from another one."""

    error_code: int
    path: str
    hosted: Mapping[str, frozenset[int]]


@dataclass(frozen=True, slots=True)
class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"]):
    """Of all topics: rights on topics hide none of them."""

    api_key: ClassVar[int] = 35


@dataclass(frozen=True, slots=True)
class DescribeLogDirsResponse:
    error_code: int
    directories: tuple[LogDir, ...]


# --- DescribeQuorum (55) ---


@dataclass(frozen=True, slots=True)
class DescribeQuorumRequest(Request["DescribeQuorumResponse"]):
    """Of `__cluster_metadata`, partition 0."""

    api_key: ClassVar[int] = 55


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """Timestamps in ms since the epoch, -1 unknown (v0 has none)."""

    id: int
    directory_id: UUID | None  # v2; None where unknown or zero
    log_end_offset: int
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1


@dataclass(frozen=True, slots=True)
class DescribeQuorumResponse:
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
    nodes: tuple[Host, ...]  # v2: every voter, one entry per listener, the first one kept
    version: int = 0


# --- UpdateFeatures (57) ---

UPGRADE, SAFE_DOWNGRADE = 1, 2  # UNSAFE_DOWNGRADE (3) is never sent


@dataclass(frozen=True, slots=True)
class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"]):
    """v1 or later only: v0 has no validateOnly and its downgrade flag is ignored by KRaft."""

    api_key: ClassVar[int] = 57
    updates: tuple[tuple[str, int, int], ...] = ()  # (feature, level, upgrade type)
    validate_only: bool = True
    timeout_ms: int = 60_000  # ignored by KRaft


@dataclass(frozen=True, slots=True)
class UpdateFeaturesResponse:
    """`results` per feature (code, text) exist in v1 only. Success is code 0, whatever the text says."""

    error_code: int
    error_message: str | None
    results: Mapping[str, tuple[int, str | None]]


# --- UnregisterBroker (64), UnregisterController (94) ---


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRequest(Request["UnregisterResponse"]):
    """By id alone."""

    api_key: ClassVar[int] = 64
    node_id: int = -1


@dataclass(frozen=True, slots=True)
class UnregisterControllerRequest(Request["UnregisterResponse"]):
    """Kafka 4.4, and metadata.version 33 finalized (KIP-1312)."""

    api_key: ClassVar[int] = 94
    node_id: int = -1


@dataclass(frozen=True, slots=True)
class UnregisterResponse:
    """Of both."""

    error_code: int
    error_message: str | None


# --- Fetch (1) and FetchSnapshot (59) of the metadata log ---


@dataclass(frozen=True, slots=True)
class FetchRequest(Request["FetchResponse"]):
    """One partition: `__cluster_metadata`-0, as an ordinary client (replica id -1). v17 (by topic id)."""

    api_key: ClassVar[int] = 1
    cluster_id: str | None = None
    fetch_offset: int = 0
    current_leader_epoch: int = -1
    last_fetched_epoch: int = 0  # of the record before fetch_offset; 0 at offset 0
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class OffsetAndEpoch:
    """A position in the log: an end offset (exclusive) and the epoch of the record before it."""

    offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class LeaderAndEpoch:
    """-1: not known to the answering node."""

    leader_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """`high_watermark` and `log_start_offset` are -1 when unknown. `records`: whole and maybe one cut batch."""

    error_code: int
    partition_error_code: int
    high_watermark: int
    log_start_offset: int
    current_leader: LeaderAndEpoch | None
    diverging: OffsetAndEpoch | None
    snapshot_id: OffsetAndEpoch | None
    records: bytes
    nodes: tuple[Host, ...] = ()


@dataclass(frozen=True, slots=True)
class FetchSnapshotRequest(Request["FetchSnapshotResponse"]):
    """A part of the snapshot with this id, from byte `position` on."""

    api_key: ClassVar[int] = 59
    cluster_id: str | None = None
    snapshot_id: OffsetAndEpoch = OffsetAndEpoch(0, 0)
    current_leader_epoch: int = -1
    position: int = 0
    max_bytes: int = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FetchSnapshotResponse:
    """`data` starts at `position` of a file of `size` bytes; batches may be cut at its end."""

    error_code: int
    partition_error_code: int
    current_leader: LeaderAndEpoch | None
    snapshot_id: OffsetAndEpoch | None
    size: int
    position: int
    data: bytes
