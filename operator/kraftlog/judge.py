"""Decides whether Kafka would throw an exception at a record, by `checks` and the state that earlier records made.

    judge = Judge(is_complete=True)
    impossible = judge.take(key, data, offset)

Called with every record of `KEYS` in the order of the log, also with those of an open transaction: Kafka replays them
at once, and undoes them at an Abort. After a record at which Kafka throws, it continues like a broker: a broker skips
records that its image refuses, and applies those that only controllers refuse.

If earlier records are missing, values that no later record has set are unknown, and never make a record impossible. It
decodes nothing, and keeps only what the checks need. Uuids may be texts, since they are only compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from kraftlog import checks
from kraftlog.checks import Impossible, ReplayCheck
from kraftlog.known import UNKNOWN, JudgeMemory
from kraftlog.partition_records import RECOVERY, value_or
from kraftlog.records import kafka_uuid
from kraftlog.schema import table
from kraftlog.transactions import ABORT, BEGIN, END

Data = Mapping[str, Any]

_MIGRATING = UUID(int=0), kafka_uuid(UUID(int=0))  # DirectoryId.MIGRATING: the log directory is not known
_PROTOCOLS = range(4)  # SecurityProtocol.java


class _Refusal(Exception):
    """Raised where Kafka throws; the state is then that of a broker, which continues."""

    def __init__(self, check: ReplayCheck, text: str) -> None:
        super().__init__(text)
        self.check = check
        self.text = text


class _Topic:
    """A topic. partitions: number of the partition -> twice its number of replicas, plus 1 if their log directories are
    known (see `_shape`).
    """

    __slots__ = ("name", "partitions")

    def __init__(self, name: str) -> None:
        self.name = name
        self.partitions: dict[Any, Any] = {}


class Judge:
    """Judges the records of a log in order. is_complete: no earlier records are missing. in_snapshot: the records are
    from a snapshot.

    A value of `_known` is None if it does not exist, and UNKNOWN if that cannot be told since records are missing.
    """

    def __init__(self, *, is_complete: bool, in_snapshot: bool = False) -> None:
        self._in_snapshot = in_snapshot
        self._known = JudgeMemory(is_complete=is_complete)

    @property
    def is_complete(self) -> bool:
        """True if no earlier records are missing."""
        return self._known.is_complete

    def miss(self) -> None:
        """Note that records are missing or not understood: all known values become unknown."""
        self._known.is_complete = False
        self._known.clear()

    def end_snapshot(self) -> Judge:
        """Continue with the records of the log after the snapshot, which must be complete. Returns this judge."""
        self._in_snapshot = False
        return self

    def take(self, key: int, data: Data, offset: int) -> Impossible | None:
        """Judge and apply a record of `KEYS`. Returns the finding if Kafka throws at it. Raises TooLargeError if there
        are more values than any cluster has.
        """
        try:
            if key in _MARKS:
                self._mark(key, offset)
            else:
                _RULES[key](self, data)
        except _Refusal as refusal:
            return Impossible(offset, key, refusal.text, refusal.check)
        return None

    def has_partition(self, topic_id: bytes | str, partition: int) -> bool:
        """True if this partition is known to exist."""
        topic: _Topic | None = self._known.topics.get(topic_id)
        return topic is not None and partition in topic.partitions

    # --- transactions

    def _mark(self, key: int, offset: int) -> None:
        """Judge and apply a Begin, End or Abort of a transaction."""
        if self._in_snapshot:
            raise _Refusal(checks.IN_SNAPSHOT, "in a snapshot")
        memory = self._known
        began = memory.get(memory.numbers, BEGIN)  # the offset of the open transaction
        if key == BEGIN:
            if began is not None and began is not UNKNOWN:
                text = f"in the transaction that began at offset {began} and has not ended"
                raise _Refusal(checks.TRANSACTION_OPEN, text)
            memory.put(memory.numbers, BEGIN, offset)
            memory.begin()
            return
        if began is None:
            raise _Refusal(checks.NO_TRANSACTION, "where no transaction is open")
        if key == END:
            memory.end()
        elif not memory.abort():
            self.miss()  # the records that it undoes are missing
        memory.put(memory.numbers, BEGIN, None)

    # --- nodes

    def _register_broker(self, data: Data) -> None:
        id_, directories = data["brokerId"], tuple(data.get("logDirs") or ())
        previous = self._known.get(self._known.brokers, id_)
        self._known.put(self._known.brokers, id_, (data["brokerEpoch"], directories))
        listener = _unknown_listener(data)
        self._move_directories(id_, previous, directories)
        if listener:
            raise _Refusal(checks.BROKER_LISTENER, f"of broker {id_} {listener}")

    def _unregister_broker(self, data: Data) -> None:
        id_ = data["brokerId"]
        previous = self._known.take(self._known.brokers, id_)  # a broker removes it even if the epoch is wrong
        self._require(previous, data, "brokerEpoch", id_, (checks.UNREGISTERED_ALREADY, checks.UNREGISTERED_EPOCH))
        self._move_directories(id_, previous, ())

    @staticmethod
    def _require(registered: Any, data: Data, epoch_field: str, id_: int, of: tuple[ReplayCheck, ReplayCheck]) -> None:
        """Refuse a record of a broker that is not registered (the first check of `of`), or that has another epoch than
        its registration (the second).
        """
        epoch = data[epoch_field]
        if registered is None:
            raise _Refusal(of[0], f"of broker {id_} has epoch {epoch}, but the broker is not registered")
        if registered is not UNKNOWN and registered[0] != epoch:
            raise _Refusal(of[1], f"of broker {id_} has epoch {epoch}, its registration has {registered[0]}")

    def _fence(self, data: Data) -> None:
        self._change_registration(data, "id", "epoch", ())

    def _change_broker(self, data: Data) -> None:
        fenced, shutdown = data.get("fenced", 0), data.get("inControlledShutdown", 0)
        if fenced not in (-1, 0, 1) or shutdown not in (0, 1):
            text = f"of broker {data['brokerId']} has fenced {fenced} and inControlledShutdown {shutdown}"
            raise _Refusal(checks.CHANGE_VALUE, text)
        self._change_registration(data, "brokerId", "brokerEpoch", tuple(data.get("logDirs") or ()))

    def _change_registration(self, data: Data, id_field: str, epoch_field: str, directories: Sequence[object]) -> None:
        """Judge a change of a broker's registration; without directories it keeps those that it has."""
        id_ = data[id_field]
        previous = self._known.get(self._known.brokers, id_)
        self._require(previous, data, epoch_field, id_, (checks.NOT_REGISTERED, checks.BROKER_EPOCH))
        if previous is not UNKNOWN:
            current = tuple(directories) or previous[1]
            self._known.put(self._known.brokers, id_, (previous[0], current))
            self._move_directories(id_, previous, current)

    def _move_directories(self, id_: int, previous: Any, current: Sequence[object]) -> None:
        """Replace the log directories of a broker, like Kafka's `updateDirectories`: remove the previous ones, then add
        the new. The first refusal is raised after all of them: it is the controller's, and a broker does not check.
        """
        refusal: _Refusal | None = None
        for each in previous[1] if previous is not None and previous is not UNKNOWN else ():
            owner = self._known.get(self._known.directories, each)
            if owner == id_:
                self._known.drop(self._known.directories, each)
            elif owner is not UNKNOWN and refusal is None:
                text = f"of broker {id_}, whose registration has log directory {_text(each)} twice"
                refusal = _Refusal(checks.DIRECTORY_TWICE, text)
        for each in current:
            owner = self._known.get(self._known.directories, each)
            if owner is None or owner is UNKNOWN:
                self._known.put(self._known.directories, each, id_)
            elif owner != id_ and refusal is None:
                text = f"of broker {id_} has log directory {_text(each)}, which is broker {owner}'s"
                refusal = _Refusal(checks.DIRECTORY, text)
        if refusal is not None:
            raise refusal

    def _register_controller(self, data: Data) -> None:
        if listener := _unknown_listener(data):
            raise _Refusal(checks.CONTROLLER_LISTENER, f"of controller {data['controllerId']} {listener}")
        self._known.put(self._known.controllers, data["controllerId"], True)

    def _unregister_controller(self, data: Data) -> None:
        id_ = data["controllerId"]
        if self._known.take(self._known.controllers, id_) is None:
            raise _Refusal(checks.NO_CONTROLLER, f"of controller {id_}, which is not registered")

    # --- topics

    def _topic(self, data: Data) -> None:
        name, id_ = data["name"], _key(data["topicId"])
        previous_id = self._known.get(self._known.topic_ids, name)
        self._known.put(self._known.topic_ids, name, id_)
        self._known.put(self._known.topics, id_, _Topic(name))
        if previous_id is not None and previous_id is not UNKNOWN:
            existing = "this id" if previous_id == id_ else f"id {_text(previous_id)}"
            text = f"of topic {name} with id {_text(id_)}: the topic exists with {existing}"
            raise _Refusal(checks.TOPIC_TWICE, text)

    def _remove_topic(self, data: Data) -> None:
        topic = self._known.get(self._known.topics, _key(data["topicId"]))
        if topic is None:
            raise _Refusal(checks.REMOVED_ALREADY, f"of topic id {_text(data['topicId'])}, which does not exist")
        self._known.drop(self._known.topics, _key(data["topicId"]))
        if topic is not UNKNOWN:
            self._known.count_off(len(topic.partitions))
            self._known.drop(self._known.topic_ids, topic.name)

    def _of_topic(self, data: Data) -> Any:
        """The topic of a record about a partition, or UNKNOWN."""
        topic = self._known.get(self._known.topics, _key(data["topicId"]))
        if topic is None:
            text = f"of partition {data['partitionId']} has topic id {_text(data['topicId'])}, which does not exist"
            raise _Refusal(checks.NO_TOPIC, text)
        return topic

    def _partition(self, data: Data) -> None:
        topic = self._of_topic(data)
        replicas, directories = data["replicas"], value_or(data, "directories", ())
        subject = f"of partition {_name(topic, data)}"
        if directories and len(directories) != len(replicas):
            raise _Refusal(checks.DIRECTORIES, f"{subject} has {_counts(replicas, directories)}")
        _check_recovery(data.get(RECOVERY) or 0, (0, 1), subject)
        if topic is not UNKNOWN:
            self._known.put(topic.partitions, data["partitionId"], _shape(replicas, directories))

    def _change_partition(self, data: Data) -> None:
        topic = self._of_topic(data)
        subject = f"of partition {_name(topic, data)}"
        shape = UNKNOWN if topic is UNKNOWN else topic.partitions.get(data["partitionId"])
        if shape is None:
            raise _Refusal(checks.NO_PARTITION, f"{subject}, which does not exist")
        replicas, directories = value_or(data, "replicas", None), value_or(data, "directories", None)
        if replicas is not None and directories and len(directories) != len(replicas):
            raise _Refusal(checks.DIRECTORIES, f"{subject} has {_counts(replicas, directories)}")
        _check_recovery(data.get(RECOVERY, -1), (-1, 0, 1, None), subject)
        if shape is UNKNOWN or (replicas is None and directories is None):
            return
        count = shape >> 1 if replicas is None else len(replicas)
        if directories is None:
            has_directories, directory_count = bool(shape & 1), shape >> 1
        else:
            has_directories, directory_count = _has_directories(directories), len(directories)
        if has_directories and directory_count != count:
            text = f"{subject} leaves {directory_count} directories for {count} replicas"
            raise _Refusal(checks.MERGED_DIRECTORIES, text)
        self._known.put(topic.partitions, data["partitionId"], count << 1 | has_directories)

    def _clear_elr(self, data: Data) -> None:
        name = data["topicName"]
        if name and self._known.get(self._known.topic_ids, name) is None:
            raise _Refusal(checks.ELR_OF_NO_TOPIC, f"of topic {name}, which does not exist")

    # --- clients

    def _grant(self, data: Data) -> None:
        content = tuple(data[name] for name in _CONTENT)
        self._known.put(self._known.entries, data["id"], content)
        self._known.put(self._known.contents, content, True)

    def _revoke(self, data: Data) -> None:
        content = self._known.get(self._known.entries, data["id"])
        if content is None:
            raise _Refusal(checks.NO_ENTRY, f"of id {_text(data['id'])}, which no entry has")
        self._known.drop(self._known.entries, data["id"])
        if content is UNKNOWN:
            return
        if self._known.take(self._known.contents, content) is None:
            text = f"of id {_text(data['id'])}, whose entry said the same as one that was removed before"
            raise _Refusal(checks.NO_SUCH_ENTRY, text)

    def _scram(self, data: Data) -> None:
        for each in data.get("credentialInfos", (data,)):  # several in the layout of 3.0 to 3.4
            self._known.put(self._known.credentials, (data["name"], each["mechanism"]), True)

    def _remove_scram(self, data: Data) -> None:
        credential = data["name"], data["mechanism"]
        if self._known.take(self._known.credentials, credential) is None:
            text = f"of user {data['name']}, mechanism {data['mechanism']}, which does not exist"
            raise _Refusal(checks.NO_CREDENTIAL, text)

    def _producer_ids(self, data: Data) -> None:
        next_id, previous_id = data["nextProducerId"], self._known.get(self._known.numbers, checks.PRODUCER_IDS)
        self._known.put(self._known.numbers, checks.PRODUCER_IDS, next_id)
        if previous_id is not None and previous_id is not UNKNOWN and next_id <= previous_id:
            text = f"has next producer id {next_id}, the one before has {previous_id}"
            raise _Refusal(checks.PRODUCER_IDS_BACK, text)

    def _token(self, data: Data) -> None:
        principals = data["owner"], data.get("requester", ":"), *data["renewers"]
        if wrong := [each for each in principals if ":" not in each]:
            raise _Refusal(checks.PRINCIPAL, f"of token {data['tokenId']} has principal {wrong[0]!r}, not type:name")

    def _migration_state(self, data: Data) -> None:
        state = data["zkMigrationState"]
        if state not in _MIGRATION_STATES:
            raise _Refusal(checks.MIGRATION_STATE, f"has the state {state}")


_CONTENT = "resourceType", "resourceName", "patternType", "principal", "host", "operation", "permissionType"
_MIGRATION_STATES = range(5)  # ZkMigrationState.java


def _unknown_listener(data: Data) -> str:
    """The first listener with an unknown security protocol, in words; empty if there is none."""
    for each in data["endPoints"]:
        if each.get("securityProtocol", 0) not in _PROTOCOLS:
            return f"has security protocol {each['securityProtocol']} in listener {each['name']}"
    return ""


def _check_recovery(state: int | None, valid: Collection[int | None], subject: str) -> None:
    if state not in valid:
        raise _Refusal(checks.RECOVERY_STATE, f"{subject} has leaderRecoveryState {state}")


def _has_directories(directories: Collection[object]) -> bool:
    return any(each not in _MIGRATING for each in directories)


def _shape(replicas: Sequence[object], directories: Collection[object]) -> int:
    """All that the checks need of a partition, in one number: see `_Topic`."""
    return len(replicas) << 1 | _has_directories(directories)


def _counts(replicas: Sequence[object], directories: Sequence[object]) -> str:
    return f"{len(replicas)} replicas and {len(directories)} directories"


def _name(topic: Any, data: Data) -> str:
    name = _text(data["topicId"]) if topic is UNKNOWN else topic.name
    return f"{name}-{data['partitionId']}"


def _key(id_: object) -> object:
    """An id as a key of the tables."""
    return id_.bytes if isinstance(id_, UUID) else id_


def _text(id_: object) -> str:
    """An id as Kafka writes it."""
    if isinstance(id_, bytes):
        return kafka_uuid(UUID(bytes=id_))
    return kafka_uuid(id_) if isinstance(id_, UUID) else str(id_)


_MARKS = frozenset({BEGIN, END, ABORT})  # of transactions
_RULES: Mapping[int, Callable[[Judge, Data], None]] = {
    table.REGISTER_BROKER.key: Judge._register_broker,
    table.UNREGISTER_BROKER.key: Judge._unregister_broker,
    table.FENCE_BROKER.key: Judge._fence,
    table.UNFENCE_BROKER.key: Judge._fence,
    table.BROKER_REGISTRATION_CHANGE.key: Judge._change_broker,
    table.REGISTER_CONTROLLER.key: Judge._register_controller,
    table.UNREGISTER_CONTROLLER.key: Judge._unregister_controller,
    table.TOPIC.key: Judge._topic,
    table.REMOVE_TOPIC.key: Judge._remove_topic,
    table.PARTITION.key: Judge._partition,
    table.PARTITION_CHANGE.key: Judge._change_partition,
    table.CLEAR_ELR.key: Judge._clear_elr,
    table.ZK_MIGRATION_STATE.key: Judge._migration_state,
    checks.ENTRY: Judge._grant,
    checks.REMOVE_ENTRY: Judge._revoke,
    checks.CREDENTIAL: Judge._scram,
    checks.REMOVE_CREDENTIAL: Judge._remove_scram,
    checks.PRODUCER_IDS: Judge._producer_ids,
    checks.TOKEN: Judge._token,
}
KEYS = _MARKS | _RULES.keys()
"""Api keys of the records that are judged."""
