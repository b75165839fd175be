"""Writes reduced request logs, `BROKER/HOUR-SECTION.jsonl.gz`, and finds and reads such files in folders.

`client_files/reduced.py` knows the format of a file. What this module decides: no line of a log counts twice. SECTION
is a digest of the first log line of the hour. So if the same log is reduced again, after it has grown or in the format
of another runtime, the new file replaces the old one.
"""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from kafkafeatures.client_files.logs.counting import HourOfRequests
from kafkafeatures.client_files.reduced import (
    COLUMNS,
    FORMAT,
    KIND,
    MAX_LINE,
    SUFFIX,
    ReducedHeader,
    ReducedHour,
    ReducedRefused,
    parse_header,
    parse_hour,
)
from kafkafeatures.core.words import format_time

_COMPRESSION = 1
"""The lowest level: names repeat so much that the files are small anyway."""

_encode = msgspec.json.Encoder().encode


def write_hour(folder: Path, broker: int, hour: HourOfRequests, addresses: str) -> Path | None:
    """Write the file of an hour, and return its path. An earlier file of the same section is replaced, unless it was
    made of more lines, which have been removed from the log since: then it stays, and None is returned. Raises OSError;
    ReducedRefused if a file that stays has addresses in another form.
    """
    path = folder / str(broker) / f"{format_time(hour.hour)[:13]}-{hour.section}{SUFFIX}"
    before = _header_of(path)
    if before is not None and before.lines > hour.lines:
        if before.addresses != addresses:
            raise ReducedRefused(
                f"{path} has more requests, with {before.addresses} addresses; remove it, and try again"
            )
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    header = ReducedHeader(
        KIND, FORMAT, broker, format_time(hour.hour), format_time(hour.first), format_time(hour.last), hour.lines,
        hour.size, len(hour.counts), addresses, hour.levels, COLUMNS, hour.rejected, hour.other_lines,
    )  # fmt: skip
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file, gzip.GzipFile("", "wb", _COMPRESSION, file, mtime=0) as stream:
            stream.write(_encode(header) + b"\n")
            for group, requests, last in hour.counts.rows():
                stream.write(b"%b,%d,%d]\n" % (group[:-1], requests, last))  # the array of the group, continued
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def _header_of(path: Path) -> ReducedHeader | None:
    """The header of a file; None if there is no such file, or it is not a reduced log."""
    try:
        with gzip.open(path) as stream:
            return parse_header(stream.readline(MAX_LINE))
    except (OSError, EOFError, zlib.error, msgspec.MsgspecError, ValueError, ReducedRefused):
        return None


def find_files(path: Path) -> list[Path]:
    """The reduced files of a folder, or the file itself. Raises OSError."""
    if not stat.S_ISDIR(path.stat().st_mode):
        return [path]
    return sorted(path.rglob(f"*{SUFFIX}"))


def read_hour(path: Path) -> ReducedHour:
    """Read a whole file. Raises ReducedRefused, OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # so that opening a named pipe does not wait
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ReducedRefused("it is not a regular file")
        with gzip.GzipFile(fileobj=file) as stream:
            return parse_hour(cast("BinaryIO", stream))
