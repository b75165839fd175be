"""Rows of many records at once: the same as `plain` gives one by one, which reads whatever is unusual.

What it decides: which records are read together (of one type and version, and enough of them), and what goes into which
column. Called by `kraftlog.arrow` with records that `framing` found; the account of the reading is kept for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kraftlog.arrow import fields, plain
from kraftlog.arrow.framing import Records
from kraftlog.arrow.schema import CONSTANT, DECODED, FIELDS, RECORDS
from kraftlog.arrow.texts import bare, placed
from kraftlog.edges import Positions
from kraftlog.partition_records import LEADER_UNCHANGED
from kraftlog.reading import Entry, Reading, content_of
from kraftlog.records import FRAME_VERSION, MAX_RECORD
from kraftlog.schema import NAMES, RecordType, table
from kraftlog.schema.others import OTHER_TYPES

T = TypeVar("T")
Found = tuple[Positions | None, pa.Array]
"""Items, and in which rows they are, if not in all."""

_FEW = 16  # that are quicker one by one
_MORE = 0x80
_FRAME = 3  # bytes
_TYPES = {kind.key: kind for kind in (*table.METADATA_TYPES, *OTHER_TYPES)}
_NAMES = pa.array([NAMES.get(key) for key in range(_MORE)], pa.string())
_UUIDS = frozenset(("incarnation", "topic_id"))
_OF_CONTENT = RECORDS.names[RECORDS.get_field_index("api_key") :]
"""The columns of which `framing` does not know what they say."""


def record_batch(reading: Reading, found: Records, origin: str, begins_at: int, redact: bool) -> pa.RecordBatch:
    """The rows of these records; counts them."""
    rows = len(found)
    columns: dict[str, pa.Array] = {
        "origin": pa.repeat(origin, rows),
        "offset": pa.array(found.offset),
        "batch_position": pa.array(found.batch_position + begins_at),
        "size": pa.array(found.end - found.start),
        "timestamp_ms": pa.array(found.timestamp),
        "leader_epoch": pa.array(found.leader_epoch),
        "is_control": pa.repeat(False, rows),
    }
    content = read(reading, found, redact, lambda entry: plain.row(entry, "", 0, redact))
    pieces = content.pieces
    if content.others:
        alone = plain.record_batch(list(content.others.values()))
        at = np.fromiter(content.others, dtype=np.int64)
        for name in _OF_CONTENT:
            pieces.setdefault(name, []).append((at, alone.column(name)))
    for name in _OF_CONTENT:
        columns[name] = placed(pieces.get(name, ()), rows, RECORDS.field(name).type)
    return pa.RecordBatch.from_arrays([columns[name] for name in RECORDS.names], schema=RECORDS)


@dataclass(frozen=True, slots=True)
class Content(Generic[T]):
    """What records say. pieces: by column, of those that are read at once. names, versions: of all, as they are framed.
    others: what was made of those that are read one by one, by their row.
    """

    pieces: dict[str, list[Found]]
    names: pa.Array
    versions: NDArray[np.int16]
    others: dict[int, T]


def read(reading: Reading, found: Records, redact: bool, made: Callable[[Entry], T]) -> Content[T]:
    """What these records say; counts them. made: of those that are read one by one, each before the next is read, since
    the values of a record may take a hundred times the memory of its bytes.
    """
    before = reading.first
    key, version = (found.view[found.value + at].astype(np.int16) for at in (1, 2))
    pieces, done = _together(reading, found, key, version, redact)
    names = _NAMES.take(pa.array(key & 0x7F))
    pieces["api_key"], pieces["version"] = [(None, pa.array(key))], [(None, pa.array(version))]
    pieces["record_type"], pieces["status"] = [(None, names)], [(None, pa.repeat(DECODED, len(found)))]
    others, types = dict[int, T](), dict[int, str]()
    for row, entry in _one_by_one(reading, found, np.flatnonzero(~done)):
        others[row], types[row] = made(entry), reading.last or ""
    first, last = (types[row] if row in types else str(names[row].as_py()) for row in (0, len(found) - 1))
    reading.first, reading.last = first if before is None else before, last
    return Content(pieces, names, version, others)


def _together(
    reading: Reading, found: Records, key: NDArray[np.int16], version: NDArray[np.int16], redact: bool
) -> tuple[dict[str, list[Found]], NDArray[np.bool_]]:
    """What is read at once, and of which records."""
    size, sizes, done = found.behind - found.value, found.end - found.start, np.zeros(len(found), dtype=np.bool_)
    framed = (found.view[found.value] == FRAME_VERSION) & (size > _FRAME) & (key < _MORE) & (version < _MORE)
    kinds = np.where(framed & (size <= MAX_RECORD), key.astype(np.int64) << 7 | version, -1)
    pieces: dict[str, list[Found]] = {}
    for number in np.unique(kinds).tolist():
        kind, its_version = _TYPES.get(number >> 7), number & 0x7F
        if kind is None or its_version > kind.last_version or not fields.is_read(kind):
            continue
        at = np.flatnonzero(kinds == number)
        if len(at) < _FEW:
            continue
        body = fields.Rows(found.view, found.value[at], found.behind[at], found.value[at] + _FRAME)
        text, values = fields.read(kind, its_version, body, redact)
        good = at[body.good]
        if not len(good):
            continue
        done[good] = True
        reading.account.add(reading.account.decoded, kind.name, len(good), int(sizes[good].sum()))
        pieces.setdefault("body", []).append((at, text))
        for column, here, array in _typed(kind, values, len(at)):
            pieces.setdefault(column, []).append((at if here is None else at[here], array))
    return pieces, done


def _typed(
    kind: RecordType, values: Mapping[str, fields.Value], rows: int
) -> Iterator[tuple[str, Positions | None, pa.Array]]:
    """The columns of a type, each with the rows that have it."""
    for column, name in FIELDS.get((False, kind.key), {}).items():
        if name not in values:
            continue
        value = values[name]
        data, here, unset = value.data, value.rows, value.null
        if kind is table.BROKER_REGISTRATION_CHANGE and column in ("fenced", "controlled_shutdown"):
            data, unset = data == 1, np.abs(data.astype(np.int16)) != 1
        elif kind is table.PARTITION_CHANGE and column == "leader":
            unset = data == LEADER_UNCHANGED
        if column in _UUIDS:
            data = bare(data)
        array = data if isinstance(data, pa.Array) else pa.array(data, RECORDS.field(column).type)
        if unset is not None and unset.any():
            kept = np.flatnonzero(~unset)
            here, array = kept if here is None else here[kept], array.take(pa.array(kept))
        yield column, here, array
    for column, constant in CONSTANT.get((False, kind.key), {}).items():
        yield column, None, pa.repeat(pa.scalar(constant, RECORDS.field(column).type), rows)


def _one_by_one(reading: Reading, found: Records, which: Positions) -> Iterator[tuple[int, Entry]]:
    """What is not read at once; counted."""
    for row in which.tolist():
        size = int(found.end[row] - found.start[row])
        content = content_of(found.view[found.value[row] : found.behind[row]].tobytes())
        reading.count(content, size)
        place = int(found.batch_position[row]), size, int(found.offset[row]), int(found.timestamp[row])
        yield row, Entry(*place, int(found.leader_epoch[row]), False, content)
