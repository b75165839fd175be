"""SNAPSHOT_FOOTER, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from kraftlog.decoders.parts import Readers, other_tags, read_unsigned

_INT16 = Struct(">h")


def _v0(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    (version,) = _INT16.unpack_from(data, at)
    at += 2
    fields: dict[str, Any] = {"version": version}
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = other_tags(data, at, end, count, fields)
    return fields, at


READERS: Readers = (((_v0, ""),),)
