"""Shows the verdict of `clients check`, to people and to programs. Called by the commands and pages about clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kafkafeatures.api.names import API_VERSION
from kafkafeatures.api.records import Json
from kafkafeatures.cli.log.words import show_table
from kafkafeatures.core.clients.coverage import EvidenceGap, GapCause
from kafkafeatures.core.clients.exporters import MARK
from kafkafeatures.core.clients.targets import ALIASES, ApiVersions, Targets
from kafkafeatures.core.clients.verdict import ApiUse, ClientCheck, ClientVerdict, UseKind
from kafkafeatures.core.words import counted, first_of, format_span, format_time

if TYPE_CHECKING:
    from rich.console import Console


_DAY = 86_400_000
_BROKERS_SHOWN = 10
_CAUSES = {
    GapCause.NO_EVIDENCE: "no scrape of it that can be used; if it no longer exists, unregister it",
    GapCause.CONTRADICTION: "its scrapes contradict each other, and one of them has to be removed",
    GapCause.BEFORE_START: "before its process started, or the first scrape",
    GapCause.RESTART: "between the last scrape of a process and the start of the next one",
    GapCause.MAY_REFUSE: "its process may be of Kafka 4.x, which refuses removed versions without counting them; "
    f"if it is older, export {MARK}, which shows that, or kafka.server:type=SessionExpireListener if it uses ZooKeeper",
    GapCause.STALE: "since the last scrape with other counts than the one before; scrape it again, after a request "
    "such as that of kafka-broker-api-versions.sh if nothing uses it, or unregister it if it no longer exists",
}
COLUMNS = ("API", "accepted", "a day", "after (UTC)", "until (UTC)", "brokers")
HEADINGS = {
    UseKind.REMOVED: "Used, and removed in Kafka {}",
    UseKind.MAYBE_BEFORE: "Used before or since the begin of the window, and removed in Kafka {}; scrape again later",
    UseKind.NEWER: "Used, and newer than Kafka {}",
    UseKind.UNKNOWN_API: "Used, and not an API of Apache Kafka as this version knows it; if it is the vendor's own, "
    "ask the vendor",
}


def draw(
    screen: Console, check: ClientCheck, targets: Targets, notes: Sequence[str], *, source: str, is_past: bool
) -> None:
    """Draw the headline, the versions in use that are not accepted, the gaps, and the earliest time. `source`,
    `is_past`: see `scope` and `headline`.
    """
    from rich.text import Text

    from kafkafeatures.cli.shell.indented import heading, item, line

    line(screen, Text(headline(check, is_past=is_past), "bold"))
    line(screen, Text(scope(check, source)))
    if not check.is_known_release:
        first, *_, last = targets.releases
        item(
            screen, Text(f"release {check.release} is not known to this version; expected {first} to {last}", "yellow")
        )
    for note in notes:
        item(screen, Text(note, "yellow"))
    for kind, title in HEADINGS.items():
        if rows := [row(use, check, targets) for use in check.uses if use.kind is kind]:
            heading(screen, title.format(check.release))
            show_table(screen, [column.upper() for column in COLUMNS], rows)
    lines = list(gap_lines(check))
    if lines:
        heading(screen, "Gaps")
        for text in lines:
            item(screen, Text(text, "yellow"))
    if check.verdict is not ClientVerdict.READY and check.ready_from is not None:
        screen.print()
        line(screen, Text(earliest(check, check.ready_from)))


def headline(check: ClientCheck, *, is_past: bool) -> str:
    """The verdict as a sentence. `is_past`: there is evidence of a later time, so the sentence names its date."""
    texts = {
        ClientVerdict.READY: f"no client used an API version that Kafka {check.release} lacks",
        ClientVerdict.BLOCKED: f"clients use API versions that Kafka {check.release} lacks",
        ClientVerdict.UNKNOWN: f"the evidence does not show whether clients break with Kafka {check.release}",
    }
    date = f" at {format_minute(check.window.end)} UTC" if is_past else ""
    return f"{check.verdict}{date}: {texts[check.verdict]}"


def scope(check: ClientCheck, source: str) -> str:
    """The window, and how many brokers are covered. `source`: words for the evidence and its cluster."""
    days = format_span(timedelta(milliseconds=check.window.length))
    text = f"{format_minute(check.window.begin)} to {format_minute(check.window.end)} UTC ({days})"
    if check.brokers is not None:
        covered = sum(not broker.gaps for broker in check.brokers)
        text = f"{text}; {covered} of {counted(len(check.brokers), 'broker')} covered"
    return f"{text}; {source}"


def row(use: ApiUse, check: ClientCheck, targets: Targets) -> tuple[str, ...]:
    """The cells of a use, as `COLUMNS` has them."""
    accepted = _accepted(use, check, targets)
    span = "none" if accepted is None else f"{accepted.min}-{accepted.max}"
    times = (format_minute(use.after), format_minute(use.until))
    return f"{use.name} v{use.version}", span, f"{_per_day(use):,}", *times, first_of(use.brokers, _BROKERS_SHOWN)


def _accepted(use: ApiUse, check: ClientCheck, targets: Targets) -> ApiVersions | None:
    return (targets.of(check.release) or {}).get(ALIASES.get(use.name, use.name))


def _per_day(use: ApiUse) -> int:
    """Requests a day, rounded up, over the time in which they were counted; a shorter time counts as a day."""
    return -(-use.requests * _DAY // max(use.until - use.after, _DAY))


def gap_lines(check: ClientCheck) -> Iterator[str]:
    """A line for each gap; brokers with equal gaps share one."""
    by_gap: dict[tuple[GapCause, str, int, int], list[int]] = {}
    for broker in check.brokers or ():
        for gap in broker.gaps:
            # To the minute: brokers of one roll have gaps that differ by less.
            key = (gap.cause, gap.detail, gap.begin // 60_000, gap.end // 60_000)
            by_gap.setdefault(key, []).append(broker.broker)
    for (cause, detail, begin, end), brokers in by_gap.items():
        span = format_span(timedelta(minutes=end - begin))
        times = f"{format_minute(begin * 60_000)} to {format_minute(end * 60_000)} UTC ({span})"
        title = "broker" if len(brokers) == 1 else "brokers"
        yield f"{title} {first_of(brokers, _BROKERS_SHOWN)}: {times}: {_CAUSES[cause]}" + (
            f": {detail}" if detail else ""
        )


def earliest(check: ClientCheck, ready_from: int) -> str:
    """Sentence about the earliest time at which the verdict can be Ready."""
    if ready_from <= check.window.end:
        return "It can be ready as soon as the gaps are closed, if the processes of the brokers have run long enough."
    return (
        f"It can be ready from {format_minute(ready_from)} UTC at the earliest, if no such version is used until then."
    )


def format_minute(milliseconds: int) -> str:
    """A time in UTC to the minute."""
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):  # before the year 1, or after 9999
        return str(milliseconds)


def verdict_document(
    check: ClientCheck,
    targets: Targets,
    *,
    source: str,
    cluster: str,
    cluster_id: str,
    refused: Sequence[str],
    notes: Sequence[str],
) -> Json:
    """The document of `clients check -o json`. `source`: the URL or the path of the evidence."""
    brokers = None
    if check.brokers is not None:
        brokers = [
            {"id": broker.broker, "covered": not broker.gaps, "gaps": [_gap(gap) for gap in broker.gaps]}
            for broker in check.brokers
        ]
    return {
        "apiVersion": API_VERSION,
        "kind": "ClientCheck",
        "source": source,
        "cluster": cluster or None,
        "clusterId": cluster_id or None,
        "release": check.release,
        "isKnownRelease": check.is_known_release,
        "verdict": check.verdict.value,
        "window": {"from": format_time(check.window.begin), "to": format_time(check.window.end)},
        "uses": [_use(use, check, targets) for use in check.uses],
        "brokers": brokers,
        "readyFrom": None if check.ready_from is None else format_time(check.ready_from),
        "notRead": list(refused),
        "notes": list(notes),
    }


def _gap(gap: EvidenceGap) -> Json:
    return {
        "from": format_time(gap.begin),
        "to": format_time(gap.end),
        "cause": gap.cause.value,
        "detail": gap.detail or None,
    }


def _use(use: ApiUse, check: ClientCheck, targets: Targets) -> Json:
    accepted = _accepted(use, check, targets)
    return {
        "kind": use.kind.value,
        "api": use.name,
        "version": use.version,
        "accepted": None if accepted is None else {"min": accepted.min, "max": accepted.max},
        "brokers": list(use.brokers),
        "requests": use.requests,
        "requestsPerDay": _per_day(use),
        "after": format_time(use.after),
        "until": format_time(use.until),
    }
