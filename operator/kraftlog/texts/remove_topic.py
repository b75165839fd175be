"""REMOVE_TOPIC_RECORD, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct

from kraftlog.decoders.parts import read_unsigned
from kraftlog.texts.parts import Texts, unknown_tag, uuid

_UUID = Struct(">16s")


def _v0(data: bytes, at: int) -> tuple[str, int]:
    (topic_id,) = _UUID.unpack_from(data, at)
    at += 16
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        raise unknown_tag(data[at])
    found = f'{{"topicId":{uuid(topic_id)}}}'
    return found, at


TEXTS: Texts = (_v0,)
