"""PARTITION_RECORD, versions 0 to 2.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct

from kraftlog.decoders.parts import beyond, misfit, no_null, order, read_unsigned, too_many
from kraftlog.texts.parts import Texts, numbers, unknown_tag, uuid, uuids

_INT32_UUID = Struct(">i16s")
_INT32_INT32_INT32 = Struct(">iii")
_INT8 = Struct(">b")


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
            (leader_recovery_state,) = _INT8.unpack_from(data, at)
            at += 1
            text += f',"leaderRecoveryState":{leader_recovery_state}'
            if at != stop:
                raise misfit("leaderRecoveryState", at, stop)
        elif tag == 1 and version >= 2:
            size = data[at]
            at += 1
            if size > 127:
                size, at = read_unsigned(data, at - 1)
            if not size:
                eligible_leader_replicas = "null"
            else:
                if size - 1 > (stop - at) // 4:
                    raise too_many("eligibleLeaderReplicas", size - 1, stop - at)
                behind = at + (size - 1) * 4
                eligible_leader_replicas = numbers(data[at:behind])
                at = behind
            text += f',"eligibleLeaderReplicas":{eligible_leader_replicas}'
            if at != stop:
                raise misfit("eligibleLeaderReplicas", at, stop)
        elif tag == 2 and version >= 2:
            size = data[at]
            at += 1
            if size > 127:
                size, at = read_unsigned(data, at - 1)
            if not size:
                last_known_elr = "null"
            else:
                if size - 1 > (stop - at) // 4:
                    raise too_many("lastKnownElr", size - 1, stop - at)
                behind = at + (size - 1) * 4
                last_known_elr = numbers(data[at:behind])
                at = behind
            text += f',"lastKnownElr":{last_known_elr}'
            if at != stop:
                raise misfit("lastKnownElr", at, stop)
        else:
            raise unknown_tag(tag)
    return text, at


def _v0(data: bytes, at: int) -> tuple[str, int]:
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
    behind = at + (size - 1) * 4
    replicas = numbers(data[at:behind])
    at = behind
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("isr")
    if size - 1 > (end - at) // 4:
        raise too_many("isr", size - 1, end - at)
    behind = at + (size - 1) * 4
    isr = numbers(data[at:behind])
    at = behind
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("removingReplicas")
    if size - 1 > (end - at) // 4:
        raise too_many("removingReplicas", size - 1, end - at)
    behind = at + (size - 1) * 4
    removing_replicas = numbers(data[at:behind])
    at = behind
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("addingReplicas")
    if size - 1 > (end - at) // 4:
        raise too_many("addingReplicas", size - 1, end - at)
    behind = at + (size - 1) * 4
    adding_replicas = numbers(data[at:behind])
    at = behind
    leader, leader_epoch, partition_epoch = _INT32_INT32_INT32.unpack_from(data, at)
    at += 12
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    tags = ""
    if count:
        tags, at = _tags(data, at, end, count, 0)
    found = (
        f"{{"
        f'"partitionId":{partition_id}'
        f',"topicId":{uuid(topic_id)}'
        f',"replicas":{replicas}'
        f',"isr":{isr}'
        f',"removingReplicas":{removing_replicas}'
        f',"addingReplicas":{adding_replicas}'
        f',"leader":{leader}'
        f',"leaderEpoch":{leader_epoch}'
        f',"partitionEpoch":{partition_epoch}'
        f"{tags}"
        f"}}"
    )
    return found, at


def _v1(data: bytes, at: int) -> tuple[str, int]:
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
    behind = at + (size - 1) * 4
    replicas = numbers(data[at:behind])
    at = behind
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("isr")
    if size - 1 > (end - at) // 4:
        raise too_many("isr", size - 1, end - at)
    behind = at + (size - 1) * 4
    isr = numbers(data[at:behind])
    at = behind
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("removingReplicas")
    if size - 1 > (end - at) // 4:
        raise too_many("removingReplicas", size - 1, end - at)
    behind = at + (size - 1) * 4
    removing_replicas = numbers(data[at:behind])
    at = behind
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("addingReplicas")
    if size - 1 > (end - at) // 4:
        raise too_many("addingReplicas", size - 1, end - at)
    behind = at + (size - 1) * 4
    adding_replicas = numbers(data[at:behind])
    at = behind
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
    directories = uuids(data[at:behind])
    at = behind
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    tags = ""
    if count:
        tags, at = _tags(data, at, end, count, 1)
    found = (
        f"{{"
        f'"partitionId":{partition_id}'
        f',"topicId":{uuid(topic_id)}'
        f',"replicas":{replicas}'
        f',"isr":{isr}'
        f',"removingReplicas":{removing_replicas}'
        f',"addingReplicas":{adding_replicas}'
        f',"leader":{leader}'
        f',"leaderEpoch":{leader_epoch}'
        f',"partitionEpoch":{partition_epoch}'
        f',"directories":{directories}'
        f"{tags}"
        f"}}"
    )
    return found, at


def _v2(data: bytes, at: int) -> tuple[str, int]:
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
    behind = at + (size - 1) * 4
    replicas = numbers(data[at:behind])
    at = behind
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("isr")
    if size - 1 > (end - at) // 4:
        raise too_many("isr", size - 1, end - at)
    behind = at + (size - 1) * 4
    isr = numbers(data[at:behind])
    at = behind
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("removingReplicas")
    if size - 1 > (end - at) // 4:
        raise too_many("removingReplicas", size - 1, end - at)
    behind = at + (size - 1) * 4
    removing_replicas = numbers(data[at:behind])
    at = behind
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("addingReplicas")
    if size - 1 > (end - at) // 4:
        raise too_many("addingReplicas", size - 1, end - at)
    behind = at + (size - 1) * 4
    adding_replicas = numbers(data[at:behind])
    at = behind
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
    directories = uuids(data[at:behind])
    at = behind
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    tags = ""
    if count:
        tags, at = _tags(data, at, end, count, 2)
    found = (
        f"{{"
        f'"partitionId":{partition_id}'
        f',"topicId":{uuid(topic_id)}'
        f',"replicas":{replicas}'
        f',"isr":{isr}'
        f',"removingReplicas":{removing_replicas}'
        f',"addingReplicas":{adding_replicas}'
        f',"leader":{leader}'
        f',"leaderEpoch":{leader_epoch}'
        f',"partitionEpoch":{partition_epoch}'
        f',"directories":{directories}'
        f"{tags}"
        f"}}"
    )
    return found, at


TEXTS: Texts = (
    _v0,
    _v1,
    _v2,
)
