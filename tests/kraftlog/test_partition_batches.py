"""Partitions in batches: many records are read at once, without decoding each, and within bounded memory."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from kraftlog import Replay, Section, TooLargeError, image_builder
from kraftlog.partition_tables import CHUNK
from kraftlog.records import decode
from kraftlog.varints import unsigned
from tests.kraftlog.build import batch
from tests.kraftlog.golden import LOGS, snapshot_id
from tests.kraftlog.partitions import ALL, change, clear_elr, partition, read, rows, topic


def test_the_many_partition_changes_of_a_failed_broker_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only changes that contradict the state, or move a partition, are decoded by themselves."""
    topics = range(1, 101)
    values = [value for n in topics for value in (topic(n), *(partition(n, at, 1, 2, 3) for at in range(50)))]
    changes = [change(n, at, isr=(2, 3), leader=2) for n in topics for at in range(50)]
    odd = [
        change(7, 99, isr=(2,)),  # an unknown partition
        change(8, 3, isr=(9,)),  # an ISR with a broker that is no replica
        change(8, 4, isr=(2,), replicas=(2, 4), addingReplicas=(4,)),  # a reassignment
    ]
    # The first 23 bytes are the frame, the number of the partition, and the topic id.
    changes = [one for one in changes if one[:23] not in {each[:23] for each in odd}]
    replay = Replay(sections=[Section.PARTITIONS])
    replay.append(batch(0, *values), below=ALL)
    earlier = rows(replay.image())
    decoded: list[bytes] = []

    def noted(value: bytes) -> object:
        decoded.append(value)
        return decode(value)

    monkeypatch.setattr(image_builder, "decode", noted)
    replay.append(batch(len(values), *changes[:2500], *odd, *changes[2500:]), below=ALL)
    image = replay.image()
    assert decoded == odd
    assert image.unreadable == 2
    assert image.counts[5] == len(changes) + len(odd)
    found = rows(image)
    assert found["topic-8", 3] == earlier["topic-8", 3]
    assert found["topic-8", 4].replicas == (2, 4)
    del found["topic-8", 3], found["topic-8", 4], earlier["topic-8", 3], earlier["topic-8", 4]
    assert found == {
        key: replace(one, in_sync=frozenset({2, 3}), leader=2, leader_epoch=1, partition_epoch=1)
        for key, one in earlier.items()
    }


def test_changes_of_one_partition_are_applied_in_order() -> None:
    changes = [change(1, at, isr=(2,), leader=2) for at in range(20)]
    values = [topic(1), *(partition(1, at, 1, 2) for at in range(20))]
    one = rows(read(*values, *changes, change(1, 7, isr=(1,), leader=1), at_once=True))["topic-1", 7]
    assert one.in_sync == {1}
    assert (one.leader, one.leader_epoch, one.partition_epoch) == (1, 2, 2)


def test_an_image_of_partitions_does_not_change_with_later_batches() -> None:
    replay = Replay(sections=[Section.PARTITIONS])
    values = [topic(1), *(partition(1, at, 1, 2) for at in range(40))]
    replay.append(batch(0, *values), below=ALL)
    image = replay.image()
    earlier = rows(image)
    replay.append(batch(len(values), *(change(1, at, isr=(2,), leader=2) for at in range(40))), below=ALL)
    assert rows(image) == earlier
    assert rows(replay.image()) != earlier
    assert not image.partitions.is_untouched_in(replay.image().partitions)


def test_no_edges_are_made_for_a_number_of_records_that_is_impossible_or_too_large() -> None:
    """The number of records in the header of a batch may be false, so no memory is allocated for it."""
    from kraftlog.edges import edges

    for size, count in ((1_000_000, 1_000_000), (20_000_000, 300_000)):
        assert edges(memoryview(bytes(size)), count) is None


def test_clearing_elr_reads_only_partitions_that_have_eligible_replicas() -> None:
    values = [topic(1), topic(2)]
    values += [
        partition(n, at, 1, 2, version=2, isr=(1,), eligibleLeaderReplicas=(2,)) for n in (1, 2) for at in (0, 1)
    ]
    replay = Replay(sections=[Section.PARTITIONS])
    replay.append(batch(0, *values, *(partition(2, at, 1, 2, 3) for at in range(2, 3 * CHUNK))), below=ALL)
    earlier = replay.image().partitions
    replay.append(
        batch(replay.offset, clear_elr("topic-1"), change(2, 0, isr=(1, 2), eligibleLeaderReplicas=())), below=ALL
    )
    middle = replay.image().partitions
    assert {name for name, _, one in middle.rows() if one.eligible} == {"topic-2"}
    replay.append(batch(replay.offset, clear_elr(""), clear_elr("")), below=ALL)
    later = replay.image().partitions
    assert not any(one.eligible for _, _, one in later.rows())
    shared = [np.shares_memory(a.flags, b.flags) for a, b in zip(earlier.chunks, later.chunks, strict=True)]
    assert shared.count(False) == 1


def test_more_partitions_than_memory_is_allowed_are_refused() -> None:
    for count in (20, 5000):  # record by record, and at once
        replay = Replay(sections=[Section.PARTITIONS], limit=count * 30)  # fewer bytes than a partition takes
        with pytest.raises(TooLargeError):
            replay.append(batch(0, topic(1), *(partition(1, at, 1, 2, 3) for at in range(count))), below=ALL)


def test_the_memory_limit_applies_within_a_batch_of_topics() -> None:
    replay = Replay(sections=[Section.PARTITIONS], limit=100_000)
    with pytest.raises(TooLargeError):
        replay.append(batch(0, *(topic(number) for number in range(5000))), below=ALL)
    assert replay.weight < 200_000


def test_a_long_record_takes_only_the_memory_of_its_bytes() -> None:
    """The frame of the record is that of a partition, so it is read."""
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


def test_the_weight_of_partitions_is_at_least_the_size_of_their_columns() -> None:
    replay = Replay(sections=[Section.PARTITIONS])
    replay.append(batch(0, topic(1), *(partition(1, at, 1, 2, 3) for at in range(10_000))), below=ALL)
    taken = sum(column.nbytes for chunk in replay.image().partitions.chunks for column in chunk)
    assert taken <= replay.weight <= 3 * taken


def test_partition_records_of_many_shapes_are_read() -> None:
    values = [partition(1, at, *range(1, 2 + at % 9), isr=tuple(range(1, 2 + at % (1 + at % 9)))) for at in range(2000)]
    assert rows(read(topic(1), *values, at_once=True)) == rows(read(topic(1), *values))


def test_partition_records_with_unusual_encodings_are_read() -> None:
    usual = partition(1, 0, 1, 2, 3)
    longer = b"\1" + bytes((3 | 0x80, 0)) + usual[2:]  # the key in two bytes
    odd = topic(1)[:-1] + unsigned(1) + unsigned(30) + unsigned(2) + b"ab"  # with a tag of a newer release
    assert rows(read(odd, longer, at_once=True)) == rows(read(topic(1), usual))


# --- real logs


@pytest.mark.parametrize("folder", sorted(path.name for path in LOGS.iterdir()))
def test_partitions_of_a_real_log_equal_those_of_its_own_snapshot(folder: str) -> None:
    (path,) = (LOGS / folder).glob("*.checkpoint")
    offset, epoch = snapshot_id(path)
    replay = Replay(sections=Section)
    replay.load_snapshot(path.read_bytes(), end_offset=offset, epoch=epoch)
    followed = Replay(sections=Section)
    followed.append((LOGS / folder / "00000000000000000000.log").read_bytes(), below=offset)
    ours, theirs = followed.image(), replay.image()
    assert (ours.offset, ours.unreadable, theirs.unreadable) == (offset, 0, 0)
    assert rows(ours) == rows(theirs)
    assert bool(rows(ours)) == (folder != "4.2.0-feature-changes")  # which has no topic
    assert ours.partitions.min_insync_replicas == theirs.partitions.min_insync_replicas
