"""Encodes the data of usual records as JSON text with msgspec; the text is exactly that of `as_json`.

It decides how uuids and floating-point numbers are passed to msgspec, which has formats of its own for both, and which
records are not encoded here: those with text beyond printable ASCII, which msgspec does not escape, and those with an
unknown tag, which may hold a secret. Called by `lines`; it needs msgspec (`kraftlog[text]`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from msgspec import Raw
from msgspec.json import Encoder

from kraftlog.as_json import written
from kraftlog.decoders.parts import Reader
from kraftlog.records import kafka_uuid
from kraftlog.schema import Array, Scalar, Struct
from kraftlog.schema.types import UNKNOWN_TAGS

Writer = Callable[[bytes, int], str | None]
Convert = Callable[[Any], Any]

_UNKNOWN = f'"{UNKNOWN_TAGS}"'
_encode = Encoder().encode


def writer(reader: Reader, struct: Struct) -> Writer:
    """Return a function with the parameters (value of a record, position of its body), which returns the body as JSON
    text; or None for a record that is not encoded here, which is left to `as_json`.

    It writes every field: `lines` never passes a type that has secrets. It raises what the reader of the body raises.
    """
    convert = _converter(struct)

    def write(value: bytes, position: int) -> str | None:
        data, end = reader(value, position)
        if end != len(value):
            return None
        text = _encode(convert(data) if convert else data).decode()  # `in` is much slower for bytes
        return text if text.isascii() and "\x7f" not in text and _UNKNOWN not in text else None

    return write


def _converter(kind: Scalar | Array | Struct) -> Convert | None:
    """A function that replaces uuids and floating-point numbers by what msgspec must write, in a struct in place; None
    if the type has neither.
    """
    if isinstance(kind, Array):
        of_item = _converter(kind.of)
        return (lambda items: [of_item(item) for item in items]) if of_item else None
    if isinstance(kind, Scalar):
        return _CONVERTERS.get(kind)
    converters = [(field.name, convert) for field in kind.fields if (convert := _converter(field.type))]

    def in_place(data: dict[str, Any]) -> dict[str, Any]:
        for name, convert in converters:
            if (value := data.get(name)) is not None:  # None: null, or a tag that is absent
                data[name] = convert(value)
        return data

    return in_place if converters else None


def _number(value: float) -> Raw:
    return Raw(written(value).encode())


_CONVERTERS: dict[Scalar, Convert] = {
    Scalar.UUID: lru_cache(maxsize=10_000)(kafka_uuid),  # most uuids of a log are those of few topics
    Scalar.FLOAT64: _number,
}
