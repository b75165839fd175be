"""The check of clients as CSV, for spreadsheets: what clients use, and whether the release accepts it.

Pure. Called by `check.py` and `rejected_text.py`. Names come from clients: a cell that a spreadsheet would take as a
formula begins with an apostrophe.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from kafkafeatures.core.clients.senders import ClientOwner, LoggedUse, is_within, owner_of
from kafkafeatures.core.clients.targets import Apis, Targets
from kafkafeatures.core.clients.verdict import ClientCheck
from kafkafeatures.core.words import format_time, printable

LOG_COLUMNS = (
    "client_id", "principal", "addresses", "software", "api", "version", "on_release", "requests", "last", "brokers",
    "owner",
)  # fmt: skip
COUNTER_COLUMNS = ("api", "version", "on_release", "broker", "requests", "after", "until")
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # a cell that begins so is a formula to spreadsheets
_LONGEST = 1000  # characters of a cell
_UNKNOWN_RELEASE = "not known"  # in the column `on_release`, where the table of releases lacks the target


def logged_csv(check: ClientCheck, uses: Iterable[LoggedUse], targets: Targets, owners: Sequence[ClientOwner]) -> str:
    """A row for each client, API and version in the logs of the window."""
    by_client: dict[tuple[str, str, str, str, int], list[LoggedUse]] = {}
    for use in uses:
        if is_within(use, check.window):
            key = (use.client_id or "", use.principal or "", use.software, use.name, use.version)
            by_client.setdefault(key, []).append(use)
    return _csv(LOG_COLUMNS, _logged_rows(by_client, targets.of(check.release), targets, owners))


def _logged_rows(
    by_client: dict[tuple[str, str, str, str, int], list[LoggedUse]],
    target: Apis | None,
    targets: Targets,
    owners: Sequence[ClientOwner],
) -> Iterator[Sequence[object]]:
    for (client_id, principal, software, name, version), its_uses in sorted(by_client.items()):
        brokers = " ".join(map(str, sorted({use.broker for use in its_uses})))
        yield (
            client_id, principal, " ".join(sorted({use.address for use in its_uses if use.address})), software, name,
            version, _acceptance(target, targets, name, version), sum(use.requests for use in its_uses),
            format_time(max(use.last for use in its_uses)), brokers,
            owner_of(owners, client_id, principal),
        )  # fmt: skip


def counted_csv(check: ClientCheck, targets: Targets) -> str:
    """A row for each API and version that the release does not accept, with its brokers."""
    target = targets.of(check.release)
    rows = (
        (use.name, use.version, _acceptance(target, targets, use.name, use.version), " ".join(map(str, use.brokers)),
         use.requests, format_time(use.after), format_time(use.until))
        for use in check.uses
    )  # fmt: skip
    return _csv(COUNTER_COLUMNS, rows)


def _acceptance(target: Apis | None, targets: Targets, name: str, version: int) -> str:
    return _UNKNOWN_RELEASE if target is None else targets.acceptance(target, name, version).value


def _csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([neutral(cell) for cell in row] for row in rows)
    return text.getvalue()


def neutral(cell: object) -> str:
    """The cell as text that no spreadsheet calculates."""
    text = str(cell)
    shown = printable(text)[:_LONGEST]
    return f"'{shown}" if text.startswith(_FORMULAS) or shown.startswith(_FORMULAS) else shown
