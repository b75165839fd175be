"""Exports the tables as Delta tables, one for each table of the manifest, without a JVM.

It decides which tables are written again, and which folder may be written to. Called by `kafkafeatures pipeline
export`. Delta has no commit across tables. So each table is overwritten in one commit, which names the sequence of the
manifest, and a digest of the files that the rows come from. A table whose last commit has the same digest is left
alone: the next export completes one that was killed, and a repeated export changes nothing. Tables that this module did
not write are never overwritten.

    <to>/<table>/_delta_log/...
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow.fs import FileSelector, FileSystem

from featurelog import stores
from featurelog.manifest import Manifest
from featurelog.parts import ROWS, batches_of, new_path, row_groups
from featurelog.run import METADATA_RECORDS
from featurelog.tables import TABLES

SCHEMAS: Mapping[str, pa.Schema] = {METADATA_RECORDS: ROWS, **{name: table.schema for name, table in TABLES.items()}}
"""The schema of every exported table. Tables without rows are exported, too."""
WRITER = "kafkafeatures-pipeline"
"""Name of the application in the transactions of this module. A Delta table that has none was written by others."""
SEQUENCE, FILES = "kafkafeatures.sequence", "kafkafeatures.files"
"""Keys of a commit's metadata: the sequence of the manifest, and the digest of the files behind the table."""
_LOG = "_delta_log"
_FILE = 64 * 1024 * 1024
"""Bytes of a file of a table, after which the next file is begun."""


class ExportError(Exception):
    """A table cannot be written: which one, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Exported:
    """An exported table. table: its name. rows: number of rows. version: of the Delta table now.
    is_new: written by this export; False: it was up to date.
    """

    table: str
    rows: int
    version: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class DeltaTarget:
    """The folder or bucket that tables go to. address: for delta-rs. uri: for `stores`. options: for delta-rs."""

    address: str
    uri: str
    options: Mapping[str, str]

    @classmethod
    def of(cls, to: str) -> DeltaTarget:
        """The target for a path or URI. Raises ExportError."""
        if not stores.is_uri(to):
            folder = str(Path(to).expanduser().absolute())
            return cls(folder, folder, {})
        if not to.startswith("s3://"):
            raise ExportError(f"{to.partition('://')[0]}://: exports go to a folder or to s3://bucket/prefix")
        try:
            delta_uri, options = stores.for_delta(to)
        except stores.StoreError as error:
            raise ExportError(str(error)) from None
        except OSError as error:
            raise ExportError(f"{to}: {stores.reason(error)}") from None
        return cls(delta_uri, to, options)

    def open(self) -> tuple[FileSystem, str]:
        """The file system, and the path in it. Raises OSError."""
        return stores.open_store(self.uri)

    def make(self) -> None:
        """Create the target if it is a folder. Raises ExportError, in plainer words than those of delta-rs."""
        if stores.is_uri(self.uri):
            return
        try:
            os.makedirs(self.address, exist_ok=True)
        except OSError as error:
            raise ExportError(f"{self.address}: {stores.reason(error)}; no table was written") from None

    def table(self, name: str) -> DeltaTable | None:
        """The existing Delta table; None: there is none. Raises ExportError for data that this module did not write."""
        delta_uri = f"{self.address}/{name}"
        system, path = self.open()
        inside = system.get_file_info(FileSelector(f"{path}/{name}", allow_not_found=True))
        if DeltaTable.is_deltatable(delta_uri, dict(self.options)):
            table = DeltaTable(delta_uri, storage_options=dict(self.options))
            if table.transaction_version(WRITER) is None:
                raise ExportError(f"{delta_uri}: a Delta table that another program wrote; choose another place")
            return table
        if any(file.base_name != _LOG for file in inside):
            raise ExportError(f"{delta_uri}: files are here that are no Delta table; choose another place")
        return None


def export(tables: Manifest, to: str) -> Iterator[Exported]:
    """Export all tables, and yield each when it is done. All of them are checked before the first one is written.
    Raises ExportError.
    """
    target = DeltaTarget.of(to)
    name, done = next(iter(SCHEMAS)), 0
    try:
        delta_tables = {}
        for name in SCHEMAS:
            delta_tables[name] = target.table(name)
        target.make()
        for name, table in delta_tables.items():
            yield _exported(tables, name, target, table)
            done += 1
    except (DeltaError, OSError, pa.ArrowException) as error:
        remedy = "tables before it are complete: run it again" if done else "no table is complete: run it again"
        raise ExportError(f"{target.address}/{name}: {stores.reason(error)}; {remedy}") from None


def _exported(tables: Manifest, name: str, target: DeltaTarget, delta_table: DeltaTable | None) -> Exported:
    files = tables.tables.get(name, ())
    rows, digest = sum(file.rows for file in files), _digest(tables, name)
    if delta_table is not None and delta_table.history(1)[0].get(FILES) == digest:
        return Exported(name, rows, delta_table.version(), is_new=False)
    ours = [Transaction(WRITER, tables.sequence)]
    if delta_table is None:
        # First an empty table that is marked as ours: if this export is killed, the next one does not take its files
        # for those of another program.
        delta_table = DeltaTable.create(
            f"{target.address}/{name}", SCHEMAS[name], storage_options=dict(target.options),
            commit_properties=CommitProperties(app_transactions=ours),
        )  # fmt: skip
    else:
        # Remove files that were replaced, or left by a killed export, more than a week ago: Delta's default.
        delta_table.vacuum(dry_run=False, full=True)
    commit = CommitProperties({SEQUENCE: str(tables.sequence), FILES: digest}, app_transactions=ours)
    schema = Schema.from_arrow(SCHEMAS[name])
    actions: list[AddAction | RemoveAction] = [
        *_written(target, name, _rows(tables.paths(name), SCHEMAS[name]), pa.schema(schema.to_arrow()))
    ]
    delta_table.create_write_transaction(actions, "overwrite", schema, commit_properties=commit)
    return Exported(name, rows, delta_table.version(), is_new=True)


def _written(target: DeltaTarget, name: str, rows: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[AddAction]:
    """Write the files of a table, which no reader sees before they are committed. delta-rs is not used for it: it
    limits the number of rows in memory, not their bytes, and would take hundreds of megabytes.
    """
    system, folder = target.open()
    groups = row_groups(rows)
    for first in groups:
        file = os.path.basename(new_path(""))
        path, count = f"{folder}/{name}/{file}", 0
        with system.open_output_stream(path) as output, pq.ParquetWriter(output, schema, compression="zstd") as writer:
            for group in itertools.chain((first,), groups):
                writer.write_table(group.cast(schema), group.num_rows)
                count += group.num_rows
                if output.tell() >= _FILE:
                    break
        size, now_ms = system.get_file_info(path).size, int(time.time() * 1000)
        yield AddAction(file, size, {}, now_ms, data_change=True, stats=json.dumps({"numRecords": count}))


def _rows(paths: Iterable[Path], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of these files. One file is open at a time, because the metadata of a file with many columns takes more
    memory than a few rows. A column that an older release did not write is null.
    """
    for path in paths:
        for rows in batches_of(path):
            columns = [
                rows[field.name].cast(field.type) if field.name in rows.schema.names
                else pa.nulls(rows.num_rows, field.type)
                for field in schema
            ]  # fmt: skip
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _digest(tables: Manifest, name: str) -> str:
    """A digest of the files that the table's rows come from; file names are never used twice."""
    files = [(file.path, file.rows, file.size) for file in tables.tables.get(name, ())]
    return hashlib.sha256(json.dumps([str(SCHEMAS[name]), files]).encode()).hexdigest()[:16]
