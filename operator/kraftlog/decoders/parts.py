"""Parts that the decoders share: errors for bytes that do not fit the layout, tags that no table has, and uuids.

The functions that return an error do not raise it: the decoder does. No error quotes a record, which may hold secrets.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any
from uuid import UUID

from kraftlog.errors import MalformedError
from kraftlog.schema.types import UNKNOWN_TAGS
from kraftlog.varints import read_unsigned

__all__ = ["Reader", "Readers", "bytes_missing", "no_boolean", "no_null", "other_tags", "read_unsigned",
           "tags_out_of_order", "too_many", "uuid_of", "wrong_value_size"]  # fmt: skip

Reader = Callable[[bytes, int], tuple[dict[str, Any], int]]
Readers = tuple[tuple[tuple[Reader, str], ...], ...]
"""By version: (reader, name of the layout) for each layout of the body that a Kafka release has written under this
version number, the current one first (`schema.types.Layout`).
"""


def bytes_missing(size: int, at: int, end: int) -> MalformedError:
    """Error for a length that goes beyond `end`, where the bytes of the struct end."""
    return MalformedError(f"{size} bytes wanted at byte {at} of {end}")


def too_many(name: str, items: int, left: int) -> MalformedError:
    """Error for more items than the bytes that are left can hold; raised before memory is taken for them."""
    return MalformedError(f"{items} items of {name} in {left} bytes")


def no_null(name: str) -> MalformedError:
    """Error for a length of 0, which means null, of a field that cannot be null."""
    return MalformedError(f"null for {name}")


def no_boolean(name: str, byte: int) -> MalformedError:
    """Error for a boolean that is neither 0 nor 1. Kafka reads such a byte as true, but never writes one; it would not
    be the same byte when encoded again.
    """
    return MalformedError(f"{byte} for a boolean ({name})")


def tags_out_of_order(tag: int, previous: int) -> MalformedError:
    """Error for a tag that is not above the one before it, as KIP-482 demands."""
    return MalformedError(f"tag {tag} after tag {previous}")


def wrong_value_size(name: str, at: int, stop: int) -> MalformedError:
    """Error for a tagged value that was read up to `at`, while its size says that it ends at `stop`."""
    where = f"{stop - at} bytes behind" if at < stop else f"{at - stop} bytes missing of"
    return MalformedError(f"{where} the value of {name}")


def other_tags(data: bytes, at: int, end: int, count: int, fields: dict[str, Any]) -> int:
    """Read the tagged section of a struct that has no tags of its own, into `fields`: `count` tags, which begin at `at`
    and end before `end`. All are kept. Returns the position behind them.
    """
    previous = -1
    unknown = []
    for _ in range(count):
        tag, at = read_unsigned(data, at)
        size, at = read_unsigned(data, at)
        if tag <= previous:
            raise tags_out_of_order(tag, previous)
        previous = tag
        stop = at + size
        if stop > end:
            raise bytes_missing(size, at, end)
        unknown.append((tag, data[at:stop]))
        at = stop
    fields[UNKNOWN_TAGS] = tuple(unknown)
    return at


@lru_cache(maxsize=10_000)  # most of a log are of few topics
def uuid_of(data: bytes) -> UUID:
    """The uuid in 16 bytes; cheaper than `UUID(bytes=...)`."""
    return UUID(int=int.from_bytes(data))
