"""The manifest: LATEST names it, and it names the ledger and every file of every table.

The result of a run becomes visible at one moment, the rename of LATEST. Files that were written before are invisible
until then, and the next run removes those that a killed run left. Readers find the files
of a table in the manifest, never by listing folders. Called by a run, and by readers of the tables.

    <output>/LATEST                              -> "manifest-000042.json"
    <output>/manifest/manifest-000042.json       tables: files, rows; the name of the ledger
    <output>/manifest/ledger-000042.json         what was read (`ledger`)
    <output>/<table>/<cluster>/part-....parquet
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from featurelog.disk import Disk
from featurelog.ledger import Ledger

VERSION = 1
LATEST = "LATEST"
FOLDER = "manifest"
_NAME = re.compile(r"manifest-(\d{6,})\.json")


class OutputError(Exception):
    """The tables cannot be read or written: which ones, why, and what to do."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A Parquet file of a table. cluster, cluster_id: whose rows it has. path: relative to the output folder.
    rows, size: number of rows, and bytes.
    """

    cluster: str
    cluster_id: str | None
    path: str
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The tables as one run committed them. root: the output folder. sequence: number of the commit; 0: no commit yet.
    tables: the files of each table, by name.
    """

    root: Path
    sequence: int = 0
    tables: Mapping[str, tuple[TableFile, ...]] = field(default_factory=dict)

    def paths(self, table: str, cluster: str | None = None) -> list[Path]:
        """The files of a table, of all clusters or of one."""
        files = self.tables.get(table, ())
        return [self.root / file.path for file in files if cluster is None or file.cluster == cluster]

    def read(self, table: str, schema: pa.Schema, cluster: str | None = None) -> pa.Table:
        """A table in memory; an empty one where nothing was written."""
        tables = [pq.read_table(path, schema=schema, partitioning=None) for path in self.paths(table, cluster)]
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def to_json(self) -> dict[str, Any]:
        """The manifest as plain JSON values; files are written by their fields."""
        return {"version": VERSION, "sequence": self.sequence, "tables": dict(sorted(self.tables.items()))}


def name(sequence: int) -> str:
    """The file name of a manifest."""
    return f"manifest-{sequence:06}.json"


def ledger_name(sequence: int) -> str:
    """The file name of a ledger, which lies beside its manifest."""
    return f"ledger-{sequence:06}.json"


def folder_of(root: Path, table: str, cluster: str) -> Path:
    """The folder of a table's files. The name of the cluster is encoded so that it is one valid folder name."""
    safe = quote(cluster, safe="")
    return root / table / (safe if safe.strip(".") else safe.replace(".", "%2E"))


def load(root: Path) -> tuple[Manifest, Ledger]:
    """The latest manifest and its ledger; empty ones if nothing was committed yet. Raises OutputError."""
    latest = root / LATEST
    try:
        if not latest.exists():
            return Manifest(root), Ledger()
        match = _NAME.fullmatch(latest.read_text().strip())
        if match is None:
            raise ValueError("it names no manifest")
        manifest = _read(root, int(match[1]))
        return manifest, Ledger.from_json(json.loads((root / FOLDER / ledger_name(manifest.sequence)).read_bytes()))
    except OSError as error:
        raise OutputError(f"{error.filename or root}: {error.strerror}; check the path and the rights") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"what it names cannot be read ({type(error).__name__}: {error})"
        raise OutputError(f"{latest}: {problem}; restore it, or give another output") from None


def _read(root: Path, sequence: int) -> Manifest:
    document = json.loads((root / FOLDER / name(sequence)).read_bytes())
    if document["version"] != VERSION:
        raise ValueError(f"version {document['version']!r} of a manifest, expected {VERSION}")
    tables = {table: tuple(TableFile(**file) for file in files) for table, files in document["tables"].items()}
    return Manifest(root, sequence, tables)


def commit(disk: Disk, manifest: Manifest, ledger: Ledger) -> None:
    """Make this manifest the latest one. Readers see it only once LATEST is renamed, in the last line. Raises
    OutputError if a file that it names is missing or has another size.
    """
    for file in (file for files in manifest.tables.values() for file in files):
        _check_size(manifest.root / file.path, file.size)
    folder = manifest.root / FOLDER
    disk.write(folder / ledger_name(manifest.sequence), _json(ledger.to_json()))
    disk.write(folder / name(manifest.sequence), _json(manifest.to_json()))
    disk.write(manifest.root / LATEST, name(manifest.sequence).encode() + b"\n")


def _check_size(path: Path, size: int) -> None:
    """Raise OutputError unless the file has the size that a worker reported: the worker may have another disk."""
    try:
        real_size = path.stat().st_size
    except FileNotFoundError:
        real_size = None
    if real_size != size:
        state = "is not there" if real_size is None else f"has {real_size} bytes"
        problem = f"a worker wrote {size} bytes to it, and here it {state}"
        raise OutputError(f"{path}: {problem}; nothing was committed; use a folder that the run and all workers share")


def sweep(disk: Disk, manifest: Manifest) -> None:
    """Remove files that are in no table: those of killed runs, and those that were replaced. Files of the previous
    manifest stay: it may still be read.
    """
    manifests = [manifest]
    if (manifest.root / FOLDER / name(manifest.sequence - 1)).exists():
        manifests.append(_read(manifest.root, manifest.sequence - 1))
    live = {
        manifest.root / file.path
        for live_manifest in manifests
        for files in live_manifest.tables.values()
        for file in files
    }
    live |= {
        manifest.root / FOLDER / each(live_manifest.sequence)
        for live_manifest in manifests
        for each in (name, ledger_name)
    }
    for path in sorted(_ours(manifest.root)):
        if path not in live:
            disk.remove(path)


def _ours(root: Path) -> Iterator[Path]:
    """Files that only a run writes: nothing else in the folder is ever touched."""
    yield from root.glob("*/*/part-*.parquet")
    yield from (root / FOLDER).glob("manifest-*.json")
    yield from (root / FOLDER).glob("ledger-*.json")
    yield from (root / FOLDER).glob(".*.json.tmp")


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), default=_fields).encode() + b"\n"


def _fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass. `asdict` would copy everything below as well, which takes longer than writing the
    files of a year.
    """
    return {field_.name: getattr(value, field_.name) for field_ in fields(value)}
