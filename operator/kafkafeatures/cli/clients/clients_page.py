"""A part of the HTML page of `clients check`: for each client, the days on which request logs show it.

Pure. Called by `verdict_page.py`. A day is red if the client sent a removed version on it. Names come from clients, so
they are cut, and shown as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kafkafeatures.cli.clients.verdict_text import format_minute
from kafkafeatures.cli.pages.timeline import Axis, Piece, legend, with_axis
from kafkafeatures.cli.shell.html_parts import Html, table, text, time_in_log
from kafkafeatures.core.clients.senders import LoggedUse, is_within
from kafkafeatures.core.clients.targets import Acceptance, Targets
from kafkafeatures.core.clients.verdict import ClientCheck
from kafkafeatures.core.words import cut

CLIENT_STYLE = Html("""
.track .seen, .key .seen { background: var(--good); height: 45%; }
.track .removed, .key .removed { background: var(--bad); }
""")
_LEGEND = (("seen", "sent requests that the release accepts"), ("removed", "sent a removed version"))
_DAY = 86_400_000
_SHOWN = 200
"""Clients that are drawn at most: those that were seen last."""
_LONGEST = 120
"""Characters of a client id that are shown."""

_Days = Mapping[int, bool]
"""By the number of the day since 1970: True if a removed version was sent on it."""


def clients_by_day(check: ClientCheck, uses: Iterable[LoggedUse], targets: Targets) -> Html:
    """A heading, and a track for each client; nothing without logs."""
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
    return Html("<h2>Clients</h2>\n{}\n{}{}").format(with_axis(picture, axis), legend(_LEGEND), note)


def _by_client(
    check: ClientCheck, uses: Iterable[LoggedUse], targets: Targets
) -> Mapping[str, tuple[int, Mapping[int, bool]]]:
    """By client id: the time in ms at which it was seen last, and its days."""
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
    """A piece of the track for each day, cut at the ends of the window."""
    for day, is_removed in sorted(days.items()):
        begin, end = max(day * _DAY, check.window.begin), min((day + 1) * _DAY, check.window.end)
        if begin < end:
            yield "removed" if is_removed else "seen", time_in_log(begin), time_in_log(end)
