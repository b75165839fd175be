"""ACCESS_CONTROL_RECORD, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from kraftlog.decoders.parts import Readers, bytes_missing, no_null, other_tags, read_unsigned

_INT8 = Struct(">b")
_INT8_INT8 = Struct(">bb")


def _v0(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    (resource_type,) = _INT8.unpack_from(data, at)
    at += 1
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        resource_name: str | None = None
    else:
        stop = at + size - 1
        if stop > end:
            raise bytes_missing(size - 1, at, end)
        resource_name = data[at:stop].decode()
        at = stop
    (pattern_type,) = _INT8.unpack_from(data, at)
    at += 1
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("principal")
    stop = at + size - 1
    if stop > end:
        raise bytes_missing(size - 1, at, end)
    principal = data[at:stop].decode()
    at = stop
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("host")
    stop = at + size - 1
    if stop > end:
        raise bytes_missing(size - 1, at, end)
    host = data[at:stop].decode()
    at = stop
    operation, permission_type = _INT8_INT8.unpack_from(data, at)
    at += 2
    fields: dict[str, Any] = {
        "resourceType": resource_type,
        "resourceName": resource_name,
        "patternType": pattern_type,
        "principal": principal,
        "host": host,
        "operation": operation,
        "permissionType": permission_type,
    }
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = other_tags(data, at, end, count, fields)
    return fields, at


READERS: Readers = (((_v0, ""),),)
