"""Requests that brokers of Kafka 4.x refused, and the clients that may have sent them.

Pure. Refused requests come from server logs, the clients that were seen from request logs. It decides:

- All lines about one connection are one refusal, as the broker closes the connection with it.
- A connection identifies a client if a request log shows this client alone on it, and no request on it later than the
  refusal. A later request would mean that another connection got the same name (addresses and ports).
- Clients that were only seen at the same address are candidates; first those that have sent the same version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

MAX_CONNECTIONS = 250_000
"""Most connections that are remembered, the latest ones; each takes 0.5 kB of memory."""
MAX_USES = 20_000
"""Most groups of address, API and version; further ones are counted in one group for each API and version, with
`OTHER_ADDRESSES` as the address.
"""
OTHER_ADDRESSES = "other"
LOGGED_LATE = 60_000
"""Most ms after a refusal for which an earlier request of the connection may still be logged."""


class RefusedRequest(Struct, frozen=True):
    """A refused request, from a line of a server log.

    connection: name of the connection, by addresses and ports.
    address: address of the client.
    api: name of the API, or its key if the release has no name for it.
    version: version of the request; -1 if the line does not have it.
    time: in ms, in the time zone of the log; None if the line has none.
    """

    connection: str
    address: str
    api: str
    version: int
    time: int | None


class SeenClient(Struct, frozen=True):
    """A client as a request log names it. `software`: name and version that the client sends (KIP-511), or empty."""

    client_id: str
    principal: str
    software: str


@dataclass
class Sightings:
    """Requests of a client from one address, as request logs show them.

    times: by connection, for connections with a refusal: time of the first and of the last request, in ms as in the
        log.
    uses: API names and versions that it sent.
    """

    times: dict[str, tuple[int, int]]
    uses: set[tuple[str, int]]


Seen = Mapping[str, Mapping[SeenClient, Sightings]]
"""Requests that request logs show, by address and client."""


class JoinKind(StrEnum):
    """Evidence that a client sent refused requests, the best first. Only `CONNECTION` identifies it."""

    CONNECTION = "Connection"
    SAME_VERSION = "SameAddressAndVersion"
    ADDRESS = "SameAddress"


class ClientMatch(Struct, frozen=True):
    """A client that may have sent refused requests. `connections`: number of refusals by which it is identified; 0 if
    it is only a candidate.
    """

    client: SeenClient
    kind: JoinKind
    connections: int = 0


class RejectedUse(Struct, frozen=True):
    """An API version that was refused to clients at one address.

    connections: number of refusals, one for each connection.
    first, last: times of the first and the last refusal, in ms; None if no line has a time.
    clients: clients that may have sent it.
    """

    address: str
    api: str
    version: int
    connections: int
    first: int | None
    last: int | None
    clients: tuple[ClientMatch, ...]


@dataclass
class _Group:
    """Counts for one address, API and version, as in `RejectedUse`."""

    connections: int = 0
    first: int | None = None
    last: int | None = None


_Key = tuple[str, str, int]
"""Address, API and version."""


class RejectedRequests:
    """Refused requests of all logs, counted by address, API and version."""

    def __init__(self) -> None:
        self._groups: dict[_Key, _Group] = {}
        self._connections: dict[str, tuple[_Key, int | None]] = {}
        """Group and time of the refusal on each connection, in the order in which they were added."""

    def add(self, rejections: Iterable[RefusedRequest]) -> None:
        """Add the requests of one log. Further lines about a connection that was added before are ignored."""
        for rejection in rejections:
            if rejection.connection not in self._connections:
                self._add(rejection)

    @property
    def addresses(self) -> set[str]:
        """Addresses of clients to which something was refused."""
        return {address for address, _, _ in self._groups} - {OTHER_ADDRESSES}

    @property
    def connections(self) -> set[str]:
        """Names of the connections that are remembered."""
        return set(self._connections)

    def uses(self, seen: Seen) -> list[RejectedUse]:
        """Each group with the clients that may have sent its requests; groups with the most refusals first."""
        connections: dict[_Key, list[tuple[str, int | None]]] = {}
        for connection, (key, time) in self._connections.items():
            connections.setdefault(key, []).append((connection, time))
        uses = [
            RejectedUse(
                *key, group.connections, group.first, group.last,
                _matches(key, group.connections, connections.get(key, []), seen.get(key[0], {})),
            )
            for key, group in self._groups.items()
        ]  # fmt: skip
        return sorted(uses, key=lambda use: (-use.connections, use.address, use.api, use.version))

    def _add(self, rejection: RefusedRequest) -> None:
        key = (rejection.address, rejection.api, rejection.version)
        if key not in self._groups and len(self._groups) >= MAX_USES:
            key = (OTHER_ADDRESSES, rejection.api, rejection.version)
        group = self._groups.setdefault(key, _Group())
        group.connections += 1
        if rejection.time is not None:
            group.first = rejection.time if group.first is None else min(group.first, rejection.time)
            group.last = rejection.time if group.last is None else max(group.last, rejection.time)
        if len(self._connections) >= MAX_CONNECTIONS:
            del self._connections[next(iter(self._connections))]  # the oldest: a dict keeps the order of insertion
        self._connections[rejection.connection] = (key, rejection.time)


def _matches(
    key: _Key,
    total: int,
    connections: Iterable[tuple[str, int | None]],
    clients: Mapping[SeenClient, Sightings],
) -> tuple[ClientMatch, ...]:
    """Clients of one group: those that are identified, and if refusals remain, the candidates for these. `total`:
    number of refusals, also on connections that are no longer remembered.
    """
    _, api, version = key
    identified: dict[SeenClient, int] = {}
    for connection, time in connections:
        client = _identified(connection, time, clients)
        if client is not None:
            identified[client] = identified.get(client, 0) + 1
    matches = [ClientMatch(client, JoinKind.CONNECTION, count) for client, count in identified.items()]
    if sum(identified.values()) < total:
        users = [client for client, sightings in clients.items() if (api, version) in sightings.uses]
        kind = JoinKind.SAME_VERSION if users else JoinKind.ADDRESS
        matches += [ClientMatch(client, kind) for client in users or clients if client not in identified]
    order = list(JoinKind)
    return tuple(
        sorted(matches, key=lambda match: (order.index(match.kind), -match.connections, match.client.client_id))
    )


def _identified(connection: str, time: int | None, clients: Mapping[SeenClient, Sightings]) -> SeenClient | None:
    """The client of this connection, by the rule above; None if it is not certain. `time`: of the refusal."""
    candidates = [client for client, sightings in clients.items() if connection in sightings.times]
    if time is None or len(candidates) != 1:
        return None
    _, last = clients[candidates[0]].times[connection]
    return candidates[0] if last <= time + LOGGED_LATE else None
