"""Parses a log line into an event: time, level, logger and message.

It knows the pattern layouts of Kafka, Strimzi, Bitnami and Confluent, and the JSON layouts of log4j2. Times without a
zone are taken as UTC, which is the zone of containers.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

import msgspec
from msgspec import Struct, field

_PATTERN = re.compile(
    rb"\[?(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)[,.](\d{3})\d*Z?\]? +\[?(TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\]? +"
)
_LOGGER = re.compile(rb" \(([A-Za-z_$][A-Za-z0-9_.$]*)\)(?: \[[^\[\]]*\])?\r?$")
"""The logger in parentheses; Strimzi's layout has the thread behind it."""


class LogEvent(Struct, frozen=True):
    """An event of a log. `time`: in ms; `message`: without the logger that a layout appends."""

    time: int
    level: str
    logger: str
    message: bytes


class _Instant(Struct, frozen=True):
    epoch_second: int = field(name="epochSecond", default=0)
    nanos: int = field(name="nanoOfSecond", default=0)


class _JsonEvent(Struct, frozen=True):
    """Fields as JsonLayout, the ECS, Logstash and GCP templates of JsonTemplateLayout name them."""

    message: str
    at_timestamp: str = field(name="@timestamp", default="")
    timestamp: str | int = ""
    time: str | int = ""
    time_millis: int = field(name="timeMillis", default=0)
    instant: _Instant | None = None
    level: str = ""
    log_level: str = field(name="log.level", default="")
    severity: str = ""
    logger: str = ""
    logger_name: str = ""
    logger_name_camel: str = field(name="loggerName", default="")
    log_logger: str = field(name="log.logger", default="")


_decode = msgspec.json.Decoder(_JsonEvent).decode


def parse_event(line: bytes) -> LogEvent | None:
    """The event of a line; None if no event begins with it, as with a line of a stack trace."""
    if line.startswith(b"{"):
        return _of_json(line)
    match = _PATTERN.match(line)
    if match is None:
        return None
    second, milliseconds, level = match.groups()
    start, time = match.end(), _second(second)
    if time is None:
        return None
    logger = _LOGGER.match(line, max(line.rfind(b" ("), start - 1))
    name = logger[1].decode() if logger else ""
    return LogEvent(time + int(milliseconds), level.decode(), name, line[start : logger.start() if logger else None])


@lru_cache(maxsize=1000)
def _second(text: bytes) -> int | None:
    """A time such as 2026-11-28 03:22:46 in ms; None if there is no such time."""
    try:
        return int(datetime.fromisoformat(text.decode()).replace(tzinfo=UTC).timestamp()) * 1000
    except ValueError:
        return None


def _of_json(line: bytes) -> LogEvent | None:
    try:
        event = _decode(line)
        message = event.message.encode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    time = _time(event)
    if time is None:
        return None
    level = event.level or event.log_level or event.severity
    logger = event.logger or event.logger_name or event.logger_name_camel or event.log_logger
    return LogEvent(time, level.upper(), logger, message)


def _time(event: _JsonEvent) -> int | None:
    """The time in ms; None if there is none. Where a layout has a number, that is in ms already."""
    if event.instant is not None:
        return event.instant.epoch_second * 1000 + event.instant.nanos // 1_000_000
    value = event.time_millis or event.at_timestamp or event.timestamp or event.time
    if isinstance(value, int):
        return value or None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    return round((time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp() * 1000)
