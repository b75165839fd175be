"""Records: frozen Structs that are read from JSON leniently and written back whole.

The types of the fields define what is read. A field that another release of the operator added is kept in `unknown` and
written back; a known field with the wrong shape makes the record unreadable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from operator import attrgetter
from types import UnionType
from typing import Any, ClassVar, NamedTuple, NewType, Self, TypeVar, Union, get_args, get_origin

from msgspec import Struct, field
from msgspec.structs import fields

from kafkafeatures.api.values import replace

Json = dict[str, Any]
Reader = Callable[[Any], Any]
"""Function that makes the value of a field from its JSON. Raises ValueError for JSON of another shape."""

Stamp = NewType("Stamp", str)
"""A moment as RFC 3339 with a time zone, as Kubernetes writes it."""


def stamp(moment: datetime) -> Stamp:
    """The stamp of a moment, in UTC and in whole seconds."""
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    return Stamp(utc.isoformat(timespec="seconds") + "Z")  # strftime takes ten times as long


class StatusRecord(Struct, frozen=True, kw_only=True):
    """Base class of the records of a status.

    unknown: fields that this release does not know, by name in JSON.
    JSON_NAMES: names in JSON that are not the attribute in camel case, by attribute.
    KEY: attributes that identify a record: in a list, and in a newer status.
    """

    JSON_NAMES: ClassVar[Mapping[str, str]] = {}
    KEY: ClassVar[tuple[str, ...]] = ()

    unknown: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, raw: Any) -> Self:
        """Read a record. Raises ValueError where a required field is missing, or a known one has the wrong shape."""
        if type(raw) is not dict and not isinstance(raw, Mapping):
            raise ValueError(f"expected an object, found {type(raw).__name__}")
        shape = _shape(cls)
        readers = shape.readers
        values, unknown = {}, {}
        for name, value in raw.items():
            if name in readers:
                attribute, kind, reader = readers[name]
                values[attribute] = value if type(value) is kind else reader(value)
            else:
                unknown[name] = value
        if not shape.required <= values.keys():
            missing = next(
                name for attribute, name in shape.names.items() if attribute in shape.required - values.keys()
            )
            raise ValueError(f"required field is missing: {missing}")
        return cls(**values, unknown=unknown)

    @classmethod
    def read_valid(cls, raw: Mapping[str, Any]) -> tuple[Self, tuple[str, ...]]:
        """The record without fields that have the wrong shape, and the names of these. For a class of which all fields
        are optional.
        """
        readers = _shape(cls).readers
        values, unknown, invalid = {}, {}, []
        for name, value in raw.items():
            if name not in readers:
                unknown[name] = value
                continue
            attribute, kind, reader = readers[name]
            try:
                values[attribute] = value if type(value) is kind else reader(value)
            except ValueError:
                invalid.append(name)
        return cls(**values, unknown=unknown), tuple(sorted(invalid))

    def as_json(self) -> Json:
        """The record as JSON; fields that have their default are left out."""
        members: Json = {}
        shape = _shape(type(self))
        # `values` ends with `unknown`, which has no default here: `zip` leaves it out.
        for (name, default), value in zip(shape.defaults, shape.values(self), strict=False):
            if value is not default and value != default:
                members[name] = value if type(value) in _PLAIN else _written(value)
        return {**members, **self.unknown} if self.unknown else members


R = TypeVar("R", bound=StatusRecord)


def keeping_unknown(record: R, previous: R) -> R:
    """The record with the unknown fields of its previous version, also in the records that it contains.

    An inner record keeps those of the previous one with the same `KEY`. A list whose records have no key is left as it
    is: they never change once they are written.
    """
    changes: Json = {}
    if previous.unknown.keys() - record.unknown.keys():
        changes["unknown"] = {**previous.unknown, **record.unknown}
    for name in _shape(type(record)).nested:
        value, old = getattr(record, name), getattr(previous, name)
        if value is old or not value or not old:
            continue
        if isinstance(value, tuple):
            merged: Any = _each_keeping(value, old)
        else:
            merged = keeping_unknown(value, old) if _key(value) == _key(old) else value
        if merged is not value:
            changes[name] = merged
    return replace(record, **changes) if changes else record


def _each_keeping(records: tuple[Any, ...], previous_records: tuple[Any, ...]) -> tuple[Any, ...]:
    """The records, each with the unknown fields of the previous one with the same key."""
    if not records[0].KEY:
        return records
    previous = {_key(record): record for record in previous_records if has_unknown(record)}
    if not previous:
        return records
    return tuple(
        keeping_unknown(record, previous[_key(record)]) if _key(record) in previous else record for record in records
    )


def _key(record: StatusRecord) -> tuple[Any, ...]:
    return tuple(getattr(record, name) for name in record.KEY)


def has_unknown(record: StatusRecord) -> bool:
    """Tell whether the record, or a record in it, has unknown fields."""
    return bool(record.unknown) or any(map(has_unknown, _inner(record)))


def without_unknown(record: R) -> R:
    """The record, and all records in it, without unknown fields."""
    changes: Json = {"unknown": {}}
    for name in _shape(type(record)).nested:
        value = getattr(record, name)
        if isinstance(value, tuple):
            changes[name] = tuple(map(without_unknown, value))
        elif value is not None:
            changes[name] = without_unknown(value)
    return replace(record, **changes)


def _inner(record: StatusRecord) -> Iterator[StatusRecord]:
    for name in _shape(type(record)).nested:
        value = getattr(record, name)
        if isinstance(value, tuple):
            yield from value
        elif value is not None:
            yield value


class _Shape(NamedTuple):
    """The way in which a class of records is read and written; computed once, as a status is read in each
    reconciliation.

    readers: by name in JSON: the attribute; the type whose values are taken as they are, if any; the reader of others.
    defaults: name in JSON and default of each field; NODEFAULT where there is none.
    values: returns a record's values in that order, and `unknown` after them, so that it is a tuple also for a record
        with a single field (`attrgetter`).
    required: attributes of required fields.
    names: name in JSON by attribute.
    nested: attributes that hold records.
    """

    readers: Mapping[str, tuple[str, type | None, Reader]]
    defaults: tuple[tuple[str, Any], ...]
    values: Callable[[StatusRecord], tuple[Any, ...]]
    required: frozenset[str]
    names: Mapping[str, str]
    nested: tuple[str, ...]


def _shape(cls: type[StatusRecord]) -> _Shape:
    return _SHAPES.get(cls) or _SHAPES.setdefault(cls, _make_shape(cls))


_SHAPES: dict[type, _Shape] = {}


def _make_shape(cls: type[StatusRecord]) -> _Shape:
    known_fields = [record_field for record_field in fields(cls) if record_field.name != "unknown"]
    names = {
        record_field.name: cls.JSON_NAMES.get(record_field.name) or json_name(record_field.name)
        for record_field in known_fields
    }
    readers = {record_field.name: _reader(record_field.type) for record_field in known_fields}
    return _Shape(
        {names[attribute]: (attribute, _TYPES.get(reader), reader) for attribute, reader in readers.items()},
        tuple((names[record_field.name], record_field.default) for record_field in known_fields),
        attrgetter(*(record_field.name for record_field in known_fields), "unknown"),
        frozenset(record_field.name for record_field in known_fields if record_field.required),
        names,
        tuple(record_field.name for record_field in known_fields if _holds_records(record_field.type)),
    )


def _holds_records(hint: Any) -> bool:
    is_record = isinstance(hint, type) and issubclass(hint, StatusRecord)
    return is_record or any(map(_holds_records, get_args(hint)))


def json_name(attribute: str) -> str:
    """The name of a field in JSON: in camel case."""
    first, *words = attribute.split("_")
    return first + "".join(word.capitalize() for word in words)


def _written(value: Any) -> Any:
    """The value of a field as JSON."""
    if isinstance(value, StatusRecord):
        return value.as_json()
    if isinstance(value, tuple):
        return [element if type(element) in _PLAIN else _written(element) for element in value]
    return dict(value) if isinstance(value, Mapping) else value


_PLAIN = frozenset({str, int, bool})
"""Types of values that are the same in JSON."""


def _reader(hint: Any) -> Reader:
    """Function that reads a value of this type. Raises ValueError for a value of another shape."""
    simple = _SIMPLE.get(hint)
    if simple is not None:
        return simple
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):  # a type and None, which is the default of an optional field
        return _one_of([_reader(argument) for argument in arguments if argument is not type(None)])
    if origin is tuple:
        return _each(_reader(arguments[0]))
    if origin is not None:
        return _mapping(_reader(arguments[1]))
    # A class of records, which reads itself.
    reader: Reader = hint.read
    return reader


def _one_of(readers: list[Reader]) -> Reader:
    """Function that reads a value by the first of these readers that takes it; raises as the last one."""
    if len(readers) == 1:
        return readers[0]

    def first(value: Any) -> Any:
        for reader in readers[:-1]:
            with suppress(ValueError):
                return reader(value)
        return readers[-1](value)

    return first


def _each(reader: Reader) -> Reader:
    def every(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError(f"expected a list, found {type(value).__name__}")
        return tuple(reader(element) for element in value)

    return every


def _mapping(reader: Reader) -> Reader:
    def every(value: Any) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"expected an object, found {type(value).__name__}")
        return {read_text(name): reader(element) for name, element in value.items()}

    return every


def _exactly(kind: type) -> Reader:
    def exact(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"expected {kind.__name__}, found {type(value).__name__}")
        return value

    return exact


read_text = _exactly(str)
"""Return a text. Raises ValueError for any other value."""
read_number = _exactly(int)
"""Return an integer. Raises ValueError for any other value."""
_TYPES: Mapping[Reader, type] = {read_text: str, read_number: int}
"""For readers that return their argument, the type that they accept."""


def read_stamp(value: Any) -> Stamp:
    """Return a stamp. Raises ValueError for anything but a moment with a time zone."""
    if datetime.fromisoformat(read_text(value)).tzinfo is None:
        raise ValueError("a moment without a time zone")
    return Stamp(value)


_SIMPLE: Mapping[Any, Reader] = {
    str: read_text,
    int: read_number,
    bool: _exactly(bool),
    Stamp: read_stamp,
    Any: lambda value: value,
}
