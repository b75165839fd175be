"""Makes rows one by one, of any record and any damage; called by `kraftlog.arrow` and `columns`.

It defines the value of each column for an item of a reading. The fast path in `columns` must give equal rows, and uses
this module for unusual records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import pyarrow as pa

from kraftlog.arrow.schema import CONSTANT, DAMAGED, DECODED, FIELDS, KEPT, RECORDS
from kraftlog.as_json import body
from kraftlog.batches import Damage
from kraftlog.partition_records import LEADER_UNCHANGED
from kraftlog.reading import UNREADABLE, Entry
from kraftlog.records import Decoded, Raw, kafka_uuid
from kraftlog.schema import BY_KEY, NAMES, table

Row = tuple[Any, ...]
"""A value for each column of `RECORDS`."""

_INT64 = range(-(1 << 63), 1 << 63)
_INT16 = range(1 << 15)  # keys and versions
_TYPED = RECORDS.names[RECORDS.get_field_index("node_id") :]  # columns with values of fields
_NONE: Mapping[str, object] = {}
_SWITCHES = {1: True, -1: False}
"""Meaning of an int8 in a change; 0 is "unchanged"."""


def row(item: Entry | Damage, origin: str, begins_at: int, redact: bool) -> Row:
    """The row of an item. `begins_at`: position of the data in its file, which is added to positions."""
    if isinstance(item, Damage):
        head = (origin, None, begins_at + item.position, item.size, *[None] * 6)  # timestamp_ms to record_type
        return *head, DAMAGED, item.reason.value, item.detail or None, *[None] * (2 + len(_TYPED))  # body, raw, fields
    content, (key, version) = item.content, _numbers(item)
    name = content.type.name if isinstance(content, Decoded) else _name(item.control, key)
    text = raw = reason = detail = None
    typed = _NONE
    if isinstance(content, Decoded):
        status, text, typed = DECODED, body(content, redact=redact), _typed(content)
    else:
        raw = None if redact else content.value
        status, reason = (KEPT, content.reason.value) if isinstance(content, Raw) else (DAMAGED, UNREADABLE)
        detail = None if isinstance(content, Raw) else content.detail
    return (
        origin, _int64(item.offset), begins_at + item.position, item.size, _int64(item.timestamp_ms), item.leader_epoch,
        item.control, key, version, name, status, reason, detail, text, raw, *map(typed.get, _TYPED),
    )  # fmt: skip


def record_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """The rows as columns."""
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, RECORDS, strict=True)], schema=RECORDS
    )


def _numbers(item: Entry) -> tuple[int | None, int | None]:
    """Key and version of a record; None if it cannot be read, or does not fit into the column."""
    content = item.content
    key, version = (content.type.key if isinstance(content, Decoded) else content.key), content.version
    return (key if key in _INT16 else None), (version if version in _INT16 else None)


def _name(control: bool, key: int | None) -> str | None:
    if key is None:
        return None
    if control:
        record_type = BY_KEY.get((True, key))
        return record_type.name if record_type else None
    return NAMES.get(key)


def _int64(value: int) -> int | None:
    """The value if it fits into its column: deltas in a damaged record may exceed it."""
    return value if value in _INT64 else None


def _typed(record: Decoded) -> Mapping[str, object]:
    """The columns that depend on the type; None for fields that a change leaves unchanged."""
    kind, data = (record.type.control, record.type.key), record.data
    if kind not in FIELDS:
        return _NONE
    values = {column: _value(data.get(field)) for column, field in FIELDS[kind].items()}
    if record.type is table.BROKER_REGISTRATION_CHANGE:
        for column in ("fenced", "controlled_shutdown"):
            values[column] = _SWITCHES.get(data.get(FIELDS[kind][column], 0))
    elif record.type is table.PARTITION_CHANGE and values["leader"] == LEADER_UNCHANGED:
        values["leader"] = None
    elif record.layout and "maxFeatureLevel" in data:
        values["level"] = data["maxFeatureLevel"]
    return {**values, **CONSTANT.get(kind, {})}


def _value(value: Any) -> object:
    return kafka_uuid(value) if isinstance(value, UUID) else value
