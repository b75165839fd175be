"""Partitions of an image: what records do to them, one by one and a batch at once, by real logs too."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tracemalloc
import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kraftlog import Replay, Section, SectionNotRead, TooLargeError, image_builder
from kraftlog.partition_tables import CHUNK
from kraftlog.partitions import Partition
from kraftlog.records import Decoded, decode
from kraftlog.varints import unsigned
from tests.kraftlog.build import abort, batch, begin, end, level
from tests.kraftlog.golden import LOGS, snapshot_id
from tests.kraftlog.partitions import ALL, change, clear_elr, config, partition, read, remove, rows, topic

ONE_BY_ONE_AND_AT_ONCE = pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "at once"])


# --- what a record does


@ONE_BY_ONE_AND_AT_ONCE
def test_a_partition_says_who_has_it_who_is_in_sync_and_what_is_moved(at_once: bool) -> None:
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


def test_a_change_changes_what_it_names_and_raises_the_epochs() -> None:
    before = read(topic(1), partition(1, 0, 1, 2, 3))
    after = read(topic(1), partition(1, 0, 1, 2, 3), change(1, 0, isr=(2, 3), leader=2, eligibleLeaderReplicas=(1,)))
    was = rows(before)["topic-1", 0]
    changed = replace(
        was, in_sync=frozenset({2, 3}), eligible=frozenset({1}), leader=2, leader_epoch=1, partition_epoch=1
    )
    assert rows(after) == {("topic-1", 0): changed}


def test_a_change_without_a_leader_keeps_its_epoch_and_one_to_none_raises_it() -> None:
    kept = rows(read(topic(1), partition(1, 0, 1, 2), change(1, 0, isr=(1,), leader=-2)))["topic-1", 0]
    none = rows(read(topic(1), partition(1, 0, 1, 2), change(1, 0, leader=-1)))["topic-1", 0]
    assert (kept.leader, kept.leader_epoch, kept.partition_epoch) == (1, 0, 1)
    assert (none.leader, none.leader_epoch, none.partition_epoch) == (-1, 1, 1)


def test_a_reassignment_changes_the_number_of_replicas_and_no_other_partition() -> None:
    image = read(
        topic(1),
        *(partition(1, at, 1, 2, 3) for at in range(5)),
        change(1, 2, replicas=(4, 1, 2, 3), addingReplicas=(4,), removingReplicas=(3,)),
        change(1, 2, isr=(1, 2, 3, 4)),
        change(1, 2, replicas=(4, 1, 2), isr=(1, 2, 4), addingReplicas=(), removingReplicas=()),
    )
    found = rows(image)
    assert found["topic-1", 2].replicas == (4, 1, 2)
    assert found["topic-1", 2].partition_epoch == 3
    assert all(found["topic-1", at].replicas == (1, 2, 3) for at in (0, 1, 3, 4))


@ONE_BY_ONE_AND_AT_ONCE
def test_a_topic_that_is_removed_takes_its_partitions_and_its_setting_with_it(at_once: bool) -> None:
    image = read(
        topic(1),
        *(partition(1, at, 1, 2) for at in range(10)),
        config(2, "topic-1", "2"),
        topic(2),
        *(partition(2, at, 1, 2) for at in range(10)),
        config(2, "topic-2", "2"),
        remove(1),
        at_once=at_once,
    )
    assert {name for name, _ in rows(image)} == {"topic-2"}
    assert dict(image.partitions.min_insync_replicas.topics) == {"topic-2": 2}
    assert [each.name for each in image.partitions.topics.values()] == ["topic-2"]


def test_a_topic_that_is_made_again_is_another_one() -> None:
    image = read(topic(1, "t"), partition(1, 0, 1), remove(1), topic(2, "t"), partition(2, 0, 2))
    assert rows(image)["t", 0].replicas == (2,)
    assert [each.id for each in image.partitions.topics.values()] == [uuid.UUID(int=2)]


@ONE_BY_ONE_AND_AT_ONCE
def test_the_smallest_in_sync_is_known_as_it_was_set_by_topic_broker_and_cluster(at_once: bool) -> None:
    image = read(
        topic(1),
        config(2, "topic-1", "2"),
        config(2, "topic-9", "3"),
        config(2, "topic-9", None),
        config(2, "topic-1", "x" * 5000, key="a.secret"),
        config(4, "", "1"),
        config(4, "7", "4"),
        at_once=at_once,
    )
    smallest = image.partitions.min_insync_replicas
    assert (dict(smallest.topics), dict(smallest.brokers), smallest.cluster) == ({"topic-1": 2}, {7: 4}, 1)
    assert read(config(4, "", "1"), config(4, "", None)).partitions.min_insync_replicas.cluster is None


def test_eligible_replicas_are_cleared_of_one_topic_or_of_all() -> None:
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
        config(2, "topic-1", "two"),
        config(4, "seven", "2"),
        partition(1, 0, 1, 2)[:-1],
        topic(3)[:-1],
        topic(3)[:3],
    ],
    ids=repr,
)
def test_what_contradicts_the_state_changes_nothing_and_counts_as_unreadable(value: bytes, at_once: bool) -> None:
    image = read(topic(1), partition(1, 1, 1, 2), value, at_once=at_once)
    assert rows(image) == rows(read(topic(1), partition(1, 1, 1, 2)))
    assert image.unreadable == 1


def test_a_partition_that_is_written_again_in_one_batch_is_as_the_last_record_says() -> None:
    pair = partition(1, 0, 1, 2, 3, isr=(1,), leaderEpoch=1), partition(1, 0, 1, 2, 3, isr=(2, 3), leaderEpoch=2)
    for values in (pair, pair[::-1]):
        last = decode(values[1])
        assert isinstance(last, Decoded)
        found = rows(read(topic(1), *values, at_once=True))["topic-1", 0]
        assert (found.in_sync, found.leader_epoch) == (frozenset(last.data["isr"]), last.data["leaderEpoch"])


def test_records_of_a_transaction_take_effect_at_its_end() -> None:
    values = [topic(1), *(partition(1, at, 1, 2) for at in range(3))]
    assert rows(read(begin(), *values, at_once=True)) == {}
    assert rows(read(begin(), *values, abort(), at_once=True)) == {}
    assert len(rows(read(begin(), *values, end(), at_once=True))) == 3


# --- images


def test_an_image_stays_as_it_was() -> None:
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


def test_images_are_equal_whose_rows_are_equal_in_any_order() -> None:
    values = [topic(1), partition(1, 0, 1, 2), partition(1, 1, 2, 3), partition(1, 2, 4)]
    assert read(*values).partitions == read(values[0], *values[:0:-1]).partitions
    others = [change(1, 0, isr=(1,)), partition(1, 3, 1, 2), config(4, "", "2"), topic(2), remove(1)]
    assert all(read(*values).partitions != read(*values, other).partitions for other in others)


def test_a_change_copies_one_chunk() -> None:
    replay = Replay(sections=[Section.PARTITIONS])
    replay.append(batch(0, topic(1), *(partition(1, at, 1, 2, 3) for at in range(3 * CHUNK))), below=ALL)
    before = replay.image().partitions
    replay.append(batch(replay.offset, change(1, 5, isr=(1,))), below=ALL)
    after = replay.image().partitions
    shared = [np.shares_memory(a.flags, b.flags) for a, b in zip(before.chunks, after.chunks, strict=True)]
    assert shared == [False, True, True]


def test_columns_are_as_documented() -> None:
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


def test_partitions_are_read_only_where_they_were_asked_for() -> None:
    replay = Replay()
    replay.append(batch(0, level("metadata.version", 28), topic(1), partition(1, 0, 1)), below=ALL)
    image = replay.image()
    assert (image.counts[2], image.counts[3], image.unreadable) == (1, 1, 0)
    with pytest.raises(SectionNotRead):
        _ = image.partitions


def test_numpy_is_imported_only_where_partitions_were_asked_for() -> None:
    code = "import sys, kraftlog; kraftlog.Replay().image(); assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).resolve().parents[2] / "operator")


# --- limits


def test_a_partition_before_its_topic_is_unreadable_however_it_is_read() -> None:
    values = [partition(1, 0, 1, 2), partition(1, 1, 1, 2), topic(1), partition(1, 2, 1, 2), remove(1), topic(1)]
    values += [partition(1, 3, 1, 2), partition(2, 0, 1, 2), topic(2), partition(2, 1, 1, 2)]
    single, together = read(*values), read(*values, at_once=True)
    assert rows(single).keys() == rows(together).keys() == {("topic-1", 3), ("topic-2", 1)}
    assert (single.unreadable, together.unreadable) == (3, 3)


@ONE_BY_ONE_AND_AT_ONCE
def test_a_setting_of_another_name_is_not_looked_into(at_once: bool) -> None:
    damaged = config(2, "topic-1", "1", key="retention.ms")[:-2]
    image = read(topic(1), damaged, config(2, "topic-1", "9" * 100), at_once=at_once)
    assert (image.unreadable, image.counts[4]) == (1, 2)
    assert dict(image.partitions.min_insync_replicas.topics) == {}


def test_a_broker_that_fails_is_thousands_of_changes_that_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is decoded by itself, but for those that contradict what is there, or move a partition."""
    topics = range(1, 101)
    whole = [value for n in topics for value in (topic(n), *(partition(n, at, 1, 2, 3) for at in range(50)))]
    changes = [change(n, at, isr=(2, 3), leader=2) for n in topics for at in range(50)]
    odd = [
        change(7, 99, isr=(2,)),  # not there
        change(8, 3, isr=(9,)),  # without a replica
        change(8, 4, isr=(2,), replicas=(2, 4), addingReplicas=(4,)),
    ]
    changes = [one for one in changes if one[:23] not in {each[:23] for each in odd}]
    replay = Replay(sections=[Section.PARTITIONS])
    replay.append(batch(0, *whole), below=ALL)
    before = rows(replay.image())
    decoded: list[bytes] = []

    def noted(value: bytes) -> object:
        decoded.append(value)
        return decode(value)

    monkeypatch.setattr(image_builder, "decode", noted)
    replay.append(batch(len(whole), *changes[:2500], *odd, *changes[2500:]), below=ALL)
    image = replay.image()
    assert decoded == odd
    assert image.unreadable == 2
    assert image.counts[5] == len(changes) + len(odd)
    found = rows(image)
    assert found["topic-8", 3] == before["topic-8", 3]
    assert found["topic-8", 4].replicas == (2, 4)
    del found["topic-8", 3], found["topic-8", 4], before["topic-8", 3], before["topic-8", 4]
    assert found == {
        key: replace(one, in_sync=frozenset({2, 3}), leader=2, leader_epoch=1, partition_epoch=1)
        for key, one in before.items()
    }


def test_of_two_changes_of_one_partition_the_order_counts() -> None:
    changes = [change(1, at, isr=(2,), leader=2) for at in range(20)]
    whole = [topic(1), *(partition(1, at, 1, 2) for at in range(20))]
    one = rows(read(*whole, *changes, change(1, 7, isr=(1,), leader=1), at_once=True))["topic-1", 7]
    assert one.in_sync == {1}
    assert (one.leader, one.leader_epoch, one.partition_epoch) == (1, 2, 2)


def test_an_image_is_not_changed_by_what_comes_behind_it() -> None:
    replay = Replay(sections=[Section.PARTITIONS])
    whole = [topic(1), *(partition(1, at, 1, 2) for at in range(40))]
    replay.append(batch(0, *whole), below=ALL)
    image = replay.image()
    before = rows(image)
    replay.append(batch(len(whole), *(change(1, at, isr=(2,), leader=2) for at in range(40))), below=ALL)
    assert rows(image) == before
    assert rows(replay.image()) != before
    assert not image.partitions.is_untouched_in(replay.image().partitions)


def test_a_batch_of_records_without_content_takes_no_memory() -> None:
    """The count of a batch is only what its header claims."""
    from kraftlog.edges import edges

    for size, count in ((1_000_000, 1_000_000), (20_000_000, 300_000)):
        assert edges(memoryview(bytes(size)), count) is None


def test_clearing_what_is_eligible_looks_at_partitions_that_have_some_only() -> None:
    values = [topic(1), topic(2)]
    values += [
        partition(n, at, 1, 2, version=2, isr=(1,), eligibleLeaderReplicas=(2,)) for n in (1, 2) for at in (0, 1)
    ]
    replay = Replay(sections=[Section.PARTITIONS])
    replay.append(batch(0, *values, *(partition(2, at, 1, 2, 3) for at in range(2, 3 * CHUNK))), below=ALL)
    before = replay.image().partitions
    replay.append(
        batch(replay.offset, clear_elr("topic-1"), change(2, 0, isr=(1, 2), eligibleLeaderReplicas=())), below=ALL
    )
    middle = replay.image().partitions
    assert {name for name, _, one in middle.rows() if one.eligible} == {"topic-2"}
    replay.append(batch(replay.offset, clear_elr(""), clear_elr("")), below=ALL)
    after = replay.image().partitions
    assert not any(one.eligible for _, _, one in after.rows())
    shared = [np.shares_memory(a.flags, b.flags) for a, b in zip(before.chunks, after.chunks, strict=True)]
    assert shared.count(False) == 1


def test_more_partitions_than_memory_is_allowed_are_refused() -> None:
    for count in (20, 5000):  # record by record, and at once
        replay = Replay(sections=[Section.PARTITIONS], limit=count * 30)
        with pytest.raises(TooLargeError):
            replay.append(batch(0, topic(1), *(partition(1, at, 1, 2, 3) for at in range(count))), below=ALL)


def test_topics_are_weighed_before_all_of_a_batch_are_in() -> None:
    replay = Replay(sections=[Section.PARTITIONS], limit=100_000)
    with pytest.raises(TooLargeError):
        replay.append(batch(0, *(topic(number) for number in range(5000))), below=ALL)
    assert replay.weight < 200_000


def test_a_long_record_takes_no_memory_but_its_own() -> None:
    """By its frame, the record could be a partition's."""
    long = partition(1, 0, 1, 2, 3) + bytes(1_000_000)
    data = batch(0, topic(1), *(partition(1, at, 1, 2, 3) for at in range(40)), long)
    replay = Replay(sections=[Section.PARTITIONS])
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError):
            replay.append(data, below=ALL)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(long)
    finally:
        tracemalloc.stop()


def test_what_it_weighs_is_at_least_what_its_columns_take() -> None:
    replay = Replay(sections=[Section.PARTITIONS])
    replay.append(batch(0, topic(1), *(partition(1, at, 1, 2, 3) for at in range(10_000))), below=ALL)
    taken = sum(column.nbytes for chunk in replay.image().partitions.chunks for column in chunk)
    assert taken <= replay.weight <= 3 * taken


def test_records_of_a_thousand_shapes_are_read_all_the_same() -> None:
    values = [partition(1, at, *range(1, 2 + at % 9), isr=tuple(range(1, 2 + at % (1 + at % 9)))) for at in range(2000)]
    assert rows(read(topic(1), *values, at_once=True)) == rows(read(topic(1), *values))


def test_record_types_that_are_written_in_an_unusual_way_are_read_all_the_same() -> None:
    usual = partition(1, 0, 1, 2, 3)
    longer = b"\1" + bytes((3 | 0x80, 0)) + usual[2:]  # the key in two bytes
    odd = topic(1)[:-1] + unsigned(1) + unsigned(30) + unsigned(2) + b"ab"  # with a tag of a newer release
    assert rows(read(odd, longer, at_once=True)) == rows(read(topic(1), usual))


# --- real logs


@pytest.mark.parametrize("folder", sorted(path.name for path in LOGS.iterdir()))
def test_the_log_of_a_real_controller_says_what_its_own_snapshot_says(folder: str) -> None:
    (path,) = (LOGS / folder).glob("*.checkpoint")
    offset, epoch = snapshot_id(path)
    written = Replay(sections=Section)
    written.load_snapshot(path.read_bytes(), end_offset=offset, epoch=epoch)
    followed = Replay(sections=Section)
    followed.append((LOGS / folder / "00000000000000000000.log").read_bytes(), below=offset)
    ours, theirs = followed.image(), written.image()
    assert (ours.offset, ours.unreadable, theirs.unreadable) == (offset, 0, 0)
    assert rows(ours) == rows(theirs)
    assert bool(rows(ours)) == (folder != "4.2.0-feature-changes")  # which has no topic
    assert ours.partitions.min_insync_replicas == theirs.partitions.min_insync_replicas
