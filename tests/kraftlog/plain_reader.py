"""A decoder that walks the schema table field by field: what the compiled decoders are held against.

It is slow and plain: no field is taken together with another, and no text is compiled.
"""

from __future__ import annotations

import struct as binary
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any

from kraftlog.errors import MalformedError
from kraftlog.schema.types import UNKNOWN_TAGS, Array, Field, Layout, Scalar, Struct
from kraftlog.varints import read_unsigned

Reader = Callable[[bytes, int], tuple[Any, int]]

_NUMBERS = {
    Scalar.INT8: binary.Struct(">b"),
    Scalar.INT16: binary.Struct(">h"),
    Scalar.UINT16: binary.Struct(">H"),
    Scalar.INT32: binary.Struct(">i"),
    Scalar.INT64: binary.Struct(">q"),
    Scalar.FLOAT64: binary.Struct(">d"),
}
_UUID_SIZE = 16


@cache
def reader(layout: Layout, version: int) -> Reader:
    """A decoder of the body: (buffer, position) -> (dict, position behind it); MalformedError for what does not fit the
    layout.
    """
    return _struct_reader(layout.fields, version)


def _parts(struct: Struct, version: int) -> tuple[list[Field], dict[int, Field]]:
    present = [field for field in struct.fields if field.since <= version]
    return [f for f in present if f.tag is None], {f.tag: f for f in present if f.tag is not None}


def _struct_reader(struct: Struct, version: int) -> Reader:
    plain_fields, tagged_fields = _parts(struct, version)
    plain = [(f.name, _field_reader(f, version)) for f in plain_fields]
    tagged = {tag: (f.name, _field_reader(f, version)) for tag, f in tagged_fields.items()}

    def read(buffer: bytes, position: int) -> tuple[dict[str, Any], int]:
        data: dict[str, Any] = {}
        for name, read_field in plain:
            data[name], position = read_field(buffer, position)
        count, position = read_unsigned(buffer, position)
        if not count:
            return data, position
        unknown = []
        previous = -1
        for _ in range(count):
            tag, position = read_unsigned(buffer, position)
            if tag <= previous:  # KIP-482: ascending, each once
                raise MalformedError(f"tag {tag} after tag {previous}")
            previous = tag
            size, position = read_unsigned(buffer, position)
            content = _take(buffer, position, size)
            position += size
            if tag not in tagged:
                unknown.append((tag, content))
                continue
            name, read_field = tagged[tag]
            data[name], used = read_field(content, 0)
            if used != size:
                raise MalformedError(f"{size - used} bytes behind the value of {name}")
        if unknown:
            data[UNKNOWN_TAGS] = tuple(unknown)
        return data, position

    return read


def _field_reader(field: Field, version: int) -> Reader:
    kind = field.type
    if isinstance(kind, Struct):
        return _struct_reader(kind, version)
    if isinstance(kind, Array):
        item = _struct_reader(kind.of, version) if isinstance(kind.of, Struct) else _scalar_reader(kind.of)
        return _array_reader(field, item)
    if kind is Scalar.STRING or kind is Scalar.BYTES:
        return _string_reader(field)
    return _scalar_reader(kind)


def _scalar_reader(kind: Scalar) -> Reader:
    if kind is Scalar.BOOL:
        return _read_bool
    if kind is Scalar.UUID:
        return _read_uuid
    if kind is Scalar.STRING or kind is Scalar.BYTES:
        return _string_reader(Field("item", kind))
    number = _NUMBERS[kind]

    def read(buffer: bytes, position: int) -> tuple[int, int]:
        try:
            return number.unpack_from(buffer, position)[0], position + number.size
        except binary.error:
            raise MalformedError(f"a cut {kind.value} at byte {position}") from None

    return read


def _take(buffer: bytes, position: int, size: int) -> bytes:
    if position + size > len(buffer):
        raise MalformedError(f"{size} bytes wanted at byte {position} of {len(buffer)}")
    return buffer[position : position + size]


def _read_bool(buffer: bytes, position: int) -> tuple[bool, int]:
    byte = _take(buffer, position, 1)[0]
    if byte > 1:  # Kafka takes any other byte as true; it never writes one, and it would not come back bit for bit
        raise MalformedError(f"{byte} for a boolean at byte {position}")
    return bool(byte), position + 1


def _read_uuid(buffer: bytes, position: int) -> tuple[uuid.UUID, int]:
    return uuid.UUID(bytes=_take(buffer, position, _UUID_SIZE)), position + _UUID_SIZE


def _string_reader(field: Field) -> Reader:
    def read(buffer: bytes, position: int) -> tuple[str | bytes | None, int]:
        length, position = read_unsigned(buffer, position)
        if length == 0:
            if not field.nullable:
                raise MalformedError(f"null for {field.name}")
            return None, position
        try:
            content = _take(buffer, position, length - 1)
            return content if field.type is Scalar.BYTES else content.decode(), position + length - 1
        except UnicodeDecodeError:
            raise MalformedError(f"{field.name} is not UTF-8") from None

    return read


def _array_reader(field: Field, read_item: Reader) -> Reader:
    def read(buffer: bytes, position: int) -> tuple[tuple[Any, ...] | None, int]:
        length, position = read_unsigned(buffer, position)
        if length == 0:
            if not field.nullable:
                raise MalformedError(f"null for {field.name}")
            return None, position
        if length - 1 > len(buffer) - position:  # every item takes a byte at least: checked before memory is taken
            raise MalformedError(f"{length - 1} items of {field.name} in {len(buffer) - position} bytes")
        items = []
        for _ in range(length - 1):
            item, position = read_item(buffer, position)
            items.append(item)
        return tuple(items), position

    return read
