"""Any records of topics and partitions, whole and damaged, against a model of dicts and against one another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog import Replay, Section, blocks
from kraftlog.partitions import Partition
from kraftlog.records import Decoded, decode
from kraftlog.schema import table
from tests.kraftlog.build import no_op, snapshot
from tests.kraftlog.partitions import change, clear_elr, partition, read, remove, rows, topic


@dataclass(frozen=True)
class Model:
    """A model of partitions in dicts, which applies decoded records as Kafka's `TopicsDelta` does."""

    topics: dict[int, str]
    partitions: dict[tuple[int, int], Partition]

    def take(self, value: bytes) -> None:
        decoded = decode(value)
        assert isinstance(decoded, Decoded)
        data = decoded.data
        number = data["topicId"].int if "topicId" in data else -1
        named = [one for one, name in self.topics.items() if name == data.get("topicName")]
        match decoded.type.key:
            case table.TOPIC.key:
                self.topics[number] = data["name"]
            case table.REMOVE_TOPIC.key:
                if self.topics.pop(number, None) is not None:
                    for key in [key for key in self.partitions if key[0] == number]:
                        del self.partitions[key]
            case table.PARTITION.key:
                if number in self.topics:
                    self.partitions[number, data["partitionId"]] = _partition(data)
            case table.PARTITION_CHANGE.key:
                now = self.partitions.get((number, data["partitionId"]))
                if now is not None and set(data.get("isr") or ()) <= set(data.get("replicas") or now.replicas):
                    self.partitions[number, data["partitionId"]] = _changed(now, data)
            case table.CLEAR_ELR.key if named or not data["topicName"]:
                for key, one in self.partitions.items():
                    if one.eligible and (key[0] in named or not named):
                        epoch = one.partition_epoch + 1
                        self.partitions[key] = replace(one, eligible=frozenset(), partition_epoch=epoch)
            case table.CLEAR_ELR.key:
                pass
            case other:
                raise AssertionError(f"the model does not know records of type {other}")

    @property
    def rows(self) -> dict[tuple[str, int], Partition]:
        return {(self.topics[number], at): each for (number, at), each in self.partitions.items()}


def _partition(data: Any) -> Partition:
    in_sync, eligible, adding, removing = (
        frozenset(data.get(each) or ())
        for each in ("isr", "eligibleLeaderReplicas", "addingReplicas", "removingReplicas")
    )
    led = data["leader"], data["leaderEpoch"], data["partitionEpoch"]
    recovers = bool(data.get("leaderRecoveryState"))
    return Partition(data["replicas"], in_sync, eligible, adding, removing, *led, is_recovering=recovers)


def _changed(now: Partition, data: Any) -> Partition:
    leader, eligible = data.get("leader", -2), data.get("eligibleLeaderReplicas")
    return replace(
        now,
        in_sync=now.in_sync if data.get("isr") is None else frozenset(data["isr"]),
        eligible=now.eligible if eligible is None else frozenset(eligible) & frozenset(now.replicas),
        leader=now.leader if leader == -2 else leader,
        leader_epoch=now.leader_epoch + (leader != -2),
        partition_epoch=now.partition_epoch + 1,
        is_recovering=now.is_recovering
        if data.get("leaderRecoveryState", -1) == -1
        else data["leaderRecoveryState"] == 1,
    )


BROKERS = st.integers(1, 6)


@st.composite
def record(draw: st.DrawFn) -> bytes:
    number, at = draw(st.integers(1, 3)), draw(st.integers(0, 5))
    kind = draw(st.sampled_from("tppppppccccre"))  # topic, partition, change, removal, ELR cleared
    if kind == "t":
        return topic(number)
    if kind == "r":
        return remove(number)
    if kind == "e":
        return clear_elr(draw(st.sampled_from(["", "topic-1", "topic-2"])))
    if kind == "c":
        data: dict[str, Any] = {}
        if draw(st.booleans()):
            data["isr"] = tuple(draw(st.lists(BROKERS, max_size=3, unique=True)))
        if draw(st.booleans()):
            data["leader"] = draw(st.integers(-2, 6))
        if draw(st.booleans()):
            data["eligibleLeaderReplicas"] = tuple(draw(st.lists(BROKERS, max_size=2, unique=True)))
        if draw(st.booleans()):
            data["leaderRecoveryState"] = draw(st.integers(-1, 1))
        return change(number, at, **data)
    replicas = tuple(draw(st.lists(BROKERS, min_size=1, max_size=4, unique=True)))
    some = st.lists(st.sampled_from(replicas), unique=True, max_size=4).map(tuple)
    version = draw(st.integers(0, 2))
    tags: dict[str, Any] = (
        {"eligibleLeaderReplicas": draw(some), "lastKnownElr": draw(some)}
        if version == 2 and draw(st.booleans())
        else {}
    )
    if draw(st.booleans()):
        tags["leaderRecoveryState"] = draw(st.integers(0, 1))
    moved = {"addingReplicas": draw(some), "removingReplicas": draw(some)} if draw(st.booleans()) else {}
    return partition(
        number, at, *replicas, version=version, isr=draw(some), leaderEpoch=draw(st.integers(0, 99)), **moved, **tags
    )


@pytest.fixture(autouse=True, scope="module")
def read_few_at_once_as_well() -> Iterator[None]:
    """Read even a single record as a block; without this, fewer than `blocks._FEW` are read one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_FEW", 1)
        yield


@settings(deadline=None)
@given(st.lists(record(), max_size=120))
def test_partitions_equal_a_model_read_singly_in_batches_and_from_a_snapshot(values: list[bytes]) -> None:
    model = Model({}, {})
    for value in values:
        model.take(value)
    single, together = read(*values), read(*values, at_once=True)
    assert rows(single) == rows(together) == model.rows
    assert single.unreadable == together.unreadable
    assert {**together.counts, 20: 0} == {**single.counts, 20: 0}  # `read` adds NoOps (key 20) to read many at once
    replay = Replay(sections=[Section.PARTITIONS])
    replay.load_snapshot(snapshot(*values, *[no_op()] * 40), end_offset=900, epoch=3)
    assert rows(replay.image()) == model.rows


@settings(deadline=None)
@given(st.lists(record(), min_size=1, max_size=60), st.data())
def test_damaged_records_are_read_the_same_in_batches_and_singly(values: list[bytes], data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(values) - 1))
        place = data.draw(st.integers(0, len(values[at])))
        other = data.draw(st.binary(max_size=3))
        keep = data.draw(st.sampled_from([0, 1, 1000]))
        values[at] = values[at][:place] + other + values[at][place + keep :]
    values = [value for value in values if value[:2] not in (b"\1\x17", b"\1\x18", b"\1\x19")]  # no transactions
    single, together = read(topic(1), topic(2), *values), read(topic(1), topic(2), *values, at_once=True)
    assert rows(single) == rows(together)
    assert single.unreadable == together.unreadable
