"""Decoded records as JSON text: Kafka's field names, uuids and bytes as Kafka's dump tool prints them.

What it decides: how a record is written down, by whoever shows or stores it, and that secrets are not unless they are
asked for. Tags that no table knows are told by their number and size. The text is ASCII, and may hold any name that a
client chose: whoever puts it into HTML or a table escapes it.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from kraftlog.records import Decoded, kafka_uuid, to_json
from kraftlog.redaction import redacted
from kraftlog.schema.types import UNKNOWN_TAGS


def body(record: Decoded, *, redact: bool = True) -> str:
    """The data of a record."""
    data = redacted(record).data if redact else record.data
    try:
        text = _encode(data)
    except ValueError:  # a quota that is infinite or no number
        text = UNKNOWN_TAGS
    if UNKNOWN_TAGS not in text:
        return text
    tags = [bytes_of(content, redact=redact, tag=tag) for tag, content in _unknown(record.data)]
    return _encode({**to_json(data), UNKNOWN_TAGS: tags} if tags else to_json(data))


def bytes_of(content: bytes, *, redact: bool = True, **what: object) -> dict[str, object]:
    """Of what was not decoded: how much it is, and itself only where secrets may be shown."""
    raw = {} if redact else {"raw": base64.b64encode(content).decode()}
    return {**what, "bytes": len(content), **raw}


def _scalar(value: object) -> str:
    """What JSON has no form for, as Kafka prints it."""
    if isinstance(value, uuid.UUID):
        return _uuid(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(type(value).__name__)


_uuid = lru_cache(maxsize=10_000)(kafka_uuid)
_encode = json.JSONEncoder(separators=(",", ":"), default=_scalar, allow_nan=False).encode


def _unknown(value: Any) -> Iterator[tuple[int, bytes]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from each if name == UNKNOWN_TAGS else _unknown(each)
    elif isinstance(value, tuple):
        for each in value:
            yield from _unknown(each)
