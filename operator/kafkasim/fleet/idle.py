"""The NoOps of an idle controller, a batch each: most of a metadata log, made many at once.

Called by `history` while time passes, and by `files` when the log is written. Batches differ only in offset and time,
and CRC-32C is linear, so their checksums are combined from tables.
"""

from __future__ import annotations

from functools import cache

import google_crc32c
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kafkafeatures.api.values import replace
from kafkasim.log import Write, encode
from kraftlog.batches import CRC_START
from kraftlog.schema import table

_OFFSET, _EPOCH, _CRC, _BASE_TIME, _MAX_TIME = slice(0, 8), slice(12, 16), slice(17, 21), slice(27, 35), slice(35, 43)
"""Bytes of the header of a batch in which batches of a run differ from each other, or from other runs."""


class IdleRun(Struct, frozen=True):
    """`count` batches from `base_offset` on, the first one at `first_ms`, and another one every `every_ms`."""

    base_offset: int
    count: int
    epoch: int
    first_ms: int
    every_ms: int

    @property
    def end_offset(self) -> int:
        """The offset behind the last batch."""
        return self.base_offset + self.count

    @property
    def last_ms(self) -> int:
        """The timestamp of the last batch."""
        return self.first_ms + (self.count - 1) * self.every_ms

    def split(self, count: int) -> tuple[IdleRun, IdleRun]:
        """The first `count` batches, and the remaining ones. `count` is at least 1, and less than there are."""
        later = replace(
            self,
            base_offset=self.base_offset + count,
            count=self.count - count,
            first_ms=self.first_ms + count * self.every_ms,
        )
        return replace(self, count=count), later

    @property
    def data(self) -> bytes:
        """The batches as a controller writes them."""
        steps = np.arange(self.count, dtype=np.int64)
        offsets, times = _big(self.base_offset + steps), _big(self.first_ms + steps * self.every_ms)
        batches = np.tile(np.frombuffer(_batch(bytes(8)), np.uint8), (self.count, 1))
        batches[:, _OFFSET] = offsets
        batches[:, _EPOCH] = np.frombuffer(self.epoch.to_bytes(4, "big"), np.uint8)
        batches[:, _BASE_TIME] = batches[:, _MAX_TIME] = times
        crc = np.full(self.count, google_crc32c.value(_batch(bytes(8))[CRC_START:]), np.uint32)
        for number, differences in enumerate(_differences()):
            crc ^= differences[times[:, number]]
        batches[:, _CRC] = crc.astype(">u4").view(np.uint8).reshape(-1, 4)
        return batches.tobytes()


def _big(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    return numbers.astype(">i8").view(np.uint8).reshape(-1, 8)


def _batch(time: bytes) -> bytes:
    """A batch with a NoOp at offset 0 and this timestamp, in 8 bytes."""
    return encode([Write(table.NO_OP, {})], base_offset=0, epoch=0, timestamp_ms=int.from_bytes(time, "big"))


@cache
def _differences() -> tuple[NDArray[np.uint32], ...]:
    """For each byte of the timestamp: how each of its values changes the checksum, to be combined by XOR."""
    of_time_zero = google_crc32c.value(_batch(bytes(8))[CRC_START:])

    def difference(number: int, value: int) -> int:
        time = bytes(value if each == number else 0 for each in range(8))
        return int(google_crc32c.value(_batch(time)[CRC_START:]) ^ of_time_zero)

    # The highest bit of a time is its sign, which no moment has.
    value_counts = (128, *(256,) * 7)
    return tuple(
        np.array([difference(number, value) for value in range(value_count)], np.uint32)
        for number, value_count in enumerate(value_counts)
    )
