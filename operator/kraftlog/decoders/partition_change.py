"""PARTITION_CHANGE_RECORD, versions 0 to 2.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct, unpack_from
from typing import Any
from uuid import UUID

from kraftlog.decoders.parts import (
    Readers,
    bytes_missing,
    read_unsigned,
    tags_out_of_order,
    too_many,
    uuid_of,
    wrong_value_size,
)
from kraftlog.schema.types import UNKNOWN_TAGS

_INT32_UUID = Struct(">i16s")
_INT32 = Struct(">i")
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
            size = data[at]
            at += 1
            if size > 127:
                size, at = read_unsigned(data, at - 1)
            if not size:
                isr: tuple[int, ...] | None = None
            else:
                if size - 1 > (stop - at) // 4:
                    raise too_many("isr", size - 1, stop - at)
                isr = unpack_from(f">{size - 1}i", data, at)
                at += (size - 1) * 4
            fields["isr"] = isr
            if at != stop:
                raise wrong_value_size("isr", at, stop)
        elif tag == 1:
            (leader,) = _INT32.unpack_from(data, at)
            at += 4
            fields["leader"] = leader
            if at != stop:
                raise wrong_value_size("leader", at, stop)
        elif tag == 2:
            size = data[at]
            at += 1
            if size > 127:
                size, at = read_unsigned(data, at - 1)
            if not size:
                replicas: tuple[int, ...] | None = None
            else:
                if size - 1 > (stop - at) // 4:
                    raise too_many("replicas", size - 1, stop - at)
                replicas = unpack_from(f">{size - 1}i", data, at)
                at += (size - 1) * 4
            fields["replicas"] = replicas
            if at != stop:
                raise wrong_value_size("replicas", at, stop)
        elif tag == 3:
            size = data[at]
            at += 1
            if size > 127:
                size, at = read_unsigned(data, at - 1)
            if not size:
                removing_replicas: tuple[int, ...] | None = None
            else:
                if size - 1 > (stop - at) // 4:
                    raise too_many("removingReplicas", size - 1, stop - at)
                removing_replicas = unpack_from(f">{size - 1}i", data, at)
                at += (size - 1) * 4
            fields["removingReplicas"] = removing_replicas
            if at != stop:
                raise wrong_value_size("removingReplicas", at, stop)
        elif tag == 4:
            size = data[at]
            at += 1
            if size > 127:
                size, at = read_unsigned(data, at - 1)
            if not size:
                adding_replicas: tuple[int, ...] | None = None
            else:
                if size - 1 > (stop - at) // 4:
                    raise too_many("addingReplicas", size - 1, stop - at)
                adding_replicas = unpack_from(f">{size - 1}i", data, at)
                at += (size - 1) * 4
            fields["addingReplicas"] = adding_replicas
            if at != stop:
                raise wrong_value_size("addingReplicas", at, stop)
        elif tag == 5:
            (leader_recovery_state,) = _INT8.unpack_from(data, at)
            at += 1
            fields["leaderRecoveryState"] = leader_recovery_state
            if at != stop:
                raise wrong_value_size("leaderRecoveryState", at, stop)
        elif tag == 6 and version >= 2:
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
        elif tag == 7 and version >= 2:
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
        elif tag == 8 and version >= 1:
            size = data[at]
            at += 1
            if size > 127:
                size, at = read_unsigned(data, at - 1)
            if not size:
                directories: tuple[UUID, ...] | None = None
            else:
                if size - 1 > (stop - at) // 16:
                    raise too_many("directories", size - 1, stop - at)
                behind = at + (size - 1) * 16
                directories = tuple([uuid_of(data[each : each + 16]) for each in range(at, behind, 16)])
                at = behind
            fields["directories"] = directories
            if at != stop:
                raise wrong_value_size("directories", at, stop)
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
    fields: dict[str, Any] = {"partitionId": partition_id, "topicId": uuid_of(topic_id)}
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
    fields: dict[str, Any] = {"partitionId": partition_id, "topicId": uuid_of(topic_id)}
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
    fields: dict[str, Any] = {"partitionId": partition_id, "topicId": uuid_of(topic_id)}
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
