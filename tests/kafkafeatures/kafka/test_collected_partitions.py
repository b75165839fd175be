"""Partitions collected from answers of brokers: complete answers give all partitions, incomplete ones an error."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import FailureKind
from kafkafeatures.core.facts.settings import SettingSource
from kafkafeatures.kafka.partitions.collected import Collected, Incomplete
from kafkafeatures.kafka.wire.topic_messages import (
    SET_ON_TOPIC,
    ConfigAnswer,
    ConfigEntry,
    DescribeLogDirsResponse,
    ListPartitionReassignmentsResponse,
    LogDir,
    PartitionAnswer,
    Reassignment,
    TopicAnswer,
)
from kraftlog.partitions import Partition, Partitions

BROKERS = (1, 2, 3, 4)

MIN = "min.insync.replicas"


@dataclass(frozen=True)
class Answers:
    """The answers of one cluster. `moved`: reassignments, by topic and partition; `configs`: by topic; `disks`: by
    broker; `page`: the number of partitions in one answer about topics.
    """

    topics: tuple[TopicAnswer, ...]
    moved: dict[tuple[str, int], Reassignment] = field(default_factory=dict)
    configs: dict[str, ConfigAnswer] = field(default_factory=dict)
    disks: dict[int, tuple[LogDir, ...]] = field(default_factory=dict)
    page: int = 3

    def without(self, name: str) -> Answers:
        """The answers to a user who may not see a topic: disks and reassignments know no such right."""
        configs = {topic: answer for topic, answer in self.configs.items() if topic != name}
        return replace(self, topics=tuple(topic for topic in self.topics if topic.name != name), configs=configs)

    def pages(self) -> list[tuple[TopicAnswer, ...]]:
        parts = [
            topic._replace(partitions=topic.partitions[at : at + self.page])
            for topic in self.topics
            for at in range(0, len(topic.partitions), self.page)
        ]
        return [(part,) for part in parts]


def collected(answers: Answers) -> Partitions:
    collector = Collected()
    for page in answers.pages():
        collector.add(page)
    collector.close()
    collector.add_reassignments(ListPartitionReassignmentsResponse(0, None, answers.moved))
    collector.add_configs(collector.names, answers.configs)
    for broker, directories in answers.disks.items():
        collector.check(broker, f"b{broker}:9092", DescribeLogDirsResponse(0, directories))
    return collector.partitions()


def minimum(value: str, source: int) -> ConfigAnswer:
    return ConfigAnswer(0, None, {MIN: ConfigEntry(value, source)})


def rows(partitions: Partitions) -> dict[tuple[str, int], Partition]:
    return {(name, number): partition for name, number, partition in partitions.rows()}


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Answers, dict[tuple[str, int], Partition]]:
    """Answers, and the partitions that they describe."""
    topics, moved, configs = [], {}, {}
    hosted: dict[int, dict[str, set[int]]] = {broker: {} for broker in BROKERS}
    truth = {}
    for number in range(draw(st.integers(1, 4))):
        name = f"topic-{number}"
        partitions = []
        for at in range(draw(st.integers(1, 5))):
            replicas = draw(st.permutations(BROKERS))[: draw(st.integers(1, 4))]
            in_sync = [id_ for id_ in replicas if draw(st.booleans())]
            eligible = [id_ for id_ in replicas if id_ not in in_sync and draw(st.booleans())]
            adding: list[int] = []
            removing: list[int] = []
            if draw(st.booleans()):
                adding = [id_ for id_ in replicas if draw(st.booleans())]
                removing = [id_ for id_ in replicas if id_ not in adding and draw(st.booleans())]
                moved[name, at] = Reassignment(tuple(reversed(replicas)), tuple(adding), tuple(removing))
            leader = in_sync[0] if in_sync else -1
            code = 0 if in_sync else 5  # LEADER_NOT_AVAILABLE
            partitions.append(PartitionAnswer(code, at, leader, at, tuple(replicas), tuple(in_sync), tuple(eligible)))
            truth[name, at] = Partition(
                tuple(replicas), frozenset(in_sync), frozenset(eligible), frozenset(adding), frozenset(removing),
                leader, at, 0,
            )  # fmt: skip
            for broker in replicas:
                hosted[broker].setdefault(name, set()).add(at)
        topics.append(TopicAnswer(0, name, uuid.UUID(int=number + 1), tuple(partitions)))
        source = draw(st.sampled_from([SET_ON_TOPIC, SettingSource.DEFAULT]))
        configs[name] = minimum("2", source)
    disks: dict[int, tuple[LogDir, ...]] = {
        broker: (LogDir(0, "/data", {name: frozenset(numbers) for name, numbers in of_broker.items()}),)
        for broker, of_broker in hosted.items()
    }
    return Answers(tuple(topics), moved, configs, disks, draw(st.integers(1, 4))), truth


@given(clusters())
def test_collected_answers_give_the_partitions_of_the_cluster(
    cluster: tuple[Answers, dict[tuple[str, int], Partition]],
) -> None:
    answers, truth = cluster
    partitions = collected(answers)
    assert rows(partitions) == truth
    assert partitions.min_insync_replicas.topics == {
        name: 2 for name, answer in answers.configs.items() if answer.entries[MIN].source == SET_ON_TOPIC
    }


@given(clusters(), st.data())
def test_partitions_are_unknown_if_the_answer_about_one_topic_is_missing(
    cluster: tuple[Answers, dict[tuple[str, int], Partition]], data: st.DataObject
) -> None:
    answers, _ = cluster
    hidden = data.draw(st.sampled_from(answers.topics)).name
    with pytest.raises(Incomplete) as caught:
        collected(answers.without(hidden))
    assert hidden in caught.value.failure.message
    assert caught.value.failure.kind is FailureKind.AUTHORIZATION
    assert "--operation Describe --operation DescribeConfigs --topic '*'" in caught.value.failure.remedy


@given(clusters(), st.data())
def test_partitions_are_unknown_if_one_partition_is_missing(
    cluster: tuple[Answers, dict[tuple[str, int], Partition]], data: st.DataObject
) -> None:
    answers, _ = cluster
    at = data.draw(st.integers(0, len(answers.topics) - 1))
    topic = answers.topics[at]
    gone = data.draw(st.integers(0, len(topic.partitions) - 1))
    kept = topic._replace(partitions=topic.partitions[:gone] + topic.partitions[gone + 1 :])
    with pytest.raises(Incomplete):
        collected(replace(answers, topics=(*answers.topics[:at], kept, *answers.topics[at + 1 :])))


ID = uuid.UUID(int=1)
FIRST, SECOND = PartitionAnswer(0, 0, 1, 0, (1, 2), (1,)), PartitionAnswer(0, 1, 2, 0, (2, 3), (2,))
WHOLE = Answers(
    (TopicAnswer(0, "orders", ID, (FIRST, SECOND)),),
    {("orders", 0): Reassignment((1, 2), (2,), ())},
    {"orders": minimum("2", SET_ON_TOPIC)},
    {1: (LogDir(0, "/data", {"orders": frozenset({0})}),)},
)  # fmt: skip


def topic_with(*partitions: PartitionAnswer, code: int = 0, id_: uuid.UUID | None = ID) -> Answers:
    return replace(WHOLE, topics=(TopicAnswer(code, "orders", id_, partitions),))


# By case: the answer about a partition with offline replicas, and the replicas that count as in sync.
AWAY: dict[str, tuple[PartitionAnswer, set[int]]] = {
    "in sync, and about to be taken out": (PartitionAnswer(0, 0, 1, 0, (1, 2, 3), (1, 2), offline=(2,)), {1}),
    "the leader itself": (PartitionAnswer(5, 0, -1, 0, (1, 2, 3), (1, 2), offline=(1,)), {2}),
    "out of sync already": (PartitionAnswer(0, 0, 1, 0, (1, 2, 3), (1, 3), offline=(2,)), {1, 3}),
    "the last of an ISR": (PartitionAnswer(5, 0, -1, 0, (1, 2, 3), (2,), offline=(1, 2)), {2}),
    "the leader, which is still named": (PartitionAnswer(0, 0, 1, 0, (1, 2, 3), (1,), offline=(1,)), set()),
}


@pytest.mark.parametrize("name", AWAY)
def test_a_replica_that_is_offline_is_not_in_sync_unless_it_is_the_last_of_an_isr(name: str) -> None:
    partition, in_sync = AWAY[name]
    answers = Answers((TopicAnswer(0, "orders", ID, (partition,)),), configs={"orders": minimum("2", SET_ON_TOPIC)})
    assert rows(collected(answers))["orders", 0].in_sync == in_sync


WRONG: dict[str, tuple[Answers, FailureKind, str]] = {
    "a topic that is denied": (topic_with(FIRST, SECOND, code=29), FailureKind.AUTHORIZATION, "topic orders is not"),
    "a topic with an error": (topic_with(FIRST, SECOND, code=3), FailureKind.STALE, "UNKNOWN_TOPIC_OR_PARTITION"),
    "a topic without an id": (topic_with(FIRST, id_=None), FailureKind.UNSUPPORTED, "comes without its id"),
    "a partition with an error": (
        topic_with(FIRST._replace(error_code=-1), SECOND), FailureKind.STALE, "orders-0: UNKNOWN_SERVER_ERROR",
    ),
    "a replica twice": (topic_with(FIRST._replace(replicas=(1, 1)), SECOND), FailureKind.STALE, "a replica twice"),
    "in sync without a replica": (
        topic_with(FIRST._replace(in_sync=(4,)), SECOND), FailureKind.STALE, "in sync or moved where it has none",
    ),
    "a partition twice": (topic_with(FIRST, FIRST, SECOND), FailureKind.STALE, "not listed one after the other"),
    "a topic made anew meanwhile": (
        replace(WHOLE, page=1, topics=(*WHOLE.topics, WHOLE.topics[0]._replace(id=uuid.UUID(int=2)))),
        FailureKind.STALE,
        "made anew while it was read",
    ),
    "a move of other replicas": (
        replace(WHOLE, moved={("orders", 0): Reassignment((1, 3), (3,), ())}), FailureKind.STALE, "changed while",
    ),
    "a move of a partition that is not listed": (
        replace(WHOLE, moved={("orders", 9): Reassignment((1, 3), (3,), ())}), FailureKind.STALE, "changed while",
    ),
    "no configs": (replace(WHOLE, configs={}), FailureKind.STALE, "min.insync.replicas of the topic orders"),
    "configs that are denied": (
        replace(WHOLE, configs={"orders": ConfigAnswer(29, None, {})}),
        FailureKind.AUTHORIZATION,
        "min.insync.replicas of the topic orders is not shown to this user",
    ),
    "a config that is no number": (
        replace(WHOLE, configs={"orders": minimum("two", SET_ON_TOPIC)}),
        FailureKind.REJECTED,
        "expected a number",
    ),
    "a disk that is broken": (
        replace(WHOLE, disks={1: (LogDir(56, "/data", {}),)}),  # KAFKA_STORAGE_ERROR
        FailureKind.REJECTED,
        "in /data is unknown: error 56",
    ),
    "a disk with a partition that is not listed": (
        replace(WHOLE, disks={1: (LogDir(0, "/data", {"orders": frozenset({0, 2})}),)}),
        FailureKind.AUTHORIZATION,
        "broker 1 hosts partitions that are not shown to this user: of orders",
    ),
    "a disk with two topics that are not listed": (
        replace(WHOLE, disks={1: (LogDir(0, "/data", {"b": frozenset({0}), "a": frozenset({0})}),)}),
        FailureKind.AUTHORIZATION,
        "not shown to this user: of a and 1 more",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_inconsistent_answers_give_no_partitions(what: str) -> None:
    answers, kind, words = WRONG[what]
    with pytest.raises(Incomplete) as caught:
        collected(answers)
    assert caught.value.failure.kind is kind
    assert words in caught.value.failure.message
    assert len(collected(WHOLE)) == 2  # so only this inconsistency is the cause


@pytest.mark.parametrize(
    "add_answer",
    [
        lambda collector: collector.add_reassignments(
            ListPartitionReassignmentsResponse(31, "needs DESCRIBE permission", {})
        ),
        lambda collector: collector.check(1, "b1:9092", DescribeLogDirsResponse(31, ())),
    ],
    ids=["reassignments", "disks"],
)
def test_the_failure_of_a_missing_right_on_the_cluster_has_the_command_that_grants_it(
    add_answer: Callable[[Collected], None],
) -> None:
    collector = Collected()
    collector.add(WHOLE.topics)
    collector.close()
    with pytest.raises(Incomplete) as caught:
        add_answer(collector)
    assert caught.value.failure.remedy == (
        "kafka-acls.sh --add --allow-principal User:NAME --operation Describe --cluster"
    )


def test_a_cluster_without_topics_has_no_partitions() -> None:
    assert len(collected(Answers((), disks={1: (LogDir(0, "/data", {}),)}))) == 0
