"""What the decoders share: what they say of bytes that do not fit, tags that no table knows, and uuids.

Errors are made here and raised there. None of them quotes a record: records may hold secrets.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any
from uuid import UUID

from kraftlog.errors import MalformedError
from kraftlog.schema.types import UNKNOWN_TAGS
from kraftlog.varints import read_unsigned

__all__ = ["Reader", "Readers", "beyond", "misfit", "no_boolean", "no_null", "order", "other_tags", "read_unsigned",
           "too_many", "uuid_of"]  # fmt: skip

Reader = Callable[[bytes, int], tuple[dict[str, Any], int]]
Readers = tuple[tuple[tuple[Reader, str], ...], ...]
"""By version: each layout's reader, and the name of the layout, the one of today first."""


def beyond(size: int, at: int, end: int) -> MalformedError:
    """Bytes that are not there."""
    return MalformedError(f"{size} bytes wanted at byte {at} of {end}")


def too_many(name: str, items: int, left: int) -> MalformedError:
    """More items than the bytes that are left can hold: said before memory is taken for them."""
    return MalformedError(f"{items} items of {name} in {left} bytes")


def no_null(name: str) -> MalformedError:
    """A length of 0 in front of what cannot be null."""
    return MalformedError(f"null for {name}")


def no_boolean(name: str, byte: int) -> MalformedError:
    """Kafka takes any other byte as true; it never writes one, and it would not come back bit for bit."""
    return MalformedError(f"{byte} for a boolean ({name})")


def order(tag: int, previous: int) -> MalformedError:
    """KIP-482: ascending, each once."""
    return MalformedError(f"tag {tag} after tag {previous}")


def misfit(name: str, at: int, stop: int) -> MalformedError:
    """A tagged value that ends elsewhere than its size says."""
    where = f"{stop - at} bytes behind" if at < stop else f"{at - stop} bytes missing of"
    return MalformedError(f"{where} the value of {name}")


def other_tags(data: bytes, at: int, end: int, count: int, fields: dict[str, Any]) -> int:
    """The tagged section of a struct that has no tags of its own: all are kept. Gives the position behind it."""
    previous = -1
    unknown = []
    for _ in range(count):
        tag, at = read_unsigned(data, at)
        size, at = read_unsigned(data, at)
        if tag <= previous:
            raise order(tag, previous)
        previous = tag
        stop = at + size
        if stop > end:
            raise beyond(size, at, end)
        unknown.append((tag, data[at:stop]))
        at = stop
    fields[UNKNOWN_TAGS] = tuple(unknown)
    return at


@lru_cache(maxsize=10_000)  # most of a log are of few topics
def uuid_of(data: bytes) -> UUID:
    """The uuid in 16 bytes; cheaper than `UUID(bytes=...)`."""
    return UUID(int=int.from_bytes(data))
