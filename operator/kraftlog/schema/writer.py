"""Turns an entry of the tables into an encoder for one version. An encoder is made once for each layout and version.

An encoder takes dicts with Kafka's camelCase names, as decoders return them. It fills in no defaults: a tagged field
that is absent stays absent, which is not the same as one set to its default. Tags under `UNKNOWN_TAGS` are written
back.
"""

from __future__ import annotations

import struct as binary
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any

from kraftlog.schema.types import UNKNOWN_TAGS, Array, Field, Layout, Scalar, Struct
from kraftlog.varints import unsigned

Writer = Callable[[Any], bytes]

_NUMBERS = {
    Scalar.INT8: binary.Struct(">b"),
    Scalar.INT16: binary.Struct(">h"),
    Scalar.UINT16: binary.Struct(">H"),
    Scalar.INT32: binary.Struct(">i"),
    Scalar.INT64: binary.Struct(">q"),
    Scalar.FLOAT64: binary.Struct(">d"),
}


@cache
def writer(layout: Layout, version: int) -> Writer:
    """Make an encoder. It raises ValueError, which names the field, for a value that is missing, of the wrong type, or
    not of this version.
    """
    return _struct_writer(layout.fields, version)


def _parts(struct: Struct, version: int) -> tuple[list[Field], dict[int, Field]]:
    """(fields without a tag, fields by tag) that this version has."""
    present = [field for field in struct.fields if field.since <= version]
    return [f for f in present if f.tag is None], {f.tag: f for f in present if f.tag is not None}


def _struct_writer(struct: Struct, version: int) -> Writer:
    plain_fields, tagged_fields = _parts(struct, version)
    plain = [(f.name, _field_writer(f, version)) for f in plain_fields]
    tagged = [(tag, f.name, _field_writer(f, version)) for tag, f in sorted(tagged_fields.items())]
    needed = frozenset(f.name for f in plain_fields)
    allowed = needed | {f.name for f in tagged_fields.values()} | {UNKNOWN_TAGS}

    def write(data: Any) -> bytes:
        if not isinstance(data, dict) or not needed <= data.keys() <= allowed:
            raise ValueError(f"version {version} takes the fields {sorted(allowed - {UNKNOWN_TAGS})}")
        out = bytearray()
        for name, write_field in plain:
            out += write_field(data[name])
        tags = {tag: write_field(data[name]) for tag, name, write_field in tagged if name in data}
        for tag, content in data.get(UNKNOWN_TAGS, ()):
            if tag in tagged_fields or tag in tags:
                raise ValueError(f"tag {tag} is given twice or belongs to a field of version {version}")
            tags[tag] = content
        out += unsigned(len(tags))
        for tag, content in sorted(tags.items()):
            out += unsigned(tag) + unsigned(len(content)) + content
        return bytes(out)

    return write


def _field_writer(field: Field, version: int) -> Writer:
    kind = field.type
    if isinstance(kind, Struct):
        return _struct_writer(kind, version)
    if isinstance(kind, Array):
        item = _struct_writer(kind.of, version) if isinstance(kind.of, Struct) else _scalar_writer(kind.of, field.name)

        def write_array(value: Any) -> bytes:
            if value is None:
                return _null(field)
            return unsigned(len(value) + 1) + b"".join(item(each) for each in value)

        return write_array
    scalar = _scalar_writer(kind, field.name)
    return lambda value: _null(field) if value is None else scalar(value)


def _null(field: Field) -> bytes:
    if not field.nullable:
        raise ValueError(f"{field.name} cannot be null")
    return unsigned(0)


def _scalar_writer(kind: Scalar, name: str) -> Writer:
    if kind is Scalar.STRING:
        return lambda value: unsigned(len(_checked(value, str, name).encode()) + 1) + value.encode()
    if kind is Scalar.BYTES:
        return lambda value: unsigned(len(_checked(value, bytes, name)) + 1) + value
    if kind is Scalar.BOOL:
        return lambda value: bytes([_checked(value, bool, name)])
    if kind is Scalar.UUID:
        return lambda value: _checked(value, uuid.UUID, name).bytes
    number = _NUMBERS[kind]

    def write(value: Any) -> bytes:
        try:
            return number.pack(value)
        except binary.error:
            raise ValueError(f"{name}: {value!r} is no {kind.value}") from None

    return write


def _checked(value: Any, kind: type, name: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{name}: {value!r} is no {kind.__name__}")
    return value
