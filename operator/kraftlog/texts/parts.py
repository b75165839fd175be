"""What the writers of texts share: how values are written, as `as_json` writes them, and what is not written here.

Arrays of numbers and uuids are looked up by their bytes: most of a log are of few brokers and topics.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from struct import unpack

from kraftlog.as_json import written
from kraftlog.decoders.parts import uuid_of
from kraftlog.errors import MalformedError

__all__ = ["BOOLEANS", "Text", "Texts", "numbers", "quoted", "unknown_tag", "uuid", "uuids", "written"]

Text = Callable[[bytes, int], tuple[str, int]]
Texts = tuple[Text, ...]
"""By version: what gives the text of a body that has the layout of today, and the position behind it."""

BOOLEANS = "false", "true"
_KEPT = 128  # bytes of an array whose text is kept


def unknown_tag(number: int) -> MalformedError:
    """What is in it could be a secret: that is not decided here."""
    return MalformedError(f"unknown tag {number}")


@lru_cache(maxsize=10_000)
def uuid(data: bytes) -> str:
    """The text of a uuid of 16 bytes."""
    return written(uuid_of(data))


def uuids(data: bytes) -> str:
    """The text of an array of them."""
    return _kept_uuids(data) if len(data) <= _KEPT else _uuids(data)


def numbers(data: bytes) -> str:
    """The text of an array of int32."""
    return _kept_numbers(data) if len(data) <= _KEPT else _numbers(data)


def _uuids(data: bytes) -> str:
    return f"[{','.join([uuid(data[at : at + 16]) for at in range(0, len(data), 16)])}]"


def _numbers(data: bytes) -> str:
    return f"[{','.join(map(str, unpack(f'>{len(data) // 4}i', data)))}]"


_kept_uuids = lru_cache(maxsize=10_000)(_uuids)
_kept_numbers = lru_cache(maxsize=10_000)(_numbers)
