"""The records that images are made of: an entry per type, as Kafka 3.0 to 4.4 define them.

Made from Kafka's jars by `python -m tests.kraftlog.generate`; do not edit. The other records are in `others`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kraftlog.schema.types import RecordType, control, metadata

# isMigratingZkBroker comes before the incarnation (KIP-866); cordonedLogDirs: KIP-1066.
REGISTER_BROKER = metadata(
    "0 REGISTER_BROKER_RECORD v4: brokerId int32, isMigratingZkBroker bool since 2, incarnationId uuid, "
    "brokerEpoch int64, endPoints [{name string, host string, port uint16, securityProtocol int16}], "
    "features [{name string, minSupportedVersion int16, maxSupportedVersion int16}], rack string?, "
    "fenced bool, inControlledShutdown bool since 1, logDirs [uuid] since 3 tag 0, "
    "cordonedLogDirs [uuid]? since 4 tag 1"
)
UNREGISTER_BROKER = metadata("1 UNREGISTER_BROKER_RECORD: brokerId int32, brokerEpoch int64")
TOPIC = metadata("2 TOPIC_RECORD: name string, topicId uuid")
# leaderRecoveryState: KIP-704; directories: KIP-858; eligibleLeaderReplicas: KIP-966. Kafka 3.7 calls the last field
# lastKnownELR.
PARTITION = metadata(
    "3 PARTITION_RECORD v2: partitionId int32, topicId uuid, replicas [int32], isr [int32], "
    "removingReplicas [int32], addingReplicas [int32], leader int32, leaderRecoveryState int8 tag 0, "
    "leaderEpoch int32, partitionEpoch int32, directories [uuid] since 1, "
    "eligibleLeaderReplicas [int32]? since 2 tag 1, lastKnownElr [int32]? since 2 tag 2"
)
CONFIG = metadata("4 CONFIG_RECORD: resourceType int8, resourceName string, name string, value string?")
# What is absent is unchanged; a leader of -2 too, and -1 is none.
PARTITION_CHANGE = metadata(
    "5 PARTITION_CHANGE_RECORD v2: partitionId int32, topicId uuid, isr [int32]? tag 0, "
    "leader int32 tag 1, replicas [int32]? tag 2, removingReplicas [int32]? tag 3, "
    "addingReplicas [int32]? tag 4, leaderRecoveryState int8 tag 5, directories [uuid]? since 1 tag 8, "
    "eligibleLeaderReplicas [int32]? since 2 tag 6, lastKnownElr [int32]? since 2 tag 7"
)
FENCE_BROKER = metadata("7 FENCE_BROKER_RECORD: id int32, epoch int64")
UNFENCE_BROKER = metadata("8 UNFENCE_BROKER_RECORD: id int32, epoch int64")
REMOVE_TOPIC = metadata("9 REMOVE_TOPIC_RECORD: topicId uuid")
# A range up to Kafka 3.2, one level from 3.3 on (KIP-778), both as version 0.
FEATURE_LEVEL = metadata(
    "12 FEATURE_LEVEL_RECORD: name string, featureLevel int16",
    {"3.0-3.2": "name string, minFeatureLevel int16, maxFeatureLevel int16"},
)
# Kafka 3.0 to 3.2.
REMOVE_FEATURE_LEVEL = metadata("16 REMOVE_FEATURE_LEVEL_RECORD: name string")
# fenced: -1 is unfenced, 0 or absent is unchanged, 1 is fenced.
BROKER_REGISTRATION_CHANGE = metadata(
    "17 BROKER_REGISTRATION_CHANGE_RECORD v3: brokerId int32, brokerEpoch int64, fenced int8 tag 0, "
    "inControlledShutdown int8 since 1 tag 1, logDirs [uuid] since 2 tag 2, "
    "cordonedLogDirs [uuid]? since 3 tag 3"
)
NO_OP = metadata("20 NO_OP_RECORD")
# 1 and 2 changed places in Kafka 3.5: only with the metadata.version can they be named.
ZK_MIGRATION_STATE = metadata("21 ZK_MIGRATION_STATE_RECORD: zkMigrationState int8")
# KIP-868, as the next two.
BEGIN_TRANSACTION = metadata("23 BEGIN_TRANSACTION_RECORD: name string? tag 0")
END_TRANSACTION = metadata("24 END_TRANSACTION_RECORD")
ABORT_TRANSACTION = metadata("25 ABORT_TRANSACTION_RECORD: reason string? tag 0")
# KIP-919.
REGISTER_CONTROLLER = metadata(
    "27 REGISTER_CONTROLLER_RECORD: controllerId int32, incarnationId uuid, zkMigrationReady bool, "
    "endPoints [{name string, host string, port uint16, securityProtocol int16}], features [{name string,"
    " minSupportedVersion int16, maxSupportedVersion int16}]"
)
# An empty name means all topics.
CLEAR_ELR = metadata("28 CLEAR_ELR_RECORD: topicName string")
# KIP-1312.
UNREGISTER_CONTROLLER = metadata("29 UNREGISTER_CONTROLLER_RECORD: controllerId int32")
# Version 1 adds the directory ids (KIP-853).
LEADER_CHANGE = control(
    "2 LEADER_CHANGE v1: version int16, leaderId int32, voters [{voterId int32, "
    "voterDirectoryId uuid since 1}], grantingVoters [{voterId int32, voterDirectoryId uuid since 1}]"
)
SNAPSHOT_HEADER = control("3 SNAPSHOT_HEADER: version int16, lastContainedLogTimestamp int64")
SNAPSHOT_FOOTER = control("4 SNAPSHOT_FOOTER: version int16")
KRAFT_VERSION = control("5 KRAFT_VERSION: version int16, kRaftVersion int16")
KRAFT_VOTERS = control(
    "6 KRAFT_VOTERS: version int16, voters [{voterId int32, voterDirectoryId uuid, "
    "endpoints [{name string, host string, port uint16}], kRaftVersionFeature {minSupportedVersion int16,"
    " maxSupportedVersion int16}}]"
)

METADATA_TYPES: tuple[RecordType, ...] = (
    REGISTER_BROKER, UNREGISTER_BROKER, TOPIC, PARTITION, CONFIG, PARTITION_CHANGE, FENCE_BROKER, UNFENCE_BROKER,
    REMOVE_TOPIC, FEATURE_LEVEL, REMOVE_FEATURE_LEVEL, BROKER_REGISTRATION_CHANGE, NO_OP, ZK_MIGRATION_STATE,
    BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION, REGISTER_CONTROLLER, CLEAR_ELR, UNREGISTER_CONTROLLER,
)  # fmt: skip
CONTROL_TYPES: tuple[RecordType, ...] = (
    LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS,
)  # fmt: skip

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
