"""Verdicts on the clients of a cluster, from what the pipeline keeps of scrapes and logs, and from its metadata log.

`core/clients/verdict.py` judges, as for `clients check`. What this module decides: the window ends where both scrapes
and metadata log are known, so that a copy that is a little older than the other makes no gap. Evidence of a later time
covers nothing, but a removed version in it blocks. Which brokers are registered is known only if the metadata log is
known without a doubt, from copies of enough nodes. So less of any input never makes a cluster ready. Called by
`client_tables`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from featurelog.tables import client_api_usage
from featurelog.tables.api_counters import scrapes_of
from featurelog.tables.coverage import coverage, coverage_of
from featurelog.tables.history import BROKER, History
from featurelog.tables.inputs import ClientEvidence, RowsOfTable
from featurelog.tables.table import in_ms
from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.api.values import replace
from kafkafeatures.client_files.reduced import GroupCount, RequestGroup, logged_use
from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.clients.evidence import MAX_GAP, Scrape
from kafkafeatures.core.clients.registry import BrokerRegistry, RegisteredProcess
from kafkafeatures.core.clients.senders import ClientOwner, LoggedUse, version_uses
from kafkafeatures.core.clients.targets import Targets
from kafkafeatures.core.clients.verdict import ClientCheck, ClientVerdict, check_clients
from kafkafeatures.core.facts.client_standing import NOT_ALL_REGISTERED, refuses_old_versions
from kraftlog.image import BrokerRegistration, is_under_way

_GROUP = (
    "broker_id", "api", "version", "listener", "principal", "client_id", "address", "software_name",
    "software_version", "is_forwarded",
)  # fmt: skip
_COUNTS = [("requests", "sum"), ("first_ts", "min"), ("last_ts", "max"), ("logs_all", "all")]


@dataclass(frozen=True, slots=True)
class ClientJudging:
    """Parameters. releases: for which clients are judged. targets: what releases accept. window_ms: time that has to be
    free of removed versions. owners: of clients; the first that matches counts.
    """

    releases: tuple[str, ...]
    targets: Targets
    window_ms: int
    owners: tuple[ClientOwner, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterClients:
    """Evidence and verdicts of a cluster. checks: by release, in the order of the parameters.
    doubts: (kind, text) of facts that prevent the verdict `ready`. latest: window up to the latest evidence, which may
    end later than `window`. uses: what request logs show in `latest`, with the sender of each use. all_refuse: all
    registered brokers refuse removed versions.
    """

    window: EvidenceWindow
    latest: EvidenceWindow
    scrapes: tuple[Scrape, ...]
    uses: tuple[LoggedUse, ...]
    checks: dict[str, ClientCheck]
    doubts: tuple[tuple[str, str], ...]
    all_refuse: bool


def judged(history: History, evidence: ClientEvidence, judging: ClientJudging, at_ms: int) -> ClusterClients:
    """Judge the clients of a cluster for each release. at_ms: time of the run."""
    scrapes = tuple(scrape for rows in evidence.counters for scrape in scrapes_of(rows()))
    logged = _summed(evidence.usage)
    last_scrape, last_record = max((scrape.time for scrape in scrapes), default=0), history.end_ms or 0
    limit = at_ms + MAX_GAP
    latest = _window(min(max(last_scrape, last_record, pc.max(logged["last_ts"]).as_py() or 0), limit), judging)
    # Without scrapes nothing is covered, and without a metadata log nothing is registered: then any end will do.
    end = min(last_scrape or latest.end, last_record or latest.end, limit)
    window = _window(end, judging)
    uses = tuple(_uses(logged, latest))
    registry, all_refuse, doubts = _registered(history, window)
    checks = {
        release: _worse(*(
            check_clients(
                release, judging.targets, scrapes, its_registry, its_window, all_refuse=all_refuse,
                logged=version_uses(uses, its_window),
            )
            for its_registry, its_window in ((registry, window), (None, latest))
        ))
        for release in judging.releases
    }  # fmt: skip
    return ClusterClients(window, latest, scrapes, uses, checks, tuple(doubts), all_refuse)


def _worse(check: ClientCheck, late_check: ClientCheck) -> ClientCheck:
    """The check, with the uses and the verdict of the later one where these are worse."""
    is_worse = late_check.verdict is ClientVerdict.BLOCKED or (check.verdict is ClientVerdict.READY and late_check.uses)
    if check.verdict is ClientVerdict.BLOCKED or not is_worse:
        return check
    return replace(check, verdict=late_check.verdict, uses=late_check.uses, ready_from=None)


def _window(end: int, judging: ClientJudging) -> EvidenceWindow:
    return EvidenceWindow(end - judging.window_ms, end)


def _summed(usage: Iterable[RowsOfTable]) -> pa.Table:
    """The rows of `client_api_usage` without their hours: summed for each day, with times in ms."""
    days = [_grouped(in_ms(rows())) for rows in usage]
    return pa.concat_tables(days) if days else _grouped(in_ms(client_api_usage.TABLE.schema.empty_table()))


def _grouped(rows: pa.Table) -> pa.Table:
    grouped = rows.group_by(list(_GROUP), use_threads=False).aggregate(_COUNTS)
    return grouped.select([*_GROUP, *("_".join(count) for count in _COUNTS)]).rename_columns(
        [*_GROUP, *(name for name, _ in _COUNTS)]
    )


def _uses(logged: pa.Table, window: EvidenceWindow) -> Iterator[LoggedUse]:
    """A use for each sender, API and version of a broker, with those of all days in the window."""
    is_within = pc.and_(
        pc.greater_equal(logged["last_ts"], window.begin), pc.less_equal(logged["first_ts"], window.end)
    )
    for row in _grouped(logged.filter(is_within)).to_pylist():
        group = RequestGroup(*(row[name] for name in _GROUP[1:]))
        count = GroupCount(group, row["requests"], row["last_ts"])
        yield logged_use(row["broker_id"], count, row["first_ts"], shows_all=row["logs_all"])


def _registered(
    history: History, window: EvidenceWindow
) -> tuple[BrokerRegistry | None, bool, Sequence[tuple[str, str]]]:
    """(the registered brokers, True if all refuse removed versions, doubts about them). With a doubt: (None, False,
    doubts).
    """
    doubts = [*history.cluster.doubts, *((doubt.kind, doubt.text) for doubt in history.doubts)]
    doubts += coverage(coverage_of(history))
    versions = [version for version in history.nodes.versions if version.key[0] == BROKER]
    present = {version.key[1]: version.value.registration for version in versions if version.end is None}
    brokers = [each for each in present.values() if isinstance(each, BrokerRegistration)]
    migrations = history.migration.versions
    if any(version.end is None and is_under_way(version.value.code) is not False for version in migrations) or any(
        broker.is_migrating_zk_broker for broker in brokers
    ):
        doubts.append(("zookeeper_mode", NOT_ALL_REGISTERED))
    if doubts:
        return None, False, list(dict.fromkeys(doubts))
    removed, joined, processes = {}, {}, {}
    incarnations: dict[int, object] = {}
    for version in versions:
        broker, begin, end = version.key[1], version.begin, version.end
        incarnation = version.value.registration.incarnation
        if broker not in incarnations and history.base == 0 and begin.at_ms is not None and not begin.after_gap:
            joined[broker] = begin.at_ms
        if incarnations.get(broker) != incarnation:
            incarnations[broker] = incarnation
            processes[broker] = RegisteredProcess(begin.at_ms or 0, begin.not_after_ms)
        if end is not None:
            removed[broker] = end.not_after_ms
    # A registration whose end may be undone by a leader still counts.
    present_ids = {version.key[1] for version in versions if version.may_hold(history.committed_below)}
    # Brokers of a cluster that was migrated from ZooKeeper were there before their first record; so may be those of a
    # log that begins in the window, as that of a cluster that was created anew.
    begin_of_log = min((version.begin.not_after_ms for version in versions), default=window.end)
    is_whole = begin_of_log <= window.begin and not any(version.value.code for version in migrations)
    registry = BrokerRegistry(
        frozenset(present_ids),
        {broker: time for broker, time in removed.items() if broker not in present_ids},
        joined if is_whole else {},
        {broker: process for broker, process in processes.items() if broker in present},
    )
    all_refuse = bool(brokers) and all(refuses_old_versions(each.features.get(METADATA_VERSION)) for each in brokers)
    return registry, all_refuse, ()
