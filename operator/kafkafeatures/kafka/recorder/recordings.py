"""The folder of all recorded metadata logs: which recording belongs to which resource, and how much room there is.

    <folder>/<cluster id>/recorder-<namespace>_<name>[_<number>]/

It decides where the log of a resource's cluster is recorded, and which files are removed to make room. Each recording
belongs to one resource, so a cluster that pretends to have the cluster id of another one cannot change the recording of
that. If a log contradicts what was recorded before, a recording with the next number begins, and the earlier one stays.

Room is shared like memory (`memory_budget.py`): each resource has a limit; if all of them together take too much, the
one that takes the most loses its oldest segments, not the one that needs room now. Called by `recorder.py`, in its
single thread; the calls block.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from kafkafeatures.kafka.recorder.recorded_log import Busy, Contradicts, RecordedLog
from kraftlog import files

MIB = 1024 * 1024
MAX_RECORDINGS = 8
"""The most recordings of one resource. It has several if its cluster id changed, or its log contradicted an earlier
recording. For a new one the oldest of another cluster id is removed.
"""

CLOSE_AT = 64 * MIB
"""Bytes of a segment; an eighth of a resource's limit where that is less."""
CLOSE_AFTER = 6 * 3600.0
"""Seconds until a segment is closed, and readers can see it. An idle cluster writes 12 MB a day: four files of 3 MB."""
MEASURE_EVERY = 3600.0
"""Seconds between two scans of the whole folder: other processes may write to it, and some recordings are abandoned."""
SPARE = 16 * MIB
"""Bytes of the volume that are left free."""

_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAME = re.compile(r"(recorder-[^_]+_[^_]+)(?:_([1-9][0-9]{0,5}))?")
_LONGEST = 200  # characters of a folder's name without its number; file systems allow 255

Resource = tuple[str, str]
"""Namespace and name, as Kubernetes allows them: neither has an underscore."""


class RecorderSettings(Struct, frozen=True):
    """`folder`: absolute. Limits in bytes: of one resource, and of all that lies in the folder."""

    folder: str
    per_cluster: int = 1024 * MIB
    all_clusters: int = 8 * 1024 * MIB


class NoRoom(Exception):
    """A limit is reached, and nothing may be removed: the text says which one."""


class NotRecorded(Exception):
    """The log of a resource is never recorded; the text says why."""


class _RecordingOnDisk(Struct, frozen=True):
    """A recording on disk. `owner`: the name of the folder without its number. `created_ns`: nanoseconds since 1970."""

    path: Path
    owner: str
    number: int
    created_ns: int


class Recordings:
    """All recordings. `clock`: seconds since 1970; `monotonic`: seconds. `removed` is called with the bytes that were
    removed to make room.
    """

    def __init__(
        self,
        settings: RecorderSettings,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        removed: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._root = Path(settings.folder)
        self._clock, self._monotonic, self._removed = clock, monotonic, removed
        self._sizes: dict[Path, int] = {}  # bytes by folder
        self._of_owner: Counter[str] = Counter()  # sums of `_sizes`
        self._measured_at: float | None = None
        self.held = 0
        """Bytes of all recordings, as far as it is known."""

    def of(self, resource: Resource, cluster_id: str) -> RecordedLog:
        """The newest recording of this resource and this cluster, or a new one. Raises NotRecorded, OSError."""
        if not _CLUSTER_ID.fullmatch(cluster_id):
            raise NotRecorded("its cluster id is not of the form of Kafka's: letters, digits, '-' and '_', at most 64")
        with suppress(FileExistsError):
            self._root.mkdir(mode=0o700)  # only this folder: the rest of the volume is not ours
        self._measure_if_due()
        owner = _owner(resource)
        recordings = [recording for recording in self._by_owner()[owner] if recording.path.parent.name == cluster_id]
        newest = max(recordings, key=lambda recording: recording.number, default=None)
        return self._log(newest.path if newest else self._new(owner, cluster_id, 0))

    def successor_of(self, log: RecordedLog) -> RecordedLog:
        """A new recording beside one that its cluster's log contradicts. Raises NoRoom, OSError.

        Where the resource has `MAX_RECORDINGS`, the oldest one of its other cluster ids is removed for it, and none of
        this one: else a cluster could have its earlier recordings removed by contradicting logs. `make_room` may
        remove those.
        """
        with suppress(Busy, Contradicts):
            log.close_segment(if_due=False)
        match = _NAME.fullmatch(log.folder.name)
        number = int(match[2] or 0) if match else 0
        owner = match[1] if match else log.folder.name
        if number + 1 >= MAX_RECORDINGS:
            raise NoRoom(
                f"its log contradicted what was recorded {MAX_RECORDINGS} times; remove {owner}* under {log.cluster_id}"
            )
        return self._log(self._new(owner, log.cluster_id, number + 1))

    def make_room(self, log: RecordedLog, size: int, *, snapshot: bool = False) -> None:
        """Make room for `size` bytes that are about to be written. Raises NoRoom, OSError.

        An eighth of each limit is reserved for snapshots: old segments can be removed only if there is a newer
        snapshot.
        """
        self._measure_if_due()
        owner, limits = _owner_of(log.folder), self._settings
        eighths = 8 if snapshot else 7
        while self._of_owner[owner] + size > limits.per_cluster * eighths // 8:
            if not self._remove_oldest(self._by_owner()[owner], sparing=log.folder):
                raise NoRoom(f"it takes {limits.per_cluster // MIB} MiB, the limit of one cluster")
        while self.held + size > limits.all_clusters * eighths // 8:
            if not self._remove_from_largest(log.folder):
                raise NoRoom(f"all recordings take {limits.all_clusters // MIB} MiB, the limit of all together")
        while self._free() < size + SPARE:
            if not self._remove_from_largest(log.folder):
                raise NoRoom(f"less than {SPARE // MIB} MiB of the volume of {self._root} are free")

    def room(self, log: RecordedLog) -> int:
        """Bytes that can be written to it before a segment is removed. Raises OSError."""
        limits = self._settings
        room_of_owner = limits.per_cluster * 7 // 8 - self._of_owner[_owner_of(log.folder)]
        return max(0, min(room_of_owner, limits.all_clusters * 7 // 8 - self.held, self._free() - SPARE))

    def wrote(self, log: RecordedLog, size: int) -> None:
        """Note that this many bytes were written to the log."""
        self._count(log.folder, size)

    # --- what is there ---

    def _new(self, owner: str, cluster_id: str, number: int) -> Path:
        """Path of a new recording. The oldest ones of other cluster ids of its owner are removed if it has too many."""
        recordings = self._by_owner()[owner]
        of_other_clusters = [recording for recording in recordings if recording.path.parent.name != cluster_id]
        for recording in of_other_clusters[: max(0, len(recordings) - MAX_RECORDINGS + 1)]:  # + 1: for the new one
            self._drop(self._log(recording.path))
        return self._root / cluster_id / (f"{owner}_{number}" if number else owner)

    def _log(self, path: Path) -> RecordedLog:
        close_at = min(CLOSE_AT, self._settings.per_cluster // 8)
        return RecordedLog(path, path.parent.name, close_at=close_at, close_after=CLOSE_AFTER, clock=self._clock)

    def _on_disk(self) -> Iterator[_RecordingOnDisk]:
        for cluster in _folders(self._root):
            if not _CLUSTER_ID.fullmatch(cluster.name):
                continue
            for folder in _folders(Path(cluster.path)):
                name = _NAME.fullmatch(folder.name)
                with suppress(OSError):  # it is not whole yet, or is being removed
                    if name:
                        made_at = (Path(folder.path) / files.PROPERTIES).lstat().st_mtime_ns
                        yield _RecordingOnDisk(Path(folder.path), name[1], int(name[2] or 0), made_at)

    def _by_owner(self) -> defaultdict[str, list[_RecordingOnDisk]]:
        """The recordings of each owner, the oldest first."""
        recordings = defaultdict(list)
        for recording in sorted(self._on_disk(), key=lambda recording: recording.created_ns):
            recordings[recording.owner].append(recording)
        return recordings

    def _measure_if_due(self) -> None:
        """Measure all recordings, at most every `MEASURE_EVERY` seconds, and close segments that are old enough: nobody
        else closes those of a recording that is no longer written to.
        """
        monotonic_time = self._monotonic()
        if self._measured_at is not None and monotonic_time - self._measured_at < MEASURE_EVERY:
            return
        self._measured_at = monotonic_time
        self._sizes, self._of_owner, self.held = {}, Counter(), 0
        for recording in self._on_disk():
            log = self._log(recording.path)
            with suppress(Busy, Contradicts, OSError):
                log.close_segment()
            with suppress(OSError):
                self._count(recording.path, log.size())

    def _count(self, path: Path, count: int) -> None:
        self._sizes[path] = self._sizes.get(path, 0) + count
        self._of_owner[_owner_of(path)] += count
        self.held += count

    def _free(self) -> int:
        statistics = os.statvfs(self._root)
        return statistics.f_bavail * statistics.f_frsize

    # --- making room ---

    def _remove_from_largest(self, sparing: Path) -> bool:
        recordings = self._by_owner()
        return any(self._remove_oldest(recordings[owner], sparing=sparing) for owner, _ in self._of_owner.most_common())

    def _remove_oldest(self, recordings: list[_RecordingOnDisk], *, sparing: Path) -> bool:
        """Make room in the oldest recording of an owner that allows it: remove its oldest segment, or the whole
        recording if no segment may be removed, unless it is the newest one or `sparing`. False: nothing was removed.
        """
        for recording in recordings:
            log = self._log(recording.path)
            with suppress(Busy, Contradicts):
                if freed := log.remove_oldest():
                    self._count(recording.path, -freed)
                    self._removed(freed)
                    return True
            if recording is not recordings[-1] and recording.path != sparing and self._drop(log):
                return True
        return False

    def _drop(self, log: RecordedLog) -> bool:
        try:
            self._removed(log.remove())
        except (Busy, OSError):
            return False
        self._count(log.folder, -self._sizes.get(log.folder, 0))
        del self._sizes[log.folder]
        with suppress(OSError):  # of other resources there may be more
            log.folder.parent.rmdir()
        return True


def _owner(resource: Resource) -> str:
    """The folder's name for a resource: a name that is too long is cut, and gets a hash."""
    name = "recorder-" + "_".join(resource)
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}.{sha256(name.encode()).hexdigest()[:32]}"


def _owner_of(path: Path) -> str:
    match = _NAME.fullmatch(path.name)
    return match[1] if match else path.name


def _folders(path: Path) -> list[os.DirEntry[str]]:
    try:
        return [entry for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
