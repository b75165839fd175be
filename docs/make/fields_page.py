"""Writes docs/reference/fields.md from the CRD, in which each description is written once.

Called by `reference.py`; `tests/contract/test_fields.py` reads the fields with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

CRD = Path(__file__).resolve().parents[2] / "crds" / "kafkafeatures.yaml"
KUBERNETES_FIELDS = ("apiVersion", "kind", "metadata")
"""Fields of every object: the API server describes them itself, and accepts no description of `metadata`."""

_HEAD = """
`kubectl explain kafkafeatures.spec` shows the same. Times are RFC 3339, in UTC.
"""


class Field(NamedTuple):
    """A field: its path, such as `spec.features.levels[].name`, and its schema in the CRD."""

    path: str
    schema: Mapping[str, Any]
    is_required: bool


def version() -> Mapping[str, Any]:
    """The one version of the CRD."""
    crd_version: Mapping[str, Any] = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]
    return crd_version


def root() -> Mapping[str, Any]:
    """The schema of the resource."""
    schema: Mapping[str, Any] = version()["schema"]["openAPIV3Schema"]
    return schema


def fields(schema: Mapping[str, Any] | None = None) -> Iterator[Field]:
    """All fields of the resource, except those that every object has. `schema`: by default that of the CRD."""
    return (field for field in _inside(schema or root(), "") if field.path.partition(".")[0] not in KUBERNETES_FIELDS)


def _inside(schema: Mapping[str, Any], path: str) -> Iterator[Field]:
    """The fields in the schema of an object, and in those of its fields and items. `path`: that of the object."""
    for name, inner in schema.get("properties", {}).items():
        inner_path = f"{path}.{name}" if path else name
        yield Field(inner_path, inner, name in schema.get("required", ()))
        yield from _inside(inner, inner_path)
        yield from _inside(inner.get("items", {}), f"{inner_path}[]")


def page(note: str) -> str:
    """The whole page. `note`: the comment that says that the file is made."""
    all_fields = list(fields())
    spec = [
        _row(field, _type(field.schema), _default(field), _allowed(field.schema))
        for field in all_fields
        if _is_of(field, "spec")
    ]
    status = [_row(field, _type(field.schema)) for field in all_fields if _is_of(field, "status")]
    columns = [
        f"| {column['name']} | {'`-o wide`' if column.get('priority') else 'always'} | "
        f"{as_text(column['description'])} |"
        for column in version()["additionalPrinterColumns"]
    ]
    head = ["# Fields", "", note, as_text(root()["description"]), _HEAD]
    return "\n".join([
        *head,
        *_section("spec", all_fields, "| Field | Type | Default | Allowed | Meaning |", spec),
        *_section("status", all_fields, "| Field | Type | Meaning |", status),
        "## Columns of `kubectl get`",
        "",
        "| Column | Shown | Meaning |",
        "|---|---|---|",
        *columns,
        "",
    ])  # fmt: skip


def _is_of(field: Field, top: str) -> bool:
    return field.path.startswith(f"{top}.")


def _section(top: str, all_fields: list[Field], head: str, rows: list[str]) -> Iterator[str]:
    top_field = next(field for field in all_fields if field.path == top)
    line = "|" + "---|" * (head.count("|") - 1)
    yield from (f"## `{top}`", "", as_text(top_field.schema["description"]), "", head, line, *rows, "")


def _row(field: Field, *cells: str) -> str:
    return f"| {' | '.join((f'`{field.path}`', *cells, as_text(field.schema['description'])))} |"


def _type(schema: Mapping[str, Any]) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}s"
    return "time" if schema.get("format") == "date-time" else str(schema["type"])


def _default(field: Field) -> str:
    default = field.schema.get("default")
    if default is None:
        return "required" if field.is_required else ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _allowed(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    return f"`{schema['pattern']}`".replace("|", "\\|") if "pattern" in schema else ""


def as_text(description: str) -> str:
    """The description with escapes, so that Markdown shows it unchanged."""
    for mark in "*_|":
        description = description.replace(mark, f"\\{mark}")
    return description.replace("<", "&lt;")  # Python-Markdown, which makes the site, knows no escape for it
