"""Makes the tables about the clients of a cluster, of what `featurelog.clients` has read. Called by `tables_of`."""

from __future__ import annotations

from collections.abc import Iterable

from featurelog.tables import client_blockers, client_evidence, client_readiness, evidence_coverage, rejected_requests
from featurelog.tables.history import History
from featurelog.tables.table import Row, Table
from featurelog.tables.upgrade_readiness import Judging


def client_rows(history: History, judging: Judging) -> list[tuple[Table, Iterable[Row]]]:
    """The tables about clients, each with its rows; none without evidence about them."""
    evidence = history.cluster.clients
    if evidence is None or judging.clients is None:
        return []
    clients = client_evidence.judged(history, evidence, judging.clients, judging.at_ms)
    refused = {broker: rows() for broker, rows in evidence.refused.items()}
    return [
        (client_readiness.TABLE, client_readiness.rows(clients, judging.at_ms, judging.valid_for_ms)),
        (client_blockers.TABLE, client_blockers.rows(clients, judging.clients)),
        (evidence_coverage.TABLE, evidence_coverage.rows(clients, evidence.usage)),
        (rejected_requests.TABLE, rejected_requests.rows(refused, clients.uses)),
    ]
