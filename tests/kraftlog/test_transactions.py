"""Metadata transactions: their records take effect at the end, and images and histories agree on any log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog import Batch, Replay, walk
from kraftlog.errors import ContradictionError
from kraftlog.history import HistoryReader, LevelChange
from kraftlog.transactions import ABORT, BEGIN, END, Transactions
from tests.kraftlog.build import abort, batch, begin, end, level

NAME = "group.version"
MARKS = {"begin": begin(), "end": end(), "abort": abort()}


def test_records_of_a_transaction_take_effect_at_its_end_and_not_at_an_abort() -> None:
    """`take` and `mark` return the records that take effect now."""
    log: Transactions[str] = Transactions()
    assert log.take("outside") == ("outside",)
    assert (log.mark(BEGIN), log.take("a"), log.take("b")) == ((), (), ())
    assert log.mark(END) == ["a", "b"]
    assert (log.mark(BEGIN), log.take("aborted"), log.mark(ABORT), log.open) == ((), (), (), None)


def test_contradictory_transaction_markers_are_refused_and_change_no_state() -> None:
    log: Transactions[str] = Transactions()
    for key in (END, ABORT):
        with pytest.raises(ContradictionError, match="never began"):
            log.mark(key)
    log.mark(BEGIN)
    log.take("kept")
    with pytest.raises(ContradictionError, match="within another"):
        log.mark(BEGIN)
    assert log.mark(END) == ["kept"]


def test_the_number_of_records_of_an_open_transaction_is_limited() -> None:
    log: Transactions[int] = Transactions(most=2)
    log.mark(BEGIN)
    for number in range(5):
        log.take(number)
    assert log.mark(END) == [0, 1]


@given(st.lists(st.one_of(st.sampled_from(sorted(MARKS)), st.integers(1, 30)), max_size=30))
def test_an_image_and_a_history_apply_the_same_records_of_transactions(steps: list[str | int]) -> None:
    values = [MARKS[step] if isinstance(step, str) else level(NAME, step) for step in steps]
    data = batch(0, *values) if values else b""
    replay, history = Replay(), HistoryReader(begins_at=0)
    replay.append(data, below=len(values))
    batches = [each for each in walk(data) if isinstance(each, Batch)]
    events = [event.change for each in batches for event in history.take(each)]
    last = [event.level for event in events if isinstance(event, LevelChange)][-1:]
    assert last == [replay.image().features[NAME]] if NAME in replay.image().features else not last
    assert (history.open_transaction is not None) == replay.image().in_transaction
