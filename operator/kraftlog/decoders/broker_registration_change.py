"""BROKER_REGISTRATION_CHANGE_RECORD, versions 0 to 3.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Any
from uuid import UUID

from kraftlog.decoders.parts import (
    Readers,
    bytes_missing,
    no_null,
    read_unsigned,
    tags_out_of_order,
    too_many,
    uuid_of,
    wrong_value_size,
)
from kraftlog.schema.types import UNKNOWN_TAGS

_INT32_INT64 = Struct(">iq")
_INT8 = Struct(">b")


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
            (fenced,) = _INT8.unpack_from(data, at)
            at += 1
            fields["fenced"] = fenced
            if at != stop:
                raise wrong_value_size("fenced", at, stop)
        elif tag == 1 and version >= 1:
            (in_controlled_shutdown,) = _INT8.unpack_from(data, at)
            at += 1
            fields["inControlledShutdown"] = in_controlled_shutdown
            if at != stop:
                raise wrong_value_size("inControlledShutdown", at, stop)
        elif tag == 2 and version >= 2:
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
        elif tag == 3 and version >= 3:
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


def _v0(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    broker_id, broker_epoch = _INT32_INT64.unpack_from(data, at)
    at += 12
    fields: dict[str, Any] = {"brokerId": broker_id, "brokerEpoch": broker_epoch}
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = _tags(data, at, end, count, fields, 0)
    return fields, at


def _v1(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    broker_id, broker_epoch = _INT32_INT64.unpack_from(data, at)
    at += 12
    fields: dict[str, Any] = {"brokerId": broker_id, "brokerEpoch": broker_epoch}
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = _tags(data, at, end, count, fields, 1)
    return fields, at


def _v2(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    broker_id, broker_epoch = _INT32_INT64.unpack_from(data, at)
    at += 12
    fields: dict[str, Any] = {"brokerId": broker_id, "brokerEpoch": broker_epoch}
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = _tags(data, at, end, count, fields, 2)
    return fields, at


def _v3(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    broker_id, broker_epoch = _INT32_INT64.unpack_from(data, at)
    at += 12
    fields: dict[str, Any] = {"brokerId": broker_id, "brokerEpoch": broker_epoch}
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = _tags(data, at, end, count, fields, 3)
    return fields, at


READERS: Readers = (
    ((_v0, ""),),
    ((_v1, ""),),
    ((_v2, ""),),
    ((_v3, ""),),
)
