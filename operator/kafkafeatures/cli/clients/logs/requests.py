"""A line of Kafka's request log: who sent a request, and of which API and version. Called by `counting.py`.

`RequestChannel.scala` writes such a line for each request, at DEBUG, and at INFO for those of deprecated versions:
`Completed request:` and a JSON object. What it decides: a line is one of requests if all of it is such an object, and
anything else that says it is one is rejected.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from kafkafeatures.cli.clients.logs.events import parse_event

LOGGER = "kafka.request.logger"
MARK = b"Completed request:"

_API = re.compile(r"[A-Z][A-Z0-9_]{1,60}")
_HIGHEST = 1000
"""Of versions and of API keys; Kafka has 20 and 90. Others are no lines of a broker."""
_CONNECTION = re.compile(r"-(?:\[?([^\[\]]*)\]?):\d{1,5}-\d+(?:-\d+)?$")
"""`LOCAL:PORT-REMOTE:PORT-INDEX`, with the processor before the index since Kafka 4.0."""


class RequestGroup(Struct, frozen=True, array_like=True):
    """Requests that are counted together. `client_id`, `principal`, `address` and the like: None in a group of
    requests of which they are not known any more.
    """

    api: str
    version: int
    listener: str | None = None
    principal: str | None = None
    client_id: str | None = None
    address: str | None = None
    software: str | None = None
    software_version: str | None = None
    is_forwarded: bool = False


class LoggedRequest(Struct, frozen=True):
    """A request with the time of its line in ms, the level of the logger that wrote it, and its connection."""

    time: int
    level: str
    group: RequestGroup
    connection: str = ""


class _Header(Struct):
    requestApiKey: int  # noqa: N815 - fields of the JSON object
    requestApiVersion: int  # noqa: N815
    requestApiKeyName: str  # noqa: N815
    clientId: str | None = None  # noqa: N815


class _ClientInformation(Struct):
    softwareName: str = ""  # noqa: N815
    softwareVersion: str = ""  # noqa: N815


class _Completed(Struct):
    requestHeader: _Header  # noqa: N815
    connection: str
    principal: str
    listener: str
    clientInformation: _ClientInformation  # noqa: N815
    isForwarded: bool = False  # noqa: N815


_decode = msgspec.json.Decoder(_Completed).decode


class RequestRejected(Exception):
    """A line that says that it is one of a request, and is none."""


def parse_request(line: bytes) -> LoggedRequest | None:
    """The request of a line; None for a line of something else. Raises RequestRejected."""
    event = parse_event(line)
    if event is None or not event.message.startswith(MARK):
        if MARK in line and (event is None or event.logger in ("", LOGGER)):
            raise RequestRejected
        return None
    if event.logger not in ("", LOGGER):
        return None
    try:
        completed = _decode(memoryview(event.message)[len(MARK) :])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise RequestRejected from None
    return LoggedRequest(event.time, event.level, _group(completed), completed.connection)


def _group(completed: _Completed) -> RequestGroup:
    header, software = completed.requestHeader, completed.clientInformation
    connection = _CONNECTION.search(completed.connection)
    is_known = 0 <= header.requestApiKey <= _HIGHEST and 0 <= header.requestApiVersion <= _HIGHEST
    if connection is None or not is_known or not _API.fullmatch(header.requestApiKeyName):
        raise RequestRejected
    return RequestGroup(
        "".join(word.capitalize() for word in header.requestApiKeyName.split("_")),
        header.requestApiVersion,
        completed.listener,
        completed.principal,
        header.clientId or "",
        connection[1],
        software.softwareName,
        software.softwareVersion,
        completed.isForwarded,
    )
