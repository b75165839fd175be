"""Which metadata logs lie behind the paths that a command was given: directories, single files, support bundles.

What it decides: where a log is looked for, and that of several nodes one is named. Called by the commands of `log` and
by `describe --from`. Nothing is written or locked, and no link is followed on the way down.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from kafkafeatures.api.values import replace
from kafkafeatures.cli.log.bundle import is_bundle, of_bundle
from kafkafeatures.cli.log.files import File, Opened, file_of, files_of, parsed, refuse_compressed, refused
from kafkafeatures.cli.log.folders import MAX_PROPERTIES, LogFolder, parse_properties
from kafkafeatures.cli.shell.exit_codes import CommandFailed
from kraftlog import files

DEPTH = 4
"""Folders below the one that was given: `<cluster>/<node>/<disk>/__cluster_metadata-0`."""
MAX_FOLDERS = 1000
_RECORDED = (
    "the operator still records this segment, and closes it when it is 6 hours old; to read it now, copy it to a name"
    f" without {files.OPEN.removeprefix('.log')}..."
)
_UNFINISHED = (".checkpoint.part", ".checkpoint.deleted", ".log.deleted", ".log.cleaned", ".log.swap")


def found(paths: Iterable[Path], *, snapshots: bool) -> list[File]:
    """The files behind paths: of a directory the segments, oldest first, and behind them snapshots if asked for.

    Of a support bundle those of every directory in it.
    """
    folders: dict[Path, list[files.Segment | files.Snapshot]] = {}
    every = []
    for path in paths:
        if path.is_dir():
            every += _of_folder(_log_in(path), snapshots=snapshots)
            continue
        if files.parse(path.name) is None and is_bundle(path):
            for one in of_bundle(path):
                inside = files_of(Path(one.shown), parsed(one.names), snapshots=snapshots)
                every += [replace(each, bundled=partial(one.opened, each.path.name)) for each in inside]
            continue
        if path.parent not in folders:
            try:
                folders[path.parent] = parsed(os.listdir(path.parent))
            except OSError:  # one may read a file of a directory that one may not list
                folders[path.parent] = []
        every.append(file_of(path, folders[path.parent]))
    return every


def unread(paths: Iterable[Path]) -> list[str]:
    """What is not read in the directories among paths, and why: each with its name."""
    folders = [_log_in(path) for path in paths if path.is_dir()]
    names = sorted((folder / name for folder in folders for name in os.listdir(folder)), key=str)
    return [f"{name}: not read; {why}" for name in names if (why := _why_unread(name.name))]


def _why_unread(name: str) -> str:
    """Empty for all other files."""
    if name.endswith(_UNFINISHED):
        return "it was not finished, or was about to be deleted"
    return _RECORDED if files.OPEN in name else ""


def _log_in(folder: Path) -> Path:
    """The directory of the log in that of a node; else the one that was given."""
    inside = folder / files.DIRECTORY
    return inside if inside.is_dir() else folder


def _of_folder(folder: Path, *, snapshots: bool) -> list[File]:
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise refused(folder, error.strerror) from None
    refuse_compressed(folder, names)
    beside = parsed(names)
    if not any(isinstance(one, files.Segment) for one in beside):
        raise _nothing(folder, "segment")
    return files_of(folder, beside, snapshots=snapshots)


def log_folder(path: Path) -> LogFolder:
    """The one log behind a path. Raises CommandFailed where there is none, or more than one."""
    found = list(log_folders(path))
    if len(found) > 1:
        raise refused(path, f"holds the metadata logs of {len(found)} nodes; give one of them: {_names(found)}")
    return found[0]


def _names(folders: Sequence[LogFolder]) -> str:
    return ", ".join(folder.shown for folder in folders[:5]) + (", ..." if len(folders) > 5 else "")


def log_folders(path: Path) -> list[LogFolder]:
    """Every log behind a path, at least one."""
    if not path.is_dir():
        if bundle := _bundle_of(path):
            every = of_bundle(bundle)
            if named := [one for one in every if one.shown == str(path)]:
                return named
            raise refused(path, f"not a directory of the bundle with a metadata log; expected {_names(every)}")
        return of_bundle(path) if files.parse(path.name) is None and is_bundle(path) else [_of_file(path)]
    try:
        found = list(_below(path, DEPTH))
    except OSError as error:
        raise refused(path, error.strerror) from None
    if not found:
        raise _nothing(path, "file")
    return found[:MAX_FOLDERS]


def _nothing(folder: Path, what: str) -> CommandFailed:
    """Where a recording was begun a while ago, it is no mistake to look for it here."""
    recording = (f"{above}{files.DIRECTORY}/*{files.OPEN}*" for above in ("", "*/", "*/*/"))
    for pattern in (f"*{files.OPEN}*", *recording):
        for one in folder.glob(pattern):
            return refused(one, _RECORDED)
    return refused(folder, f"no {what} of a metadata log is here; expected files like {0:020}.log")


def _bundle_of(path: Path) -> Path | None:
    """The bundle of `bundle.tar.gz:node-1/__cluster_metadata-0`, if it is one."""
    whole = str(path)
    at = whole.find(":")
    while at > 0:
        if not path.exists() and Path(whole[:at]).is_file():
            return Path(whole[:at])
        at = whole.find(":", at + 1)
    return None


def _below(folder: Path, depth: int) -> Iterator[LogFolder]:
    """Metadata logs below a folder. Deeper down only folders with Kafka's own name: segments of topics look alike."""
    entries = sorted(os.scandir(folder), key=lambda one: one.name)
    names = tuple(entry.name for entry in entries if files.parse(entry.name))
    is_log = depth == DEPTH or folder.name == files.DIRECTORY
    if is_log:
        refuse_compressed(folder, (entry.name for entry in entries))
    if names and is_log:
        yield LogFolder(str(folder), names, lambda name: Opened(folder / name), _properties(folder))
        return
    for entry in entries if depth else ():
        if entry.is_dir(follow_symlinks=False) or (entry.name == files.DIRECTORY and entry.is_dir()):
            try:
                yield from _below(folder / entry.name, depth - 1)
            except PermissionError:
                if entry.name == files.DIRECTORY:
                    raise


def _of_file(path: Path) -> LogFolder:
    with Opened(path):  # says what is wrong with it
        pass
    if files.parse(path.name) is None:
        kinds = f"{0:020}.log or {0:020}-{0:010}.checkpoint"
        raise refused(path, f"the name does not say what it holds; expected a directory, or a file like {kinds}")
    return LogFolder(str(path), (path.name,), lambda _: Opened(path), _properties(path.parent))


def _properties(folder: Path) -> Mapping[str, str]:
    """The node's `meta.properties`, which lies in the parent of the directory of its metadata log."""
    for place in (folder.parent, folder):
        try:
            with Opened(place / files.PROPERTIES) as data:
                return parse_properties(bytes(data[:MAX_PROPERTIES]))
        except CommandFailed:  # missing or unreadable: then nothing says whose log it is
            continue
    return {}
