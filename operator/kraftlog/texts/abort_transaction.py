"""ABORT_TRANSACTION_RECORD, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from kraftlog.decoders.parts import beyond, misfit, order, read_unsigned
from kraftlog.texts.parts import Texts, quoted, unknown_tag


def _tags(data: bytes, at: int, end: int, count: int) -> tuple[str, int]:
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
                reason = "null"
            else:
                behind = at + size - 1
                if behind > stop:
                    raise beyond(size - 1, at, stop)
                reason = quoted(data[at:behind].decode())
                at = behind
            text += f',"reason":{reason}'
            if at != stop:
                raise misfit("reason", at, stop)
        else:
            raise unknown_tag(tag)
    return text, at


def _v0(data: bytes, at: int) -> tuple[str, int]:
    end = len(data)
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    tags = ""
    if count:
        tags, at = _tags(data, at, end, count)
    found = f"{{{tags[1:]}}}"
    return found, at


TEXTS: Texts = (_v0,)
