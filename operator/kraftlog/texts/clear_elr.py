"""CLEAR_ELR_RECORD, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from kraftlog.decoders.parts import beyond, no_null, read_unsigned
from kraftlog.texts.parts import Texts, quoted, unknown_tag


def _v0(data: bytes, at: int) -> tuple[str, int]:
    end = len(data)
    size = data[at]
    at += 1
    if size > 127:
        size, at = read_unsigned(data, at - 1)
    if not size:
        raise no_null("topicName")
    stop = at + size - 1
    if stop > end:
        raise beyond(size - 1, at, end)
    topic_name = quoted(data[at:stop].decode())
    at = stop
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        raise unknown_tag(data[at])
    found = f'{{"topicName":{topic_name}}}'
    return found, at


TEXTS: Texts = (_v0,)
