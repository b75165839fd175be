"""REMOVE_DELEGATION_TOKEN_RECORD, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from typing import Any

from kraftlog.decoders.parts import Readers, bytes_missing, no_null, other_tags, read_unsigned


def _v0(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("tokenId")
    stop = at + size - 1
    if stop > end:
        raise bytes_missing(size - 1, at, end)
    token_id = data[at:stop].decode()
    at = stop
    fields: dict[str, Any] = {"tokenId": token_id}
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = other_tags(data, at, end, count, fields)
    return fields, at


READERS: Readers = (((_v0, ""),),)
