"""Writes decoded records as JSON text, with Kafka's field names, and uuids and bytes as `kafka-dump-log.sh` prints
them.

It leaves out secrets unless the caller asks for them. Of an unknown tag it writes the number and the size. The text is
ASCII, but may contain any name that a client chose: callers that put it into HTML or a table must escape it.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator, Mapping
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from kraftlog.records import Decoded, kafka_uuid, to_json
from kraftlog.redaction import has_secrets, is_open, redacted
from kraftlog.schema.types import UNKNOWN_TAGS


def body(record: Decoded, *, redact: bool = True) -> str:
    """The JSON text of a record's data, with its unknown tags as a last field."""
    if is_open(record):  # nearly all records have no secrets
        return written(record.data)
    text = written(redacted(record).data if redact and has_secrets(record.type) else record.data)
    tags = tuple(bytes_of(content, redact=redact, tag=tag) for tag, content in _unknown(record.data))
    if not tags:
        return text
    return f'{text[:-1]}{"," if len(text) > 2 else ""}"{UNKNOWN_TAGS}":{written(tags)}}}'


def bytes_of(content: bytes, *, redact: bool = True, **fields: object) -> dict[str, object]:
    """A description of bytes that were not decoded: their number, and only without `redact` the bytes themselves, which
    may hold secrets. fields: put before these.
    """
    raw = {} if redact else {"raw": base64.b64encode(content).decode()}
    return {**fields, "bytes": len(content), **raw}


def written(value: Any) -> str:
    """The JSON text of a value, as Kafka prints it, without unknown tags. It is called for each field of each record,
    so it compares exact types, which is faster than `isinstance`.
    """
    kind = type(value)
    if kind is int:
        return str(value)
    if kind is str:
        return quoted(value)
    if value is None:
        return "null"
    if kind is dict:
        return "{" + ",".join([f'"{n}":{written(v)}' for n, v in value.items() if n != UNKNOWN_TAGS]) + "}"
    if kind is uuid.UUID:
        return _uuid(value)
    if kind is tuple:
        return f"[{','.join(map(written, value))}]"
    if kind is bytes:
        return f'"{base64.b64encode(value).decode()}"'
    if kind is float:
        value = to_json(value)  # JSON has no number for infinity
    return _encode(value)


@lru_cache(maxsize=10_000)
def _uuid(value: uuid.UUID) -> str:
    return f'"{kafka_uuid(value)}"'


_encode = json.JSONEncoder(allow_nan=False).encode


def _unknown(value: Mapping[str, Any]) -> Iterator[tuple[int, bytes]]:
    """(tag, bytes) of each unknown tag, also in nested structs."""
    for name, each in value.items():
        if name == UNKNOWN_TAGS:
            yield from each
        elif type(each) is dict:
            yield from _unknown(each)
        elif type(each) is tuple and each and type(each[0]) is dict:
            for item in each:
                yield from _unknown(item)
