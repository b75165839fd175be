"""Paths of recorded metadata logs of real nodes, and the output of the dump tool for them."""

from __future__ import annotations

import gzip
from pathlib import Path

from kraftlog import Batch, files, walk
from tests.kraftlog.build import level

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
LOGS = GOLDEN / "logs"
MIGRATION = LOGS / "3.9.1-after-migration/00000000000000000000.log"
KRAFT = LOGS / "3.9.1-kraft/00000000000000000000.log"
CHANGES = LOGS / "4.2.0-feature-changes/00000000000000000000.log"
SEGMENTS = (MIGRATION, KRAFT, CHANGES)
SNAPSHOTS = tuple(sorted(LOGS.glob("*/*.checkpoint")))
FILES = (*SEGMENTS, *SNAPSHOTS)
CODECS = GOLDEN / "codecs"
COMPRESSED = tuple(level(f"feature.{number}.version", number) for number in range(50))
"""The records in each file of `CODECS`."""


def name(path: Path) -> str:
    """The id of a path in parametrised tests."""
    return f"{path.parent.name}/{path.name}"


def dump_of(path: Path) -> str:
    """The output of the dump tool of the release that wrote the file."""
    return gzip.decompress(path.with_name(path.name + ".dump.txt.gz").read_bytes()).decode()


def snapshot_id(path: Path) -> tuple[int, int]:
    """The end offset and the epoch in the file name."""
    parsed = files.parse(path.name)
    assert isinstance(parsed, files.Snapshot)
    return parsed.end_offset, parsed.epoch


def batches_of(path: Path) -> list[Batch]:
    """The batches of an undamaged file."""
    items = list(walk(path.read_bytes()))
    assert all(isinstance(each, Batch) for each in items)
    return [each for each in items if isinstance(each, Batch)]
