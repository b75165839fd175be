"""Clients by the days on which request logs show them, as a part of the page of `clients check`.

Pure. Called by `verdict_page.py`. A day has the colour of the worst that a client sent on it. Names come from clients:
they are cut, and shown as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kafkafeatures.cli.clients.verdict_text import format_minute
from kafkafeatures.cli.pages.html_parts import Html, table, text, time_in_log
from kafkafeatures.cli.pages.timeline import Axis, Piece, keys, with_axis
from kafkafeatures.core.clients.senders import LoggedUse, is_within
from kafkafeatures.core.clients.targets import Acceptance, Targets
from kafkafeatures.core.clients.verdict import ClientCheck
from kafkafeatures.core.words import cut

CLIENT_STYLE = Html("""
.track .seen, .key .seen { background: var(--good); height: 45%; }
.track .removed, .key .removed { background: var(--bad); }
""")
_KEYS = (("seen", "sent requests that the release accepts"), ("removed", "sent a removed version"))
_DAY = 86_400_000
_SHOWN = 200
"""Clients, those that were seen last first."""
_LONGEST = 120

_Days = Mapping[int, bool]
"""By the number of the day, true if a removed version was sent."""


def clients_by_day(check: ClientCheck, uses: Iterable[LoggedUse], targets: Targets) -> Html:
    """A track for each client; empty without logs."""
    by_client = _by_client(check, uses, targets)
    if not by_client:
        return Html()
    axis = Axis(time_in_log(check.window.begin), time_in_log(check.window.end))
    latest = sorted(by_client.items(), key=lambda item: (-item[1][0], item[0]))
    rows = [
        (cut(client, _LONGEST) or "-", axis.track(_pieces(days, check)), format_minute(last))
        for client, (last, days) in latest[:_SHOWN]
    ]
    picture = table("By request logs, day by day", ("Client id", "When", "Last (UTC)"), rows, "drawn")
    omitted = len(latest) - len(rows)
    note = Html("\n<p>{}</p>").format(text(f"and {omitted} more: see -o csv")) if omitted else Html()
    return Html("<h2>Clients</h2>\n{}\n{}{}").format(with_axis(picture, axis), keys(_KEYS), note)


def _by_client(
    check: ClientCheck, uses: Iterable[LoggedUse], targets: Targets
) -> Mapping[str, tuple[int, Mapping[int, bool]]]:
    """The time at which each client was seen last, and its days."""
    target = targets.of(check.release)
    by_client: dict[str, tuple[int, dict[int, bool]]] = {}
    for use in uses:
        if use.client_id is None or not is_within(use, check.window):
            continue
        last, days = by_client.setdefault(use.client_id, (0, {}))
        is_removed = target is not None and targets.acceptance(target, use.name, use.version) is Acceptance.REMOVED
        day = use.last // _DAY
        days[day] = days.get(day, False) or is_removed
        by_client[use.client_id] = (max(last, use.last), days)
    return by_client


def _pieces(days: _Days, check: ClientCheck) -> Iterator[Piece]:
    for day, is_removed in sorted(days.items()):
        begin, end = max(day * _DAY, check.window.begin), min((day + 1) * _DAY, check.window.end)
        if begin < end:
            yield "removed" if is_removed else "seen", time_in_log(begin), time_in_log(end)
