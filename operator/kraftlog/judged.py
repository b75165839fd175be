"""The records of a log at which Kafka stops, from the files of a node.

    for each in judged(names, opened): print(each.file, each.impossible)

What it decides: what is known where. A log that begins at offset 0 is known from there; behind a gap, damage or a
record that was not decoded nothing is, up to the end of the next whole snapshot. A snapshot is judged by itself: it is
a state, and Kafka begins with it. Every command that says what a log holds asks here, so that all say the same. It
opens nothing itself; `opened` gives it the bytes of a file, which are read a piece at a time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

from kraftlog.batches import HEADER_SIZE, Batch, Damage, DamageReason, Pieces
from kraftlog.checks import Impossible
from kraftlog.errors import MalformedError
from kraftlog.files import Segment, in_order
from kraftlog.judge import KEYS, Judge
from kraftlog.records import MAX_RECORD, Decoded, decode, key_of
from kraftlog.replay import ONLY_NO_OP
from kraftlog.restored import Opener
from kraftlog.schema import NAMES, table
from kraftlog.walks import Walk

Timed = tuple[Impossible, int]
"""A finding, and when its record was appended, in ms."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A record of a file at which Kafka stops. at_ms: when it was appended. end_offset: of the snapshot that it is in;
    None in a segment.
    """

    file: str
    impossible: Impossible
    at_ms: int
    end_offset: int | None = None

    @property
    def begins(self) -> int:
        """The offset of the log from which on it is part of what Kafka replays."""
        return self.impossible.offset if self.end_offset is None else self.end_offset

    def __str__(self) -> str:
        where = "" if self.end_offset is None else " of the snapshot"
        return f"offset {self.impossible.offset}{where}: {self.impossible.reason}"


def judged(names: Iterable[str], opened: Opener) -> Iterator[Judged]:
    """All of them, those of snapshots first. Raises TooLargeError for more than a cluster can hold."""
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
            for impossible, at_ms in log.judged(data):
                yield Judged(segment.name, impossible, at_ms)


class _Snapshot:
    """One snapshot, from nothing. Iterate it once."""

    def __init__(self, data: Pieces) -> None:
        self._data = data
        self._first: int | None = None
        self._last: int | None = None
        self._is_damaged = False
        self.judge = Judge(is_complete=True, in_snapshot=True)

    @property
    def is_whole(self) -> bool:
        """Whether it stands for a state."""
        ends = self._first, self._last
        return not self._is_damaged and ends == (table.SNAPSHOT_HEADER.key, table.SNAPSHOT_FOOTER.key)

    def __iter__(self) -> Iterator[Timed]:
        position = 0
        for item in _batches(self._data):
            if isinstance(item, Damage) or item.base_offset != position:
                self._is_damaged = True
                self.judge.miss()
            if isinstance(item, Damage):
                continue
            position = item.last_offset + 1
            if item.is_control:
                self._last = _control_type(item)
                self._first = self._last if self._first is None else self._first
            else:
                self._first, self._last = (-1 if self._first is None else self._first), -1
                yield from _records(self.judge, item, 0)


class _Log:
    """The segments of a log, in order. states: what whole snapshots leave, by their end offset."""

    def __init__(self, segments: list[Segment], states: dict[int, Judge]) -> None:
        self._states = states
        self._end = 0
        self._judge = Judge(is_complete=bool(segments) and segments[0].base_offset == 0)

    def judged(self, data: Pieces) -> Iterator[Timed]:
        """One segment, behind the ones before."""
        for item in _batches(data):
            if isinstance(item, Damage):
                if item.reason not in (DamageReason.TRUNCATED, DamageReason.ZEROS, DamageReason.EPOCH_ORDER):
                    self._judge.miss()
                continue
            if item.base_offset != self._end:
                self._judge.miss()
            begin, self._end = item.base_offset, item.last_offset + 1
            if not self._judge.is_complete:
                begin = yield from self._begin(item)
            if not item.is_control and item.data[HEADER_SIZE:] != ONLY_NO_OP:
                yield from _records(self._judge, item, begin)

    def _begin(self, batch: Batch) -> Generator[Timed, None, int]:
        """Take over the state of a snapshot that ends in this batch; from which offset on its records count."""
        for end in sorted(self._states):
            if batch.base_offset <= end <= batch.last_offset:
                if end > batch.base_offset and not batch.is_control:
                    yield from _records(self._judge, batch, batch.base_offset, end)
                self._judge = self._states.pop(end)
                return end
        return batch.base_offset


def _batches(data: Pieces) -> Iterator[Batch | Damage]:
    steps = Walk(data)
    while steps.is_open:
        run = steps.run()
        if run is None:
            yield from steps.next()
            continue
        for number in range(len(run.starts) - 1):
            yield from run.breaks.get(number, ())
            yield run.batch(number)


def _control_type(batch: Batch) -> int:
    """The type of the last record of a control batch; -1 where it cannot be read."""
    kind = -1
    try:
        for record in batch.records():
            kind = int.from_bytes(record.key[2:4], "big", signed=True) if record.key else -1
    except MalformedError:
        return -1
    return kind


def _records(judge: Judge, batch: Batch, begin: int, end: int = 1 << 62) -> Iterator[Timed]:
    """The records of a batch from one offset to another."""
    try:
        for record in batch.records():
            key = key_of(record.value)
            if key not in KEYS:
                if key not in NAMES:
                    judge.miss()
                continue
            if not begin <= record.offset < end:
                continue
            content = decode(record.value) if len(record.value or b"") <= MAX_RECORD else None
            if not isinstance(content, Decoded):
                judge.miss()
            elif impossible := judge.take(key, content.data, record.offset):
                yield impossible, record.timestamp_ms
    except MalformedError:
        judge.miss()
