"""Where the metadata logs of real nodes are, and what was written into them."""

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
"""What is in each file of `CODECS`, in one batch or a few."""


def name(path: Path) -> str:
    """For the names of parametrised tests."""
    return f"{path.parent.name}/{path.name}"


def dump_of(path: Path) -> str:
    """What the dump tool of the same release said."""
    return gzip.decompress(path.with_name(path.name + ".dump.txt.gz").read_bytes()).decode()


def snapshot_id(path: Path) -> tuple[int, int]:
    """(end offset, epoch) as the file name says."""
    parsed = files.parse(path.name)
    assert isinstance(parsed, files.Snapshot)
    return parsed.end_offset, parsed.epoch


def batches_of(path: Path) -> list[Batch]:
    """The batches of an undamaged file."""
    items = list(walk(path.read_bytes()))
    assert all(isinstance(each, Batch) for each in items)
    return [each for each in items if isinstance(each, Batch)]
