"""Finds the records at which Kafka would throw an exception, in the files of a node's log.

    for each in judged(names, opened): print(each.file, each.impossible)

It decides at which offsets the state is known, and uses a `Judge` there. A log that begins at offset 0 is known from
there; after a gap, damage or an undecoded record nothing is known up to the end of the next complete snapshot. A
snapshot is judged by itself, since Kafka may begin with it. It opens no file itself; `opened` returns the bytes of a
file, which are read in pieces.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from kraftlog.batches import CODEC_OR_CONTROL, HEADER_SIZE, Attribute, Batch, Damage, DamageReason, Pieces, usual_record
from kraftlog.checks import Impossible
from kraftlog.errors import MalformedError
from kraftlog.files import Segment, in_order
from kraftlog.judge import KEYS, Judge
from kraftlog.records import FRAME_VERSION, MAX_RECORD, Decoded, decode, key_of
from kraftlog.replay import ONLY_NO_OP
from kraftlog.restored import Opener
from kraftlog.schema import NAMES, table
from kraftlog.walks import Run, Walk

_HEAD = struct.Struct(">q13xhiq22xi")  # of a batch: base offset, attributes, last delta, base timestamp, records
_DATA = -1  # in place of the type of a control batch
_NO_END = 1 << 62  # above every offset
Timed = tuple[Impossible, int]
"""(finding, time in ms at which the record was appended)."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A record of a file at which Kafka throws. at_ms: when it was appended. end_offset: of the snapshot that contains
    it; None for a segment.
    """

    file: str
    impossible: Impossible
    at_ms: int
    end_offset: int | None = None

    @property
    def begins(self) -> int:
        """The offset from which on Kafka replays the record: its own, or the end offset of the snapshot that has it."""
        return self.impossible.offset if self.end_offset is None else self.end_offset

    def __str__(self) -> str:
        file_kind = "" if self.end_offset is None else " of the snapshot"
        return f"offset {self.impossible.offset}{file_kind}: {self.impossible.reason}"


def judged(names: Iterable[str], opened: Opener) -> Iterator[Judged]:
    """Findings in snapshots first, then those in the log, in order. Raises TooLargeError if there are more values than
    any cluster has.
    """
    snapshots, segments = in_order(names)
    states: dict[int, Judge] = {}
    for snapshot in snapshots:
        with opened(snapshot.name) as data:
            reading = _Snapshot(data)
            for impossible, at_ms in reading:
                yield Judged(snapshot.name, impossible, at_ms, snapshot.end_offset)
        if reading.is_whole and snapshot.end_offset:  # the one at 0 is no state: see SnapshotReader
            states[snapshot.end_offset] = reading.judge.end_snapshot()
    log = _Log(segments, states)
    for segment in segments:
        with opened(segment.name) as data:
            for impossible, at_ms in log.findings(data):
                yield Judged(segment.name, impossible, at_ms)


class _Snapshot:
    """The findings in one snapshot. Iterate it once."""

    def __init__(self, data: Pieces) -> None:
        self._data = data
        self._first: int | None = None  # type of the first batch, if that is a control batch, else `_DATA`
        self._last: int | None = None  # the same of the last batch
        self._is_damaged = False
        self.judge = Judge(is_complete=True, in_snapshot=True)

    @property
    def is_whole(self) -> bool:
        """True if the snapshot is complete, so that its state can be used."""
        ends = self._first, self._last
        return not self._is_damaged and ends == (table.SNAPSHOT_HEADER.key, table.SNAPSHOT_FOOTER.key)

    def __iter__(self) -> Iterator[Timed]:
        position = 0
        for item in _items(self._data):
            if isinstance(item, Damage) or item.base_offset != position:
                self._is_damaged = True
                self.judge.miss()
            if isinstance(item, Damage):
                continue
            position = item.end_offset
            if item.is_control:
                self._last = _control_type(item.batch())
                self._first = self._last if self._first is None else self._first
            else:
                self._first, self._last = (_DATA if self._first is None else self._first), _DATA
                yield from item.findings(self.judge)


class _Log:
    """The segments of a log, in order. states: judges with the states of complete snapshots, by end offset."""

    def __init__(self, segments: list[Segment], states: dict[int, Judge]) -> None:
        self._states = states
        self._end = 0
        self._judge = Judge(is_complete=bool(segments) and segments[0].base_offset == 0)

    def findings(self, data: Pieces) -> Iterator[Timed]:
        """The findings in the next segment."""
        for item in _items(data):
            if isinstance(item, Damage):
                # These three hide no missing record: after a cut end, the offset of the next segment shows it.
                if item.reason not in (DamageReason.TRUNCATED, DamageReason.ZEROS, DamageReason.EPOCH_ORDER):
                    self._judge.miss()
                continue
            if item.base_offset != self._end:
                self._judge.miss()
            self._end = item.end_offset
            if self._judge.is_complete:
                yield from item.findings(self._judge)
                continue
            begin = item.base_offset
            for end in sorted(self._states):
                if begin <= end < item.end_offset:  # a whole snapshot ends here: from there on all is known again
                    yield from item.findings(self._judge, begin, end)
                    begin, self._judge = end, self._states.pop(end)
            yield from item.findings(self._judge, begin)


class _RunBatch:
    """A batch within a run of batches. A `Batch` object is made only if needed, which is rare."""

    __slots__ = ("_base_ms", "_count", "_end", "_number", "_run", "_start", "attributes", "base_offset", "end_offset")

    def __init__(self, run: Run, number: int, start: int, end: int) -> None:
        self._run, self._number, self._start, self._end = run, number, start, end
        head = _HEAD.unpack_from(run.data, start)
        self.base_offset, self.attributes, last_delta, self._base_ms, self._count = head
        self.end_offset: int = self.base_offset + last_delta + 1

    @property
    def is_control(self) -> bool:
        """True for a control batch, which no check concerns."""
        return bool(self.attributes & _CONTROL)

    def batch(self) -> Batch:
        """The batch with its header."""
        return self._run.batch(self._number)

    def findings(self, judge: Judge, begin: int = 0, end: int = _NO_END) -> Iterator[Timed]:
        """The findings in its records with offsets from `begin` on and below `end`. The judge takes only these
        records.
        """
        if self.is_control or self._run.data[self._start + HEADER_SIZE : self._end] == ONLY_NO_OP:
            return
        usual_records, at, data = 0, self._start + HEADER_SIZE, self._run.data
        if not self.attributes & CODEC_OR_CONTROL:
            while usual_records < self._count and (record := usual_record(data, at, self._end)) is not None:
                delta_ms, delta, value_begins, at = record
                if begin <= (offset := self.base_offset + delta) < end:
                    impossible = _judge_value(judge, data[value_begins : at - 1], offset)
                    if impossible is not None:
                        yield impossible, self._base_ms + delta_ms
                usual_records += 1
        if usual_records == self._count and at == self._end:
            return
        try:  # compressed, with headers or a key, or not as a batch should be
            for number, unusual in enumerate(self.batch().records()):
                if number >= usual_records and begin <= unusual.offset < end:
                    impossible = _judge_value(judge, unusual.value, unusual.offset)
                    if impossible is not None:
                        yield impossible, unusual.timestamp_ms
        except MalformedError:
            judge.miss()


def _items(data: Pieces) -> Iterator[_RunBatch | Damage]:
    """Batches and damage of a file, in order."""
    steps = Walk(data)
    while steps.is_open:
        run = steps.run()
        if run is None:
            for item in steps.next():
                if isinstance(item, Damage):
                    yield item
                else:
                    yield _RunBatch(Run(item.position, bytes(item.data), [0, item.size], {}), 0, 0, item.size)
            continue
        for number, (start, end) in enumerate(pairwise(run.starts)):
            yield from run.breaks.get(number, ())
            yield _RunBatch(run, number, start, end)


def _control_type(batch: Batch) -> int:
    """The type of the last record of a control batch; -1 where it cannot be read."""
    kind = -1
    try:
        for record in batch.records():
            kind = int.from_bytes(record.key[2:4], "big", signed=True) if record.key else -1
    except MalformedError:
        return -1
    return kind


def _judge_value(judge: Judge, value: bytes | None, offset: int) -> Impossible | None:
    """The finding at a record, if there is one."""
    if value and value[:2] == _CHANGE and _is_usual(judge, value):
        return None
    key = key_of(value)
    if key not in KEYS:
        if key not in NAMES:  # a newer release may have such records, and they may change anything
            judge.miss()
        return None
    content = decode(value) if len(value or b"") <= MAX_RECORD else None
    if isinstance(content, Decoded):
        return judge.take(key, content.data, offset)
    judge.miss()
    return None


def _is_usual(judge: Judge, value: bytes) -> bool:
    """True for a partition change (most records of a log) that no check refuses: the partition exists, and no other
    check concerns its fields. False: it must be judged.
    """
    size = len(value)
    if size < _TAGS or value[2] > table.PARTITION_CHANGE.last_version:
        return False
    partition, topic_id, tags = _FIELDS.unpack_from(value, _FRAME)
    if not judge.has_partition(topic_id, partition):
        return False
    at = _TAGS
    for _ in range(tags):
        if at + 2 > size or value[at] in _JUDGED_TAGS or value[at + 1] > _ONE_BYTE:
            return False
        at += 2 + value[at + 1]
    return at == size


_CHANGE = bytes((FRAME_VERSION, table.PARTITION_CHANGE.key))  # the first bytes of a partition change
_FIELDS = struct.Struct(">i16sB")  # of a change, in every version: partition, topic id, number of tags
_FRAME, _TAGS = 3, 24  # bytes: the size of a frame, and the position of the first tag of a change
_JUDGED_TAGS = frozenset({2, 5, 8})  # replicas, leaderRecoveryState, directories: PartitionChangeRecord.json
_ONE_BYTE = 0x7F  # the largest size of a tag that is written in one byte
_CONTROL = int(Attribute.CONTROL)
