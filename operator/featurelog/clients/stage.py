"""The part of a run that reads evidence about clients: which files are due, and what the ledger keeps of them.

It decides which files are read: those that are new or have another size or time than when they were read. An engine
reads the files of each broker (`reading`). Rows of request logs and of server logs stay when their files are gone, as
brokers delete old logs. But if a scrape is gone whose counters are kept, all scrapes of its broker are read again:
so a scrape that was put into the wrong folder leaves no trace once it is removed. Called by `run`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from featurelog.clients.kinds import Kind, broker_of, kind_of, scrape_name
from featurelog.clients.reading import DAY, BrokerRows, BrokerTask, is_before_window, read_broker
from featurelog.engine import Engine, Problem, RowsOfFile, TableFile
from featurelog.layout import InputsError, LogFile, Root
from featurelog.ledger import Broker, Ledger, StoredRows
from featurelog.parts import EngineError
from featurelog.tables import ClientEvidence, ClientJudging, ClusterCopies

_KEPT_LONGER = 2 * DAY
"""Milliseconds before the window for which evidence is kept, as the window ends where the evidence ends."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """inputs: folders or URIs with folders `<cluster>/<broker>/`. judging: how clients are judged. now: time of the run
    in ms.
    """

    inputs: tuple[str, ...]
    judging: ClientJudging
    now: int


@dataclass(slots=True)
class ClientStage:
    """Reads the evidence of one run; none without settings. files: number of files that were read. size: bytes of them.
    problems: texts about what could not be read are added to it.
    """

    settings: ClientSettings | None
    ledger: Ledger
    output: str
    problems: list[str]
    files: int = 0
    size: int = 0
    _due: dict[str, list[tuple[Broker, BrokerTask]]] = field(default_factory=dict)

    def plan(self) -> None:
        """List the inputs, and find the files to read. Raises InputsError, also for an input without evidence: its
        volume may not be mounted.
        """
        if self.settings is None:
            return
        listed: defaultdict[tuple[str, int], list[tuple[str, LogFile]]] = defaultdict(list)
        for root in map(Root.of, self.settings.inputs):
            count = 0
            for cluster, node, files in root.folders():
                evidence = [(root.uri, file) for file in files if kind_of(file.name) is not None]
                count += len(evidence)
                broker_id = broker_of(node)
                if broker_id is not None:
                    listed[cluster, broker_id] += evidence
                elif evidence:
                    self.problems.append(f"{cluster}/{node}: not read: expected the id of the broker as its name")
            if not count:
                raise InputsError(f"{root.uri}: no evidence about clients is here; expected <cluster>/<broker>/*")
        brokers = {(broker.cluster, broker.broker): broker for broker in self.ledger.brokers}
        for (cluster, id_), evidence in sorted(listed.items()):
            broker = brokers.get((cluster, id_)) or Broker(cluster, id_)
            if task := _task(self.settings, broker, evidence):
                self._due.setdefault(cluster, []).append((broker, task))

    @property
    def is_due(self) -> bool:
        """True if there is something to read, or to remove from what is kept."""
        return bool(self._due)

    def read(self, engine: Engine, clusters: Iterable[str] | None) -> bool:
        """Read what is due of these clusters (None: of all), and enter it into the ledger. Returns True if
        something was due. Raises EngineError.
        """
        folders = list(self._due) if clusters is None else [folder for folder in clusters if folder in self._due]
        pairs = [pair for folder in sorted(folders) for pair in self._due.pop(folder)]
        results = engine.mapped(partial(read_broker, output=self.output), [task for _, task in pairs])
        for (broker, task), result in zip(pairs, results, strict=True):
            if isinstance(result, Problem):
                raise EngineError(f"{result.text}; what was committed before is kept")
            self._enter(broker, task, result)
        return bool(pairs)

    def _enter(self, broker: Broker, task: BrokerTask, rows: BrokerRows) -> None:
        """Enter what was read of a broker into the ledger."""
        listed = {file.path: file for _, file in task.files}
        files = [listed[path] for path in rows.paths]
        broker.files |= {file.path: (file.size, file.modified) for file in files}
        for file in files:
            broker.remarks.pop(file.name, None)
        broker.remarks |= {listed[path].name: text for path, text in rows.remarks.items() if path in rows.paths}
        broker.stored = rows.stored
        begins = {path: begin for path, begin in broker.begins.items() if path not in rows.paths} | rows.begins
        broker.begins = {path: begin for path, begin in begins.items() if path in broker.files}
        broker.ends = {path: end for path, end in (broker.ends | rows.ends).items() if path in broker.files}
        if not any(broker is other for other in self.ledger.brokers):
            self.ledger.brokers.append(broker)
        self.files += len(files)
        self.size += rows.size
        self.problems += rows.problems


def _task(settings: ClientSettings, broker: Broker, listed: Sequence[tuple[str, LogFile]]) -> BrokerTask | None:
    """The task of a broker; None if nothing is due. Files that are no longer listed are removed from `broker.files`."""
    judging, now = settings.judging, settings.now
    since = now - judging.window_ms - _KEPT_LONGER
    files, stored = broker.files, broker.stored
    scrapes = {}
    for _, file in listed:
        if kind_of(file.name) is Kind.SCRAPE:
            name = scrape_name(broker.broker, file.name)
            scrapes[file.name] = now if name is None else name.time
    if scrapes and any(_is_gone(broker.broker, name, scrapes, since) for name in stored.scrapes):
        stored = replace(stored, counters=None, scrapes=())
        files = {path: state for path, state in files.items() if kind_of(path) is not Kind.SCRAPE}
    due = [
        (uri, file)
        for uri, file in listed
        if files.get(file.path) != (file.size, file.modified) and scrapes.get(file.name, now) >= since
    ]
    paths = {file.path for _, file in listed}
    broker.files = {path: state for path, state in files.items() if path in paths}
    is_old = any(is_before_window(day, since) for day in stored.usage)
    if not due and stored is broker.stored and not is_old:
        return None
    return BrokerTask(
        broker.cluster, broker.broker, tuple(due), stored, broker.begins, since, now, judging.releases, judging.targets,
        tuple((uri, file, broker.ends[file.path]) for uri, file in listed if file.path in broker.ends),
    )  # fmt: skip


def _is_gone(broker: int, name: str, listed: Mapping[str, int], since: int) -> bool:
    """True if a scrape that is not too old is not listed. name: of its file."""
    scrape = scrape_name(broker, name)
    return name not in listed and scrape is not None and scrape.time >= since


def with_clients(clusters: Iterable[ClusterCopies], ledger: Ledger, output: str) -> list[ClusterCopies]:
    """The clusters with the evidence about their clients. Where a folder has logs of several clusters, or none of a
    metadata log, its evidence is of the cluster without an id.
    """
    brokers: defaultdict[str, list[Broker]] = defaultdict(list)
    for broker in ledger.brokers:
        brokers[broker.cluster].append(broker)
    by_folder: defaultdict[str, list[ClusterCopies]] = defaultdict(list)
    for cluster in clusters:
        by_folder[cluster.cluster].append(cluster)
    for folder, of_folder in brokers.items():
        candidates = by_folder[folder]
        owner = next((cluster for cluster in candidates if len(candidates) == 1 or cluster.cluster_id is None), None)
        if owner is None:
            owner = ClusterCopies(folder, None, (), candidates[0].doubts if candidates else ())
            candidates.append(owner)
        candidates[candidates.index(owner)] = replace(owner, clients=_evidence(of_folder, output))
    whole = (cluster for candidates in by_folder.values() for cluster in candidates)
    return sorted(whole, key=lambda cluster: (cluster.cluster, cluster.cluster_id or ""))


def _evidence(brokers: Sequence[Broker], output: str) -> ClientEvidence:
    def rows(files: Iterable[TableFile | None]) -> tuple[RowsOfFile, ...]:
        return tuple(RowsOfFile(output, file.path) for file in files if file is not None)

    stored: list[tuple[Broker, StoredRows]] = [(broker, broker.stored) for broker in brokers]
    return ClientEvidence(
        rows(file for _, its_rows in stored for _, file in sorted(its_rows.usage.items())),
        rows(its_rows.counters for _, its_rows in stored),
        {
            broker.broker: RowsOfFile(output, its_rows.refused.path)
            for broker, its_rows in stored
            if its_rows.refused is not None
        },
        tuple((broker.broker, name, text) for broker in brokers for name, text in sorted(broker.remarks.items())),
    )
