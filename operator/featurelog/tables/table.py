"""Definition of a derived table: its columns with their meaning, its key, and its rows as an Arrow table.

Each table has a module with a `TABLE`; docs/reference/pipeline-tables.md is made of them. Rows are canonical: in the
order of the key, so that the same inputs give the same table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Row = Mapping[str, Any]
"""A value for each column; times as milliseconds since 1970."""

TIME = pa.timestamp("us", tz="UTC")  # Delta has no other unit
RANGES = pa.map_(pa.string(), pa.struct([pa.field("min", pa.int16()), pa.field("max", pa.int16())]))
_YEARS_1_TO_9999 = range(-62_135_596_800_000, 253_402_300_800_000)


@dataclass(frozen=True, slots=True)
class Column:
    """A column. name, type: as in Arrow. text: the meaning of its values, and of null."""

    name: str
    type: pa.DataType
    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """A derived table. name: unique. text: its meaning. key: columns whose values together are unique; rows are sorted
    by them. columns: in order.
    """

    name: str
    text: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema. Every column may be null: Unknown is a value."""
        return pa.schema([pa.field(column.name, column.type) for column in self.columns])

    def of(self, rows: Iterable[Row]) -> pa.Table:
        """The rows as Arrow."""
        ordered = sorted(rows, key=lambda row: tuple((row[name] is not None, row[name]) for name in self.key))
        return pa.table(
            {
                column.name: pa.array(_stored([row[column.name] for row in ordered], column.type), column.type)
                for column in self.columns
            },
            schema=self.schema,
        )


def _stored(values: list[Any], kind: pa.DataType) -> list[Any]:
    """The values of a column with their times in the unit of `TIME`; a time outside of the calendar becomes null, as a
    log may hold any number.
    """
    if kind == TIME:
        return [None if value is None or value not in _YEARS_1_TO_9999 else value * 1000 for value in values]
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        times = [field.name for field in kind.value_type if field.type == TIME]
        if times:
            return [value and [_with_times(item, times) for item in value] for value in values]
    return values


def _with_times(item: Row, names: Iterable[str]) -> Row:
    return {**item, **{name: _stored([item[name]], TIME)[0] for name in names}}


def in_ms(rows: pa.Table) -> pa.Table:
    """The rows with their times as numbers of ms since 1970, which `Table.of` takes."""
    for number, field in enumerate(rows.schema):
        if field.type == TIME:
            rows = rows.set_column(number, field.name, pc.divide(rows.column(number).cast(pa.int64()), 1000))
    return rows


def ranges_of(features: Mapping[str, tuple[int, int]]) -> list[tuple[str, dict[str, int]]]:
    """The version ranges of a node by feature, as values of a column of type `RANGES`."""
    return [(name, {"min": low, "max": high}) for name, (low, high) in sorted(features.items())]


WHERE = (
    Column("cluster", pa.string(), "name of the folder that contains the files of the cluster"),
    Column("cluster_id", pa.string(), "cluster id in the `meta.properties` of its nodes; null: no node has one"),
)
"""The columns that name the cluster: the first ones of every table."""

EVIDENCE = (
    Column("evidence_node", pa.string(), "folder of the node whose copy has the record"),
    Column("evidence_file", pa.string(), "file in that folder; the first by node and name if several have it"),
    Column(
        "evidence_offset", pa.int64(), "offset of the record; if it is in a snapshot, the end offset of the snapshot"
    ),
    Column("evidence_ts", TIME, "when a controller appended the record; for a snapshot, its last record"),
)
"""The columns that refer to the record from which a row was made."""

SPAN = (
    Column(
        "from_offset",
        pa.int64(),
        "offset from which it is true: the record, the End of its transaction, or the end of the snapshot",
    ),
    Column("from_ts", TIME, "when a controller appended that record; null: only a snapshot shows it"),
    Column("not_after", TIME, "latest time at which it can have begun; for a snapshot, the time of its last record"),
    Column("to_offset", pa.int64(), "offset from which it is no longer true; null: true at the end of the log"),
    Column("to_ts", TIME, "time of `to_offset`; also null if only a snapshot shows the end"),
    Column("source", pa.string(), "`record`, `control` (record of the quorum), or `snapshot` (a state, not an event)"),
    Column(
        "after_gap",
        pa.bool_(),
        "records before it are missing or not decoded: its beginning and the state before are uncertain",
    ),
    Column(
        "committed",
        pa.string(),
        "`yes`: a snapshot, or copies of a majority of the voters, contain it; otherwise `unknown`",
    ),
)
"""The columns of a row's period, and of how certain it is."""
