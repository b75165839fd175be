"""DELEGATION_TOKEN_RECORD, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from kraftlog.decoders.parts import Readers, bytes_missing, no_null, other_tags, read_unsigned, too_many

_INT64_INT64_INT64 = Struct(">qqq")


def _items_of_renewers(data: bytes, at: int, end: int, items: int) -> tuple[tuple[Any, ...], int]:
    values = []
    for _ in range(items):
        size = data[at]
        at += 1
        if size > 127:
            size, at = read_unsigned(data, at - 1)
        if not size:
            raise no_null("each")
        stop = at + size - 1
        if stop > end:
            raise bytes_missing(size - 1, at, end)
        each = data[at:stop].decode()
        at = stop
        values.append(each)
    return tuple(values), at


def _v0(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("owner")
    stop = at + size - 1
    if stop > end:
        raise bytes_missing(size - 1, at, end)
    owner = data[at:stop].decode()
    at = stop
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("requester")
    stop = at + size - 1
    if stop > end:
        raise bytes_missing(size - 1, at, end)
    requester = data[at:stop].decode()
    at = stop
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("renewers")
    if size - 1 > end - at:
        raise too_many("renewers", size - 1, end - at)
    renewers, at = _items_of_renewers(data, at, end, size - 1)
    issue_timestamp, max_timestamp, expiration_timestamp = _INT64_INT64_INT64.unpack_from(data, at)
    at += 24
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
    fields: dict[str, Any] = {
        "owner": owner,
        "requester": requester,
        "renewers": renewers,
        "issueTimestamp": issue_timestamp,
        "maxTimestamp": max_timestamp,
        "expirationTimestamp": expiration_timestamp,
        "tokenId": token_id,
    }
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = other_tags(data, at, end, count, fields)
    return fields, at


def _v0_of_3_0_to_3_5(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("owner")
    stop = at + size - 1
    if stop > end:
        raise bytes_missing(size - 1, at, end)
    owner = data[at:stop].decode()
    at = stop
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("renewers")
    if size - 1 > end - at:
        raise too_many("renewers", size - 1, end - at)
    renewers, at = _items_of_renewers(data, at, end, size - 1)
    issue_timestamp, max_timestamp, expiration_timestamp = _INT64_INT64_INT64.unpack_from(data, at)
    at += 24
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
    fields: dict[str, Any] = {
        "owner": owner,
        "renewers": renewers,
        "issueTimestamp": issue_timestamp,
        "maxTimestamp": max_timestamp,
        "expirationTimestamp": expiration_timestamp,
        "tokenId": token_id,
    }
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = other_tags(data, at, end, count, fields)
    return fields, at


READERS: Readers = (
    (
        (_v0, ""),
        (_v0_of_3_0_to_3_5, "3.0-3.5"),
    ),
)
