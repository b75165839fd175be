"""The record types this product reads: one entry per type, as Kafka's message JSON defines them.

Checked against `metadata/src/main/resources/common/metadata/*.json`, `clients/src/main/resources/common/message/*.json`
and the classes of Kafka 3.2.3 and 4.4.0. Metadata records that are not here (access control, quotas, credentials) are
kept as bytes and counted; `NAMES` knows what Kafka calls them. Never guess an entry: key numbers of
unreleased branches have collided (29 was proposed for two).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kraftlog.schema.types import Array, Field, Scalar, Struct, struct

B, I8, I16, U16, I32, I64 = Scalar.BOOL, Scalar.INT8, Scalar.INT16, Scalar.UINT16, Scalar.INT32, Scalar.INT64
UUID, STRING = Scalar.UUID, Scalar.STRING


@dataclass(frozen=True, slots=True, eq=False)  # one is itself alone: its decoder is looked up for every record
class Layout:
    """One way to lay out the body. `name` is empty for a type that has only one."""

    fields: Struct
    name: str = ""


@dataclass(frozen=True, slots=True)
class RecordType:
    """A type of record: its api key (metadata) or type number (control), its versions, and its layouts, the current one
    first.
    """

    key: int
    name: str
    last_version: int
    layouts: tuple[Layout, ...]
    control: bool = False


ENDPOINT = struct(Field("name", STRING), Field("host", STRING), Field("port", U16), Field("securityProtocol", I16))
FEATURE = struct(Field("name", STRING), Field("minSupportedVersion", I16), Field("maxSupportedVersion", I16))

LEADER_VOTER = struct(Field("voterId", I32), Field("voterDirectoryId", UUID, since=1))
VOTER = struct(
    Field("voterId", I32),
    Field("voterDirectoryId", UUID),
    Field("endpoints", Array(struct(Field("name", STRING), Field("host", STRING), Field("port", U16)))),
    Field("kRaftVersionFeature", struct(Field("minSupportedVersion", I16), Field("maxSupportedVersion", I16))),
)


def _metadata(key: int, name: str, *fields: Field, last_version: int = 0) -> RecordType:
    return RecordType(key, name, last_version, (Layout(struct(*fields)),))


def _control(key: int, name: str, *fields: Field, last_version: int = 0) -> RecordType:
    # The body repeats its version first; the type numbers are those of ControlRecordType.java.
    return RecordType(key, name, last_version, (Layout(struct(Field("version", I16), *fields)),), control=True)


REGISTER_BROKER = _metadata(
    0,
    "REGISTER_BROKER_RECORD",
    Field("brokerId", I32),
    Field("isMigratingZkBroker", B, since=2),  # before the incarnation on the wire, KIP-866
    Field("incarnationId", UUID),
    Field("brokerEpoch", I64),
    Field("endPoints", Array(ENDPOINT)),
    Field("features", Array(FEATURE)),
    Field("rack", STRING, nullable=True),
    Field("fenced", B),
    Field("inControlledShutdown", B, since=1),
    Field("logDirs", Array(UUID), since=3, tag=0),
    Field("cordonedLogDirs", Array(UUID), since=4, tag=1, nullable=True),  # KIP-1066
    last_version=4,
)
UNREGISTER_BROKER = _metadata(1, "UNREGISTER_BROKER_RECORD", Field("brokerId", I32), Field("brokerEpoch", I64))
TOPIC = _metadata(2, "TOPIC_RECORD", Field("name", STRING), Field("topicId", UUID))
PARTITION = _metadata(
    3,
    "PARTITION_RECORD",
    Field("partitionId", I32),
    Field("topicId", UUID),
    Field("replicas", Array(I32)),
    Field("isr", Array(I32)),
    Field("removingReplicas", Array(I32)),
    Field("addingReplicas", Array(I32)),
    Field("leader", I32),
    Field("leaderRecoveryState", I8, tag=0),  # KIP-704
    Field("leaderEpoch", I32),
    Field("partitionEpoch", I32),
    Field("directories", Array(UUID), since=1),  # KIP-858
    Field("eligibleLeaderReplicas", Array(I32), since=2, tag=1, nullable=True),  # KIP-966
    Field("lastKnownElr", Array(I32), since=2, tag=2, nullable=True),
    last_version=2,
)
CONFIG = _metadata(
    4,
    "CONFIG_RECORD",
    Field("resourceType", I8),
    Field("resourceName", STRING),
    Field("name", STRING),
    Field("value", STRING, nullable=True),
)
# What is absent is unchanged; a leader of -2 too, and -1 is none.
PARTITION_CHANGE = _metadata(
    5,
    "PARTITION_CHANGE_RECORD",
    Field("partitionId", I32),
    Field("topicId", UUID),
    Field("isr", Array(I32), tag=0, nullable=True),
    Field("leader", I32, tag=1),
    Field("replicas", Array(I32), tag=2, nullable=True),
    Field("removingReplicas", Array(I32), tag=3, nullable=True),
    Field("addingReplicas", Array(I32), tag=4, nullable=True),
    Field("leaderRecoveryState", I8, tag=5),
    Field("directories", Array(UUID), since=1, tag=8, nullable=True),
    Field("eligibleLeaderReplicas", Array(I32), since=2, tag=6, nullable=True),
    Field("lastKnownElr", Array(I32), since=2, tag=7, nullable=True),
    last_version=2,
)
FENCE_BROKER = _metadata(7, "FENCE_BROKER_RECORD", Field("id", I32), Field("epoch", I64))
UNFENCE_BROKER = _metadata(8, "UNFENCE_BROKER_RECORD", Field("id", I32), Field("epoch", I64))
REMOVE_TOPIC = _metadata(9, "REMOVE_TOPIC_RECORD", Field("topicId", UUID))
# Two layouts under version 0: KIP-746's range up to Kafka 3.2, one level from 3.3 on (KIP-778). The bytes tell them
# apart.
FEATURE_LEVEL = RecordType(
    12,
    "FEATURE_LEVEL_RECORD",
    0,
    (
        Layout(struct(Field("name", STRING), Field("featureLevel", I16))),
        Layout(struct(Field("name", STRING), Field("minFeatureLevel", I16), Field("maxFeatureLevel", I16)), "range"),
    ),
)
# Kafka 3.0 to 3.2 only; later a level of 0 removes a feature.
REMOVE_FEATURE_LEVEL = _metadata(16, "REMOVE_FEATURE_LEVEL_RECORD", Field("name", STRING))
BROKER_REGISTRATION_CHANGE = _metadata(
    17,
    "BROKER_REGISTRATION_CHANGE_RECORD",
    Field("brokerId", I32),
    Field("brokerEpoch", I64),
    Field("fenced", I8, tag=0),  # -1 unfenced, 0 or absent unchanged, 1 fenced
    Field("inControlledShutdown", I8, since=1, tag=1),
    Field("logDirs", Array(UUID), since=2, tag=2),
    Field("cordonedLogDirs", Array(UUID), since=3, tag=3, nullable=True),
    last_version=3,
)
NO_OP = _metadata(20, "NO_OP_RECORD")
# The codes were renumbered in 3.5 (1 and 2 changed places), so the number is kept and named by whoever knows the
# metadata.version.
ZK_MIGRATION_STATE = _metadata(21, "ZK_MIGRATION_STATE_RECORD", Field("zkMigrationState", I8))
# KIP-868.
BEGIN_TRANSACTION = _metadata(23, "BEGIN_TRANSACTION_RECORD", Field("name", STRING, tag=0, nullable=True))
END_TRANSACTION = _metadata(24, "END_TRANSACTION_RECORD")
ABORT_TRANSACTION = _metadata(25, "ABORT_TRANSACTION_RECORD", Field("reason", STRING, tag=0, nullable=True))
REGISTER_CONTROLLER = _metadata(
    27,
    "REGISTER_CONTROLLER_RECORD",  # KIP-919
    Field("controllerId", I32),
    Field("incarnationId", UUID),
    Field("zkMigrationReady", B),
    Field("endPoints", Array(ENDPOINT)),
    Field("features", Array(FEATURE)),
)
CLEAR_ELR = _metadata(28, "CLEAR_ELR_RECORD", Field("topicName", STRING))  # an empty name means all topics
UNREGISTER_CONTROLLER = _metadata(29, "UNREGISTER_CONTROLLER_RECORD", Field("controllerId", I32))  # KIP-1312, Kafka 4.4

LEADER_CHANGE = _control(
    2,
    "LEADER_CHANGE",
    Field("leaderId", I32),
    Field("voters", Array(LEADER_VOTER)),
    Field("grantingVoters", Array(LEADER_VOTER)),
    last_version=1,  # KIP-853 adds the directory ids
)
SNAPSHOT_HEADER = _control(3, "SNAPSHOT_HEADER", Field("lastContainedLogTimestamp", I64))
SNAPSHOT_FOOTER = _control(4, "SNAPSHOT_FOOTER")
KRAFT_VERSION = _control(5, "KRAFT_VERSION", Field("kRaftVersion", I16))
KRAFT_VOTERS = _control(6, "KRAFT_VOTERS", Field("voters", Array(VOTER)))

METADATA_TYPES: tuple[RecordType, ...] = (
    REGISTER_BROKER,
    UNREGISTER_BROKER,
    TOPIC,
    PARTITION,
    CONFIG,
    PARTITION_CHANGE,
    FENCE_BROKER,
    UNFENCE_BROKER,
    REMOVE_TOPIC,
    FEATURE_LEVEL,
    REMOVE_FEATURE_LEVEL,
    BROKER_REGISTRATION_CHANGE,
    NO_OP,
    ZK_MIGRATION_STATE,
    BEGIN_TRANSACTION,
    END_TRANSACTION,
    ABORT_TRANSACTION,
    REGISTER_CONTROLLER,
    CLEAR_ELR,
    UNREGISTER_CONTROLLER,
)
CONTROL_TYPES: tuple[RecordType, ...] = (LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS)

BY_KEY: Mapping[tuple[bool, int], RecordType] = MappingProxyType(
    {(t.control, t.key): t for t in METADATA_TYPES + CONTROL_TYPES}
)

# What Kafka calls the records that are kept as bytes (MetadataRecordType of 4.4.0; 6 is from before 3.5).
NAMES: Mapping[int, str] = MappingProxyType(
    {t.key: t.name for t in METADATA_TYPES}
    | {
        6: "ACCESS_CONTROL_RECORD",
        10: "DELEGATION_TOKEN_RECORD",
        11: "USER_SCRAM_CREDENTIAL_RECORD",
        14: "CLIENT_QUOTA_RECORD",
        15: "PRODUCER_IDS_RECORD",
        18: "ACCESS_CONTROL_ENTRY_RECORD",
        19: "REMOVE_ACCESS_CONTROL_ENTRY_RECORD",
        22: "REMOVE_USER_SCRAM_CREDENTIAL_RECORD",
        26: "REMOVE_DELEGATION_TOKEN_RECORD",
    }
)
