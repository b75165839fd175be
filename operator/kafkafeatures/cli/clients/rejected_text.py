"""Refused requests for people and for programs. Called by `rejected.py`."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from kafkafeatures.api.names import API_VERSION
from kafkafeatures.cli.clients.verdict_table import neutral
from kafkafeatures.cli.log.words import show_table
from kafkafeatures.core.clients.rejections import ClientMatch, JoinKind, RejectedUse
from kafkafeatures.core.words import counted, printable

if TYPE_CHECKING:
    from rich.console import Console

COLUMNS = ("address", "API", "connections", "first", "last")
CSV_COLUMNS = (
    "address", "api", "version", "connections", "first", "last", "client_id", "principal", "software", "join",
    "connections_of_client",
)  # fmt: skip
NONE = "No refused request is in these logs"
PROVES_NOTHING = (
    "This proves nothing: a client that first asks the broker for its versions may stop by itself, which is logged "
    "nowhere, and a log may have been rotated."
)
HINT = "--request-logs FILE... names the clients: the brokers' request logs at DEBUG, or from before the upgrade."
TIMES = "Times are in the time zone of the logs."
_SHOWN = 5
"""Clients that are shown of each address, API and version."""
HEADINGS = {
    JoinKind.CONNECTION: "Clients, by their connections",
    JoinKind.SAME_VERSION: "Guesses: clients at the same address that have sent this version",
    JoinKind.ADDRESS: "Guesses: clients at the same address",
}


def draw(screen: Console, uses: Sequence[RejectedUse], *, is_joined: bool) -> None:
    """Draw a headline and a row for each address, API and version. `is_joined`: request logs were read too, which name
    the clients.
    """
    from rich.text import Text

    from kafkafeatures.cli.shell.indented import item, line

    if not uses:
        line(screen, Text(NONE, "bold"))
        line(screen, Text(PROVES_NOTHING))
        return
    total = counted(sum(use.connections for use in uses), "connection")
    line(screen, Text(f"Brokers closed {total} of clients for an API version that they do not have", "bold"))
    line(screen, Text(TIMES))
    screen.print()
    show_table(screen, [column.upper() for column in COLUMNS], [_row(use) for use in uses])
    for kind, heading in HEADINGS.items():
        if lines := [text for use in uses if (text := _clients(use, kind))]:
            screen.print()
            line(screen, Text(heading, "bold"))
            for text in lines:
                item(screen, Text(text))
    if not is_joined:
        screen.print()
        line(screen, Text(HINT))


def _row(use: RejectedUse) -> tuple[str, ...]:
    return use.address, _api(use), f"{use.connections:,}", _second(use.first), _second(use.last)


def _api(use: RejectedUse) -> str:
    return use.api if use.version < 0 else f"{use.api} v{use.version}"


def _clients(use: RejectedUse, kind: JoinKind) -> str:
    """The clients of this kind of join, on one line; empty where there are none."""
    matches = [match for match in use.clients if match.kind is kind]
    if not matches:
        return ""
    omitted = len(matches) - _SHOWN
    texts = [_client(match, use) for match in matches[:_SHOWN]] + ([f"and {omitted} more"] if omitted > 0 else [])
    return f"{use.address} {_api(use)}: {'; '.join(texts)}"


def _client(match: ClientMatch, use: RejectedUse) -> str:
    client = match.client
    words = [printable(client.client_id) or "no client id", f"as {printable(client.principal)}"]
    words += [f"({printable(client.software)})"] if client.software else []
    words += [f"on {match.connections} of {counted(use.connections, 'connection')}"] if match.connections else []
    return " ".join(words)


def _second(milliseconds: int | None) -> str:
    return (_time(milliseconds) or "not known").replace("T", " ")[:19]


def _time(milliseconds: int | None) -> str | None:
    """A time without a time zone: the log has none."""
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")


def rejections_document(uses: Sequence[RejectedUse], problems: Sequence[str]) -> dict[str, Any]:
    """The document of `clients rejected -o json`."""
    return {
        "apiVersion": API_VERSION,
        "kind": "RejectedRequests",
        "rejected": [_use(use) for use in uses],
        "notRead": list(problems),
        "notes": [] if uses else [f"{NONE}. {PROVES_NOTHING}"],
    }


def _use(use: RejectedUse) -> dict[str, Any]:
    return {
        "address": use.address,
        "api": use.api,
        "version": None if use.version < 0 else use.version,
        "connections": use.connections,
        "first": _time(use.first),
        "last": _time(use.last),
        "clients": [
            {
                "clientId": match.client.client_id,
                "principal": match.client.principal,
                "software": match.client.software or None,
                "join": match.kind.value,
                "isGuess": match.kind is not JoinKind.CONNECTION,
                "connections": match.connections,
            }
            for match in use.clients
        ],
    }


def write_csv(uses: Sequence[RejectedUse], stream: TextIO) -> None:
    """Write a row for each client of an address, API and version; one row without a client if none is known."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    writer.writerows([neutral(value) for value in row] for row in _csv_rows(uses))


def _csv_rows(uses: Sequence[RejectedUse]) -> Iterator[tuple[object, ...]]:
    for use in uses:
        version = "" if use.version < 0 else use.version
        head = (use.address, use.api, version, use.connections, _time(use.first) or "", _time(use.last) or "")
        if not use.clients:
            yield (*head, "", "", "", "", "")
        for match in use.clients:
            client = match.client
            yield (*head, client.client_id, client.principal, client.software, match.kind.value, match.connections)
