"""USER_SCRAM_CREDENTIAL_RECORD, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from kraftlog.decoders.parts import Readers, bytes_missing, no_null, other_tags, read_unsigned, too_many

_INT8 = Struct(">b")
_INT32 = Struct(">i")


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
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("salt")
    stop = at + size - 1
    if stop > end:
        raise bytes_missing(size - 1, at, end)
    salt = data[at:stop]
    at = stop
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("storedKey")
    stop = at + size - 1
    if stop > end:
        raise bytes_missing(size - 1, at, end)
    stored_key = data[at:stop]
    at = stop
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("serverKey")
    stop = at + size - 1
    if stop > end:
        raise bytes_missing(size - 1, at, end)
    server_key = data[at:stop]
    at = stop
    (iterations,) = _INT32.unpack_from(data, at)
    at += 4
    fields: dict[str, Any] = {
        "name": name,
        "mechanism": mechanism,
        "salt": salt,
        "storedKey": stored_key,
        "serverKey": server_key,
        "iterations": iterations,
    }
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = other_tags(data, at, end, count, fields)
    return fields, at


def _items_of_credential_infos(data: bytes, at: int, end: int, items: int) -> tuple[tuple[Any, ...], int]:
    values = []
    for _ in range(items):
        (mechanism,) = _INT8.unpack_from(data, at)
        at += 1
        size = data[at]
        at += 1
        if size > 127:
            size, at = read_unsigned(data, at - 1)
        if not size:
            raise no_null("salt")
        stop = at + size - 1
        if stop > end:
            raise bytes_missing(size - 1, at, end)
        salt = data[at:stop]
        at = stop
        size = data[at]
        at += 1
        if size > 127:
            size, at = read_unsigned(data, at - 1)
        if not size:
            raise no_null("saltedPassword")
        stop = at + size - 1
        if stop > end:
            raise bytes_missing(size - 1, at, end)
        salted_password = data[at:stop]
        at = stop
        (iterations,) = _INT32.unpack_from(data, at)
        at += 4
        each: dict[str, Any] = {
            "mechanism": mechanism,
            "salt": salt,
            "saltedPassword": salted_password,
            "iterations": iterations,
        }
        count = data[at]
        at += 1
        if count > 127:
            count, at = read_unsigned(data, at - 1)
        if count:
            at = other_tags(data, at, end, count, each)
        values.append(each)
    return tuple(values), at


def _v0_of_3_0_to_3_4(data: bytes, at: int) -> tuple[dict[str, Any], int]:
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
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("credentialInfos")
    if size - 1 > (end - at) // 8:
        raise too_many("credentialInfos", size - 1, end - at)
    credential_infos, at = _items_of_credential_infos(data, at, end, size - 1)
    fields: dict[str, Any] = {"name": name, "credentialInfos": credential_infos}
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
        (_v0_of_3_0_to_3_4, "3.0-3.4"),
    ),
)
