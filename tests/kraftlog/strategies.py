"""Random record bodies for every type and version of the schema table."""

from __future__ import annotations

import random
import uuid
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
    """Data of a struct: tagged fields are sometimes absent, and sometimes there are unknown tags."""
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


def usual(struct: Struct, version: int, chance: random.Random) -> dict[str, Any]:
    """Data as clusters have it, which is read without decoding each record: ASCII, few items, no unknown tags."""
    return {
        each.name: _usual(each, version, chance)
        for each in struct.fields
        if each.since <= version and (each.tag is None or chance.random() < 0.5)
    }


def _usual(each: Field, version: int, chance: random.Random) -> Any:
    kind = each.type
    if each.nullable and chance.random() < 0.2:
        return None
    if isinstance(kind, Struct):
        return usual(kind, version, chance)
    if isinstance(kind, Array):
        field = Field("one", kind.of)
        return tuple(_usual(field, version, chance) for _ in range(chance.choice((0, 1, 3, 3, 20))))
    if kind is Scalar.STRING:
        return "".join(chance.choices("abc.-_ 09~}", k=chance.choice((0, 1, 9, 200))))
    if kind is Scalar.BYTES:
        return chance.randbytes(20)
    if kind is Scalar.UUID:
        return uuid.UUID(int=chance.getrandbits(128))
    if kind is Scalar.FLOAT64:
        return chance.random()
    if kind is Scalar.BOOL:
        return chance.random() < 0.5
    bits = {Scalar.INT8: 8, Scalar.INT16: 16, Scalar.UINT16: 16, Scalar.INT32: 32, Scalar.INT64: 64}[kind]
    least = 0 if kind is Scalar.UINT16 else -1 << bits - 1
    few = chance.choice((-2, -1, 0, 1, 7))
    return max(few, least) if chance.random() < 0.7 else least + chance.getrandbits(bits)
