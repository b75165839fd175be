"""Folders of inputs as nodes of clusters have them: what real nodes wrote, and records by what they say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from featurelog import cuts
from featurelog.delta import SCHEMAS, load
from featurelog.run import Run, Settings, Summary
from featurelog.tables import NO_DOCUMENTS, Judging, tables_of
from kraftlog.files import DIRECTORY
from tests.kraftlog.build import NOW, batch, broker, change, level, no_op, snapshot
from tests.kraftlog.golden import CHANGES, KRAFT, SNAPSHOTS

AT = NOW + 86_400_000
SEGMENT = f"{0:020}.log"


def put(root: Path, cluster: str, node: str, name: str, content: bytes, cluster_id: str | None = None) -> Path:
    """Write one file of a node's log."""
    path = root / cluster / node / DIRECTORY / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if cluster_id is not None:
        (path.parents[1] / "meta.properties").write_text(f"version=1\ncluster.id={cluster_id}\nnode.id={node}\n")
    return path


def fleet(root: Path) -> None:
    """Three clusters: one as real nodes left it, one with two nodes and a snapshot, one with damage and an odd name."""
    for source in (CHANGES, *SNAPSHOTS, KRAFT):
        if source.parent == CHANGES.parent or source.parent == KRAFT.parent:
            put(root, source.parent.name, "1", source.name, source.read_bytes())
    made = made_log()
    put(root, "orders", "1", SEGMENT, made, "orders-id")
    put(root, "orders", "2", SEGMENT, made[: len(made) - 40], "orders-id")
    put(root, "orders", "1", f"{2:020}-{1:010}.checkpoint", snapshot(broker(1, 5), level("metadata.version", 7)))
    hurt = bytearray(made)
    hurt[300] ^= 0xFF
    put(root, "=cmd|' C'!A0 <b>", "1", SEGMENT, bytes(hurt), "hurt-id")


def made_log(batches: int = 30) -> bytes:
    """Registrations, levels, and many batches with nothing in them."""
    out = batch(0, broker(1, 5), broker(2, 6), level("metadata.version", 7))
    offset = 3
    for number in range(batches):
        values = (change(1, 5, fenced=-1), level("metadata.version", 7 + number)) if number % 7 == 0 else (no_op(),) * 3
        out += batch(offset, *values)
        offset += len(values)
    return out


def ranges(data: memoryview, piece: int) -> list[tuple[int, int]]:
    """All ranges of a file, each found by a worker that looks for that one."""
    every = (cuts.range_in(data, number, piece) for number in range(max(1, len(cuts.spans(0, len(data), piece)))))
    return [one for one in every if one is not None]


derive = partial(tables_of, documents=NO_DOCUMENTS, judging=Judging(at_ms=AT))
"""Makes the tables by production's own functions, at a fixed time."""


def run(inputs: Sequence[Path], output: Path, **more: Any) -> Summary:
    """One run on one core, a commit for each cluster; small pieces, so that there are several of a file."""
    parts = {name: more.pop(name) for name in ("before", "start_engine", "derive") if name in more}
    settings = {"piece": 500, "bytes_per_commit": 1, **more}
    return Run(Settings(tuple(map(str, inputs)), str(output), **settings), **{"derive": derive, **parts})()


def tables(output: Path | str) -> dict[str, list[str]]:
    """All rows of all tables that there are, in an order of their own."""
    committed, _ = load(str(output))
    names = committed.versions or SCHEMAS
    return {name: sorted(texts(committed.read(name, SCHEMAS[name]))) for name in SCHEMAS if name in names}


def texts(table: pa.Table) -> Iterator[str]:
    """The rows of a table, as text."""
    for row in table.to_pylist():
        yield json.dumps(row, default=str, sort_keys=True)


def files(output: Path) -> set[str]:
    """The files in the output."""
    return {str(path.relative_to(output)) for path in output.rglob("*") if path.is_file()}
