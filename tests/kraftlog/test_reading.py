"""The account of a file: every byte and record is counted as decoded, kept or damaged, however the file was damaged."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.batches import HEADER_SIZE, Damage, DamageReason, Record
from kraftlog.encoding import encode_batch
from kraftlog.reading import UNREADABLE, Account, Entry, Reading
from kraftlog.records import MAX_RECORD, Decoded, RawReason, Unreadable, frame
from kraftlog.schema import table
from kraftlog.schema.others import CLIENT_QUOTA
from tests.amounts import share
from tests.fuzz.decoders import resealed
from tests.kraftlog.build import batch, level, no_op
from tests.kraftlog.dump import parse_dump
from tests.kraftlog.golden import CHANGES, FILES, KRAFT, SNAPSHOTS, dump_of, name

SMALL = next(path for path in SNAPSHOTS if path.parent == KRAFT.parent).read_bytes()
PLAIN = SMALL, KRAFT.read_bytes()[:1500]
ENDS = DamageReason.TRUNCATED, DamageReason.ZEROS
DAMAGE = st.one_of(
    st.tuples(st.just("flip"), st.integers(0, 1 << 16), st.integers(1, 255)),
    st.tuples(st.just("cut"), st.integers(0, 1 << 16), st.integers(0, 300)),
    st.tuples(st.just("zeros"), st.integers(0, 1 << 16), st.integers(1, 300)),
    st.tuples(st.just("twice"), st.integers(0, 1 << 16), st.integers(1, 300)),
)


def read(data: bytes) -> tuple[list[Entry], list[Damage], Account]:
    reading = Reading(data)
    items = list(reading)
    entries = [item for item in items if isinstance(item, Entry)]
    return entries, [item for item in items if isinstance(item, Damage)], reading.account


def damaged_files(*whole: bytes, most: int = 4) -> st.SearchStrategy[bytes]:
    """Files with up to `most` damages; in some of them all checksums are corrected afterwards."""
    return st.builds(_damaged, st.sampled_from(whole), st.lists(DAMAGE, min_size=1, max_size=most), st.booleans())


def _damaged(data: bytes, changes: list[tuple[str, int, int]], sealed: bool) -> bytes:
    for change in changes:
        data = _changed(data, *change) if data else data
    return resealed(data) if sealed else data


def _changed(data: bytes, kind: str, at: int, how: int) -> bytes:
    at %= max(len(data), 1)
    if kind == "flip":
        return data[:at] + bytes([data[at] ^ how]) + data[at + 1 :]
    if kind == "cut":
        return data[:at] + data[at + how :]
    return data[:at] + (bytes(how) if kind == "zeros" else data[at : at + how]) + data[at:]


@pytest.mark.parametrize("path", FILES, ids=name)
def test_every_record_and_byte_of_a_real_controller_log_is_accounted_for(path: Path) -> None:
    data = path.read_bytes()
    entries, damage, account = read(data)
    dumped = Counter(kind for _, kind, _ in parse_dump(dump_of(path)))
    assert damage == []
    assert account.is_balanced
    assert account.is_sound
    assert {kind: share.records for kind, share in account.decoded.items()} == dumped
    assert sum(entry.size for entry in entries) + account.headers == len(data) == account.size


@settings(max_examples=share(400), deadline=None)
@given(damaged_files(*PLAIN))
def test_every_byte_and_record_of_a_damaged_file_is_accounted_for(data: bytes) -> None:
    _, damages, account = read(data)
    assert account.is_balanced
    assert sum(share.bytes for share in account.damaged.values()) >= sum(item.size for item in damages if item.size)


def test_a_file_cut_at_any_byte_is_accounted_for_and_names_the_cut() -> None:
    for end in range(len(SMALL)):
        _, damages, account = read(SMALL[:end])
        assert account.is_balanced
        assert all(item.reason in ENDS and item.position + item.size == end for item in damages)


def test_unknown_records_are_kept_and_records_that_contradict_the_schema_are_damaged() -> None:
    unknown_type = bytes((1, 99, 0))  # version of the frame, type of the record, its version
    unknown_frame = bytes((0, 1, 1))
    with_a_byte_too_many = no_op() + b"\0"
    _, damages, account = read(batch(0, no_op(), unknown_type, unknown_frame, with_a_byte_too_many))
    assert damages == []  # the batch itself is sound: only one of its records counts as damaged
    assert {kind: share.records for kind, share in account.kept.items()} == {
        RawReason.TYPE.value: 1, RawReason.FRAME.value: 1,
    }  # fmt: skip
    assert account.damaged[UNREADABLE].records == 1
    assert account.is_balanced
    assert not account.is_sound


def test_records_missing_from_a_batch_are_damage() -> None:
    data = bytearray(batch(0, no_op(), no_op()))
    struct.pack_into(">i", data, HEADER_SIZE - 4, 7)
    entries, damages, account = read(resealed(bytes(data)))
    assert [entry.offset for entry in entries] == [0, 1]
    assert [item.reason for item in damages] == [DamageReason.RECORDS]
    assert (account.claimed, account.damaged[DamageReason.RECORDS.value].records) == (7, 5)
    assert account.is_balanced


def test_bytes_behind_the_records_of_a_batch_are_damage() -> None:
    data = bytearray(batch(0, no_op(), no_op()))
    struct.pack_into(">i", data, HEADER_SIZE - 4, 1)
    _, (damage,), account = read(resealed(bytes(data)))
    assert damage.position + damage.size == len(data)
    assert "behind the last record" in damage.detail
    assert account.is_balanced


def test_records_of_a_compressed_batch_are_read_and_its_growth_is_reported() -> None:
    records = [Record(at, 1, level(f"feature.{at}.version", at)) for at in range(20)]
    plain, packed = encode_batch(records, leader_epoch=1), encode_batch(records, leader_epoch=1, attributes=1)
    entries, damages, account = read(packed)
    assert [entry.content for entry in entries] == [item.content for item in read(plain)[0]]
    assert damages == []
    assert account.inflated == len(plain) - len(packed)
    assert account.is_balanced


@pytest.mark.parametrize("codec", [2, 3, 4, 5, 7], ids=["snappy", "lz4", "zstd", "unassigned 5", "unassigned 7"])
def test_a_batch_with_a_wrong_codec_is_reported_with_all_its_records(codec: int) -> None:
    data = bytearray(batch(0, no_op(), no_op()))
    data[22] |= codec  # the lower byte of the attributes
    entries, (damage,), account = read(resealed(bytes(data)))
    assert entries == []
    assert (damage.position, damage.size) == (HEADER_SIZE, len(data) - HEADER_SIZE)
    assert {2: "snappy: ", 3: "lz4: ", 4: "zstd: "}.get(codec, f"with codec {codec}, which no release") in damage.detail
    assert account.damaged[DamageReason.RECORDS.value].records == 2
    assert account.is_balanced


def test_a_gap_of_offsets_is_reported_without_damaged_bytes() -> None:
    _, (damage,), account = read(batch(0, no_op()) + batch(5, no_op()))
    assert (damage.reason, damage.size) == (DamageReason.OFFSET_ORDER, 0)
    assert (account.breaks, account.is_balanced, account.is_sound) == (1, True, False)


def test_a_batch_with_a_wrong_checksum_loses_only_its_own_records() -> None:
    data = bytearray(CHANGES.read_bytes())
    data[HEADER_SIZE + 3] ^= 1
    entries, damages, account = read(bytes(data))
    complete, _, _ = read(CHANGES.read_bytes())
    lost = [item for item in complete if item.position == 0]
    assert [item.reason for item in damages] == [DamageReason.CRC]
    assert [entry.offset for entry in entries] == [item.offset for item in complete[len(lost) :]]
    assert all(isinstance(entry.content, Decoded) for entry in entries)
    assert account.is_balanced


def test_a_gzip_bomb_is_damage() -> None:
    packer = zlib.compressobj(wbits=31)
    section = packer.compress(bytes(50_000_000)) + packer.flush()
    data = bytearray(batch(0, no_op())[:HEADER_SIZE]) + section
    struct.pack_into(">i", data, 8, len(data) - 12)
    data[22] |= 1
    _, (damage,), account = read(resealed(bytes(data)))
    assert damage.reason is DamageReason.RECORDS
    assert account.is_balanced


def test_a_record_of_a_million_small_items_is_not_decoded() -> None:
    entity = tuple({"entityType": "", "entityName": None} for _ in range(1_000_000))
    data = batch(0, frame(CLIENT_QUOTA, {"entity": entity, "key": "", "value": 1.0, "remove": False}), no_op())
    tracemalloc.start()
    try:
        (large, small), damages, account = read(data)
        assert tracemalloc.get_traced_memory()[1] < 5 * len(data)
    finally:
        tracemalloc.stop()
    assert isinstance(large.content, Unreadable)
    assert large.content.key == CLIENT_QUOTA.key
    assert f"at most {MAX_RECORD} are decoded" in large.content.detail
    assert isinstance(small.content, Decoded)
    assert damages == []
    assert (account.is_balanced, account.is_sound) == (True, False)


def test_the_first_and_last_record_of_a_file_are_reported() -> None:
    complete = Reading(SMALL)
    list(complete)
    assert (complete.begin_offset, complete.first, complete.last) == (
        0, table.SNAPSHOT_HEADER.name, table.SNAPSHOT_FOOTER.name,
    )  # fmt: skip
    behind = Reading(b"?" + batch(7, no_op(), no_op()))
    list(behind)
    assert (behind.begin_offset, behind.end_offset, behind.first) == (None, 9, table.NO_OP.name)
