"""The vocabulary of the schema table: what Kafka's message JSON says about a field, as far as metadata records use it.

Everything here is flexible (KIP-482): compact lengths, and a tagged section at the end of every struct.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Scalar(enum.Enum):
    """Types without parts. Numbers are big-endian; a uuid is 16 raw bytes; a string is a compact one, in UTF-8."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    INT64 = "int64"
    UUID = "uuid"
    STRING = "string"


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


def struct(*fields: Field) -> Struct:
    """A struct written as its fields."""
    return Struct(fields)
