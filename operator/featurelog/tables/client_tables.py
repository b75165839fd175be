"""Makes the tables about the clients of a cluster, of what `featurelog.clients` has read. Called by `tables_of`."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from featurelog.tables import client_blockers, client_evidence, client_readiness, evidence_coverage, rejected_requests
from featurelog.tables.history import History, Note
from featurelog.tables.upgrade_readiness import Judging


def client_tables(history: History, judging: Judging) -> dict[str, pa.Table]:
    """The derived tables about clients, by name; none without evidence about them."""
    cluster, evidence = history.cluster, history.cluster.clients
    if evidence is None or judging.clients is None:
        return {}
    clients = client_evidence.judged(history, evidence, judging.clients, judging.at_ms)
    refused = {broker: rows() for broker, rows in evidence.refused.items()}
    valid_for_ms = judging.valid_for_ms
    return {
        client_readiness.TABLE.name: client_readiness.table(cluster, clients, judging.at_ms, valid_for_ms),
        client_blockers.TABLE.name: client_blockers.table(cluster, clients, judging.clients),
        evidence_coverage.TABLE.name: evidence_coverage.table(cluster, clients, evidence.usage),
        rejected_requests.TABLE.name: rejected_requests.table(cluster.as_columns(), refused, clients.uses),
    }


def client_notes(history: History) -> Iterator[Note]:
    """A note for each file with evidence about clients that is not used, or not all of it."""
    evidence = history.cluster.clients
    for broker, file, reason in evidence.remarks if evidence is not None else ():
        yield Note("client_evidence", reason, str(broker), file)
