"""A parsed document to types, with errors for people: the path, what was found, what is expected.

Called by the stores of a resource. The words are ours: those of the validation library never reach anybody. Never
prints a value that could be a secret: secrets are not in documents.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ValidationError

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.spec import PATTERNS, KafkaFeatures


class InvalidDocument(ValueError):
    """The document cannot be understood. `str()` is one line per problem."""

    reason: ClassVar[Reason] = Reason.INVALID_SPEC

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class UnknownRelease(InvalidDocument):
    """It names a release, or a level by a name, that this version does not know."""

    reason = Reason.UNKNOWN_RELEASE


def read_document(document: object) -> KafkaFeatures:
    """Make the types of a parsed YAML or JSON document. Raises InvalidDocument with every problem found."""
    if not isinstance(document, Mapping):
        raise InvalidDocument(("the document is not a mapping; it must start with apiVersion and kind",))
    body = {key: value for key, value in document.items() if key != "status"}
    try:
        return KafkaFeatures.model_validate(body)
    except ValidationError as error:
        problems = tuple(dict.fromkeys(_told(one) for one in error.errors(include_url=False)))
        raise InvalidDocument(problems) from None


def _told(error: Any) -> str:
    trail = error["loc"]
    location = [part for at, part in enumerate(trail) if not _is_branch(trail[at - 1 : at], part)]
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return f"{path or 'document'}: {_problem(error, location)}"


def _problem(error: Any, location: list[Any]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        return "required field is missing"
    if kind == "extra_forbidden":
        return f"unknown field; {_valid_fields(location)}"
    hidden = _may_be_secret(location)
    if kind == "value_error":
        expected = str(context["error"])
        if not expected.startswith("expected "):  # a validator that says all of it
            return expected
    elif kind == "string_type":
        expected = f"expected text{_in_quotes(error['input'], hidden=hidden)}"
    else:
        expected = f"expected {_EXPECTED[kind](context) if kind in _EXPECTED else 'another value'}"
    found = "" if hidden else " " + _shown(error["input"])
    return f"invalid value{found}; {expected}"


_EXPECTED: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "bool_type": lambda _: "true or false",
    "int_type": lambda _: "an integer",
    "literal_error": lambda context: str(context["expected"]),
    "model_type": lambda _: "a mapping",
    "string_pattern_mismatch": lambda context: PATTERNS[context["pattern"]],
    "string_too_long": lambda context: f"at most {context['max_length']} characters",
    "string_too_short": lambda context: f"at least {context['min_length']} characters",
    "string_unicode": lambda _: "text in Unicode",
    "too_long": lambda context: f"at most {context['max_length']} items",
    "tuple_type": lambda _: "a list",
}
"""What is expected, by the type of error: of every one that the types of `spec` can raise, `string_type` aside."""


def _in_quotes(value: object, *, hidden: bool) -> str:
    """YAML makes numbers and truth values of what has no quotes."""
    if isinstance(value, bool) or (hidden and isinstance(value, int | float)):
        return "; write it in quotes"
    return f'; write it in quotes: "{value}"' if isinstance(value, int | float) else ""


def _is_branch(before: tuple[object, ...], part: object) -> bool:
    """The library names the branch of a union in the path; people did not write that."""
    return before == ("level",) and part in ("int", "str")


def _may_be_secret(location: list[Any]) -> bool:
    """Where people put a password by mistake, nothing is repeated."""
    return not {"sasl", "tls"}.isdisjoint(part for part in location if isinstance(part, str))


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "(a mapping)"
    if isinstance(value, list | tuple | set):
        return "(a list)"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _valid_fields(location: list[Any]) -> str:
    model: Any = KafkaFeatures
    for part in location[:-1]:
        model = model if isinstance(part, int) else _field_model(model, part)
    allowed = [field.alias or name for name, field in model.model_fields.items()]
    close = difflib.get_close_matches(str(location[-1]), allowed, n=1, cutoff=0.6)
    return f"{f'did you mean {close[0]!r}? ' if close else ''}valid fields: {', '.join(sorted(allowed))}"


def _field_model(model: Any, alias: str) -> Any:
    for name, field in model.model_fields.items():
        if (field.alias or name) == alias:
            return _find_model(field.annotation)
    return None


def _find_model(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _find_model(inner)
        if found is not None:
            return found
    return None
