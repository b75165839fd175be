"""The records that images are made of: an entry per type, as Kafka 3.0 to 4.4 define them.

Made from Kafka's jars by `python -m tests.kraftlog.generate`; do not edit. The other records are in `others`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kraftlog.schema.types import Array, Field, Layout, RecordType, Scalar, control, metadata, struct

B, I8, I16, U16, I32, I64, UUID, STRING = (
    Scalar.BOOL,
    Scalar.INT8,
    Scalar.INT16,
    Scalar.UINT16,
    Scalar.INT32,
    Scalar.INT64,
    Scalar.UUID,
    Scalar.STRING,
)

END_POINT = struct(Field("name", STRING), Field("host", STRING), Field("port", U16), Field("securityProtocol", I16))
FEATURE = struct(Field("name", STRING), Field("minSupportedVersion", I16), Field("maxSupportedVersion", I16))
VOTER = struct(Field("voterId", I32), Field("voterDirectoryId", UUID, since=1))

REGISTER_BROKER = metadata(
    0,
    "REGISTER_BROKER_RECORD",
    Field("brokerId", I32),
    Field("isMigratingZkBroker", B, since=2),  # before the incarnation on the wire, KIP-866
    Field("incarnationId", UUID),
    Field("brokerEpoch", I64),
    Field("endPoints", Array(END_POINT)),
    Field("features", Array(FEATURE)),
    Field("rack", STRING, nullable=True),
    Field("fenced", B),
    Field("inControlledShutdown", B, since=1),
    Field("logDirs", Array(UUID), since=3, tag=0),
    Field("cordonedLogDirs", Array(UUID), since=4, tag=1, nullable=True),  # KIP-1066
    last_version=4,
)

UNREGISTER_BROKER = metadata(
    1,
    "UNREGISTER_BROKER_RECORD",
    Field("brokerId", I32),
    Field("brokerEpoch", I64),
)

TOPIC = metadata(
    2,
    "TOPIC_RECORD",
    Field("name", STRING),
    Field("topicId", UUID),
)

PARTITION = metadata(
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
    Field(
        "eligibleLeaderReplicas", Array(I32), since=2, tag=1, nullable=True
    ),  # KIP-966; Kafka 3.7 calls the next lastKnownELR
    Field("lastKnownElr", Array(I32), since=2, tag=2, nullable=True),
    last_version=2,
)

CONFIG = metadata(
    4,
    "CONFIG_RECORD",
    Field("resourceType", I8),
    Field("resourceName", STRING),
    Field("name", STRING),
    Field("value", STRING, nullable=True),
)

# What is absent is unchanged; a leader of -2 too, and -1 is none.
PARTITION_CHANGE = metadata(
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

FENCE_BROKER = metadata(
    7,
    "FENCE_BROKER_RECORD",
    Field("id", I32),
    Field("epoch", I64),
)

UNFENCE_BROKER = metadata(
    8,
    "UNFENCE_BROKER_RECORD",
    Field("id", I32),
    Field("epoch", I64),
)

REMOVE_TOPIC = metadata(
    9,
    "REMOVE_TOPIC_RECORD",
    Field("topicId", UUID),
)

# A range up to Kafka 3.2, one level from 3.3 on (KIP-778), both as version 0.
FEATURE_LEVEL = RecordType(
    12,
    "FEATURE_LEVEL_RECORD",
    0,
    (
        Layout(struct(Field("name", STRING), Field("featureLevel", I16))),
        Layout(struct(Field("name", STRING), Field("minFeatureLevel", I16), Field("maxFeatureLevel", I16)), "3.0-3.2"),
    ),
)

# Kafka 3.0 to 3.2.
REMOVE_FEATURE_LEVEL = metadata(
    16,
    "REMOVE_FEATURE_LEVEL_RECORD",
    Field("name", STRING),
)

# fenced: -1 is unfenced, 0 or absent is unchanged, 1 is fenced.
BROKER_REGISTRATION_CHANGE = metadata(
    17,
    "BROKER_REGISTRATION_CHANGE_RECORD",
    Field("brokerId", I32),
    Field("brokerEpoch", I64),
    Field("fenced", I8, tag=0),
    Field("inControlledShutdown", I8, since=1, tag=1),
    Field("logDirs", Array(UUID), since=2, tag=2),
    Field("cordonedLogDirs", Array(UUID), since=3, tag=3, nullable=True),
    last_version=3,
)

NO_OP = metadata(
    20,
    "NO_OP_RECORD",
)

# 1 and 2 changed places in Kafka 3.5: only with the metadata.version can they be named.
ZK_MIGRATION_STATE = metadata(
    21,
    "ZK_MIGRATION_STATE_RECORD",
    Field("zkMigrationState", I8),
)

# KIP-868, as the next two.
BEGIN_TRANSACTION = metadata(
    23,
    "BEGIN_TRANSACTION_RECORD",
    Field("name", STRING, tag=0, nullable=True),
)

END_TRANSACTION = metadata(
    24,
    "END_TRANSACTION_RECORD",
)

ABORT_TRANSACTION = metadata(
    25,
    "ABORT_TRANSACTION_RECORD",
    Field("reason", STRING, tag=0, nullable=True),
)

# KIP-919.
REGISTER_CONTROLLER = metadata(
    27,
    "REGISTER_CONTROLLER_RECORD",
    Field("controllerId", I32),
    Field("incarnationId", UUID),
    Field("zkMigrationReady", B),
    Field("endPoints", Array(END_POINT)),
    Field("features", Array(FEATURE)),
)

# An empty name means all topics.
CLEAR_ELR = metadata(
    28,
    "CLEAR_ELR_RECORD",
    Field("topicName", STRING),
)

# KIP-1312.
UNREGISTER_CONTROLLER = metadata(
    29,
    "UNREGISTER_CONTROLLER_RECORD",
    Field("controllerId", I32),
)

# Version 1 adds the directory ids (KIP-853).
LEADER_CHANGE = control(
    2,
    "LEADER_CHANGE",
    Field("version", I16),
    Field("leaderId", I32),
    Field("voters", Array(VOTER)),
    Field("grantingVoters", Array(VOTER)),
    last_version=1,
)

SNAPSHOT_HEADER = control(
    3,
    "SNAPSHOT_HEADER",
    Field("version", I16),
    Field("lastContainedLogTimestamp", I64),
)

SNAPSHOT_FOOTER = control(
    4,
    "SNAPSHOT_FOOTER",
    Field("version", I16),
)

KRAFT_VERSION = control(
    5,
    "KRAFT_VERSION",
    Field("version", I16),
    Field("kRaftVersion", I16),
)

KRAFT_VOTERS = control(
    6,
    "KRAFT_VOTERS",
    Field("version", I16),
    Field(
        "voters",
        Array(
            struct(
                Field("voterId", I32),
                Field("voterDirectoryId", UUID),
                Field("endpoints", Array(struct(Field("name", STRING), Field("host", STRING), Field("port", U16)))),
                Field(
                    "kRaftVersionFeature", struct(Field("minSupportedVersion", I16), Field("maxSupportedVersion", I16))
                ),
            )
        ),
    ),
)

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
CONTROL_TYPES: tuple[RecordType, ...] = (
    LEADER_CHANGE,
    SNAPSHOT_HEADER,
    SNAPSHOT_FOOTER,
    KRAFT_VERSION,
    KRAFT_VOTERS,
)

BY_KEY: Mapping[tuple[bool, int], RecordType] = MappingProxyType(
    {(t.control, t.key): t for t in METADATA_TYPES + CONTROL_TYPES}
)

OTHER_NAMES: Mapping[int, str] = MappingProxyType(
    {
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
"""What Kafka calls the metadata records that are in `others`."""

NAMES: Mapping[int, str] = MappingProxyType({**{t.key: t.name for t in METADATA_TYPES}, **OTHER_NAMES})
