"""Random record bodies for every type and version of the schema table."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kraftlog.schema import CONTROL_TYPES, METADATA_TYPES, Array, Field, RecordType, Scalar, Struct
from kraftlog.schema.others import OTHER_TYPES
from kraftlog.schema.types import UNKNOWN_TAGS

TYPES_AND_VERSIONS = [
    (kind, version, layout)
    for kind in METADATA_TYPES + OTHER_TYPES + CONTROL_TYPES
    for version in range(kind.last_version + 1)
    for layout in kind.layouts
]


def label(kind: RecordType, version: int, layout: str) -> str:
    return f"{kind.name}-v{version}" + (f"-{layout}" if layout else "")


_SCALARS: dict[Scalar, st.SearchStrategy[Any]] = {
    Scalar.BOOL: st.booleans(),
    Scalar.INT8: st.integers(-(2**7), 2**7 - 1),
    Scalar.INT16: st.integers(-(2**15), 2**15 - 1),
    Scalar.UINT16: st.integers(0, 2**16 - 1),
    Scalar.INT32: st.integers(-(2**31), 2**31 - 1),
    Scalar.INT64: st.integers(-(2**63), 2**63 - 1),
    Scalar.FLOAT64: st.floats(allow_nan=False),  # a NaN is not equal to itself
    Scalar.UUID: st.uuids(),
    Scalar.BYTES: st.binary(max_size=200),
    Scalar.STRING: st.text(max_size=200),
}


def body(struct: Struct, version: int, unknown_tags: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    """Data of a struct: tagged fields sometimes absent, sometimes tags nobody knows."""
    present = [field for field in struct.fields if field.since <= version]
    always = {f.name: _value(f, version) for f in present if f.tag is None}
    sometimes = {f.name: _value(f, version) for f in present if f.tag is not None}
    if unknown_tags:
        tags = st.dictionaries(st.integers(20, 2**31 - 1), st.binary(max_size=150), min_size=1, max_size=3)
        sometimes[UNKNOWN_TAGS] = tags.map(lambda found: tuple(sorted(found.items())))
    return st.fixed_dictionaries(always, optional=sometimes)


def _value(field: Field, version: int) -> st.SearchStrategy[Any]:
    kind = field.type
    if isinstance(kind, Struct):
        return body(kind, version)
    if isinstance(kind, Array):
        item = body(kind.of, version) if isinstance(kind.of, Struct) else _SCALARS[kind.of]
        value: st.SearchStrategy[Any] = st.lists(item, max_size=3).map(tuple)
    else:
        value = _SCALARS[kind]
    return st.none() | value if field.nullable else value
