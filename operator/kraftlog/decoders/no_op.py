"""NO_OP_RECORD, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from typing import Any

from kraftlog.decoders.parts import Readers, other_tags, read_unsigned


def _v0(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    fields: dict[str, Any] = {}
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = other_tags(data, at, end, count, fields)
    return fields, at


READERS: Readers = (((_v0, ""),),)
