"""The walk over the batches of a file: it yields batches and damage, which together are all bytes of the file."""

from __future__ import annotations

import gzip
import mmap
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog import MalformedError
from kraftlog.batches import (
    ALWAYS_INFLATED,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    MAX_BATCH,
    MAX_INFLATED,
    Attribute,
    Batch,
    Buffer,
    Codec,
    Damage,
    DamageReason,
    Header,
    Record,
    inflate,
)
from kraftlog.encoding import encode_batch, seal
from kraftlog.walks import walk
from tests.kraftlog.build import NOW, batch, level, no_op, reencode
from tests.kraftlog.golden import CHANGES

THREE = [
    batch(0, no_op(), level("metadata.version", 21)),
    batch(2, no_op()),
    batch(3, level("group.version", 1), no_op()),
]
LOG = b"".join(THREE)
STARTS = [0, len(THREE[0]), len(THREE[0]) + len(THREE[1])]

int64 = st.integers(-(2**63), 2**63 - 1)
content = st.none() | st.binary(max_size=40)
headers = st.lists(st.builds(Header, st.text(max_size=8), content), max_size=3).map(tuple)
record_parts = st.lists(
    st.tuples(st.integers(0, 2**40), content, content, headers, st.integers(0, 255)), min_size=1, max_size=6
)


def batches(data: Buffer) -> list[Batch]:
    return [each for each in walk(data) if isinstance(each, Batch)]


def damages(data: bytes) -> list[Damage]:
    return [each for each in walk(data) if isinstance(each, Damage)]


@given(record_parts, st.integers(0, 2**60), st.integers(0, 2**31 - 1), st.sampled_from([Codec.NONE, Codec.GZIP]))
def test_an_encoded_batch_decodes_to_its_records(
    parts: list[tuple[int, bytes | None, bytes | None, tuple[Header, ...], int]], offset: int, epoch: int, codec: Codec
) -> None:
    records = [Record(offset + at, time, value, key, hs, a) for at, (time, value, key, hs, a) in enumerate(parts)]
    data = encode_batch(records, leader_epoch=epoch, attributes=codec)
    (decoded,) = walk(data)
    assert isinstance(decoded, Batch)
    assert list(decoded.records()) == records
    assert (decoded.base_offset, decoded.last_offset, decoded.leader_epoch) == (
        offset,
        offset + len(records) - 1,
        epoch,
    )
    assert decoded.max_timestamp == max(r.timestamp_ms for r in records)
    assert reencode(decoded) == data


@given(
    st.integers(0, 2**16 - 1).filter(lambda bits: bits & 7 == 0),
    *[int64] * 3,
    st.integers(-(2**15), 2**15 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 2**31 - 1),
)
def test_every_field_of_an_encoded_batch_header_decodes_to_its_value(
    attributes: int, base_time: int, max_time: int, producer: int, producer_epoch: int, sequence: int, delta: int
) -> None:
    data = seal(
        b"",
        base_offset=7,
        leader_epoch=2,
        attributes=attributes,
        last_offset_delta=delta,
        base_timestamp=base_time,
        max_timestamp=max_time,
        producer_id=producer,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        count=0,
    )
    (decoded,) = batches(data)
    assert (decoded.attributes, decoded.last_offset_delta, decoded.base_timestamp) == (attributes, delta, base_time)
    assert (decoded.max_timestamp, decoded.producer_id, decoded.producer_epoch) == (max_time, producer, producer_epoch)
    assert (decoded.base_sequence, decoded.count) == (sequence, 0)
    assert decoded.is_control == bool(attributes & Attribute.CONTROL)
    assert decoded.is_transactional == bool(attributes & Attribute.TRANSACTIONAL)
    assert reencode(decoded) == data


def test_a_log_cut_at_any_byte_gives_its_complete_batches_and_one_truncated_tail() -> None:
    for end in range(len(LOG)):
        whole = [each for start, each in zip(STARTS, THREE, strict=True) if start + len(each) <= end]
        position = sum(map(len, whole))
        # The first bytes of an offset are zeros: a tail of nothing else says no more than that.
        reason = DamageReason.TRUNCATED if any(LOG[position:end]) else DamageReason.ZEROS
        assert [b.data for b in batches(LOG[:end])] == whole, end
        assert [(d.position, d.size, d.reason) for d in damages(LOG[:end])] == (
            [(position, end - position, reason)] if end > position else []
        )


def test_a_flipped_bit_of_a_batch_is_reported_except_in_its_leader_epoch() -> None:
    for bit in range(8 * len(THREE[1])):
        data = bytearray(LOG)
        data[STARTS[1] + bit // 8] ^= 1 << bit % 8
        walked = list(walk(bytes(data)))
        items = [each for each in walked if isinstance(each, Damage)]
        if 12 <= bit // 8 < 16:
            # partitionLeaderEpoch is not covered by the CRC: what remains is that epochs never go back.
            assert [d.reason for d in items] == [DamageReason.EPOCH_ORDER], bit
        elif bit == 7:  # the sign of baseOffset
            assert [d.reason for d in items] == [DamageReason.LENGTH, DamageReason.OFFSET_ORDER]
        elif bit // 8 < 8:
            assert {d.reason for d in items} == {DamageReason.OFFSET_ORDER}, bit  # likewise baseOffset
        else:
            assert (items[0].position, items[0].size) == (STARTS[1], len(THREE[1])), bit
            assert items[0].reason in (DamageReason.LENGTH, DamageReason.MAGIC, DamageReason.CRC), bit
            assert [b.data for b in walked if isinstance(b, Batch)] == [THREE[0], THREE[2]], bit


def test_a_batch_with_a_wrong_crc_is_reported_and_the_next_batch_is_read() -> None:
    data = LOG[: STARTS[2] - 1] + b"\xaa" + LOG[STARTS[2] :]
    items = list(walk(data))
    assert [b.data for b in items if isinstance(b, Batch)] == [THREE[0], THREE[2]]
    damage = items[1]
    assert isinstance(damage, Damage)
    assert (damage.position, damage.size, damage.reason) == (STARTS[1], len(THREE[1]), DamageReason.CRC)
    missing = items[2]
    assert isinstance(missing, Damage)
    assert (missing.size, missing.reason) == (0, DamageReason.OFFSET_ORDER)


@given(st.binary(min_size=1, max_size=300))
def test_bytes_between_batches_are_skipped_and_reported(garbage: bytes) -> None:
    items = list(walk(THREE[0] + garbage + THREE[1] + THREE[2]))
    assert [b.data for b in items if isinstance(b, Batch)] == THREE
    assert sum(d.size for d in items if isinstance(d, Damage)) == len(garbage)


@given(st.binary(max_size=300))
def test_every_byte_of_a_file_is_part_of_a_batch_or_of_damage(data: bytes) -> None:
    items = list(walk(data))
    assert sum(each.size for each in items) == len(data)
    position = 0
    for each in items:
        assert each.position == position
        position += each.size


@pytest.mark.parametrize("zeros", [1, 60, 61, 5000])  # a header has 61 bytes
def test_the_zero_tail_of_a_preallocated_file_is_distinguished_from_a_cut_batch(zeros: int) -> None:
    items = list(walk(LOG + bytes(zeros)))
    assert [b.data for b in items if isinstance(b, Batch)] == THREE
    assert items[-1] == Damage(len(LOG), zeros, DamageReason.ZEROS)


def test_a_length_beyond_the_end_of_the_file_is_damage_when_batches_follow() -> None:
    data = bytearray(LOG)
    struct.pack_into(">i", data, STARTS[1] + 8, 1 << 30)
    items = damages(bytes(data))
    assert (items[0].position, items[0].size, items[0].reason) == (STARTS[1], len(THREE[1]), DamageReason.LENGTH)


@pytest.mark.parametrize("view", [bytes, bytearray, memoryview])
def test_a_walk_accepts_any_buffer(view: type) -> None:
    assert len(batches(view(CHANGES.read_bytes()))) == 486  # all batches of the file


def test_a_walk_accepts_a_mapped_file() -> None:
    with CHANGES.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert [b.base_offset for b in batches(mapped)] == [b.base_offset for b in batches(CHANGES.read_bytes())]


def test_a_walk_copies_no_batch() -> None:
    data = bytearray(batch(0, b"x" * 4_000_000) * 3)
    tracemalloc.start()
    try:
        kept = [each.data for each in batches(data)]
        assert tracemalloc.get_traced_memory()[1] < len(data) / 10
    finally:
        tracemalloc.stop()
    data[-1] = 1  # the batch is a view of the same memory, so it changes too
    assert (kept[-1][-1], kept[-1].readonly) == (1, True)


@pytest.mark.parametrize("at", [262_143, 262_144, 262_145, 1_000_000])  # checksums are computed in pieces of 256 KiB
def test_a_flipped_bit_in_a_large_batch_is_reported_and_the_next_batch_is_read(at: int) -> None:
    data = bytearray(batch(0, b"x" * 1_000_000))
    data[at] ^= 1
    damage, next_batch = walk(bytes(data) + THREE[1])
    assert isinstance(damage, Damage)
    assert (damage.size, damage.reason) == (len(data), DamageReason.CRC)
    assert isinstance(next_batch, Batch)
    assert next_batch.data == THREE[1]


class Counted:
    """Bytes that count how many of them were read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.read = data, 0

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, piece: slice) -> memoryview:
        items = memoryview(self.data)[piece]
        self.read += len(items)
        return items


def header_claiming(size: int) -> bytes:
    """The header of a batch that claims to have so many bytes."""
    return HEADER.pack(0, size - 12, 0, 2, 1, 0, 0, 0, 0, -1, -1, -1, 0)


def test_bytes_that_look_like_batches_everywhere_are_read_in_bounded_time() -> None:
    hostile = Counted(b"".join(header_claiming(left) for left in range(61 * 50_000, 0, -61)))
    (damage,) = walk(hostile)
    assert isinstance(damage, Damage)
    assert (damage.position, damage.size, damage.reason) == (0, len(hostile), DamageReason.CRC)
    assert "too much there looks like batches" in damage.detail
    assert hostile.read < 20 * len(hostile)


def test_nested_claims_of_batches_are_read_in_bounded_time() -> None:
    part = batch(0, no_op())
    each = HEADER_SIZE + len(part)
    data = b"".join(header_claiming(left) + part for left in range(each * 40_000, 0, -each))
    hostile = Counted(data)
    *_, last = walk(hostile)
    assert isinstance(last, Damage)
    assert last.position + last.size == len(data)
    assert hostile.read < 20 * len(hostile)


def test_a_batch_above_the_maximum_size_is_damage_and_not_held_in_memory() -> None:
    large = Counted(batch(0, b"x" * MAX_BATCH) + THREE[1])
    damage, next_batch = walk(large)
    assert isinstance(damage, Damage)
    assert damage.reason is DamageReason.LENGTH
    assert f"at most {MAX_BATCH} are read" in damage.detail
    assert isinstance(next_batch, Batch)
    assert next_batch.data == THREE[1]


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4, Codec.ZSTD, Codec.UNASSIGNED_7])
def test_a_section_of_an_unsupported_codec_is_reported_and_the_batch_kept_and_none_is_written(codec: Codec) -> None:
    (plain,) = batches(THREE[1])
    section = bytes(plain.data[HEADER_SIZE:])
    compressed = _with_section(section, codec)
    assert compressed.codec is codec
    with pytest.raises(MalformedError, match="codec 7" if codec is Codec.UNASSIGNED_7 else codec.name.lower()):
        list(compressed.records())
    assert reencode(compressed) == bytes(compressed.data)
    with pytest.raises(ValueError, match=codec.name.lower()):
        encode_batch([Record(0, NOW, b"")], leader_epoch=1, attributes=codec)


@pytest.mark.parametrize(
    "section",
    [b"no gzip", zlib.compress(b"x"), b"", "cut", "more"],
    ids=["other bytes", "zlib", "nothing", "cut", "followed by others"],
)
def test_an_invalid_gzip_section_is_refused(section: bytes | str) -> None:
    (packed,) = batches(batch(0, no_op(), no_op(), attributes=Codec.GZIP))
    stream = bytes(packed.data[HEADER_SIZE:])
    section = {"cut": stream[:-1], "more": stream + b"x"}[section] if isinstance(section, str) else section
    with pytest.raises(MalformedError, match="gzip"):
        list(_with_section(section, Codec.GZIP).records())


@pytest.mark.parametrize(
    ("plain", "level", "is_read"),
    [
        (bytes(ALWAYS_INFLATED), 9, True),
        (bytes(1_000_000), 9, False),
        (bytes(MAX_INFLATED), 0, True),
        (bytes(MAX_INFLATED + 1), 0, False),
    ],
    ids=["small", "a thousandth of its size", "the largest", "larger"],
)
def test_a_gzip_section_inflates_up_to_limits_of_its_size_and_ratio(plain: bytes, level: int, is_read: bool) -> None:
    section = gzip.compress(plain, level)
    if is_read:
        assert inflate(section, Codec.GZIP) == plain
    else:
        with pytest.raises(MalformedError, match="too large"):
            inflate(section, Codec.GZIP)


@pytest.mark.parametrize(
    "section",
    ["", "7a", "01", "00", "0e0000000102000000", "10000000010200000000", "0c0000000102000200", "0e00000001040000"],
    ids=[
        "empty", "a length beyond the end", "a negative length", "a length of 0", "a byte behind the record",
        "longer than its fields", "shorter than its fields", "no number of headers",
    ],
)  # fmt: skip
def test_a_record_section_that_does_not_follow_its_layout_is_refused(section: str) -> None:
    with pytest.raises(MalformedError):
        list(_with_section(bytes.fromhex(section)).records())


def test_bytes_behind_the_last_record_are_refused() -> None:
    (decoded,) = batches(THREE[1])
    with pytest.raises(MalformedError, match="behind the last record"):
        list(_with_section(bytes(decoded.data[HEADER_SIZE:]) + b"\0").records())


def test_an_empty_batch_is_not_written() -> None:
    with pytest.raises(ValueError, match="at least one"):
        encode_batch([], leader_epoch=1)


def test_the_crc_covers_the_bytes_from_the_attributes_to_the_end() -> None:
    (decoded,) = batches(THREE[1])
    moved = bytearray(decoded.data)
    struct.pack_into(">q", moved, 0, 99)  # the base offset, which a broker sets after the client computed the checksum
    (moved_batch,) = batches(bytes(moved))
    assert (moved_batch.base_offset, moved_batch.data[CRC_START:]) == (99, decoded.data[CRC_START:])


def _with_section(section: bytes, codec: Codec = Codec.NONE) -> Batch:
    data = seal(
        section,
        base_offset=0,
        leader_epoch=1,
        attributes=codec,
        last_offset_delta=0,
        base_timestamp=NOW,
        max_timestamp=NOW,
        count=1,
    )
    (decoded,) = batches(data)
    return decoded
