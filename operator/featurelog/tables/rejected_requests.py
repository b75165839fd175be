"""The table `rejected_requests`: requests that brokers of Kafka 4.x refused, and clients that may have sent them.

The pipeline keeps the refused connections of each broker (`REFUSED`), as several lines and logs may name one
connection, with the clients that request logs show on it. `clients/reading.py` makes these rows. `rows`
makes those of the table of them. `core/clients/rejections.py` counts the requests and looks for the clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from featurelog.tables.table import TIME, WHERE, Column, Row, Table, in_ms
from kafkafeatures.core.clients.rejections import (
    MAX_CONNECTIONS,
    RefusedRequest,
    RejectedRequests,
    Seen,
    SeenClient,
    Sightings,
)
from kafkafeatures.core.clients.senders import LoggedUse

_USER = pa.struct([
    *(pa.field(name, pa.string()) for name in ("client_id", "principal", "software")),
    *(pa.field(name, pa.int64()) for name in ("first", "last")),
])  # fmt: skip
Users = Mapping[str, Mapping[SeenClient, tuple[int, int]]]
"""By connection, the clients that request logs show on it, each with the times of its first and last request in ms."""
REFUSED = Table(
    "refused_connections",
    "What the pipeline keeps of server logs: a row for each connection that a broker refused.",
    ("cluster", "broker_id", "connection"),
    (
        WHERE[0],
        Column("broker_id", pa.int32(), "the broker, by the name of its folder"),
        Column("connection", pa.string(), "addresses and ports of the connection"),
        Column("address", pa.string(), "address of the client"),
        Column("api", pa.string(), "name of the API"),
        Column("version", pa.int32(), "version of the request; -1: the line does not have it"),
        Column("ts", TIME, "when it was refused; null: the line has no time"),
        Column(
            "clients", pa.list_(_USER), "clients that request logs show on it, with the times of their requests in ms"
        ),
    ),
)
_CLIENT = pa.struct(
    [pa.field("client_id", pa.string()), pa.field("principal", pa.string()), pa.field("match", pa.string())]
)
TABLE = Table(
    "rejected_requests",
    "A row for each broker, address, API and version of requests that the broker refused, by its server log. "
    "That a row is absent proves nothing: a client that begins with ApiVersions sees that the broker lacks its "
    "version, and gives up without a refused request.",
    ("cluster", "cluster_id", "broker_id", "address", "api", "version"),
    (
        *WHERE,
        Column("broker_id", pa.int32(), "the broker, by the name of its folder"),
        Column("address", pa.string(), "address of the clients"),
        Column("api", pa.string(), "name of the API"),
        Column("version", pa.int32(), "version of the requests; -1: not known"),
        Column("connections", pa.int64(), "connections that were closed because of it"),
        Column("first_ts", TIME, "the first time; null: no line has a time"),
        Column("last_ts", TIME, "the last time"),
        Column(
            "clients",
            pa.list_(_CLIENT),
            "clients that sent them: one that request logs show alone on the connection (`Connection`); for the other "
            "connections those that may have: all at this address with this version (`SameAddressAndVersion`), else "
            "all at this address (`SameAddress`)",
        ),
    ),
)


def latest(requests: Iterable[RefusedRequest]) -> list[RefusedRequest]:
    """One request of each connection, in the order of time; the last `MAX_CONNECTIONS` if there are more."""
    by_connection: dict[str, RefusedRequest] = {}
    for request in requests:
        by_connection.setdefault(request.connection, request)
        if len(by_connection) > 2 * MAX_CONNECTIONS:
            by_connection = {request.connection: request for request in _last(by_connection)}
    return _last(by_connection)


def _last(by_connection: Mapping[str, RefusedRequest]) -> list[RefusedRequest]:
    in_order = sorted(by_connection.values(), key=lambda request: (request.time or 0, request.connection))
    return in_order[-MAX_CONNECTIONS:]


def refused_rows(cluster: str, broker: int, refused: Iterable[RefusedRequest], users: Users) -> pa.Table:
    """The rows of `REFUSED` for these requests, each of another connection."""
    return REFUSED.of(
        {
            "cluster": cluster, "broker_id": broker, "connection": request.connection, "address": request.address,
            "api": request.api, "version": request.version, "ts": request.time,
            "clients": [
                {
                    "client_id": client.client_id, "principal": client.principal, "software": client.software,
                    "first": first, "last": last,
                }
                for client, (first, last) in users.get(request.connection, {}).items()
            ],
        }
        for request in refused
    )  # fmt: skip


def refused_of(rows: pa.Table) -> Iterator[RefusedRequest]:
    """The requests from which rows of `REFUSED` were made."""
    for row in in_ms(rows).to_pylist():
        yield RefusedRequest(row["connection"], row["address"], row["api"], row["version"], row["ts"])


def users_of(rows: pa.Table) -> dict[str, dict[SeenClient, tuple[int, int]]]:
    """The clients in rows of `REFUSED`."""
    return {
        row["connection"]: {
            SeenClient(each["client_id"], each["principal"], each["software"]): (each["first"], each["last"])
            for each in row["clients"] or ()
        }
        for row in rows.select(["connection", "clients"]).to_pylist()
    }


def with_seen(users: Users, seen: Seen) -> dict[str, dict[SeenClient, tuple[int, int]]]:
    """The clients on each connection, together with those that a search has seen."""
    result = {connection: dict(clients) for connection, clients in users.items()}
    for clients in seen.values():
        for client, sightings in clients.items():
            for connection, (first, last) in sightings.times.items():
                of_connection = result.setdefault(connection, {})
                earlier_first, earlier_last = of_connection.get(client, (first, last))
                of_connection[client] = min(first, earlier_first), max(last, earlier_last)
    return result


def rows(refused: Mapping[int, pa.Table], uses: Iterable[LoggedUse]) -> Iterator[Row]:
    """The rows of one cluster. refused: rows of `REFUSED`, by broker."""
    counted = {broker: RejectedRequests() for broker in refused}
    for broker, connections in refused.items():
        counted[broker].add(refused_of(connections))
    addresses = {address for requests in counted.values() for address in requests.addresses}
    sightings_of: dict[str, dict[SeenClient, Sightings]] = {}
    for use in uses:
        if use.address in addresses and use.client_id is not None:
            client = SeenClient(use.client_id, use.principal or "", use.software)
            sightings = sightings_of.setdefault(use.address, {}).setdefault(client, Sightings({}, set()))
            sightings.uses.add((use.name, use.version))
    for connections in refused.values():
        address_of = dict(zip(*(connections[name].to_pylist() for name in ("connection", "address")), strict=True))
        for connection, clients in users_of(connections).items():
            for client, times in clients.items():
                at_address = sightings_of.setdefault(address_of[connection], {})
                at_address.setdefault(client, Sightings({}, set())).times[connection] = times
    for broker, requests in counted.items():
        for rejected in requests.uses(sightings_of):
            yield {
                "broker_id": broker, "address": rejected.address, "api": rejected.api,
                "version": rejected.version, "connections": rejected.connections, "first_ts": rejected.first,
                "last_ts": rejected.last,
                "clients": [
                    {"client_id": match.client.client_id, "principal": match.client.principal, "match": match.kind}
                    for match in rejected.clients
                ],
            }  # fmt: skip
