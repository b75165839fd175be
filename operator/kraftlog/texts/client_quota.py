"""CLIENT_QUOTA_RECORD, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct

from kraftlog.decoders.parts import beyond, no_boolean, no_null, read_unsigned, too_many
from kraftlog.texts.parts import BOOLEANS, Texts, quoted, unknown_tag, written

_FLOAT64_BOOL = Struct(">dB")


def _items_of_entity(data: bytes, at: int, end: int, items: int) -> tuple[str, int]:
    every = []
    for _ in range(items):
        size = data[at]
        at += 1
        if size > 127:
            size, at = read_unsigned(data, at - 1)
        if not size:
            raise no_null("entityType")
        stop = at + size - 1
        if stop > end:
            raise beyond(size - 1, at, end)
        entity_type = quoted(data[at:stop].decode())
        at = stop
        size = data[at]
        at += 1
        if size > 127:
            size, at = read_unsigned(data, at - 1)
        if not size:
            entity_name = "null"
        else:
            stop = at + size - 1
            if stop > end:
                raise beyond(size - 1, at, end)
            entity_name = quoted(data[at:stop].decode())
            at = stop
        count = data[at]
        at += 1
        if count > 127:
            count, at = read_unsigned(data, at - 1)
        if count:
            raise unknown_tag(data[at])
        each = f'{{"entityType":{entity_type},"entityName":{entity_name}}}'
        every.append(each)
    return f"[{','.join(every)}]", at


def _v0(data: bytes, at: int) -> tuple[str, int]:
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
        raise beyond(size - 1, at, end)
    key = quoted(data[at:stop].decode())
    at = stop
    value, remove = _FLOAT64_BOOL.unpack_from(data, at)
    at += 9
    if remove > 1:
        raise no_boolean("remove", remove)
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        raise unknown_tag(data[at])
    found = f'{{"entity":{entity},"key":{key},"value":{written(value)},"remove":{BOOLEANS[remove]}}}'
    return found, at


TEXTS: Texts = (_v0,)
