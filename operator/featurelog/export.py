"""The tables as Delta tables, for whoever reads those: one for each table of the manifest, written without a JVM.

What it decides: which tables are written again, and which folder may be written to. Called by `kafkafeatures pipeline
export`. A run makes tables anew and changes all of them at once; Delta knows no commit across tables. So each table is
overwritten in one commit, which names the sequence of the manifest that it is of, and a digest of the files behind it.
A table whose last commit names the same files is left alone: an export that was killed is completed by the next one,
and one that is run again changes nothing. What it did not write it never overwrites.

    <to>/<table>/_delta_log/...
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError
from pyarrow.fs import FileSelector

from featurelog import stores
from featurelog.manifest import Manifest
from featurelog.parts import ROWS
from featurelog.run import METADATA_RECORDS
from featurelog.tables import TABLES

SCHEMAS: Mapping[str, pa.Schema] = {METADATA_RECORDS: ROWS, **{name: one.schema for name, one in TABLES.items()}}
"""Of every table that is exported, also of one without rows."""
WRITER = "kafkafeatures-pipeline"
"""The application whose transaction, in the log of a table, says that this module writes it."""
SEQUENCE, FILES = "kafkafeatures.sequence", "kafkafeatures.files"
"""What a commit says beside it."""
_LOG = "_delta_log"
_ROWS = 32_768


class ExportError(Exception):
    """A table cannot be written: which one, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Exported:
    """One table. version: of the Delta table now. is_new: it was written by this export."""

    table: str
    rows: int
    version: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class Target:
    """Where tables go: a folder, or a bucket. options: of delta-rs."""

    place: str
    uri: str
    options: Mapping[str, str]

    @classmethod
    def of(cls, to: str) -> Target:
        """Raises ExportError."""
        if not stores.is_uri(to):
            folder = str(Path(to).expanduser().absolute())
            return cls(folder, folder, {})
        if not to.startswith("s3://"):
            raise ExportError(f"{to.partition('://')[0]}://: exports go to a folder or to s3://bucket/prefix")
        try:
            place, options = stores.for_delta(to)
        except stores.StoreError as error:
            raise ExportError(str(error)) from None
        except OSError as error:
            raise ExportError(f"{to}: {stores.reason(error)}") from None
        return cls(place, to, options)

    def table(self, name: str) -> DeltaTable | None:
        """As it is there; None where nothing is. Raises ExportError for what is not ours."""
        place = f"{self.place}/{name}"
        system, path = stores.open_store(self.uri)
        inside = system.get_file_info(FileSelector(f"{path}/{name}", allow_not_found=True))
        if DeltaTable.is_deltatable(place, dict(self.options)):
            found = DeltaTable(place, storage_options=dict(self.options))
            if found.transaction_version(WRITER) is None:
                raise ExportError(f"{place}: a Delta table that another program wrote; choose another place")
            return found
        if any(one.base_name != _LOG for one in inside):
            raise ExportError(f"{place}: files are here that are no Delta table; choose another place")
        return None


def export(tables: Manifest, to: str) -> Iterator[Exported]:
    """Each table as it is written or found; nothing is written before all were looked at. Raises ExportError."""
    target = Target.of(to)
    name = next(iter(SCHEMAS))
    try:
        found = {}
        for name in SCHEMAS:
            found[name] = target.table(name)
        for name, table in found.items():
            yield _exported(tables, name, target, table)
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise ExportError(
            f"{target.place}/{name}: {stores.reason(error)}; tables before it are complete: run it again"
        ) from None


def _exported(tables: Manifest, name: str, target: Target, found: DeltaTable | None) -> Exported:
    files = tables.tables.get(name, ())
    rows, digest = sum(one.rows for one in files), _digest(tables, name)
    if found is not None and found.history(1)[0].get(FILES) == digest:
        return Exported(name, rows, found.version(), is_new=False)
    ours = [Transaction(WRITER, tables.sequence)]
    if found is None:  # first an empty one that is marked as ours: what lies there is then never taken for another's
        found = DeltaTable.create(
            f"{target.place}/{name}", SCHEMAS[name], storage_options=dict(target.options),
            commit_properties=CommitProperties(app_transactions=ours),
        )  # fmt: skip
    else:
        found.vacuum(dry_run=False, full=True)  # what was replaced, or left by a killed export, a week ago
    said = CommitProperties({SEQUENCE: str(tables.sequence), FILES: digest}, app_transactions=ours)
    write_deltalake(found, _rows(tables, name), mode="overwrite", schema_mode="overwrite", commit_properties=said)
    return Exported(name, rows, found.version(), is_new=True)


def _rows(tables: Manifest, name: str) -> pa.RecordBatchReader:
    """A piece at a time. A column that an older release did not write is null."""
    paths = [str(path) for path in tables.paths(name)]
    if not paths:
        return pa.RecordBatchReader.from_batches(SCHEMAS[name], [])
    scanner = ds.dataset(paths, SCHEMAS[name], format="parquet").scanner(
        batch_size=_ROWS, batch_readahead=1, fragment_readahead=1, use_threads=False
    )
    return scanner.to_reader()


def _digest(tables: Manifest, name: str) -> str:
    """Of what the rows come from: names of files are never used twice."""
    files = [(one.path, one.rows, one.size) for one in tables.tables.get(name, ())]
    return hashlib.sha256(json.dumps([str(SCHEMAS[name]), files]).encode()).hexdigest()[:16]
