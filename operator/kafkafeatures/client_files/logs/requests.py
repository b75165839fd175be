"""Parses a line of Kafka's request log: who sent a request, and of which API and version.

Kafka (`RequestChannel.scala`) writes such a line for each request at DEBUG, and for those of deprecated versions at
INFO: the mark `Completed request:` and a JSON object. What this module decides: a line counts as a request only if
everything after the mark is such an object. A line with the mark and anything else is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import msgspec
from msgspec import Struct

from kafkafeatures.client_files.logs.events import parse_event
from kafkafeatures.client_files.reduced import MAX_VERSION, RequestGroup

LOGGER = "kafka.request.logger"
MARK = b"Completed request:"

_API = re.compile(r"[A-Z][A-Z0-9_]{1,60}")
_CONNECTION = re.compile(r"-(?:\[?([^\[\]]*)\]?):\d{1,5}-\d+(?:-\d+)?$")
"""REMOTE, at the end of `LOCAL:PORT-REMOTE:PORT-INDEX`. Since Kafka 4.0 the processor is before the index."""


class LoggedRequest(Struct, frozen=True):
    """A request with the time of its line in ms, the level of the logger that wrote it, and its connection."""

    time: int
    level: str
    group: RequestGroup
    connection: str = ""


class _Header(Struct, frozen=True, rename="camel"):
    request_api_version: int
    request_api_key_name: str
    client_id: str | None = None


class _ClientInformation(Struct, frozen=True, rename="camel"):
    software_name: str = ""
    software_version: str = ""


class _Completed(Struct, frozen=True, rename="camel"):
    request_header: _Header
    connection: str
    principal: str
    listener: str
    client_information: _ClientInformation
    is_forwarded: bool = False


_decode = msgspec.json.Decoder(_Completed).decode


class RequestRejected(Exception):
    """A line with the mark of a request, whose rest is not one."""


CountedAddress = Callable[[str], str]
"""Function that returns the part of a client's address that is counted, such as its network; empty for none."""


def parse_request(line: bytes, address: CountedAddress) -> LoggedRequest | None:
    """The request of a line; None for a line of something else. Raises RequestRejected."""
    event = parse_event(line)
    if event is None or not event.message.startswith(MARK):
        # The mark elsewhere in a line that may be the request logger's: a layout that is not known, or a damaged line.
        if MARK in line and (event is None or event.logger in ("", LOGGER)):
            raise RequestRejected
        return None
    if event.logger not in ("", LOGGER):
        return None
    try:
        completed = _decode(memoryview(event.message)[len(MARK) :])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise RequestRejected from None
    return LoggedRequest(event.time, event.level, _group(completed, address), completed.connection)


def _group(completed: _Completed, address: CountedAddress) -> RequestGroup:
    header, software = completed.request_header, completed.client_information
    connection, api = _CONNECTION.search(completed.connection), _api(header.request_api_key_name)
    version = header.request_api_version
    if connection is None or not api or not 0 <= version <= MAX_VERSION:
        raise RequestRejected
    return RequestGroup(
        api,
        version,
        completed.listener,
        completed.principal,
        header.client_id or "",
        address(connection[1]),
        software.software_name,
        software.software_version,
        completed.is_forwarded,
    )


@lru_cache(maxsize=1000)
def _api(key: str) -> str:
    """The name of an API, such as ListOffsets of LIST_OFFSETS; empty if it can be none."""
    return "".join(word.capitalize() for word in key.split("_")) if _API.fullmatch(key) else ""
