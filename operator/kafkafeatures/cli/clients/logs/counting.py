"""The requests of a log, counted by hour and by who sent them. Called by `reduce.py`.

What it decides: how much of a line is looked at. Of most lines only the bytes that say who sent what are cut out, and
counted: all of a request but its number, the connection, and the client. The first line with such bytes is parsed as a
whole, and so is a line that is not as Kafka's layouts have it, or that has a space where the request and its response
are, for it may be one line that was cut off with another one behind it. Memory is bounded: above `MAX_GROUPS` who sent
a request is no longer told, but never of which version it was.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from kafkafeatures.cli.clients.logs.events import parse_event
from kafkafeatures.cli.clients.logs.requests import Address, LoggedRequest, RequestGroup, RequestRejected, parse_request

HOUR = 3_600_000
MAX_GROUPS = 100_000
MAX_NAMES = 10 * 1024 * 1024
"""Bytes of all groups: the names in them may be long."""
MAX_OTHERS = 10_000
"""Groups of requests without a sender: Kafka has a thousand APIs and versions."""
OPEN_HOURS = 3

_MAX_SHAPES, _MAX_SHAPE_BYTES = 10_000, 4 * 1024 * 1024
_NEW_BATCHES, _WHOLE_BATCHES = 16, 256
"""After so many batches in which most lines had new bytes, so many are parsed as a whole without a look at these."""
_NUMBERS = b"-0123456789"
_TIMES = 100
"""Bytes that the connection and the times of a request have at least."""
_STAMP, _HOUR_STAMP = 24, 14
"""Bytes of a time before the level of a line, `[2026-11-28 03:22:46,145` and one more, and of its hour."""

_encode = msgspec.json.Encoder().encode


@dataclass
class GroupCounts:
    """Groups with their counts, in few bytes: each is JSON, and a number in two columns. `size`: bytes of the JSON."""

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

    def number_of(self, key: bytes) -> int | None:
        return self._numbers.get(key)

    def new(self, key: bytes) -> int:
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
    """The requests of an hour in one log. `hour`, `first`, `last`: in ms; `section`: digest of the first line, which
    is that of every reading of this part of the log. `rejected`: lines that are none of a request and say they are, or
    that were too long; `other_lines`: those of other loggers. `size`: bytes of the lines.
    """

    hour: int
    section: str
    first: int
    last: int
    lines: int = 0
    size: int = 0
    rejected: int = 0
    other_lines: int = 0
    levels: dict[str, int] = field(default_factory=dict)
    counts: GroupCounts = field(default_factory=GroupCounts)


@dataclass(slots=True)
class _LineShape:
    """Lines of equal bytes but for their times and numbers. `stamp`: the bytes of the latest time."""

    number: int
    level: str
    stamp: bytes
    lines: int = 0


@dataclass
class RequestCounter:
    """The requests of one log. `address`: the form in which addresses are counted."""

    address: Address
    _hours: dict[int, HourOfRequests] = field(default_factory=dict)
    _complete: list[HourOfRequests] = field(default_factory=list)
    _group_total: int = 0
    _name_total: int = 0
    """Groups of all open hours, and the bytes of their names."""
    _rejected: int = 0
    _other_lines: int = 0
    _shapes: dict[bytes, _LineShape] = field(default_factory=dict)
    """Shapes of lines in one hour, of which those since the last settling are not in the groups yet."""
    _shape_bytes: int = 0
    _begin: bytes = b""
    _end: bytes = b""
    """Bounds of the times of these lines."""
    _hour: HourOfRequests | None = None
    """The hour of the latest line."""
    _new_batches: int = 0
    _whole_batches: int = 0

    def add(self, lines: Iterable[bytes], size: int = 0, rejected: int = 0) -> None:
        """Count a batch of lines, of `size` bytes. `rejected`: further lines that could not be read."""
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
            self._hour.other_lines += self._other_lines
            self._rejected = self._other_lines = 0

    def complete(self) -> Iterator[HourOfRequests]:
        """The hours of which no more lines are expected; each only once."""
        yield from self._complete
        self._complete.clear()

    def close(self) -> Iterator[HourOfRequests]:
        """All hours that are left."""
        self._settle()
        yield from self.complete()
        yield from (self._hours[hour] for hour in sorted(self._hours))

    @property
    def unattributed(self) -> tuple[int, int]:
        """Rejected lines, and those of other loggers, of a log without any request."""
        return self._rejected, self._other_lines

    def _add_batch(self, lines: Iterable[bytes]) -> None:
        shapes, begin, end = self._shapes, self._begin, self._end
        whole = total = 0
        for line in lines:
            total += 1
            client = line.find(b',"clientId":', 80, 170)
            request = line.find(b'},"request":', client)
            connection = line.rfind(b',"connection":"')
            protocol = line.find(b',"securityProtocol":', connection + _TIMES)
            key, stamp = b"", line[:_STAMP]
            if 0 < client < request < connection < protocol and line.find(b" ", request, connection) < 0:
                remote = line[connection : line.find(b'"', connection + 16)]
                key = line[_STAMP:client].rstrip(_NUMBERS) + line[client:request] + remote + line[protocol:]
                shape = shapes.get(key)
                if shape is not None and begin <= stamp < end:
                    shape.lines += 1
                    shape.stamp = max(shape.stamp, stamp)
                    continue
            whole += 1
            self._add_whole(line, key)
            begin, end = self._begin, self._end
        self._new_batches = self._new_batches + 1 if 2 * whole > total else 0
        if self._new_batches == _NEW_BATCHES:
            self._settle()
            self._new_batches, self._whole_batches = 0, _WHOLE_BATCHES

    def _add_whole(self, line: bytes, shape: bytes) -> None:
        """Count a line; `shape`: its bytes without numbers, if it has any."""
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
        """The number of a group, or of one without a sender if there is no room; None if there is none for that."""
        key = _encode(group)
        number = counts.number_of(key)
        if number is not None:
            return number
        if self._group_total >= MAX_GROUPS or self._name_total + len(key) > MAX_NAMES:
            key = _encode(RequestGroup(group.api, group.version, is_forwarded=group.is_forwarded))
            number = counts.number_of(key)
            if number is not None or self._group_total >= MAX_GROUPS + MAX_OTHERS:
                return number
        self._group_total += 1
        self._name_total += len(key)
        return counts.new(key)

    def _hour_of(self, request: LoggedRequest, line: bytes) -> HourOfRequests:
        time = request.time - request.time % HOUR
        if self._hour is None or time != self._hour.hour:
            self._settle()
            if time not in self._hours:
                section = hashlib.sha256(line.rstrip(b"\r")).hexdigest()[:16]
                self._hours[time] = HourOfRequests(time, section, request.time, request.time)
            if len(self._hours) > OPEN_HOURS:
                complete = self._hours.pop(min(hour for hour in self._hours if hour != time))
                self._group_total -= len(complete.counts)
                self._name_total -= complete.counts.size
                self._complete.append(complete)
            self._hour = self._hours[time]
        return self._hour

    def _remember(self, line: bytes, shape: bytes, number: int, level: str) -> None:
        is_full = len(self._shapes) >= _MAX_SHAPES or self._shape_bytes + len(shape) > _MAX_SHAPE_BYTES
        if is_full or not self._begin <= line < self._end:
            self._settle()
            self._begin = line[:_HOUR_STAMP]
            self._end = self._begin + b"\xff"
        self._shapes[shape] = _LineShape(number, level, line[:_STAMP])
        self._shape_bytes += len(shape)

    def _settle(self) -> None:
        """Take the lines of all shapes into their groups, and forget the shapes."""
        if self._hour is not None:
            for shape in self._shapes.values():
                if shape.lines:
                    _settle(shape, self._hour)
        self._shapes.clear()
        self._shape_bytes, self._begin, self._end = 0, b"", b""


def _settle(shape: _LineShape, hour: HourOfRequests) -> None:
    event = parse_event(shape.stamp.rstrip() + b" INFO ")
    time = event.time if event is not None else hour.last
    hour.counts.add(shape.number, shape.lines, time)
    hour.lines += shape.lines
    hour.levels[shape.level] = hour.levels.get(shape.level, 0) + shape.lines
    hour.last = max(hour.last, time)
