"""Compressed batches: those that a real broker wrote are read, and no section grows beyond its bound."""

from __future__ import annotations

import random
import struct
import sys

import pyarrow
import pytest

from kraftlog import CodecMissing, Damage, Decoded
from kraftlog.batches import ALWAYS_INFLATED, HEADER_SIZE, MAX_RATIO, Batch, Codec, DamageReason, inflate
from kraftlog.encoding import seal
from kraftlog.errors import MalformedError
from kraftlog.reading import Entry, Reading
from kraftlog.records import encode
from kraftlog.walks import walk
from tests.kraftlog.golden import CODECS, COMPRESSED

NAMES = ("snappy", "lz4", "zstd")
OTHERS = pytest.mark.parametrize("name", NAMES)
JAVA = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def packed(name: str, plain: bytes) -> bytes:
    made: bytes = pyarrow.compress(plain, codec=name, asbytes=True)
    return JAVA + struct.pack(">i", len(made)) + made if name == "snappy" else made


def codec_of(name: str) -> Codec:
    return Codec[name.upper()]


@pytest.mark.parametrize("name", ["gzip", *NAMES])
def test_a_log_compressed_by_a_real_broker_is_read_to_the_last_byte(name: str) -> None:
    data = (CODECS / f"{name}.log").read_bytes()
    assert {found.codec for found in walk(data) if isinstance(found, Batch)} == {codec_of(name)}
    reading = Reading(data)
    entries = [item for item in reading if isinstance(item, Entry)]
    assert [encode(item.content) for item in entries] == list(COMPRESSED)
    assert all(isinstance(item.content, Decoded) for item in entries)
    assert reading.account.is_balanced
    assert reading.account.inflated > 0


@OTHERS
def test_without_pyarrow_the_damage_names_the_package_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    data = (CODECS / f"{name}.log").read_bytes()
    reading = Reading(data)
    damages = [item for item in reading if isinstance(item, Damage)]
    assert {damage.reason for damage in damages} == {DamageReason.CODEC}
    assert f"compressed with {name}: to read it, install pyarrow (kraftlog[arrow])" in damages[0].detail
    assert reading.account.damaged[DamageReason.CODEC.value].records == len(COMPRESSED)
    assert reading.account.is_balanced
    with pytest.raises(CodecMissing):
        inflate(b"", codec_of(name))


@OTHERS
@pytest.mark.parametrize(
    "plain",
    [b"", b"x", random.Random(1).randbytes(100_000), b"abc" * 1000],
    ids=["empty", "one byte", "random bytes", "repeated bytes"],
)
def test_an_inflated_section_equals_the_compressed_bytes(name: str, plain: bytes) -> None:
    section = packed(name, plain)
    assert inflate(section, codec_of(name)) == plain
    assert inflate(memoryview(section), codec_of(name)) == plain


def test_snappy_sections_are_read_in_blocks_and_without_a_header() -> None:
    block: bytes = pyarrow.compress(b"hello", codec="snappy", asbytes=True)
    framed = JAVA + 3 * (struct.pack(">i", len(block)) + block)
    assert inflate(framed, Codec.SNAPPY) == b"hellohellohello"
    assert inflate(block, Codec.SNAPPY) == b"hello"


@OTHERS
def test_a_section_inflates_up_to_its_bound_only(name: str) -> None:
    for size in range(3000, 3_000_000, 100_000):
        plain = bytes(size)
        section = packed(name, plain)
        if size <= ALWAYS_INFLATED + MAX_RATIO * len(section):
            assert inflate(section, codec_of(name)) == plain
        else:
            with pytest.raises(MalformedError, match=name):
                inflate(section, codec_of(name))


def test_many_blocks_of_snappy_have_one_limit() -> None:
    block: bytes = pyarrow.compress(bytes(4000), codec="snappy", asbytes=True)
    framed = JAVA + 50 * (struct.pack(">i", len(block)) + block)
    with pytest.raises(MalformedError, match="too large"):
        inflate(framed, Codec.SNAPPY)


@pytest.mark.parametrize("size", [-1, 0, 1 << 30], ids=str)
def test_a_block_of_snappy_that_claims_an_impossible_length_is_refused(size: int) -> None:
    with pytest.raises(MalformedError, match="snappy"):
        inflate(JAVA + struct.pack(">i", size) + b"abc", Codec.SNAPPY)
    with pytest.raises(MalformedError, match="snappy"):
        inflate(b"\xff\xff\xff\xff\x0f", Codec.SNAPPY)  # without a header; it claims four gibibytes


@pytest.mark.parametrize("name", ["gzip", *NAMES])
def test_the_account_of_a_batch_with_a_cut_or_damaged_section_balances(name: str) -> None:
    (batch, *_) = (item for item in walk((CODECS / f"{name}.log").read_bytes()) if isinstance(item, Batch))
    section, chance = bytes(batch.data[HEADER_SIZE:]), random.Random(3)
    broken = [section[:size] for size in range(len(section))]
    for _ in range(500):
        changed = bytearray(section)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        broken.append(bytes(changed))
    for item in broken:
        data = seal(
            item, base_offset=0, leader_epoch=1, attributes=int(codec_of(name)), last_offset_delta=batch.count - 1,
            base_timestamp=0, max_timestamp=0, count=batch.count,
        )  # fmt: skip
        reading = Reading(data)
        list(reading)
        assert reading.account.is_balanced
