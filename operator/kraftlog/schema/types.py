"""Types of the schema tables: the part of Kafka's message definitions that records of metadata logs use.

Everything here is flexible (KIP-482): compact lengths, and a tagged section at the end of every struct.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

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


_WORD = re.compile(r"\w+|[\[\]{}?,]")


def metadata(text: str, older: Mapping[str, str] = MappingProxyType({})) -> RecordType:
    """A metadata record out of its text: `KEY NAME: FIELDS`, or `KEY NAME vLAST: FIELDS` if its last version is not 0.

    A field is written `name type`, such as `racks [string]? since 2 tag 0`: `[ ]` is an array, `{ }` a struct with its
    fields, and `?` follows the type of a field for which null is a value. `older`: fields of older layouts, by the
    Kafka releases that had them.
    """
    head, _, fields = text.partition(":")
    key, name, *last = head.split()
    layouts = [
        Layout(_struct(fields)),
        *(Layout(_struct(old_fields), releases) for releases, old_fields in older.items()),
    ]
    return RecordType(int(key), name, int(last[0][1:]) if last else 0, tuple(layouts))


def control(text: str) -> RecordType:
    """A control record; its body repeats its version first. `text`: as for `metadata`."""
    return replace(metadata(text), control=True)


def _struct(text: str) -> Struct:
    return _fields(_WORD.findall(text)[::-1])


def _fields(words: list[str]) -> Struct:
    """The fields up to the end of their struct. `words`: the next one is the last; those that are read are removed."""
    fields = []
    while words and words[-1] != "}":
        name, kind, numbers = words.pop(), _type(words), dict[str, int]()
        nullable = words[-1:] == ["?"] and bool(words.pop())
        while words and words[-1] in ("since", "tag"):
            word = words.pop()
            numbers[word] = int(words.pop())
        fields.append(Field(name, kind, numbers.get("since", 0), numbers.get("tag"), nullable))
        if words[-1:] == [","]:
            words.pop()
    return Struct(tuple(fields))


def _type(words: list[str]) -> Scalar | Array | Struct:
    if words[-1] != "[":
        return _item(words)
    words.pop()
    array = Array(_item(words))
    words.pop()  # the bracket at its end
    return array


def _item(words: list[str]) -> Scalar | Struct:
    word = words.pop()
    if word != "{":
        return Scalar(word)
    inner = _fields(words)
    words.pop()  # the bracket at its end
    return inner
