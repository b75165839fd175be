"""KRAFT_VOTERS, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from kraftlog.decoders.parts import Readers, bytes_missing, no_null, other_tags, read_unsigned, too_many, uuid_of

_INT16 = Struct(">h")
_INT32_UUID = Struct(">i16s")
_UINT16 = Struct(">H")
_INT16_INT16 = Struct(">hh")


def _items_of_endpoints(data: bytes, at: int, end: int, items: int) -> tuple[tuple[Any, ...], int]:
    values = []
    for _ in range(items):
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
            raise no_null("host")
        stop = at + size - 1
        if stop > end:
            raise bytes_missing(size - 1, at, end)
        host = data[at:stop].decode()
        at = stop
        (port,) = _UINT16.unpack_from(data, at)
        at += 2
        each: dict[str, Any] = {"name": name, "host": host, "port": port}
        count = data[at]
        at += 1
        if count > 127:
            count, at = read_unsigned(data, at - 1)
        if count:
            at = other_tags(data, at, end, count, each)
        values.append(each)
    return tuple(values), at


def _struct_v0_voters_k_raft_version_feature(data: bytes, at: int, end: int) -> tuple[dict[str, Any], int]:
    min_supported_version, max_supported_version = _INT16_INT16.unpack_from(data, at)
    at += 4
    fields: dict[str, Any] = {
        "minSupportedVersion": min_supported_version,
        "maxSupportedVersion": max_supported_version,
    }
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = other_tags(data, at, end, count, fields)
    return fields, at


def _items_of_voters(data: bytes, at: int, end: int, items: int) -> tuple[tuple[Any, ...], int]:
    values = []
    for _ in range(items):
        voter_id, voter_directory_id = _INT32_UUID.unpack_from(data, at)
        at += 20
        size = data[at]
        at += 1
        if size > 127:
            size, at = read_unsigned(data, at - 1)
        if not size:
            raise no_null("endpoints")
        if size - 1 > (end - at) // 5:
            raise too_many("endpoints", size - 1, end - at)
        endpoints, at = _items_of_endpoints(data, at, end, size - 1)
        k_raft_version_feature, at = _struct_v0_voters_k_raft_version_feature(data, at, end)
        each: dict[str, Any] = {
            "voterId": voter_id,
            "voterDirectoryId": uuid_of(voter_directory_id),
            "endpoints": endpoints,
            "kRaftVersionFeature": k_raft_version_feature,
        }
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
    (version,) = _INT16.unpack_from(data, at)
    at += 2
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("voters")
    if size - 1 > (end - at) // 27:
        raise too_many("voters", size - 1, end - at)
    voters, at = _items_of_voters(data, at, end, size - 1)
    fields: dict[str, Any] = {"version": version, "voters": voters}
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = other_tags(data, at, end, count, fields)
    return fields, at


READERS: Readers = (((_v0, ""),),)
