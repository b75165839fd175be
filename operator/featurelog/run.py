"""One run of the pipeline: what is new in the inputs is read, tables are made of it, and all of that is there at once.

What it decides: what is read in which order, and when it is committed. Called by `kafkafeatures pipeline run`. Who
reads, and makes the tables of clusters, is given to it (an `Engine`): this process, or Spark. Everything else happens
here, on one core, and is the same for both. Killed at any moment, the next run makes the tables that this one would
have made: whatever is not named by the manifest was never there.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from featurelog import cuts, manifest, stores
from featurelog.cuts import Survey
from featurelog.disk import PROOF, Disk
from featurelog.engine import Derive, Engine, Look, OneCore, Problem, Seen
from featurelog.layout import InputsError, NodeLog, Root
from featurelog.ledger import Due, Ledger, Node, due
from featurelog.manifest import Manifest, OutputError, TableFile
from featurelog.parts import (
    PERMISSIVE,
    DamagedInputError,
    EngineError,
    InputChangedError,
    Part,
    Task,
    combined,
    merged,
    open_range,
    stamp,
)
from featurelog.tables.inputs import COLUMNS, ClusterCopies, FileRecords, NodeCopy, clusters_of
from kraftlog.files import DIRECTORY

METADATA_RECORDS = "metadata_records"
BYTES_PER_COMMIT = 1024 * 1024 * 1024
"""Bytes of inputs that are committed together; those of one cluster are never divided."""
DERIVED = 4
"""Changes whenever the tables of clusters are made in another way: they are then made anew."""
MOST_PARTS = 24
"""Parts of one file that may lie beside one another, before they are joined into one."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What to read, and where to write. piece: bytes of a file that one task reads at least."""

    inputs: tuple[str, ...]
    output: Path
    mode: str = PERMISSIVE
    redact: bool = True
    piece: int = cuts.PIECE
    bytes_per_commit: int = BYTES_PER_COMMIT


@dataclass(slots=True)
class Summary:
    """What a run did. account: of all bytes it read. problems: files that could not be read. doubts: of clusters."""

    clusters: int = 0
    files: int = 0
    sequence: int = 0
    account: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


Progress = Callable[[int, int], None]
"""Is called with the number of bytes that were read, and of all bytes."""


class Run:
    """Composed once, and run once.

    start_engine: called only if there is something to read. beside: what tells whether anything else that `derive`
    makes tables of has changed since the last run.
    """

    def __init__(
        self, settings: Settings, derive: Derive, start_engine: Callable[[], Engine] = OneCore, *,
        disk: Disk | None = None, progress: Progress = lambda done, of: None, beside: str = "",
    ) -> None:  # fmt: skip
        self.settings = settings
        self.summary = Summary()
        self._derive, self._start_engine, self._beside = derive, start_engine, beside
        self._disk, self._progress = disk or Disk(), progress
        self._manifest, self._ledger = Manifest(settings.output), Ledger()
        self._proof = settings.output.absolute() / f"{PROOF}{uuid.uuid4().hex}"

    def __call__(self) -> Summary:
        """Raises InputsError, OutputError, LockedError, DamagedInputError, EngineError."""
        root = self.settings.output
        try:
            with self._disk.locked(root / ".lock"):
                self._run()
        except OSError as error:
            raise OutputError(f"{error.filename or root}: {error.strerror}; check the path and the rights") from None
        return self.summary

    def _run(self) -> None:
        self._manifest, self._ledger = manifest.load(self.settings.output)
        manifest.sweep(self._disk, self._manifest)
        dues = self._plan()
        with self._disk.seen(self._proof) if dues else nullcontext():
            self._work(dues)

    def _work(self, dues: Sequence[Due]) -> None:
        """Read what is due, and commit it in groups."""
        total, done, engine = sum(one.size for one in dues), 0, None
        for group in self._groups(dues):
            engine = engine or self._start_engine()
            for one, parts in self._read(engine, group):
                self._keep(one, parts)
                done += one.size
                self._progress(done, total)
            self._commit(engine, {one.node.cluster for one in group})
        self._commit(engine or OneCore(), None)
        self.summary.sequence = self._manifest.sequence

    def _plan(self) -> list[Due]:
        """What is new, by cluster. Every node that is in the inputs is in the ledger then."""
        logs: dict[tuple[str, str], tuple[str, NodeLog]] = {}
        again: dict[tuple[str, str], list[str]] = {}
        for root in map(Root.of, self.settings.inputs):
            found = list(root.nodes())
            if not found:
                raise InputsError(f"{root.uri}: no metadata log is here; expected <cluster>/<node>/{DIRECTORY}/*")
            for log in found:
                key = log.cluster, log.node
                if key in logs:
                    again.setdefault(key, []).append(root.uri)
                logs.setdefault(key, (root.uri, log))
        nodes = []
        for key, (uri, log) in sorted(logs.items()):
            node = self._ledger.node(log)
            places = ((f"{log.node}/", f"also in {place}, which is not read") for place in again.get(key, ()))
            node.unused = (*log.unused, *places)
            nodes.append((node, uri, log))
        dues = stores.each(lambda one: due(*one, _stamp), nodes, *self.settings.inputs)
        return [one for of_node in dues for one in of_node]

    def _groups(self, dues: Iterable[Due]) -> Iterator[list[Due]]:
        group: list[Due] = []
        size = 0
        for one in dues:
            if group and one.node.cluster != group[-1].node.cluster and size >= self.settings.bytes_per_commit:
                yield group
                group, size = [], 0
            group.append(one)
            size += one.size
        if group:
            yield group

    def _read(self, engine: Engine, group: Sequence[Due]) -> Iterator[tuple[Due, list[Part]]]:
        """The files of a group that were read to their end, each with its parts."""
        tasks: list[tuple[Task, str]] = []
        owners = []
        for one, found in self._planned(engine, group):
            owners.append((one, len(found)))
            tasks += ((task, self._folder(one.node)) for task in found)
        results = iter(engine.outcomes(tasks))
        for one, count in owners:
            outcomes = [next(results) for _ in range(count)]
            parts = [each for each in outcomes if isinstance(each, Part)]
            problems = [each for each in outcomes if isinstance(each, Problem)]
            for each in problems:
                if each.is_fatal:
                    raise DamagedInputError(each.text)
                if each.is_lost:
                    raise _lost(each.text)
            self.summary.problems += sorted({each.text for each in problems})
            if len(parts) == count:
                yield one, parts

    def _planned(self, engine: Engine, group: Sequence[Due]) -> Iterator[tuple[Due, list[Task]]]:
        """The files that can be read, each with its tasks. The engine surveys large files, where it also reads them."""
        dues, versions = [], []
        for one, version in zip(group, stores.each(self._version, group, *self.settings.inputs), strict=True):
            if isinstance(version, Problem):
                self._gone(version)
                continue
            dues.append(one)
            versions.append(version)
        wanted = [cuts.spans(one.start, one.file.size, self.settings.piece) for one in dues]
        looks = [
            [Look(one.uri, one.file.path, one.where, version, each.begin, each.until, each.end) for each in found]
            for one, version, found in zip(dues, versions, wanted, strict=True)
        ]
        for one, version, found, surveys in zip(dues, versions, wanted, engine.surveys(looks), strict=True):
            problems: list[Problem] = []
            ranges = cuts.joined(one.start, one.file.size, found, _surveys(surveys, problems))
            if problems:
                self._gone(problems[0])
            else:
                yield one, [self._task(one, version, start, end) for start, end in ranges]

    def _gone(self, problem: Problem) -> None:
        if problem.is_lost:
            raise _lost(problem.text)
        self.summary.problems.append(problem.text)

    def _version(self, one: Due) -> str | Problem:
        """The version of the object now; a Problem if it is not the one that was listed."""
        try:
            data = open_range(one.uri, one.file.path, 0, one.file.size, one.where)
            if data.version and not one.file.is_as_listed(one.uri):
                return Problem(f"{one.where}: replaced since it was listed; run again")
        except InputChangedError as error:
            return Problem(str(error))
        except OSError as error:
            return Problem(f"{one.where}: {stores.reason(error)}", is_lost=stores.is_lost(error))
        return data.version

    def _task(self, one: Due, version: str, start: int, end: int) -> Task:
        return Task(
            uri=one.uri, path=one.file.path, cluster=one.node.cluster, node=one.node.node, file=one.file.name,
            fingerprint=one.fingerprint, lead=one.lead if start == one.start else start, start=start, end=end,
            is_open=one.is_open and end == one.file.size, mode=self.settings.mode, redact=self.settings.redact,
            version=version, proof=str(self._proof),
        )  # fmt: skip

    def _keep(self, one: Due, read: Sequence[Part]) -> None:
        self.summary.files += 1
        for part in read:
            self.summary.account = combined(self.summary.account, part.account)
        parts = [*one.kept, *(self._placed(part) for part in read)]
        if len(parts) > MOST_PARTS and parts[-1].is_final:
            whole = [replace(part, path=part.path and str(self.settings.output / part.path)) for part in parts]
            parts = [self._placed(merged(whole, self._folder(one.node)))]
        one.node.files[one.file.name] = one.entry(parts)

    def _placed(self, part: Part) -> Part:
        """With its path within the output, which may be moved."""
        return replace(part, path=part.path and os.path.relpath(part.path, self.settings.output))

    def _folder(self, node: Node) -> str:
        return str(manifest.folder_of(self.settings.output, METADATA_RECORDS, node.cluster))

    def _commit(self, engine: Engine, folders: set[str] | None) -> None:
        """Make the tables of those clusters anew of which something changed: rows, or what is known beside them."""
        nodes = self._ledger.nodes
        clusters = clusters_of(self._copy(node) for node in nodes)
        self.summary.clusters = len(clusters)
        self.summary.doubts = sorted({text for one in clusters for _, text in one.doubts})
        parts = {(node.cluster, node.node, node.cluster_id): [part.path for part in node.parts()] for node in nodes}
        sizes: Counter[str] = Counter()
        for node in nodes:
            sizes[node.cluster] += sum(part.size for part in node.parts())
        tables: defaultdict[str, list[TableFile]] = defaultdict(list)
        kept: set[tuple[str, str | None]] = set()
        made: dict[str, str] = {}
        changed: list[ClusterCopies] = []
        for one in clusters:
            key, source = json.dumps(_id(one)), _source(one, parts, self._beside)
            before = self._ledger.derived.get(key)
            if before == source or (folders is not None and one.cluster not in folders):
                kept.add(_id(one))
                if before is not None:
                    made[key] = before
                continue
            changed.append(one)
            made[key] = source
        changed.sort(key=lambda one: -sizes[one.cluster])  # the largest first: none is left alone at the end
        for files in engine.derived(self._derive, changed, self.settings.output):
            for name, file in files.items():
                tables[name].append(file)
        if made == self._ledger.derived:
            return
        self._ledger.derived = made
        for name, there in self._manifest.tables.items():
            tables[name] += [file for file in there if (file.cluster, file.cluster_id) in kept]
        tables[METADATA_RECORDS] = [
            TableFile(node.cluster, node.cluster_id, part.path, part.rows, part.size)
            for node in nodes for part in node.parts() if part.path is not None
        ]  # fmt: skip
        ordered = {name: tuple(sorted(files, key=lambda one: one.path)) for name, files in tables.items()}
        self._manifest = Manifest(self.settings.output, self._manifest.sequence + 1, ordered)
        manifest.commit(self._disk, self._manifest, self._ledger)
        manifest.sweep(self._disk, self._manifest)

    def _copy(self, node: Node) -> NodeCopy:
        root, files = self.settings.output, sorted(node.files.items())
        records = (
            FileRecords(node.node, name, _Rows(tuple(str(root / part.path) for part in entry.parts if part.path)))
            for name, entry in files
        )
        return NodeCopy(
            node.cluster, node.node, node.cluster_id, tuple(records), node.unused, node.voters, node.node_id, node.vote
        )


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a file, read whenever they are asked for. paths: of its parts that have any."""

    paths: tuple[str, ...]

    def __call__(self) -> Iterator[pa.RecordBatch]:
        for path in self.paths:
            yield from pq.ParquetFile(path).iter_batches(columns=COLUMNS)


def _surveys(seen: Iterable[Seen], problems: list[Problem]) -> Iterator[Survey | None]:
    """Up to the first problem, which is kept."""
    for one in seen:
        if isinstance(one, Problem):
            problems.append(one)
            return
        yield one


def _id(cluster: ClusterCopies) -> tuple[str, str | None]:
    return cluster.cluster, cluster.cluster_id


def _source(
    cluster: ClusterCopies, parts: Mapping[tuple[str, str, str | None], Sequence[str | None]], beside: str
) -> str:
    """What tells whether the tables of a cluster would be the same again. parts: files of rows, by node."""
    files = [
        [copy.node, copy.node_id, copy.vote, copy.unused, copy.voters, parts[copy.cluster, copy.node, copy.cluster_id]]
        for copy in cluster.copies
    ]
    return hashlib.sha256(json.dumps([DERIVED, beside, cluster.doubts, files]).encode()).hexdigest()


def _stamp(uri: str, path: str, start: int, end: int) -> str:
    try:
        data = open_range(uri, path, 0, end, path)
        return stamp(data, start, end)
    except InputChangedError:
        return ""
    except OSError as error:
        if stores.is_lost(error):
            raise _lost(f"{path}: {stores.reason(error)}") from None
        return ""


def _lost(text: str) -> EngineError:
    return EngineError(f"{text}; what was committed before is kept")
