"""REMOVE_ACCESS_CONTROL_ENTRY_RECORD, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from kraftlog.decoders.parts import Readers, other_tags, read_unsigned, uuid_of

_UUID = Struct(">16s")


def _v0(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    (id_,) = _UUID.unpack_from(data, at)
    at += 16
    fields: dict[str, Any] = {"id": uuid_of(id_)}
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = other_tags(data, at, end, count, fields)
    return fields, at


READERS: Readers = (((_v0, ""),),)
