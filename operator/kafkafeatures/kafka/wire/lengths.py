"""Checks every length inside a message against the remaining bytes, before a codec reserves memory for it.

Called by `codec.py` with every reply, and by the simulator with every request, before kio sees them: kio's native
reader reserves memory for whatever an array claims, and where that fails the process is aborted; no `except` could
catch it. In an accepted message all arrays (also nested ones), strings, byte fields and tagged fields end within the
message, and all arrays together have no more elements than the caller allows.

For each of kio's entity classes it builds, from the annotations, a chain of functions ("steps"), each of which skips
one field of varying size, with the fields of fixed size before it. It shares no code with kio's reader. Values of
fields (texts, codes, booleans) are not checked here.
"""

from __future__ import annotations

import dataclasses
import struct
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from msgspec import Struct

from kafkafeatures.kafka.base.errors import NotKafka

MAX_ITEMS = 50_000
"""Elements of all arrays of one message, unless the caller allows more: ten thousand nodes with all their listeners.
Each costs some 300 bytes.
"""

Step = Callable[[bytes, int, list[int]], int]
"""(data, position of a field, [elements that are still allowed]) -> position after the field. A list, to be changed."""

_SIZES = {
    **dict.fromkeys(("int8", "uint8", "bool"), 1),
    **dict.fromkeys(("int16", "uint16", "error_code"), 2),
    **dict.fromkeys(("int32", "uint32", "timedelta_i32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "timedelta_i64", "datetime_i64"), 8),
    "uuid": 16,
}
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_VARINT_BYTES = 5


def judge(entity: type, data: bytes, position: int = 0, *, most_items: int = MAX_ITEMS) -> int:
    """The position after the entity that begins at `position`. Raises NotKafka if one of its lengths is wrong."""
    try:
        end = _entity(entity).step(data, position, [most_items])
    except (IndexError, struct.error):
        end = len(data) + 1
    if end > len(data):
        raise _undecodable("it is cut")
    return end


def _undecodable(reason: str) -> NotKafka:
    return NotKafka(
        f"an answer that does not decode: {reason}",
        remedy="check the port, and proxies on the way to the node",
        sent=True,
    )


class _Part(Struct, frozen=True):
    """A field. `least`: its smallest size in bytes. `step` None: it always has that size."""

    least: int
    step: Step | None = None


class _Entity(Struct, frozen=True):
    """A structure, such as the element of an array."""

    least: int
    step: Step
    # its size without tagged fields, if it may have tagged fields and all others are of fixed size; else None
    stride: int | None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(the number at this position, the position after it)."""
    value = shift = 0
    for end in range(at, at + _VARINT_BYTES):
        byte = data[end]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, end + 1
        shift += 7
    raise _undecodable(f"a number of more than {_VARINT_BYTES} bytes")


def _compact(data: bytes, at: int) -> tuple[int, int]:
    """A compact length (KIP-482), which is sent as a varint of length + 1; null becomes -1."""
    value = data[at]
    if value < 0x80:
        return value - 1, at + 1
    value, at = _varint(data, at)
    return value - 1, at


def _legacy(width: struct.Struct) -> Callable[[bytes, int], tuple[int, int]]:
    """A reader of lengths of fixed size, as in messages that are not flexible (KIP-482); -1 is null."""

    def read(data: bytes, at: int) -> tuple[int, int]:
        (value,) = width.unpack_from(data, at)
        if value < -1:
            raise _undecodable(f"a length of {value}")
        return value, at + width.size

    return read


_SHORT, _LONG = _legacy(_INT16), _legacy(_INT32)
_LENGTHS = {  # reader of a length -> smallest size of the length itself in bytes
    _compact: 1,
    _SHORT: _INT16.size,
    _LONG: _INT32.size,
}


def _run(reader: Callable[[bytes, int], tuple[int, int]]) -> _Part:
    """A field that is a length and so many bytes after it. An end beyond the data is noticed by the next step, or
    at last by `judge`.
    """

    def step(data: bytes, at: int, _: list[int]) -> int:
        length, at = reader(data, at)
        return at + length if length > 0 else at

    return _Part(_LENGTHS[reader], step)


def _array(reader: Callable[[bytes, int], tuple[int, int]], item: _Part | _Entity, name: str) -> _Part:
    """A field that is an array of `item`. Elements of fixed size are skipped together, since a list of topics may have
    a hundred thousand.
    """
    least, each = item.least, item.step
    stride = item.stride if isinstance(item, _Entity) else None

    def step(data: bytes, at: int, room: list[int]) -> int:
        count, at = reader(data, at)
        if count <= 0:
            return at
        remaining = len(data) - at
        if count * least > remaining:
            raise _undecodable(f"{count} {name} with {max(remaining, 0)} bytes left")
        room[0] -= count
        if room[0] < 0:
            raise _undecodable(f"more {name} than any cluster has")
        if each is None:
            return at + count * least
        if stride is not None and data[at + stride - 1 : at + count * stride : stride].count(0) == count:
            return at + count * stride  # the last byte of each element, its number of tagged fields, is 0
        for _ in range(count):
            at = each(data, at, room)
        return at

    return _Part(_LENGTHS[reader], step)


@cache
def _entity(kind: type) -> _Entity:
    """The step over a structure, by its class."""
    flexible: bool = getattr(kind, "__flexible__")  # noqa: B009 - kio's classes have no type in common
    plain: list[_Part] = []
    tagged: dict[int, _Part] = {}
    for field in dataclasses.fields(kind):
        part = _field(kind, field, flexible)
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = part
        else:
            plain.append(part)
    least = sum(part.least for part in plain) + flexible
    # Fields of fixed size need no step of their own: the next step begins so many bytes later.
    steps: list[tuple[int, Step]] = []
    skipped = 0
    for part in plain:
        if part.step is None:
            skipped += part.least
        else:
            steps.append((skipped, part.step))
            skipped = 0
    trailing_bytes = skipped

    def step(data: bytes, at: int, room: list[int]) -> int:
        for skip, get_behind in steps:
            at = get_behind(data, at + skip, room)
        at += trailing_bytes
        if not flexible:
            return at
        if data[at] == 0:
            return at + 1
        return _tags(kind.__name__, tagged, data, at, room)

    return _Entity(least, step, stride=least if flexible and not steps else None)


def _tags(location: str, known: Mapping[int, _Part], data: bytes, at: int, room: list[int]) -> int:
    """Skip the tagged fields (KIP-482), whose tags must ascend, and whose sizes must be right."""
    count, at = _varint(data, at)
    last_tag = -1
    for _ in range(count):
        tag, at = _varint(data, at)
        size, at = _varint(data, at)
        if tag <= last_tag:
            raise _undecodable(f"tag {tag} after tag {last_tag} in {location}")
        last_tag = tag
        part = known.get(tag)
        if part is None:
            raise NotKafka(
                f"an answer with an unknown field (tag {tag} of {location})",
                remedy="the node is newer than this tool; use a newer version of it",
                sent=True,
            )
        end = at + part.least if part.step is None else part.step(data, at, room)
        if end != at + size:
            raise _undecodable(f"tag {tag} of {location} is not as long as it says")
        at = end
    return at


def _field(kind: type, field: dataclasses.Field[Any], flexible: bool) -> _Part:
    """The step over a field of the class `kind`, by its annotation and kio's metadata. `flexible`: the message has
    compact lengths and tagged fields (KIP-482).
    """
    args = typing.get_args(field.type)
    nullable = isinstance(field.type, types.UnionType) and type(None) in args
    inner = next(arg for arg in args if arg is not type(None)) if nullable else field.type
    is_array = typing.get_origin(inner) is tuple
    of = typing.get_args(inner)[0] if is_array else inner
    if dataclasses.is_dataclass(of):
        item: _Part | _Entity = _entity(typing.cast(type, of))
    else:
        # RequestHeader.json keeps the old layout for the client's id, whatever the header's version is.
        old = not flexible or (kind.__name__ == "RequestHeader" and field.name == "client_id")
        item = _scalar(field.metadata["kafka_type"], old)
    if is_array:
        return _array(_compact if flexible else _LONG, item, field.name)
    if isinstance(item, _Part):
        return item
    return _optional(item) if nullable else _Part(item.least, item.step)


def _scalar(kafka_type: str, old: bool) -> _Part:
    if kafka_type == "string":
        return _run(_SHORT if old else _compact)
    if kafka_type in ("bytes", "records"):
        return _run(_LONG if old else _compact)
    return _Part(_SIZES[kafka_type])


def _optional(item: _Entity) -> _Part:
    """A nullable entity: a byte before it is -1 if it is null (KIP-893)."""

    def step(data: bytes, at: int, room: list[int]) -> int:
        return at + 1 if data[at] == 0xFF else item.step(data, at + 1, room)

    return _Part(1, step)
