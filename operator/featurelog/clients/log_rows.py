"""Reads ranges of request logs as rows: the requests that begin in a range, counted by sender and hour.

It decides which files are cut, and where: a range has the lines that begin in it, so that each line is in one range.
Called by `spark/request_log.py`. Lines are parsed by `kafkafeatures.client_files`, as for `clients reduce`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any, BinaryIO, NamedTuple, cast

import pyarrow as pa

from featurelog import stores
from featurelog.clients.kinds import Kind, broker_of, kind_of
from kafkafeatures.client_files.logs.counting import RequestCounter, read_hours
from kafkafeatures.client_files.logs.lines import LogStream, LogUnreadable, UpTo, uncompressed
from kafkafeatures.client_files.reduced import ReducedRefused, RequestGroup, parse_hour

_BLOCK = 64 * 1024
_DOCKER = b'{"log":'  # begin of a line that Docker wrapped; lines of CRI runtimes begin with a digit


class LogRange(NamedTuple):
    """A range of a file. uri: of the input. start, end: positions; the range has the lines that begin between them."""

    uri: str
    path: str
    cluster: str
    broker: int
    file: str
    size: int
    start: int
    end: int

    @property
    def where(self) -> str:
        """The file's name in messages."""
        return f"{self.cluster}/{self.broker}/{self.file}"


def ranges(path: str, piece: int) -> Iterator[LogRange]:
    """The ranges of all request logs of an input, raw and reduced. piece: bytes of a range. Raises InputsError."""
    from featurelog.layout import Root  # not in workers, which would load more than they need

    root = Root.of(path)
    for cluster, node, files in root.folders():
        broker = broker_of(node)
        for file in files:
            if broker is None or kind_of(file.name) not in {Kind.REQUESTS, Kind.REDUCED, Kind.ANY_LOG}:
                continue
            is_whole = file.size < 2 * piece or not _can_be_cut(root.uri, file.path)
            step = max(1, file.size if is_whole else piece)
            for start in range(0, file.size, step):
                end = min(start + step, file.size)
                yield LogRange(root.uri, file.path, cluster, broker, file.name, file.size, start, end)


def rows_of(part: LogRange) -> Iterator[dict[str, Any]]:
    """The rows of a range. A row without `requests` is about what was not read. Times are in microseconds.
    Raises OSError.
    """
    labels = {"cluster": part.cluster, "broker_id": part.broker, "file": part.file}
    rows = _reduced_rows(part) if kind_of(part.file) is Kind.REDUCED else _rows(part)
    return ({**labels, **row} for row in rows)


def _can_be_cut(uri: str, path: str) -> bool:
    """True for a log that is not compressed, and whose lines no container runtime has wrapped: it splits long lines
    into parts that belong together.
    """
    with _opened(uri, path) as file:
        head = file.read(len(_DOCKER))
    return head[:1] in {b"[", b"{"} and head != _DOCKER


def _opened(uri: str, path: str) -> pa.NativeFile:
    return stores.open_store(uri)[0].open_input_file(path)


def _line_begin(file: pa.NativeFile, position: int, size: int) -> int:
    """The position of the first line that begins at this position or behind it; `size` if there is none."""
    if position == 0:
        return 0
    for at in range(position - 1, size, _BLOCK):
        offset: int = file.read_at(min(_BLOCK, size - at), at).find(b"\n")
        if offset >= 0:
            return at + offset + 1
    return size


def _stream(part: LogRange) -> LogStream:
    """The bytes of the range. Raises OSError."""
    file = _opened(part.uri, part.path)
    start = _line_begin(file, part.start, part.size)
    end = part.size if part.end == part.size else _line_begin(file, part.end, part.size)
    file.seek(start)
    stream = UpTo(file, end - start)
    return uncompressed(stream) if start == 0 else stream


def _rows(part: LogRange) -> Iterator[dict[str, Any]]:
    """The rows of a range of a request log."""
    counter = RequestCounter(str)
    try:
        with closing(_stream(part)) as stream:
            for hour in read_hours(stream, counter):
                for group, requests, last in hour.counts.groups():
                    yield _row(group, hour.hour, requests, last)
                if hour.rejected:
                    yield {"hour": hour.hour * 1000, "rejected": hour.rejected}
    except LogUnreadable as error:
        yield {"reason": f"not read to its end: {error}"}
    if rejected := counter.unattributed[0]:
        yield {"rejected": rejected}


def _reduced_rows(part: LogRange) -> Iterator[dict[str, Any]]:
    """The rows of a reduced request log."""
    try:
        with closing(_stream(part)) as stream:
            hour = parse_hour(cast("BinaryIO", stream))
    except ReducedRefused as refused:
        yield {"reason": str(refused)}
        return
    for count in hour.counts:
        yield _row(count.group, hour.hour, count.requests, count.last)


def _row(group: RequestGroup, hour: int, requests: int, last: int) -> dict[str, Any]:
    return {
        "hour": hour * 1000, "api": group.api, "version": group.version, "listener": group.listener,
        "principal": group.principal, "client_id": group.client_id, "address": group.address,
        "software_name": group.software, "software_version": group.software_version,
        "is_forwarded": group.is_forwarded, "requests": requests, "last_ts": last * 1000,
    }  # fmt: skip
