"""Reading of records for display: everything that is written in a status, even by another release, by hand, or damaged.

Used by commands and pages that show a status. Decisions read records by `api/records.py`, which leaves out what does
not have the right shape. Here as much as possible is shown: a required text that is missing is empty, a number that is
not one is left out, and any text is shown even where a moment or a known word should be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from types import MappingProxyType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from msgspec.structs import fields

from kafkafeatures.api.records import Stamp, StatusRecord, json_name

R = TypeVar("R", bound=StatusRecord)
Reader = Callable[[Any], Any]
"""Function that reads a value; None if it cannot, so that the field gets its default."""

NOTHING: Mapping[str, Any] = MappingProxyType({})
"""Value of a required record that is missing."""

_MISSING: Mapping[Any, Any] = {str: "", Stamp: "", int: -1, bool: False}
"""Values of required fields that cannot be shown, by type; NOTHING for a field that is a record."""


def shown(kind: type[R], raw: object) -> R:
    """The record with everything that can be read. Never raises."""
    readers, values = _readers(kind)
    attributes, unknown = dict(values), {}
    for name, value in raw.items() if isinstance(raw, Mapping) else ():
        if name not in readers:
            unknown[str(name)] = value
            continue
        attribute, reader = readers[name]
        if (parsed := reader(value)) is not None:
            attributes[attribute] = parsed
    return kind(**attributes, unknown=unknown)


def time_of(value: object) -> datetime | None:
    """The moment that a value stands for; None if it is not one, or has no time zone."""
    try:
        timestamp = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return timestamp if timestamp.tzinfo is not None else None


@cache
def _readers(kind: type[StatusRecord]) -> tuple[dict[str, tuple[str, Reader]], dict[str, Any]]:
    """Attribute and reader of each field, by name in JSON; and for each required field, by attribute, the value that
    it gets where it is missing.
    """
    known_fields = [field for field in fields(kind) if field.name != "unknown"]
    readers = {
        kind.JSON_NAMES.get(field.name) or json_name(field.name): (field.name, _reader(field.type))
        for field in known_fields
    }
    return readers, {field.name: _MISSING.get(field.type, NOTHING) for field in known_fields if field.required}


def _reader(hint: Any) -> Reader:
    """Function that reads a value of this type, of a field of a record."""
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _first_of([_reader(argument) for argument in arguments if argument is not type(None)])
    if origin is tuple:
        return _tuple_of(_reader(arguments[0]))
    if origin is not None:
        return _mapping_of(_reader(arguments[1]))
    return lambda value: shown(hint, value) if isinstance(value, Mapping) else None


def _first_of(readers: list[Reader]) -> Reader:
    return lambda value: next((parsed for reader in readers if (parsed := reader(value)) is not None), None)


def _tuple_of(reader: Reader) -> Reader:
    return lambda value: (
        tuple(parsed for element in value if (parsed := reader(element)) is not None)
        if isinstance(value, list)
        else None
    )


def _mapping_of(reader: Reader) -> Reader:
    return lambda value: (
        {str(name): parsed for name, element in value.items() if (parsed := reader(element)) is not None}
        if isinstance(value, Mapping)
        else None
    )


def _text(value: object) -> str | None:
    return str(value) if isinstance(value, str | int | float) else None


_SIMPLE: Mapping[Any, Reader] = {
    str: _text,
    Stamp: _text,
    int: lambda value: value if type(value) is int else None,
    bool: lambda value: value if type(value) is bool else None,
    Any: lambda value: value,
}
