"""Reads the changes in the log of a node, file by file, and the gaps between files.

It decides in which order segments and snapshots are read, and reports gaps between them. A snapshot is a state, not a
change, so it is returned only where the changes that led to it are not known: at the beginning, after a gap, and after
a record that was not understood. Whatever cannot be read is returned as `Missing`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator

from msgspec import Struct

from kafkafeatures.cli.log.folders import LogFolder
from kafkafeatures.cli.log.impossible import impossible_in
from kafkafeatures.cli.log.state import MAX_IMAGE
from kafkafeatures.core.facts.releases import has_no_level
from kraftlog import Batch, Damage, DamageReason, Image, KraftLogError, files
from kraftlog.batches import HEADER_SIZE, Pieces
from kraftlog.history import Event, HistoryReader, NotUnderstood
from kraftlog.judged import Judged
from kraftlog.replay import ONLY_NO_OP
from kraftlog.restored import loaded
from kraftlog.walks import Walk


class HistoryLine(Struct, frozen=True):
    """A change, and the segment that has its record."""

    file: str
    event: Event


class ImpossibleRecord(Struct, frozen=True):
    """A record at which Kafka stops (`kraftlog.judged`); it changes nothing."""

    file: str
    judged: Judged


class StateOf(Struct, frozen=True):
    """The state in a snapshot, which ends at `offset`. The changes that led to it are not known."""

    file: str
    offset: int
    image: Image


class Missing(Struct, frozen=True):
    """Records that are missing or could not be read, for this reason. offset: that of the first of them. until: the
    offset of the first record after them, None if unknown.
    """

    file: str
    offset: int
    until: int | None
    reason: str


_ANY_OFFSET = 1 << 62
"""An offset behind all records."""

Item = HistoryLine | ImpossibleRecord | StateOf | Missing


class History:
    """The items of a log, in order. Iterate it once. Afterwards `end` (the offset behind everything that was read),
    `open_transaction` and `has_no_level` are valid.
    """

    def __init__(self, folder: LogFolder) -> None:
        self._folder = folder
        self._segments = folder.segments
        self._snapshots = folder.snapshots
        self.end = self._segments[0].base_offset if self._segments else 0
        impossible = impossible_in(folder)
        self._impossible = frozenset((judged.file, judged.impossible.offset) for judged in impossible)
        self._unshown: defaultdict[str, deque[Judged]] = defaultdict(deque)  # impossible records to come, by file
        for judged in impossible:
            self._unshown[judged.file].append(judged)
        self._understood = not impossible
        self._read = -1  # the end of the records read so far; unlike `end` not moved by snapshots
        # 0-0.checkpoint, written when a controller is formatted, is not needed: the log repeats its records, with
        # times.
        self._reader = HistoryReader(begins_at=self.end if self._segments else -1)

    @property
    def open_transaction(self) -> int | None:
        """Offset of the beginning of a metadata transaction (KIP-868) that has no end in this log; None: there is
        none.
        """
        return self._reader.open_transaction

    @property
    def has_no_level(self) -> bool:
        """True if the log has records, all of them were understood, and none has a metadata.version."""
        levels = self._reader.levels
        return self.end > 0 and self._understood and levels is not None and has_no_level(levels)

    def __iter__(self) -> Iterator[Item]:
        for index, segment in enumerate(self._segments):
            yield from self._segment(segment, is_last=index + 1 == len(self._segments))
        yield from self._states(until=None)
        for file in self._unshown:  # those in parts that could not be read
            yield from self._due(file, _ANY_OFFSET)

    def _segment(self, segment: files.Segment, *, is_last: bool) -> Iterator[Item]:
        """The items of a segment, each gap and snapshot before the batch that follows it. is_last: it is the newest, to
        whose end a node may be writing.
        """
        with self._folder.opened(segment.name) as data:
            for batch in self._batches(data):
                if isinstance(batch, Damage):
                    if batch.reason is DamageReason.OFFSET_ORDER:
                        continue  # reported below, with the offsets
                    if not (is_last and batch.reason in (DamageReason.TRUNCATED, DamageReason.ZEROS)):
                        detail = f" ({batch.detail})" if batch.detail else ""
                        yield self._miss(segment.name, None, f"at byte {batch.position}: {batch.reason.value}{detail}")
                    continue
                if batch.base_offset < self._read:
                    last = min(batch.last_offset, self._read - 1)
                    yield self._miss(segment.name, None, f"offsets {batch.base_offset} to {last} are there twice")
                self._read = batch.last_offset + 1
                if batch.last_offset < self.end:
                    continue  # in a snapshot already, or a duplicate
                yield from self._states(until=batch.base_offset)
                if batch.base_offset > self.end:
                    last = batch.base_offset - 1
                    yield self._miss(segment.name, batch.base_offset, f"offsets {self.end} to {last} are missing")
                yield from self._changes(segment.name, batch)
                self.end = self._read

    def _changes(self, file: str, batch: Batch) -> Iterator[Item]:
        """The changes of a batch; for records at which Kafka stops an `ImpossibleRecord` instead."""
        for event in self._reader.take(batch):
            yield from self._due(file, event.offset)
            self._understood = self._understood and not isinstance(event.change, NotUnderstood)
            if (file, event.offset) not in self._impossible:
                yield HistoryLine(file, event)
        yield from self._due(file, batch.last_offset)

    def _due(self, file: str, until: int) -> Iterator[ImpossibleRecord]:
        """The impossible records of a file up to offset `until`, each only once."""
        unshown = self._unshown[file]
        while unshown and unshown[0].impossible.offset <= until:
            yield ImpossibleRecord(file, unshown.popleft())

    def _batches(self, data: Pieces) -> Iterator[Batch | Damage]:
        """The batches and damage of a segment. Batches with a single NoOp record, most of a log, are only counted while
        the state is complete. The first batch of a run is always returned, since a gap or a snapshot may be before it.
        """
        steps = Walk(data)
        while steps.is_open:
            run = steps.run()
            if run is None:
                yield from steps.next()
                continue
            for number, start in enumerate(run.starts[:-1]):
                if number in run.breaks:
                    yield from run.breaks[number]
                elif (
                    number
                    and self._reader.is_complete
                    and run.data[start + HEADER_SIZE : run.starts[number + 1]] == ONLY_NO_OP
                ):
                    self._read += 1
                    self.end = max(self.end, self._read)
                    continue
                yield run.batch(number)

    def _miss(self, file: str, until: int | None, reason: str) -> Missing:
        """Note that the changes from `end` to `until` are not known, so that the state is no longer complete."""
        self._reader.miss()
        missing, self.end = Missing(file, self.end, until, reason), max(self.end, until or 0)
        return missing

    def _states(self, until: int | None) -> Iterator[Item]:
        """States of snapshots that end after the records read so far, and at or below offset `until`, where the next
        batch begins (None: no batch follows).
        """
        while self._snapshots and (until is None or self._snapshots[0].end_offset <= until):
            snapshot = self._snapshots.pop(0)
            if snapshot.end_offset < self.end or (self._reader.is_complete and snapshot.end_offset == self.end):
                continue
            if until is None and any(later.end_offset > snapshot.end_offset for later in self._snapshots):
                continue  # after the end of the log only the newest snapshot matters
            try:
                image = self._image(snapshot)
            except KraftLogError as error:
                yield Missing(snapshot.name, snapshot.end_offset, None, f"the snapshot was left out: {error}")
                continue
            if snapshot.end_offset > self.end and self._segments:
                last = snapshot.end_offset - 1
                yield self._miss(snapshot.name, snapshot.end_offset, f"offsets {self.end} to {last} are missing")
            self._reader.pass_snapshot(image)
            self.end = snapshot.end_offset
            yield StateOf(snapshot.name, snapshot.end_offset, image)

    def _image(self, snapshot: files.Snapshot) -> Image:
        with self._folder.opened(snapshot.name) as data:
            return loaded(data, snapshot, limit=MAX_IMAGE).image()
