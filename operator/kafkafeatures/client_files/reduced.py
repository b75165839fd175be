"""Reads reduced request logs: a small file for each broker and hour, which `clients reduce` makes.

`logs/reduced.py` writes these files. The first line of a file is its header; each further line is an array, with the
number of requests of one sender, API and version.

What it decides: a file that is not whole is refused; and no line of a log counts twice. Files of one broker and hour
may be copies, or a log and a part of it. So if their times overlap, they are merged: for each sender, API and version
only the largest count is taken.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Annotated, BinaryIO

import msgspec
from msgspec import Meta, Struct

from kafkafeatures.api.values import replace
from kafkafeatures.core.clients.senders import LoggedUse

SUFFIX = ".jsonl.gz"
KIND, FORMAT = "RequestLogHour", 1
"""Kind and format in the header of each file; a file with others is refused."""
MAX_LINE = 256 * 1024
"""Bytes of a line."""
MAX_GROUPS = 100_000
"""Groups of requests with a sender, in all open hours of a log that is reduced."""
MAX_WITHOUT_SENDER = 10_000
"""Groups of requests without a sender: Kafka has a thousand APIs and versions."""
MAX_VERSION = 1000
"""The highest version of an API that is accepted; Kafka's is 20. No broker writes a line with a higher one."""
_MAX_TIME = 253_402_300_799_999
"""The last ms of the year 9999: no later time has a date."""


class RequestGroup(Struct, frozen=True, array_like=True):
    """The common fields of requests that are counted together. Those that name the sender are None in a group for
    requests that are counted without their sender (`logs/counting.py`).
    """

    api: str
    version: Annotated[int, Meta(ge=0, le=MAX_VERSION)]
    listener: str | None = None
    principal: str | None = None
    client_id: str | None = None
    address: str | None = None
    software: str | None = None
    software_version: str | None = None
    is_forwarded: bool = False


COLUMNS = (*RequestGroup.__struct_fields__, "requests", "last")
"""Names of the elements of each line behind the header."""


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

    requests: Annotated[int, Meta(ge=0)]
    last: Annotated[int, Meta(ge=0, le=_MAX_TIME)]


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


_decode_header = msgspec.json.Decoder(ReducedHeader).decode
_decode_row = msgspec.json.Decoder(_Row).decode


def parse_hour(stream: BinaryIO) -> ReducedHour:
    """The requests of a whole file. `stream`: reads the file out of gzip. Raises ReducedRefused, OSError."""
    try:
        header = parse_header(stream.readline(MAX_LINE))
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


def parse_header(line: bytes) -> ReducedHeader:
    """The header in the first line of a file. Raises msgspec.MsgspecError or ValueError if it is none,
    ReducedRefused for another format.
    """
    header = _decode_header(line)
    if header.kind != KIND or header.broker < 0 or header.groups > MAX_GROUPS + MAX_WITHOUT_SENDER:
        raise ValueError
    if header.format != FORMAT:
        raise ReducedRefused(f"its format is {header.format}; expected {FORMAT}, which this version writes")
    return header


def _counts(stream: BinaryIO, header: ReducedHeader) -> Iterator[GroupCount]:
    for _ in range(header.groups):
        line = stream.readline(MAX_LINE)
        if not line:
            return
        row = _decode_row(line)
        group = RequestGroup(*(getattr(row, name) for name in RequestGroup.__struct_fields__))
        yield GroupCount(group, row.requests, row.last)


def _time(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def logged_uses(hours: Iterable[ReducedHour]) -> Iterator[LoggedUse]:
    """A use for each count of the hours, merged."""
    for hour in merge_hours(hours):
        shows_all = "DEBUG" in hour.levels or "TRACE" in hour.levels  # at INFO only deprecated versions are logged
        for count in hour.counts:
            yield logged_use(hour.broker, count, hour.first, shows_all=shows_all)


def logged_use(broker: int, count: GroupCount, first: int, *, shows_all: bool) -> LoggedUse:
    """The use that a count shows. `first`, `shows_all`: as in `LoggedUse`."""
    group = count.group
    software = " ".join(part for part in (group.software, group.software_version) if part and part != "unknown")
    return LoggedUse(
        broker, group.api, group.version, group.client_id, group.principal, group.address, software,
        group.is_forwarded, count.requests, first, count.last, shows_all,
    )  # fmt: skip


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
