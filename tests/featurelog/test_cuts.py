"""Cuts of a large file: at the boundaries of batches that continue in order, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featurelog import cuts
from tests.featurelog.inputs import made_log, ranges
from tests.featurelog.test_parts import damaged
from tests.kraftlog.build import batch, no_op


@given(st.lists(st.integers(0, 10_000), max_size=2), st.integers(40, 1500), st.integers(0, 80), st.booleans())
def test_each_span_of_a_file_can_be_surveyed_separately(
    places: list[int], piece: int, cut: int, is_embedded: bool
) -> None:
    """A worker that sees only its span, and behind it as many bytes as the largest batch has, finds the same ranges."""
    content = made_log() if not is_embedded else batch(0, no_op()) + batch(1, made_log()) + batch(2, no_op()) * 9
    content = damaged(content, places)
    content = content[: len(content) - cut]
    with mock.patch.object(cuts, "MAX_BATCH", len(made_log()) + 200):
        wanted = cuts.spans(0, len(content), piece)
    alone = [
        found and found.moved(one.begin)
        for one in wanted
        for found in [cuts.survey(memoryview(content)[one.begin : one.end], 0, one.until - one.begin)]
    ]
    assert cuts.joined(0, len(content), wanted, alone) == ranges(memoryview(content), piece)


@pytest.mark.parametrize(
    "behind",
    [
        pytest.param(batch(3, no_op(), epoch=2), id="another offset"),
        pytest.param(batch(4, no_op(), epoch=1), id="an earlier epoch"),
        pytest.param(b"\xff" * 70 + batch(4, no_op(), epoch=2), id="damage"),
        pytest.param(batch(3, no_op())[:-1], id="nothing whole"),
    ],
)
def test_a_file_is_not_cut_at_or_after_batches_out_of_order(behind: bytes) -> None:
    begun = batch(0, no_op(), no_op(), epoch=2) + batch(2, no_op(), no_op(), epoch=2)
    rest = batch(4, no_op(), epoch=2) + batch(5, no_op(), epoch=2) + batch(6, no_op(), epoch=2)
    size = len(batch(2, no_op(), no_op()))
    assert len(ranges(memoryview(begun + rest), size)) == 4, "without what is between them, it is cut"
    content = begun + behind + rest
    assert ranges(memoryview(content), size) == [(0, size), (size, len(content))]


def test_the_search_for_one_range_surveys_no_span_after_the_next_one() -> None:
    content = memoryview(made_log(200))
    every = ranges(content, 1000)
    assert len(every) > 5
    for number, found in enumerate(every):
        with mock.patch.object(cuts, "survey", mock.Mock(wraps=cuts.survey)) as survey:
            assert cuts.range_in(content, number, 1000) == found
        # One survey for each span up to this one, and one of the next span, if there is one, for the end of the range.
        assert survey.call_count == min(number + 2, len(every))


def test_a_file_is_not_cut_at_bytes_within_a_batch_that_look_like_a_batch() -> None:
    inside = b"".join(batch(number, no_op()) for number in range(1, 30))
    for content in (batch(0, inside) + batch(1, no_op()), batch(0, inside) + inside):
        assert ranges(memoryview(content), 500) == [(0, len(content))]


def test_a_file_is_not_cut_after_a_gap_within_a_span() -> None:
    content = b"".join(batch(offset, no_op()) for offset in (0, 1, 9, *range(10, 20)))
    size = 3 * len(batch(0, no_op()))
    assert ranges(memoryview(content), size) == [(0, len(content))]


def test_a_file_with_bytes_before_the_first_batch_is_not_cut() -> None:
    content = b"\xff" * 70 + made_log()
    assert ranges(memoryview(content), 500) == [(0, len(content))]


def test_the_search_for_cuts_ends_at_the_first_span_without_a_batch() -> None:
    content = made_log()
    wanted = cuts.spans(0, len(content), 300)
    taken = []

    def empty_surveys() -> Iterator[cuts.Survey | None]:
        for span in wanted:
            taken.append(span)
            yield None

    assert cuts.joined(0, len(content), wanted, empty_surveys()) == [(0, len(content))]
    assert len(taken) == 1


def test_a_file_is_cut_where_a_piece_is_large_enough_and_never_behind_damage() -> None:
    content = made_log(30)
    assert len(ranges(memoryview(content), 500)) > 4
    assert ranges(memoryview(content), len(content)) == [(0, len(content))]
    assert ranges(memoryview(b"\xff" * 5000), 500) == [(0, 5000)]
    assert ranges(memoryview(b""), 500) == []
    begun = batch(0, no_op()) * 20  # every batch begins at offset 0: a break in the order, which only the whole shows
    assert ranges(memoryview(begun), 100) == [(0, len(begun))]
