"""Writes the schema tables: `kraftlog/schema/table.py`, of what images are made of, and `others.py`, of the rest.

The layouts come from Kafka's definitions; what they do not say, and a reader of the tables must know, is in `NOTES`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from kraftlog.schema.types import Array, Field, RecordType, Scalar, Struct
from tests.kraftlog.generate.definitions import Merged

IN_IMAGES = frozenset({0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 20, 21, 23, 24, 25, 27, 28, 29})
"""Keys of the records that the operator and the simulator read or write; they load no table of others."""

NOTES: Mapping[str, str] = {
    "REGISTER_BROKER": "isMigratingZkBroker comes before the incarnation (KIP-866); cordonedLogDirs: KIP-1066.",
    "PARTITION": "leaderRecoveryState: KIP-704; directories: KIP-858; eligibleLeaderReplicas: KIP-966. Kafka 3.7 calls "
    "the last field lastKnownELR.",
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
NEWEST_RELEASE = "4.4"

TABLE = '''"""The records that images are made of: an entry per type, as Kafka 3.0 to 4.4 define them.

Made from Kafka's jars by `python -m tests.kraftlog.generate`; do not edit. The other records are in `others`.
"""
'''
OTHERS = '''"""The metadata records of clients: rights, credentials, tokens, quotas, producer ids.

Made from Kafka's jars by `python -m tests.kraftlog.generate`; do not edit. Loaded when one of them is decoded.
"""
'''


def table(found: Sequence[Merged], control: Sequence[Merged], others: Sequence[Merged]) -> str:
    """The text of `table.py`; of the others it has the names."""
    names = "".join(f'    {merged.type.key}: "{merged.type.name}",' for merged in others)
    return (
        f"{TABLE}\nfrom __future__ import annotations\n\nfrom collections.abc import Mapping\n"
        "from types import MappingProxyType\n\nfrom kraftlog.schema.types import RecordType, control, metadata\n\n"
        f"{_body([*found, *control])}\n{_listed('METADATA_TYPES', found)}{_listed('CONTROL_TYPES', control)}\n"
        "BY_KEY: Mapping[tuple[bool, int], RecordType] = MappingProxyType(\n"
        "    {(t.control, t.key): t for t in METADATA_TYPES + CONTROL_TYPES}\n)\n\n"
        f"OTHER_NAMES: Mapping[int, str] = MappingProxyType({{{names}}})\n"
        '"""What Kafka calls the metadata records that are in `others`."""\n\n'
        "NAMES: Mapping[int, str] = MappingProxyType({**{t.key: t.name for t in METADATA_TYPES}, **OTHER_NAMES})\n"
    )


def others(found: Sequence[Merged]) -> str:
    """The text of `others.py`."""
    imports = "from __future__ import annotations\n\nfrom kraftlog.schema.types import RecordType, metadata\n\n"
    return f"{OTHERS}\n{imports}{_body(found)}\n{_listed('OTHER_TYPES', found)}"


def _listed(name: str, found: Sequence[Merged]) -> str:
    """A constant with these types."""
    names = textwrap.fill(", ".join(_name(merged.type) for merged in found), 114)
    return f"{name}: tuple[RecordType, ...] = (\n{textwrap.indent(names, '    ')},\n)  # fmt: skip\n"


def _name(kind: RecordType) -> str:
    return kind.name.removesuffix("_RECORD")


def _body(found: Sequence[Merged]) -> str:
    lines = []
    for merged in found:
        kind, name = merged.type, _name(merged.type)
        releases = f"Kafka {merged.since} to {merged.until}. " if merged.until != NEWEST_RELEASE else ""
        lines += [f"# {line}" for line in textwrap.wrap(releases + NOTES.get(name, ""), 116)]
        lines.append(f"{name} = {_entry(kind)}")
    return "\n".join(lines) + "\n"


def _entry(kind: RecordType) -> str:
    head = f"{kind.key} {kind.name}" + (f" v{kind.last_version}" if kind.last_version else "")
    current, *older = kind.layouts
    words = [_text(f"{head}: {_fields(current.fields)}" if current.fields.fields else head)]
    if older:
        words.append("{" + ", ".join(f'"{each.name}": {_text(_fields(each.fields))}' for each in older) + "}")
    return f"{'control' if kind.control else 'metadata'}({', '.join(words)})"


def _text(text: str) -> str:
    """A literal in pieces that fit a line, broken only behind commas."""
    whole = text.replace(" ", "\0").replace(",\0", ", ")
    pieces = textwrap.wrap(whole, 100, drop_whitespace=False, break_on_hyphens=False)
    return " ".join('"' + piece.replace("\0", " ") + '"' for piece in pieces)


def _fields(struct: Struct) -> str:
    return ", ".join(map(_field, struct.fields))


def _field(field: Field) -> str:
    since = f" since {field.since}" if field.since else ""
    tag = f" tag {field.tag}" if field.tag is not None else ""
    return f"{field.name} {_kind(field.type)}{'?' * field.nullable}{since}{tag}"


def _kind(kind: Scalar | Array | Struct) -> str:
    if isinstance(kind, Array):
        return f"[{_kind(kind.of)}]"
    return f"{{{_fields(kind)}}}" if isinstance(kind, Struct) else kind.value
