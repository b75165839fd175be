"""Scrapes in files: `CLUSTER/BROKER/TIME.prom` or `BROKER/TIME.prom`, each the answer of an exporter as it was.

Called by `check.py`. What it decides: which broker and which time a file is of, by its path, and that files of several
clusters are never taken for one. A file that cannot be read is named and left out, which makes a gap.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from kafkafeatures.cli.clients.exposition import read_exposition
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.core.clients.evidence import Scrape
from kafkafeatures.core.clients.exporters import ScrapeRefused
from kafkafeatures.core.words import printable

SUFFIX = ".prom"
_BROKER = re.compile(r"[0-9]{1,9}")
"""The id and nothing else: the number of a pod is not always that of its broker."""
_TIME = re.compile(r"[0-9]{9,11}|[0-9]{12,14}")
"""In seconds, or in ms."""


class ScrapeFiles(Struct, frozen=True):
    """The scrapes of one cluster, and a line for each file that none could be made of. `cluster`: a folder's name."""

    cluster: str
    scrapes: tuple[Scrape, ...]
    refused: tuple[str, ...]


class _ScrapeFile(Struct, frozen=True):
    path: Path
    cluster: str
    broker: int
    time: int


def read_scrapes(path: Path, cluster: str | None, end: int) -> ScrapeFiles:
    """The scrapes of a folder or a file, up to a time in ms. `cluster`: of several in the folder, this one. Raises
    CommandFailed.
    """
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
        entries = list(_files(path)) if is_folder else [_file(path, path.absolute().parts[-3:])]
    except OSError as error:
        raise CommandFailed(f"{error.filename or path}: {error.strerror}", Exit.BLOCKED) from None
    files = [entry for entry in entries if isinstance(entry, _ScrapeFile)]
    refused = [entry for entry in entries if isinstance(entry, str)]
    clusters = sorted({file.cluster for file in files})
    if cluster is not None:
        files = [file for file in files if file.cluster == cluster]
    if len({file.cluster for file in files}) > 1:
        names = ", ".join(repr(printable(name)) for name in clusters[:5])
        raise CommandFailed(f"{path} has scrapes of several clusters: {names}; use --cluster NAME", Exit.USAGE)
    if not files:
        among = f" of cluster {cluster!r}" if cluster is not None else ""
        text = (
            f"{path} has no scrapes{among}: expected files such as BROKER/TIME{SUFFIX}, with the id of the broker and"
        )
        raise CommandFailed(f"{text} the time in seconds since 1970", Exit.BLOCKED)
    scrapes = []
    for file in files:
        scrape = _read(file) if file.time <= end else f"{file.path}: not read: its time is after the end of the window"
        if isinstance(scrape, Scrape):
            scrapes.append(scrape)
        else:
            refused.append(scrape)
    return ScrapeFiles(files[0].cluster, tuple(scrapes), tuple(refused))


def _files(folder: Path) -> Iterator[_ScrapeFile | str]:
    """The files below a folder, down to two folders."""

    def fail(error: OSError) -> None:
        raise error

    for parent, folders, names in os.walk(folder, onerror=fail):
        depth = len(Path(parent).relative_to(folder).parts)
        folders[:] = sorted(folders) if depth < 2 else []
        for name in sorted(names):
            if name.endswith(SUFFIX):
                path = Path(parent, name)
                yield _file(path, path.relative_to(folder).parts)


def _file(path: Path, parts: tuple[str, ...]) -> _ScrapeFile | str:
    broker = _BROKER.fullmatch(parts[-2]) if len(parts) > 1 else None
    time = _TIME.fullmatch(path.name.removesuffix(SUFFIX))
    if broker is None or time is None:
        return f"{path}: not read: expected BROKER/TIME{SUFFIX}, such as 3/1764374400{SUFFIX}"
    milliseconds = int(time[0]) * (1000 if len(time[0]) < 12 else 1)
    return _ScrapeFile(path, parts[-3] if len(parts) > 2 else "", int(broker[0]), milliseconds)


def _read(file: _ScrapeFile) -> Scrape | str:
    """The scrape of a file, or why there is none."""
    try:
        descriptor = os.open(file.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe has nothing to wait for
        with open(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return f"{file.path}: not read: it is not a regular file"
            counters = read_exposition(stream)
    except OSError as error:
        return f"{file.path}: not read: {error.strerror}"
    except ScrapeRefused as refused:
        return f"{file.path}: not read: it {refused}"
    return Scrape(file.broker, file.time, counters.start, counters.counters, counters.accepts_removed, str(file.path))
