"""Requests that brokers of Kafka 4.x refused, and the clients that they may be of. Pure.

Called by `cli/clients/rejected.py`, with what server logs and request logs have. It decides:

- The lines about one connection are one refusal: the broker closes the connection with it.
- A client is identified by its connection: a request log has seen it there, nobody else there, and nothing later than
  the refusal, or the name of the connection was used again.
- Clients that share the address alone are candidates, those that have sent the same version before the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

MAX_CONNECTIONS = 250_000
"""Connections that are told apart, the latest of them, at 0.5 kB each."""
MAX_USES = 20_000
"""Groups of address, API and version that are told apart; the others are one group for each API and version."""
OTHER_ADDRESSES = "other"
LOGGED_LATE = 60_000
"""Ms after the refusal at which an earlier request of the connection may be logged."""


class RefusedRequest(Struct, frozen=True):
    """A refused request. `api`: its name, or its key where the release has none; `version`: -1 if it is not told.
    `time`: in ms, in the time zone of the log; None where the line has none.
    """

    connection: str
    address: str
    api: str
    version: int
    time: int | None


class SeenClient(Struct, frozen=True):
    """A client as a broker names it. `software`: empty where the client does not tell it."""

    client_id: str
    principal: str
    software: str


@dataclass
class Sightings:
    """Traces of a client at an address. `times`: first and last on each connection in question, in ms as the log has
    them; `uses`: the versions that it sent, by the name of the API.
    """

    times: dict[str, tuple[int, int]]
    uses: set[tuple[str, int]]


Seen = Mapping[str, Mapping[SeenClient, Sightings]]
"""By address and client."""


class JoinKind(StrEnum):
    """How a client is joined with refused requests. Only the first identifies it."""

    CONNECTION = "Connection"
    SAME_VERSION = "SameAddressAndVersion"
    ADDRESS = "SameAddress"


class ClientMatch(Struct, frozen=True):
    """A client, and how it is joined. `connections`: those on which it was seen; 0 for a guess."""

    client: SeenClient
    kind: JoinKind
    connections: int = 0


class RejectedUse(Struct, frozen=True):
    """An API version that was refused at an address. `first`, `last`: in ms, None where no line has a time."""

    address: str
    api: str
    version: int
    connections: int
    first: int | None
    last: int | None
    clients: tuple[ClientMatch, ...]


@dataclass
class _Group:
    connections: int = 0
    first: int | None = None
    last: int | None = None


_Key = tuple[str, str, int]


class RejectedRequests:
    """Rejections by address, API and version."""

    def __init__(self) -> None:
        self._groups: dict[_Key, _Group] = {}
        self._connections: dict[str, tuple[_Key, int | None]] = {}
        """The group and the time of each connection."""

    def add(self, rejections: Iterable[RefusedRequest]) -> None:
        """Add those of a log. A connection that is there counts once."""
        for rejection in rejections:
            if rejection.connection not in self._connections:
                self._add(rejection)

    @property
    def addresses(self) -> set[str]:
        """Addresses of clients."""
        return {address for address, _, _ in self._groups} - {OTHER_ADDRESSES}

    @property
    def connections(self) -> set[str]:
        """Connections that are told apart."""
        return set(self._connections)

    def uses(self, seen: Seen) -> list[RejectedUse]:
        """Each group with the clients that it may be of, the most frequent one first."""
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
            del self._connections[next(iter(self._connections))]
        self._connections[rejection.connection] = (key, rejection.time)


def _matches(
    key: _Key,
    total: int,
    connections: Iterable[tuple[str, int | None]],
    clients: Mapping[SeenClient, Sightings],
) -> tuple[ClientMatch, ...]:
    """The clients that are identified, and if connections are left over, those that they may be of."""
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
    """The only client that was seen on this connection, up to its end."""
    candidates = [client for client, sightings in clients.items() if connection in sightings.times]
    if time is None or len(candidates) != 1:
        return None
    _, last = clients[candidates[0]].times[connection]
    return candidates[0] if last <= time + LOGGED_LATE else None
