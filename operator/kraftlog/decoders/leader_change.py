"""LEADER_CHANGE, versions 0 to 1.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from kraftlog.decoders.parts import Readers, no_null, other_tags, read_unsigned, too_many, uuid_of

_INT16_INT32 = Struct(">hi")
_INT32 = Struct(">i")
_INT32_UUID = Struct(">i16s")


def _items_of_voters(data: bytes, at: int, end: int, items: int) -> tuple[tuple[Any, ...], int]:
    values = []
    for _ in range(items):
        (voter_id,) = _INT32.unpack_from(data, at)
        at += 4
        each: dict[str, Any] = {"voterId": voter_id}
        count = data[at]
        at += 1
        if count > 127:
            count, at = read_unsigned(data, at - 1)
        if count:
            at = other_tags(data, at, end, count, each)
        values.append(each)
    return tuple(values), at


def _v0(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    version, leader_id = _INT16_INT32.unpack_from(data, at)
    at += 6
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("voters")
    if size - 1 > (end - at) // 5:
        raise too_many("voters", size - 1, end - at)
    voters, at = _items_of_voters(data, at, end, size - 1)
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("grantingVoters")
    if size - 1 > (end - at) // 5:
        raise too_many("grantingVoters", size - 1, end - at)
    granting_voters, at = _items_of_voters(data, at, end, size - 1)
    fields: dict[str, Any] = {
        "version": version,
        "leaderId": leader_id,
        "voters": voters,
        "grantingVoters": granting_voters,
    }
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = other_tags(data, at, end, count, fields)
    return fields, at


def _items_of_voters_(data: bytes, at: int, end: int, items: int) -> tuple[tuple[Any, ...], int]:
    values = []
    for _ in range(items):
        voter_id, voter_directory_id = _INT32_UUID.unpack_from(data, at)
        at += 20
        each: dict[str, Any] = {"voterId": voter_id, "voterDirectoryId": uuid_of(voter_directory_id)}
        count = data[at]
        at += 1
        if count > 127:
            count, at = read_unsigned(data, at - 1)
        if count:
            at = other_tags(data, at, end, count, each)
        values.append(each)
    return tuple(values), at


def _v1(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    version, leader_id = _INT16_INT32.unpack_from(data, at)
    at += 6
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("voters")
    if size - 1 > (end - at) // 21:
        raise too_many("voters", size - 1, end - at)
    voters, at = _items_of_voters_(data, at, end, size - 1)
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("grantingVoters")
    if size - 1 > (end - at) // 21:
        raise too_many("grantingVoters", size - 1, end - at)
    granting_voters, at = _items_of_voters_(data, at, end, size - 1)
    fields: dict[str, Any] = {
        "version": version,
        "leaderId": leader_id,
        "voters": voters,
        "grantingVoters": granting_voters,
    }
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = other_tags(data, at, end, count, fields)
    return fields, at


READERS: Readers = (
    ((_v0, ""),),
    ((_v1, ""),),
)
