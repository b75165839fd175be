"""Table of the conditions under which a Kafka node throws an exception when it replays a metadata record.

    Impossible(3, 17, "of broker 3 has epoch 705, its registration has 10", BROKER_EPOCH).reason

`judge` evaluates the conditions. A controller that throws here exits; a broker logs the error, counts it
(`metadata-load-error-count`) and continues without the record. Each entry names the method that throws: `image`, code
of all nodes (`org.apache.kafka.image`), and `controller`, code of controllers only (`org.apache.kafka.controller`).
Sources: the source code of 3.0 to 3.9, and the classes of 3.9.2, 4.1.2, 4.3.1 and 4.4.0.

The table does not have checks that depend on the release of the reader: a finalized level that its binaries do not
support (`FeatureControlManager.replay`, `FeaturesDelta.replay`), or an unknown type or version of a record. Kafka does
not check for duplicate replicas, or for an ISR with brokers that are no replicas.
"""

from __future__ import annotations

from dataclasses import dataclass

from kraftlog.schema import NAMES, table

_FENCING = table.FENCE_BROKER.key, table.UNFENCE_BROKER.key, table.BROKER_REGISTRATION_CHANGE.key
_OTHERS = {name: key for key, name in table.OTHER_NAMES.items()}  # their layouts are not loaded for this

# Api keys; an entry is one of an ACL.
REMOVE_ENTRY = _OTHERS["REMOVE_ACCESS_CONTROL_ENTRY_RECORD"]
ENTRY = _OTHERS["ACCESS_CONTROL_ENTRY_RECORD"]
CREDENTIAL = _OTHERS["USER_SCRAM_CREDENTIAL_RECORD"]
REMOVE_CREDENTIAL = _OTHERS["REMOVE_USER_SCRAM_CREDENTIAL_RECORD"]
PRODUCER_IDS = _OTHERS["PRODUCER_IDS_RECORD"]
TOKEN = _OTHERS["DELEGATION_TOKEN_RECORD"]

SOURCE = "metadata/src/main/java/org/apache/kafka"
"""Folder of the files in Kafka's repository."""

_PACKAGES = {
    **dict.fromkeys(("AclsDelta", "ClusterDelta", "MetadataDelta", "TopicDelta", "TopicsDelta"), "image"),
    "MetadataBatchLoader": "image/loader",
    **dict.fromkeys(
        (
            "AclControlManager", "ClusterControlManager", "OffsetControlManager", "ProducerIdControlManager",
            "ReplicationControlManager", "ScramControlManager",
        ),
        "controller",
    ),
    **dict.fromkeys(
        (
            "ControllerRegistration", "DelegationTokenData", "LeaderRecoveryState", "ListenerInfo",
            "PartitionRegistration",
        ),
        "metadata",
    ),
    "ZkMigrationState": "metadata/migration",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReplayCheck:
    """A condition under which Kafka throws. keys: api keys of the records. image, controller: the methods that throw,
    empty if that code does not check. since, until: the first and the last release with the check; empty: 3.0, and 4.4.
    """

    condition: str
    keys: tuple[int, ...]
    image: str = ""
    controller: str = ""
    since: str = ""
    until: str = ""

    @property
    def method(self) -> str:
        """The method to name in messages: `image` if that throws, else `controller`."""
        return self.image or self.controller

    @property
    def files(self) -> tuple[str, ...]:
        """The files that hold these methods, below `SOURCE`."""
        classes = (each.partition(".")[0] for each in (self.image, self.controller) if each)
        return tuple(dict.fromkeys(f"{_PACKAGES[each]}/{each}.java" for each in classes))

    @property
    def records(self) -> tuple[str, ...]:
        """The names of the record types."""
        return tuple(NAMES[key].removesuffix("_RECORD") for key in self.keys)

    @property
    def releases(self) -> str:
        """The releases that check it, in words; empty for all from 3.3 on, before which KRaft was a preview."""
        if self.until:
            return f"in {self.since} to {self.until}"
        return f"from {self.since} on" if self.since > "3.3" else ""


@dataclass(frozen=True, slots=True)
class Impossible:
    """A record at which Kafka throws. key: its api key. text: the condition with the values of this record."""

    offset: int
    key: int
    text: str
    check: ReplayCheck

    @property
    def name(self) -> str:
        """Kafka's name of the record type."""
        return NAMES[self.key]

    @property
    def reason(self) -> str:
        """The record with the values that do not fit, and that Kafka stops, with the method that throws."""
        releases = f", {self.check.releases}" if self.check.releases else ""
        record = f"{self.name.removesuffix('_RECORD')} {self.text}"
        return f"{record}: Kafka stops here ({self.check.method}){releases}"


NOT_REGISTERED = ReplayCheck(
    "the broker is not registered", _FENCING,
    "ClusterDelta.getBrokerOrThrow", "ClusterControlManager.replayRegistrationChange",
)  # fmt: skip
BROKER_EPOCH = ReplayCheck(
    "the broker is registered with another epoch", _FENCING,
    "ClusterDelta.getBrokerOrThrow", "ClusterControlManager.replayRegistrationChange",
)  # fmt: skip
UNREGISTERED_ALREADY = ReplayCheck(
    "the broker is not registered", (table.UNREGISTER_BROKER.key,), controller="ClusterControlManager.replay"
)
UNREGISTERED_EPOCH = ReplayCheck(
    "the broker is registered with another epoch", (table.UNREGISTER_BROKER.key,),
    controller="ClusterControlManager.replay",
)  # fmt: skip
CHANGE_VALUE = ReplayCheck(
    "`fenced` is not -1, 0 or 1, or `inControlledShutdown` is not 0 or 1", (table.BROKER_REGISTRATION_CHANGE.key,),
    "ClusterDelta.replay", "ClusterControlManager.replay", "3.2",
)  # fmt: skip
DIRECTORY = ReplayCheck(
    "a log directory is another broker's", (table.REGISTER_BROKER.key, table.BROKER_REGISTRATION_CHANGE.key),
    controller="ClusterControlManager.updateDirectories", since="3.7",
)  # fmt: skip
DIRECTORY_TWICE = ReplayCheck(
    "the registration before has a log directory twice",
    (table.REGISTER_BROKER.key, table.UNREGISTER_BROKER.key, *_FENCING),
    controller="ClusterControlManager.updateDirectories", since="3.7",
)  # fmt: skip
BROKER_LISTENER = ReplayCheck(
    "a listener has an unknown security protocol", (table.REGISTER_BROKER.key,),
    controller="ListenerInfo.fromBrokerRegistrationRecord", since="3.7",
)  # fmt: skip
CONTROLLER_LISTENER = ReplayCheck(
    "a listener has an unknown security protocol", (table.REGISTER_CONTROLLER.key,),
    "ControllerRegistration.Builder", "ControllerRegistration.Builder", "3.7",
)  # fmt: skip
NO_CONTROLLER = ReplayCheck(
    "the controller is not registered", (table.UNREGISTER_CONTROLLER.key,),
    controller="ClusterControlManager.replay", since="4.4",
)  # fmt: skip
TOPIC_TWICE = ReplayCheck(
    "a topic with this name exists", (table.TOPIC.key,), controller="ReplicationControlManager.replay", since="3.6"
)
NO_TOPIC = ReplayCheck(
    "no topic with this id exists", (table.PARTITION.key, table.PARTITION_CHANGE.key),
    controller="ReplicationControlManager.replay",
)  # fmt: skip
NO_PARTITION = ReplayCheck(
    "the topic has no such partition", (table.PARTITION_CHANGE.key,),
    "TopicDelta.replay", "ReplicationControlManager.replay",
)  # fmt: skip
RECOVERY_STATE = ReplayCheck(
    "`leaderRecoveryState` is not 0 or 1 (nor -1 in a change)", (table.PARTITION.key, table.PARTITION_CHANGE.key),
    "LeaderRecoveryState.of", "LeaderRecoveryState.of", "3.2",
)  # fmt: skip
DIRECTORIES = ReplayCheck(
    "there are not as many directories as replicas", (table.PARTITION.key, table.PARTITION_CHANGE.key),
    "PartitionRegistration.checkDirectories", "PartitionRegistration.checkDirectories", "3.7",
)  # fmt: skip
MERGED_DIRECTORIES = ReplayCheck(
    "with this change, the partition has not as many directories as replicas", (table.PARTITION_CHANGE.key,),
    "PartitionRegistration.merge", "PartitionRegistration.merge", "3.7",
)  # fmt: skip
REMOVED_ALREADY = ReplayCheck(
    "no topic with this id exists", (table.REMOVE_TOPIC.key,), "TopicsDelta.replay", "ReplicationControlManager.replay"
)
ELR_OF_NO_TOPIC = ReplayCheck(
    "no topic with this name exists", (table.CLEAR_ELR.key,),
    "TopicsDelta.replay", "ReplicationControlManager.replayClearTopicElrs", "4.0",
)  # fmt: skip
NO_ENTRY = ReplayCheck(
    "no entry with this id exists", (REMOVE_ENTRY,), "AclsDelta.replay", "AclControlManager.replay", "3.3"
)
NO_SUCH_ENTRY = ReplayCheck(
    "the last entry that says the same was removed with another id", (REMOVE_ENTRY,),
    controller="AclControlManager.replay", since="3.2",
)  # fmt: skip
NO_CREDENTIAL = ReplayCheck(
    "the user has no such credential", (REMOVE_CREDENTIAL,), controller="ScramControlManager.replay", since="3.5"
)
PRODUCER_IDS_BACK = ReplayCheck(
    "the next producer id is not higher than the one before", (PRODUCER_IDS,),
    controller="ProducerIdControlManager.replay",
)  # fmt: skip
PRINCIPAL = ReplayCheck(
    "the owner, the requester or a renewer is not written as type:name", (TOKEN,),
    "DelegationTokenData.fromRecord", since="3.6",
)  # fmt: skip
MIGRATION_STATE = ReplayCheck(
    "the state of the migration is unknown", (table.ZK_MIGRATION_STATE.key,),
    "ZkMigrationState.of", "ZkMigrationState.of", "3.4", "3.9",
)  # fmt: skip
TRANSACTION_OPEN = ReplayCheck(
    "the transaction before has not ended", (table.BEGIN_TRANSACTION.key,),
    "MetadataBatchLoader.replay", "OffsetControlManager.replay", "3.6",
)  # fmt: skip
NO_TRANSACTION = ReplayCheck(
    "no transaction is open", (table.END_TRANSACTION.key, table.ABORT_TRANSACTION.key),
    "MetadataBatchLoader.replay", "OffsetControlManager.replay", "3.6",
)  # fmt: skip
IN_SNAPSHOT = ReplayCheck(
    "the record is in a snapshot",
    (table.BEGIN_TRANSACTION.key, table.END_TRANSACTION.key, table.ABORT_TRANSACTION.key),
    "MetadataDelta.replay", "OffsetControlManager.replay", "3.6",
)  # fmt: skip

CHECKS = (
    NOT_REGISTERED, BROKER_EPOCH, UNREGISTERED_ALREADY, UNREGISTERED_EPOCH, CHANGE_VALUE, DIRECTORY, DIRECTORY_TWICE,
    BROKER_LISTENER, CONTROLLER_LISTENER, NO_CONTROLLER, TOPIC_TWICE, NO_TOPIC, NO_PARTITION, RECOVERY_STATE,
    DIRECTORIES, MERGED_DIRECTORIES, REMOVED_ALREADY, ELR_OF_NO_TOPIC, NO_ENTRY, NO_SUCH_ENTRY, NO_CREDENTIAL,
    PRODUCER_IDS_BACK, PRINCIPAL, MIGRATION_STATE, TRANSACTION_OPEN, NO_TRANSACTION, IN_SNAPSHOT,
)  # fmt: skip
"""Every check, in the order of the page that lists them."""
