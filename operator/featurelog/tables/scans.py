"""Scans a file for `merging` and the tables: its offsets with leader epochs, records about nodes and levels, and
damage.

`merging` calls `scan` once per file. Records of partitions never become Python objects here: only some columns of a
million rows are read, and the rows that are kept stay in Arrow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurelog.tables.inputs import FileRecords
from kraftlog import files
from kraftlog.arrow import DECODED, RECORDS
from kraftlog.image import SMALL as SECTIONS
from kraftlog.partition_records import BROKER_RESOURCE, MIN_INSYNC_REPLICAS
from kraftlog.rules import METADATA_RULES
from kraftlog.schema import table
from kraftlog.transactions import TRANSACTION_KEYS

KEYS = TRANSACTION_KEYS.union({table.CONFIG.key}, *(METADATA_RULES[section] for section in SECTIONS))
"""Api keys of the metadata records that the tables are made of, apart from `rolls`. Of the configs only
min.insync.replicas of brokers is kept: topics may have any number of configs."""

_KEPT = (
    "offset", "timestamp_ms", "leader_epoch", "is_control", "api_key", "version", "record_type", "status", "reason",
    "body",
)  # fmt: skip
_NONE = -1  # in place of null, in columns of numbers

_SMALL_SCHEMA = pa.schema([(name, RECORDS.field(name).type) for name in _KEPT])
_EMPTY = _SMALL_SCHEMA.empty_table()
_NO_OFFSETS = np.array([], np.int64)


@dataclass(frozen=True, slots=True)
class OffsetSpan:
    """A range of offsets that a file has without a gap, in one leader epoch. begin, end: `end` is exclusive.
    end_ms: time of the last record.
    """

    begin: int
    end: int
    epoch: int
    end_ms: int


@dataclass(slots=True)
class Loss:
    """One kind of damage in a file. count: how often it occurs. bytes: of all damage of this kind. position: of the
    first one, in the file. detail: of the first one, for people.
    """

    count: int = 0
    bytes: int = 0
    position: int = 0
    detail: str = ""


class PartScan(NamedTuple):
    """Contents of one part of a file. begin, end: its lowest offset, and its highest one plus 1; None: it has none.
    losses: damage, by reason.
    """

    begin: int | None
    end: int | None
    losses: Mapping[str, Loss]


class Former(NamedTuple):
    """The first parts of a file, as an earlier run scanned them.

    parts: ids of these parts. below: ids, as they were read, of all parts with rows that a checkpoint covers; it
    begins with those of `parts`. is_cut: `below` has further parts, which also have rows that the checkpoint does not
    cover.
    losses: damage, by reason. unknown: rows of the records that were not decoded. epoch: highest one; -1: none.
    incomplete, written_at: as in `Scan`.
    """

    parts: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    is_cut: bool = False
    losses: Mapping[str, Loss] = {}
    unknown: tuple[Mapping[str, Any], ...] = ()
    epoch: int = -1
    incomplete: str = ""
    written_at: int | None = None


NO_FORMER = Former()
"""The former parts of a file that is read as a whole: none."""


@dataclass
class Scan:
    """Contents of one file.

    source: the file. name: its parsed name; None: neither a segment nor a snapshot. former: parts that were not read
    again; all other fields are about the rest.
    small: rows of the records of `KEYS`, of control records and of records that were not decoded, by offset.
    offsets: of these rows. spans: of a segment, in file order. parts: of the file.
    incomplete: reason why a snapshot is not complete; empty: complete, or a segment.
    repeated: an offset that several rows have, of which only the first is kept; None: no such offset.
    goes_back: spans were dropped because their epoch is higher than a later one.
    is_in_order: neither offsets nor epochs go back or are repeated.
    """

    source: FileRecords
    name: files.Segment | files.Snapshot | None
    former: Former = NO_FORMER
    small: pa.Table = field(default_factory=lambda: _EMPTY)
    offsets: Any = field(default_factory=lambda: _NO_OFFSETS)
    spans: list[OffsetSpan] = field(default_factory=list)
    parts: list[PartScan] = field(default_factory=list)
    incomplete: str = ""
    repeated: int | None = None
    goes_back: bool = False
    is_in_order: bool = True

    @property
    def snapshot_end(self) -> int | None:
        """The end offset of a snapshot; None: it is no snapshot."""
        return self.name.end_offset if isinstance(self.name, files.Snapshot) else None

    @property
    def losses(self) -> dict[str, Loss]:
        """Damage of the whole file, by reason."""
        return merged_losses([self.former.losses, *(part.losses for part in self.parts)])

    @property
    def unknown(self) -> pa.Table:
        """Rows of the records of the whole file that were not decoded."""
        rows = self.small.filter(pc.not_equal(self.small["status"], DECODED)) if self.small.num_rows else self.small
        former = self.former.unknown
        return pa.concat_tables([pa.Table.from_pylist(former, _SMALL_SCHEMA), rows]) if former else rows

    @cached_property
    def written_at(self) -> int | None:
        """The time in ms at which a snapshot was written: its records have that of their batch."""
        if self.former.parts:
            return self.former.written_at
        last: int | None = pc.max(self.small["timestamp_ms"]).as_py()
        return last

    def leader_changes(self, begin: int, end: int) -> set[tuple[Any, ...]]:
        """The leader changes from `begin` on and below `end`: offset, time and body of each, without the epoch."""
        rows = _leader_changes(self.between(begin, end)).select(["offset", "timestamp_ms", "body"])
        return {tuple(row.values()) for row in rows.to_pylist()}

    @cached_property
    def leader_change_offsets(self) -> frozenset[int]:
        """Offsets at which leaders began."""
        return frozenset(_leader_changes(self.small)["offset"].to_pylist())

    def between(self, begin: int, end: int) -> pa.Table:
        """The small records of the file with offsets from `begin` on and below `end`."""
        first, last = np.searchsorted(self.offsets, (begin, end))
        return self.small.slice(int(first), int(last - first))


def scan(source: FileRecords, former: Former = NO_FORMER) -> Scan:
    """Read a file once, without the parts of `former`."""
    result = Scan(source, files.parse(source.file), former)
    if former.parts and len(former.parts) == len(source.parts):
        result.incomplete = former.incomplete
        return result
    small_batches: list[pa.RecordBatch] = []
    spans = _Spans()
    completeness = _Whole()
    for part in source.parts[len(former.parts) :]:
        losses: dict[str, Loss] = {}
        begins, ends = list[int](), list[int]()
        for rows in part.rows():
            _count_losses(losses, rows)
            small_batches.append(_small(rows))
            bounds = pc.min_max(rows["offset"]).as_py()
            if bounds["min"] is not None:
                begins.append(bounds["min"])
                ends.append(bounds["max"] + 1)
            if isinstance(result.name, files.Snapshot):
                completeness.add(rows)
            else:
                spans.add(rows)
        result.parts.append(PartScan(min(begins, default=None), max(ends, default=None), losses))
    small = pa.Table.from_batches(small_batches, _SMALL_SCHEMA).combine_chunks()
    offsets = small["offset"].to_numpy()
    is_in_order = not np.any(offsets[1:] < offsets[:-1])
    if not is_in_order:
        order = np.argsort(offsets, kind="stable")
        small, offsets = small.take(order), offsets[order]
    is_repeated = offsets[1:] == offsets[:-1]
    if np.any(is_repeated):
        result.repeated = int(offsets[1:][is_repeated][0])
        first = np.concatenate(([True], ~is_repeated))
        small, offsets = small.filter(pa.array(first)), offsets[first]
    all_spans = spans.finish()
    result.small, result.offsets, result.spans = small, offsets, _credible(all_spans)
    result.goes_back = len(result.spans) < len(all_spans)
    result.is_in_order = is_in_order and result.repeated is None and not result.goes_back
    if isinstance(result.name, files.Snapshot):
        result.incomplete = "some of its bytes are damaged" if result.losses else completeness.why_not()
    return result


def header_ms(snapshot: Scan) -> int:
    """Time in ms of the last record of the log that a complete snapshot covers; 0: not known."""
    body = snapshot.small["body"][0].as_py()  # a complete snapshot begins with its header
    return max(0, int(json.loads(body)["lastContainedLogTimestamp"])) if body else 0


def _leader_changes(small: pa.Table) -> pa.Table:
    is_control = pc.fill_null(small["is_control"], fill_value=False)
    return small.filter(pc.and_(is_control, pc.equal(small["api_key"], table.LEADER_CHANGE.key)))


def _small(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that `Scan.small` has."""
    is_wanted = pc.or_(
        pc.or_(pc.not_equal(rows["status"], DECODED), pc.fill_null(rows["is_control"], False)),
        pc.is_in(rows["api_key"], value_set=_KEY_SET),
    )
    is_other_config = pc.and_(pc.equal(rows["status"], DECODED), _is_another_config(rows))
    mask = pc.and_(pc.and_not(is_wanted, is_other_config), rows["offset"].is_valid())
    return rows.select(list(_KEPT)).filter(mask).cast(_SMALL_SCHEMA)


_KEY_SET = pa.array(sorted(KEYS), pa.int16())
# Parts of the body of a config record that is kept. Bodies are not parsed here, for speed.
_IN_CONFIGS = (f'"resourceType":{BROKER_RESOURCE},', f'"name":"{MIN_INSYNC_REPLICAS}"')


def _is_another_config(rows: pa.RecordBatch) -> pa.Array:
    """A mask of the config records that are certainly not about min.insync.replicas of a broker."""
    is_config = pc.and_not(pc.equal(rows["api_key"], table.CONFIG.key), pc.fill_null(rows["is_control"], False))
    is_config = pc.fill_null(is_config, False)
    if not pc.any(is_config).as_py():
        return is_config
    has = [pc.fill_null(pc.match_substring(rows["body"], text), False) for text in _IN_CONFIGS]
    return pc.and_not(is_config, pc.and_(*has))


def merged_losses(several: Iterable[Mapping[str, Loss]]) -> dict[str, Loss]:
    """The sum of damage; position and detail are of the first."""
    result: dict[str, Loss] = {}
    for losses in several:
        for reason, loss in losses.items():
            first = result.get(reason)
            result[reason] = loss if first is None else Loss(
                first.count + loss.count, first.bytes + loss.bytes, first.position, first.detail
            )  # fmt: skip
    return result


def _count_losses(losses: dict[str, Loss], rows: pa.RecordBatch) -> None:
    """Add the damage in these rows to `losses`: bytes that are no record, and breaks in the order of records."""
    for row in rows.select(["batch_position", "size", "reason", "detail"]).filter(rows["offset"].is_null()).to_pylist():
        reason = row["reason"] or "damaged"
        if reason not in losses:
            losses[reason] = Loss(position=row["batch_position"], detail=row["detail"] or "")
        losses[reason].count += 1
        losses[reason].bytes += row["size"]


def _numbers(rows: pa.RecordBatch, column: str) -> Any:
    return pc.fill_null(rows[column], _NONE).to_numpy(zero_copy_only=False)


class _Spans:
    """Collects the spans of a segment from its rows. A row without an offset ends a span: offsets may be missing."""

    def __init__(self) -> None:
        self._spans: list[OffsetSpan] = []
        self._open: OffsetSpan | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        offsets, epochs, times = (_numbers(rows, column) for column in ("offset", "leader_epoch", "timestamp_ms"))
        holes = ~rows["offset"].is_valid().to_numpy(zero_copy_only=False)
        if not len(offsets):
            return
        breaks = np.empty(len(offsets), bool)
        breaks[0] = True
        # Offsets may leap: NoOp records that were left out (`parts.kept_of`) are no break.
        breaks[1:] = holes[1:] | holes[:-1] | (offsets[1:] <= offsets[:-1]) | (epochs[1:] != epochs[:-1])
        firsts = np.flatnonzero(breaks)
        lasts = np.append(firsts[1:], len(offsets)) - 1
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
            if holes[first]:
                self._close()
                continue
            begin, end, epoch = int(offsets[first]), int(offsets[last]) + 1, int(epochs[first])
            self._take(OffsetSpan(begin, end, epoch, int(times[last])))

    def _take(self, span: OffsetSpan) -> None:
        """Extend the open span by this one, or close the open one and begin another."""
        current = self._open
        if current is not None and span.begin >= current.end and span.epoch >= current.epoch:
            if span.epoch == current.epoch:
                self._open = OffsetSpan(current.begin, span.end, current.epoch, span.end_ms)
                return
            # NoOp records before this span may be left out, but never the first record of an epoch: so the former
            # epoch lasts up to here.
            self._open = OffsetSpan(current.begin, span.begin, current.epoch, current.end_ms)
        self._close()
        self._open = span

    def _close(self) -> None:
        if self._open is not None:
            self._spans.append(self._open)
        self._open = None

    def finish(self) -> list[OffsetSpan]:
        self._close()
        return self._spans


def _credible(spans: Sequence[OffsetSpan]) -> list[OffsetSpan]:
    """The spans without those whose epoch is higher than that of a later span. Epochs never go back, and no CRC covers
    them: such an epoch is damaged.
    """
    credible, lowest = [], None
    for span in reversed(spans):
        if lowest is None or span.epoch <= lowest:
            credible.append(span)
            lowest = span.epoch
    return credible[::-1]


class _Whole:
    """Checks that the records of a snapshot are all there: a header, a footer, and each offset between them."""

    def __init__(self) -> None:
        self._next = 0
        self._types: tuple[object, object] = (None, None)
        self._in_order = True

    def add(self, rows: pa.RecordBatch) -> None:
        offsets = _numbers(rows, "offset")
        if not len(offsets):
            return
        self._in_order &= bool(np.array_equal(offsets, np.arange(self._next, self._next + len(offsets))))
        types = rows["record_type"]
        first = types[0].as_py() if self._next == 0 else self._types[0]
        self._types = (first, types[-1].as_py())
        self._next += len(offsets)

    def why_not(self) -> str:
        """Reason why the snapshot is not complete; empty if it is."""
        if not self._in_order:
            return "some of its records are missing"
        for record, record_type, expected in zip(
            ("header", "footer"), self._types, (table.SNAPSHOT_HEADER.name, table.SNAPSHOT_FOOTER.name), strict=True
        ):
            if record_type != expected:
                return f"it has no {record}"
        return ""


def rows_of(small: pa.Table, chunk: int = 8192) -> Iterator[dict[str, Any]]:
    """Small records as Python objects, some at a time."""
    for batch in small.to_batches(max_chunksize=chunk):
        yield from batch.to_pylist()


def rows_between(
    batches: Iterable[pa.RecordBatch], offsets: tuple[int, int], keys: pa.Array, columns: Sequence[str], or_null: str
) -> Iterator[dict[str, Any]]:
    """Rows of the metadata records of these types, and of those whose type is not known: their column `or_null` is
    null. offsets: from, to. columns: of the rows.
    """
    for rows in batches:
        mask = pc.or_(pc.is_in(rows["api_key"], value_set=keys), rows[or_null].is_null())
        mask = pc.and_(mask, pc.invert(pc.fill_null(rows["is_control"], True)))
        mask = pc.and_(mask, pc.and_(pc.greater_equal(rows["offset"], offsets[0]), pc.less(rows["offset"], offsets[1])))
        few = rows.select(columns).filter(mask, null_selection_behavior="drop")
        for at in range(0, few.num_rows, 4096):
            yield from few.slice(at, 4096).to_pylist()
