"""The metadata logs behind the paths that a command was given: one for each node, with the files it has now.

What it decides: where a log is looked for, and which of several is shown. Called by the commands that say what a log as
a whole says (`state`, `timeline`, `ghosts`, `describe --from`). Nothing is written, locked or followed through a link.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kafkafeatures.cli.exit_codes import CommandFailed
from kafkafeatures.cli.log_files import FOLDER, Opened, refused
from kafkafeatures.core.words import cut
from kraftlog import KraftLogError, files
from kraftlog.replay import SnapshotReader
from kraftlog.restored import PIECE, Opener

DEPTH = 4
"""Folders below the one that was given: `<cluster>/<node>/<disk>/__cluster_metadata-0`."""
MAX_FOLDERS = 1000
_MAX_PROPERTIES = 64 * 1024


@dataclass(frozen=True, slots=True)
class LogFolder:
    """The log of one node. shown: what people are told it is. opened: gives the bytes of the file of a name.

    properties: of the node's `meta.properties`, where it lies beside the log.
    """

    shown: str
    names: tuple[str, ...]
    opened: Opener
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def segments(self) -> list[files.Segment]:
        """The oldest first."""
        found = (one for one in map(files.parse, self.names) if isinstance(one, files.Segment))
        return sorted(found, key=lambda one: one.base_offset)

    @property
    def snapshots(self) -> list[files.Snapshot]:
        """The oldest first."""
        found = (one for one in map(files.parse, self.names) if isinstance(one, files.Snapshot))
        return sorted(found, key=lambda one: (one.end_offset, one.epoch))

    @property
    def cluster_id(self) -> str:
        """Empty where it is not known."""
        return cut(self.properties.get("cluster.id", ""), 64)

    @property
    def node_id(self) -> int | None:
        """Whose log it is; None where it is not known."""
        text = self.properties.get("node.id", "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 11 else None

    def committed(self) -> int:
        """Everything below this offset is known to be committed: Kafka makes snapshots of nothing else (KIP-630)."""
        for snapshot in reversed(self.snapshots):
            reader = SnapshotReader(end_offset=snapshot.end_offset, epoch=snapshot.epoch, sections=())
            try:
                with self.opened(snapshot.name) as data:
                    for start in range(0, len(data), PIECE):
                        reader.feed(data[start : start + PIECE])
                reader.finish()
            except KraftLogError:
                continue
            return snapshot.end_offset
        return 0

    def file_of(self, offset: int) -> str:
        """The name of the segment in which a record of the log lies."""
        names = [one.name for one in self.segments if one.base_offset <= offset]
        return names[-1] if names else ""


def log_folder(path: Path) -> LogFolder:
    """The one log behind a path. Raises CommandFailed where there is none, or more than one."""
    found = list(log_folders(path))
    if len(found) > 1:
        names = ", ".join(one.shown for one in found[:5]) + (", ..." if len(found) > 5 else "")
        raise refused(path, f"holds the metadata logs of {len(found)} nodes; give one of them: {names}")
    return found[0]


def log_folders(path: Path) -> list[LogFolder]:
    """Every log behind a path, at least one."""
    if not path.is_dir():
        return [_of_file(path)]
    try:
        found = list(_below(path, DEPTH))
    except OSError as error:
        raise refused(path, error.strerror) from None
    if not found:
        raise refused(path, f"no file of a metadata log is here; expected files like {0:020}.log")
    return found[:MAX_FOLDERS]


def _below(folder: Path, depth: int) -> Iterator[LogFolder]:
    entries = sorted(os.scandir(folder), key=lambda one: one.name)
    names = tuple(one.name for one in entries if files.parse(one.name))
    if names:
        yield LogFolder(str(folder), names, lambda name: Opened(folder / name), _properties(folder))
        return
    for entry in entries if depth else ():
        if entry.is_dir(follow_symlinks=False) or (entry.name == FOLDER and entry.is_dir()):
            try:
                yield from _below(folder / entry.name, depth - 1)
            except PermissionError:
                if entry.name == FOLDER:
                    raise


def _of_file(path: Path) -> LogFolder:
    with Opened(path):  # says what is wrong with it
        pass
    if files.parse(path.name) is None:
        kinds = f"{0:020}.log or {0:020}-{0:010}.checkpoint"
        raise refused(path, f"the name does not say what it holds; expected a directory, or a file like {kinds}")
    return LogFolder(str(path), (path.name,), lambda _: Opened(path), _properties(path.parent))


def _properties(folder: Path) -> Mapping[str, str]:
    """Of the node: `meta.properties` lies in the directory that holds that of the log."""
    for place in (folder.parent, folder):
        try:
            with Opened(place / "meta.properties") as data:
                return parse_properties(bytes(data[:_MAX_PROPERTIES]))
        except CommandFailed:  # not there, or not to be read: then nobody says whose log it is
            continue
    return {}


def parse_properties(content: bytes) -> dict[str, str]:
    """`name=value`, a line each, as Kafka writes them."""
    lines = (line.partition("=") for line in content.decode(errors="replace").splitlines() if line[:1] != "#")
    return {name.strip(): value.strip() for name, _, value in lines}
