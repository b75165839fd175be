"""The search for the next batch behind damage: it is done at many positions at once, and misses no batch."""

from __future__ import annotations

import struct
import time
from unittest import mock

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog import walks
from kraftlog.batches import HEADER, HEADER_SIZE, MAX_BATCH, Batch, Damage
from kraftlog.walks import Walk
from tests.kraftlog.build import batch, no_op
from tests.kraftlog.one_place_at_a_time import measured

SMALL = batch(0, no_op())
LONGER = batch(0, b"x" * 200)
"""A batch whose length has a last byte of less than 49, the least length of a batch. The other bytes count as well."""
HEAD = HEADER.pack(7, 49, 1, 2, 0x2F3B5B0E, 0, 0, 0, 0, -1, -1, -1, 0)
"""A batch that is only a header, with a wrong checksum."""
BYTES = (0x00, 0x02, 0x31, 0x30, 0x01, 0x7F, 0x80, 0xFF, 0x3D)
"""Bytes at edges of the search: 2 is the version of a batch, 0x31 its least length, 0x3D the size of a header."""


def claim(size: int, offset: int = 0) -> bytes:
    """The header of a batch that claims this size, with a wrong checksum."""
    return HEADER.pack(offset, size - 12, 0, 2, 0x02020202, 0, 0, 0, 0, -1, -1, -1, 0)


PARTS = st.one_of(
    st.sampled_from([SMALL, batch(1, no_op(), no_op()), batch(0, b"x" * 150), LONGER, SMALL[:-1], SMALL[1:], HEAD]),
    st.builds(
        claim, st.sampled_from([60, 61, 62, 80, 199, 200, 201, 268, 1 << 20]), st.sampled_from([0, 5, 0x7F << 56, -1])
    ),
    st.builds(lambda one, count: bytes([one]) * count, st.sampled_from(BYTES), st.integers(1, 90)),
    st.builds(
        lambda period, count: bytes(period) * count,
        st.lists(st.sampled_from(BYTES), min_size=1, max_size=17),
        st.integers(1, 12),
    ),
    st.binary(max_size=70),
)
DATA = st.lists(PARTS, max_size=12).map(b"".join)


def walked(data: bytes) -> tuple[list[Batch | Damage], int]:
    """The batches and the damage of a walk, and the bytes that it may still check."""
    walk, items = Walk(data), []
    while walk.is_open:
        items += list(walk.next())
    return items, walk._heads.budget


def test_the_length_of_a_longer_batch_ends_with_a_small_byte() -> None:
    """The length field counts the bytes behind itself and the offset, which are 12."""
    assert 256 <= len(LONGER) - 12 < 256 + 49


@settings(max_examples=400, deadline=None)
@given(
    data=DATA, searched=st.sampled_from([1, 5, 64, 1000]), many=st.sampled_from([1, 32, 1 << 20]),
    most=st.sampled_from([61, 80, 200, MAX_BATCH]), checked=st.sampled_from([0, 1, 16]),
)  # fmt: skip
def test_a_search_at_once_has_the_result_of_a_search_position_by_position(
    data: bytes, searched: int, many: int, most: int, checked: int
) -> None:
    with mock.patch.multiple(walks, _SEARCHED=searched, _MANY=many, MAX_BATCH=most, _CHECKED=checked):
        at_once = walked(data)
        with mock.patch.object(walks, "_measure", measured):
            assert at_once == walked(data)


@pytest.mark.parametrize("before", [0, 1, 59, 60, 61, 5000])
def test_a_batch_of_only_a_header_is_found_at_the_end(before: int) -> None:
    crc = struct.pack(">I", google_crc32c.value(HEAD[21:]))
    alone = HEAD[:17] + crc + HEAD[21:]
    *_, last = walked(b"\xff" * before + alone)[0]
    assert isinstance(last, Batch)
    assert (last.position, last.size) == (before, HEADER_SIZE)


WITHOUT_BATCH = {
    "twos": b"\x02",
    "zeros and twos": b"\x00\x02\x80\x00\x00",
    "a long number and twos": b"\x00\x02\x00\x00\x00",
    "text": b"some text that lies here for whatever reason\n",
}


@pytest.mark.parametrize("kind", WITHOUT_BATCH)
def test_bytes_without_a_batch_are_not_searched_position_by_position(kind: str) -> None:
    """Eight megabytes within a second of processor time; position by position, each megabyte took two seconds."""
    data = WITHOUT_BATCH[kind] * (8_000_000 // len(WITHOUT_BATCH[kind]))
    began = time.process_time()
    (damage,) = walked(data)[0]
    assert isinstance(damage, Damage)
    assert damage.size == len(data)
    assert time.process_time() - began < 1
