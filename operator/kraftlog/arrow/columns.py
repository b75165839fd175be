"""Makes rows of many records at once, equal to those that `plain` makes one by one.

It decides which records are read together (those of one type and version, if there are enough), and which field goes
into which column. Unusual records are read by `plain`. All records are counted in the account of the reading. `framing`
has found the records before.
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
Piece = tuple[Positions | None, pa.Array]
"""A part of a column: (rows that have a value, or None if all have one; the values)."""

_FEW = 16  # fewer records of a type are read one by one, which is faster
_MORE = 0x80  # keys and versions from this one on take two bytes, which no release has
_FRAME = 3  # bytes
_TYPES = {kind.key: kind for kind in (*table.METADATA_TYPES, *OTHER_TYPES)}
_NAMES = pa.array([NAMES.get(key) for key in range(_MORE)], pa.string())
_UUIDS = frozenset(("incarnation", "topic_id"))
_OF_CONTENT = RECORDS.names[RECORDS.get_field_index("api_key") :]
"""The columns that depend on the values of records, and not only on their frames."""


def record_batch(reading: Reading, records: Records, origin: str, begins_at: int, redact: bool) -> pa.RecordBatch:
    """The rows of these records, which are counted in the account. begins_at: added to positions, for data that is a
    part of a file.
    """
    rows = len(records)
    columns: dict[str, pa.Array] = {
        "origin": pa.repeat(origin, rows),
        "offset": pa.array(records.offset),
        "batch_position": pa.array(records.batch_position + begins_at),
        "size": pa.array(records.end - records.start),
        "timestamp_ms": pa.array(records.timestamp),
        "leader_epoch": pa.array(records.leader_epoch),
        "is_control": pa.repeat(False, rows),
    }
    content = read(reading, records, redact, lambda entry: plain.row(entry, "", 0, redact))
    pieces = content.pieces
    if content.singles:
        single_rows = plain.record_batch(list(content.singles.values()))
        at = np.fromiter(content.singles, dtype=np.int64)
        for name in _OF_CONTENT:
            pieces.setdefault(name, []).append((at, single_rows.column(name)))
    for name in _OF_CONTENT:
        columns[name] = placed(pieces.get(name, ()), rows, RECORDS.field(name).type)
    return pa.RecordBatch.from_arrays([columns[name] for name in RECORDS.names], schema=RECORDS)


@dataclass(frozen=True, slots=True)
class Content(Generic[T]):
    """Columns of records. pieces: by column, the parts from records that were read together. names, versions: of all
    records, by their frames. singles: by row, the result of `convert` for records that were read one by one.
    """

    pieces: dict[str, list[Piece]]
    names: pa.Array
    versions: NDArray[np.int16]
    singles: dict[int, T]


def read(reading: Reading, records: Records, redact: bool, convert: Callable[[Entry], T]) -> Content[T]:
    """Read and count these records. convert: called for those that are read one by one, each before the next is read,
    since the values of a record may take a hundred times the memory of its bytes.
    """
    earlier_first = reading.first
    key, version = (records.view[records.value + at].astype(np.int16) for at in (1, 2))
    pieces, done = _together(reading, records, key, version, redact)
    names = _NAMES.take(pa.array(key & 0x7F))  # those of unusual records are replaced
    pieces["api_key"], pieces["version"] = [(None, pa.array(key))], [(None, pa.array(version))]
    pieces["record_type"], pieces["status"] = [(None, names)], [(None, pa.repeat(DECODED, len(records)))]
    singles, types = dict[int, T](), dict[int, str]()
    for row, entry in _one_by_one(reading, records, np.flatnonzero(~done)):
        singles[row], types[row] = convert(entry), reading.last or ""
    first, last = (types[row] if row in types else str(names[row].as_py()) for row in (0, len(records) - 1))
    # `count` has noted only records that were read one by one.
    reading.first, reading.last = first if earlier_first is None else earlier_first, last
    return Content(pieces, names, version, singles)


def _together(
    reading: Reading, records: Records, key: NDArray[np.int16], version: NDArray[np.int16], redact: bool
) -> tuple[dict[str, list[Piece]], NDArray[np.bool_]]:
    """Columns of the records that are read at once, and a mask of these records."""
    size, sizes = records.value_end - records.value, records.end - records.start
    done = np.zeros(len(records), dtype=np.bool_)
    framed = (records.view[records.value] == FRAME_VERSION) & (size > _FRAME) & (key < _MORE) & (version < _MORE)
    kinds = np.where(framed & (size <= MAX_RECORD), key.astype(np.int64) << 7 | version, -1)  # -1: unusual
    pieces: dict[str, list[Piece]] = {}
    for number in np.unique(kinds).tolist():
        kind, its_version = _TYPES.get(number >> 7), number & 0x7F
        if kind is None or its_version > kind.last_version or not fields.is_read(kind):
            continue
        at = np.flatnonzero(kinds == number)
        if len(at) < _FEW:
            continue
        body = fields.Rows(records.view, records.value[at], records.value_end[at], records.value[at] + _FRAME)
        text, values = fields.read(kind, its_version, body, redact)
        usual = at[body.good]
        if not len(usual):
            continue
        done[usual] = True
        reading.account.add(reading.account.decoded, kind.name, len(usual), int(sizes[usual].sum()))
        # Rows that were given up are in the pieces too, with wrong values: those of `singles` replace them.
        pieces.setdefault("body", []).append((at, text))
        for column, rows, array in _typed(kind, values, len(at)):
            pieces.setdefault(column, []).append((at if rows is None else at[rows], array))
    return pieces, done


def _typed(
    kind: RecordType, values: Mapping[str, fields.Value], rows: int
) -> Iterator[tuple[str, Positions | None, pa.Array]]:
    """The columns of a type: (name, rows that have a value or None for all, values)."""
    for column, name in FIELDS.get((False, kind.key), {}).items():
        if name not in values:
            continue
        value = values[name]
        data, at, unset = value.data, value.rows, value.null
        if kind is table.BROKER_REGISTRATION_CHANGE and column in ("fenced", "controlled_shutdown"):
            data, unset = data == 1, np.abs(data.astype(np.int16)) != 1  # 1: true, -1: false, 0: unchanged
        elif kind is table.PARTITION_CHANGE and column == "leader":
            unset = data == LEADER_UNCHANGED
        if column in _UUIDS:
            data = bare(data)
        array = data if isinstance(data, pa.Array) else pa.array(data, RECORDS.field(column).type)
        if unset is not None and unset.any():
            present = np.flatnonzero(~unset)
            at, array = present if at is None else at[present], array.take(pa.array(present))
        yield column, at, array
    for column, constant in CONSTANT.get((False, kind.key), {}).items():
        yield column, None, pa.repeat(pa.scalar(constant, RECORDS.field(column).type), rows)


def _one_by_one(reading: Reading, records: Records, rows: Positions) -> Iterator[tuple[int, Entry]]:
    """Decode and count the records of these rows."""
    for row in rows.tolist():
        size = int(records.end[row] - records.start[row])
        content = content_of(records.view[records.value[row] : records.value_end[row]].tobytes())
        reading.count(content, size)
        head = int(records.batch_position[row]), size, int(records.offset[row]), int(records.timestamp[row])
        yield row, Entry(*head, int(records.leader_epoch[row]), False, content)
