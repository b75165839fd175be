"""Times that partitions were without a replica or a leader: each rule, and arbitrary logs compared with their images.

A strip is the history of one partition, a stretch a time in it with the same number of replicas in sync.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog import Replay, Section, strips
from kraftlog.batches import Record
from kraftlog.encoding import encode_batch
from kraftlog.errors import TooLargeError
from kraftlog.partitions import Partition
from kraftlog.rolls import RollHistory, RollReader
from kraftlog.strips import Strip
from tests.kraftlog.build import NOW, log, no_op
from tests.kraftlog.partitions import ALL, change, config, partition, remove, topic
from tests.kraftlog.test_partition_models import record

TOPIC, BROKER = 2, 4
"""Types of resources that have configs."""
CLEAR_ELR = b"\x01\x1c"
ONE = (topic(1), partition(1, 0, 1, 2, 3))
"""One partition with three replicas. The next record is at offset 2, and 2 ms after NOW; each offset is 1 ms later."""


def history_of(data: bytes, *, since_ms: int = 0, default: int | None = None, most: int = 50) -> RollHistory:
    reader = RollReader(since_ms=since_ms, default_minimum=default)
    reader.append(data, below=ALL)
    return reader.finish(most)


def only(history: RollHistory) -> Strip:
    (strip,) = history.strips
    return strip


def test_a_partition_lacks_a_replica_from_the_record_of_the_smaller_isr_to_that_of_the_full_isr() -> None:
    history = history_of(log(ONE, [change(1, 0, isr=(1, 2))], [no_op()] * 7, [change(1, 0, isr=(2, 1, 3))], [no_op()]))
    strip = only(history)
    assert (strip.topic, strip.partition, strip.fewest, strip.replicas) == ("topic-1", 0, 2, 3)
    assert (strip.under_replicated_ms, strip.without_leader_ms, strip.lasts) == (8, 0, False)
    ((begin, end, in_sync, led),) = [(o.begin_ms, o.end_ms, o.in_sync, o.has_leader) for o in strip.stretches]
    assert (begin, end, in_sync, led) == (NOW + 2, NOW + 10, 2, True)
    assert (history.partitions, history.affected) == (1, 1)


def test_each_number_of_replicas_in_sync_is_a_stretch_of_its_own_and_the_last_lasts_until_the_end() -> None:
    strip = only(history_of(log(ONE, [change(1, 0, isr=(1, 2))], [change(1, 0, isr=(1,))], [no_op()] * 5)))
    assert [(o.in_sync, o.end_ms - o.begin_ms) for o in strip.stretches] == [(2, 1), (1, 5)]
    assert (strip.fewest, strip.lasts, strip.under_replicated_ms) == (1, True, 6)


def test_an_isr_of_the_same_size_begins_no_new_stretch() -> None:
    strip = only(history_of(log(ONE, [change(1, 0, isr=(1, 2))], [change(1, 0, isr=(1, 3))], [no_op()])))
    assert [(o.offset, o.in_sync) for o in strip.stretches] == [(2, 2)]


def test_the_only_replica_stays_in_sync_and_the_partition_has_no_leader() -> None:
    single = (topic(1), partition(1, 0, 1))
    history = history_of(log(single, [change(1, 0, leader=-1)], [no_op()] * 3, [change(1, 0, leader=1)]))
    strip = only(history)
    assert (strip.without_leader_ms, strip.under_replicated_ms, strip.fewest) == (4, 0, 1)
    assert history.without_leader == 1


def test_a_replica_that_is_being_added_is_not_counted_as_missing() -> None:
    move: dict[str, Any] = {"replicas": (1, 2, 3, 4), "addingReplicas": (4,), "removingReplicas": (1,)}
    done: dict[str, Any] = {"replicas": (2, 3, 4), "isr": (2, 3, 4), "addingReplicas": (), "removingReplicas": ()}
    assert history_of(log(ONE, [change(1, 0, **move)], [no_op()], [change(1, 0, **done)])).affected == 0
    strip = only(history_of(log(ONE, [change(1, 0, **move)], [change(1, 0, isr=(1, 2))], [no_op()])))
    assert (strip.replicas, strip.fewest) == (3, 2)


@pytest.mark.parametrize(
    ("config_records", "default", "below"),
    [
        ((), None, None),
        ((), 2, False),
        ((), 3, True),
        ((config(BROKER, "", "3"),), None, True),
        ((config(BROKER, "", "2"),), 3, False),
        ((config(BROKER, "2", "3"),), 1, True),
        ((config(TOPIC, "topic-1", "3"), config(BROKER, "", "1")), None, True),
        ((config(TOPIC, "topic-1", "3"), config(TOPIC, "topic-1", None)), 2, False),
        ((config(TOPIC, "topic-2", "3"),), 2, False),
    ],
    ids=[
        "not known", "default 2", "default 3", "3 for all brokers",
        "2 for all brokers by a request, before 3 in files", "3 of one broker: the highest counts",
        "3 of the topic, before 1 for all brokers", "3 of the topic, removed again", "3 of another topic",
    ],
)  # fmt: skip
def test_a_stretch_below_min_insync_replicas_is_reported_where_the_minimum_is_known(
    config_records: tuple[bytes, ...], default: int | None, below: bool | None
) -> None:
    """Two replicas are in sync. `default`: the value in the files of brokers; `below`: None if it is not known."""
    history = history_of(log((*ONE, *config_records), [change(1, 0, isr=(1, 2))], [no_op()] * 4), default=default)
    assert [stretch.below_minimum for stretch in only(history).stretches] == [below]
    assert history.minimum_known == (below is not None)
    assert (history.below_minimum, only(history).below_minimum_ms) == ((1, 4) if below else (0, 0))


def test_the_worst_partition_is_first_and_all_others_are_counted() -> None:
    several = (topic(1), *(partition(1, at, 1, 2, 3) for at in range(4)))
    history = history_of(
        log(
            several,
            [change(1, 0, isr=(1, 2)), change(1, 1, isr=(1,)), change(1, 2, leader=-1, isr=(1,))],
            [no_op()] * 9,
            [change(1, 2, leader=1)],
        ),
        default=2,
        most=2,
    )
    assert [strip.partition for strip in history.strips] == [2, 1]
    assert (history.affected, history.partitions, history.without_leader, history.below_minimum) == (3, 4, 1, 2)


def test_the_time_before_the_window_is_not_counted() -> None:
    data = log(ONE, [change(1, 0, isr=(1, 2))], [no_op()] * 7, [change(1, 0, isr=(1, 2, 3))], [no_op()])
    assert only(history_of(data, since_ms=NOW + 6)).under_replicated_ms == 4
    assert history_of(data, since_ms=NOW + 11).affected == 0


@pytest.mark.parametrize("since_ms", [0, NOW + 2], ids=["no window", "a window that begins with the stretch"])
def test_a_stretch_that_ends_before_its_begin_by_another_clock_has_no_duration_and_is_reported(since_ms: int) -> None:
    """The next controller has another clock: its record is a second earlier."""
    ended = encode_batch([Record(3, NOW - 998, change(1, 0, isr=(1, 2, 3), leader=1))], leader_epoch=2)
    history = history_of(log(ONE, [change(1, 0, isr=(), leader=-1)]) + ended, since_ms=since_ms, default=2)
    assert (history.affected, history.without_leader, history.below_minimum) == (1, 1, 1)
    strip = only(history)
    assert (strip.fewest, strip.without_leader_ms, strip.under_replicated_ms, strip.lasts) == (0, 0, 0, False)
    assert [(stretch.begin_ms, stretch.end_ms) for stretch in strip.stretches] == [(NOW + 2, NOW + 2)]


def test_a_stretch_ends_with_the_deletion_of_its_topic() -> None:
    history = history_of(log(ONE, [change(1, 0, isr=(1,))], [remove(1)], [no_op()] * 5))
    assert (history.partitions, only(history).under_replicated_ms, only(history).lasts) == (0, 1, False)


def test_too_many_stretches_are_dropped_from_the_best_partitions_and_totals_remain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = (topic(1), *(partition(1, at, 1, 2, 3) for at in range(6)))
    turns = [turn for _ in range(5) for at in range(6) for turn in _gone_for(at, at + 1)]
    complete = history_of(log(many, *turns))
    monkeypatch.setattr(strips, "MAX_STRETCHES", 12)
    bounded = history_of(log(many, *turns))
    assert sum(len(strip.stretches) for strip in bounded.strips) <= 12
    assert [strip.severity for strip in bounded.strips] == [strip.severity for strip in complete.strips]
    assert [strip.is_cut for strip in complete.strips] == [False] * 6
    assert all(strip.is_cut or len(strip.stretches) == 5 for strip in bounded.strips)


def _gone_for(at: int, ms: int) -> Iterator[list[bytes]]:
    yield [change(1, at, isr=(1, 2))]
    yield [no_op()] * ms
    yield [change(1, at, isr=(1, 2, 3))]


def test_more_partitions_than_a_cluster_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "MAX_PARTITIONS", 1)
    with pytest.raises(TooLargeError, match="more than 1 partitions"):
        history_of(log(ONE, [partition(1, 1, 1, 2)]))


# --- any log ---


def lacks_replica_or_leader(row: Partition) -> bool:
    return bool(set(row.replicas) - row.adding - row.in_sync) or row.leader == -1


@settings(deadline=None)
@given(st.lists(record().filter(lambda value: value[:2] != CLEAR_ELR), max_size=40))  # strips ignore ELRs
def test_partitions_that_lack_a_replica_are_those_of_the_image_after_any_records(values: list[bytes]) -> None:
    replay = Replay(sections=[Section.PARTITIONS])
    at_the_end: set[tuple[str, int]] = set()
    at_any_time: set[tuple[str, int]] = set()
    for offset, value in enumerate(values):
        replay.append(log([value], start=offset), below=ALL)
        rows = {(name, number): row for name, number, row in replay.image().partitions.rows()}
        at_the_end = {key for key, row in rows.items() if lacks_replica_or_leader(row)}
        at_any_time |= at_the_end
    history = history_of(log(*([value] for value in values)), most=10_000)
    assert {(strip.topic, strip.partition) for strip in history.strips if strip.lasts} == at_the_end
    assert {(strip.topic, strip.partition) for strip in history.strips} >= at_any_time
    assert history.partitions == len(replay.image().partitions)
    assert history.unreadable == replay.image().unreadable
