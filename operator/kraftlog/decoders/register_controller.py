"""REGISTER_CONTROLLER_RECORD, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from kraftlog.decoders.parts import (
    Readers,
    bytes_missing,
    no_boolean,
    no_null,
    other_tags,
    read_unsigned,
    too_many,
    uuid_of,
)

_INT32_UUID_BOOL = Struct(">i16sB")
_UINT16_INT16 = Struct(">Hh")
_INT16_INT16 = Struct(">hh")


def _items_of_end_points(data: bytes, at: int, end: int, items: int) -> tuple[tuple[Any, ...], int]:
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
        port, security_protocol = _UINT16_INT16.unpack_from(data, at)
        at += 4
        each: dict[str, Any] = {"name": name, "host": host, "port": port, "securityProtocol": security_protocol}
        count = data[at]
        at += 1
        if count > 127:
            count, at = read_unsigned(data, at - 1)
        if count:
            at = other_tags(data, at, end, count, each)
        values.append(each)
    return tuple(values), at


def _items_of_features(data: bytes, at: int, end: int, items: int) -> tuple[tuple[Any, ...], int]:
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
        min_supported_version, max_supported_version = _INT16_INT16.unpack_from(data, at)
        at += 4
        each: dict[str, Any] = {
            "name": name,
            "minSupportedVersion": min_supported_version,
            "maxSupportedVersion": max_supported_version,
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
    controller_id, incarnation_id, zk_migration_ready = _INT32_UUID_BOOL.unpack_from(data, at)
    at += 21
    if zk_migration_ready > 1:
        raise no_boolean("zkMigrationReady", zk_migration_ready)
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("endPoints")
    if size - 1 > (end - at) // 7:
        raise too_many("endPoints", size - 1, end - at)
    end_points, at = _items_of_end_points(data, at, end, size - 1)
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("features")
    if size - 1 > (end - at) // 6:
        raise too_many("features", size - 1, end - at)
    features, at = _items_of_features(data, at, end, size - 1)
    fields: dict[str, Any] = {
        "controllerId": controller_id,
        "incarnationId": uuid_of(incarnation_id),
        "zkMigrationReady": zk_migration_ready == 1,
        "endPoints": end_points,
        "features": features,
    }
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = other_tags(data, at, end, count, fields)
    return fields, at


READERS: Readers = (((_v0, ""),),)
