"""One run of the pipeline: reads new bytes of the inputs, derives the tables of changed clusters, and commits.

It decides the order in which bytes are read, and when the result is committed. Called by `kafkafeatures pipeline run`.
An `Engine` (this process, or Spark) reads the files and makes the tables of clusters. Everything else happens here, on
one core, and is the same for both. If a run is killed, the next one makes the tables that it would have made: what no
row of `runs` names (`delta`) counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from featurelog import cuts, stores
from featurelog.clients.stage import ClientSettings, ClientStage, with_clients
from featurelog.cuts import Survey
from featurelog.delta import Output, OutputError
from featurelog.engine import (
    Derive,
    Engine,
    OneCore,
    Problem,
    SpanToSurvey,
    SurveyResult,
    derive_tables,
)
from featurelog.layout import NodeLog, Root
from featurelog.ledger import Derivation, Due, Node, due
from featurelog.parts import (
    PERMISSIVE,
    PROOF,
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
from featurelog.tables.checkpoint import DERIVED
from featurelog.tables.inputs import ClusterCopies, NodeCopy, clusters_of

BYTES_PER_COMMIT = 1024 * 1024 * 1024
"""Bytes of inputs that are committed together; those of one cluster are never divided."""
MOST_PARTS = 24
"""Most parts of one input file; if it has more, they are merged into one Parquet file, as many files read slowly."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Inputs and output of a run.

    inputs: folders or URIs. output: folder (an absolute path) or URI of the tables. mode: see `parts.MODES`.
    piece: bytes of a large file that one task reads at least. bytes_per_commit: see `BYTES_PER_COMMIT`. clients:
    evidence about clients; None: none is read.
    """

    inputs: tuple[str, ...]
    output: str
    mode: str = PERMISSIVE
    piece: int = cuts.PIECE
    bytes_per_commit: int = BYTES_PER_COMMIT
    clients: ClientSettings | None = None


@dataclass(slots=True)
class Summary:
    """Result of a run.

    clusters: number of clusters in the tables. files: number of files that were read. sequence: of the last commit.
    account: of all bytes that were read, as `kraftlog.reading.Account`.
    client_files, client_bytes: number of files with evidence about clients that were read, and their bytes.
    problems: files that could not be read, and why. doubts: reasons why it is not sure which files are of one cluster.
    read_again: clusters whose tables were made from all records, although an earlier run had read most of them, and
    why.
    """

    clusters: int = 0
    files: int = 0
    sequence: int = 0
    account: dict[str, Any] = field(default_factory=dict)
    client_files: int = 0
    client_bytes: int = 0
    problems: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    read_again: list[str] = field(default_factory=list)


Progress = Callable[[int, int], None]
"""Callback with the number of bytes read so far, and the number of all bytes to read."""


class Run:
    """One run of the pipeline, from the listing of the inputs to the commit. An instance is called once.

    output: the tables, which have what this run committed once it has ended.
    start_engine: called only if there is something to read. beside: digest of the data that `derive` reads besides the
    logs (KafkaFeatures documents); if it changes, all tables are derived anew. before: called before each effect of a
    commit, so that tests can end a run there.
    """

    def __init__(
        self, settings: Settings, derive: Derive, start_engine: Callable[[], Engine] = OneCore, *,
        progress: Progress = lambda done, of: None, beside: str = "", before: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.settings, self.summary = settings, Summary()
        self._derive, self._start_engine, self._beside = derive, start_engine, beside
        self._before, self._progress = before, progress
        self.output = Output.open(settings.output)
        self._ledger = self.output.ledger
        self._clients = ClientStage(settings.clients, self._ledger, settings.output, self.summary.problems)
        self._proof = f"{PROOF}{uuid.uuid4().hex}"  # see `Task.proof`

    def __call__(self) -> Summary:
        """Run, and return the summary. Raises InputsError, OutputError, DamagedInputError, EngineError."""
        output = self.settings.output
        dues = self._plan()
        self._clients.plan()
        try:
            with self._proved() if dues else nullcontext():
                self._read_and_commit(dues)
        except OSError as error:
            reason = stores.reason(error)
            raise OutputError(f"{error.filename or output}: {reason}; check the path and the rights") from None
        return self.summary

    @contextmanager
    def _proved(self) -> Iterator[None]:
        """Context with the proof file of this run in the output."""
        stores.new_file(self.settings.output, self._proof).close()
        try:
            yield
        finally:
            stores.remove_file(self.settings.output, self._proof)

    def _read_and_commit(self, dues: Sequence[Due]) -> None:
        """Read the files with new bytes, and commit them in groups. The last commit also covers changes without new
        bytes, such as voters or documents.
        """
        total, done = sum(due_file.size for due_file in dues), 0
        engine = self._start_engine() if dues or self._clients.is_due else OneCore()
        groups = [*self._groups(dues)] or [[]]
        for number, group in enumerate(groups, 1):
            for due_file, parts in self._read(engine, group):
                self._record_file(due_file, parts)
                done += due_file.size
                self._progress(done, total)
            self._commit(engine, {due_file.node.cluster for due_file in group} if number < len(groups) else None)
        self.summary.sequence = self.output.tables.sequence
        self.summary.client_files, self.summary.client_bytes = self._clients.files, self._clients.size

    def _plan(self) -> list[Due]:
        """Files with new bytes, by cluster. Adds every node of the inputs to the ledger. Of a log that is in several
        inputs, only the first one is read. Raises InputsError.
        """
        logs: dict[tuple[str, str], tuple[str, NodeLog]] = {}
        other_uris: dict[tuple[str, str], list[str]] = {}  # further inputs that have the same log
        for root in map(Root.of, self.settings.inputs):
            for log in root.logs():
                key = log.cluster, log.node
                if key in logs:
                    other_uris.setdefault(key, []).append(root.uri)
                logs.setdefault(key, (root.uri, log))
        nodes = []
        for key, (uri, log) in sorted(logs.items()):
            node = self._ledger.node(log)
            copies = ((f"{log.node}/", f"also in {other}, which is not read") for other in other_uris.get(key, ()))
            node.unused = (*log.unused, *copies)
            nodes.append((node, uri, log))
        dues = stores.each(lambda node_log: due(*node_log, _stamp), nodes, *self.settings.inputs)
        return [due_file for of_node in dues for due_file in of_node]

    def _groups(self, dues: Iterable[Due]) -> Iterator[list[Due]]:
        """Files that are committed together: of whole clusters, until they have `bytes_per_commit`."""
        group: list[Due] = []
        size = 0
        for due_file in dues:
            if group and due_file.node.cluster != group[-1].node.cluster and size >= self.settings.bytes_per_commit:
                yield group
                group, size = [], 0
            group.append(due_file)
            size += due_file.size
        if group:
            yield group

    def _read(self, engine: Engine, group: Sequence[Due]) -> Iterator[tuple[Due, list[Part]]]:
        """The files of a group that were read to their end, each with its new parts. A file of which a task failed is
        left out, and its problem goes to the summary. Raises DamagedInputError, EngineError.
        """
        tasks: list[Task] = []
        owners = []
        for due_file, file_tasks in self._planned(engine, group):
            owners.append((due_file, len(file_tasks)))
            tasks += file_tasks
        results = iter(engine.outcomes(tasks, self.settings.output))
        for due_file, count in owners:
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
                yield due_file, parts

    def _planned(self, engine: Engine, group: Sequence[Due]) -> Iterator[tuple[Due, list[Task]]]:
        """The files that can be read, each with its tasks. The engine surveys large files, to find where each can be
        divided. The problem of a file that cannot be read goes to the summary.
        """
        dues, versions = [], []
        for due_file, version in zip(group, stores.each(self._version, group, *self.settings.inputs), strict=True):
            if isinstance(version, Problem):
                self._skip_file(version)
                continue
            dues.append(due_file)
            versions.append(version)
        spans = [cuts.spans(due_file.start, due_file.file.size, self.settings.piece) for due_file in dues]
        to_survey = [
            [
                SpanToSurvey(
                    due_file.uri, due_file.file.path, due_file.where, version, each.begin, each.until, each.end
                )
                for each in file_spans
            ]
            for due_file, version, file_spans in zip(dues, versions, spans, strict=True)
        ]
        for due_file, version, file_spans, surveys in zip(
            dues, versions, spans, engine.surveys(to_survey), strict=True
        ):
            problems: list[Problem] = []
            ranges = cuts.joined(due_file.start, due_file.file.size, file_spans, _surveys(surveys, problems))
            if problems:
                self._skip_file(problems[0])
            else:
                yield due_file, [self._task(due_file, version, start, end) for start, end in ranges]

    def _skip_file(self, problem: Problem) -> None:
        """Note a file that cannot be read. Raises EngineError where nothing else can be read either."""
        if problem.is_lost:
            raise _lost(problem.text)
        self.summary.problems.append(problem.text)

    def _version(self, due_file: Due) -> str | Problem:
        """The current version of the object; a Problem if it was replaced since it was listed, or cannot be read."""
        try:
            data = open_range(due_file.uri, due_file.file.path, 0, due_file.file.size, due_file.where)
            if data.version and not due_file.file.is_as_listed(due_file.uri):
                return Problem(f"{due_file.where}: replaced since it was listed; run again")
        except InputChangedError as error:
            return Problem(str(error))
        except OSError as error:
            return Problem(f"{due_file.where}: {stores.reason(error)}", is_lost=stores.is_lost(error))
        return data.version

    def _task(self, due_file: Due, version: str, start: int, end: int) -> Task:
        file, node = due_file.file, due_file.node
        lead = due_file.lead if start == due_file.start else start
        return Task(
            uri=due_file.uri, path=file.path, cluster=node.cluster, node=node.node, file=file.name,
            fingerprint=due_file.fingerprint, lead=lead, start=start, end=end,
            is_open=due_file.is_open and end == file.size, mode=self.settings.mode, version=version,
            proof=self._proof,
        )  # fmt: skip

    def _record_file(self, due_file: Due, new_parts: Sequence[Part]) -> None:
        """Enter a file that was read, with its old and new parts, into the ledger. Many parts are merged into one."""
        self.summary.files += 1
        for part in new_parts:
            self.summary.account = combined(self.summary.account, part.account)
        parts = [*due_file.kept_parts, *(replace(part, account={}) for part in new_parts)]
        if len(parts) > MOST_PARTS and parts[-1].is_final:
            parts = [merged(parts, self.settings.output)]
        due_file.node.files[due_file.file.name] = due_file.entry(parts)

    def _commit(self, engine: Engine, folders: set[str] | None) -> None:
        """Derive the tables of those clusters anew whose rows or other sources (`_source`) have changed, and commit all
        tables. If no source has changed, and no evidence about clients was read, nothing is committed.

        folders: names of the clusters' folders; other clusters keep their tables, even if they have changed. None: all.
        """
        has_read = self._clients.read(engine, folders)
        nodes, output = self._ledger.nodes, self.settings.output
        clusters = with_clients(clusters_of(self._copy(node) for node in nodes), self._ledger, output)
        self.summary.clusters = len(clusters)
        self.summary.doubts = sorted({text for cluster in clusters for _, text in cluster.doubts})
        sizes: Counter[str] = Counter()
        for node in nodes:
            sizes[node.cluster] += sum(part.size for part in node.parts())
        derived: dict[str, Derivation] = {}
        changed: list[tuple[ClusterCopies, Derivation]] = []  # with their new sources, and their earlier files
        for cluster in clusters:
            key, source = json.dumps(_id(cluster)), _source(cluster, self._beside)
            earlier = self._ledger.derived.get(key)
            if earlier is not None and earlier.source == source:
                derived[key] = earlier
            elif folders is None or cluster.cluster in folders:
                changed.append((cluster, Derivation(source, earlier.files if earlier else {})))
            elif earlier is not None:
                derived[key] = earlier
        changed.sort(key=lambda pair: -sizes[pair[0].cluster])  # largest first: no core works alone at the end
        results = engine.mapped(
            partial(derive_tables, self._derive, output), [(of, each.files) for of, each in changed]
        )
        for (cluster, derivation), (files, outdated) in zip(changed, results, strict=True):
            derived[json.dumps(_id(cluster))] = Derivation(derivation.source, files)
            if outdated:
                self.summary.read_again.append(f"{cluster.cluster}: all records were read again: {outdated}")
        if derived == self._ledger.derived and not has_read:
            return
        self._ledger.derived = derived
        self.output.commit(self._ledger, self._before)

    def _copy(self, node: Node) -> NodeCopy:
        records = tuple(node.records(name, self.settings.output) for name in sorted(node.files))
        return NodeCopy(
            node.cluster, node.node, node.cluster_id, records, node.unused, node.voters, node.node_id, node.vote
        )


def _surveys(outcomes: Iterable[SurveyResult], problems: list[Problem]) -> Iterator[Survey | None]:
    """The surveys up to the first problem, which is appended to `problems`."""
    for outcome in outcomes:
        if isinstance(outcome, Problem):
            problems.append(outcome)
            return
        yield outcome


def _id(cluster: ClusterCopies) -> tuple[str, str | None]:
    return cluster.cluster, cluster.cluster_id


def _source(cluster: ClusterCopies, beside: str) -> str:
    """A digest of all that the tables of a cluster are made of. beside: see `Run`."""
    return hashlib.sha256(repr((DERIVED, beside, cluster)).encode()).hexdigest()


def _stamp(uri: str, path: str, start: int, end: int) -> str:
    """The digest of these bytes; "" where the file has changed or is not readable. Raises EngineError."""
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
