"""Types of the schema tables: the part of Kafka's message definitions that records of metadata logs use.

Everything here is flexible (KIP-482): compact lengths, and a tagged section at the end of every struct.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

UNKNOWN_TAGS = "_unknownTags"
"""Key in decoded data for unknown tagged fields: ((tag, bytes), ...)."""


class Scalar(enum.Enum):
    """Types without parts. Numbers are big-endian; a uuid is 16 raw bytes; strings (in UTF-8) and bytes have a compact
    length in front.
    """

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT64 = "float64"
    UUID = "uuid"
    STRING = "string"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Array:
    """A compact array of scalars or structs."""

    of: Scalar | Struct


@dataclass(frozen=True, slots=True)
class Struct:
    """Fields in wire order; those with a tag live in the tagged section behind the others."""

    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """One field: `since` is the first version that has it, `tag` its tag if it is a tagged one, `nullable` whether null
    is a value.
    """

    name: str
    type: Scalar | Array | Struct
    since: int = 0
    tag: int | None = None
    nullable: bool = False


@dataclass(frozen=True, slots=True, eq=False)  # hashed by identity, which is fast: encoders are cached by layout
class Layout:
    """A layout of the body. `name` is empty for the current one; an older one is named after the Kafka releases that
    had it.
    """

    fields: Struct
    name: str = ""


@dataclass(frozen=True, slots=True)
class RecordType:
    """A type of record. key: its api key (metadata) or type number (control). last_version: versions begin at 0.
    layouts: the current one first.
    """

    key: int
    name: str
    last_version: int
    layouts: tuple[Layout, ...]
    control: bool = False


def struct(*fields: Field) -> Struct:
    """A struct written as its fields."""
    return Struct(fields)


def metadata(key: int, name: str, *fields: Field, last_version: int = 0) -> RecordType:
    """A metadata record with one layout."""
    return RecordType(key, name, last_version, (Layout(Struct(fields)),))


def control(key: int, name: str, *fields: Field, last_version: int = 0) -> RecordType:
    """A control record; its body repeats its version first."""
    return RecordType(key, name, last_version, (Layout(Struct(fields)),), control=True)
