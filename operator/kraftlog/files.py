"""Names of the files of a metadata log, and which files make an image. Opens no files.

The directory `__cluster_metadata-0` has segments (`00000000000000000000.log`: the offset of the first record) and
snapshots (`00000000000000000442-0000000009.checkpoint`: end offset and epoch). It also has indexes, unfinished
snapshots and files to be deleted (`Snapshots.java`), which are not part of the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

DIRECTORY = "__cluster_metadata-0"
"""Name of the directory of segments and snapshots."""
PROPERTIES = "meta.properties"
"""File beside that directory, with the ids of the node and of its cluster."""
OPEN = ".log.open-"
"""Part of the name of a segment that the operator's recorder is writing; it is not read before it is closed."""

_SEGMENT = re.compile(r"([0-9]{20})\.log")
_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")


DECOMPRESS = {".gz": "gunzip -k", ".bz2": "bunzip2 -k", ".xz": "unxz -k", ".zst": "unzstd", ".lz4": "unlz4 -k"}
"""By suffix, the command that decompresses a file and keeps the original. Nodes do not compress logs, but people do."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the log; it ends where the next one begins."""

    name: str
    base_offset: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state up to `end_offset`, exclusive; its records have offsets of their own."""

    name: str
    end_offset: int
    epoch: int


def parse(name: str) -> Segment | Snapshot | None:
    """Read the name of a file; None for one that is no part of the log."""
    if match := _SEGMENT.fullmatch(name):
        return Segment(name, int(match[1]))
    if match := _SNAPSHOT.fullmatch(name):
        return Snapshot(name, int(match[1]), int(match[2]))
    return None


def compressed(names: Iterable[str]) -> dict[str, str]:
    """The compressed files of a log with commands to decompress them, without those whose decompressed file is there as
    well.
    """
    present = set(names)
    ends = {name: end for name in sorted(present) for end in DECOMPRESS if name.endswith(end)}
    originals = {name: name.removesuffix(end) for name, end in ends.items()}
    return {
        name: DECOMPRESS[ends[name]]
        for name, original in originals.items()
        if parse(original) is not None and original not in present
    }


def in_order(names: Iterable[str]) -> tuple[list[Snapshot], list[Segment]]:
    """The snapshots and the segments of a log, the oldest first."""
    files = [parse(name) for name in names]
    snapshots = [file for file in files if isinstance(file, Snapshot)]
    segments = [file for file in files if isinstance(file, Segment)]
    return (
        sorted(snapshots, key=lambda file: (file.end_offset, file.epoch)),
        sorted(segments, key=lambda file: file.base_offset),
    )


def newest(names: Iterable[str]) -> tuple[Snapshot | None, tuple[Segment, ...]]:
    """The files for the newest image: the last snapshot, and the segments from the one in which it ends on. Without a
    snapshot: all segments.
    """
    snapshots, segments = in_order(names)
    snapshot = snapshots[-1] if snapshots else None
    bases = (segment.base_offset for segment in segments)
    # Begin with the segment in which the snapshot ends.
    first = max((base for base in bases if snapshot and base <= snapshot.end_offset), default=0)
    return snapshot, tuple(segment for segment in segments if segment.base_offset >= first)
