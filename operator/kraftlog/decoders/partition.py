"""PARTITION_RECORD, versions 0 to 2.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct, unpack_from
from typing import Any

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

_INT32_UUID = Struct(">i16s")
_INT32_INT32_INT32 = Struct(">iii")
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
            (leader_recovery_state,) = _INT8.unpack_from(data, at)
            at += 1
            fields["leaderRecoveryState"] = leader_recovery_state
            if at != stop:
                raise wrong_value_size("leaderRecoveryState", at, stop)
        elif tag == 1 and version >= 2:
            size = data[at]
            at += 1
            if size > 127:
                size, at = read_unsigned(data, at - 1)
            if not size:
                eligible_leader_replicas: tuple[int, ...] | None = None
            else:
                if size - 1 > (stop - at) // 4:
                    raise too_many("eligibleLeaderReplicas", size - 1, stop - at)
                eligible_leader_replicas = unpack_from(f">{size - 1}i", data, at)
                at += (size - 1) * 4
            fields["eligibleLeaderReplicas"] = eligible_leader_replicas
            if at != stop:
                raise wrong_value_size("eligibleLeaderReplicas", at, stop)
        elif tag == 2 and version >= 2:
            size = data[at]
            at += 1
            if size > 127:
                size, at = read_unsigned(data, at - 1)
            if not size:
                last_known_elr: tuple[int, ...] | None = None
            else:
                if size - 1 > (stop - at) // 4:
                    raise too_many("lastKnownElr", size - 1, stop - at)
                last_known_elr = unpack_from(f">{size - 1}i", data, at)
                at += (size - 1) * 4
            fields["lastKnownElr"] = last_known_elr
            if at != stop:
                raise wrong_value_size("lastKnownElr", at, stop)
        else:
            unknown.append((tag, data[at:stop]))
            at = stop
    if unknown:
        fields[UNKNOWN_TAGS] = tuple(unknown)
    return at


def _v0(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    partition_id, topic_id = _INT32_UUID.unpack_from(data, at)
    at += 20
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("replicas")
    if size - 1 > (end - at) // 4:
        raise too_many("replicas", size - 1, end - at)
    replicas = unpack_from(f">{size - 1}i", data, at)
    at += (size - 1) * 4
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("isr")
    if size - 1 > (end - at) // 4:
        raise too_many("isr", size - 1, end - at)
    isr = unpack_from(f">{size - 1}i", data, at)
    at += (size - 1) * 4
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("removingReplicas")
    if size - 1 > (end - at) // 4:
        raise too_many("removingReplicas", size - 1, end - at)
    removing_replicas = unpack_from(f">{size - 1}i", data, at)
    at += (size - 1) * 4
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("addingReplicas")
    if size - 1 > (end - at) // 4:
        raise too_many("addingReplicas", size - 1, end - at)
    adding_replicas = unpack_from(f">{size - 1}i", data, at)
    at += (size - 1) * 4
    leader, leader_epoch, partition_epoch = _INT32_INT32_INT32.unpack_from(data, at)
    at += 12
    fields: dict[str, Any] = {
        "partitionId": partition_id,
        "topicId": uuid_of(topic_id),
        "replicas": replicas,
        "isr": isr,
        "removingReplicas": removing_replicas,
        "addingReplicas": adding_replicas,
        "leader": leader,
        "leaderEpoch": leader_epoch,
        "partitionEpoch": partition_epoch,
    }
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = _tags(data, at, end, count, fields, 0)
    return fields, at


def _v1(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    partition_id, topic_id = _INT32_UUID.unpack_from(data, at)
    at += 20
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("replicas")
    if size - 1 > (end - at) // 4:
        raise too_many("replicas", size - 1, end - at)
    replicas = unpack_from(f">{size - 1}i", data, at)
    at += (size - 1) * 4
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("isr")
    if size - 1 > (end - at) // 4:
        raise too_many("isr", size - 1, end - at)
    isr = unpack_from(f">{size - 1}i", data, at)
    at += (size - 1) * 4
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("removingReplicas")
    if size - 1 > (end - at) // 4:
        raise too_many("removingReplicas", size - 1, end - at)
    removing_replicas = unpack_from(f">{size - 1}i", data, at)
    at += (size - 1) * 4
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("addingReplicas")
    if size - 1 > (end - at) // 4:
        raise too_many("addingReplicas", size - 1, end - at)
    adding_replicas = unpack_from(f">{size - 1}i", data, at)
    at += (size - 1) * 4
    leader, leader_epoch, partition_epoch = _INT32_INT32_INT32.unpack_from(data, at)
    at += 12
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("directories")
    if size - 1 > (end - at) // 16:
        raise too_many("directories", size - 1, end - at)
    behind = at + (size - 1) * 16
    directories = tuple([uuid_of(data[each : each + 16]) for each in range(at, behind, 16)])
    at = behind
    fields: dict[str, Any] = {
        "partitionId": partition_id,
        "topicId": uuid_of(topic_id),
        "replicas": replicas,
        "isr": isr,
        "removingReplicas": removing_replicas,
        "addingReplicas": adding_replicas,
        "leader": leader,
        "leaderEpoch": leader_epoch,
        "partitionEpoch": partition_epoch,
        "directories": directories,
    }
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = _tags(data, at, end, count, fields, 1)
    return fields, at


def _v2(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = len(data)
    partition_id, topic_id = _INT32_UUID.unpack_from(data, at)
    at += 20
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("replicas")
    if size - 1 > (end - at) // 4:
        raise too_many("replicas", size - 1, end - at)
    replicas = unpack_from(f">{size - 1}i", data, at)
    at += (size - 1) * 4
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("isr")
    if size - 1 > (end - at) // 4:
        raise too_many("isr", size - 1, end - at)
    isr = unpack_from(f">{size - 1}i", data, at)
    at += (size - 1) * 4
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("removingReplicas")
    if size - 1 > (end - at) // 4:
        raise too_many("removingReplicas", size - 1, end - at)
    removing_replicas = unpack_from(f">{size - 1}i", data, at)
    at += (size - 1) * 4
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("addingReplicas")
    if size - 1 > (end - at) // 4:
        raise too_many("addingReplicas", size - 1, end - at)
    adding_replicas = unpack_from(f">{size - 1}i", data, at)
    at += (size - 1) * 4
    leader, leader_epoch, partition_epoch = _INT32_INT32_INT32.unpack_from(data, at)
    at += 12
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("directories")
    if size - 1 > (end - at) // 16:
        raise too_many("directories", size - 1, end - at)
    behind = at + (size - 1) * 16
    directories = tuple([uuid_of(data[each : each + 16]) for each in range(at, behind, 16)])
    at = behind
    fields: dict[str, Any] = {
        "partitionId": partition_id,
        "topicId": uuid_of(topic_id),
        "replicas": replicas,
        "isr": isr,
        "removingReplicas": removing_replicas,
        "addingReplicas": adding_replicas,
        "leader": leader,
        "leaderEpoch": leader_epoch,
        "partitionEpoch": partition_epoch,
        "directories": directories,
    }
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        at = _tags(data, at, end, count, fields, 2)
    return fields, at


READERS: Readers = (
    ((_v0, ""),),
    ((_v1, ""),),
    ((_v2, ""),),
)
