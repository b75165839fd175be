"""Finds metadata logs by the paths in a command line: directories, single files, support bundles.

It decides where logs are searched, and refuses a path with logs of several nodes where a command needs a single one.
Nothing is written or locked.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from kafkafeatures.api.values import replace
from kafkafeatures.cli.log.bundle import is_bundle, of_bundle
from kafkafeatures.cli.log.files import File, OpenFile, file_of, files_of, parsed, refuse_compressed, refused
from kafkafeatures.cli.log.folders import MAX_PROPERTIES, LogFolder, parse_properties
from kafkafeatures.cli.shell.exit_codes import CommandFailed
from kraftlog import files

DEPTH = 4
"""Levels of folders that are searched below a path: `<cluster>/<node>/<disk>/__cluster_metadata-0`."""
MAX_FOLDERS = 1000
"""Most logs that are returned for one directory."""
_RECORDING = (
    "the operator still records this segment, and closes it when it is 6 hours old; to read it now, copy it to a name"
    f" without {files.OPEN.removeprefix('.log')}..."
)
"""The reason why a segment that the operator is recording (`files.OPEN` is in its name) is not read."""
_UNFINISHED = (".checkpoint.part", ".checkpoint.deleted", ".log.deleted", ".log.cleaned", ".log.swap")
"""Suffixes of files that Kafka was writing or deleting."""


def files_at(paths: Iterable[Path], *, snapshots: bool) -> list[File]:
    """The files at these paths, for `log decode` and `log verify`: a single file itself; of a directory the segments,
    oldest first, and behind them the snapshots if `snapshots`; of a support bundle the same for each directory in it.
    """
    folders: dict[Path, list[files.Segment | files.Snapshot]] = {}
    log_files = []
    for path in paths:
        if path.is_dir():
            log_files += _of_folder(_log_in(path), snapshots=snapshots)
            continue
        if files.parse(path.name) is None and is_bundle(path):
            for folder in of_bundle(path):
                inside = files_of(Path(folder.display_name), parsed(folder.names), snapshots=snapshots)
                log_files += [replace(file, bundled=partial(folder.opened, file.path.name)) for file in inside]
            continue
        if path.parent not in folders:
            try:
                folders[path.parent] = parsed(os.listdir(path.parent))
            except OSError:  # the directory may not be listed, but the file can be read
                folders[path.parent] = []
        log_files.append(file_of(path, folders[path.parent]))
    return log_files


def unread(paths: Iterable[Path]) -> list[str]:
    """Texts about the files that are not read in the directories among these paths: name and reason of each."""
    folders = [_log_in(path) for path in paths if path.is_dir()]
    inside = sorted((folder / name for folder in folders for name in os.listdir(folder)), key=str)
    return [f"{path}: not read; {reason}" for path in inside if (reason := _unread_reason(path.name))]


def _unread_reason(name: str) -> str:
    """The reason why a file of this name is not read; empty for all other files."""
    if name.endswith(_UNFINISHED):
        return "it was not finished, or was about to be deleted"
    return _RECORDING if files.OPEN in name else ""


def _log_in(folder: Path) -> Path:
    """The directory of the log in a node's directory, or `folder` itself."""
    inside = folder / files.DIRECTORY
    return inside if inside.is_dir() else folder


def _of_folder(folder: Path, *, snapshots: bool) -> list[File]:
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise refused(folder, error.strerror) from None
    refuse_compressed(folder, names)
    beside = parsed(names)
    if not any(isinstance(file, files.Segment) for file in beside):
        raise _nothing(folder, "segment")
    return files_of(folder, beside, snapshots=snapshots)


def log_folder(path: Path) -> LogFolder:
    """The log at a path. Raises CommandFailed if there is none, or more than one."""
    folders = list(log_folders(path))
    if len(folders) > 1:
        raise refused(path, f"holds the metadata logs of {len(folders)} nodes; give one of them: {_names(folders)}")
    return folders[0]


def _names(folders: Sequence[LogFolder]) -> str:
    return ", ".join(folder.display_name for folder in folders[:5]) + (", ..." if len(folders) > 5 else "")


def log_folders(path: Path) -> list[LogFolder]:
    """Every log at a path, of a directory at most `MAX_FOLDERS`; `BUNDLE:FOLDER` is one of the logs in a bundle. Raises
    CommandFailed if there is none.
    """
    if not path.is_dir():
        if bundle := _bundle_of(path):
            bundle_folders = of_bundle(bundle)
            if matches := [folder for folder in bundle_folders if folder.display_name == str(path)]:
                return matches
            raise refused(path, f"not a directory of the bundle with a metadata log; expected {_names(bundle_folders)}")
        return of_bundle(path) if files.parse(path.name) is None and is_bundle(path) else [_of_file(path)]
    try:
        folders = list(_below(path, DEPTH))
    except OSError as error:
        raise refused(path, error.strerror) from None
    if not folders:
        raise _nothing(path, "file")
    return folders[:MAX_FOLDERS]


def _nothing(folder: Path, subject: str) -> CommandFailed:
    """The error for a folder without a log. It explains recordings whose first segment is not closed yet."""
    patterns = (f"{above}{files.DIRECTORY}/*{files.OPEN}*" for above in ("", "*/", "*/*/"))
    for pattern in (f"*{files.OPEN}*", *patterns):
        for path in folder.glob(pattern):
            return refused(path, _RECORDING)
    return refused(folder, f"no {subject} of a metadata log is here; expected files like {0:020}.log")


def _bundle_of(path: Path) -> Path | None:
    """The bundle in a path such as `bundle.tar.gz:node-1/__cluster_metadata-0`; None for other paths. Each colon is
    tried, since names of files and folders may have colons too.
    """
    text = str(path)
    at = text.find(":")
    while at > 0:
        if not path.exists() and Path(text[:at]).is_file():
            return Path(text[:at])
        at = text.find(":", at + 1)
    return None


def _below(folder: Path, depth: int) -> Iterator[LogFolder]:
    """Metadata logs in a folder, and down to `depth` levels below it. In subfolders only `__cluster_metadata-0` counts,
    since segments of topics have the same names. Only a `__cluster_metadata-0` may be a link.
    """
    entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    names = tuple(entry.name for entry in entries if files.parse(entry.name))
    is_log = depth == DEPTH or folder.name == files.DIRECTORY
    if is_log:
        refuse_compressed(folder, (entry.name for entry in entries))
    if names and is_log:
        yield LogFolder(str(folder), names, lambda name: OpenFile(folder / name), _properties(folder))
        return
    for entry in entries if depth else ():
        if entry.is_dir(follow_symlinks=False) or (entry.name == files.DIRECTORY and entry.is_dir()):
            try:
                yield from _below(folder / entry.name, depth - 1)
            except PermissionError:  # of a folder that need not have a log
                if entry.name == files.DIRECTORY:
                    raise


def _of_file(path: Path) -> LogFolder:
    with OpenFile(path):  # raises CommandFailed if it cannot be read
        pass
    if files.parse(path.name) is None:
        kinds = f"{0:020}.log or {0:020}-{0:010}.checkpoint"
        raise refused(path, f"the name does not say what it holds; expected a directory, or a file like {kinds}")
    return LogFolder(str(path), (path.name,), lambda _: OpenFile(path), _properties(path.parent))


def _properties(folder: Path) -> Mapping[str, str]:
    """The node's `meta.properties`, which lies in the parent of the directory of its metadata log; of copied logs it
    may lie in that directory itself.
    """
    for directory in (folder.parent, folder):
        try:
            with OpenFile(directory / files.PROPERTIES) as data:
                return parse_properties(bytes(data[:MAX_PROPERTIES]))
        except CommandFailed:  # missing or unreadable: then nothing says whose log it is
            continue
    return {}
