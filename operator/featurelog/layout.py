"""Lists inputs: `<root>/<cluster>/<node>/__cluster_metadata-0/*`, in a folder or in an object store.

It decides of each file whether it is a segment or a snapshot, and of which log (cluster and node), or belongs to none.
It reads names, sizes and times, `meta.properties` beside a log (the ids of the cluster and of the node), and
`quorum-state` in it (the voters of a static quorum, and the node's vote). It opens no other file. Whoever copied the
files chose their names: none is trusted to be short or printable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType

from featurelog import stores
from kraftlog import files

QUORUM_STATE = "quorum-state"
_SECOND = 1_000_000_000  # nanoseconds
_LARGEST = 64 * 1024  # bytes of `meta.properties` or `quorum-state` that are read
MOST = 100_000
"""Limit to the number of names in one folder; the folder of a node has some tens."""
_CLUSTER_ID = re.compile(r"(?m)^cluster\.id[ \t]*=[ \t]*(\S{1,100})\s*$")
_NODE_ID = re.compile(r"(?m)^(?:node|broker)\.id[ \t]*=[ \t]*([0-9]{1,10})\s*$")
"""The node id in `meta.properties`; a broker that still runs in ZooKeeper mode has `broker.id`."""

_LONGEST_ID = 40
"""Limit to the characters of a directory id; Kafka's have 22."""

_T = TypeVar("_T")

_UNUSED = (
    (".checkpoint.part", "a snapshot that was not finished"),
    (".checkpoint.deleted", "a snapshot that is about to be deleted"),
    (".log.deleted", "a segment that is about to be deleted"),
)


class InputsError(Exception):
    """The inputs cannot be listed: which ones, why, and what to do."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of an input: a segment, a snapshot, or a file with evidence about clients. path: in its
    file system. name: the last part of the path. size: in bytes. modified: nanoseconds since 1970; 0: not known.
    """

    path: str
    name: str
    size: int
    modified: int

    @property
    def is_snapshot(self) -> bool:
        """True for a snapshot."""
        return self.name.endswith(".checkpoint")

    def is_as_listed(self, uri: str) -> bool:
        """True if the file still has the listed size and time. Times are compared in seconds: some stores list
        fractions that they do not tell of a single object. Raises OSError.
        """
        (info,) = stores.open_store(uri)[0].get_file_info([self.path])
        return (info.size, (info.mtime_ns or 0) // _SECOND) == (self.size, self.modified // _SECOND)


@dataclass(frozen=True, slots=True)
class NodeLog:
    """Files of one node's log.

    cluster, node: names of folders. cluster_id: in `meta.properties`; None: not there. files: in the order of names,
    which is that of offsets. unused: (name, reason) of files that are not read.
    voters: of a static quorum, in `quorum-state`; None: not there. node_id: in `meta.properties`; None: not there.
    vote: epoch, candidate and the candidate's directory, in `quorum-state`; None: no vote.
    """

    cluster: str
    node: str
    cluster_id: str | None
    files: tuple[LogFile, ...]
    unused: tuple[tuple[str, str], ...]
    voters: tuple[int, ...] | None = None
    node_id: int | None = None
    vote: tuple[int, int, str] | None = None


@dataclass(frozen=True, slots=True)
class Root:
    """An input. uri: an absolute path, or the URI of an object store (`s3://bucket/prefix?region=...`)."""

    uri: str

    @classmethod
    def of(cls, uri: str) -> Root:
        """A path may be relative and begin with `~`; a URI is taken as it is."""
        return cls(uri if stores.is_uri(uri) else str(Path(uri).expanduser().absolute()))

    def open(self) -> tuple[FileSystem, str]:
        """The file system, and the path in it. Raises InputsError."""
        try:
            return stores.open_store(self.uri)
        except stores.StoreError as error:
            raise InputsError(str(error)) from None
        except OSError as error:
            raise InputsError(f"{self.uri}: {stores.reason(error)}") from None

    def nodes(self) -> Iterator[NodeLog]:
        """Every node's log, in the order of the names of cluster and node. Raises InputsError."""
        return (log for log in self._each(_node) if log is not None)

    def folders(self) -> Iterator[tuple[str, str, list[LogFile]]]:
        """Every node's folder: the names of cluster and node, and the files in it. Raises InputsError."""
        return self._each(_files_in)

    def _each(self, visit: Callable[[FileSystem, str, FileInfo], _T]) -> Iterator[_T]:
        """The result of `visit` for the folder of each node, given the name of its cluster. Raises InputsError."""
        system, base = self.open()
        try:
            clusters = _folders(system, base)
            inside = stores.each(lambda cluster: _folders(system, cluster.path), clusters, self.uri)
            pairs = [
                (cluster.base_name, node) for cluster, nodes in zip(clusters, inside, strict=True) for node in nodes
            ]
            yield from stores.each(lambda pair: visit(system, *pair), pairs, self.uri)
        except OSError as error:
            raise InputsError(f"{self.uri}: {stores.reason(error)}; check the path and the rights to read it") from None
        except UnicodeDecodeError as error:
            name = error.object.decode(errors="replace")
            raise InputsError(f"{self.uri}: a name is not UTF-8: {name[-100:]!r}; rename it") from None

    def logs(self) -> list[NodeLog]:
        """`nodes` as a list. Raises InputsError also if there is no log: the volume of the input may not be mounted."""
        logs = list(self.nodes())
        if not logs:
            raise InputsError(f"{self.uri}: no metadata log is here; expected <cluster>/<node>/{files.DIRECTORY}/*")
        return logs


def _listed(system: FileSystem, path: str) -> list[FileInfo]:
    """The files and folders in a folder. Raises InputsError for more than `MOST`."""
    infos: list[FileInfo] = system.get_file_info(FileSelector(path))
    if len(infos) > MOST:
        raise InputsError(f"{path}: {len(infos)} names, more than {MOST}; expected folders of clusters and nodes")
    return infos


def _folders(system: FileSystem, path: str) -> list[FileInfo]:
    infos = _listed(system, path)
    return sorted((info for info in infos if info.type is FileType.Directory), key=lambda info: str(info.path))


def _files_in(system: FileSystem, cluster: str, folder: FileInfo) -> tuple[str, str, list[LogFile]]:
    infos = (info for info in _listed(system, folder.path) if info.type is FileType.File)
    return cluster, folder.base_name, [LogFile(i.path, i.base_name, i.size, i.mtime_ns or 0) for i in infos]


def _node(system: FileSystem, cluster: str, folder: FileInfo) -> NodeLog | None:
    """Log files in the folder of a node; None where there is no log."""
    places = [f"{folder.path}/{files.DIRECTORY}", f"{folder.path}/{files.PROPERTIES}"]
    log, properties = system.get_file_info(places)
    if log.type is not FileType.Directory:
        return None
    logs, voters, vote = [], None, None
    listed = _listed(system, log.path)
    compressed = files.compressed(info.base_name for info in listed)
    unused = [(name, f"compressed; decompress it there: {command} {name}") for name, command in compressed.items()]
    for info in listed:
        if info.base_name == QUORUM_STATE:
            state = _quorum_state(system, info)
            voters, vote = _voters(state), _vote(state)
        elif files.parse(info.base_name) is None:
            unused += [(info.base_name, reason) for end, reason in _UNUSED if info.base_name.endswith(end)]
        elif info.type is not FileType.File:
            unused.append((info.base_name, "not a regular file"))
        else:
            logs.append(LogFile(info.path, info.base_name, info.size, info.mtime_ns or 0))
    logs.sort(key=lambda log_file: log_file.name)
    cluster_id, node_id = _identity(system, properties)
    return NodeLog(cluster, folder.base_name, cluster_id, tuple(logs), tuple(sorted(unused)), voters, node_id, vote)


def _identity(system: FileSystem, properties: FileInfo) -> tuple[str | None, int | None]:
    """The cluster id and the node id in `meta.properties`; None for an id that is absent. A file with two node ids
    counts as one without.
    """
    if properties.type is not FileType.File:
        return None, None
    with system.open_input_file(properties.path) as file:
        text = file.read(_LARGEST).decode(errors="replace")
    cluster, nodes = _CLUSTER_ID.search(text), {int(id_) for id_ in _NODE_ID.findall(text)}
    return cluster[1] if cluster else None, nodes.pop() if len(nodes) == 1 else None


def _quorum_state(system: FileSystem, info: FileInfo) -> object:
    """Content of `quorum-state` (`QuorumStateData.json`); None where it is not readable."""
    if info.type is not FileType.File:
        return None
    with system.open_input_file(info.path) as file:
        data = file.read(_LARGEST)
    try:
        state: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return state


def _voters(state: object) -> tuple[int, ...] | None:
    """Voters of a static quorum, which version 0 has. Version 1 has none: then the log says who votes."""
    if not isinstance(state, dict):
        return None
    try:
        ids = [voter["voterId"] for voter in state["currentVoters"]]
    except (TypeError, KeyError):
        return None
    is_static = state.get("data_version") == 0 and ids and all(type(id_) is int and id_ >= 0 for id_ in ids)
    return tuple(sorted(set(ids))) if is_static else None


def _vote(state: object) -> tuple[int, int, str] | None:
    """The vote in `quorum-state`: epoch, candidate, and its directory (empty in version 0); None: no vote."""
    if not isinstance(state, dict):
        return None
    epoch, voted, directory = (state.get(field) for field in ("leaderEpoch", "votedId", "votedDirectoryId"))
    if type(epoch) is not int or type(voted) is not int or min(epoch, voted) < 0:
        return None
    return epoch, voted, directory[:_LONGEST_ID] if isinstance(directory, str) else ""
