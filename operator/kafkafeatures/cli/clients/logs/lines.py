"""Lines of a log, out of a file or a pipe, compressed or not, and out of the wrappings of container runtimes.

Called by `reduce.py`, and by whoever reads another log of a broker. What it decides: which lines are whole. A line of
more than `MAX_LINE` is skipped in pieces and counted, so that memory is bounded whatever comes; a last line without an
end is not a line yet; a part of a line that the runtime cut (CRI, Docker) waits for the others. Lines are bytes, for a
log may hold any.
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
"""Bytes of a line. A request for ten thousand partitions has less, and memory is small."""
BLOCK = 256 * 1024

_GZIP = b"\x1f\x8b"
_CRI = re.compile(rb"\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d) (stdout|stderr) ([PF])(?::[^ ]*)? ")
"""`TIME STREAM TAGS TEXT` of containerd and CRI-O; the tag P is a part, F is the last one of a line."""
_DOCKER = b'{"log":'


class LogStream(Protocol):
    """A file, a pipe, or what a compressed one holds."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end."""

    def close(self) -> None:
        """Close it."""


class LogUnreadable(Exception):
    """A log that cannot be read to its end, and why."""


@dataclass
class LineCounts:
    """`size`: bytes of all that was read; `too_long`: lines that were skipped; `malformed`: wrappings that are
    none.
    """

    size: int = 0
    too_long: int = 0
    malformed: int = 0

    @property
    def unreadable(self) -> int:
        """Lines that were counted and skipped."""
        return self.too_long + self.malformed


class _DockerLine(Struct, frozen=True):
    """A line of Docker's json-file driver; its text ends in a line break unless more of it follows."""

    log: str
    stream: str = ""


_decode_docker = msgspec.json.Decoder(_DockerLine).decode


def open_log(path: Path) -> LogStream:
    """A regular file, up to its size at this time, out of gzip if it is compressed. Raises LogUnreadable, OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe has nothing to wait for
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise LogUnreadable("it is not a regular file")
    file = open(descriptor, "rb", buffering=0)  # noqa: SIM115 - the caller closes it
    return uncompressed(_UpTo(file, status.st_size))


def uncompressed(stream: LogStream) -> LogStream:
    """The stream itself, or what it holds if it is a gzip stream."""
    ahead = _Ahead(stream)
    return _Uncompressed(ahead) if ahead.peek(2) == _GZIP else ahead


@dataclass
class ContainerLog:
    """The lines of a log. `counts` holds what was read up to the line that came last."""

    counts: LineCounts = field(default_factory=LineCounts)
    _parts: dict[bytes, list[bytes]] = field(default_factory=dict)
    """By stream, the parts of a line of which the last one has not come."""
    _overlong: set[bytes] = field(default_factory=set)
    """Streams of which the line that comes is longer than allowed already."""

    def batches(self, stream: LogStream) -> Iterator[list[bytes]]:
        """Whole lines without their ends, some hundred at once. Raises LogUnreadable."""
        for lines in self._physical(stream):
            is_plain = not any([not line.startswith(b"[") for line in lines])  # noqa: C419 - twice as fast as a generator
            yield lines if is_plain else [line for raw in lines if (line := self._unwrap(raw)) is not None]

    def _physical(self, stream: LogStream) -> Iterator[list[bytes]]:
        begin = bytearray()  # of a line of which the end has not come
        is_skipping = False
        while block := read_block(stream):
            self.counts.size += len(block)
            lines = block.split(b"\n")
            last = lines.pop()
            if lines:
                if is_skipping:
                    del lines[0]
                elif begin:
                    lines[0] = bytes(begin) + lines[0]
                begin.clear()
                is_skipping = False
            if not is_skipping:
                begin += last
            if len(begin) > MAX_LINE:
                self.counts.too_long += 1
                begin.clear()
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
        try:
            entry = _decode_docker(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            self.counts.malformed += 1
            return None
        text = entry.log.encode(errors="replace")
        return self._joined(entry.stream[:6].encode(), text.removesuffix(b"\n"), is_last=text.endswith(b"\n"))

    def _joined(self, stream: bytes, text: bytes, *, is_last: bool) -> bytes | None:
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


class _UpTo:
    """The first bytes of a file: what is appended later is another reading's."""

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
    """A stream of which the first bytes can be looked at. A read waits until there is as much: small pieces take time
    and memory.
    """

    def __init__(self, stream: LogStream) -> None:
        self._stream, self._start = stream, b""

    def peek(self, size: int) -> bytes:
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
