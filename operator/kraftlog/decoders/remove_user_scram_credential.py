"""REMOVE_USER_SCRAM_CREDENTIAL_RECORD, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from kraftlog.decoders.parts import Readers, bytes_missing, no_null, other_tags, read_unsigned

_INT8 = Struct(">b")


def _v0(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("name")
    stop = at + size - 1
    if stop > end:
        raise bytes_missing(size - 1, at, end)
    name = data[at:stop].decode()
    at = stop
    (mechanism,) = _INT8.unpack_from(data, at)
    at += 1
    fields: dict[str, Any] = {"name": name, "mechanism": mechanism}
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = other_tags(data, at, end, count, fields)
    return fields, at


READERS: Readers = (((_v0, ""),),)
