"""Names of the files of a metadata log, and which files make an image. Opens no files.

In `__cluster_metadata-0` lie segments (`00000000000000000000.log`: the offset of the first record) and snapshots
(`00000000000000000442-0000000009.checkpoint`: end offset and epoch), beside indexes and what Kafka has not finished or
is about to delete, which is none of a log (`Snapshots.java`). Called by what reads a directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

DIRECTORY = "__cluster_metadata-0"
"""In which they lie."""
PROPERTIES = "meta.properties"
"""Lies beside the directory, and says whose log it is: the ids of the node and of its cluster."""
OPEN = ".log.open-"
"""In the name of a segment that the operator's recorder still writes: no part of the log before it is closed."""

_SEGMENT = re.compile(r"([0-9]{20})\.log")
_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")


DECOMPRESS = {".gz": "gunzip -k", ".bz2": "bunzip2 -k", ".xz": "unxz -k", ".zst": "unzstd", ".lz4": "unlz4 -k"}
"""By the end of a name, the command that gives a compressed file back and keeps it. No node compresses its log."""


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
    """The compressed files of a log, each with the command that gives it back; none that lies there as well
    as it was.
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
    """Files of which the newest image is made: the last snapshot, if there is one, and the segments that continue
    behind it.
    """
    snapshots, segments = in_order(names)
    snapshot = snapshots[-1] if snapshots else None
    bases = (segment.base_offset for segment in segments)
    first = max((base for base in bases if snapshot and base <= snapshot.end_offset), default=0)
    return snapshot, tuple(segment for segment in segments if segment.base_offset >= first)
