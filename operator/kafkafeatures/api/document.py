"""A parsed document to types, with errors for people: the path, what was found, what is allowed.

Called by the homes of a resource. Never prints a value that could be a secret: secrets are not in documents.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ValidationError

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.spec import KafkaFeatures


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
    location = [part for part in error["loc"] if not _is_union_member(part)]
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    path = path or "document"
    kind, context = error["type"], error.get("ctx", {})
    found = type(error["input"]).__name__ if _may_be_secret(location) else _short(error["input"])
    if kind == "missing":
        return f"{path}: required, and not there"
    if kind == "extra_forbidden":
        return f"{path}: no such field{_did_you_mean(location)}"
    if kind == "literal_error":
        return f"{path}: found {found}, allowed is {context.get('expected', '')}"
    if kind == "value_error":
        return f"{path}: {context['error']}"
    message = error["msg"][:1].lower() + error["msg"][1:]
    return f"{path}: found {found}; {message}"


def _is_union_member(part: object) -> bool:
    """Pydantic names the branch of a union in the path ("int", "function-before[...]"); people did not write that."""
    return isinstance(part, str) and (part in {"int", "str"} or "[" in part)


def _may_be_secret(location: list[Any]) -> bool:
    """Where people put a password by mistake, nothing is repeated."""
    return not {"sasl", "tls"}.isdisjoint(part for part in location if isinstance(part, str))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _did_you_mean(location: list[Any]) -> str:
    model: Any = KafkaFeatures
    for part in location[:-1]:
        if isinstance(part, int):
            continue
        model = _field_model(model, part)
        if model is None:
            return ""
    allowed = [field.alias or name for name, field in model.model_fields.items()]
    close = difflib.get_close_matches(str(location[-1]), allowed, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else f"; known here: {', '.join(sorted(allowed))}"


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
