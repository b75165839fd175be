"""PRODUCER_IDS_RECORD, version 0.

Made of the schema tables by `python -m tests.kraftlog.generate`; do not edit.
"""

from __future__ import annotations

from struct import Struct

from kraftlog.decoders.parts import read_unsigned
from kraftlog.texts.parts import Texts, unknown_tag

_INT32_INT64_INT64 = Struct(">iqq")


def _v0(data: bytes, at: int) -> tuple[str, int]:
    broker_id, broker_epoch, next_producer_id = _INT32_INT64_INT64.unpack_from(data, at)
    at += 20
    count = data[at]
    at += 1
    if count > 127:
        count, at = read_unsigned(data, at - 1)
    if count:
        raise unknown_tag(data[at])
    found = f'{{"brokerId":{broker_id},"brokerEpoch":{broker_epoch},"nextProducerId":{next_producer_id}}}'
    return found, at


TEXTS: Texts = (_v0,)
