"""ACCESS_CONTROL_RECORD, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct

from kraftlog.decoders.parts import beyond, no_null, read_unsigned
from kraftlog.texts.parts import Texts, quoted, unknown_tag

_INT8 = Struct(">b")
_INT8_INT8 = Struct(">bb")


def _v0(data: bytes, at: int) -> tuple[str, int]:
    end = len(data)
    (resource_type,) = _INT8.unpack_from(data, at)
    at += 1
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        resource_name = "null"
    else:
        stop = at + size - 1
        if stop > end:
            raise beyond(size - 1, at, end)
        resource_name = quoted(data[at:stop].decode())
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
        raise beyond(size - 1, at, end)
    principal = quoted(data[at:stop].decode())
    at = stop
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("host")
    stop = at + size - 1
    if stop > end:
        raise beyond(size - 1, at, end)
    host = quoted(data[at:stop].decode())
    at = stop
    operation, permission_type = _INT8_INT8.unpack_from(data, at)
    at += 2
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        raise unknown_tag(data[at])
    found = (
        f"{{"
        f'"resourceType":{resource_type}'
        f',"resourceName":{resource_name}'
        f',"patternType":{pattern_type}'
        f',"principal":{principal}'
        f',"host":{host}'
        f',"operation":{operation}'
        f',"permissionType":{permission_type}'
        f"}}"
    )
    return found, at


TEXTS: Texts = (_v0,)
