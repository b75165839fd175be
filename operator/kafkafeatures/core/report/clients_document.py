"""Report of evidence about clients: the condition ClientsCompatible, and `status.clients`.

Pure. Called by `core/report/status.py`. Evidence is read every few minutes, but a resource of which nothing changes
must cause no write. So figures that change with each reading, such as numbers of requests, are written only together
with another change, or else once a day.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from kafkafeatures.api.client_status import ClientBlocker, ClientGap, ClientSender, ClientsStatus
from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.records import Stamp, stamp
from kafkafeatures.api.status import Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.clients.reading import ClientsReading
from kafkafeatures.core.clients.senders import Sender
from kafkafeatures.core.clients.verdict import ApiUse, ClientCheck, ClientVerdict
from kafkafeatures.core.engine.desired_state import ClientRequirements
from kafkafeatures.core.engine.stage import Conditions
from kafkafeatures.core.facts.client_standing import ClientsStanding, standing_of
from kafkafeatures.core.facts.node_sets import set_of
from kafkafeatures.core.facts.observation import Known, Observation
from kafkafeatures.core.words import cut

MOST_GAPS = 10
"""Most gaps in the status, one for each broker."""
MOST_BLOCKERS = 20
"""Most API versions in the status that block the release."""
MOST_SENDERS = 20
"""Most senders in the status."""
MOST_PROBLEMS = 10
"""Most lines in the status about evidence that was not used."""
MOST_NAME = 120
"""Most bytes of a name in the status; a client id may have 32 KiB."""
MOST_ITEMS = 100
"""Most characters of a list in one entry, such as ids of brokers."""
_DAY = 86_400_000
"""A day in ms."""
_VERDICTS = {  # any other reason: Unknown
    Reason.NO_BLOCKING_CLIENTS: ClientVerdict.READY,
    Reason.BLOCKING_CLIENTS: ClientVerdict.BLOCKED,
}
_STATUSES = {ClientVerdict.READY: "True", ClientVerdict.BLOCKED: "False", ClientVerdict.UNKNOWN: "Unknown"}


def clients_reported(
    required: ClientRequirements | None, observation: Observation, previous: Status, now: datetime
) -> tuple[Conditions, ClientsStatus | None]:
    """The condition and the section of the status; neither where the document asks for no evidence."""
    if required is None:
        return {}, None
    standing = standing_of(observation, required.release, required.window)
    verdict = _VERDICTS.get(standing.reason, ClientVerdict.UNKNOWN)
    text = f"{standing.message}; {standing.remedy}" if standing.remedy else standing.message
    section = _section(required.release, verdict, standing, now)
    if standing.check is not None and isinstance(observation.clients, Known):
        section = _with_senders(section, observation.clients.value)
    return {Condition.CLIENTS_COMPATIBLE: (_STATUSES[verdict], standing.reason, text)}, _without_needless_change(
        section, previous.clients
    )


def clients_unread(previous: Status) -> Conditions:
    """The condition while the cluster cannot be read: it is not known which brokers evidence has to cover."""
    if previous.condition(Condition.CLIENTS_COMPATIBLE) is None:
        return {}
    return {Condition.CLIENTS_COMPATIBLE: ("Unknown", Reason.EVIDENCE_STALE, "the cluster could not be read")}


def _section(target: str, verdict: ClientVerdict, standing: ClientsStanding, now: datetime) -> ClientsStatus:
    """The section as it would be written now. Its times are made of whole days (UTC), so that they change once a day;
    `valid_until` is one hour after the end of today.
    """
    check = standing.check
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    section = ClientsStatus(
        target=target,
        verdict=verdict.value,
        evaluated_at=stamp(midnight),
        valid_until=stamp(midnight + timedelta(days=1, hours=1)),
    )
    if check is None:
        return section
    breaking = check.breaking()
    later = check.ready_from is not None and check.ready_from > check.window.end
    return replace(
        section,
        ready_from=_day_after(check.ready_from) if later and check.ready_from is not None else None,
        gaps=tuple(_gaps(check))[:MOST_GAPS],
        blockers=tuple(_blocker(use, check) for use in breaking[:MOST_BLOCKERS]),
        blocker_count=len(breaking),
    )


def _with_senders(section: ClientsStatus, reading: ClientsReading) -> ClientsStatus:
    """The section with what the reading shows besides the verdict."""
    return replace(
        section,
        senders=tuple(_sender(sender) for sender in reading.senders[:MOST_SENDERS]),
        problems=_problems(reading.problems),
    )


def _problems(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The first lines, and the number of the others in the last one."""
    if len(lines) <= MOST_PROBLEMS:
        return lines
    shown = lines[: MOST_PROBLEMS - 1]
    return (*shown, f"and {len(lines) - len(shown)} more that were not used")


def _sender(sender: Sender) -> ClientSender:
    """A sender with its names cut, as they are foreign text."""
    return ClientSender(
        client_id=cut(sender.client_id, MOST_NAME),
        principal=cut(sender.principal, MOST_NAME),
        versions=_shortened(", ".join(f"{api} v{version}" for api, version in sender.versions)),
        last_seen=_day(sender.last),
        owner=cut(sender.owner, MOST_NAME),
        remedy=sender.remedy,
    )


def _gaps(check: ClientCheck) -> Iterable[ClientGap]:
    """The longest gap of each broker."""
    for broker in check.brokers or ():
        if broker.gaps:
            gap = max(broker.gaps, key=lambda candidate: candidate.end - candidate.begin)
            yield ClientGap(broker=broker.broker, cause=gap.cause.value, since=_day(gap.begin), until=_day(gap.end))


def _blocker(use: ApiUse, check: ClientCheck) -> ClientBlocker:
    days = max(1.0, (use.until - use.after) / _DAY)  # at least one: a short use is no high rate
    return ClientBlocker(
        api=use.api_version.api,
        version=use.version,
        brokers=_shortened(set_of(use.brokers)),
        requests_per_day=round(use.requests / days),
        last_seen=_day(min(use.until, check.window.end)),
    )


def _shortened(items: str) -> str:
    """The items, cut between two of them."""
    return items if len(items) <= MOST_ITEMS else f"{items[:MOST_ITEMS].rpartition(', ')[0]}, ..."


def _day(milliseconds: int) -> Stamp:
    """Begin of the day of a time."""
    return stamp(datetime.fromtimestamp(max(0, milliseconds) // _DAY * _DAY / 1000, UTC))


def _day_after(milliseconds: int) -> Stamp:
    """First begin of a day that is not before a time."""
    return _day(milliseconds + _DAY - 1)


def _without_needless_change(section: ClientsStatus, previous: ClientsStatus | None) -> ClientsStatus:
    """The previous section if it has the same substance and is of the same day, so that nothing is written; else the
    new one.
    """
    if previous is None or previous.evaluated_at is None or section.evaluated_at is None:
        return section
    is_of_today = previous.evaluated_at[:10] == section.evaluated_at[:10]
    return previous if is_of_today and _substance(previous) == _substance(section) else section


def _substance(section: ClientsStatus) -> Mapping[str, object]:
    """Fields whose change is written at once: not numbers of requests, nor times of single uses and gaps."""
    return {
        "verdict": (section.target, section.verdict, section.ready_from, section.blocker_count),
        "gaps": [(gap.broker, gap.cause) for gap in section.gaps],
        "blockers": [(blocker.api, blocker.version, blocker.brokers) for blocker in section.blockers],
        # As a set: their order is by the number of requests.
        "senders": {
            (sender.client_id, sender.principal, sender.versions, sender.owner, sender.remedy)
            for sender in section.senders
        },
        "problems": section.problems,
    }
