"""A part: a range of bytes of one file as rows of `metadata_records`, and an account of what became of these bytes.

It decides which rows a range has, which of them are kept (`MODES`, NoOp records), and where the next part of the same
file begins. It runs in this process, or in a worker of Spark. A data source sends it there by value, so it may import
only `record_files` and `stores` beside it, `kraftlog`, numpy, pyarrow and the standard library.
Memory is bounded whatever the bytes are; nothing of a file is ever run or trusted.
"""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurelog import stores
from featurelog.record_files import ROWS, batches_of, write_records
from kraftlog.arrow import DAMAGED, LOG, SNAPSHOT, record_batches
from kraftlog.batches import HEADER_SIZE, DamageReason
from kraftlog.reading import Reading
from kraftlog.schema import table

PERMISSIVE, DROPMALFORMED, FAILFAST = "PERMISSIVE", "DROPMALFORMED", "FAILFAST"
MODES = (PERMISSIVE, DROPMALFORMED, FAILFAST)
"""The modes that readers of Spark have: damage becomes a row, damage is only counted, or the first damage
ends the run.
"""

_PIECE = 1024 * 1024
_REMOTE_PIECE = 8 * 1024 * 1024
"""Bytes that are read at a time from a folder, and from an object store, where each piece costs a request."""
_HOUR = 3_600_000  # ms
_MOST_MERGED = 1000
"""Most paths in `Part.merged`. With more it is empty, and a checkpoint takes the part for one with other rows."""
_END = (DamageReason.TRUNCATED.value, DamageReason.ZEROS.value)
"""Reasons of damage at the end of a segment to which a node is still writing."""


class InputChangedError(Exception):
    """A file was truncated, replaced or deleted since it was listed."""


PROOF = ".seen-"
"""Prefix of the proof file of a run in the output (see `Task`)."""


class DamagedInputError(Exception):
    """Bytes of a file are damaged, and the mode is FAILFAST."""


class EngineError(Exception):
    """The engine cannot continue; the text says why, and what to do. Earlier commits are kept."""


@dataclass(frozen=True, slots=True)
class Task:
    """A range of a file to read.

    uri, path: of the input, and of the file in its file system. cluster, node, file: names, as in the inputs.
    fingerprint: digest of the header of the file's first batch. lead: position of the batch before `start`, which shows
    whether the range continues the order; `start` if there is none. start, end: positions in the file.
    is_open: a node may still be writing at the end. mode: one of `MODES`. redact: leave out secrets.
    version: of the object when the run was planned; "" in a folder.
    proof: path of a file of this run below the output; a worker that cannot see it has another disk, and returns a
    problem. "" if nothing is written.
    """

    uri: str
    path: str
    cluster: str
    node: str
    file: str
    fingerprint: str
    lead: int
    start: int
    end: int
    is_open: bool
    mode: str = PERMISSIVE
    redact: bool = True
    version: str = ""
    proof: str = ""

    @property
    def where(self) -> str:
        """The file's name in messages."""
        return f"{self.cluster}/{self.node}/{self.file}"


@dataclass(frozen=True, slots=True)
class Part:
    """Result of a task: a range of a file that was read.

    path: of the Parquet file below the output; None: no rows. rows, size: number of rows, and bytes of that file.
    start, next: the range in the input file; `next` is before the end of the task if a node was writing the last bytes.
    is_final: no byte of the range can change any more; False: the next run reads the whole part again.
    stamped: position of the last sound batch, `next` if none.
    stamp: digest of the bytes from `stamped` to `next`, by which the next run sees whether the file was only continued.
    ends: the offset behind the last batch; None: no batch.
    account: of the bytes of the range, as `kraftlog.reading.Account`; the ledger does not keep it.
    merged: paths of the parts that were merged into this one (`merged`), as they were read; empty: none.
    times: of the earliest and the latest record of the Parquet file, in ms since 1970; None: no record has one.
    damaged: (begin, end, digest of the bytes) of each range in which something is damaged. By it the next run sees
    whether a sound copy has taken its place.
    """

    path: str | None
    rows: int
    size: int
    start: int
    next: int
    is_final: bool
    stamped: int
    stamp: str
    ends: int | None
    account: dict[str, Any]
    merged: tuple[str, ...] = ()
    times: tuple[int, int] | None = None
    damaged: tuple[tuple[int, int, str], ...] = ()


class Range:
    """Bytes of a file from `start` to `end`, read a piece at a time. version: of the object, as of a task.

    Raises InputChangedError.
    """

    def __init__(self, file: pa.NativeFile, start: int, end: int, name: str) -> None:
        self._file, self._from, self._size, self._name = file, start, end - start, name
        self.version = stores.version(file)
        self._most = _REMOTE_PIECE if self.version else _PIECE
        self._start, self._piece = 0, b""

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, piece: slice) -> memoryview:
        start, end, _ = piece.indices(self._size)
        if not self._start <= start <= end <= self._start + len(self._piece):
            size = max(end, min(start + self._most, self._size)) - start
            self._start, self._piece = start, self._file.read_at(size, self._from + start)
            if len(self._piece) < size:
                self._start, self._piece = 0, b""
                raise InputChangedError(f"{self._name}: changed while it was read; run again")
        return memoryview(self._piece)[start - self._start : end - self._start]


def open_range(uri: str, path: str, start: int, end: int, name: str, *, version: str = "") -> Range:
    """Opens a range of a file in a folder or an object store. Raises InputChangedError for a file that is gone or of
    another version, and OSError.
    """
    system, _ = stores.open_store(uri)
    try:
        data = Range(system.open_input_file(path), start, end, name)
    except FileNotFoundError:
        raise InputChangedError(f"{name}: deleted since it was listed; run again") from None
    if version and data.version != version:
        raise InputChangedError(f"{name}: replaced while it was read; run again")
    return data


def stamp(data: Range, start: int, end: int) -> str:
    """A digest of these bytes."""
    digest = hashlib.sha256()
    for at in range(start, end, _PIECE):
        digest.update(data[at : min(at + _PIECE, end)])
    return digest.hexdigest()[:16]


def fingerprint(data: Range) -> str:
    """The stamp of the header of the first batch."""
    return stamp(data, 0, min(len(data), HEADER_SIZE))


class PartReader:
    """Reader of the rows of one task. Iterate it once; then the fields and the account are valid.

    next, is_final: see `Part`. is_damaged: True if a byte before `next` is damaged, or the order breaks.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.data = self._opened()
        self.reading = Reading(self.data)
        self.next = task.end
        self.is_final = True
        self.is_damaged = False
        self._tail = ""  # reason of the damage that reaches to the end of an open file
        self.last: int | None = None
        """Position of the last sound batch; None: there is none."""

    def _opened(self) -> Range:
        """The range of the task, with the batch before it."""
        task = self.task
        return open_range(task.uri, task.path, task.lead, task.end, task.where, version=task.version)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        task = self.task
        origin = SNAPSHOT if task.file.endswith(".checkpoint") else LOG
        labels = (task.cluster, task.node, task.file, task.fingerprint)
        for batch in record_batches(self.reading, origin=origin, begins_at=task.lead, redact=task.redact):
            rows = self._judged(batch)
            rows = rows.filter(pa.array(kept_of(rows)))
            if rows.num_rows:
                constant = [pa.repeat(pa.scalar(label, pa.string()), rows.num_rows) for label in labels]
                yield pa.RecordBatch.from_arrays([*constant, *rows.columns], schema=ROWS)
        if task.version:
            self._opened()  # raises if the object was replaced meanwhile: then its pieces are of two objects

    def _judged(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows without the lead batch, without an end that a node is still writing, and with damage treated as the
        mode demands. Raises DamagedInputError.
        """
        rows = rows.filter(pa.array(rows["batch_position"].to_numpy() >= self.task.start))
        damaged = pc.equal(rows["status"], DAMAGED).to_numpy(zero_copy_only=False)
        positions = rows["batch_position"].to_numpy()
        sound = positions[~damaged]
        self.last = int(sound[-1]) if len(sound) else self.last
        if not damaged.any():
            return rows
        at = np.flatnonzero(damaged)
        sizes = rows["size"].to_numpy()
        last = at[-1]
        # Damage up to the end of an open file may be a batch that the node is writing.
        if self.task.is_open and sizes[last] and positions[last] + sizes[last] == self.task.end:
            self.is_final = False  # it becomes a row now, but the next run reads the whole part again
            self._tail = rows["reason"][int(last)].as_py()
            if self._tail in _END:  # cut or zeros: no row now; the part ends before, and the next run begins there
                self.next, self.is_final = int(positions[last]), True
                rows, damaged, at = rows.slice(0, last), damaged[:last], at[:-1]
        self.is_damaged = self.is_damaged or len(at) > 0
        if self.task.mode == FAILFAST and len(at):
            first = int(at[0])
            reason = rows["reason"][first].as_py()
            raise DamagedInputError(f"{self.task.where}: at byte {positions[first]}: {reason}; mode is {FAILFAST}")
        return rows.filter(pa.array(~damaged)) if self.task.mode == DROPMALFORMED else rows

    def account(self) -> dict[str, Any]:
        """The account of the part's bytes, without the batch before it and without the end that is not read yet."""
        lead_size = self.task.start - self.task.lead
        account = asdict(self.reading.account)
        if lead_size:
            lead = Reading(self.data[:lead_size])
            collections.deque(lead, maxlen=0)
            account = combined(account, asdict(lead.account), -1)
        if unread := self.task.end - self.next:
            tail = {"size": unread, "damaged": {self._tail: {"records": 0, "bytes": unread}}}
            account = combined(account, tail, -1)
        return account


def combined(account: dict[str, Any], other: dict[str, Any], sign: int = 1) -> dict[str, Any]:
    """The sum of two accounts; with a sign of -1 their difference."""
    result: dict[str, Any] = {}
    for name in {**account, **other}:
        mine, theirs = account.get(name), other.get(name)
        if isinstance(mine, dict) or isinstance(theirs, dict):
            result[name] = combined(mine or {}, theirs or {}, sign)
        else:
            result[name] = (mine or 0) + sign * (theirs or 0)
    return {name: value for name, value in result.items() if value != {"records": 0, "bytes": 0}}


def kept_of(rows: pa.RecordBatch) -> Any:
    """A mask of the rows to keep: all but NoOp records. Of NoOp records, the first and the last of each hour in `rows`
    are kept, and those next to damage or another epoch. An idle controller writes two of them a second; the account has
    their number.
    """
    no_ops = pc.fill_null(pc.equal(rows["record_type"], table.NO_OP.name), fill_value=False)
    mask = ~no_ops.to_numpy(zero_copy_only=False)
    at = np.flatnonzero(~mask)
    if len(at):
        hours = pc.fill_null(rows["timestamp_ms"], 0).to_numpy(zero_copy_only=False)[at] // _HOUR
        epochs = pc.fill_null(rows["leader_epoch"], -1).to_numpy(zero_copy_only=False)[at]
        damages = np.cumsum(rows["offset"].is_null().to_numpy(zero_copy_only=False))[at]  # number of them before
        changes = np.diff(hours) | np.diff(epochs) | np.diff(damages) != 0
        mask[at[np.append(True, changes) | np.append(changes, True)]] = True
    return mask


def write_part(task: Task, output: str) -> Part:
    """Write the rows of a task to a new Parquet file of `metadata_records` below the output, a folder or URI.

    If the process is killed before it reports the file, no commit names it.
    """
    reader = PartReader(task)
    written = write_records(reader, output)
    stamped = reader.next if reader.last is None else reader.last
    read = stamp(reader.data, 0, reader.next - task.lead) if reader.is_damaged else ""
    return Part(
        path=written.path, rows=written.rows, size=written.size, times=written.times,
        start=task.start, next=reader.next, is_final=reader.is_final, stamped=stamped,
        stamp=stamp(reader.data, stamped - task.lead, reader.next - task.lead), ends=reader.reading.end_offset,
        account=reader.account(), damaged=((task.lead, reader.next, read),) if reader.is_damaged else (),
    )  # fmt: skip


def merged(parts: Sequence[Part], output: str) -> Part:
    """Merge successive parts of one file into one, since many small ones are slow to read."""
    batches = (batch for part in parts if part.path is not None for batch in batches_of(output, part.path))
    written = write_records(batches, output)
    paths = tuple(path for part in parts for path in (part.merged or (part.path,)) if path is not None)
    paths = paths if len(paths) <= _MOST_MERGED else ()
    return replace(
        parts[-1], path=written.path, rows=written.rows, size=written.size, times=written.times,
        start=parts[0].start, merged=paths, damaged=tuple(each for part in parts for each in part.damaged),
    )  # fmt: skip
