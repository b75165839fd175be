"""Former levels are known over readings that begin with a snapshot, if no gap lies between them. Level changes before a
reading are read from an earlier position of the log.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import EarlierMoves, Failure, FailureKind, LogReading
from kafkafeatures.kafka.base.errors import ErrorCode, KafkaError, NoLeader, ServerError, TimedOut
from kafkafeatures.kafka.log.level_history import LevelHistory, moves_between
from kafkafeatures.kafka.log.source import LogSource
from kraftlog import FormerLevels
from tests.kafkafeatures.kafka.scripted_leader import Leader
from tests.kafkafeatures.worlds import NOW, image
from tests.kraftlog.build import batch, level, no_op


def reading(offset: int, former: FormerLevels) -> LogReading:
    """A reading up to this offset, in which these former levels are known."""
    found = image(offset=offset)
    assert found.finalized is not None
    return LogReading(replace(found, finalized=replace(found.finalized, former=former)), offset, 3001, 4, NOW)


FROM_THE_BEGINNING = FormerLevels({("share.version", 2): 50})
"""A level that was given up at 50 ms, in a log that is known from its beginning."""
FROM_A_SNAPSHOT = FormerLevels({}, 80, 70)
"""Nothing is known from before offset 80, which was at 70 ms."""


def test_a_log_reread_from_a_snapshot_keeps_its_known_history() -> None:
    history = LevelHistory()
    assert history.complete(reading(100, FROM_THE_BEGINNING), "a").image.former_levels == FROM_THE_BEGINNING
    assert history.complete(reading(120, FROM_A_SNAPSHOT), "a").image.former_levels == FROM_THE_BEGINNING
    assert history.since_offset == FROM_THE_BEGINNING.since_offset  # nothing before that reading has to be read
    # The last reading ended at 120 and this one begins at 130: a gap.
    assert history.complete(reading(140, FormerLevels({}, 130, 90)), "a").image.former_levels.since_offset == 130
    assert history.since_offset == 130


def test_another_cluster_or_a_truncated_log_has_no_known_history() -> None:
    unknown = Failure(FailureKind.NOT_ASKED, "", "not known")
    # After a reading of cluster "a" up to 100: another cluster, a truncated log, a cluster whose id is not known.
    for offset, cluster in ((120, "b"), (90, "a"), (120, unknown)):
        history = LevelHistory()
        history.complete(reading(100, FROM_THE_BEGINNING), "a")
        assert history.complete(reading(offset, FROM_A_SNAPSHOT), cluster).image.former_levels == FROM_A_SNAPSHOT


def test_no_changes_are_known_before_a_reading_of_a_cluster_whose_id_is_known() -> None:
    history = LevelHistory()
    history.complete(reading(100, FROM_THE_BEGINNING), Failure(FailureKind.NOT_ASKED, "", "not known"))
    assert history.since_offset is None
    history.complete(reading(100, FROM_THE_BEGINNING), "a")
    assert history.since_offset == FROM_THE_BEGINNING.since_offset


LEVELS = (
    batch(100, level("share.version", 1), epoch=5)
    + batch(101, no_op(), epoch=5)
    + batch(102, level("share.version", 2), no_op(), epoch=9)
    + batch(104, level("share.version", 0), level("group.version", 1), epoch=9)
    + batch(106, level("share.version", 1), epoch=9)
)
"""Epoch 5 up to offset 101, epoch 9 from 102 on; there was no epoch in between."""


async def moves(
    leader: Leader, offset: int, epoch: int, until: int = 106, clock: Callable[[], float] = lambda: 0.0
) -> EarlierMoves | KafkaError:
    """The changes from this position on to `until`, where the reading begins."""
    source = LogSource(leader, 9, cluster_id=None, timeout=5.0, until=until)  # type: ignore[arg-type]
    return await moves_between(source, offset, epoch, monotonic=clock)


def serving(**how: object) -> Leader:
    """A leader that serves `LEVELS`, in small replies; `how`: fields that differ."""
    return replace_leader(Leader(data=LEVELS, high_watermark=107, per_reply=150), **how)


def replace_leader(leader: Leader, **how: object) -> Leader:
    for name, value in how.items():
        setattr(leader, name, value)
    return leader


async def test_level_changes_are_read_from_a_position_to_the_beginning_of_the_reading() -> None:
    found = await moves(serving(), 102, 5)
    assert isinstance(found, EarlierMoves)
    assert {name: tuple(of) for name, of in found.moves.items()} == {
        "share.version": ((104, 2), (106, 0)), "group.version": ((106, 1),),
    }  # fmt: skip
    assert not found.restored
    later = await moves(serving(), 104, 9)
    assert isinstance(later, EarlierMoves)
    assert later.moves["share.version"] == ((106, 0),)  # a first level counts as a change


async def test_a_log_that_diverged_before_the_position_counts_as_restored() -> None:
    assert await moves(serving(), 102, 7) == EarlierMoves(restored=True)


@pytest.mark.parametrize("until", [90, 104])
async def test_a_diverged_log_counts_as_restored_even_if_nothing_has_to_be_read(until: int) -> None:
    assert await moves(serving(), 104, 7, until=until) == EarlierMoves(restored=True)
    assert await moves(serving(), 104, 9, until=until) == EarlierMoves()
    assert await moves(serving(), 107, 9, until=until) == EarlierMoves()  # the end of the log


async def test_a_log_that_begins_after_the_position_shows_no_level_changes() -> None:
    assert await moves(serving(), 90, 5) == EarlierMoves()  # the log begins at 100


@pytest.mark.parametrize(
    ("how", "error"),
    [
        pytest.param({"code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED}, KafkaError, id="not authorized"),
        pytest.param({"high_watermark": 102}, NoLeader, id="the leader lost committed records"),
        pytest.param({"data": LEVELS[:80] + b"?" + LEVELS[81:]}, ServerError, id="damaged"),
    ],
)
async def test_unreadable_level_changes_are_an_error(how: dict[str, object], error: type[KafkaError]) -> None:
    assert isinstance(await moves(serving(**how), 100, 5), error)


async def test_reading_level_changes_times_out_after_half_a_minute() -> None:
    seconds = itertools.count(0, 20)  # each look at the clock is 20 s later
    found = await moves(serving(per_reply=90), 100, 5, clock=lambda: next(seconds))
    assert isinstance(found, TimedOut)
