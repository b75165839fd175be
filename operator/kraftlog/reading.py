"""Reads a segment or snapshot to its last byte: every record, every damage, and an account of all bytes.

For commands and pipelines that show or store all records. A record is decoded, or kept as bytes if its type or version
is unknown; anything else is damage. `account` shows whether anything was left out. It raises nothing because of the
bytes, opens no file, and holds one batch, or one run of batches, at a time.

The account must balance: the bytes of batch headers, decoded records, kept records and damage add up to the size of the
file; and decoded, kept and damaged records add up to the number of records in the headers of batches.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from kraftlog.batches import (
    CODEC_OR_CONTROL,
    HEADER_SIZE,
    Batch,
    Buffer,
    Codec,
    Damage,
    DamageReason,
    Pieces,
    read_record,
)
from kraftlog.errors import CodecMissing, MalformedError
from kraftlog.records import MAX_RECORD, Decoded, Raw, Unreadable, decode, decode_control, key_of
from kraftlog.replay import ONLY_NO_OP
from kraftlog.schema.table import NO_OP
from kraftlog.walks import Run, Walk

_ATTRIBUTES_AND_RECORDS = struct.Struct(">21xh34xi")  # of the header of a batch
UNREADABLE = "the record contradicts its layout"


class Entry(NamedTuple):
    """A record and its position.

    position: of its batch in the file. size: bytes of the record, including its length field, uncompressed.
    """

    position: int
    size: int
    offset: int
    timestamp_ms: int
    leader_epoch: int
    control: bool
    content: Decoded | Raw | Unreadable


@dataclass(slots=True)
class Share:
    """Numbers of records and of their bytes."""

    records: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Account:
    """Counts of all bytes and records.

    size: bytes of the file. batches, headers: number of batches with a correct CRC, and bytes of their headers.
    claimed: number of records by these headers. inflated: bytes that decompression added. decoded: by type name; kept,
    damaged: by reason. Damaged bytes outside of batches count as no records, since their number is unknown. breaks:
    number of breaks in the order of offsets or epochs, which damage no byte.
    """

    size: int
    batches: int = 0
    headers: int = 0
    claimed: int = 0
    inflated: int = 0
    breaks: int = 0
    decoded: dict[str, Share] = field(default_factory=dict)
    kept: dict[str, Share] = field(default_factory=dict)
    damaged: dict[str, Share] = field(default_factory=dict)

    @property
    def is_balanced(self) -> bool:
        """True if the account balances; it does once everything was read."""
        shares = [*self.decoded.values(), *self.kept.values(), *self.damaged.values()]
        accounted = self.headers + sum(share.bytes for share in shares)
        return accounted == self.size + self.inflated and self.claimed == sum(share.records for share in shares)

    @property
    def is_sound(self) -> bool:
        """True if every record was decoded or kept, in order. An incomplete end is allowed: a node may be writing
        there.
        """
        return not self.breaks and not self.damaged.keys() - {DamageReason.TRUNCATED.value, DamageReason.ZEROS.value}

    def add(self, shares: dict[str, Share], name: str, records: int, size: int) -> None:
        """Count records and bytes under a name."""
        share = shares.get(name)
        if share is None:
            share = shares[name] = Share()
        share.records += records
        share.bytes += size


class Reading:
    """The records and damage of one file, in order. Iterate it once; the account is complete at the end.

    For callers with several files, to find gaps between them: begin_offset: of the batch at the beginning of the file;
    None if none begins there. end_offset: after the last batch. first, last: types of the first and last record; "" if
    not decoded, None if there are no records.
    """

    def __init__(self, data: Buffer | Pieces) -> None:
        self._data = data
        self.account = Account(len(data))
        self.begin_offset: int | None = None
        self.end_offset: int | None = None
        self.first: str | None = None
        self.last: str | None = None

    def __iter__(self) -> Iterator[Entry | Damage]:
        walk = Walk(self._data)
        while walk.is_open:
            yield from self._next(walk)

    def runs(self) -> Iterator[Run | Entry | Damage]:
        """Iterate with usual batches in runs, so that the caller can read many at once. The caller must count the
        contents of a run: each batch by `entries` or in the account, each break by `damage`.
        """
        walk = Walk(self._data)
        while walk.is_open:
            if run := walk.run():
                self._note_offsets(run.batch(0), run.batch(len(run.starts) - 2))  # starts: one more than batches
                yield run
            else:
                yield from self._next(walk)

    def damages(self) -> Iterator[Damage]:
        """Only the damage, for callers that need no records. Batches with a single NoOp are recognised by their bytes,
        for speed.
        """
        for item in self.runs():
            if isinstance(item, Run):
                yield from self._damages_of(item)
            elif isinstance(item, Damage):
                yield item

    def _damages_of(self, run: Run) -> Iterator[Damage]:
        idle = 0  # batches with a single NoOp
        for number, (start, end) in enumerate(pairwise(run.starts)):
            if number in run.breaks:
                yield from map(self.damage, run.breaks[number])
            # The first batch of a file is always read, as `first` is taken from it.
            if self.first is not None and run.data[start + HEADER_SIZE : end] == ONLY_NO_OP:
                attributes, records = _ATTRIBUTES_AND_RECORDS.unpack_from(run.data, start)
                if records == 1 and not attributes & CODEC_OR_CONTROL:
                    idle, self.last = idle + 1, NO_OP.name
                    continue
            yield from (item for item in self.entries(run.batch(number)) if isinstance(item, Damage))
        if idle:
            self.count_batches(idle, idle)
            self.account.add(self.account.decoded, NO_OP.name, idle, idle * len(ONLY_NO_OP))

    def _next(self, walk: Walk) -> Iterator[Entry | Damage]:
        for item in walk.next():
            if isinstance(item, Batch):
                self._note_offsets(item, item)
                yield from self.entries(item)
            else:
                yield self.damage(item)

    def _note_offsets(self, first: Batch, last: Batch) -> None:
        if first.position == 0:
            self.begin_offset = first.base_offset
        self.end_offset = last.last_offset + 1

    def damage(self, damage: Damage, records: int = 0) -> Damage:
        """Count a damage, and return it."""
        if damage.size or records:
            self.account.add(self.account.damaged, damage.reason.value, records, damage.size)
        else:
            self.account.breaks += 1
        return damage

    def entries(self, batch: Batch) -> Iterator[Entry | Damage]:
        """The records of a batch; they are counted."""
        self.count_batches(1, batch.count)
        remaining = batch.size - HEADER_SIZE
        try:
            section = batch.record_section()
        except MalformedError as error:
            reason = DamageReason.CODEC if isinstance(error, CodecMissing) else DamageReason.RECORDS
            yield self.damage(_in(batch, 0, remaining, str(error), reason), batch.count)
            return
        if batch.codec is not Codec.NONE:
            self.account.inflated += len(section) - remaining
        yield from self.remaining(batch, bytes(section))

    def remaining(self, batch: Batch, section: bytes, first: int = 0, position: int = 0) -> Iterator[Entry | Damage]:
        """The records of a batch from number `first` on, which begins at `position` of the section; they
        are counted.
        """
        limit = len(section)
        for number in range(first, batch.count):
            try:
                record, stop = read_record(section, position, limit, batch.base_offset, batch.base_timestamp)
            except MalformedError as error:
                yield self.damage(_in(batch, position, limit - position, str(error)), batch.count - number)
                return
            size, position = stop - position, stop
            content = content_of(record.value, record.key, control=batch.is_control)
            self.count(content, size)
            yield Entry(
                batch.position, size, record.offset, record.timestamp_ms, batch.leader_epoch, batch.is_control, content
            )
        if position != limit:
            yield self.damage(_in(batch, position, limit - position, "bytes behind the last record"))

    def count_batches(self, batches: int, records: int) -> None:
        """Count this many batches more, which claim to hold this many records."""
        self.account.batches += batches
        self.account.headers += batches * HEADER_SIZE
        self.account.claimed += records

    def count(self, content: Decoded | Raw | Unreadable, size: int) -> None:
        """Count a record of so many bytes."""
        account, self.last = self.account, ""
        if isinstance(content, Decoded):
            self.last = content.type.name
            account.add(account.decoded, self.last, 1, size)
        elif isinstance(content, Raw):
            account.add(account.kept, content.reason.value, 1, size)
        else:
            account.add(account.damaged, UNREADABLE, 1, size)
        self.first = self.last if self.first is None else self.first


def content_of(value: bytes | None, key: bytes | None = None, *, control: bool = False) -> Decoded | Raw | Unreadable:
    """Decode a record, if it is not too large."""
    if value is not None and len(value) > MAX_RECORD:
        detail = f"a record of {len(value)} bytes; at most {MAX_RECORD} are decoded"
        return Unreadable(-1 if control else key_of(value), -1, value, detail, key or b"")
    return decode_control(key, value) if control else decode(value)


def _in(batch: Batch, at: int, size: int, detail: str, reason: DamageReason = DamageReason.RECORDS) -> Damage:
    """Damage within the records of a batch with a correct CRC, which was written like that. at: position in the
    uncompressed section.
    """
    position = batch.position + HEADER_SIZE + (at if batch.codec is Codec.NONE else 0)
    return Damage(position, size, reason, f"{detail}; batch at offset {batch.base_offset}")
