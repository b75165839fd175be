"""Partitions of an image: the effect of each record, whether it is decoded by itself or read in a batch at once."""

from __future__ import annotations

import pickle
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kraftlog import Replay, Section, SectionNotRead
from kraftlog.partition_records import BROKER_RESOURCE, TOPIC_RESOURCE
from kraftlog.partition_tables import CHUNK
from kraftlog.partitions import Partition
from kraftlog.records import Decoded, decode
from tests.kraftlog.build import abort, batch, begin, end, level
from tests.kraftlog.partitions import ALL, change, clear_elr, config, partition, read, remove, rows, topic

ONE_BY_ONE_AND_AT_ONCE = pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "at once"])


# --- effects of records


@ONE_BY_ONE_AND_AT_ONCE
def test_a_partition_has_replicas_isr_and_reassignment(at_once: bool) -> None:
    image = read(
        topic(1),
        partition(1, 0, 4, 5, 6, isr=(5, 4), addingReplicas=(6,), removingReplicas=(4,), leader=5, leaderEpoch=7),
        partition(1, 1, 4, 5, version=2, isr=(4,), eligibleLeaderReplicas=(5,), lastKnownElr=(9,), partitionEpoch=3),
        at_once=at_once,
    )
    nothing: frozenset[int] = frozenset()
    first = Partition((4, 5, 6), frozenset({4, 5}), nothing, frozenset({6}), frozenset({4}), 5, 7, 0)
    second = Partition((4, 5), frozenset({4}), frozenset({5}), nothing, nothing, 4, 0, 3)
    assert rows(image) == {("topic-1", 0): first, ("topic-1", 1): second}
    assert image.unreadable == 0
    assert image.counts[3] == 2


def test_a_partition_change_updates_its_fields_and_raises_the_epochs() -> None:
    earlier = read(topic(1), partition(1, 0, 1, 2, 3))
    later = read(topic(1), partition(1, 0, 1, 2, 3), change(1, 0, isr=(2, 3), leader=2, eligibleLeaderReplicas=(1,)))
    was = rows(earlier)["topic-1", 0]
    changed = replace(
        was, in_sync=frozenset({2, 3}), eligible=frozenset({1}), leader=2, leader_epoch=1, partition_epoch=1
    )
    assert rows(later) == {("topic-1", 0): changed}


def test_only_a_change_of_the_leader_raises_the_leader_epoch() -> None:
    kept = rows(read(topic(1), partition(1, 0, 1, 2), change(1, 0, isr=(1,), leader=-2)))["topic-1", 0]
    none = rows(read(topic(1), partition(1, 0, 1, 2), change(1, 0, leader=-1)))["topic-1", 0]
    assert (kept.leader, kept.leader_epoch, kept.partition_epoch) == (1, 0, 1)
    assert (none.leader, none.leader_epoch, none.partition_epoch) == (-1, 1, 1)


def test_a_reassignment_changes_the_replicas_of_its_partition_only() -> None:
    image = read(
        topic(1),
        *(partition(1, at, 1, 2, 3) for at in range(5)),
        change(1, 2, replicas=(4, 1, 2, 3), addingReplicas=(4,), removingReplicas=(3,)),
        change(1, 2, isr=(1, 2, 3, 4)),
        change(1, 2, replicas=(4, 1, 2), isr=(1, 2, 4), addingReplicas=(), removingReplicas=()),
    )
    partitions = rows(image)
    assert partitions["topic-1", 2].replicas == (4, 1, 2)
    assert partitions["topic-1", 2].partition_epoch == 3
    assert all(partitions["topic-1", at].replicas == (1, 2, 3) for at in (0, 1, 3, 4))


@ONE_BY_ONE_AND_AT_ONCE
def test_removing_a_topic_removes_its_partitions_and_its_min_isr(at_once: bool) -> None:
    image = read(
        topic(1),
        *(partition(1, at, 1, 2) for at in range(10)),
        config(TOPIC_RESOURCE, "topic-1", "2"),
        topic(2),
        *(partition(2, at, 1, 2) for at in range(10)),
        config(TOPIC_RESOURCE, "topic-2", "2"),
        remove(1),
        at_once=at_once,
    )
    assert {name for name, _ in rows(image)} == {"topic-2"}
    assert dict(image.partitions.min_insync_replicas.topics) == {"topic-2": 2}
    assert [each.name for each in image.partitions.topics.values()] == ["topic-2"]


def test_a_recreated_topic_is_a_new_topic() -> None:
    image = read(topic(1, "t"), partition(1, 0, 1), remove(1), topic(2, "t"), partition(2, 0, 2))
    assert rows(image)["t", 0].replicas == (2,)
    assert [each.id for each in image.partitions.topics.values()] == [uuid.UUID(int=2)]


@ONE_BY_ONE_AND_AT_ONCE
def test_min_insync_replicas_is_read_for_topic_broker_and_cluster(at_once: bool) -> None:
    image = read(
        topic(1),
        config(TOPIC_RESOURCE, "topic-1", "2"),
        config(TOPIC_RESOURCE, "topic-9", "3"),
        config(TOPIC_RESOURCE, "topic-9", None),
        config(TOPIC_RESOURCE, "topic-1", "x" * 5000, key="a.secret"),
        config(BROKER_RESOURCE, "", "1"),
        config(BROKER_RESOURCE, "7", "4"),
        at_once=at_once,
    )
    configured = image.partitions.min_insync_replicas
    assert (dict(configured.topics), dict(configured.brokers), configured.cluster) == ({"topic-1": 2}, {7: 4}, 1)
    assert (
        read(config(BROKER_RESOURCE, "", "1"), config(BROKER_RESOURCE, "", None)).partitions.min_insync_replicas.cluster
        is None
    )


def test_eligible_leader_replicas_are_cleared_for_one_topic_or_for_all() -> None:
    values = [topic(1), topic(2)]
    values += [partition(n, 0, 1, 2, version=2, isr=(1,), eligibleLeaderReplicas=(2,)) for n in (1, 2)]
    one, every = rows(read(*values, clear_elr("topic-1"))), rows(read(*values, clear_elr("")))
    assert [(one[name, 0].eligible, one[name, 0].partition_epoch) for name in ("topic-1", "topic-2")] == [
        (frozenset(), 1),
        (frozenset({2}), 0),
    ]
    assert not any(each.eligible for each in every.values())


@ONE_BY_ONE_AND_AT_ONCE
@pytest.mark.parametrize(
    "value",
    [
        partition(9, 0, 1, 2),
        partition(1, -1, 1, 2),
        partition(1, 0, 1, 1),
        partition(1, 0, 1, 2, isr=(3,)),
        partition(1, 0, 1, 2, addingReplicas=(3,)),
        change(1, 5, isr=(1,)),
        change(9, 0, isr=(1,)),
        change(1, 1, isr=(4,)),
        remove(9),
        clear_elr("topic-9"),
        config(TOPIC_RESOURCE, "topic-1", "two"),
        config(BROKER_RESOURCE, "seven", "2"),
        partition(1, 0, 1, 2)[:-1],
        topic(3)[:-1],
        topic(3)[:3],
    ],
    ids=[
        "a partition of an unknown topic", "a negative number", "a replica twice", "an ISR without its replica",
        "an added broker that is no replica", "a change of an unknown partition", "a change in an unknown topic",
        "a change to an ISR without its replica", "a removal of an unknown topic", "an unknown topic without ELR",
        "a value that is no number", "a broker that is no number", "a cut partition", "a cut topic", "an empty topic",
    ],
)  # fmt: skip
def test_a_contradicting_partition_record_changes_nothing_and_counts_as_unreadable(value: bytes, at_once: bool) -> None:
    image = read(topic(1), partition(1, 1, 1, 2), value, at_once=at_once)
    assert rows(image) == rows(read(topic(1), partition(1, 1, 1, 2)))
    assert image.unreadable == 1


def test_the_last_record_of_a_partition_in_a_batch_wins() -> None:
    pair = partition(1, 0, 1, 2, 3, isr=(1,), leaderEpoch=1), partition(1, 0, 1, 2, 3, isr=(2, 3), leaderEpoch=2)
    for values in (pair, pair[::-1]):
        last = decode(values[1])
        assert isinstance(last, Decoded)
        partitions = rows(read(topic(1), *values, at_once=True))["topic-1", 0]
        assert (partitions.in_sync, partitions.leader_epoch) == (frozenset(last.data["isr"]), last.data["leaderEpoch"])


def test_partitions_of_a_metadata_transaction_appear_at_its_end() -> None:
    values = [topic(1), *(partition(1, at, 1, 2) for at in range(3))]
    assert rows(read(begin(), *values, at_once=True)) == {}
    assert rows(read(begin(), *values, abort(), at_once=True)) == {}
    assert len(rows(read(begin(), *values, end(), at_once=True))) == 3


# --- images


def test_an_image_of_partitions_does_not_change_with_later_records() -> None:
    replay = Replay(sections=[Section.PARTITIONS])
    replay.append(batch(0, topic(1), *(partition(1, at, 1, 2, 3) for at in range(CHUNK + 500))), below=ALL)
    images = [replay.image()]
    kept = [rows(images[0])]
    steps = [
        [change(1, 0, isr=(2, 3))],
        [partition(1, CHUNK + 500, 1, 2, 3)],
        [change(1, CHUNK + 1, replicas=(1, 2), isr=(1, 2))],
        [topic(2), *(partition(2, at, 3, 2, 1) for at in range(40))],
        [clear_elr("")],
        [remove(1)],
        [partition(2, 40, 3, 2, 1)],
    ]
    for values in steps:
        replay.append(batch(replay.offset, *values), below=ALL)
        images.append(replay.image())
        kept.append(rows(images[-1]))
    assert [rows(image) for image in images] == kept
    assert len(kept[-1]) == 41
    assert rows(pickle.loads(pickle.dumps(images[3]))) == kept[3]


def test_partition_images_are_equal_whatever_the_order_of_their_rows() -> None:
    values = [topic(1), partition(1, 0, 1, 2), partition(1, 1, 2, 3), partition(1, 2, 4)]
    assert read(*values).partitions == read(values[0], *values[:0:-1]).partitions
    others = [change(1, 0, isr=(1,)), partition(1, 3, 1, 2), config(BROKER_RESOURCE, "", "2"), topic(2), remove(1)]
    assert all(read(*values).partitions != read(*values, other).partitions for other in others)


def test_a_change_copies_one_chunk() -> None:
    replay = Replay(sections=[Section.PARTITIONS])
    replay.append(batch(0, topic(1), *(partition(1, at, 1, 2, 3) for at in range(3 * CHUNK))), below=ALL)
    earlier = replay.image().partitions
    replay.append(batch(replay.offset, change(1, 5, isr=(1,))), below=ALL)
    later = replay.image().partitions
    shared = [np.shares_memory(a.flags, b.flags) for a, b in zip(earlier.chunks, later.chunks, strict=True)]
    assert shared == [False, True, True]


def test_columns_of_partitions_have_the_documented_names_and_types() -> None:
    values = [
        topic(1),
        *(partition(1, at, 1, 2, 3) for at in range(70)),
        *(partition(1, at, 7) for at in range(70, 75)),
    ]
    chunks = read(*values, at_once=True).partitions.chunks
    assert sorted((chunk.replicas.shape, chunk.flags.shape) for chunk in chunks) == [
        ((5, 1), (5, 1)),
        ((70, 3), (70, 3)),
    ]
    assert {column.dtype for chunk in chunks for column in chunk} == {np.dtype(np.int32), np.dtype(np.uint8)}


def test_partitions_are_read_only_where_the_section_is_selected() -> None:
    replay = Replay()
    replay.append(batch(0, level("metadata.version", 28), topic(1), partition(1, 0, 1)), below=ALL)
    image = replay.image()
    assert (image.counts[2], image.counts[3], image.unreadable) == (1, 1, 0)
    with pytest.raises(SectionNotRead):
        _ = image.partitions


def test_numpy_is_imported_only_where_the_section_of_partitions_is_selected() -> None:
    code = "import sys, kraftlog; kraftlog.Replay().image(); assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).resolve().parents[2] / "operator")


# --- limits


def test_a_partition_before_its_topic_counts_as_unreadable() -> None:
    values = [partition(1, 0, 1, 2), partition(1, 1, 1, 2), topic(1), partition(1, 2, 1, 2), remove(1), topic(1)]
    values += [partition(1, 3, 1, 2), partition(2, 0, 1, 2), topic(2), partition(2, 1, 1, 2)]
    single, together = read(*values), read(*values, at_once=True)
    assert rows(single).keys() == rows(together).keys() == {("topic-1", 3), ("topic-2", 1)}
    assert (single.unreadable, together.unreadable) == (3, 3)  # (1, 0), (1, 1) and (2, 0) come before their topics


@ONE_BY_ONE_AND_AT_ONCE
def test_a_config_of_another_name_is_not_decoded(at_once: bool) -> None:
    damaged = config(TOPIC_RESOURCE, "topic-1", "1", key="retention.ms")[:-2]
    image = read(topic(1), damaged, config(TOPIC_RESOURCE, "topic-1", "9" * 100), at_once=at_once)
    assert (image.unreadable, image.counts[4]) == (1, 2)
    assert dict(image.partitions.min_insync_replicas.topics) == {}
