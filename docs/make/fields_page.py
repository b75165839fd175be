"""Writes docs/reference/fields.md from the CRD, in which each description is written once.

Called by `reference.py`; `tests/contract/test_fields.py` reads the fields with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

CRD = Path(__file__).resolve().parents[2] / "crds" / "kafkafeatures.yaml"
OF_KUBERNETES = ("apiVersion", "kind", "metadata")
"""Fields of every object: the API server describes them itself, and accepts no description of `metadata`."""

_HEAD = """
`kubectl explain kafkafeatures.spec` shows the same. Times are RFC 3339, in UTC.
"""


class Field(NamedTuple):
    """A field by its path, such as `spec.features.levels[].name`."""

    path: str
    schema: Mapping[str, Any]
    is_required: bool


def version() -> Mapping[str, Any]:
    """The one version of the CRD."""
    found: Mapping[str, Any] = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]
    return found


def root() -> Mapping[str, Any]:
    """The schema of the resource."""
    found: Mapping[str, Any] = version()["schema"]["openAPIV3Schema"]
    return found


def fields(schema: Mapping[str, Any] | None = None) -> Iterator[Field]:
    """All fields of the resource, by the CRD or another schema of it, but for those of every object."""
    return (one for one in _inside(schema or root(), "") if one.path.partition(".")[0] not in OF_KUBERNETES)


def _inside(schema: Mapping[str, Any], path: str) -> Iterator[Field]:
    for name, inner in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield Field(here, inner, name in schema.get("required", ()))
        yield from _inside(inner, here)
        yield from _inside(inner.get("items", {}), f"{here}[]")


def page(note: str) -> str:
    """The whole page."""
    found = list(fields())
    spec = [_row(one, _type(one.schema), _default(one), _allowed(one.schema)) for one in found if _is_of(one, "spec")]
    status = [_row(one, _type(one.schema)) for one in found if _is_of(one, "status")]
    columns = [
        f"| {one['name']} | {'`-o wide`' if one.get('priority') else 'always'} | {_text(one['description'])} |"
        for one in version()["additionalPrinterColumns"]
    ]
    head = ["# Fields", "", note, _text(root()["description"]), _HEAD]
    return "\n".join([
        *head,
        *_section("spec", found, "| Field | Type | Default | Allowed | Meaning |", spec),
        *_section("status", found, "| Field | Type | Meaning |", status),
        "## Columns of `kubectl get`",
        "",
        "| Column | Shown | Meaning |",
        "|---|---|---|",
        *columns,
        "",
    ])  # fmt: skip


def _is_of(one: Field, top: str) -> bool:
    return one.path.startswith(f"{top}.")


def _section(top: str, found: list[Field], head: str, rows: list[str]) -> Iterator[str]:
    about = next(one for one in found if one.path == top)
    line = "|" + "---|" * (head.count("|") - 1)
    yield from (f"## `{top}`", "", _text(about.schema["description"]), "", head, line, *rows, "")


def _row(one: Field, *cells: str) -> str:
    return f"| {' | '.join((f'`{one.path}`', *cells, _text(one.schema['description'])))} |"


def _type(schema: Mapping[str, Any]) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}s"
    return "time" if schema.get("format") == "date-time" else str(schema["type"])


def _default(one: Field) -> str:
    default = one.schema.get("default")
    if default is None:
        return "required" if one.is_required else ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _allowed(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    return f"`{schema['pattern']}`".replace("|", "\\|") if "pattern" in schema else ""


def _text(description: str) -> str:
    """The description as Markdown shows it as it is."""
    for mark in "*<_":
        description = description.replace(mark, f"\\{mark}")
    return description.replace("|", "\\|")
