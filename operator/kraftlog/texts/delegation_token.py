"""DELEGATION_TOKEN_RECORD, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct

from kraftlog.decoders.parts import beyond, no_null, read_unsigned, too_many
from kraftlog.texts.parts import Texts, quoted, unknown_tag

_INT64_INT64_INT64 = Struct(">qqq")


def _items_of_renewers(data: bytes, at: int, end: int, items: int) -> tuple[str, int]:
    every = []
    for _ in range(items):
        size = data[at]
        at += 1
        if size > 127:
            size, at = read_unsigned(data, at - 1)
        if not size:
            raise no_null("each")
        stop = at + size - 1
        if stop > end:
            raise beyond(size - 1, at, end)
        each = quoted(data[at:stop].decode())
        at = stop
        every.append(each)
    return f"[{','.join(every)}]", at


def _v0(data: bytes, at: int) -> tuple[str, int]:
    end = len(data)
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("owner")
    stop = at + size - 1
    if stop > end:
        raise beyond(size - 1, at, end)
    owner = quoted(data[at:stop].decode())
    at = stop
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("requester")
    stop = at + size - 1
    if stop > end:
        raise beyond(size - 1, at, end)
    requester = quoted(data[at:stop].decode())
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
        raise beyond(size - 1, at, end)
    token_id = quoted(data[at:stop].decode())
    at = stop
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        raise unknown_tag(data[at])
    found = (
        f"{{"
        f'"owner":{owner}'
        f',"requester":{requester}'
        f',"renewers":{renewers}'
        f',"issueTimestamp":{issue_timestamp}'
        f',"maxTimestamp":{max_timestamp}'
        f',"expirationTimestamp":{expiration_timestamp}'
        f',"tokenId":{token_id}'
        f"}}"
    )
    return found, at


TEXTS: Texts = (_v0,)
