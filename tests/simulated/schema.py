"""A CustomResourceDefinition as the API server applies it: defaults, pruning of what it does not know, validation.

Called by `tests/simulated/kubernetes.py` at each write. CEL rules are not evaluated: the tests on a real API server do.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

CRD = Path(__file__).parents[2] / "crds" / "kafkafeatures.yaml"
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


@cache
def current() -> Mapping[str, Any]:
    """The schema of this tree's CRD."""
    loaded = yaml.load(CRD.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # fast, and as safe
    schema: Mapping[str, Any] = loaded["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def without(*fields: str) -> Mapping[str, Any]:
    """The schema of an older CRD: `status.intent.at` is a path; items of lists need no word of their own."""
    older = copy.deepcopy(dict(current()))
    for field in fields:
        *outer, last = field.split(".")
        inside = older
        for name in outer:
            inside = inside["properties"][name]
            inside = inside.get("items", inside)
        del inside["properties"][last]
        inside["required"] = [name for name in inside.get("required", ()) if name != last]
    return older


def open_status() -> Mapping[str, Any]:
    """A schema that keeps any status: for what a person, or another release under another schema, left behind."""
    made = dict(current())
    return {**made, "properties": {**made["properties"], "status": {"type": "object"}}}


def fitted(value: Any, schema: Mapping[str, Any], path: str, problems: list[str]) -> Any:
    """The value as the server keeps it; what it refuses goes to `problems`."""
    if not _is_of(value, schema):
        problems.append(f"{path}: Invalid value: must be of type {schema.get('type', 'integer or string')}")
        return value
    problems += (f"{path}: {problem}" for problem in _violations(value, schema))
    if isinstance(value, dict) and "properties" in schema:
        known = schema["properties"]
        kept = {
            name: fitted(one, known[name], f"{path}.{name}", problems) for name, one in value.items() if name in known
        }
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            kept = {**value, **kept}
        for name, inner in known.items():
            if name not in kept and "default" in inner:
                kept[name] = fitted(copy.deepcopy(inner["default"]), inner, f"{path}.{name}", problems)
        problems += (f"{path}.{name}: Required value" for name in schema.get("required", ()) if name not in kept)
        return kept
    if isinstance(value, list) and "items" in schema:
        return [fitted(one, schema["items"], f"{path}[{at}]", problems) for at, one in enumerate(value)]
    return value


def _is_of(value: Any, schema: Mapping[str, Any]) -> bool:
    if schema.get("x-kubernetes-int-or-string"):
        return isinstance(value, int | str) and not isinstance(value, bool)
    kind = schema.get("type", "object")
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _violations(value: Any, schema: Mapping[str, Any]) -> list[str]:
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"Unsupported value: {value!r}")
    if isinstance(value, str):
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
            found.append("Too long or too short")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            found.append(f"Invalid value: {value!r} should match {schema['pattern']}")
    if isinstance(value, list) and len(value) > schema.get("maxItems", len(value)):
        found.append("Too many")
    if isinstance(value, int) and value < schema.get("minimum", value):
        found.append(f"Invalid value: {value} should be greater than or equal to {schema['minimum']}")
    return found
