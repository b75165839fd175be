"""REGISTER_BROKER_RECORD, versions 0 to 4.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Any
from uuid import UUID

from kraftlog.decoders.parts import (
    Readers,
    bytes_missing,
    no_boolean,
    no_null,
    other_tags,
    read_unsigned,
    tags_out_of_order,
    too_many,
    uuid_of,
    wrong_value_size,
)
from kraftlog.schema.types import UNKNOWN_TAGS

_INT32_UUID_INT64 = Struct(">i16sq")
_UINT16_INT16 = Struct(">Hh")
_INT16_INT16 = Struct(">hh")
_BOOL = Struct(">B")
_BOOL_BOOL = Struct(">BB")
_INT32_BOOL_UUID_INT64 = Struct(">iB16sq")


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
    broker_id, incarnation_id, broker_epoch = _INT32_UUID_INT64.unpack_from(data, at)
    at += 28
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
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        rack: str | None = None
    else:
        stop = at + size - 1
        if stop > end:
            raise bytes_missing(size - 1, at, end)
        rack = data[at:stop].decode()
        at = stop
    (fenced,) = _BOOL.unpack_from(data, at)
    at += 1
    if fenced > 1:
        raise no_boolean("fenced", fenced)
    fields: dict[str, Any] = {
        "brokerId": broker_id,
        "incarnationId": uuid_of(incarnation_id),
        "brokerEpoch": broker_epoch,
        "endPoints": end_points,
        "features": features,
        "rack": rack,
        "fenced": fenced == 1,
    }
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = other_tags(data, at, end, count, fields)
    return fields, at


def _v1(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    broker_id, incarnation_id, broker_epoch = _INT32_UUID_INT64.unpack_from(data, at)
    at += 28
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
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        rack: str | None = None
    else:
        stop = at + size - 1
        if stop > end:
            raise bytes_missing(size - 1, at, end)
        rack = data[at:stop].decode()
        at = stop
    fenced, in_controlled_shutdown = _BOOL_BOOL.unpack_from(data, at)
    at += 2
    if fenced > 1:
        raise no_boolean("fenced", fenced)
    if in_controlled_shutdown > 1:
        raise no_boolean("inControlledShutdown", in_controlled_shutdown)
    fields: dict[str, Any] = {
        "brokerId": broker_id,
        "incarnationId": uuid_of(incarnation_id),
        "brokerEpoch": broker_epoch,
        "endPoints": end_points,
        "features": features,
        "rack": rack,
        "fenced": fenced == 1,
        "inControlledShutdown": in_controlled_shutdown == 1,
    }
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = other_tags(data, at, end, count, fields)
    return fields, at


def _v2(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    broker_id, is_migrating_zk_broker, incarnation_id, broker_epoch = _INT32_BOOL_UUID_INT64.unpack_from(data, at)
    at += 29
    if is_migrating_zk_broker > 1:
        raise no_boolean("isMigratingZkBroker", is_migrating_zk_broker)
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
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        rack: str | None = None
    else:
        stop = at + size - 1
        if stop > end:
            raise bytes_missing(size - 1, at, end)
        rack = data[at:stop].decode()
        at = stop
    fenced, in_controlled_shutdown = _BOOL_BOOL.unpack_from(data, at)
    at += 2
    if fenced > 1:
        raise no_boolean("fenced", fenced)
    if in_controlled_shutdown > 1:
        raise no_boolean("inControlledShutdown", in_controlled_shutdown)
    fields: dict[str, Any] = {
        "brokerId": broker_id,
        "isMigratingZkBroker": is_migrating_zk_broker == 1,
        "incarnationId": uuid_of(incarnation_id),
        "brokerEpoch": broker_epoch,
        "endPoints": end_points,
        "features": features,
        "rack": rack,
        "fenced": fenced == 1,
        "inControlledShutdown": in_controlled_shutdown == 1,
    }
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = other_tags(data, at, end, count, fields)
    return fields, at


def _tags(data: bytes, at: int, end: int, count: int, fields: dict[str, Any], version: int) -> int:
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
                raise no_null("logDirs")
            if size - 1 > (stop - at) // 16:
                raise too_many("logDirs", size - 1, stop - at)
            behind = at + (size - 1) * 16
            log_dirs = tuple([uuid_of(data[each : each + 16]) for each in range(at, behind, 16)])
            at = behind
            fields["logDirs"] = log_dirs
            if at != stop:
                raise wrong_value_size("logDirs", at, stop)
        elif tag == 1 and version >= 4:
            size = data[at]
            at += 1
            if size > 127:
                size, at = read_unsigned(data, at - 1)
            if not size:
                cordoned_log_dirs: tuple[UUID, ...] | None = None
            else:
                if size - 1 > (stop - at) // 16:
                    raise too_many("cordonedLogDirs", size - 1, stop - at)
                behind = at + (size - 1) * 16
                cordoned_log_dirs = tuple([uuid_of(data[each : each + 16]) for each in range(at, behind, 16)])
                at = behind
            fields["cordonedLogDirs"] = cordoned_log_dirs
            if at != stop:
                raise wrong_value_size("cordonedLogDirs", at, stop)
        else:
            unknown.append((tag, data[at:stop]))
            at = stop
    if unknown:
        fields[UNKNOWN_TAGS] = tuple(unknown)
    return at


def _v3(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    broker_id, is_migrating_zk_broker, incarnation_id, broker_epoch = _INT32_BOOL_UUID_INT64.unpack_from(data, at)
    at += 29
    if is_migrating_zk_broker > 1:
        raise no_boolean("isMigratingZkBroker", is_migrating_zk_broker)
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
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        rack: str | None = None
    else:
        stop = at + size - 1
        if stop > end:
            raise bytes_missing(size - 1, at, end)
        rack = data[at:stop].decode()
        at = stop
    fenced, in_controlled_shutdown = _BOOL_BOOL.unpack_from(data, at)
    at += 2
    if fenced > 1:
        raise no_boolean("fenced", fenced)
    if in_controlled_shutdown > 1:
        raise no_boolean("inControlledShutdown", in_controlled_shutdown)
    fields: dict[str, Any] = {
        "brokerId": broker_id,
        "isMigratingZkBroker": is_migrating_zk_broker == 1,
        "incarnationId": uuid_of(incarnation_id),
        "brokerEpoch": broker_epoch,
        "endPoints": end_points,
        "features": features,
        "rack": rack,
        "fenced": fenced == 1,
        "inControlledShutdown": in_controlled_shutdown == 1,
    }
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = _tags(data, at, end, count, fields, 3)
    return fields, at


def _v4(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    broker_id, is_migrating_zk_broker, incarnation_id, broker_epoch = _INT32_BOOL_UUID_INT64.unpack_from(data, at)
    at += 29
    if is_migrating_zk_broker > 1:
        raise no_boolean("isMigratingZkBroker", is_migrating_zk_broker)
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
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        rack: str | None = None
    else:
        stop = at + size - 1
        if stop > end:
            raise bytes_missing(size - 1, at, end)
        rack = data[at:stop].decode()
        at = stop
    fenced, in_controlled_shutdown = _BOOL_BOOL.unpack_from(data, at)
    at += 2
    if fenced > 1:
        raise no_boolean("fenced", fenced)
    if in_controlled_shutdown > 1:
        raise no_boolean("inControlledShutdown", in_controlled_shutdown)
    fields: dict[str, Any] = {
        "brokerId": broker_id,
        "isMigratingZkBroker": is_migrating_zk_broker == 1,
        "incarnationId": uuid_of(incarnation_id),
        "brokerEpoch": broker_epoch,
        "endPoints": end_points,
        "features": features,
        "rack": rack,
        "fenced": fenced == 1,
        "inControlledShutdown": in_controlled_shutdown == 1,
    }
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = _tags(data, at, end, count, fields, 4)
    return fields, at


READERS: Readers = (
    ((_v0, ""),),
    ((_v1, ""),),
    ((_v2, ""),),
    ((_v3, ""),),
    ((_v4, ""),),
)
