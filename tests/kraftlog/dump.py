"""Kafka's dump tool as an oracle: reads what `DumpLogSegments --cluster-metadata-decoder` prints and compares it.

The tool prints one line per batch and one per record. Releases differ in how they print control records: 3.9 gives only
the type of a leader change, 4.x its content. `compare` takes whatever the text has and holds our reading against it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from kraftlog.batches import Batch, Damage
from kraftlog.records import Decoded, Raw, decode, decode_control, to_json
from kraftlog.walks import walk

_PAIR = re.compile(r"(\w+): (\S+)")
_RECORD = re.compile(r"^\|? ?offset: (\d+) (.*?)headerKeys: \[[^]]*\] ?(.*)$")
_CONTROL = re.compile(r"^(\w+):? (\{.*\})$")
_CONTROL_TYPE = re.compile(r"^controlType: (\w+)\((\d+)\)")
_CONTROL_NAMES = {
    "LeaderChange": "LEADER_CHANGE",
    "SnapshotHeader": "SNAPSHOT_HEADER",
    "SnapshotFooter": "SNAPSHOT_FOOTER",
    "KRaftVersion": "KRAFT_VERSION",
    "KRaftVoters": "KRAFT_VOTERS",
}
# What the tool calls it -> what we do; numbers are compared as numbers.
_BATCH_FIELDS: dict[str, Callable[[Batch], object]] = {
    "baseOffset": lambda b: b.base_offset,
    "lastOffset": lambda b: b.last_offset,
    "count": lambda b: b.count,
    "baseSequence": lambda b: b.base_sequence,
    "producerId": lambda b: b.producer_id,
    "producerEpoch": lambda b: b.producer_epoch,
    "partitionLeaderEpoch": lambda b: b.leader_epoch,
    "isTransactional": lambda b: b.is_transactional,
    "isControl": lambda b: b.is_control,
    "position": lambda b: b.position,
    "CreateTime": lambda b: b.max_timestamp,
    "size": lambda b: b.size,
    "magic": lambda b: 2,
    "compresscodec": lambda b: b.codec.name.lower(),
    "crc": lambda b: b.crc,
    "isvalid": lambda b: True,
}


def parse_dump(text: str) -> list[tuple[int, str, dict[str, Any] | None]]:
    """(offset, type name or control type, data) of every record in order; data is None where the tool prints none."""
    return [(offset, name, data) for kind, offset, name, data, _ in _lines(text) if kind == "record"]


def compare(log: bytes, text: str) -> list[str]:
    """The differences between our reading of a segment or snapshot and the dump tool's, by batch and record."""
    ours, theirs = list(_read(log)), list(_lines(text))
    differences = [
        f"{mine[:2]}: we read {mine[2:]}, the tool {other[2:]}"
        for mine, other in zip(ours, theirs, strict=False)
        if not _agree(mine, other)
    ]
    if len(ours) != len(theirs):
        differences.append(f"we read {len(ours)} batches and records, the tool {len(theirs)}")
    return differences


Line = tuple[str, int, str, Any, dict[str, str]]


def _agree(mine: Line, other: Line) -> bool:
    (kind, offset, name, data, facts), (their_kind, their_offset, their_name, their_data, their_facts) = mine, other
    return (
        (kind, offset, name) == (their_kind, their_offset, their_name)
        and (data is None or their_data is None or data == their_data)
        and all(facts[key] == value for key, value in their_facts.items())
    )


def _lines(text: str) -> Iterator[Line]:
    for line in text.splitlines():
        if line.startswith("baseOffset:"):
            facts = {key: value for key, value in _PAIR.findall(line) if key in _BATCH_FIELDS}
            yield "batch", int(facts["baseOffset"]), "", None, facts
            continue
        if not (record := _RECORD.match(line)):
            continue
        offset, pairs, content = int(record[1]), dict(_PAIR.findall(record[2])), record[3]
        facts = {key: pairs[key] for key in ("CreateTime", "keySize", "valueSize") if key in pairs}
        if content.startswith("payload: "):
            payload = json.loads(content.removeprefix("payload: "))
            facts["version"] = str(payload["version"])
            yield "record", offset, payload["type"], payload["data"], facts
        elif match := _CONTROL_TYPE.match(content):
            yield "record", offset, match[1], None, facts
        elif match := _CONTROL.match(content):
            yield "record", offset, _CONTROL_NAMES[match[1]], json.loads(match[2]), facts
        else:
            raise ValueError(f"a record the tool prints in a way unknown here: {line}")


def _read(log: bytes) -> Iterator[Line]:
    for batch in walk(log):
        if isinstance(batch, Damage):
            yield "damage", batch.position, batch.reason.name, batch, {}
            continue
        facts = {name: _text(fact(batch)) for name, fact in _BATCH_FIELDS.items()}
        yield "batch", batch.base_offset, "", None, facts
        yield from _records(batch)


def _records(batch: Batch) -> Iterator[Line]:
    for record in batch.records():
        decoded = decode_control(record.key, record.value) if batch.is_control else decode(record.value)
        facts = {
            "CreateTime": str(record.timestamp_ms),
            "keySize": str(-1 if record.key is None else len(record.key)),
            "valueSize": str(-1 if record.value is None else len(record.value)),
            "version": str(decoded.version),
        }
        if isinstance(decoded, Decoded):
            yield "record", record.offset, decoded.type.name, to_json(decoded.data), facts
        elif isinstance(decoded, Raw):
            yield "record", record.offset, decoded.name or "", None, facts
        else:
            yield "record", record.offset, "unreadable", decoded.detail, facts


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
