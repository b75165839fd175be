"""REGISTER_CONTROLLER_RECORD, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct

from kraftlog.decoders.parts import beyond, no_boolean, no_null, read_unsigned, too_many
from kraftlog.texts.parts import BOOLEANS, Texts, quoted, unknown_tag, uuid

_INT32_UUID_BOOL = Struct(">i16sB")
_UINT16_INT16 = Struct(">Hh")
_INT16_INT16 = Struct(">hh")


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
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        raise unknown_tag(data[at])
    found = (
        f"{{"
        f'"controllerId":{controller_id}'
        f',"incarnationId":{uuid(incarnation_id)}'
        f',"zkMigrationReady":{BOOLEANS[zk_migration_ready]}'
        f',"endPoints":{end_points}'
        f',"features":{features}'
        f"}}"
    )
    return found, at


TEXTS: Texts = (_v0,)
