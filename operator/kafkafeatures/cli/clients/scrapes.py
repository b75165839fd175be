"""Reads scrapes from files `CLUSTER/BROKER/TIME.prom` or `BROKER/TIME.prom`: unchanged answers of exporters.

Called by `check.py` and `clients evidence start`. What it decides: the broker and the time of a file, by its path; and
that files of several clusters are never taken for one. A file that cannot be read is reported and left out, which makes
a gap in the evidence.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from msgspec import Struct

from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.client_files.exposition import ExpositionReader
from kafkafeatures.client_files.scrapes import SUFFIX, ScrapeName, parse_name, read_scrape
from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.clients.evidence import CounterKey, Scrape, thinned
from kafkafeatures.core.clients.exporters import ScrapeRefused
from kafkafeatures.core.words import printable


class ScrapeFiles(Struct, frozen=True):
    """The scrapes of one cluster. `cluster`: the name of its folder; `refused`: a line for each file or target that was
    not used; `is_later`: there are scrapes of a time after the window, too.
    """

    cluster: str
    scrapes: tuple[Scrape, ...]
    refused: tuple[str, ...]
    is_later: bool = False


class _ScrapeFile(Struct, frozen=True):
    """A file by its path. `cluster`: a folder's name, empty if there is none."""

    path: str
    cluster: str
    name: ScrapeName


def read_scrapes(
    path: Path, cluster: str | None, window: EvidenceWindow, matters: Callable[[CounterKey], bool]
) -> ScrapeFiles:
    """The scrapes of a folder or a file that are needed for a window. `cluster`: the one to read of several in the
    folder; `matters`: True for counters that may not be left out (`thinned`). Raises CommandFailed.
    """
    refused: list[str] = []
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
        files = list(_files(path, refused)) if is_folder else _file(str(path), path.absolute().parts[-3:], refused)
    except OSError as error:
        raise CommandFailed(f"{_shown(error.filename or path)}: {error.strerror}", Exit.USAGE) from None
    clusters = sorted({file.cluster for file in files})
    if cluster is not None:
        files = [file for file in files if file.cluster == cluster]
    if len({file.cluster for file in files}) > 1:
        names = ", ".join(repr(printable(name)) for name in clusters[:5])
        raise CommandFailed(f"{_shown(path)} has scrapes of several clusters: {names}; use --cluster NAME", Exit.USAGE)
    if not files:
        among = f" of cluster {cluster!r}" if cluster is not None else ""
        text = f"{_shown(path)} has no scrapes{among}: expected files such as BROKER/TIME{SUFFIX}, with the id of"
        raise CommandFailed(f"{text} the broker and the time in seconds since 1970", Exit.USAGE)
    files.sort(key=lambda file: (file.name.broker, file.name.time, file.path))
    reader = ExpositionReader()
    scrapes: list[Scrape] = []
    for _, its_files in groupby(files, key=lambda file: file.name.broker):
        scrapes += thinned(_scrapes(its_files, window.end, reader, refused), matters, window.begin)
    is_later = any(file.name.time > window.end for file in files)
    return ScrapeFiles(files[0].cluster, tuple(scrapes), tuple(refused), is_later)


def _files(folder: Path, refused: list[str]) -> Iterator[_ScrapeFile]:
    """The files in a folder and up to two levels below it. `refused` gets a line for each file that is not read."""

    def fail(error: OSError) -> None:
        raise error

    for parent, folders, names in os.walk(folder, onerror=fail):
        relative = os.path.relpath(parent, folder)
        parts = () if relative == "." else tuple(relative.split(os.sep))
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        deep = folders if len(parts) == 2 else []
        refused += [_not_read(os.path.join(parent, name), "it is a link to a folder") for name in sorted(links)]
        refused += [
            _not_read(
                os.path.join(parent, name), "it is too deep: expected BROKER/TIME.prom or CLUSTER/BROKER/TIME.prom"
            )
            for name in sorted(set(deep) - set(links))
        ]
        folders[:] = sorted(set(folders) - set(links)) if not deep else []
        for name in sorted(names):
            yield from _file(os.path.join(parent, name), (*parts, name), refused)


def _file(path: str, parts: Sequence[str], refused: list[str]) -> list[_ScrapeFile]:
    """The file of a scrape, by the last three `parts` of its path; none, with a line in `refused`, if these do not name
    a broker and a time.
    """
    name = None
    if len(parts) > 1 and parts[-1].endswith(SUFFIX):
        name = parse_name(parts[-2], parts[-1].removesuffix(SUFFIX))
    if name is None:
        refused.append(_not_read(path, f"expected BROKER/TIME{SUFFIX}, such as 3/1764374400{SUFFIX}"))
        return []
    return [_ScrapeFile(path, parts[-3] if len(parts) > 2 else "", name)]


def _scrapes(files: Iterable[_ScrapeFile], end: int, reader: ExpositionReader, refused: list[str]) -> Iterator[Scrape]:
    """The scrapes of files up to the time `end`. `refused` gets a line for each file that is not read."""
    for file in files:
        if file.name.time > end:
            refused.append(_not_read(file.path, "its time is after the end of the window"))
            continue
        try:
            yield _read(file, reader)
        except OSError as error:
            refused.append(_not_read(file.path, error.strerror or "it cannot be read"))
        except ScrapeRefused as failure:
            refused.append(_not_read(file.path, f"it {failure}"))


def _read(file: _ScrapeFile, reader: ExpositionReader) -> Scrape:
    """The scrape of a file. Raises OSError and ScrapeRefused."""
    descriptor = os.open(
        file.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    )  # so that opening a named pipe does not wait
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ScrapeRefused("is not a regular file")
        return read_scrape(file.name, _shown(file.path), stream, reader)


def _not_read(path: str, reason: str) -> str:
    return f"{_shown(path)}: not read: {reason}"


def _shown(path: str | Path) -> str:
    """A path as text, whatever bytes it has."""
    return os.fsencode(path).decode(errors="replace")
