"""A CustomResourceDefinition as the API server applies it: defaults, pruning of what it does not know, validation.

Called by `tests/simulated/kubernetes.py` at each write. CEL rules are not evaluated: the tests on a real API server do.
"""

from __future__ import annotations

import copy
import marshal
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

CRD = Path(__file__).parents[2] / "crds" / "kafkafeatures.yaml"
Fitter = Callable[[Any, list[str]], Any]
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


@cache
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


def fitter(schema: Mapping[str, Any]) -> Fitter:
    """The schema as a function: from a value to what the server keeps. What it refuses goes to `problems`."""
    if id(schema) not in _FITTERS:
        _FITTERS[id(schema)] = schema, _fitter(schema)
    return _FITTERS[id(schema)][1]


_FITTERS: dict[int, tuple[Mapping[str, Any], Fitter]] = {}
"""By the identity of the schema, which is kept beside it. Most are those of this tree."""


def _fitter(schema: Mapping[str, Any]) -> Fitter:
    kind = schema.get("type", "object")
    types = (int, str) if schema.get("x-kubernetes-int-or-string") else _TYPES[kind]
    rules = tuple(_rules(schema))
    inside = _of_object(schema) if "properties" in schema else _of_list(schema["items"]) if "items" in schema else None

    def fit(value: Any, problems: list[str]) -> Any:
        if not isinstance(value, types) or (value.__class__ is bool and bool not in types):
            problems.append(f": Invalid value: must be of type {schema.get('type', 'integer or string')}")
            return value
        for rule in rules:
            problem = rule(value)
            if problem:
                problems.append(f": {problem}")
        return value if inside is None else inside(value, problems)

    return fit


def _of_object(schema: Mapping[str, Any]) -> Fitter:
    known = {name: _remembering(one) for name, one in schema["properties"].items()}
    defaults = {name: one["default"] for name, one in schema["properties"].items() if "default" in one}
    required, keeps_unknown = schema.get("required", ()), schema.get("x-kubernetes-preserve-unknown-fields")

    def fit(value: Any, problems: list[str]) -> Any:
        for name, default in defaults.items():
            if name not in value:
                value = {**value, name: copy.deepcopy(default)}
        kept, so_far = {}, len(problems)
        for name, one in value.items():
            inner = known.get(name)
            if inner is not None:
                kept[name] = inner(one, problems)
                if len(problems) > so_far:
                    problems[so_far:] = [f".{name}{problem}" for problem in problems[so_far:]]
                    so_far = len(problems)
        problems += [f".{name}: Required value" for name in required if name not in kept]
        return {**value, **kept} if keeps_unknown else kept

    return fit


def _of_list(schema: Mapping[str, Any]) -> Fitter:
    item = _remembering(schema)

    def fit(value: Any, problems: list[str]) -> Any:
        kept, so_far = [], len(problems)
        for at, one in enumerate(value):
            kept.append(item(one, problems))
            if len(problems) > so_far:
                problems[so_far:] = [f"[{at}]{problem}" for problem in problems[so_far:]]
                so_far = len(problems)
        return kept

    return fit


def _remembering(schema: Mapping[str, Any]) -> Fitter:
    """Objects and lists that were looked at before are not looked at again: most of a status is as it was."""
    look = _fitter(schema)
    if schema.get("type", "object") not in ("object", "array"):
        return look
    fitted: dict[bytes, Any] = {}

    def fit(value: Any, problems: list[str]) -> Any:
        text = marshal.dumps(value, 2)  # tells 1 from True; equal values are written alike
        if text in fitted:
            return fitted[text]
        so_far = len(problems)
        kept = look(value, problems)
        if len(problems) == so_far:
            if len(fitted) > 1000:
                fitted.clear()
            fitted[text] = kept
        return kept

    return fit


def _rules(schema: Mapping[str, Any]) -> Iterator[Callable[[Any], str]]:
    """What is wrong with a value of the right type; empty where nothing is."""
    if "enum" in schema:
        yield lambda value: "" if value in schema["enum"] else f"Unsupported value: {value!r}"
    if "minLength" in schema or "maxLength" in schema:
        least, most = schema.get("minLength", 0), schema.get("maxLength", sys.maxsize)
        yield (
            lambda value: "Too long or too short" if isinstance(value, str) and not least <= len(value) <= most else ""
        )
    if "pattern" in schema:
        matches, pattern = re.compile(schema["pattern"]).search, schema["pattern"]
        yield lambda value: "" if matches(value) else f"Invalid value: {value!r} should match {pattern}"
    if "maxItems" in schema:
        yield lambda value: "" if len(value) <= schema["maxItems"] else "Too many"
    if "minimum" in schema:
        least = schema["minimum"]
        text = f"should be greater than or equal to {least}"
        yield lambda value: "" if value >= least else f"Invalid value: {value} {text}"
