"""Counts the requests of a log by hour and by sender.

A log has millions of lines, and most of them differ from others only in times and numbers. So what this module decides
is how much of a line is parsed. The bytes that name sender, API and version are cut out of a line by searching: its
"shape". The first line of a shape is parsed as a whole, further ones are only counted (`_LineShape`), and added to
their group later (`_settle`). A line is always parsed as a whole if it is not in one of Kafka's layouts, or has a space
within the request and its response: it may be a line that was cut off, with another one behind it.

Memory is bounded: above `MAX_GROUPS` requests are counted without their sender, but never without their version.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from kafkafeatures.client_files.logs.events import parse_event
from kafkafeatures.client_files.logs.lines import ContainerLog, LogStream, LogUnreadable
from kafkafeatures.client_files.logs.requests import (
    CountedAddress,
    LoggedRequest,
    RequestRejected,
    parse_request,
)
from kafkafeatures.client_files.reduced import MAX_GROUPS, MAX_WITHOUT_SENDER, RequestGroup

HOUR = 3_600_000
MAX_NAMES = 10 * 1024 * 1024
"""Limit to the bytes of all groups together: the names in a group may be long."""
OPEN_HOURS = 3
"""Hours that are counted at the same time: lines may be a little out of order. Of more, the oldest is complete."""

_MAX_SHAPES, _MAX_SHAPE_BYTES = 10_000, 4 * 1024 * 1024
_NEW_BATCHES, _WHOLE_BATCHES = 16, 256
"""After 16 batches in a row in which most lines had a new shape, the next 256 are parsed as a whole: there, cutting out
shapes would only cost time.
"""
_NUMBERS = b"-0123456789"
_MIN_TIMES_BYTES = 100
"""Bytes from the connection to the security protocol, at least: the connection and several times lie between."""
_STAMP_BYTES, _HOUR_STAMP_BYTES = 24, 14
"""Bytes at the beginning of a line: its time, `[2026-11-28 03:22:46,145`, and its hour, `[2026-11-28 03`."""

_encode = msgspec.json.Encoder().encode
_decode_group = msgspec.json.Decoder(RequestGroup).decode


@dataclass
class GroupCounts:
    """Groups with their counts, in few bytes: a group is JSON, and its counts are in two columns, at the number of the
    group. `size`: bytes of the JSON.
    """

    size: int = 0
    _numbers: dict[bytes, int] = field(default_factory=dict)
    _requests: array[int] = field(default_factory=lambda: array("Q"))
    _last: array[int] = field(default_factory=lambda: array("Q"))

    def __len__(self) -> int:
        return len(self._numbers)

    def rows(self) -> Iterator[tuple[bytes, int, int]]:
        """Each group, its requests, and the time of the last one in ms."""
        for key in sorted(self._numbers):
            number = self._numbers[key]
            yield key, self._requests[number], self._last[number]

    def groups(self) -> Iterator[tuple[RequestGroup, int, int]]:
        """Each group as in `rows`, parsed."""
        return ((_decode_group(key), requests, last) for key, requests, last in self.rows())

    def number_of(self, key: bytes) -> int | None:
        """The number of a group; None if it has none yet."""
        return self._numbers.get(key)

    def new(self, key: bytes) -> int:
        """Add a group without requests, and return its number."""
        self.size += len(key)
        self._numbers[key] = number = len(self._requests)
        self._requests.append(0)
        self._last.append(0)
        return number

    def add(self, number: int, requests: int, last: int) -> None:
        self._requests[number] += requests
        self._last[number] = max(self._last[number], last)


@dataclass
class HourOfRequests:
    """The requests of an hour in one log. `hour`, `first`, `last`: the beginning of the hour, and the times of the
    first and the last request, in ms. `section`: digest of the first line, which is the same whenever this part of the
    log is read. `lines`: number of lines that are requests. `rejected`: lines that are too long, or have the mark of a
    request and do not parse as one; `other_lines`: lines of other loggers. `size`: bytes of all lines. `levels`:
    requests by the level of their line. `begin`: position in the log, in bytes, of the batch with the first line, and
    number of rejected lines before it.
    """

    hour: int
    section: str
    first: int
    last: int
    lines: int = 0
    size: int = 0
    rejected: int = 0
    other_lines: int = 0
    begin: tuple[int, int] = 0, 0
    levels: dict[str, int] = field(default_factory=dict)
    counts: GroupCounts = field(default_factory=GroupCounts)


@dataclass(slots=True)
class _LineShape:
    """Lines of one shape. `number`: of their group. `level`: that of the first line, as it is for all. `first`, `last`:
    the bytes of the earliest and of the latest time. `lines`: those that are not in the group yet.
    """

    number: int
    level: str
    first: bytes
    last: bytes
    lines: int = 0


@dataclass
class RequestCounter:
    """The requests of one log. `address`: the form in which addresses are counted."""

    address: CountedAddress
    _hours: dict[int, HourOfRequests] = field(default_factory=dict)
    _complete: list[HourOfRequests] = field(default_factory=list)
    is_full: bool = False
    """True once a request was counted without its sender, for lack of room."""
    _begin_of_batch: tuple[int, int] = 0, 0
    _attributed: int = 0
    """Rejected lines that were added to an hour."""
    _group_total: int = 0
    _name_total: int = 0
    """Groups of all open hours, and the bytes of their names."""
    _rejected: int = 0
    _other_lines: int = 0
    _shapes: dict[bytes, _LineShape] = field(default_factory=dict)
    """By the bytes of a shape, its lines in the hour `_hour` since the last call of `_settle`."""
    _shape_bytes: int = 0
    _first_stamp: bytes = b""
    _stamp_limit: bytes = b""
    """All remembered lines have a time stamp from `_first_stamp` on and below `_stamp_limit`, so they are of one hour.
    """
    _hour: HourOfRequests | None = None
    """The hour of the latest line."""
    _new_batches: int = 0
    """Batches in a row in which most lines had a new shape."""
    _whole_batches: int = 0
    """Batches that are still to be parsed as a whole."""

    def add(self, lines: Iterable[bytes], size: int = 0, rejected: int = 0, begin: int = 0) -> None:
        """Count a batch of lines, of `size` bytes. `rejected`: further lines that could not be read. `begin`: bytes of
        the log before the batch.
        """
        self._begin_of_batch = begin, self._attributed + self._rejected
        self._rejected += rejected
        if self._whole_batches:
            self._whole_batches -= 1
            for line in lines:
                self._add_whole(line, b"")
        else:
            self._add_batch(lines)
        if self._hour is not None:
            self._hour.size += size
            self._hour.rejected += self._rejected
            self._attributed += self._rejected
            self._hour.other_lines += self._other_lines
            self._rejected = self._other_lines = 0

    def complete(self) -> Iterator[HourOfRequests]:
        """The hours of which no more lines are expected. Each is returned only once."""
        yield from self._complete
        self._complete.clear()

    def close(self) -> Iterator[HourOfRequests]:
        """All hours that are left."""
        self._settle()
        yield from self.complete()
        yield from (self._hours[hour] for hour in sorted(self._hours))

    @property
    def begin_of_open_hours(self) -> tuple[int, int]:
        """From where a log that has grown is read again, as `HourOfRequests.begin`: what is before it is of hours that
        are complete.
        """
        return min((hour.begin for hour in self._hours.values()), default=(0, 0))

    @property
    def unattributed(self) -> tuple[int, int]:
        """(rejected lines, lines of other loggers) that belong to no hour, since no request was read with them."""
        return self._rejected, self._other_lines

    def _add_batch(self, lines: Iterable[bytes]) -> None:
        """Count lines by their shapes; parse those that have a new one, or none."""
        shapes, first_stamp, stamp_limit = self._shapes, self._first_stamp, self._stamp_limit
        whole = total = 0
        for line in lines:
            total += 1
            # In Kafka's layouts the client id begins between these bytes; any other line is parsed as a whole.
            client = line.find(b',"clientId":', 80, 170)
            request = line.find(b'},"request":', client)
            connection = line.rfind(b',"connection":"')
            protocol = line.find(b',"securityProtocol":', connection + _MIN_TIMES_BYTES)
            key, stamp = b"", line[:_STAMP_BYTES]
            if 0 < client < request < connection < protocol and line.find(b" ", request, connection) < 0:
                remote = line[connection : line.find(b'"', connection + 16)]
                key = line[_STAMP_BYTES:client].rstrip(_NUMBERS) + line[client:request] + remote + line[protocol:]
                shape = shapes.get(key)
                if shape is not None and first_stamp <= stamp < stamp_limit:
                    shape.lines += 1
                    if stamp > shape.last:
                        shape.last = stamp
                    elif stamp < shape.first:
                        shape.first = stamp
                    continue
            whole += 1
            self._add_whole(line, key)
            first_stamp, stamp_limit = self._first_stamp, self._stamp_limit
        self._new_batches = self._new_batches + 1 if 2 * whole > total else 0
        if self._new_batches == _NEW_BATCHES:
            self._settle()
            self._new_batches, self._whole_batches = 0, _WHOLE_BATCHES

    def _add_whole(self, line: bytes, shape: bytes) -> None:
        """Parse a line, and count it. `shape`: remembered for its group; empty: it has none."""
        try:
            request = parse_request(line, self.address)
        except RequestRejected:
            self._rejected += 1
            return
        if request is None:
            self._other_lines += bool(line.strip())
            return
        hour = self._hour_of(request, line)
        number = self._number_of(request.group, hour.counts)
        if number is None:
            self._rejected += 1
            return
        hour.counts.add(number, 1, request.time)
        hour.lines += 1
        hour.levels[request.level] = hour.levels.get(request.level, 0) + 1
        hour.first, hour.last = min(hour.first, request.time), max(hour.last, request.time)
        if shape:
            self._remember(line, shape, number, request.level)

    def _number_of(self, group: RequestGroup, counts: GroupCounts) -> int | None:
        """The number of a group; if there is no room for it, the number of the group without a sender; None if there is
        no room for that either.
        """
        key = _encode(group)
        number = counts.number_of(key)
        if number is not None:
            return number
        if self._group_total >= MAX_GROUPS or self._name_total + len(key) > MAX_NAMES:
            self.is_full = True
            key = _encode(RequestGroup(group.api, group.version, is_forwarded=group.is_forwarded))
            number = counts.number_of(key)
            if number is not None or self._group_total >= MAX_GROUPS + MAX_WITHOUT_SENDER:
                return number
        self._group_total += 1
        self._name_total += len(key)
        return counts.new(key)

    def _hour_of(self, request: LoggedRequest, line: bytes) -> HourOfRequests:
        """The hour of a request, which becomes `_hour`. With a new one, the oldest of too many hours is complete."""
        time = request.time - request.time % HOUR
        if self._hour is None or time != self._hour.hour:
            self._settle()
            if time not in self._hours:
                section = hashlib.sha256(line.rstrip(b"\r")).hexdigest()[:16]
                self._hours[time] = HourOfRequests(
                    time, section, request.time, request.time, begin=self._begin_of_batch
                )
            if len(self._hours) > OPEN_HOURS:
                complete = self._hours.pop(min(hour for hour in self._hours if hour != time))
                self._group_total -= len(complete.counts)
                self._name_total -= complete.counts.size
                self._complete.append(complete)
            self._hour = self._hours[time]
        return self._hour

    def _remember(self, line: bytes, shape: bytes, number: int, level: str) -> None:
        """Remember a shape, so that further lines of it are counted without being parsed."""
        is_full = len(self._shapes) >= _MAX_SHAPES or self._shape_bytes + len(shape) > _MAX_SHAPE_BYTES
        if is_full or not self._first_stamp <= line < self._stamp_limit:
            self._settle()
            self._first_stamp = line[:_HOUR_STAMP_BYTES]
            self._stamp_limit = self._first_stamp + b"\xff"
        stamp = line[:_STAMP_BYTES]
        self._shapes[shape] = _LineShape(number, level, stamp, stamp)
        self._shape_bytes += len(shape)

    def _settle(self) -> None:
        """Add the lines of all shapes to their groups, and drop the shapes."""
        if self._hour is not None:
            for shape in self._shapes.values():
                if shape.lines:
                    _settle_shape(shape, self._hour)
        self._shapes.clear()
        self._shape_bytes, self._first_stamp, self._stamp_limit = 0, b"", b""


def read_hours(stream: LogStream, counter: RequestCounter) -> Iterator[HourOfRequests]:
    """The hours of a log, each as soon as no more lines of it are expected. Raises LogUnreadable, but only after the
    hours of all lines that could be read.
    """
    container_log, problem = ContainerLog(), None
    size = unreadable = 0  # of the counts, the part that was passed to `counter`
    try:
        for lines in container_log.batches(stream):
            counts = container_log.counts
            counter.add(lines, counts.size - size, counts.unreadable - unreadable, counts.begin)
            size, unreadable = counts.size, counts.unreadable
            yield from counter.complete()
    except LogUnreadable as error:
        problem = error
    counter.add((), container_log.counts.size - size, container_log.counts.unreadable - unreadable)
    yield from counter.close()
    if problem is not None:
        raise problem


def _settle_shape(shape: _LineShape, hour: HourOfRequests) -> None:
    """Add the lines of a shape to its group, and to the counts of the hour."""
    first, last = _time_of(shape.first, hour.first), _time_of(shape.last, hour.last)
    hour.counts.add(shape.number, shape.lines, last)
    hour.lines += shape.lines
    hour.levels[shape.level] = hour.levels.get(shape.level, 0) + shape.lines
    hour.first, hour.last = min(hour.first, first), max(hour.last, last)


def _time_of(stamp: bytes, otherwise: int) -> int:
    """The time of a stamp in ms; `otherwise` if it is none."""
    event = parse_event(stamp.rstrip() + b" INFO ")  # any level: only the time of the event is used
    return event.time if event is not None else otherwise
