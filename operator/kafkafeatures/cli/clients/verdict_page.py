"""The verdict of `clients check` as one HTML page: the versions in use, and a calendar of the window with its gaps.

Pure. Called by `check.py`. The words are those of `verdict_text.py`. What scrapes and logs hold is not trusted: it is
shown as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from kafkafeatures.cli.clients.clients_page import CLIENT_STYLE, clients_by_day
from kafkafeatures.cli.clients.senders_text import SENDER_COLUMNS, SENDERS_HEADING, proxy_notes, sender_row
from kafkafeatures.cli.clients.verdict_text import COLUMNS, HEADINGS, earliest, gap_lines, headline, row, scope
from kafkafeatures.cli.pages.roll import STYLE_OF_ROLLS
from kafkafeatures.cli.pages.timeline import Axis, Piece, legend, with_axis
from kafkafeatures.cli.shell.html_parts import Html, lines, table, text, time_in_log, whole_page
from kafkafeatures.core.clients.senders import LoggedUse, Sender
from kafkafeatures.core.clients.targets import Targets
from kafkafeatures.core.clients.verdict import BrokerCoverage, ClientCheck, ClientVerdict
from kafkafeatures.core.words import format_span

STYLE = STYLE_OF_ROLLS + Html("""
.track .covered, .key .covered { background: var(--good); height: 45%; }
.gap { background: repeating-linear-gradient(135deg, var(--bad) 0 5px, var(--box) 5px 7px); }
""")
_STYLES = {ClientVerdict.READY: "good", ClientVerdict.BLOCKED: "bad", ClientVerdict.UNKNOWN: "wait"}
_LEGEND = (("covered", "covered by evidence"), ("gap", "gap: nothing is known"))


def verdict_page(
    check: ClientCheck,
    targets: Targets,
    notes: Sequence[str],
    refused: Sequence[str],
    *,
    source: str,
    is_past: bool,
    senders: Sequence[Sender] = (),
    uses: Sequence[LoggedUse] = (),
) -> str:
    """The whole document. `refused`: a line for each file that was not read. `source`, `is_past`: see `scope` and
    `headline` of `verdict_text.py`.
    """
    title = f"Clients and Kafka {check.release}"
    sections = (
        Html("<h1>{}</h1>").format(text(title)),
        _summary(check, [scope(check, source), *notes], headline(check, is_past=is_past)),
        *_uses(check, targets),
        _senders(senders),
        clients_by_day(check, uses, targets),
        _calendar(check),
        Html("<h2>Not read</h2>\n<p>{}</p>").format(lines(refused)) if refused else Html(),
    )
    return whole_page(f"{title} - KafkaFeatures", sections, STYLE + CLIENT_STYLE)


def _summary(check: ClientCheck, sentences: list[str], title: str) -> Html:
    if check.verdict is not ClientVerdict.READY and check.ready_from is not None:
        sentences.append(earliest(check, check.ready_from))
    box = Html('<p class="box"><strong class="{}">{}</strong><br>{}</p>')
    return box.format(_STYLES[check.verdict], text(title), lines(sentences))


def _uses(check: ClientCheck, targets: Targets) -> Iterator[Html]:
    for kind, heading in HEADINGS.items():
        if rows := [row(use, check, targets) for use in check.uses if use.kind is kind]:
            title = heading.format(check.release)
            head = [column[0].upper() + column[1:] for column in COLUMNS]
            yield Html("<h2>{}</h2>\n{}").format(title, table("Times are bounds of the requests", head, rows))


def _senders(senders: Sequence[Sender]) -> Html:
    """Who sends the removed versions, by request logs."""
    if not senders:
        return Html()
    head = [column[0].upper() + column[1:] for column in SENDER_COLUMNS]
    rows = [sender_row(sender) for sender in senders]
    notes = Html("\n<p>{}</p>").format(lines(proxy_notes(senders))) if any(proxy_notes(senders)) else Html()
    return Html("<h2>{}</h2>\n{}{}").format(SENDERS_HEADING, table("By request logs", head, rows), notes)


def _calendar(check: ClientCheck) -> Html:
    """A track for each registered broker, and the gaps of all in words."""
    if not check.brokers:
        return Html()
    axis = Axis(time_in_log(check.window.begin), time_in_log(check.window.end))
    rows = [
        (f"broker {broker.broker}", axis.track(_pieces(broker, check)), _covered(broker, check))
        for broker in check.brokers
    ]
    picture = table("The window, broker by broker", ("Broker", "When", "Covered"), rows, "drawn")
    gaps = Html().join(Html("<li>{}</li>").format(text(line)) for line in gap_lines(check))
    drawing = Html("<h2>Coverage</h2>\n{}\n{}").format(with_axis(picture, axis), legend(_LEGEND))
    return drawing + Html("\n<h2>Gaps</h2>\n<ul>{}</ul>").format(gaps) if gaps else drawing


def _pieces(broker: BrokerCoverage, check: ClientCheck) -> Iterator[Piece]:
    covered_from = check.window.begin
    for gap in sorted(broker.gaps, key=lambda gap: gap.begin):
        if gap.begin > covered_from:
            yield "covered", time_in_log(covered_from), time_in_log(gap.begin)
        yield "gap", time_in_log(gap.begin), time_in_log(gap.end)
        covered_from = max(covered_from, gap.end)
    if covered_from < check.window.end:
        yield "covered", time_in_log(covered_from), time_in_log(check.window.end)


def _covered(broker: BrokerCoverage, check: ClientCheck) -> Html:
    """The sum of the covered times, in a style that keeps it on one line."""
    covered = sum((end - begin for style, begin, end in _pieces(broker, check) if style == "covered"), timedelta())
    return Html('<span class="whole">{}</span>').format(format_span(covered))
