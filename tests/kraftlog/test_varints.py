"""Variable-length integers: their bytes, and the numbers that are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog import MalformedError
from kraftlog.varints import read_signed, read_unsigned, signed, unsigned


@given(st.integers(0, 2**64 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_an_unsigned_varint_is_decoded_from_the_middle_of_a_buffer(value: int, before: bytes, after: bytes) -> None:
    buffer = before + unsigned(value) + after
    assert read_unsigned(buffer, len(before), 64) == (value, len(buffer) - len(after))


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_signed_varint_is_decoded_to_the_same_number(value: int) -> None:
    assert read_signed(signed(value), 0, 64) == (value, len(signed(value)))


@pytest.mark.parametrize(
    ("value", "content"),
    [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (2**31 - 1, "feffffff0f"), (-(2**31), "ffffffff0f")],
)
def test_zigzag_has_the_bytes_kafka_writes(value: int, content: str) -> None:
    assert signed(value).hex() == content
    assert read_signed(bytes.fromhex(content), 0) == (value, len(content) // 2)


@pytest.mark.parametrize(
    "content",
    ["", "80", "ffff", "ffffffff1f", "ffffffffff01", "8080808080808080"],
    ids=["empty", "cut in the first byte", "cut in the second byte", "33 bits", "six bytes", "never ends"],
)
def test_a_number_that_is_cut_or_does_not_fit_in_32_bits_is_refused(content: str) -> None:
    with pytest.raises(MalformedError):
        read_unsigned(bytes.fromhex(content), 0)


@pytest.mark.parametrize("value", [-1, 2**64])
def test_a_number_that_is_not_unsigned_is_not_encoded(value: int) -> None:
    with pytest.raises(ValueError, match="unsigned"):
        unsigned(value)


@pytest.mark.parametrize("value", [-(2**63) - 1, 2**63])
def test_a_number_beyond_64_bits_is_not_encoded(value: int) -> None:
    with pytest.raises(ValueError, match="signed"):
        signed(value)
