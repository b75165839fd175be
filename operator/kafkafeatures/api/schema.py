"""Strict reading of a parsed YAML or JSON document into frozen Structs, with every problem reported at once.

The types of the fields define what is allowed (`api/spec.py`); rules between fields are checked in
`__post_init__`. No message repeats a value that could be a secret, such as one in a field in which people put a
password by mistake.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from kafkafeatures.api.records import json_name

T = TypeVar("T")
Path = tuple[str | int, ...]
"""Place of a value in a document: names of fields, and positions in lists."""


class Text(Struct, frozen=True):
    """Limits of a text.

    longest, shortest: number of characters.
    pattern: regular expression of the whole text; empty: any text.
    meaning: the pattern in words for people.
    """

    longest: int
    shortest: int = 0
    pattern: str = ""
    meaning: str = ""

    def why_not(self, value: str) -> str:
        """The expectation that a text does not meet; empty where it meets all."""
        try:
            value.encode()
        except UnicodeEncodeError:  # half a character: JSON can hold it, YAML cannot
            return "text in Unicode"
        if len(value) > self.longest:
            return f"at most {self.longest} characters"
        if len(value) < self.shortest:
            return f"at least {self.shortest} characters"
        return self.meaning if self.pattern and not re.fullmatch(self.pattern, value) else ""


class AtMost(Struct, frozen=True):
    """Limits of a list. items: the most items that it may have. least: the fewest."""

    items: int
    least: int = 0


ANY_TEXT = Text(longest=2**31)
"""Limits of a text that may be anything."""
_BROKEN: Any = object()  # stands for a value with a problem


def read_strictly(kind: type[T], document: object) -> tuple[T | None, tuple[str, ...]]:
    """The document as a value of `kind`, and no problems; or None, and one line for each problem."""
    reading = _Reading()
    value = reading.value(kind, document, ())
    return None if value is _BROKEN else value, tuple(reading.problems)


def as_json(value: object) -> Any:
    """The JSON form of a value that was read, including all defaults."""
    if isinstance(value, Struct):
        return {name: as_json(getattr(value, field.name)) for name, field in fields_of(type(value)).items()}
    return [as_json(element) for element in value] if isinstance(value, tuple) else value


@cache
def fields_of(kind: type[Struct]) -> Mapping[str, FieldInfo]:
    """Fields that a mapping may have, by name in the document. A field with a default factory is not in documents."""
    return {json_name(field.name): field for field in fields(kind) if field.default_factory is NODEFAULT}


@cache
def _parts(hint: Any) -> tuple[Any, Any, tuple[Any, ...], Any]:
    """Parts of a type: the type without `Annotated`, its origin and arguments, and the annotation; None for none."""
    allowed: Any = None
    if get_origin(hint) is Annotated:
        hint, allowed = get_args(hint)
    return hint, get_origin(hint), get_args(hint), allowed


class _Reading:
    """Reading of one document. It continues after a problem, so that all of them are reported at once."""

    def __init__(self) -> None:
        self.problems: dict[str, None] = {}  # in order, each once

    def value(self, hint: Any, value: object, path: Path) -> Any:
        """Read a value by the type of its field."""
        hint, origin, arguments, allowed = _parts(hint)
        if callable(allowed):  # a function that checks and converts the value, such as for a level
            return self._checked(lambda: allowed(value), path, value)
        if origin in (Union, UnionType):  # of a type and None
            return None if value is None else self.value(arguments[0], value, path)
        if origin is Literal:
            return self._literal(arguments, value, path)
        if origin is tuple:
            return self._items(arguments[0], allowed, value, path)
        if hint is str:
            return self._text(allowed or ANY_TEXT, value, path)
        if hint is bool:
            return value if isinstance(value, bool) else self._wrong(path, value, "expected true or false")
        return self._mapping(hint, value, path)

    def _text(self, allowed: Text, value: object, path: Path) -> Any:
        if not isinstance(value, str):
            return self._wrong(path, value, f"expected text{_in_quotes(value, hidden=_may_be_secret(path))}")
        expectation = allowed.why_not(value)
        return self._wrong(path, value, f"expected {expectation}") if expectation else value

    def _literal(self, words: tuple[Any, ...], value: object, path: Path) -> Any:
        if isinstance(value, str) and value in words:
            return value
        *choices, last = map(repr, words)
        return self._wrong(path, value, f"expected {', '.join(choices)}{' or ' if choices else ''}{last}")

    def _items(self, kind: Any, allowed: AtMost, value: object, path: Path) -> Any:
        if not isinstance(value, list | tuple):
            return self._wrong(path, value, "expected a list")
        if len(value) > allowed.items:
            return self._wrong(path, value, f"expected at most {allowed.items} items")
        if len(value) < allowed.least:
            return self._wrong(path, value, f"expected at least {allowed.least} item")
        items = tuple(self.value(kind, element, (*path, index)) for index, element in enumerate(value))
        return _BROKEN if _BROKEN in items else items

    def _mapping(self, kind: Any, value: object, path: Path) -> Any:
        if not isinstance(value, Mapping):
            return self._wrong(path, value, "expected a mapping")
        known_fields, problem_count, values = fields_of(kind), len(self.problems), {}
        for name, field in known_fields.items():
            if name in value:
                values[field.name] = self.value(field.type, value[name], (*path, name))
            elif field.required:
                self._note((*path, name), "required field is missing")
        if not getattr(kind, "OTHERS_ALLOWED", False):
            for name in value:
                if name not in known_fields:
                    display_name = _words_of(name) if _may_be_secret(path) else str(name)
                    self._note((*path, display_name), f"unknown field; {_valid(known_fields, display_name)}")
        return _BROKEN if len(self.problems) > problem_count else self._checked(lambda: kind(**values), path, value)

    def _checked(self, make: Callable[[], Any], path: Path, value: object) -> Any:
        """The value that `make` returns. A ValueError is noted as a problem: with the invalid value before it, if its
        message begins with "expected".
        """
        try:
            return make()
        except ValueError as error:
            if str(error).startswith("expected "):
                return self._wrong(path, value, str(error))
            return self._note(path, str(error))

    def _wrong(self, path: Path, value: object, expected: str) -> Any:
        hidden = _may_be_secret(path) or (isinstance(value, str) and "@" in value)  # addresses with a password
        quotation = "" if hidden else f" {_shown(value)}"
        return self._note(path, f"invalid value{quotation}; {expected}")

    def _note(self, path: Path, problem: str) -> Any:
        location = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
        self.problems[f"{location.removeprefix('.') or 'document'}: {problem}"] = None
        return _BROKEN


def _in_quotes(value: object, *, hidden: bool) -> str:
    """Remedy for a text without quotes, which YAML reads as a number or a boolean; empty for other values."""
    if isinstance(value, bool) or (hidden and isinstance(value, int | float)):
        return "; write it in quotes"
    return f'; write it in quotes: "{_shown(value)}"' if isinstance(value, int | float) else ""


def _words_of(name: object) -> str:
    """The first word of the name of an unknown field beside secrets: YAML reads `password:hunter2`, without a space, as
    a name.
    """
    match = re.match(r"[A-Za-z]+", str(name))
    return match[0] if match else "(a field)"


def _may_be_secret(path: Path) -> bool:
    return not _HOLD_SECRETS.isdisjoint(path)


_HOLD_SECRETS = frozenset({"sasl", "tls", "digestSecretRef", "url", "tokenSecretRef", "basicAuthSecretRef"})
"""Fields in which people put a secret by mistake, where only its name belongs."""


def _shown(value: object) -> str:
    """An invalid value in a message: short, and without its content if it is a collection."""
    if isinstance(value, Mapping):
        return "(a mapping)"
    if isinstance(value, list | tuple | set):
        return "(a list)"
    if isinstance(value, int) and value.bit_length() > 64:
        return "(a large number)"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _valid(known: Mapping[str, object], name: str) -> str:
    """The valid names of fields, and the one that is closest to an unknown name."""
    import difflib

    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"{f'did you mean {close[0]!r}? ' if close else ''}valid fields: {', '.join(sorted(known))}"
