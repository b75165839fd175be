"""REGISTER_BROKER_RECORD, versions 0 to 4.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct

from kraftlog.decoders.parts import beyond, misfit, no_boolean, no_null, order, read_unsigned, too_many
from kraftlog.texts.parts import BOOLEANS, Texts, quoted, unknown_tag, uuid, uuids

_INT32_UUID_INT64 = Struct(">i16sq")
_UINT16_INT16 = Struct(">Hh")
_INT16_INT16 = Struct(">hh")
_BOOL = Struct(">B")
_BOOL_BOOL = Struct(">BB")
_INT32_BOOL_UUID_INT64 = Struct(">iB16sq")


def _items_of_end_points(data: bytes, at: int, end: int, items: int) -> tuple[str, int]:
    every = []
    for _ in range(items):
        size = data[at]
        at += 1
        if size > 127:
            size, at = read_unsigned(data, at - 1)
        if not size:
            raise no_null("name")
        stop = at + size - 1
        if stop > end:
            raise beyond(size - 1, at, end)
        name = quoted(data[at:stop].decode())
        at = stop
        size = data[at]
        at += 1
        if size > 127:
            size, at = read_unsigned(data, at - 1)
        if not size:
            raise no_null("host")
        stop = at + size - 1
        if stop > end:
            raise beyond(size - 1, at, end)
        host = quoted(data[at:stop].decode())
        at = stop
        port, security_protocol = _UINT16_INT16.unpack_from(data, at)
        at += 4
        count = data[at]
        at += 1
        if count > 127:
            count, at = read_unsigned(data, at - 1)
        if count:
            raise unknown_tag(data[at])
        each = f'{{"name":{name},"host":{host},"port":{port},"securityProtocol":{security_protocol}}}'
        every.append(each)
    return f"[{','.join(every)}]", at


def _items_of_features(data: bytes, at: int, end: int, items: int) -> tuple[str, int]:
    every = []
    for _ in range(items):
        size = data[at]
        at += 1
        if size > 127:
            size, at = read_unsigned(data, at - 1)
        if not size:
            raise no_null("name")
        stop = at + size - 1
        if stop > end:
            raise beyond(size - 1, at, end)
        name = quoted(data[at:stop].decode())
        at = stop
        min_supported_version, max_supported_version = _INT16_INT16.unpack_from(data, at)
        at += 4
        count = data[at]
        at += 1
        if count > 127:
            count, at = read_unsigned(data, at - 1)
        if count:
            raise unknown_tag(data[at])
        each = (
            f"{{"
            f'"name":{name}'
            f',"minSupportedVersion":{min_supported_version}'
            f',"maxSupportedVersion":{max_supported_version}'
            f"}}"
        )
        every.append(each)
    return f"[{','.join(every)}]", at


def _v0(data: bytes, at: int) -> tuple[str, int]:
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
        rack = "null"
    else:
        stop = at + size - 1
        if stop > end:
            raise beyond(size - 1, at, end)
        rack = quoted(data[at:stop].decode())
        at = stop
    (fenced,) = _BOOL.unpack_from(data, at)
    at += 1
    if fenced > 1:
        raise no_boolean("fenced", fenced)
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        raise unknown_tag(data[at])
    found = (
        f"{{"
        f'"brokerId":{broker_id}'
        f',"incarnationId":{uuid(incarnation_id)}'
        f',"brokerEpoch":{broker_epoch}'
        f',"endPoints":{end_points}'
        f',"features":{features}'
        f',"rack":{rack}'
        f',"fenced":{BOOLEANS[fenced]}'
        f"}}"
    )
    return found, at


def _v1(data: bytes, at: int) -> tuple[str, int]:
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
        rack = "null"
    else:
        stop = at + size - 1
        if stop > end:
            raise beyond(size - 1, at, end)
        rack = quoted(data[at:stop].decode())
        at = stop
    fenced, in_controlled_shutdown = _BOOL_BOOL.unpack_from(data, at)
    at += 2
    if fenced > 1:
        raise no_boolean("fenced", fenced)
    if in_controlled_shutdown > 1:
        raise no_boolean("inControlledShutdown", in_controlled_shutdown)
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        raise unknown_tag(data[at])
    found = (
        f"{{"
        f'"brokerId":{broker_id}'
        f',"incarnationId":{uuid(incarnation_id)}'
        f',"brokerEpoch":{broker_epoch}'
        f',"endPoints":{end_points}'
        f',"features":{features}'
        f',"rack":{rack}'
        f',"fenced":{BOOLEANS[fenced]}'
        f',"inControlledShutdown":{BOOLEANS[in_controlled_shutdown]}'
        f"}}"
    )
    return found, at


def _v2(data: bytes, at: int) -> tuple[str, int]:
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
        rack = "null"
    else:
        stop = at + size - 1
        if stop > end:
            raise beyond(size - 1, at, end)
        rack = quoted(data[at:stop].decode())
        at = stop
    fenced, in_controlled_shutdown = _BOOL_BOOL.unpack_from(data, at)
    at += 2
    if fenced > 1:
        raise no_boolean("fenced", fenced)
    if in_controlled_shutdown > 1:
        raise no_boolean("inControlledShutdown", in_controlled_shutdown)
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        raise unknown_tag(data[at])
    found = (
        f"{{"
        f'"brokerId":{broker_id}'
        f',"isMigratingZkBroker":{BOOLEANS[is_migrating_zk_broker]}'
        f',"incarnationId":{uuid(incarnation_id)}'
        f',"brokerEpoch":{broker_epoch}'
        f',"endPoints":{end_points}'
        f',"features":{features}'
        f',"rack":{rack}'
        f',"fenced":{BOOLEANS[fenced]}'
        f',"inControlledShutdown":{BOOLEANS[in_controlled_shutdown]}'
        f"}}"
    )
    return found, at


def _tags(data: bytes, at: int, end: int, count: int, version: int) -> tuple[str, int]:
    previous = -1
    text = ""
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
            raise order(tag, previous)
        previous = tag
        stop = at + size
        if stop > end:
            raise beyond(size, at, end)
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
            log_dirs = uuids(data[at:behind])
            at = behind
            text += f',"logDirs":{log_dirs}'
            if at != stop:
                raise misfit("logDirs", at, stop)
        elif tag == 1 and version >= 4:
            size = data[at]
            at += 1
            if size > 127:
                size, at = read_unsigned(data, at - 1)
            if not size:
                cordoned_log_dirs = "null"
            else:
                if size - 1 > (stop - at) // 16:
                    raise too_many("cordonedLogDirs", size - 1, stop - at)
                behind = at + (size - 1) * 16
                cordoned_log_dirs = uuids(data[at:behind])
                at = behind
            text += f',"cordonedLogDirs":{cordoned_log_dirs}'
            if at != stop:
                raise misfit("cordonedLogDirs", at, stop)
        else:
            raise unknown_tag(tag)
    return text, at


def _v3(data: bytes, at: int) -> tuple[str, int]:
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
        rack = "null"
    else:
        stop = at + size - 1
        if stop > end:
            raise beyond(size - 1, at, end)
        rack = quoted(data[at:stop].decode())
        at = stop
    fenced, in_controlled_shutdown = _BOOL_BOOL.unpack_from(data, at)
    at += 2
    if fenced > 1:
        raise no_boolean("fenced", fenced)
    if in_controlled_shutdown > 1:
        raise no_boolean("inControlledShutdown", in_controlled_shutdown)
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    tags = ""
    if count:
        tags, at = _tags(data, at, end, count, 3)
    found = (
        f"{{"
        f'"brokerId":{broker_id}'
        f',"isMigratingZkBroker":{BOOLEANS[is_migrating_zk_broker]}'
        f',"incarnationId":{uuid(incarnation_id)}'
        f',"brokerEpoch":{broker_epoch}'
        f',"endPoints":{end_points}'
        f',"features":{features}'
        f',"rack":{rack}'
        f',"fenced":{BOOLEANS[fenced]}'
        f',"inControlledShutdown":{BOOLEANS[in_controlled_shutdown]}'
        f"{tags}"
        f"}}"
    )
    return found, at


def _v4(data: bytes, at: int) -> tuple[str, int]:
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
        rack = "null"
    else:
        stop = at + size - 1
        if stop > end:
            raise beyond(size - 1, at, end)
        rack = quoted(data[at:stop].decode())
        at = stop
    fenced, in_controlled_shutdown = _BOOL_BOOL.unpack_from(data, at)
    at += 2
    if fenced > 1:
        raise no_boolean("fenced", fenced)
    if in_controlled_shutdown > 1:
        raise no_boolean("inControlledShutdown", in_controlled_shutdown)
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    tags = ""
    if count:
        tags, at = _tags(data, at, end, count, 4)
    found = (
        f"{{"
        f'"brokerId":{broker_id}'
        f',"isMigratingZkBroker":{BOOLEANS[is_migrating_zk_broker]}'
        f',"incarnationId":{uuid(incarnation_id)}'
        f',"brokerEpoch":{broker_epoch}'
        f',"endPoints":{end_points}'
        f',"features":{features}'
        f',"rack":{rack}'
        f',"fenced":{BOOLEANS[fenced]}'
        f',"inControlledShutdown":{BOOLEANS[in_controlled_shutdown]}'
        f"{tags}"
        f"}}"
    )
    return found, at


TEXTS: Texts = (
    _v0,
    _v1,
    _v2,
    _v3,
    _v4,
)
