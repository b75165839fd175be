"""A log for each of Kafka's checks: records that fit, and behind them the one at which Kafka stops."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kraftlog import checks
from kraftlog.checks import ReplayCheck
from kraftlog.records import frame, type_of
from kraftlog.schema import table
from tests.kraftlog.build import abort, begin, broker, change, controller, end, fence, unfence, unregister

A, B, C = (uuid.UUID(int=number << 64 | 7) for number in (1, 2, 3))  # ids that Kafka does not reserve


class Case(NamedTuple):
    """text: of the finding, from the name of the record on."""

    check: ReplayCheck
    values: Sequence[bytes]
    text: str


def topic(name: str = "orders", id_: uuid.UUID = A) -> bytes:
    return frame(table.TOPIC, {"name": name, "topicId": id_})


def removed(id_: uuid.UUID = A) -> bytes:
    return frame(table.REMOVE_TOPIC, {"topicId": id_})


def partition(number: int = 0, id_: uuid.UUID = A, version: int = 1, **changes: Any) -> bytes:
    data: dict[str, Any] = {
        "partitionId": number, "topicId": id_, "replicas": (1, 2), "isr": (1, 2), "removingReplicas": (),
        "addingReplicas": (), "leader": 1, "leaderEpoch": 0, "partitionEpoch": 0,
    }  # fmt: skip
    if version >= 1:
        data["directories"] = (B, C)
    return frame(table.PARTITION, data | changes, version)


def moved(number: int = 0, id_: uuid.UUID = A, **fields: Any) -> bytes:
    return frame(table.PARTITION_CHANGE, {"partitionId": number, "topicId": id_, **fields}, 1)


def elr_cleared(name: str) -> bytes:
    return frame(table.CLEAR_ELR, {"topicName": name})


def unregister_controller(number: int) -> bytes:
    return frame(table.UNREGISTER_CONTROLLER, {"controllerId": number})


def with_directories(number: int, epoch: int, *directories: uuid.UUID) -> bytes:
    return broker(number, epoch, 3, logDirs=directories)


def listener(protocol: int) -> dict[str, Any]:
    return {"endPoints": ({"name": "L", "host": "a.example", "port": 9092, "securityProtocol": protocol},)}


def strange_controller(number: int) -> bytes:
    data = {"controllerId": number, "incarnationId": A, "zkMigrationReady": False, "features": ()}
    return frame(table.REGISTER_CONTROLLER, {**data, **listener(9)})


def migration(state: int) -> bytes:
    return frame(table.ZK_MIGRATION_STATE, {"zkMigrationState": state})


def _other(key: int, data: Mapping[str, Any]) -> bytes:
    kind = type_of(False, key)
    assert kind is not None
    return frame(kind, data)


def entry(id_: uuid.UUID = A, principal: str = "User:alice") -> bytes:
    data = {
        "id": id_, "resourceType": 2, "resourceName": "orders", "patternType": 3, "principal": principal, "host": "*",
        "operation": 3, "permissionType": 3,
    }  # fmt: skip
    return _other(checks.ENTRY, data)


def entry_removed(id_: uuid.UUID = A) -> bytes:
    return _other(checks.REMOVE_ENTRY, {"id": id_})


def credential(name: str = "alice") -> bytes:
    keys = {"salt": b"salt", "storedKey": b"stored", "serverKey": b"server", "iterations": 4096}
    return _other(checks.CREDENTIAL, {"name": name, "mechanism": 1, **keys})


def credential_removed(mechanism: int = 1) -> bytes:
    return _other(checks.REMOVE_CREDENTIAL, {"name": "alice", "mechanism": mechanism})


def producer_ids(following: int) -> bytes:
    return _other(checks.PRODUCER_IDS, {"brokerId": 1, "brokerEpoch": 1, "nextProducerId": following})


def token(owner: str = "User:alice", requester: str = "User:alice", renewers: tuple[str, ...] = ()) -> bytes:
    data = {
        "owner": owner, "requester": requester, "renewers": renewers, "issueTimestamp": 1, "maxTimestamp": 2,
        "expirationTimestamp": 2, "tokenId": "t",
    }  # fmt: skip
    return _other(checks.TOKEN, data)


CASES = {
    "fenced with another epoch": Case(
        checks.BROKER_EPOCH, [broker(7, 10), fence(7, 9)],
        "FENCE_BROKER of broker 7 has epoch 9, its registration has 10",
    ),
    "unfenced with another epoch": Case(
        checks.BROKER_EPOCH, [broker(7, 10), unfence(7, 11)],
        "UNFENCE_BROKER of broker 7 has epoch 11, its registration has 10",
    ),
    "changed with another epoch": Case(
        checks.BROKER_EPOCH, [broker(7, 10), change(7, 705, fenced=1)],
        "BROKER_REGISTRATION_CHANGE of broker 7 has epoch 705, its registration has 10",
    ),
    "changed with the epoch of the process before": Case(
        checks.BROKER_EPOCH, [broker(7, 10), broker(7, 20), change(7, 10, fenced=-1)],
        "BROKER_REGISTRATION_CHANGE of broker 7 has epoch 10, its registration has 20",
    ),
    "changed without a registration": Case(
        checks.NOT_REGISTERED, [change(7, 10, fenced=1)],
        "BROKER_REGISTRATION_CHANGE of broker 7 has epoch 10, but the broker is not registered",
    ),
    "fenced behind its end": Case(
        checks.NOT_REGISTERED, [broker(7, 10), unregister(7, 10), fence(7, 10)],
        "FENCE_BROKER of broker 7 has epoch 10, but the broker is not registered",
    ),
    "unregistered twice": Case(
        checks.UNREGISTERED_ALREADY, [broker(7, 10), unregister(7, 10), unregister(7, 10)],
        "UNREGISTER_BROKER of broker 7 has epoch 10, but the broker is not registered",
    ),
    "unregistered with another epoch": Case(
        checks.UNREGISTERED_EPOCH, [broker(7, 10), unregister(7, 9)],
        "UNREGISTER_BROKER of broker 7 has epoch 9, its registration has 10",
    ),
    "an unknown fencing": Case(
        checks.CHANGE_VALUE, [broker(7, 10), change(7, 10, fenced=2)],
        "BROKER_REGISTRATION_CHANGE of broker 7 has fenced 2 and inControlledShutdown 0",
    ),
    "an unknown shutdown": Case(
        checks.CHANGE_VALUE, [broker(7, 10), change(7, 10, inControlledShutdown=-1)],
        "BROKER_REGISTRATION_CHANGE of broker 7 has fenced 0 and inControlledShutdown -1",
    ),
    "a directory of another broker": Case(
        checks.DIRECTORY, [with_directories(7, 10, B), with_directories(8, 11, C, B)],
        "REGISTER_BROKER of broker 8 has log directory AAAAAAAAAAIAAAAAAAAABw, which is broker 7's",
    ),
    "a directory of another broker in a change": Case(
        checks.DIRECTORY, [with_directories(7, 10, B), with_directories(8, 11, C), change(8, 11, 2, logDirs=(B,))],
        "BROKER_REGISTRATION_CHANGE of broker 8 has log directory AAAAAAAAAAIAAAAAAAAABw, which is broker 7's",
    ),
    "a directory twice": Case(
        checks.DIRECTORY_TWICE, [with_directories(7, 10, B, B), unregister(7, 10)],
        "UNREGISTER_BROKER of broker 7, whose registration has log directory AAAAAAAAAAIAAAAAAAAABw twice",
    ),
    "an unknown protocol of a broker": Case(
        checks.BROKER_LISTENER, [broker(7, 10, **listener(4))],
        "REGISTER_BROKER of broker 7 has security protocol 4 in listener L",
    ),
    "an unknown protocol of a controller": Case(
        checks.CONTROLLER_LISTENER, [strange_controller(3005)],
        "REGISTER_CONTROLLER of controller 3005 has security protocol 9 in listener L",
    ),
    "an unknown controller": Case(
        checks.NO_CONTROLLER, [controller(3005), unregister_controller(3005), unregister_controller(3005)],
        "UNREGISTER_CONTROLLER of controller 3005, which is not registered",
    ),
    "a topic twice": Case(
        checks.TOPIC_TWICE, [topic(), topic()],
        "TOPIC of topic orders with id AAAAAAAAAAEAAAAAAAAABw: the topic exists with this id",
    ),
    "a topic twice with another id": Case(
        checks.TOPIC_TWICE, [topic(), topic(id_=B)],
        "TOPIC of topic orders with id AAAAAAAAAAIAAAAAAAAABw: the topic exists with id AAAAAAAAAAEAAAAAAAAABw",
    ),
    "a partition without a topic": Case(
        checks.NO_TOPIC, [partition()],
        "PARTITION of partition 0 has topic id AAAAAAAAAAEAAAAAAAAABw, which does not exist",
    ),
    "a partition of a removed topic": Case(
        checks.NO_TOPIC, [topic(), partition(), removed(), partition(1)],
        "PARTITION of partition 1 has topic id AAAAAAAAAAEAAAAAAAAABw, which does not exist",
    ),
    "a change without a topic": Case(
        checks.NO_TOPIC, [moved(isr=(1,))],
        "PARTITION_CHANGE of partition 0 has topic id AAAAAAAAAAEAAAAAAAAABw, which does not exist",
    ),
    "a change without a partition": Case(
        checks.NO_PARTITION, [topic(), partition(), moved(1, isr=(1,))],
        "PARTITION_CHANGE of partition orders-1, which does not exist",
    ),
    "an unknown state of recovery": Case(
        checks.RECOVERY_STATE, [topic(), partition(leaderRecoveryState=2)],
        "PARTITION of partition orders-0 has leaderRecoveryState 2",
    ),
    "an unknown state of recovery in a change": Case(
        checks.RECOVERY_STATE, [topic(), partition(), moved(leaderRecoveryState=7)],
        "PARTITION_CHANGE of partition orders-0 has leaderRecoveryState 7",
    ),
    "too few directories": Case(
        checks.DIRECTORIES, [topic(), partition(directories=(B,))],
        "PARTITION of partition orders-0 has 2 replicas and 1 directories",
    ),
    "too many directories in a change": Case(
        checks.DIRECTORIES, [topic(), partition(), moved(replicas=(1,), directories=(B, C))],
        "PARTITION_CHANGE of partition orders-0 has 1 replicas and 2 directories",
    ),
    "new replicas for old directories": Case(
        checks.MERGED_DIRECTORIES, [topic(), partition(), moved(replicas=(1, 2, 3))],
        "PARTITION_CHANGE of partition orders-0 leaves 2 directories for 3 replicas",
    ),
    "new directories for old replicas": Case(
        checks.MERGED_DIRECTORIES, [topic(), partition(), moved(directories=(B,))],
        "PARTITION_CHANGE of partition orders-0 leaves 1 directories for 2 replicas",
    ),
    "a topic removed twice": Case(
        checks.REMOVED_ALREADY, [topic(), removed(), removed()],
        "REMOVE_TOPIC of topic id AAAAAAAAAAEAAAAAAAAABw, which does not exist",
    ),
    "the ELR of no topic": Case(
        checks.ELR_OF_NO_TOPIC, [topic(), elr_cleared(""), elr_cleared("payments")],
        "CLEAR_ELR of topic payments, which does not exist",
    ),
    "an entry removed twice": Case(
        checks.NO_ENTRY, [entry(), entry_removed(), entry_removed()],
        "REMOVE_ACCESS_CONTROL_ENTRY of id AAAAAAAAAAEAAAAAAAAABw, which no entry has",
    ),
    "an entry with two ids": Case(
        checks.NO_SUCH_ENTRY, [entry(A), entry(B), entry_removed(A), entry_removed(B)],
        "REMOVE_ACCESS_CONTROL_ENTRY of id AAAAAAAAAAIAAAAAAAAABw, whose entry said the same as one that was removed "
        "before",
    ),
    "a credential that no user has": Case(
        checks.NO_CREDENTIAL, [credential(), credential_removed(mechanism=2)],
        "REMOVE_USER_SCRAM_CREDENTIAL of user alice, mechanism 2, which does not exist",
    ),
    "a producer id twice": Case(
        checks.PRODUCER_IDS_BACK, [producer_ids(1000), producer_ids(2000), producer_ids(2000)],
        "PRODUCER_IDS has next producer id 2000, the one before has 2000",
    ),
    "a token without a type of principal": Case(
        checks.PRINCIPAL, [token(), token(renewers=("User:bob", "bob"))],
        "DELEGATION_TOKEN of token t has principal 'bob', not type:name",
    ),
    "an unknown migration": Case(
        checks.MIGRATION_STATE, [migration(3), migration(9)], "ZK_MIGRATION_STATE has the state 9"
    ),
    "a transaction in a transaction": Case(
        checks.TRANSACTION_OPEN, [begin(), begin()],
        "BEGIN_TRANSACTION in the transaction that began at offset 0 and has not ended",
    ),
    "an end without a transaction": Case(
        checks.NO_TRANSACTION, [begin(), end(), end()], "END_TRANSACTION where no transaction is open"
    ),
    "an abort without a transaction": Case(
        checks.NO_TRANSACTION, [abort()], "ABORT_TRANSACTION where no transaction is open"
    ),
    "a partition of a topic that was aborted": Case(
        checks.NO_TOPIC, [begin(), topic(), partition(), abort(), partition(1)],
        "PARTITION of partition 1 has topic id AAAAAAAAAAEAAAAAAAAABw, which does not exist",
    ),
    "a record in a transaction": Case(
        checks.NO_PARTITION, [topic(), partition(), begin(), moved(5, isr=(1,))],
        "PARTITION_CHANGE of partition orders-5, which does not exist",
    ),
}  # fmt: skip
"""By name. The offset of the first record is 0; only of the transaction that is open, a text says so."""
