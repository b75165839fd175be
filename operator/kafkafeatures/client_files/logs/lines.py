"""Reads the lines of a log from a file or a pipe, compressed or not, and out of the formats of container runtimes.

What it decides: which lines are whole. A line of more than `MAX_LINE` is skipped in pieces and counted, so that memory
is bounded whatever comes. A last line without an end may still be written, and is left out. A part of a line that the
runtime has cut (CRI, Docker) waits for the other parts. Lines are bytes, since a log may hold any.
"""

from __future__ import annotations

import gzip
import os
import re
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import msgspec
from msgspec import Struct

MAX_LINE = 2 * 1024 * 1024
"""Bytes of a line, at most. A request for ten thousand partitions has less."""
BLOCK = 256 * 1024
"""Bytes that are read at once."""

_GZIP = b"\x1f\x8b"
_CRI = re.compile(rb"\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d) (stdout|stderr) ([PF])(?::[^ ]*)? ")
"""`TIME STREAM TAGS TEXT` of containerd and CRI-O; the tag P is a part, F is the last one of a line."""
_DOCKER = b'{"log":'


class LogStream(Protocol):
    """A file or a pipe, or the uncompressed bytes of one."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end."""

    def close(self) -> None:
        """Close it."""


class LogUnreadable(Exception):
    """A log that cannot be read to its end, and why."""


@dataclass
class LineCounts:
    """Counts of one log. `size`: bytes that were read; `too_long`: lines that were skipped for their length;
    `malformed`: lines in Docker's format that do not parse. `begin`: bytes before the latest batch of lines.
    """

    size: int = 0
    begin: int = 0
    too_long: int = 0
    malformed: int = 0

    @property
    def unreadable(self) -> int:
        """Lines that were skipped."""
        return self.too_long + self.malformed


class _DockerLine(Struct, frozen=True):
    """A line of Docker's json-file driver; its text ends in a line break unless more of it follows."""

    log: str
    stream: str = ""


_decode_docker = msgspec.json.Decoder(_DockerLine).decode


def open_log(path: Path) -> LogStream:
    """Open a regular file, to be read up to its current size, and uncompressed. Raises LogUnreadable, OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # so that opening a named pipe does not wait
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise LogUnreadable("it is not a regular file")
    file = open(descriptor, "rb", buffering=0)  # noqa: SIM115 - the caller closes it
    return uncompressed(UpTo(file, status.st_size))


def uncompressed(stream: LogStream) -> LogStream:
    """The stream, uncompressed if it is a gzip stream."""
    ahead = _Ahead(stream)
    return _Uncompressed(ahead) if ahead.peek(2) == _GZIP else ahead


@dataclass
class ContainerLog:
    """Reads the lines of one log, in the format of a container runtime or plain. `counts`: of what was read so far."""

    counts: LineCounts = field(default_factory=LineCounts)
    _parts: dict[bytes, list[bytes]] = field(default_factory=dict)
    """By stream (stdout, stderr), the parts of a line whose last part has not come."""
    _overlong: set[bytes] = field(default_factory=set)
    """Streams whose current line is longer than allowed already; its further parts are skipped."""

    def batches(self, stream: LogStream) -> Iterator[list[bytes]]:
        """Whole lines without their ends, some hundred at once. Raises LogUnreadable."""
        for lines in self._physical(stream):
            # A line that begins with "[" is Kafka's own, so it is in no format of a runtime: the usual case.
            is_plain = not any([not line.startswith(b"[") for line in lines])  # noqa: C419 - twice as fast as a generator
            yield lines if is_plain else [line for raw in lines if (line := self._unwrap(raw)) is not None]

    def _physical(self, stream: LogStream) -> Iterator[list[bytes]]:
        """Lines as the file has them, which a runtime may have wrapped; without those that are too long."""
        unfinished = bytearray()  # the begin of a line whose end has not come
        is_skipping = False
        while block := read_block(stream):
            begin = self.counts.size - len(unfinished)
            self.counts.size += len(block)
            lines = block.split(b"\n")
            last = lines.pop()
            if lines:
                self.counts.begin = begin
                if is_skipping:
                    del lines[0]
                elif unfinished:
                    lines[0] = bytes(unfinished) + lines[0]
                unfinished.clear()
                is_skipping = False
            if not is_skipping:
                unfinished += last
            if len(unfinished) > MAX_LINE:
                self.counts.too_long += 1
                unfinished.clear()
                is_skipping = True
            if lines:
                yield lines

    def _unwrap(self, line: bytes) -> bytes | None:
        """The line that a runtime wrapped, or the line itself; None while parts of it are missing."""
        if line.startswith(b"["):
            return line
        if line.startswith(_DOCKER):
            return self._docker(line)
        match = _CRI.match(line)
        if match is None:
            return line
        return self._joined(match[1], line[match.end() :], is_last=match[2] == b"F")

    def _docker(self, line: bytes) -> bytes | None:
        """The line in an entry of Docker's; None if it is not whole yet, or the entry does not parse."""
        try:
            entry = _decode_docker(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            self.counts.malformed += 1
            return None
        text = entry.log.encode(errors="replace")
        return self._joined(entry.stream[:6].encode(), text.removesuffix(b"\n"), is_last=text.endswith(b"\n"))

    def _joined(self, stream: bytes, text: bytes, *, is_last: bool) -> bytes | None:
        """The whole line, if `text` is the last part of one that is not too long; else None."""
        if is_last and stream not in self._parts and stream not in self._overlong:
            return text
        parts = self._parts.setdefault(stream, [])
        parts.append(text)
        if sum(map(len, parts)) > MAX_LINE:
            parts.clear()
            if stream not in self._overlong:
                self._overlong.add(stream)
                self.counts.too_long += 1
        if not is_last:
            return None
        del self._parts[stream]
        if stream in self._overlong:
            self._overlong.remove(stream)
            return None
        return b"".join(parts)


class UpTo:
    """The first `size` bytes of a file, so that reading a log ends although the broker appends to it."""

    def __init__(self, file: LogStream, size: int) -> None:
        self._file, self._remaining = file, size

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self._remaining))
        self._remaining -= len(data)
        return data

    def close(self) -> None:
        self._file.close()


class _Uncompressed(gzip.GzipFile):
    """A gzip stream that closes its source as well."""

    def __init__(self, source: LogStream) -> None:
        super().__init__(mode="rb", fileobj=cast(BinaryIO, source))
        self._source = source

    def close(self) -> None:
        super().close()
        self._source.close()


class _Ahead:
    """A stream whose first bytes can be looked at before they are read."""

    def __init__(self, stream: LogStream) -> None:
        self._stream, self._start = stream, b""

    def peek(self, size: int) -> bytes:
        """The next `size` bytes, or all if there are fewer; they are not taken."""
        while len(self._start) < size and (data := self._stream.read(size - len(self._start))):
            self._start += data
        return self._start[:size]

    def read(self, size: int) -> bytes:
        if self._start:
            data, self._start = self._start[:size], self._start[size:]
            return data
        return self._stream.read(size)

    def close(self) -> None:
        self._stream.close()


def read_block(stream: LogStream) -> bytes:
    """The next bytes; none at the end. Raises LogUnreadable, OSError."""
    try:
        return stream.read1(BLOCK) if isinstance(stream, gzip.GzipFile) else stream.read(BLOCK)
    except EOFError:
        raise LogUnreadable("the gzip stream is cut off") from None
    except (gzip.BadGzipFile, zlib.error):
        raise LogUnreadable("the gzip stream is damaged") from None
