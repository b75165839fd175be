"""Opens the files of a metadata log, and finds by their names which records are missing.

It decides which file a node may still be writing to, and whether files have the offsets that their names, and those of
their neighbours, promise. Files are read in pieces, never mapped: a node may truncate its log at any moment. Only
regular files are opened, since opening a pipe would wait for a writer.
"""

from __future__ import annotations

import os
import shlex
import stat
from bisect import bisect_right
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from kafkafeatures.api.values import replace
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.core.words import printable
from kraftlog import files
from kraftlog.reading import Reading
from kraftlog.schema import table

_PIECE = 256 * 1024
"""Least bytes of a read, except at the end of a file."""
_HEAD = 512
"""Bytes that are checked for other content: a tar header of this size has zeros, so it is not taken for text."""
GZIP_MAGIC = b"\x1f\x8b"
_TEXT = frozenset((*b"\t\n\r", *range(0x20, 0x7F)))
"""Bytes of ASCII text."""


class File(Struct, frozen=True):
    """A file to read, with facts from its name and the names beside it.

    is_open: a node may be writing to its end. begins: the offset of its first record, None if its name does not say it.
    ends: the offset at which the next segment begins, None without one. is_orphan: no earlier segment and no snapshot
    has the records before it. bundled: opens a file inside of a bundle, None for any other.
    """

    path: Path
    is_open: bool
    begins: int | None = None
    ends: int | None = None
    is_orphan: bool = False
    bundled: Callable[[], OpenFile] | None = None

    @property
    def is_snapshot(self) -> bool:
        """True for a snapshot, False for a segment."""
        return self.path.suffix == ".checkpoint"

    def opened(self) -> OpenFile:
        """The file, opened to read its bytes."""
        return OpenFile(self.path) if self.bundled is None else self.bundled()


def files_of(folder: Path, beside: list[files.Segment | files.Snapshot], *, snapshots: bool) -> list[File]:
    """The files of a log that lie beside each other: segments, oldest first, and behind them snapshots if asked for."""
    segments = [file_of(folder / segment.name, beside) for segment in beside if isinstance(segment, files.Segment)]
    images = [snapshot for snapshot in beside if isinstance(snapshot, files.Snapshot)]
    first_offset = segments[0].begins if segments else 0
    if first_offset and all(image.end_offset < first_offset for image in images):
        segments[0] = replace(segments[0], is_orphan=True)
    return segments + [file_of(folder / image.name, beside) for image in images if snapshots]


def parsed(names: Iterable[str]) -> list[files.Segment | files.Snapshot]:
    """Segments and snapshots among these names, in the order of names, which is that of offsets."""
    parsed_names = (files.parse(name) for name in sorted(names))
    return [file for file in parsed_names if file is not None]


def file_of(path: Path, beside: list[files.Segment | files.Snapshot]) -> File:
    """The file at this path, with facts from the names beside it. A `.log` whose name has no offset counts as open,
    since nothing shows that it is not. Offsets within a snapshot begin at 0.
    """
    segment = files.parse(path.name)
    if not isinstance(segment, files.Segment):
        return File(path, is_open=path.suffix == ".log", begins=0 if path.suffix == ".checkpoint" else None)
    bases = [other.base_offset for other in beside if isinstance(other, files.Segment)]
    later = bases[bisect_right(bases, segment.base_offset) :]
    return File(path, is_open=not later, begins=segment.base_offset, ends=later[0] if later else None)


def missing(file: File, reading: Reading) -> list[str]:
    """Problems of a file that was read to its end: records that it should have and does not."""
    gaps = []
    if file.is_orphan:
        gaps.append(f"the records before offset {file.begins} are missing, and no snapshot that ends there is here")
    if file.begins is not None and reading.begin_offset not in (None, file.begins):
        gaps.append(f"begins at offset {reading.begin_offset}, expected {file.begins}")
    end = file.begins if reading.end_offset is None else reading.end_offset
    if file.ends is not None and end != file.ends:
        gaps.append(f"ends at offset {end}, but the next segment begins at {file.ends}")
    if file.is_snapshot and reading.first != table.SNAPSHOT_HEADER.name:
        gaps.append("the snapshot has no header")
    if file.is_snapshot and reading.last != table.SNAPSHOT_FOOTER.name:
        gaps.append("the snapshot has no footer: its end is missing")
    return gaps


class OpenFile:
    """The bytes that a file had when it was opened, read when a slice of them is taken, and at least a piece at once.
    Raises CommandFailed if the file cannot be read, is no part of a log, or is truncated while it is read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open_regular(path)
        self._begin, self._size = 0, os.fstat(self._file.fileno()).st_size  # of these bytes in `_file`
        self._start, self._piece = 0, b""  # the piece that was read last, and where it begins
        if path.name != files.PROPERTIES and (reason := _other_content(path, bytes(self[:_HEAD]))):
            self._file.close()
            raise refused(path, reason)

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, piece: slice) -> memoryview:
        start, end, _ = piece.indices(self._size)
        if not self._start <= start <= end <= self._start + len(self._piece):
            self._start, self._piece = start, self._read(start, max(end, min(start + _PIECE, self._size)))
        return memoryview(self._piece)[start - self._start : end - self._start]

    def _read(self, start: int, end: int) -> bytes:
        parts = []
        while start < end:
            try:
                part = os.pread(self._file.fileno(), end - start, self._begin + start)
            except OSError as error:
                raise refused(self._path, error.strerror) from None
            if not part:
                reason = f"changed while it was read: it had {self._size} bytes and now has {start} at most; run again"
                raise refused(self._path, reason)
            parts.append(part)
            start += len(part)
        return b"".join(parts)


def _other_content(path: Path, head: bytes) -> str:
    """The reason why a file with these first bytes cannot be part of a log; empty if it may be. A log begins with an
    offset of 8 bytes, the first of which is always 0.
    """
    if command := files.compressed([path.name]).get(path.name):
        return f"it is compressed; decompress it first: {command} {shlex.quote(str(path))}"
    if head[:2] == GZIP_MAGIC and files.parse(path.name) is not None:
        return f"it is compressed with gzip; decompress it first: gunzip < {shlex.quote(str(path))} > OTHER/{path.name}"
    if head and all(byte in _TEXT for byte in head):
        return (
            "this is text, for example of kafka-dump-log.sh; expected the segment itself, from the node's "
            f"{files.DIRECTORY}"
        )
    return ""


def refuse_compressed(folder: Path, names: Iterable[str]) -> None:
    """Raise CommandFailed if files of a log are compressed: without them the log would seem to be shorter.

    They are not read in place: a log is read at any offset, for which a compressed file has to be decompressed anyway.
    """
    compressed = files.compressed(names)
    if not compressed:
        return
    first, command = next(iter(compressed.items()))
    same_kind = [name for name, its_command in compressed.items() if its_command == command]
    suffix = first[first.rindex(".") :]
    pattern = shlex.quote(str(folder / first)) if len(same_kind) == 1 else f"{shlex.quote(str(folder))}/*{suffix}"
    if len(compressed) == 1:
        raise refused(folder, f"{first} is compressed; decompress it first: {command} {pattern}")
    raise refused(folder, f"{first} and others of its files are compressed; decompress them first: {command} {pattern}")


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file. Raises CommandFailed for anything else, and for files without permission."""
    try:
        file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 - the caller closes it
    except OSError as error:
        raise refused(path, error.strerror) from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise refused(path, "not a regular file; give a file or a directory")
    return file


def _without_waiting(name: str, flags: int) -> int:
    """An opener for `open` that does not wait for the writer of a pipe."""
    return os.open(name, flags | os.O_NONBLOCK)


def refused(path: Path, reason: str | None) -> CommandFailed:
    """The error for a path that cannot be read."""
    return CommandFailed(f"{printable(str(path))}: {reason}", Exit.USAGE)
