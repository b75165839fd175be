"""Writes the schema tables: `kraftlog/schema/table.py`, of what images are made of, and `others.py`, of the rest.

The layouts come from Kafka's definitions; what they do not say, and a reader of the tables must know, is in `NOTES`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from kraftlog.schema.types import Array, Field, RecordType, Scalar, Struct
from tests.kraftlog.generate.definitions import Merged

IN_IMAGES = frozenset({0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 20, 21, 23, 24, 25, 27, 28, 29})
"""Keys of the records that the operator and the simulator read or write; they load no table of others."""

NOTES: Mapping[str, str] = {
    "PARTITION_CHANGE": "What is absent is unchanged; a leader of -2 too, and -1 is none.",
    "DELEGATION_TOKEN": "Without the HMAC of the token: nodes derive it from the id and their secret.",
    "USER_SCRAM_CREDENTIAL": "Secret, but for name, mechanism and iterations. The older layout is older than KIP-900.",
    "FEATURE_LEVEL": "A range up to Kafka 3.2, one level from 3.3 on (KIP-778), both as version 0.",
    "PRODUCER_IDS": "Kafka 3.0 and 3.1 call the last field producerIdsEnd; it is the same number.",
    "BROKER_REGISTRATION_CHANGE": "fenced: -1 is unfenced, 0 or absent is unchanged, 1 is fenced.",
    "ZK_MIGRATION_STATE": "1 and 2 changed places in Kafka 3.5: only with the metadata.version can they be named.",
    "BEGIN_TRANSACTION": "KIP-868, as the next two.",
    "REGISTER_CONTROLLER": "KIP-919.",
    "CLEAR_ELR": "An empty name means all topics.",
    "UNREGISTER_CONTROLLER": "KIP-1312.",
    "LEADER_CHANGE": "Version 1 adds the directory ids (KIP-853).",
}
FIELD_NOTES: Mapping[tuple[str, str], str] = {
    ("REGISTER_BROKER", "isMigratingZkBroker"): "before the incarnation on the wire, KIP-866",
    ("REGISTER_BROKER", "cordonedLogDirs"): "KIP-1066",
    ("PARTITION", "leaderRecoveryState"): "KIP-704",
    ("PARTITION", "directories"): "KIP-858",
    ("PARTITION", "eligibleLeaderReplicas"): "KIP-966; Kafka 3.7 calls the next lastKnownELR",
}

_SHORT = {
    Scalar.BOOL: "B", Scalar.INT8: "I8", Scalar.INT16: "I16", Scalar.UINT16: "U16", Scalar.INT32: "I32",
    Scalar.INT64: "I64", Scalar.FLOAT64: "F64", Scalar.UUID: "UUID", Scalar.STRING: "STRING", Scalar.BYTES: "BYTES",
}  # fmt: skip
NEWEST_RELEASE = "4.4"

TABLE = '''"""The records that images are made of: an entry per type, as Kafka 3.0 to 4.4 define them.

Made from Kafka's jars by `python -m tests.kraftlog.generate`; do not edit. The other records are in `others`.
"""
'''
OTHERS = '''"""The metadata records that no image is made of: rights, credentials, tokens, quotas, producer ids.

Made from Kafka's jars by `python -m tests.kraftlog.generate`; do not edit. Loaded when one of them is decoded.
"""
'''


def table(found: Sequence[Merged], control: Sequence[Merged], others: Sequence[Merged]) -> str:
    """The text of `table.py`; of the others it has the names."""
    body = _body([*found, *control])
    listed = "\n".join(f"    {_name(merged.type)}," for merged in found)
    controls = "\n".join(f"    {_name(merged.type)}," for merged in control)
    names = "\n".join(f'    {merged.type.key}: "{merged.type.name}",' for merged in others)
    return (
        f"{TABLE}\nfrom __future__ import annotations\n\nfrom collections.abc import Mapping\n"
        f"from types import MappingProxyType\n\n{_imports([*found, *control])}\n\n{body}\n"
        f"METADATA_TYPES: tuple[RecordType, ...] = (\n{listed}\n)\n"
        f"CONTROL_TYPES: tuple[RecordType, ...] = (\n{controls}\n)\n\n"
        "BY_KEY: Mapping[tuple[bool, int], RecordType] = MappingProxyType(\n"
        "    {(t.control, t.key): t for t in METADATA_TYPES + CONTROL_TYPES}\n)\n\n"
        "OTHER_NAMES: Mapping[int, str] = MappingProxyType(\n    {\n"
        f"{names}\n    }}\n)\n"
        '"""What Kafka calls the metadata records that are in `others`."""\n\n'
        "NAMES: Mapping[int, str] = MappingProxyType({**{t.key: t.name for t in METADATA_TYPES}, **OTHER_NAMES})\n"
    )


def others(found: Sequence[Merged]) -> str:
    """The text of `others.py`."""
    listed = "\n".join(f"    {_name(merged.type)}," for merged in found)
    return (
        f"{OTHERS}\nfrom __future__ import annotations\n\n{_imports(found)}\n\n{_body(found)}\n"
        f"OTHER_TYPES: tuple[RecordType, ...] = (\n{listed}\n)\n"
    )


def _name(kind: RecordType) -> str:
    return kind.name.removesuffix("_RECORD")


def _imports(found: Sequence[Merged]) -> str:
    used = {scalar for merged in found for layout in merged.type.layouts for scalar in _scalars(layout.fields)}
    old = any(len(merged.type.layouts) > 1 for merged in found)
    array = any(isinstance(f.type, Array) for merged in found for f in _all(merged.type))
    names = ["Array"] * array + ["Field"] + ["Layout"] * old + ["RecordType", "Scalar"]
    names += ["control"] * any(merged.type.control for merged in found) + ["metadata", "struct"]
    short = [scalar for scalar in _SHORT if scalar in used]
    return (
        f"from kraftlog.schema.types import {', '.join(names)}\n\n"
        f"{', '.join(_SHORT[merged] for merged in short)} = {', '.join(f'Scalar.{merged.name}' for merged in short)}"
    )


def _all(kind: RecordType) -> Iterator[Field]:
    for layout in kind.layouts:
        yield from _fields(layout.fields)


def _fields(struct: Struct) -> Iterator[Field]:
    for field in struct.fields:
        yield field
        inner = field.type.of if isinstance(field.type, Array) else field.type
        if isinstance(inner, Struct):
            yield from _fields(inner)


def _scalars(struct: Struct) -> Iterator[Scalar]:
    for field in _fields(struct):
        inner = field.type.of if isinstance(field.type, Array) else field.type
        if isinstance(inner, Scalar):
            yield inner


def _body(found: Sequence[Merged]) -> str:
    shared = _shared(found)
    parts = [f"{name} = {_struct(struct, {})}" for struct, name in shared.items()]
    for merged in found:
        parts.append("")
        kind, name = merged.type, _name(merged.type)
        if merged.until != NEWEST_RELEASE:
            parts.append(f"# Kafka {merged.since} to {merged.until}.")
        parts += [f"# {line}" for line in _wrapped(NOTES.get(name, ""))]
        parts.append(f"{name} = {_entry(kind, name, shared)}")
    return "\n".join(parts) + "\n"


def _wrapped(text: str) -> list[str]:
    return re.findall(r"\S.{0,115}(?= |$)", text)


def _shared(found: Sequence[Merged]) -> dict[Struct, str]:
    """Structs that several fields have, with a name."""
    count: Counter[Struct] = Counter()
    name: dict[Struct, str] = {}
    for merged in found:
        for each in _all(merged.type):
            if isinstance(each.type, Array) and isinstance(each.type.of, Struct):
                count[each.type.of] += 1
                name.setdefault(each.type.of, re.sub(r"(?=[A-Z])", "_", each.name).upper().removesuffix("S"))
    return {struct: name[struct] for struct, times in count.items() if times > 1}


def _entry(kind: RecordType, name: str, shared: Mapping[Struct, str]) -> str:
    last = f", last_version={kind.last_version}" if kind.last_version else ""
    if len(kind.layouts) == 1:
        call = "control" if kind.control else "metadata"
        inner = "".join(
            f"\n    {_field(merged, shared)},{_note(name, merged)}" for merged in kind.layouts[0].fields.fields
        )
        return f'{call}(\n    {kind.key},\n    "{kind.name}",{inner}{last and f"{chr(10)}    {last[2:]},"}\n)'
    layouts = "".join(
        f"Layout({_struct(merged.fields, shared)}{f', {merged.name!r}' if merged.name else ''}),"
        for merged in kind.layouts
    )
    return f'RecordType(\n    {kind.key}, "{kind.name}", {kind.last_version}, ({layouts}),\n)'


def _note(name: str, one: Field) -> str:
    note = FIELD_NOTES.get((name, one.name))
    return f"  # {note}" if note else ""


def _struct(struct: Struct, shared: Mapping[Struct, str]) -> str:
    return f"struct({', '.join(_field(field, shared) for field in struct.fields)})"


def _field(one: Field, shared: Mapping[Struct, str]) -> str:
    words = [f'"{one.name}"', _kind(one.type, shared)]
    words += [f"since={one.since}"] * bool(one.since) + [f"tag={one.tag}"] * (one.tag is not None)
    return f"Field({', '.join(words + ['nullable=True'] * one.nullable)})"


def _kind(kind: Scalar | Array | Struct, shared: Mapping[Struct, str]) -> str:
    if isinstance(kind, Array):
        return f"Array({_kind(kind.of, shared)})"
    if isinstance(kind, Struct):
        return shared.get(kind) or _struct(kind, shared)
    return _SHORT[kind]
