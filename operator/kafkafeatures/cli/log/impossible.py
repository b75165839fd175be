"""Finds the impossible records of a log, those at which Kafka itself would stop, before a command shows the log.

Called by every command of `log`, so that all of them report the same records. `kraftlog.judged` decides which ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from kafkafeatures.cli.log.files import File, OpenFile
from kafkafeatures.cli.log.folders import LogFolder
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.core.words import printable
from kraftlog import KraftLogError, files
from kraftlog.judged import Judged, judged


def impossible_in(folder: LogFolder) -> list[Judged]:
    """Impossible records in the log of a node. Raises CommandFailed for a log that has more values than can be kept."""
    try:
        return list(judged(folder.names, folder.opened))
    except KraftLogError as error:
        raise CommandFailed(f"{printable(folder.display_name)}: {error}", Exit.FAILED) from None


def impossible_of(items: Iterable[File]) -> Mapping[Path, Sequence[Judged]]:
    """Impossible records of each file, by its path. Files in one folder are of one log."""
    logs: dict[str, dict[str, File]] = {}
    for file in items:
        logs.setdefault(str(file.path.parent), {})[_name(file)] = file
    by_path: dict[Path, list[Judged]] = {}
    for folder, beside in logs.items():
        for record in impossible_in(LogFolder(folder, tuple(beside), partial(_open, beside))):
            by_path.setdefault(beside[record.file].path, []).append(record)
    return by_path


def _open(beside: Mapping[str, File], name: str) -> OpenFile:
    return beside[name].opened()


def _name(file: File) -> str:
    """The file's name if it is that of a segment or snapshot; else the name that the first one of a log has, since
    `judged` finds files by their names.
    """
    if files.parse(file.path.name) is not None:
        return file.path.name
    return f"{0:020}-{0:010}.checkpoint" if file.is_snapshot else f"{0:020}.log"
