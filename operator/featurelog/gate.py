"""The gate: judges by metadata logs if clusters can be raised to a release, or a feature of theirs to a level.

The verdict on a cluster is `ready`, `blocked` or `unknown`: that of the row of `upgrade_readiness` for the target, or
`unknown` if there is a doubt about the row, such as its age. It is `ready` only if the row says so, and the row of
`client_readiness` as well if clients are judged for this target. Called by `kafkafeatures pipeline gate`; the operator
does not read it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from featurelog.tables.coverage import coverage
from featurelog.tables.inputs import TWO_CLUSTERS, TWO_PLACES
from kafkafeatures.api.names import API_VERSION
from kafkafeatures.api.records import json_name

Row = Mapping[str, Any]
"""A row of `upgrade_readiness`, as `pyarrow.Table.to_pylist` gives it."""
Json = dict[str, Any]

CLOCKS_DIFFER_MS = 5 * 60 * 1000
"""Milliseconds that a controller's clock may be ahead of this machine's."""


_CLIENTS = "clients"
"""Kind of the reasons that are about clients."""


class Verdict(StrEnum):
    """Verdict on a cluster, and on all of them."""

    READY = "ready"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"


_WORST_FIRST = (Verdict.BLOCKED, Verdict.UNKNOWN, Verdict.READY)


@dataclass(frozen=True, slots=True)
class Target:
    """The target of an upgrade. kind: `release` or `feature`. name: such as "4.2" or "group.version=1"."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class ClusterName:
    """A cluster as the tables name it: by its folder, and by the cluster id in its nodes' files."""

    cluster: str
    cluster_id: str | None


@dataclass(frozen=True, slots=True)
class ClusterVerdict:
    """Verdict on one cluster. unknown_because: reasons as (kind, text). row: the row of `upgrade_readiness` behind it;
    None: there is none. clients: the verdict on its clients; None: they are not judged for this target.
    blocking_versions: removed versions that they use, such as `Produce v2`.
    """

    name: ClusterName
    verdict: Verdict
    unknown_because: tuple[tuple[str, str], ...]
    row: Row | None
    clients: Verdict | None = None
    blocking_versions: tuple[str, ...] = ()

    def as_json(self) -> Json:
        """The entry of this cluster in the document."""
        row: Row = self.row or {}
        return {
            "cluster": self.name.cluster,
            "clusterId": self.name.cluster_id,
            "verdict": self.verdict.value,
            "changes": _plain(row.get("changes") or []),
            "blockers": {
                "nodes": _plain(row.get("blocking_nodes") or []),
                "losses": _plain(row.get("downgrade_losses") or []),
                "others": [*_plain(row.get("other_blockers") or []), *map(_client_blocker, self.blocking_versions)],
            },
            "clients": self.clients and self.clients.value,
            "unknownBecause": [{"kind": kind, "text": text} for kind, text in self.unknown_because],
            "coverage": {
                "copies": list(row.get("copies") or []),
                "copiedNodes": row.get("copied_nodes"),
                "voters": row.get("voters"),
                "knownFromOffset": row.get("known_from_offset"),
                "committedBelow": row.get("committed_below"),
            },
            "watermark": {"offset": row.get("watermark_offset"), "time": _plain(row.get("watermark_ts"))},
            "validUntil": _plain(row.get("valid_until")),
        }


@dataclass(frozen=True, slots=True)
class Gate:
    """The verdicts on all clusters for one target. at_ms: when they were made."""

    target: Target
    at_ms: int
    clusters: tuple[ClusterVerdict, ...]

    @property
    def verdict(self) -> Verdict:
        """`blocked` if any cluster is blocked; `ready` only if there are clusters and all of them are ready."""
        verdicts = {cluster.verdict for cluster in self.clusters}
        if Verdict.BLOCKED in verdicts:
            return Verdict.BLOCKED
        return Verdict.READY if verdicts == {Verdict.READY} else Verdict.UNKNOWN

    def as_json(self) -> Json:
        """The document."""
        counts = Counter(cluster.verdict for cluster in self.clusters)
        return {
            "apiVersion": API_VERSION,
            "kind": "Gate",
            "target": {"kind": self.target.kind, "name": self.target.name},
            "verdict": self.verdict.value,
            "evaluatedAt": _moment(self.at_ms),
            "counts": {verdict.value: counts[verdict] for verdict in Verdict},
            "clusters": [cluster.as_json() for cluster in self.clusters],
        }


def judge(
    target: Target, rows: Iterable[Row], clusters: Iterable[ClusterName], *,
    at_ms: int, client_rows: Iterable[Row] | None = None,
) -> Gate:  # fmt: skip
    """Judge all clusters. rows: of `upgrade_readiness`, at least those for this target. clusters: all that the tables
    know; one without a row is `unknown`. client_rows: of `client_readiness`; None: clients are not judged.
    """
    names = sorted(set(clusters), key=lambda name: (name.cluster, name.cluster_id or ""))
    rows_by_name = _by_name(row for row in rows if (row["target_kind"], row["target"]) == (target.kind, target.name))
    clients_by_name = _by_name(client_rows or ())
    folders, ids = (
        Counter(name.cluster for name in names),
        Counter(name.cluster_id for name in names if name.cluster_id),
    )
    verdicts = []
    for name in names:
        doubts = []
        if folders[name.cluster] > 1:
            doubts.append((TWO_CLUSTERS, f"folder {name.cluster} holds logs of several clusters"))
        if name.cluster_id and ids[name.cluster_id] > 1:
            doubts.append((TWO_PLACES, f"logs of cluster {name.cluster_id} lie in several folders"))
        verdict = _of_cluster(name, rows_by_name.get(name, []), doubts, at_ms)
        if client_rows is not None:
            verdict = _with_clients(verdict, clients_by_name.get(name, []), target.name, at_ms)
        verdicts.append(verdict)
    return Gate(target, at_ms, tuple(verdicts))


def _by_name(rows: Iterable[Row]) -> Mapping[ClusterName, list[Row]]:
    rows_by_name: dict[ClusterName, list[Row]] = {}
    for row in rows:
        rows_by_name.setdefault(ClusterName(row["cluster"], row["cluster_id"]), []).append(row)
    return rows_by_name


def _of_cluster(
    name: ClusterName, rows: Sequence[Row], doubts: Sequence[tuple[str, str]], at_ms: int
) -> ClusterVerdict:
    if len(rows) != 1:
        text = "the tables say nothing of this target" if not rows else f"the tables have {len(rows)} rows for it"
        return ClusterVerdict(name, Verdict.UNKNOWN, (*doubts, ("no_row", text)), None)
    (row,) = rows
    unknown = [*doubts, *_age(row, at_ms)]
    unknown_in_row = [(finding["kind"], finding["text"]) for finding in row["unknown_because"] or ()]
    if unknown:  # before `blocked`: what blocked it may be gone by now
        return ClusterVerdict(name, Verdict.UNKNOWN, (*unknown, *unknown_in_row), row)
    if row["verdict"] == Verdict.BLOCKED:
        return ClusterVerdict(name, Verdict.BLOCKED, tuple(unknown_in_row), row)
    unknown = list(dict.fromkeys((*unknown_in_row, *coverage(row))))  # again, as rows of an older release may lack it
    if row["verdict"] != Verdict.READY and not unknown:
        unknown.append(("verdict", "the tables do not say why"))
    blocks = row["blocking_nodes"] or row["downgrade_losses"] or row["other_blockers"]
    if blocks and not unknown:
        unknown.append(("contradiction", "the tables name what blocks it, and that it is ready"))
    return ClusterVerdict(name, Verdict.UNKNOWN if unknown else Verdict.READY, tuple(unknown), row)


def _with_clients(cluster: ClusterVerdict, all_rows: Sequence[Row], release: str, at_ms: int) -> ClusterVerdict:
    """The verdict that also counts the clients of a cluster: the worse one of both. all_rows: of `client_readiness`,
    for all releases.
    """
    versions: tuple[str, ...] = ()
    rows = [row for row in all_rows if row["target"] == release]
    if len(rows) != 1:
        judge_them = f'its clients are not judged for {release}; add "{release}" to clients.releases, then run again'
        text = judge_them if all_rows else "no evidence about its clients was read"
        clients, reasons = Verdict.UNKNOWN, [(_CLIENTS, text)]
    elif at_ms > (_ms(rows[0]["valid_until"]) or 0):
        text = f"the evidence about its clients ends at {_plain(rows[0]['window_to'])}; copy it again, then run again"
        clients, reasons = Verdict.UNKNOWN, [(_CLIENTS, text)]
    else:
        clients, versions = Verdict(rows[0]["verdict"]), tuple(rows[0]["blocking_versions"] or ())
        reasons = [(_CLIENTS, f"clients: {reason['text']}") for reason in rows[0]["unknown_because"] or ()]
        if clients is Verdict.READY and (reasons or versions):
            clients = Verdict.UNKNOWN
    verdict = next(each for each in _WORST_FIRST if each in {cluster.verdict, clients})
    unknown_because = (*cluster.unknown_because, *reasons)
    return ClusterVerdict(cluster.name, verdict, unknown_because, cluster.row, clients, versions)


def _client_blocker(version: str) -> Json:
    return {"kind": "Clients", "text": f"clients use {version}, which this release lacks"}


def _age(row: Row, at_ms: int) -> list[tuple[str, str]]:
    """Reasons why the row may be out of date, or its time wrong: kind and text."""
    last, until = _ms(row["watermark_ts"]), _ms(row["valid_until"])
    if last is None or until is None:
        return [("too_old", "when the last record was appended is not known")]
    if last > at_ms + CLOCKS_DIFFER_MS:
        return [
            ("in_the_future", f"the last record is of {_moment(last)}: the clock of a controller, or ours, is wrong")
        ]
    if at_ms > until:
        return [
            ("too_old", f"the last record that was read is of {_moment(last)}; copy the logs again, then run again")
        ]
    return []


def _plain(value: Any) -> Any:
    """A value as JSON has it, with names as in documents."""
    if isinstance(value, datetime):
        return _moment(_ms(value) or 0)
    if isinstance(value, Mapping):
        return {json_name(str(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


def _moment(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
