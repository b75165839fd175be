"""Checkpoint of a cluster: what was found in its log up to an offset, so that the next run reads only what follows.

    checkpoint = Checkpoint.load(data)         # of the last run, or None
    recorder = Recorder(...)                   # `merging` chooses an offset; each step saves its state there
    recorder.saved()                           # for the next run

Each step that walks over the log (`merging`, `impossible`, `walk`, `rolls`) saves its state at the same offset, and a
later run continues from there. So its tables are those that a walk over the whole log makes, if nothing below the
offset has changed: `OutdatedError` says what has, and then everything is read again. The offset is the end of a
snapshot, because the log is divided there anyway.

Called by `tables_of` and the modules that walk over the log. The states are pickled. Reading them makes nothing but
values of the types of the log and of the tables (`_Reader`).
"""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from enum import Enum
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from featurelog.tables.inputs import ClusterCopies, FileRecords, PartRecords
from featurelog.tables.scans import NO_FORMER, Former, Scan, header_ms, merged_losses
from featurelog.tables.table import WHERE
from kafkafeatures import __version__
from kraftlog import files
from kraftlog.arrow import DECODED

DERIVED = 4
"""Version of the code that derives tables from records. When it changes, the next run derives all tables anew, from all
records.
"""
FORM = (DERIVED, __version__, sys.version_info[:2])
"""A checkpoint of another form is not read: another release may find other things in the same records."""
STEPS = ("merging", "impossible", "walk", "rolls")
SETTLED_MS = 10 * 60 * 1000
"""Age of the records, by the newest one, below which no checkpoint is made: other nodes' copies may still lack them, or
a snapshot of them may still be written.
"""
LIVE_MS = 24 * 60 * 60 * 1000
"""A copy whose last record is older than this, by the newest one, is not waited for: its node may be gone."""
_MOST_BYTES = 256 * 1024 * 1024
"""Bytes of the largest checkpoint; a larger one would take longer to read than it saves."""
_MOST_UNKNOWN = 10_000
"""Most rows of records that were not decoded in a checkpoint; a log with more is read again each time."""

CHECKPOINTS = "checkpoints"
"""Name of the table of checkpoints, which is for the pipeline alone."""
SCHEMA = pa.schema(
    [(column.name, column.type) for column in WHERE] + [("checkpoint", pa.binary()), ("outdated", pa.string())]
)
"""Schema of that table: a row for each cluster. checkpoint: null: none. outdated: reason why the last one was not used,
and everything was read again; empty if it was used, or there was none.
"""

FileKey = tuple[str, str]
"""(node, file)"""


class OutdatedError(Exception):
    """A checkpoint is not of the log as it is now: the reason."""


def key_of(file: FileRecords) -> FileKey:
    """The name of a file in its cluster."""
    return file.node, file.file


class Premises(NamedTuple):
    """Facts beside the records that the states below the offset depend on.

    apart: pairs of folders that are surely of two nodes. voters: of a static quorum, in the files beside the log.
    """

    apart: frozenset[frozenset[str]]
    voters: frozenset[int] | None


_NO_PREMISES = Premises(frozenset(), None)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint. end: the offset; everything below it is in `states`, by step. files: the parts of each file that
    are not read again.
    """

    end: int
    files: Mapping[FileKey, Former]
    premises: Premises
    states: Mapping[str, bytes]

    @classmethod
    def load(cls, data: bytes) -> Checkpoint:
        """The checkpoint in these bytes. Raises OutdatedError."""
        match _opened(data):
            case [form, *values] if form == FORM:
                return cls(*values)
            case _:
                raise OutdatedError("another release made the checkpoint")

    def state(self, step: str) -> Any:
        """The state of a step at `end`; each call returns another copy. Raises OutdatedError."""
        return _loads(self.states[step])

    def former(self, file: FileRecords) -> Former:
        """The parts of a file that are not read again: none if they were merged or replaced."""
        former = self.files.get(key_of(file), NO_FORMER)
        return former if _ids(file)[: len(former.parts)] == former.parts else NO_FORMER

    def check(self, scans: Sequence[Scan], premises: Premises) -> None:
        """Raise OutdatedError if anything below `end` is not as it was."""
        if premises != self.premises:
            raise OutdatedError("which copies are of different nodes, or the voters in quorum-state, has changed")
        by_key = {key_of(scan.source): scan for scan in scans}
        if len(by_key) < len(scans):
            raise OutdatedError("a file is there twice")
        for key, former in self.files.items():
            scan = by_key.get(key)
            if scan is None or _read_ids(scan.source.parts)[: len(former.below)] != former.below:
                raise OutdatedError(f"{_name(key)} was replaced")
        for key, scan in by_key.items():
            if scan.parts or scan.former.is_cut or scan.former is not self.files.get(key):  # else nothing is new in it
                self._check_new(key, scan)
        if not any(scan.snapshot_end == self.end and not scan.incomplete for scan in scans):
            raise OutdatedError(f"the snapshot at offset {self.end} is no longer complete")

    def _check_new(self, key: FileKey, scan: Scan) -> None:
        saved, former = self.files.get(key, Former()), scan.former
        sizes = (len(part.ids) for part in scan.source.parts)
        starts = list(accumulate(sizes, initial=0))
        first = bisect_left(starts, len(saved.below))  # of the parts behind all in `below`
        is_merged = former.parts != saved.parts or starts[first] != len(saved.below)
        is_ascending = scan.is_in_order and all(span.end <= after.begin for span, after in pairwise(scan.spans))
        # Parts that were merged with parts in `below` lie behind these, and so behind `end` if these reached it.
        if is_merged and not (saved.is_cut and is_ascending):
            raise OutdatedError(f"{_name(key)} may have new records below offset {self.end}")
        new = scan.parts[first - len(former.parts) :]
        begins = [part.begin for part in new if part.begin is not None]
        if scan.snapshot_end is not None:
            begins = [scan.snapshot_end] if new else []
        if former.parts and scan.parts and (scan.parts[0].begin or 0) > self.end:
            raise OutdatedError(f"{_name(key)} has no record at offset {self.end}")
        if min(begins, default=self.end) < self.end:
            raise OutdatedError(f"{_name(key)} has new records below offset {self.end}")
        if (scan.spans and min(span.epoch for span in scan.spans) < former.epoch) or (former.parts and scan.goes_back):
            raise OutdatedError(f"leader epochs go back in {_name(key)}")


@dataclass(slots=True)
class Recorder:
    """Records a checkpoint while the steps walk over the log.

    end: the offset; None: no checkpoint is made. scans, premises: see `Checkpoint`. earlier: the checkpoint of the last
    run; None: everything is read.
    """

    earlier: Checkpoint | None = None
    end: int | None = None
    scans: Sequence[Scan] = ()
    premises: Premises = _NO_PREMISES
    _states: dict[str, bytes] = field(default_factory=dict)

    def is_due(self, step: str, offset: int) -> bool:
        """True if a step must save its state before it continues with the records from this offset on."""
        return self.end is not None and offset >= self.end and step not in self._states

    def save(self, step: str, state: object) -> None:
        """Save the state of a step, as it is now."""
        self._states[step] = pickle.dumps(state, pickle.HIGHEST_PROTOCOL)

    def saved(self) -> bytes | None:
        """The new checkpoint; None if a step has no state at `end`."""
        if self.end is None or set(self._states) != set(STEPS):
            return None
        formers = {key_of(scan.source): former for scan in self.scans if (former := _former(scan, self.end))}
        if sum(len(former.unknown) for former in formers.values()) > _MOST_UNKNOWN:
            return None
        data = _sealed((FORM, self.end, formers, self.premises, self._states))
        return data if len(data) <= _MOST_BYTES else None


def offset_for(scans: Sequence[Scan], above: int, settled_ms: int = SETTLED_MS) -> int | None:
    """The offset of the next checkpoint, which is higher than `above`: the end of the newest snapshot below which
    nothing is expected to change any more. None: there is none, or the copies are not in order.
    """
    new = [scan for scan in scans if scan.parts]
    if not all(scan.is_in_order and _is_ascending(scan) and all(_ids(scan.source)) for scan in new):
        return None
    if len({key_of(scan.source) for scan in scans}) < len(scans):
        return None
    last_of: dict[str, tuple[int, int]] = {}  # by folder: end offset, and time of the last record
    for scan in new:
        for span in scan.spans:
            last_of[scan.source.node] = max(last_of.get(scan.source.node, (-1, -1)), (span.end, span.end_ms))
    newest_ms = max((ms for _, ms in last_of.values()), default=0)
    least = min((end for end, ms in last_of.values() if ms >= newest_ms - LIVE_MS), default=0)
    snapshots = [scan for scan in new if scan.snapshot_end is not None and not scan.incomplete]
    ends = {scan.snapshot_end or 0 for scan in snapshots if header_ms(scan) <= newest_ms - settled_ms}
    return max((end for end in ends if above < end < least), default=None)


def _is_ascending(scan: Scan) -> bool:
    """Tell whether each part of a segment has higher offsets than the parts before it."""
    end = -1
    for part in scan.parts if isinstance(scan.name, files.Segment) else ():
        if part.begin is not None and part.end is not None:
            if part.begin < end:
                return False
            end = part.end
    return True


def _former(scan: Scan, end: int) -> Former | None:
    """The parts of a file that a later run does not have to read; None: all of them have to be read."""
    former, ids = scan.former, _ids(scan.source)
    if scan.snapshot_end is not None:
        if scan.snapshot_end >= end:
            return None
        count = below = len(ids)
    elif isinstance(scan.name, files.Segment):
        read = len(former.parts)
        whole = [part.end is None or part.end <= end for part in scan.parts]
        first = whole.index(False) if False in whole else len(whole)  # part that is read again
        if 0 < first < len(whole) and (scan.parts[first].begin or 0) > end:
            first -= 1  # damage between them was left out: only together they are one span
        count = read + first
        touched = [at for at, part in enumerate(scan.parts, read + 1) if part.begin is not None and part.begin < end]
        below = max([count, *touched])
    else:
        return None
    if not below:
        return None
    new = scan.parts[: count - len(former.parts)]
    last = max((part.end for part in new if part.end is not None), default=-1)  # of the parts that are read here
    is_snapshot = scan.snapshot_end is not None
    unknown = scan.small.filter(pc.not_equal(scan.small["status"], DECODED)).select(_UNKNOWN_COLUMNS).to_pylist()
    epochs = [span.epoch for span in scan.spans if span.begin < last]
    return Former(
        parts=ids[:count],
        below=_read_ids(scan.source.parts[:below]),
        is_cut=below > count,
        losses=merged_losses([former.losses, *(part.losses for part in new)]),
        unknown=(*former.unknown, *(row for row in unknown if is_snapshot or row["offset"] < last)),
        epoch=max([former.epoch, *epochs]),
        incomplete=scan.incomplete,
        written_at=scan.written_at if is_snapshot else None,
    )


_UNKNOWN_COLUMNS = ["offset", "timestamp_ms", "api_key", "version", "record_type", "status", "reason"]
"""Columns of which `data_quality` makes its rows."""


def _ids(file: FileRecords) -> tuple[str, ...]:
    return tuple([part.id for part in file.parts])


def _read_ids(parts: Sequence[PartRecords]) -> tuple[str, ...]:
    """The ids of parts as they were read."""
    return tuple(id_ for part in parts for id_ in part.ids)


def _name(key: FileKey) -> str:
    return "/".join(key)


def checkpoint_table(cluster: ClusterCopies, checkpoint: bytes | None, outdated: str) -> pa.Table:
    """The row of a cluster in the table of checkpoints."""
    row = {**cluster.as_columns(), "checkpoint": checkpoint, "outdated": outdated}
    return pa.Table.from_pylist([row], SCHEMA)


# --- pickling


_ROOTS = ("kraftlog.", "featurelog.tables.")
_OTHERS = {
    *(("builtins", name) for name in ("dict", "frozenset", "set")),
    *(("collections", name) for name in ("Counter", "defaultdict", "deque")),
    *(("kraftlog.judge", name) for name in ("Judge", "_Topic")),
    *(("kraftlog.known", name) for name in ("JudgeMemory", "UNKNOWN")),
    *(("kraftlog.maps", name) for name in ("FrozenMap", "VersionedMap")),
    ("kraftlog.modes", "Modes"),
    ("kraftlog.rolls", "RollRecords"),
    ("kraftlog.state", "State"),
    *(("kraftlog.state", f"_weight_of_{name}") for name in ("dropped", "level", "moves", "node", "number")),
    ("kraftlog.strips", "PartitionStrips"),
    ("kraftlog.transactions", "Transactions"),
    ("uuid", "UUID"),
}


class _Reader(pickle.Unpickler):
    """Makes values of dataclasses and named tuples of the log and of the tables, and of the types in `_OTHERS`. Pickled
    bytes can name any function of any module, and whoever can write to the output could run it here. A module of
    the log also has the names that it imports, such as `attrgetter`; a name with dots reaches what another module
    imports.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _OTHERS:
            return super().find_class(module, name)
        if module.startswith(_ROOTS) and "." not in name:
            value = super().find_class(module, name)
            if isinstance(value, type) and (is_dataclass(value) or issubclass(value, (tuple, Enum))):
                return value
        raise pickle.UnpicklingError(f"{module}.{name}")


def _sealed(values: object) -> bytes:
    """The pickled values behind a digest, which shows damage that would be read as other values."""
    data = pickle.dumps(values, pickle.HIGHEST_PROTOCOL)
    return hashlib.sha256(data).digest() + data


def _opened(data: bytes) -> Any:
    """The values of `_sealed`. Raises OutdatedError."""
    digest, pickled = data[:_DIGEST], data[_DIGEST:]
    if hashlib.sha256(pickled).digest() != digest:
        raise OutdatedError("the checkpoint is damaged")
    return _loads(pickled)


def _loads(data: bytes) -> Any:
    """The pickled value. Raises OutdatedError."""
    try:
        return _Reader(io.BytesIO(data)).load()
    except Exception:  # bytes that are no pickle can raise anything
        raise OutdatedError("the checkpoint cannot be read") from None


_DIGEST = hashlib.sha256().digest_size
