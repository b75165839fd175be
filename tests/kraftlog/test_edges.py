"""Edges of records in a batch: many are by_product by a guess, and all equal those of a walk from record to record."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog import edges as module
from kraftlog.edges import edges
from kraftlog.errors import MalformedError
from kraftlog.varints import read_signed, signed
from tests.amounts import share
from tests.kraftlog.build import batch
from tests.kraftlog.partitions import partition, topic


@pytest.fixture(autouse=True)
def guess_in_small_sections_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the sizes from which edges are guessed, so that sections of nine records are guessed too."""
    for name, value in {"_SAMPLE": 2, "_LANE": 4, "_STEPS": 6}.items():
        monkeypatch.setattr(module, name, value)


def by_walk(section: bytes, count: int) -> list[int] | None:
    """The edges by a walk; None if the records do not end with the section."""
    places = [0]
    for _ in range(count):
        try:
            length, start = read_signed(section, places[-1])
        except MalformedError:
            return None
        if length < 0 or start + length > len(section):
            return None
        places.append(start + length)
    return places if places[-1] == len(section) else None


def by_product(section: bytes, count: int) -> list[int] | None:
    """The edges by the product; None if it refuses the section."""
    try:
        places = edges(memoryview(section), count)
    except MalformedError:
        return None
    assert places is not None
    return list(places.tolist())


def record(value: bytes, offset: int) -> bytes:
    body = b"\0\0" + signed(offset) + b"\1" + signed(len(value)) + value + b"\0"
    return signed(len(body)) + body


USUAL = b"\1\3\1" + bytes(20)
VALUES = st.one_of(
    st.just(USUAL),
    st.just(USUAL),
    st.builds(lambda more: USUAL + more, st.binary(max_size=12)),
    st.integers(0, 70).map(lambda offset: b"\1\3\1" + record(USUAL, offset)),  # a value that looks like a record
    st.integers(100, 9000).map(lambda size: b"\1\4\0" + b"x" * size),  # lengths of two bytes, and of three
    st.binary(min_size=3, max_size=40),
)


@settings(deadline=None, max_examples=share(300))
@given(st.lists(VALUES, min_size=9, max_size=150))
def test_edges_of_records_equal_those_of_a_walk(values: list[bytes]) -> None:
    section = b"".join(record(value, offset) for offset, value in enumerate(values))
    places = by_product(section, len(values))
    assert places == by_walk(section, len(values))
    assert places is not None


@settings(deadline=None, max_examples=share(300))
@given(st.lists(VALUES, min_size=9, max_size=150), st.data())
def test_damaged_sections_are_refused_exactly_where_a_walk_refuses_them(
    values: list[bytes], data: st.DataObject
) -> None:
    section = bytearray(b"".join(record(value, offset) for offset, value in enumerate(values)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(section) - 1))
        section[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    count = len(values) + data.draw(st.sampled_from([0, 0, 0, -1, 1]))
    if count * 10 <= len(section):  # a larger count is refused before
        assert by_product(bytes(section), count) == by_walk(bytes(section), count)


@pytest.mark.parametrize("count", [3, 9])
def test_a_section_that_ends_within_the_length_of_a_record_is_refused(count: int) -> None:
    section = b"".join(record(USUAL, offset) for offset in range(count)) + b"\x80"
    with pytest.raises(MalformedError, match="cut variable-length integer"):
        edges(memoryview(section), count + 1)


def test_most_records_of_a_large_section_are_found_without_a_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    walked, walk = [], module._walk

    def noted(*args: object) -> tuple[list[int], int]:
        by_product = walk(*args)  # type: ignore[arg-type] # passed on as they are
        walked.append(len(by_product[0]))
        return by_product

    monkeypatch.setattr(module, "_walk", noted)
    values = [each for n in range(500) for each in (topic(n), *(partition(n, at, 1, 2, 3) for at in range(n % 40)))]
    section = batch(0, *values)[61:]  # without the header of the batch
    assert by_product(section, len(values)) == by_walk(section, len(values))
    assert sum(walked) < len(values) / 10
