"""The table `client_blockers`: the clients that break with a release, with their owners and the remedy.

`core/clients/senders.py` names them. Versions that only counters show have a row without a name. Called by
`client_tables`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import pyarrow as pa

from featurelog.tables.client_evidence import ClientJudging, ClusterClients
from featurelog.tables.table import TIME, WHERE, Column, Row, Table
from kafkafeatures.core.clients.senders import LoggedUse, SenderKind, removed_uses, sender_key, senders_of
from kafkafeatures.core.clients.targets import ALIASES, Apis
from kafkafeatures.core.clients.verdict import ApiUse, UseKind

REQUEST_LOG, COUNTERS = "request log", "counters"
TABLE = Table(
    "client_blockers",
    "A row for each client, API and version that a release of Kafka lacks and that was used in the window, or may have "
    "been. A client id is what a client says of itself.",
    ("cluster", "cluster_id", "target", "kind", "client_id", "principal", "api", "version"),
    (
        *WHERE,
        Column("target", pa.string(), "release of Kafka, such as `4.1`"),
        Column(
            "kind",
            pa.string(),
            "of a sender: `Client`, `Broker`, `Forwarded`, `Unnamed`; of a use that only counters show: `Removed`, "
            "`MaybeBefore`, `Newer`, `UnknownApi`",
        ),
        Column("principal", pa.string(), "authenticated user; null: only counters show the use"),
        Column("client_id", pa.string(), "client id; null: only counters show the use"),
        Column("software", pa.list_(pa.string()), "names and versions of the libraries that the client names"),
        Column("addresses", pa.list_(pa.string()), "addresses of the client"),
        Column("api", pa.string(), "name of the API, or of the counter"),
        Column("version", pa.int32(), "version of the requests"),
        Column("min_needed", pa.int32(), "lowest version that the release accepts; null: it lacks the API"),
        Column("last_seen", TIME, "time of the last request"),
        Column("requests", pa.int64(), "number of requests in the window"),
        Column("brokers", pa.list_(pa.int32()), "brokers to which they were sent"),
        Column("owner", pa.string(), "team in the file of owners; null: no entry matches"),
        Column("remedy", pa.string(), "what to do"),
        Column("evidence", pa.string(), f"`{REQUEST_LOG}` or `{COUNTERS}`"),
    ),
)
_SWITCH_ON = (
    "find out who sends it: switch the request log of these brokers on (`kafkafeatures clients evidence start`)"
)
_Key = tuple[SenderKind, str, str, str, int]
"""Kind, client id and principal of a sender, API and version."""


def rows(clients: ClusterClients, judging: ClientJudging) -> Iterator[Row]:
    """The rows of one cluster."""
    return (row for release in clients.checks for row in _rows(clients, judging, release))


def _rows(clients: ClusterClients, judging: ClientJudging, release: str) -> Iterator[Row]:
    target = judging.targets.of(release) or {}
    removed = removed_uses(clients.uses, release, judging.targets, clients.latest)
    by_key: defaultdict[_Key, list[LoggedUse]] = defaultdict(list)
    for use in removed:
        by_key[*sender_key(use), use.name, use.version].append(use)
    for sender in senders_of(clients.uses, release, judging.targets, clients.latest, judging.owners):
        for api, version in sender.versions:
            uses = by_key[sender.kind, sender.client_id, sender.principal, api, version]
            yield {
                **_of_version(release, target, api, version), "kind": sender.kind.value,
                "principal": sender.principal, "client_id": sender.client_id, "software": list(sender.software),
                "addresses": list(sender.addresses), "last_seen": max(use.last for use in uses),
                "requests": sum(use.requests for use in uses),
                "brokers": _brokers(use.broker for use in uses), "owner": sender.owner or None,
                "remedy": sender.remedy, "evidence": REQUEST_LOG,
            }  # fmt: skip
    logged = {(use.name, use.version) for use in removed}
    for counted in clients.checks[release].uses:
        if counted.api_version not in logged:
            yield _of_counter(release, target, counted)


def _of_counter(release: str, target: Apis, use: ApiUse) -> Row:
    return {
        **_of_version(release, target, use.name, use.version), "kind": use.kind.value, "principal": None,
        "client_id": None, "software": [], "addresses": [], "last_seen": use.until,
        "requests": use.requests, "brokers": _brokers(use.brokers), "owner": None,
        "remedy": _SWITCH_ON if use.kind in (UseKind.REMOVED, UseKind.MAYBE_BEFORE) else None, "evidence": COUNTERS,
    }  # fmt: skip


def _of_version(release: str, target: Apis, api: str, version: int) -> Row:
    accepted = target.get(ALIASES.get(api, api))
    return {"target": release, "api": api, "version": version, "min_needed": accepted.min if accepted else None}


def _brokers(brokers: Iterable[int]) -> list[int]:
    return sorted(set(brokers))
