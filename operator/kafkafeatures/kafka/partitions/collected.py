"""Collects the answers of brokers about topics and partitions, and compares them with each other. No I/O.

Called by `kafka/partitions/asked.py` and `elected.py`, in the order of the methods: `add` for each page of topics,
`close`, `add_reassignments`, `add_configs`, `check` for each broker, `partitions`. Raises `Incomplete` if the answers
leave something out or contradict each other. Partitions are kept in numpy columns, page by page: as objects they would
take ten times the memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.words import first_of, printable
from kafkafeatures.kafka.base.errors import ErrorCode, code_name
from kafkafeatures.kafka.base.rights import SEE_TOPICS, ClusterRight, missing
from kafkafeatures.kafka.wire.topic_messages import (
    SET_ON_TOPIC,
    TOPIC_RESOURCE,
    ConfigAnswer,
    DescribeLogDirsResponse,
    ListPartitionReassignmentsResponse,
    PartitionAnswer,
    TopicAnswer,
)
from kraftlog.errors import ContradictionError
from kraftlog.partition_records import MIN_INSYNC_REPLICAS
from kraftlog.partition_state import PartitionState, flags_of
from kraftlog.partition_tables import Int64s, key_of
from kraftlog.partitions import Columns, Partitions

_LISTED = (
    ErrorCode.NONE,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.LISTENER_NOT_FOUND,
)
"""Codes with which Kafka still lists a partition's replicas: it has no leader, or the leader cannot be reached."""

_DENIED = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


class Incomplete(Exception):
    """The answers leave something out, or changed while they were read; `failure` says which."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class Collected:
    """The partitions from the answers so far."""

    def __init__(self) -> None:
        self._state = PartitionState()
        self._numbers: dict[str, tuple[int, bytes]] = {}  # by topic name: (its number in `_state`, its id)
        self._keys: list[Int64s] = []  # of partitions (`key_of`), by call of `add`; after `close` one sorted array

    @property
    def weight(self) -> int:
        """Bytes of memory, roughly."""
        return self._state.weight

    @property
    def names(self) -> Sequence[str]:
        """The names of the topics."""
        return tuple(self._numbers)

    def add(self, topics: Iterable[TopicAnswer]) -> None:
        """Add topics with their partitions; the partitions of one topic may come with several calls."""
        rows: dict[int, list[tuple[int, PartitionAnswer]]] = {}
        for topic in topics:
            if topic.error_code in _DENIED:
                raise Incomplete(_hidden(f"the topic {topic.name} is not shown to this user"))
            if topic.error_code:
                raise Incomplete(_changing(f"the topic {topic.name}: {code_name(topic.error_code)}"))
            number = self._number(topic)
            for partition in topic.partitions:
                if partition.error_code not in _LISTED:
                    words = f"{topic.name}-{partition.partition}: {code_name(partition.error_code)}"
                    raise Incomplete(_changing(words))
                rows.setdefault(len(partition.replicas), []).append((number, partition))
        for of_width in rows.values():
            columns = _columns(of_width)
            self._keys.append(columns.topic.astype(np.int64) << 32 | columns.partition)
            self._state.extend(columns)

    def close(self) -> None:
        """End the list of topics: check that each topic has partitions 0 to n, each once. Raises Incomplete."""
        keys = np.sort(np.concatenate([*self._keys, np.empty(0, dtype=np.int64)]))
        self._keys = [keys]
        # A key is the topic's number in the upper half, and the partition in the lower one.
        first = np.ones(len(keys), dtype=bool)
        first[1:] = keys[1:] >> 32 != keys[:-1] >> 32
        follows = np.concatenate([[-1], keys[:-1]]) + 1
        wrong = np.flatnonzero(np.where(first, keys & 0xFFFF_FFFF != 0, keys != follows))
        if len(wrong) or len(np.unique(keys >> 32)) < len(self._numbers):
            raise Incomplete(_changing("the partitions of a topic were not listed one after the other"))

    def add_reassignments(self, answer: ListPartitionReassignmentsResponse) -> None:
        """Add the reassignments that are under way. Raises Incomplete if one is of a partition that was not listed."""
        if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            lacking = missing("ListPartitionReassignments", ClusterRight.DESCRIBE, answer.error_message)
            raise Incomplete(Failure(FailureKind.AUTHORIZATION, "partitions", *lacking))
        if answer.error_code:
            text = printable(answer.error_message or "") or code_name(answer.error_code)
            raise Incomplete(Failure(FailureKind.REJECTED, "ListPartitionReassignments", text))
        for (name, index), moved in answer.reassignments.items():
            number_and_id = self._numbers.get(name)
            if number_and_id is None:
                raise Incomplete(_hidden(f"{name}-{index} is being moved, but the topic is not shown to this user"))
            try:
                self._state.move(number_and_id[0], index, moved.replicas, moved.adding, moved.removing)
            except ContradictionError:
                raise Incomplete(_changing(f"the replicas of {name}-{index} changed while they were read")) from None

    def add_configs(self, names: Iterable[str], answers: Mapping[str, ConfigAnswer]) -> None:
        """Add the `min.insync.replicas` that these topics override; `answers` by topic. Raises Incomplete if one is
        missing, or is an error.
        """
        for name in names:
            answer = answers.get(name)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if answer is None else answer.error_code
            if code in _DENIED:
                raise Incomplete(_hidden(f"{MIN_INSYNC_REPLICAS} of the topic {name} is not shown to this user"))
            if answer is None or code:
                raise Incomplete(_changing(f"{MIN_INSYNC_REPLICAS} of the topic {name}: {code_name(code)}"))
            entry = answer.entries.get(MIN_INSYNC_REPLICAS)
            if entry is not None and entry.source == SET_ON_TOPIC:
                value = {"name": MIN_INSYNC_REPLICAS, "value": entry.value}
                try:
                    self._state.config({"resourceType": TOPIC_RESOURCE, "resourceName": name, **value})
                except ContradictionError as error:
                    raise Incomplete(Failure(FailureKind.REJECTED, f"topic {name}", str(error))) from None

    def check(self, broker: int, location: str, answer: DescribeLogDirsResponse) -> None:
        """Check that all partitions on the disks of a broker were listed. Raises Incomplete. It changes nothing, so
        several checks may run in parallel.
        """
        if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            lacking = missing(f"DescribeLogDirs of broker {broker}", ClusterRight.DESCRIBE)
            raise Incomplete(Failure(FailureKind.AUTHORIZATION, location, *lacking))
        if answer.error_code:
            raise Incomplete(
                Failure(FailureKind.REJECTED, location, f"DescribeLogDirs: {code_name(answer.error_code)}")
            )
        listed = self._keys[0]
        unlisted: list[str] = []
        for directory in answer.directories:
            if directory.error_code:
                words = f"what it hosts in {printable(directory.path)} is unknown: {code_name(directory.error_code)}"
                raise Incomplete(Failure(FailureKind.REJECTED, location, words, "repair or replace the disk"))
            for name, partitions in directory.hosted.items():
                number_and_id = self._numbers.get(name)
                if number_and_id is None:
                    unlisted.append(name)
                    continue
                keys = np.array([key_of(number_and_id[0], partition) for partition in partitions], dtype=np.int64)
                at = np.minimum(
                    np.searchsorted(listed, keys), len(listed) - 1
                )  # behind the end: the last, which differs
                if (listed[at] != keys).any():
                    unlisted.append(name)
        if unlisted:
            names = first_of([min(unlisted)], 1, total=len(unlisted))
            words = f"broker {broker} hosts partitions that are not shown to this user: of {names}"
            raise Incomplete(_hidden(printable(words), location))

    def partitions(self) -> Partitions:
        """All partitions, without their epochs, which these answers do not have."""
        return self._state.view()

    def _number(self, topic: TopicAnswer) -> int:
        """The topic's number in `_state`, which is new for a new topic. Raises Incomplete if its id has changed."""
        if topic.id is None:
            words = f"the topic {printable(topic.name)} comes without its id"
            raise Incomplete(Failure(FailureKind.UNSUPPORTED, "partitions", words, "use Kafka 3.3 or newer"))
        number_and_id = self._numbers.get(topic.name)
        if number_and_id is None:
            number_and_id = self._state.topics.put(topic.id.bytes, topic.name), topic.id.bytes
            self._numbers[topic.name] = number_and_id
        if number_and_id[1] != topic.id.bytes:
            raise Incomplete(_changing(f"the topic {topic.name} was made anew while it was read"))
        return number_and_id[0]


def _columns(rows: Sequence[tuple[int, PartitionAnswer]]) -> Columns:
    """The columns of partitions with the same number of replicas."""
    try:
        flags = [flags_of(partition.replicas, _in_sync(partition), partition.eligible, (), ()) for _, partition in rows]
    except ContradictionError as error:
        raise Incomplete(_changing(str(error))) from None
    width = len(flags[0])

    def numbers(values: Iterable[int]) -> np.ndarray:
        return np.fromiter(values, dtype=np.int32, count=len(rows))

    return Columns(
        numbers(number for number, _ in rows),
        numbers(partition.partition for _, partition in rows),
        numbers(partition.leader for _, partition in rows),
        numbers(partition.leader_epoch for _, partition in rows),
        # partition epochs, which these answers do not have
        np.zeros(len(rows), dtype=np.int32),
        np.array([partition.replicas for _, partition in rows], dtype=np.int32).reshape(len(rows), width),
        np.array(flags, dtype=np.uint8).reshape(len(rows), width),
    )


def _in_sync(partition: PartitionAnswer) -> tuple[int, ...]:
    """The ISR without offline replicas, which the controller is about to remove. If all are offline and no broker
    leads, the ISR is unchanged: Kafka keeps the last replica in it.
    """
    if not partition.offline:
        return partition.in_sync
    online_replicas = tuple(replica for replica in partition.in_sync if replica not in partition.offline)
    return online_replicas if online_replicas or partition.leader >= 0 else partition.in_sync


def _hidden(words: str, location: str = "partitions") -> Failure:
    return Failure(FailureKind.AUTHORIZATION, location, words, SEE_TOPICS)


def _changing(words: str) -> Failure:
    return Failure(FailureKind.STALE, "partitions", printable(words), "look again in a moment")
