"""CLIENT_QUOTA_RECORD, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from kraftlog.decoders.parts import Readers, bytes_missing, no_boolean, no_null, other_tags, read_unsigned, too_many

_FLOAT64_BOOL = Struct(">dB")


def _items_of_entity(data: bytes, at: int, end: int, items: int) -> tuple[tuple[Any, ...], int]:
    values = []
    for _ in range(items):
        size = data[at]
        at += 1
        if size > 127:
            size, at = read_unsigned(data, at - 1)
        if not size:
            raise no_null("entityType")
        stop = at + size - 1
        if stop > end:
            raise bytes_missing(size - 1, at, end)
        entity_type = data[at:stop].decode()
        at = stop
        size = data[at]
        at += 1
        if size > 127:
            size, at = read_unsigned(data, at - 1)
        if not size:
            entity_name: str | None = None
        else:
            stop = at + size - 1
            if stop > end:
                raise bytes_missing(size - 1, at, end)
            entity_name = data[at:stop].decode()
            at = stop
        each: dict[str, Any] = {"entityType": entity_type, "entityName": entity_name}
        count = data[at]
        at += 1
        if count > 127:
            count, at = read_unsigned(data, at - 1)
        if count:
            at = other_tags(data, at, end, count, each)
        values.append(each)
    return tuple(values), at


def _v0(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("entity")
    if size - 1 > (end - at) // 3:
        raise too_many("entity", size - 1, end - at)
    entity, at = _items_of_entity(data, at, end, size - 1)
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("key")
    stop = at + size - 1
    if stop > end:
        raise bytes_missing(size - 1, at, end)
    key = data[at:stop].decode()
    at = stop
    value, remove = _FLOAT64_BOOL.unpack_from(data, at)
    at += 9
    if remove > 1:
        raise no_boolean("remove", remove)
    fields: dict[str, Any] = {"entity": entity, "key": key, "value": value, "remove": remove == 1}
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = other_tags(data, at, end, count, fields)
    return fields, at


READERS: Readers = (((_v0, ""),),)
