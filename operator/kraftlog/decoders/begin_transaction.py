"""BEGIN_TRANSACTION_RECORD, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from typing import Any

from kraftlog.decoders.parts import Readers, bytes_missing, read_unsigned, tags_out_of_order, wrong_value_size
from kraftlog.schema.types import UNKNOWN_TAGS


def _tags(data: bytes, at: int, end: int, count: int, fields: dict[str, Any]) -> int:
    previous = -1
    unknown = []
    for _ in range(count):
        tag = data[at]
        at += 1
        if tag > 127:
            tag, at = read_unsigned(data, at - 1)
        size = data[at]
        at += 1
        if size > 127:
            size, at = read_unsigned(data, at - 1)
        if tag <= previous:
            raise tags_out_of_order(tag, previous)
        previous = tag
        stop = at + size
        if stop > end:
            raise bytes_missing(size, at, end)
        if tag == 0:
            size = data[at]
            at += 1
            if size > 127:
                size, at = read_unsigned(data, at - 1)
            if not size:
                name: str | None = None
            else:
                behind = at + size - 1
                if behind > stop:
                    raise bytes_missing(size - 1, at, stop)
                name = data[at:behind].decode()
                at = behind
            fields["name"] = name
            if at != stop:
                raise wrong_value_size("name", at, stop)
        else:
            unknown.append((tag, data[at:stop]))
            at = stop
    if unknown:
        fields[UNKNOWN_TAGS] = tuple(unknown)
    return at


def _v0(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    fields: dict[str, Any] = {}
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = _tags(data, at, end, count, fields)
    return fields, at


READERS: Readers = (((_v0, ""),),)
