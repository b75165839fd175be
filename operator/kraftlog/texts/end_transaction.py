"""END_TRANSACTION_RECORD, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from kraftlog.decoders.parts import read_unsigned
from kraftlog.texts.parts import Texts, unknown_tag


def _v0(data: bytes, at: int) -> tuple[str, int]:
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        raise unknown_tag(data[at])
    found = "{}"
    return found, at


TEXTS: Texts = (_v0,)
