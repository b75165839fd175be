"""The output: one Delta table for each table, and `runs`, whose last row says which versions belong together.

Delta has no commit across tables, so a run commits them one after the other and `runs` last: its row makes the result
visible at one moment. It names the version of each table; readers open exactly those. A run that is killed earlier
leaves versions that no row names, and the next run removes their files from the tables again.

What it decides: that of two runs at once one wins. A run commits to the versions that it opened at its begin, so a
commit of another run in between refuses all of its own, from the first table (`ledger`) on.

    <output>/<table>/_delta_log/...     <output>/<table>/part-....parquet
    <output>/ledger/...                 what was read: a row for each cluster (`ledger`)
    <output>/checkpoints/...            from where the tables of a cluster are continued (`tables.checkpoint`)
    <output>/runs/...                   a row for each of the last runs
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.schema import Field
from deltalake.transaction import AddAction, RemoveAction

from featurelog import stores
from featurelog.engine import RowsOfFile, TableFile, write_table
from featurelog.ledger import Ledger, OtherVersionError
from featurelog.parts import PROOF
from featurelog.record_files import METADATA_RECORDS, ROWS
from featurelog.tables import CHECKPOINTS, CLIENT_TABLES, TABLES, checkpoint
from featurelog.tables.rejected_requests import REFUSED
from featurelog.tables.table import TIME

SCHEMAS: Mapping[str, pa.Schema] = {METADATA_RECORDS: ROWS, **{name: table.schema for name, table in TABLES.items()}}
"""Schema of every table that people read."""
LEDGER, RUNS = "ledger", "runs"
_OPTIONAL = {*CLIENT_TABLES, REFUSED.name}
"""Tables that are made when they have rows for the first time."""
_LEDGER = pa.schema([pa.field("cluster", pa.string()), pa.field("document", pa.string())])
_RUNS = pa.schema(
    [
        pa.field("sequence", pa.int64()),
        pa.field("at", TIME),
        pa.field("versions", pa.map_(pa.string(), pa.int64())),
    ]
)
_OF_CLUSTERS = {**SCHEMAS, CHECKPOINTS: checkpoint.SCHEMA}
_SCHEMAS = {LEDGER: _LEDGER, REFUSED.name: REFUSED.schema, **_OF_CLUSTERS, RUNS: _RUNS}
"""All tables, in the order in which a run commits them."""
PARTITION = "cluster"
WRITER = "kafkafeatures-pipeline"
"""Name of the application in the transactions of a run. A Delta table without it was written by another program."""
_LONGEST_RUN = timedelta(days=1)
MOST_RUNS = 1000
"""Rows of `runs`: older ones are dropped."""
_CONFIGURATION = {"delta.enableExpiredLogCleanup": "false"}
"""Properties of each table. A commit that cleaned up the log could delete the entries of the version that `runs` names,
if that is old and a killed run has committed a newer one. Only `maintain` knows which entries are needed.
"""

_OTHER_RUN = "another run has written to it meanwhile"
_RESTORE = "another program changed a table; restore it, or give another output"


class OutputError(Exception):
    """The tables cannot be read or written: which ones, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables as one run committed them. output: their folder or URI. sequence: number of the run; 0: none yet.
    files: of each table, by its name. versions: of each Delta table, by its name.
    """

    output: str
    sequence: int = 0
    files: Mapping[str, tuple[TableFile, ...]] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)

    def paths(self, table: str, cluster: str | None = None) -> list[str]:
        """The paths of a table's files below `output`, of all clusters or of one."""
        return [file.path for file in self.files.get(table, ()) if cluster is None or file.cluster == cluster]

    def read(self, table: str, schema: pa.Schema, cluster: str | None = None) -> pa.Table:
        """A table in memory; an empty one where nothing was written. A column that an older release did not write is
        null. Raises OutputError.
        """
        try:
            tables = [
                pq.read_table(stores.open_file(self.output, path), schema=schema, partitioning=None)
                for path in self.paths(table, cluster)
            ]
        except (OSError, pa.ArrowException) as error:
            raise OutputError(f"{self.output}/{table}: {stores.reason(error)}; run the pipeline again") from None
        return pa.concat_tables(tables) if tables else schema.empty_table()


def load(output: str) -> tuple[Tables, Ledger]:
    """Tables and ledger of an output (folder or URI) after its last run; empty before the first. Raises OutputError."""
    opened = Output.open(output if stores.is_uri(output) else os.path.abspath(output))
    return opened.tables, opened.ledger


class Output:
    """The Delta tables of an output, as they were when it was opened, and the commits of one run.

    place, options: of the output for delta-rs, see `stores.for_delta`. tables, ledger: of the last run that ended;
    after `commit`: as committed.
    """

    def __init__(self, output: str) -> None:
        self._output = output
        self._place, self._options = stores.for_delta(output)
        self._delta: dict[str, DeltaTable] = {}
        """Tables that are open, at their newest version, or before the last commit of this run."""
        self._newest: dict[str, int] = {}
        """The versions that this run committed last."""
        self._runs: list[dict[str, Any]] = []
        self.tables, self.ledger = Tables(output), Ledger()

    @classmethod
    def open(cls, output: str) -> Output:
        """Open the tables that a run needs. Raises OutputError."""
        try:
            opened = cls(output)
            opened._read()
        except stores.StoreError as error:
            raise OutputError(str(error)) from None
        except (DeltaError, OSError, pa.ArrowException) as error:
            remedy = _RESTORE if "Unsupported" in str(error) else "check the path and the rights"
            raise OutputError(f"{output}: {stores.reason(error)}; {remedy}") from None
        except OtherVersionError as error:
            remedy = "use the release that wrote it, or give another output, which gets what the inputs still have"
            raise OutputError(f"{output}: {error}; {remedy}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problem = f"what the last run wrote cannot be read ({type(error).__name__}: {error})"
            raise OutputError(f"{output}: {problem}; restore it, or give another output") from None
        return opened

    def _read(self) -> None:
        """Read what the last row of `runs` names. A table without a row, of a run that was killed, has no files."""
        self._open(RUNS)
        if RUNS in self._delta:
            rows = [row for _, row in self._rows(RUNS, self._delta[RUNS])]
            self._runs = sorted(rows, key=lambda row: int(row["sequence"]))
        last: dict[str, Any] = self._runs[-1] if self._runs else {"sequence": 0, "versions": ()}
        # A newer release may have tables that this one does not know.
        versions = {name: version for name, version in last["versions"] if name in _SCHEMAS}
        for name in self._other_versions(versions) if versions else _SCHEMAS:
            self._open(name)
            if name in versions:
                self._at(name, versions[name])  # it must be there
        # A killed run is the one after the last row. Tables of a later one show that `runs` is lost, or an older copy:
        # to begin anew would lose rows of logs that are gone from the inputs.
        if any((table.transaction_version(WRITER) or 0) > last["sequence"] + 1 for table in self._delta.values()):
            problem = "is missing or older than the tables; restore it, or give another output"
            raise OutputError(f"{self._output}/{RUNS}: {problem}")
        if not versions:
            return
        ledger_table = self._at(LEDGER, versions[LEDGER])
        self._delta.setdefault(LEDGER, ledger_table)  # each run commits to it: it is opened once
        ledgers = dict(self._rows(LEDGER, ledger_table))
        self.ledger = Ledger.of(Ledger.from_json(row["document"]) for row in ledgers.values())
        self._set_tables(last["sequence"], versions, {LEDGER: [*ledgers], **self.ledger.files()})

    def _rows(self, name: str, delta_table: DeltaTable) -> Iterator[tuple[TableFile, dict[str, Any]]]:
        """The rows of a table, each with its file."""
        for file in _files(name, delta_table):
            for row in RowsOfFile(self._output, file.path)().to_pylist():
                yield file, row

    def _open(self, name: str) -> None:
        """Open the newest version of a table, if there is one. Raises OutputError if it is not of this output."""
        uri = f"{self._place}/{name}"
        if name in self._delta or not DeltaTable.is_deltatable(uri, self._options):
            return
        table = DeltaTable(uri, storage_options=self._options)
        if table.transaction_version(WRITER) is None:
            raise OutputError(f"{uri}: a Delta table that another program wrote; choose another output")
        self._delta[name] = table

    def _other_versions(self, versions: Mapping[str, int]) -> list[str]:
        """The tables that may have another newest version than this: their logs lack it, or have the next one."""
        names = [name for name in _SCHEMAS if name != RUNS]
        entries = [f"{name}/_delta_log/{versions.get(name, -1) + step:020}.json" for name in names for step in (0, 1)]
        sizes = iter(stores.sizes(self._output, entries))
        return [
            name for name, named, following in zip(names, sizes, sizes, strict=True)
            if (named is None and name in versions) or following is not None
        ]  # fmt: skip

    def _set_tables(self, sequence: int, versions: Mapping[str, int], files: Mapping[str, Sequence[TableFile]]) -> None:
        self.tables = Tables(self._output, sequence, {name: tuple(files.get(name, ())) for name in versions}, versions)

    def _at(self, name: str, version: int) -> DeltaTable:
        """A table at a version: the open one if it is at this version, else it is opened again. Raises OutputError."""
        if name in self._delta and self._delta[name].version() == version:
            return self._delta[name]
        uri = f"{self._place}/{name}"
        try:
            return DeltaTable(uri, version=version, storage_options=self._options)
        except DeltaError:
            problem = f"version {version}, which `{RUNS}` names, cannot be read"
            raise OutputError(f"{uri}: {problem}; restore the table, or give another output") from None

    def commit(self, ledger: Ledger, before: Callable[[], None] = lambda: None) -> None:
        """Commit the ledger, and the files that it names as the content of the tables. `before` is called before each
        effect, so that tests can end a run there. Raises OutputError, also if another run has committed since this was
        opened.
        """
        try:
            self._commit(self.tables.sequence + 1, ledger, before)
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise OutputError(f"{self._output}: {_failure(error)}; run it again") from None

    def _commit(self, sequence: int, ledger: Ledger, before: Callable[[], None]) -> None:
        files: dict[str, Sequence[TableFile]] = {**ledger.files()}
        known = {path for name in self.tables.files for path in self.tables.paths(name)}
        self._refuse_missing([file for of_table in files.values() for file in of_table if file.path not in known])
        files[LEDGER] = self._written_ledger(ledger, before)
        versions = dict(self.tables.versions)
        absent = {name for name in _OPTIONAL - self._delta.keys() - versions.keys() if not files.get(name)}
        for name in (name for name in _SCHEMAS if name not in {RUNS, *absent}):  # the ledger first
            before()
            of_table = files.get(name, ())
            is_same = name in versions and {file.path for file in of_table} == {*self.tables.paths(name)}
            if name in self._delta or not is_same:
                versions[name] = self._committed(name, of_table, sequence)
        run = {"sequence": sequence, "at": _now(), "versions": sorted(versions.items())}
        self._commit_runs([*self._runs, run][-MOST_RUNS:], before)
        self.ledger = ledger
        self._set_tables(sequence, versions, files)

    def _commit_runs(self, runs: list[dict[str, Any]], before: Callable[[], None]) -> None:
        before()
        row_file = write_table(self._output, RUNS, pa.Table.from_pylist(runs, schema=_RUNS), "", None)
        before()
        self._committed(RUNS, (row_file,), runs[-1]["sequence"])
        before()
        self._runs = runs

    def remove_cluster(self, cluster: str, before: Callable[[], None] = lambda: None) -> None:
        """Commit the tables and the ledger without a cluster's folder. The files stay, for readers of older versions.
        `before`, raises: see `commit`.
        """
        self.commit(self.ledger.without(cluster), before)

    def maintain(self, keep_days: int, before: Callable[[], None] = lambda: None) -> int:
        """Drop the rows of `runs` whose versions were replaced more than `keep_days` days ago. Then delete files that
        no version in the remaining rows has, log entries that no such version needs, and proof files of killed runs.
        Younger files stay, as they may be of a run under way. Returns the number of deleted files. `before`, raises:
        see `commit`.
        """
        since = _now() - timedelta(days=keep_days)
        following = [run["at"] for run in self._runs[1:]]
        kept = [run for run, until in zip(self._runs, following, strict=False) if until >= since] + self._runs[-1:]
        try:
            if len(kept) < len(self._runs):  # first: a row that stays names versions that can be read
                self._commit_runs(kept, before)
                del self._delta[RUNS]  # it is at the version before
            for name in _SCHEMAS:
                self._open(name)
            deleted = sum(self._maintained(name, kept, keep_days * 24, before) for name in list(self._delta))
            before()
            return deleted + stores.remove_old(self._output, PROOF, min(since, _now() - _LONGEST_RUN))
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise OutputError(f"{self._output}: {_failure(error)}; run it again") from None

    def _maintained(self, name: str, runs: Sequence[Mapping[str, Any]], hours: int, before: Callable[[], None]) -> int:
        """Clean up a table, of which the versions that these runs name stay. Returns the number of deleted files."""
        before()
        versions = sorted({version for run in runs for table, version in run["versions"] if table == name})
        deleted = self._delta[name].vacuum(
            hours, dry_run=False, enforce_retention_duration=False, full=True, keep_versions=versions
        )
        before()
        oldest = self._at(name, versions[0]) if versions else self._delta[name]
        oldest.create_checkpoint()
        before()
        oldest.cleanup_metadata()  # older entries, without which the checkpoint can be read
        return len(deleted)

    def _refuse_missing(self, files: Sequence[TableFile]) -> None:
        """Raise OutputError unless each file has the size that its worker reported: a worker may have another disk."""
        for file, size in zip(files, stores.sizes(self._output, [file.path for file in files]), strict=True):
            if size != file.size:
                state = "is not there" if size is None else f"has {size} bytes"
                problem = f"a worker wrote {file.size} bytes to it, and here it {state}"
                remedy = "nothing was committed; use an output that the run and all workers share"
                raise OutputError(f"{self._output}/{file.path}: {problem}; {remedy}")

    def _written_ledger(self, ledger: Ledger, before: Callable[[], None]) -> tuple[TableFile, ...]:
        """The files of the ledger, one for each cluster. A file of the last run stays if nothing has changed in it."""
        earlier = {file.cluster: file for file in self.tables.files.get(LEDGER, ())}
        files = []
        for cluster, of_cluster in ledger.by_cluster().items():
            before()
            row = {"cluster": cluster, "document": of_cluster.to_json().decode()}
            rows = pa.Table.from_pylist([row], schema=_LEDGER)
            files.append(write_table(self._output, LEDGER, rows, cluster, None, earlier=earlier.get(cluster)))
        return tuple(files)

    def _committed(self, name: str, files: Sequence[TableFile], sequence: int) -> int:
        """The version of a table that has exactly these files, which is committed unless it has them already."""
        delta_table, schema = self._table(name, sequence), Schema.from_arrow(_SCHEMAS[name])
        is_known = delta_table.version() == self.tables.versions.get(name)
        present_files = self.tables.files[name] if is_known else _files(name, delta_table)
        present = {file.path: file for file in present_files}
        wanted = {file.path: file for file in files}
        now_ms, partition = int(_now().timestamp() * 1000), [] if name == RUNS else [PARTITION]
        actions: list[AddAction | RemoveAction] = [
            AddAction(_inside(path), file.size, _partition(name, file), now_ms, data_change=True, stats=_stats(file))
            for path, file in wanted.items() if path not in present
        ]  # fmt: skip
        actions += [
            RemoveAction(_inside(path), True, now_ms, file.size, _partition(name, file))
            for path, file in present.items() if path not in wanted
        ]  # fmt: skip
        if actions:
            delta_table.create_write_transaction(
                actions, "append", schema, partition_by=partition, commit_properties=_commit_of(sequence)
            )
            self._newest[name] = delta_table.version() + 1  # without a retry it is the next one
        return max(delta_table.version(), self._newest.get(name, 0))

    def _table(self, name: str, sequence: int) -> DeltaTable:
        """The table as it was when the output was opened, or a new one; with the columns that this release has added.
        Raises OutputError if another run has written to it since then.
        """
        schema = Schema.from_arrow(_SCHEMAS[name])
        commit = _commit_of(sequence)
        if name not in self._delta and name in self.tables.versions:
            self._delta[name] = DeltaTable(f"{self._place}/{name}", storage_options=self._options)
            if self._delta[name].version() != self.tables.versions[name]:
                raise OutputError(f"{self._output}: {_OTHER_RUN}; run it again")
        if name not in self._delta:
            self._delta[name] = DeltaTable.create(
                f"{self._place}/{name}", schema, partition_by=None if name == RUNS else [PARTITION],
                storage_options=self._options, commit_properties=commit, configuration=_CONFIGURATION,
            )  # fmt: skip
        delta_table = self._delta[name]
        if delta_table.version() < self._newest.get(name, 0):
            delta_table.load_as_version(self._newest[name])
        names = {each.name for each in delta_table.schema().fields}
        if added := [each for each in schema.fields if each.name not in names]:
            delta_table.alter.add_columns([Field(each.name, each.type) for each in added], commit_properties=commit)
        return delta_table


def _now() -> datetime:
    return datetime.now(UTC)


def _failure(error: Exception) -> str:
    """The reason why a commit failed."""
    is_other = any(text in str(error) for text in ("Failed to commit transaction", "already exists"))
    return _OTHER_RUN if is_other else stores.reason(error)


def _files(table: str, delta_table: DeltaTable) -> tuple[TableFile, ...]:
    """The files of a version of a table."""
    rows = pa.table(delta_table.get_add_actions(flatten=True)).to_pylist()
    return tuple(
        TableFile(
            row.get(f"partition.{PARTITION}") or "", row.get("min.cluster_id"), f"{table}/{row['path']}",
            row["num_records"], row["size_bytes"],
        )
        for row in sorted(rows, key=lambda row: row["path"])
    )  # fmt: skip


def _commit_of(sequence: int) -> CommitProperties:
    """The properties of a run's commits. Without a retry a commit fails if the table is not as it was opened."""
    return CommitProperties(max_commit_retries=0, app_transactions=[Transaction(WRITER, sequence)])


def _inside(path: str) -> str:
    """The path of a file within its table."""
    return path.partition("/")[2]


def _partition(table: str, file: TableFile) -> dict[str, str | None]:
    return {} if table == RUNS else {PARTITION: file.cluster}


def _stats(file: TableFile) -> str:
    """Statistics as Delta has them: the id of the cluster, which all rows of a file share, and the times of records, so
    that a query of a month opens no other files.
    """
    known = {} if file.cluster_id is None else {"cluster_id": file.cluster_id}
    first, last = ({"timestamp_ms": time} for time in file.times) if file.times else ({}, {})
    return json.dumps({"numRecords": file.rows, "minValues": known | first, "maxValues": known | last})
