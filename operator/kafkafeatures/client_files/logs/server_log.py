"""Finds requests that a broker refused for their API version, in its server log.

A broker of Kafka 4.x writes each of them there, and in no other log (`SocketServer.scala`):

    [2026-11-28 03:21:55,955] ERROR Exception while processing request from
        127.0.0.1:9092-127.0.0.1:39130-1-2 (kafka.network.Processor)
    org.apache.kafka.common.errors.UnsupportedVersionException: Received request for api with key 0 (Produce) and
        unsupported version 2

and once more as "Closing socket for ... because of error". These words are the markers that the bytes are searched for.
So the layout of a line does not matter, and neither does what a log collector puts around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from kafkafeatures.core.clients.rejections import RefusedRequest

MARKERS = (b"Exception while processing request from ", b"Closing socket for ")
REASONS = (
    # Kafka 4.0 and newer
    re.compile(rb"Received request for (?:disabled )?api with key (?P<key>\d{1,5}) \((?P<api>\w{1,60})\) and "
               rb"(?:unsupported )?version (?P<version>-?\d{1,5})\b"),
    # Kafka 3.x
    re.compile(rb"Received request api key (?P<api>\w{1,60}) with version (?P<version>-?\d{1,5}) which is not enabled"),
    # an API key that the release does not have; the version is not told (`RequestHeader.java`)
    re.compile(rb"(?:Unknown API key |Our best guess of the apiKey is: )(?P<key>-?\d{1,5})\b"),
)  # fmt: skip
_BEFORE, _AFTER = 512, 2048
"""Bytes before a marker that are searched for the time, and bytes after it for the connection and the reason."""
_LINES = 6
"""Lines within which the reason follows: the exception, and its causes."""
_CONNECTION = re.compile(rb"[0-9A-Za-z.:%_\[\]-]{7,160}")
_TIME = re.compile(rb"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{3}))?")
_PEER = re.compile(r".*?:\d{1,5}-\[?(?P<address>.+?)\]?:\d{1,5}(?:-\d{1,10}){1,2}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_rejections(blocks: Iterable[bytes]) -> Iterator[RefusedRequest]:
    """The rejections of a log, in its order. `blocks`: its bytes, cut anywhere. A rejection comes once for each marker,
    so several may be of one connection.
    """
    unfinished = b""  # the end of the bytes so far, which the next block may complete
    resume = 0  # the place in these from which on markers are searched for
    for block in blocks:
        text = unfinished + block
        for begin in _marked(text, resume, len(text) - _AFTER):
            resume = begin + 1
            if rejection := _rejection(text, begin):
                yield rejection
        # Every marker before `complete` was found. A later one may have its reason in the next block, and its time in
        # the `_BEFORE` bytes before it, so these are kept.
        complete = max(resume, len(text) - _AFTER)
        unfinished = text[max(0, complete - _BEFORE) :]
        resume = complete - (len(text) - len(unfinished))
    for begin in _marked(unfinished, resume, len(unfinished)):
        if rejection := _rejection(unfinished, begin):
            yield rejection


def _marked(text: bytes, begin: int, end: int) -> list[int]:
    """Places of markers that begin from `begin` on and before `end`, in ascending order."""
    places = []
    for marker in MARKERS:
        at = text.find(marker, begin)
        while 0 <= at < end:
            places.append(at)
            at = text.find(marker, at + 1)
    return sorted(places)


def _rejection(text: bytes, begin: int) -> RefusedRequest | None:
    """The rejection whose marker is at `begin`; None if it is another error, such as one of TLS."""
    marker = next(each for each in MARKERS if text.startswith(each, begin))
    after = begin + len(marker)
    match = _CONNECTION.match(text, after)
    connection = match[0].decode() if match else ""
    peer = _PEER.fullmatch(connection)
    if peer is None:
        return None
    event = text[after : begin + _AFTER]
    next_event = min((at for each in MARKERS if (at := event.find(each)) >= 0), default=len(event))
    lines = b"\n".join(event[:next_event].split(b"\n", _LINES)[:_LINES])
    reason = next((match for each in REASONS if (match := each.search(lines))), None)
    if reason is None:
        return None
    parts = reason.groupdict()
    name = parts.get("api")
    api = _api_name(name.decode()) if name else f"api {int(parts['key'])}"
    return RefusedRequest(connection, peer["address"], api, int(parts.get("version") or -1), _time_before(text, begin))


def _api_name(name: str) -> str:
    """The name as Kafka 4.x writes it: ListOffsets for LIST_OFFSETS of Kafka 3.x."""
    return "".join(word.capitalize() for word in name.split("_")) if name.isupper() else name


def _time_before(text: bytes, end: int) -> int | None:
    """The time in the line before the marker in ms, as if it were UTC; None if there is none. Of several the last: a
    collector puts its own in front.
    """
    line = text[max(0, end - _BEFORE) : end].rpartition(b"\n")[2]
    matches = list(_TIME.finditer(line))
    if not matches:
        return None
    year, month, day, hour, minute, second, milliseconds = (int(part or 0) for part in matches[-1].groups())
    try:
        time = datetime(year, month, day, hour, minute, second, milliseconds * 1000, UTC)
        return (time - _EPOCH) // timedelta(milliseconds=1)
    except ValueError:  # the 31st of November
        return None
