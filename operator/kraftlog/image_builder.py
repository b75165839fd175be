"""Builds an image from the records of batches; the base class of `replay.Replay`, which checks the batches first.

It decides which records must be decoded at all, when those of a metadata transaction take effect (`transactions`), and
which records count as unreadable because they are unknown or contradict the state.

Memory is bounded whatever the log contains: the image by the caller's limit, batches and decoded records by constants
that no real cluster reaches. Beyond these it raises TooLargeError, and the object cannot be used any more.

Speed: most records of a large cluster belong to sections that were not requested, so the loop in `_scan` reads two
bytes of a record's frame and continues. For speed, that loop, the one in `edges` and the decoders read varints inline.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from kraftlog.batches import HEADER_SIZE, MAX_BATCH, Attribute, Batch, Bytes, Head, read_record
from kraftlog.errors import ContradictionError, ImageTooLargeError, MalformedError, TooLargeError
from kraftlog.image import SMALL, Image, Section
from kraftlog.maps import FrozenMap
from kraftlog.partition_records import MIN_INSYNC_REPLICAS
from kraftlog.records import FRAME_VERSION, MAX_RECORD, Decoded, decode, decode_control, key_of
from kraftlog.rules import CONTROL_RULES, METADATA_RULES, Rules
from kraftlog.schema import table
from kraftlog.state import State
from kraftlog.transactions import TRANSACTION_KEYS, Transactions

MAX_DECODED = 20_000
"""Most records of a batch that are decoded: many times the number of nodes of the largest cluster. A controller writes
at most 10,000 records of all types at once (`QuorumController.MAX_RECORDS_PER_BATCH`).
"""
MAX_DECODED_WITH_CLIENTS = 400_000
"""Most records of a batch that are decoded if rights, quotas and configs are read: as many of the smallest ones fit
into the largest batch of a snapshot.
"""
_SECTIONS_WITH_MANY_RECORDS = frozenset({Section.CLIENTS, Section.CONFIGS})

_DECODED = 64  # bytes of memory for each byte of a record that is decoded, at most
_COUNT = 200  # bytes of memory of an entry in `counts`

_CONFIG = table.CONFIG.key
_MINIMUM = MIN_INSYNC_REPLICAS.encode()

_MIN_FOR_COLUMNS = 32  # least records of a batch that is read as columns
_KEYS = 128  # api keys that fit in one varint byte; a larger one goes the slow way
_CONTINUES = 0x80  # a varint continues
_NULL_KEY = 1  # zigzag of -1
_CODEC, _CONTROL = 0b111, int(Attribute.CONTROL)  # of the attributes of a batch


class ImageBuilder:
    """The state after the batches so far, with these sections. `limit`: most bytes of `weight`; `at`: see `Replay`."""

    __slots__ = (
        "_counts",
        "_decoded_of_batch",
        "_epoch",
        "_limit",
        "_offset",
        "_pending_weight",
        "_rules",
        "_sections",
        "_shown",
        "_state",
        "_timestamp_ms",
        "_transactions",
        "_unreadable",
        "_wanted",
    )

    def __init__(self, *, sections: Iterable[Section] = SMALL, limit: int | None = None, at: int = 0) -> None:
        self._sections = frozenset(sections)
        self._rules, self._wanted = rules_of(self._sections)
        self._limit = limit
        self._state = State(self._sections)
        self._state.began_mid_log = at > 0
        self._shown: dict[str, Any] | None = None  # cache: the sections of the last image, until one may have changed
        self._offset = at
        self._epoch = -1
        self._timestamp_ms = -1
        self._transactions: Transactions[Decoded] = Transactions()
        self._pending_weight = 0
        self._decoded_of_batch = 0
        self._counts: dict[int, int] = {}
        self._unreadable = 0

    @property
    def offset(self) -> int:
        """End offset, exclusive: where the next batch starts."""
        return self._offset

    @property
    def epoch(self) -> int:
        """Leader epoch of the last batch, -1 before any."""
        return self._epoch

    @property
    def weight(self) -> int:
        """Bytes of memory that the state and an open transaction take, rather too many than too few."""
        return self._state.weight + self._pending_weight + _COUNT * len(self._counts)

    def leave_out(self, section: Section) -> None:
        """Drop a section and its memory, and do not read it from now on."""
        self._sections, self._shown = self._sections - {section}, None
        self._rules, self._wanted = rules_of(self._sections)
        if (open_ := self._transactions.open) is not None:
            open_[:] = [each for each in open_ if each.type.key in self._rules]
        self._state.leave_out(section)

    def image(self) -> Image:
        """The current state. Cheap to make, and immutable."""
        if self._shown is None:
            self._shown = {section.value: self._state.section(section) for section in self._sections}
        return Image(
            offset=self._offset,
            epoch=self._epoch,
            timestamp_ms=self._timestamp_ms,
            in_transaction=self._transactions.open is not None,
            counts=FrozenMap(self._counts),
            unreadable=self._unreadable,
            elapsed_ms=self._state.elapsed_ms,
            **self._shown,
        )

    def _batch(self, head: Head, view: memoryview, start: int) -> list[int]:
        """Apply the batch at `start`. Returns the types of control records in it."""
        judge_size(head.size)
        end = start + head.size
        self._decoded_of_batch = 0
        try:
            if head.attributes & _CONTROL:
                return self._control(head.batch(view, start))
            if head.base_offset < self._offset:  # the snapshot ended inside this batch
                for record in head.batch(view, start).records():
                    if record.offset >= self._offset:
                        self._value(record.value)
            elif head.attributes & _CODEC:
                section = head.batch(view, start).record_section()
                self._section(section, 0, len(section), head.records)
            else:
                self._section(view, start + HEADER_SIZE, end, head.records)
        except (MalformedError, IndexError):  # IndexError: the loop below ran over the end of a section
            self._unreadable += 1
        return []

    def _control(self, batch: Batch) -> list[int]:
        """Apply a control batch, also inside a transaction. Returns the types of its records."""
        types = []
        try:
            for record in batch.records():
                self._about_to_decode(record.value)
                if record.offset < self._offset:
                    continue
                content = decode_control(record.key, record.value)
                if not isinstance(content, Decoded):
                    # An unknown type of control record could be anything about the quorum: it counts against the image.
                    self._unreadable += 1
                    continue
                CONTROL_RULES[content.type.key](self._state, content.data)
                types.append(content.type.key)
        except MalformedError:
            self._unreadable += 1
        self._judge_weight()
        return types

    def _section(self, data: Bytes, position: int, limit: int, count: int) -> None:
        """Apply the records of an uncompressed section, which ends at `limit`."""
        if (
            count < _MIN_FOR_COLUMNS
            or self._transactions.open is not None
            or not self._at_once(data, position, limit, count)
        ):
            self._scan(data, position, limit, count)

    def _at_once(self, data: Bytes, position: int, limit: int, count: int) -> bool:
        """Like `_scan`, but read records of partitions as columns. Returns False, without effect, if that is
        impossible.

        Unusual records are left to `_scan`: for one block of records, or for all following ones if a transaction
        begins.
        """
        if self._state.partitions is None:
            return False
        from kraftlog import frames  # numpy, which most readers do without
        from kraftlog.blocks import Sink, take_block
        from kraftlog.edges import edges

        section = memoryview(data)[position:limit]
        places = edges(section, count)
        if places is None:
            return False
        sink = Sink(self._value, self._count, self._judge_weight, self._count_unreadable)
        # The first block ends where offset deltas begin to take three bytes: so nearly all records of a block have
        # deltas of one length.
        for first, end in pairwise([0, *range(frames.BLOCK // 2, count, frames.BLOCK), count]):
            block = places[first : end + 1]
            outside = self._transactions.open is None
            framed = frames.frames(section, block, self._wanted) if outside else None
            if framed is None or framed.has_any(TRANSACTION_KEYS):
                self._scan(section, int(block[0]), int(block[-1]), end - first)
            else:
                take_block(section, framed, self._state.partitions, sink, all_configs=self._state.configs is not None)
        return True

    def _count_unreadable(self, times: int) -> None:
        self._unreadable += times

    def _count(self, key: int, times: int) -> None:
        if times:
            self._counts[key] = self._counts.get(key, 0) + times

    def _scan(self, data: Bytes, position: int, limit: int, count: int) -> None:
        """Look at every record of an uncompressed section, which ends at `limit`; decode those the image needs."""
        counts, wanted = self._counts, self._wanted
        for _ in range(count):
            start = position
            byte = data[position]
            position += 1
            length, shift = byte & 0x7F, 7
            while byte & _CONTINUES:
                byte = data[position]
                position += 1
                length |= (byte & 0x7F) << shift
                shift += 7
            end = position + (length >> 1)
            if length & 1 or end > limit:
                raise MalformedError(f"a record that is longer than its batch at byte {start}")
            position += 1  # attributes
            while data[position] & _CONTINUES:  # timestamp delta
                position += 1
            position += 1
            while data[position] & _CONTINUES:  # offset delta
                position += 1
            position += 1
            if data[position] == _NULL_KEY:
                position += 1
                while data[position] & _CONTINUES:  # value length
                    position += 1
                key = data[position + 2]
                # A frame has three bytes at least and the header count follows: shorter ones go the slow way.
                if data[position + 1] == FRAME_VERSION and key < _KEYS and not wanted[key] and position + 4 < end:
                    counts[key] = counts.get(key, 0) + 1
                    position = end
                    continue
            record, position = read_record(data, start, limit, 0, 0)
            self._value(record.value)
        if position != limit:
            raise MalformedError(f"{limit - position} bytes behind the last record")

    def _about_to_decode(self, value: bytes | None) -> None:
        self._decoded_of_batch += 1
        most = MAX_DECODED if self._sections.isdisjoint(_SECTIONS_WITH_MANY_RECORDS) else MAX_DECODED_WITH_CLIENTS
        if self._decoded_of_batch > most:
            raise TooLargeError(f"more than {most} registrations and levels in one batch")
        if value is not None and len(value) > MAX_RECORD:
            raise TooLargeError(f"a registration or level of {len(value)} bytes; at most {MAX_RECORD} are read")

    def _judge_weight(self) -> None:
        if self._limit is not None and self.weight > self._limit:
            raise ImageTooLargeError(f"registrations and levels take more than {self._limit} bytes of memory")

    def _value(self, value: bytes | None) -> None:
        """Apply a record that `_scan` did not skip. It may still be irrelevant, if its api key is encoded in more than
        one byte.
        """
        key = key_of(value)
        skipped = key >= 0 and not (key < _KEYS and self._wanted[key])
        skipped = skipped or (key == _CONFIG and self._state.configs is None and _MINIMUM not in (value or b""))
        self._about_to_decode(None if skipped else value)
        if not skipped:
            content = decode(value)
            if isinstance(content, Decoded):
                self._decoded(content, len(value or b""))
            else:  # it could have changed the image
                key = content.key
                self._unreadable += 1
        if key >= 0:
            self._count(key, 1)
        self._judge_weight()

    def _decoded(self, record: Decoded, size: int) -> None:
        if record.type.key not in TRANSACTION_KEYS:
            effects = self._transactions.take(record)
        else:
            try:
                effects = self._transactions.mark(record.type.key)
            except ContradictionError:
                self._unreadable += 1
                return
        for each in effects:
            self._apply(each)
        self._pending_weight = self._pending_weight + _DECODED * (size + 16) if self._transactions.open else 0

    def _apply(self, record: Decoded) -> None:
        try:
            self._rules[record.type.key](self._state, record.data)
        except ContradictionError:
            self._unreadable += 1


def rules_of(sections: Iterable[Section]) -> tuple[Rules, bytes]:
    """(rules of these sections by api key, bytes with a 1 for each api key whose records are decoded)."""
    rules = {key: rule for section in sections for key, rule in METADATA_RULES[section].items()}
    return rules, bytes(key in rules or key in TRANSACTION_KEYS for key in range(_KEYS))


def judge_size(size: int) -> None:
    """Raise TooLargeError for a batch with more bytes than any controller writes."""
    if size > MAX_BATCH:
        raise TooLargeError(f"a batch of {size} bytes; at most {MAX_BATCH} are read")
