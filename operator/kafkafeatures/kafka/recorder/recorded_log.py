"""One recorded metadata log on disk: Kafka's own batches as they were fetched, in the same files as in a broker's
folder.

It decides which bytes may be appended (complete batches with a correct CRC that continue the log), when a segment is
closed, how much of the open segment counts after the process was killed, and which files may be removed to make room.
Called by `recorder.py`, in its single thread; the calls block. It sends no requests, and limits of size are decided in
`recordings.py`.

    <folder>/meta.properties                      whose log it is
    <folder>/lock                                 held while something is changed: a second writer gets `Busy`
    <folder>/__cluster_metadata-0/<20 digits>.log closed segments, and `<offset>-<epoch>.checkpoint`: snapshots
                       .../<20 digits>.log.open-<seconds since 1970>   the open segment, and when it was begun

Readers look for names that end with `.log`, so they see closed segments only. The position is not stored anywhere else:
the log ends where its files end, and an append by another process is noticed by names and sizes of files. If records
are missing (a gap), a new segment begins, at a higher offset than the end of the one before it. Batches that contradict
the recorded ones (`Contradicts`) are never appended.

The log holds SCRAM credentials, and passwords in configs. They cannot be redacted: each batch has a checksum over its
records, and a comparison with a broker's folder needs equal bytes. So files have mode 0600, folders 0700.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from kafkafeatures.kafka.log.batch_heads import from_offset
from kafkafeatures.kafka.recorder.durable_files import open_file, sync_folder, write_all
from kafkafeatures.kafka.recorder.new_snapshot import PART, NewSnapshot
from kafkafeatures.kafka.recorder.whole_batches import NotWhole, cut_below, first_epoch, valid_end, whole_batches
from kafkafeatures.kafka.wire.messages import OffsetAndEpoch
from kraftlog import files

LOCK = "lock"
_OPEN = re.compile(rf"([0-9]{{20}}){re.escape(files.OPEN)}([0-9]{{1,12}})")


class Busy(Exception):
    """Another process or task holds the lock of this recording."""


class Contradicts(Exception):
    """These batches belong to another log than the recorded one; the text says which difference shows it."""


class Appended(Struct, frozen=True):
    """The result of `append`. `end`: the new end of the log. `size`: bytes that were written. `began`: a new segment
    was begun. `gap`: records before the appended ones are missing.
    """

    end: OffsetAndEpoch
    size: int
    began: bool = False
    gap: bool = False


class _OpenSegment(Struct, frozen=True):
    """The segment that is written to. `since`: seconds since 1970."""

    name: str
    base: int
    since: int
    size: int

    @property
    def closed_name(self) -> str:
        return f"{self.base:020}.log"


class _State(Struct, frozen=True):
    """A cache of what the files contain. It is valid while the modification time of the folder (`stamp`, in
    nanoseconds) and the size of the open segment are unchanged.
    """

    stamp: int
    end: OffsetAndEpoch | None
    open: _OpenSegment | None


_UNREAD = _State(-1, None, None)  # no folder has such a time: the files are read first


class RecordedLog:
    """A log in its folder. A segment is closed when it has `close_at` bytes or is `close_after` seconds old. `clock`
    returns seconds since 1970.
    """

    def __init__(
        self, folder: Path, cluster_id: str, *, close_at: int, close_after: float, clock: Callable[[], float]
    ) -> None:
        self.folder, self.cluster_id = folder, cluster_id
        self._log = folder / files.DIRECTORY
        self._close_at, self._close_after, self._clock = close_at, close_after, clock
        self._state = _UNREAD

    def position(self) -> OffsetAndEpoch | None:
        """The end of the log, with the epoch of the last batch; None if nothing is recorded. Raises Busy, OSError."""
        if not self._log.is_dir():
            return None
        with self._locked():
            return self._loaded().end

    def append(self, data: bytes, *, at: int, below: int) -> Appended:
        """Write the complete batches from offset `at` on that end at or before offset `below`, and synchronize the
        file.

        Batches that are recorded already are skipped. If `at` is above the end of the log, there is a gap, and a new
        segment begins. Raises Contradicts, NotWhole, Busy, OSError; then nothing of `data` counts as recorded.
        """
        data = whole_batches(data)
        self._make_folders()
        with self._locked():
            state = self._loaded()
            end = state.end
            gap = end is not None and at > end.offset
            if end is not None and not gap:
                at = end.offset
            batches, base, last = cut_below(from_offset(data, at), below)
            if last is None:
                self._close_open(state)
                return Appended(end or OffsetAndEpoch(at, 0), 0)
            if end is not None and base < end.offset:
                raise Contradicts(f"a batch from offset {base} on goes over offset {end.offset}, where the log ended")
            if end is not None and not gap and base > end.offset:
                raise NotWhole(f"the leader served offset {base}, and was asked for {end.offset}")
            if end is not None and first_epoch(batches) < end.epoch:
                raise Contradicts(f"leader epoch {first_epoch(batches)} at offset {base} after epoch {end.epoch}")
            target = state.open
            if target is not None and (gap or target.size + len(batches) > self._close_at or self._is_due(target)):
                self._close(target)
                target = None
            began = target is None
            if target is None:
                target = self._new_segment(base)
            self._write(target, batches)
            segment = _OpenSegment(target.name, target.base, target.since, target.size + len(batches))
            self._state = _State(self._stamp(), last, segment)
            return Appended(last, len(batches), began, gap)

    def close_segment(self, *, if_due: bool = True) -> None:
        """Give the open segment its final name, if there is one. `if_due`: only if it is `close_after` seconds old."""
        open_segments = (_open_of(name, 0) for name in self._listed())
        if not any(segment is not None and (not if_due or self._is_due(segment)) for segment in open_segments):
            return  # by names alone, since this is called for many logs
        with self._locked():
            self._close_open(self._loaded(), if_due=if_due)

    def snapshots(self) -> list[files.Snapshot]:
        """The recorded snapshots, the oldest first."""
        return files.in_order(self._listed())[0]

    def wants_snapshot(self) -> bool:
        """True if there is no snapshot, or the segments since the last one are at least as large as it is: so snapshots
        take no more room than the log.
        """
        sizes = dict(self._sizes_by_name())
        snapshots, segments = files.in_order(sizes)
        if not snapshots:
            return True
        since = sum(sizes[segment.name] for segment in segments if segment.base_offset >= snapshots[-1].end_offset)
        return since >= sizes[snapshots[-1].name]

    def new_snapshot(self, snapshot: OffsetAndEpoch) -> NewSnapshot:
        """A snapshot to be written, part by part. Raises Busy, NotWhole, OSError."""
        name = f"{snapshot.offset:020}-{snapshot.epoch:010}.checkpoint"
        if files.parse(name) is None:
            raise NotWhole(f"a snapshot of offset {snapshot.offset} and epoch {snapshot.epoch}")
        self._make_folders()
        return NewSnapshot(self._log / name, snapshot, self._lock())

    def size(self) -> int:
        """Bytes of all its files."""
        return sum(size for _, size in self._sizes_by_name())

    def remove_oldest(self) -> int:
        """Remove the oldest closed segment, and the snapshots that end in it. Nothing is removed unless a later
        snapshot remains, from which a reader can begin.

        Returns the bytes that became free; 0 if nothing may be removed. Raises Busy, OSError.
        """
        if not self._log.is_dir():
            return 0
        with self._locked():
            sizes = dict(self._sizes_by_name())
            snapshots, segments = files.in_order(sizes)
            if not segments or not snapshots:
                return 0  # by names alone, since this is called for many logs
            state = self._loaded()
            # bases[1] is where the log begins afterwards: a snapshot at or after it must remain.
            bases = [segment.base_offset for segment in segments] + ([state.open.base] if state.open else [])
            if len(bases) < 2 or not any(snapshot.end_offset >= bases[1] for snapshot in snapshots):
                return 0
            gone = [segments[0].name, *(snapshot.name for snapshot in snapshots if snapshot.end_offset < bases[1])]
            for name in gone:  # the segment first: a snapshot without the log behind it does no harm
                os.unlink(self._log / name)
            sync_folder(self._log)
            return sum(sizes[name] for name in gone)

    def remove(self) -> int:
        """Remove the whole recording; returns the bytes that became free. Raises Busy, OSError."""
        if not self._log.is_dir():
            return 0
        with self._locked():
            freed = self.size()
            for name in self._listed():
                os.unlink(self._log / name)
            os.rmdir(self._log)
            for name in (files.PROPERTIES, LOCK):
                with suppress(FileNotFoundError):
                    os.unlink(self.folder / name)
            os.rmdir(self.folder)
        self._state = _UNREAD
        return freed

    # --- the files ---

    def _lock(self) -> int:
        """Take the lock, and return its descriptor: it is held until that is closed, or the process ends. Raises Busy,
        OSError.
        """
        file = open_file(self.folder / LOCK, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            if isinstance(error, BlockingIOError):
                raise Busy(f"{self.folder}: another process records here") from None
            raise
        return file

    @contextmanager
    def _locked(self) -> Iterator[None]:
        file = self._lock()
        try:
            yield
        finally:
            os.close(file)

    def _make_folders(self) -> None:
        if self._log.is_dir() and (self.folder / files.PROPERTIES).is_file():
            return
        for path in (self.folder.parent, self.folder, self._log):
            with suppress(FileExistsError):
                path.mkdir(mode=0o700)
                sync_folder(path.parent)
        with self._locked():
            part = self.folder / (files.PROPERTIES + PART)
            file = open_file(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                write_all(file, f"# recorded by kafka-features-operator\ncluster.id={self.cluster_id}\n".encode())
                os.fsync(file)
            finally:
                os.close(file)
            os.rename(part, self.folder / files.PROPERTIES)
            sync_folder(self.folder)

    def _listed(self) -> list[str]:
        return sorted(os.listdir(self._log)) if self._log.is_dir() else []

    def _sizes_by_name(self) -> tuple[tuple[str, int], ...]:
        return tuple((name, (self._log / name).lstat().st_size) for name in self._listed())

    def _stamp(self) -> int:
        return self._log.stat().st_mtime_ns

    def _is_as_it_was(self) -> bool:
        state = self._state
        if state.stamp != self._stamp():
            return False
        return state.open is None or (self._log / state.open.name).lstat().st_size == state.open.size

    def _loaded(self) -> _State:
        """The state of the files, after incomplete batches at the end of the open segment, and temporary files, were
        removed.
        """
        if self._is_as_it_was():
            return self._state
        listing = self._sizes_by_name()
        open_segments = sorted(
            (segment for name, size in listing if (segment := _open_of(name, size))), key=lambda segment: segment.base
        )
        end: OffsetAndEpoch | None = None
        opened: _OpenSegment | None = None
        for segment in open_segments:  # more than one only if another process wrote: all but the last are closed
            last, valid_size = valid_end(self._log / segment.name)
            if last is None:
                os.unlink(self._log / segment.name)
                continue
            if valid_size < segment.size:
                self._shorten(segment.name, valid_size)
            if opened is not None:
                self._close(opened)
            opened, end = _OpenSegment(segment.name, segment.base, segment.since, valid_size), last
        for name, _ in listing:
            if name.endswith(PART):
                os.unlink(self._log / name)
        segments = files.in_order(name for name, _ in listing)[1]
        if opened is not None and segments and segments[-1].base_offset >= opened.base:
            raise Contradicts(f"{opened.name} lies before the closed segment {segments[-1].name}")
        if end is None and segments:
            end, _ = valid_end(self._log / segments[-1].name)
            if end is None:  # then the end of the log is unknown, and nothing can be appended
                raise Contradicts(f"the closed segment {segments[-1].name} holds no batch that can be read")
        self._state = _State(self._stamp(), end, opened)
        return self._state

    def _is_due(self, segment: _OpenSegment) -> bool:
        return not 0 <= self._clock() - segment.since < self._close_after  # also where the clock was set back

    def _close_open(self, state: _State, *, if_due: bool = True) -> None:
        if state.open is not None and (not if_due or self._is_due(state.open)):
            self._close(state.open)

    def _close(self, segment: _OpenSegment) -> None:
        final = self._log / segment.closed_name
        if final.exists():
            raise Contradicts(f"{segment.closed_name} is there already, and it is about to be closed")
        os.rename(self._log / segment.name, final)  # its bytes are on disk: each append waits for that
        sync_folder(self._log)
        if self._state.open == segment:
            self._state = _State(self._stamp(), self._state.end, None)

    def _new_segment(self, base: int) -> _OpenSegment:
        if (self._log / f"{base:020}.log").exists():
            raise Contradicts(f"a segment that begins at offset {base} is there already")
        since = max(0, int(self._clock()))
        name = f"{base:020}{files.OPEN}{since}"
        os.close(open_file(self._log / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        sync_folder(self._log)
        return _OpenSegment(name, base, since, 0)

    def _write(self, segment: _OpenSegment, data: bytes) -> None:
        file = open_file(self._log / segment.name, os.O_WRONLY)
        try:
            os.lseek(file, segment.size, os.SEEK_SET)
            write_all(file, data)
            os.fdatasync(file)
        except OSError:
            with suppress(OSError):  # else it is cut when it is read again
                os.ftruncate(file, segment.size)
            raise
        finally:
            os.close(file)

    def _shorten(self, name: str, size: int) -> None:
        file = open_file(self._log / name, os.O_WRONLY)
        try:
            os.ftruncate(file, size)
            os.fsync(file)
        finally:
            os.close(file)


def _open_of(name: str, size: int) -> _OpenSegment | None:
    match = _OPEN.fullmatch(name)
    return _OpenSegment(name, int(match[1]), int(match[2]), size) if match else None
