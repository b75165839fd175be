"""Writes and reads reduced request logs: a small file for each broker and hour, `BROKER/HOUR-SECTION.jsonl.gz`.

Called by `reduce.py`, `request_logs.py` and `client_search.py`. The first line of a file is its header; each further
line is an array, with the number of requests of one sender, API and version.

What it decides: no line of a log counts twice. SECTION is a digest of the first log line of the hour. So if the same
log is reduced again, after it has grown or in the format of another runtime, the new file replaces the old one. Files
of one broker and hour with different sections may still be copies, or a log and a part of it. So if their times
overlap, they are merged: for each sender, API and version only the largest count is taken.
"""

from __future__ import annotations

import gzip
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from kafkafeatures.api.values import replace
from kafkafeatures.cli.clients.logs.counting import MAX_GROUPS, MAX_WITHOUT_SENDER, HourOfRequests
from kafkafeatures.cli.clients.logs.requests import RequestGroup
from kafkafeatures.cli.log.words import format_time

SUFFIX = ".jsonl.gz"
_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d\d-[0-9a-f]{16}")
KIND, FORMAT = "RequestLogHour", 1
"""Kind and format in the header of each file; a file with others is refused."""
COLUMNS = (*RequestGroup.__struct_fields__, "requests", "last")
"""Names of the elements of each line behind the header."""
_MAX_LINE = 256 * 1024  # bytes
_MAX_GROUPS = MAX_GROUPS + MAX_WITHOUT_SENDER
_COMPRESSION = 1
"""The lowest level: names repeat so much that the files are small anyway."""


class ReducedHeader(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The first line of a file. `hour`, `first`, `last`: times in ISO 8601; `lines`, `size`, `levels`, `rejected`,
    `other_lines`: as in `HourOfRequests`; `groups`: number of lines that follow; `addresses`: the form in which they
    have addresses, such as hashed; `columns`: names of the elements of these lines.
    """

    kind: str
    format: int
    broker: int
    hour: str
    first: str
    last: str
    lines: int
    size: int
    groups: int
    addresses: str
    levels: dict[str, int]
    columns: tuple[str, ...]
    rejected: int = 0
    other_lines: int = 0


class _Row(RequestGroup, frozen=True, array_like=True, kw_only=True):
    """The fields of a group in the order of `COLUMNS`, and those of its count."""

    requests: int
    last: int


class GroupCount(Struct, frozen=True):
    """The number of requests of a group in an hour. `last`: the time of the last one in ms."""

    group: RequestGroup
    requests: int
    last: int


class ReducedHour(Struct, frozen=True):
    """The requests of an hour to a broker, out of one file. `first`, `last`: in ms."""

    broker: int
    hour: int
    first: int
    last: int
    levels: frozenset[str]
    counts: tuple[GroupCount, ...]


class ReducedRefused(Exception):
    """A file that is no reduced request log, or not all of one, and why."""


_encode = msgspec.json.Encoder().encode
_decode_header = msgspec.json.Decoder(ReducedHeader).decode
_decode_row = msgspec.json.Decoder(_Row).decode


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
            return _header(stream.readline(_MAX_LINE))
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
        try:
            with gzip.GzipFile(fileobj=file) as stream:
                header = _header(stream.readline(_MAX_LINE))
                hour, first, last = (_time(text) for text in (header.hour, header.first, header.last))
                counts = tuple(_counts(stream, header))
                if stream.read(1):  # which also reads the checksum at the end
                    raise ValueError
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise ReducedRefused("it is cut off or damaged; make it again with clients reduce") from None
        except (msgspec.MsgspecError, UnicodeError, ValueError, RecursionError, OverflowError):
            raise ReducedRefused("it is not a reduced request log; make one with clients reduce") from None
    if len(counts) != header.groups or _requests(counts) != header.lines:
        raise ReducedRefused("it is not complete; make it again with clients reduce")
    return ReducedHour(header.broker, hour, first, last, frozenset(header.levels), counts)


def _header(line: bytes) -> ReducedHeader:
    """The header in a line. Raises MsgspecError or ValueError if it is none, ReducedRefused for another format."""
    header = _decode_header(line)
    if header.kind != KIND or header.broker < 0 or header.groups > _MAX_GROUPS:
        raise ValueError
    if header.format != FORMAT:
        raise ReducedRefused(f"its format is {header.format}; expected {FORMAT}, which this version writes")
    return header


def _counts(stream: gzip.GzipFile, header: ReducedHeader) -> Iterator[GroupCount]:
    for _ in range(header.groups):
        line = stream.readline(_MAX_LINE)
        if not line:
            return
        row = _decode_row(line)
        if row.requests < 0:
            raise ValueError
        group = RequestGroup(*(getattr(row, name) for name in RequestGroup.__struct_fields__))
        yield GroupCount(group, row.requests, row.last)


def _time(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def merge_hours(hours: Iterable[ReducedHour]) -> Iterator[ReducedHour]:
    """The hours, with those of one broker merged whose times overlap, so that no line counts twice."""
    by_hour: dict[tuple[int, int], list[ReducedHour]] = {}
    for hour in hours:
        by_hour.setdefault((hour.broker, hour.hour), []).append(hour)
    for _, sections in sorted(by_hour.items()):
        overlapping: list[ReducedHour] = []
        for section in sorted(sections, key=lambda section: (section.first, section.last)):
            if overlapping and section.first > max(other.last for other in overlapping):
                yield _merged(overlapping)
                overlapping = []
            overlapping.append(section)
        yield _merged(overlapping)


def _merged(sections: Sequence[ReducedHour]) -> ReducedHour:
    """One hour of sections that overlap: the counts of each sender, API and version come from the section with the
    most. Senders are compared without their addresses, which may have another form in each section.
    """
    if len(sections) == 1:
        return sections[0]
    largest: dict[RequestGroup, tuple[GroupCount, ...]] = {}
    for section in sections:
        by_sender: dict[RequestGroup, list[GroupCount]] = {}
        for count in section.counts:
            by_sender.setdefault(replace(count.group, address=None), []).append(count)
        for sender, counts in by_sender.items():
            if sender not in largest or _requests(counts) > _requests(largest[sender]):
                largest[sender] = tuple(counts)
    return ReducedHour(
        sections[0].broker, sections[0].hour, sections[0].first, max(section.last for section in sections),
        frozenset().union(*(section.levels for section in sections)),
        tuple(count for counts in largest.values() for count in counts),
    )  # fmt: skip


def _requests(counts: Iterable[GroupCount]) -> int:
    return sum(count.requests for count in counts)
