"""Notifications that a status calls for: what a person has to do, or a phase that a migration has reached.

Pure. Called by `notify/notifier.py` with the status after each reconciliation, and by `run` for the names of events.
What it decides: the status alone says what is due, never the difference between two statuses. So what was not delivered
is still due after a restart of the operator, and `status.notified` tells what was delivered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Self

from msgspec import Struct

from kafkafeatures.api.reasons import Condition, Phase, Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.since_status import NotifiedStatus
from kafkafeatures.api.status import Status, StatusCondition, Via
from kafkafeatures.core.kinds import sent_in
from kafkafeatures.core.report.migration_lines import forecast, modes_line

REPEAT_AFTER = timedelta(hours=1)
"""Time after a delivery within which the same is not told again, even if it ended and came back meanwhile: a fact that
cannot be read for a moment ends many a state.
"""
MAX_NOTIFIED = 16
"""Most deliveries that a status keeps. A status has fewer notifications at a time."""


class NotificationEvent(StrEnum):
    """Events that people can be notified of, each with its headline."""

    headline: str

    def __new__(cls, value: str, headline: str = "") -> Self:
        """Make a member from its row. The default is for mypy, which takes `NotificationEvent("Halted")` for this."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.headline = headline
        return member

    APPROVAL_REQUIRED = "ApprovalRequired", "a plan waits for approval"
    HALTED = "Halted", "the roll is halted"
    STALLED = "Stalled", "action required"
    DRIFTED = "Drifted", "drift detected"
    WAITING_FOR_GIT = "WaitingForGit", "a change in Git is required"
    RESTART_REQUESTED = "RestartRequested", "a node is to be restarted"
    UNREACHABLE = "Unreachable", "the operator cannot connect"
    MIGRATION_PHASE = "MigrationPhase", "the migration has reached its next phase"


class Notification(Struct, frozen=True):
    """A notification about one resource.

    reason: reason of the condition that it is about, or the phase of a migration.
    subject: hash of the plan, node, pod or other object that it is about; empty for the resource as a whole.
    message: message of the condition, with the first remedy of a blocker.
    since: since when it is so.
    """

    event: NotificationEvent
    reason: str
    subject: str
    message: str
    since: Stamp

    @property
    def key(self) -> str:
        """The reason with a digest of the subject: the same whenever the same occurs, in `status.notified`."""
        # The reason of ApprovalRequired changes while the same plan waits.
        name = self.event if self.event is NotificationEvent.APPROVAL_REQUIRED else self.reason
        return f"{name}-{sha256(self.subject.encode('utf-8', 'replace')).hexdigest()[:16]}"


def notifications_of(status: Status) -> tuple[Notification, ...]:
    """Notifications that this status calls for, whether or not they were delivered."""
    return (*_approval(status), *_ready(status), *_restart(status), *_phase(status))


def is_delivered(notification: Notification, notified: tuple[NotifiedStatus, ...], now: datetime) -> bool:
    """Tell whether a delivery counts for this notification: it was made since the notification is due, or less than
    `REPEAT_AFTER` ago.
    """
    delivery = next((delivery for delivery in notified if delivery.key == notification.key), None)
    if delivery is None:
        return False
    at = datetime.fromisoformat(delivery.at)
    return at >= datetime.fromisoformat(notification.since) or now - at < REPEAT_AFTER


def with_delivery(
    notified: tuple[NotifiedStatus, ...], key: str, at: Stamp, lasting: Collection[str]
) -> tuple[NotifiedStatus, ...]:
    """The deliveries with one more, the newest last. If there are too many, the oldest are dropped whose keys are not
    `lasting`: those of notifications that the status still calls for.
    """
    others = [delivery for delivery in notified if delivery.key != key]
    over = max(len(others) + 1 - MAX_NOTIFIED, 0)
    dropped = [delivery for delivery in others if delivery.key not in lasting][:over]
    return (*(delivery for delivery in others if delivery not in dropped), NotifiedStatus(key=key, at=at))


def _approval(status: Status) -> Iterator[Notification]:
    condition, plan = status.condition(Condition.APPROVAL_REQUIRED), status.plan
    if condition is not None:
        subject, since = (plan.hash, plan.created_at) if plan is not None else ("", condition.last_transition_time)
        yield _about(condition, NotificationEvent.APPROVAL_REQUIRED, subject, since)


def _ready(status: Status) -> Iterator[Notification]:
    """The notification of the reason of Ready, if action is required."""
    ready, stalled = status.condition(Condition.READY), status.condition(Condition.STALLED)
    if ready is None:
        return
    since = status.ready_reason
    subject, begin = (since.subject, since.since) if since is not None else ("", ready.last_transition_time)
    if stalled is not None:
        is_halted = status.reason(Condition.NODES_ROLLED) == Reason.HALTED
        event = NotificationEvent.HALTED if is_halted else NotificationEvent.STALLED
        yield _about(stalled, event, subject, begin, remedy=_remedy(status))
    elif ready.reason in _OF_READY:
        yield _about(ready, _OF_READY[ready.reason], subject, begin, remedy=_remedy(status))
    elif ready.reason == Reason.UNREACHABLE:
        reachable = status.condition(Condition.REACHABLE)
        if reachable is not None and any(reachable.reason == reason and reason.needs_action for reason in Reason):
            yield _about(reachable, NotificationEvent.UNREACHABLE, "", reachable.last_transition_time)


_OF_READY: Mapping[str, NotificationEvent] = {
    Reason.DRIFTED: NotificationEvent.DRIFTED,
    Reason.WAITING_FOR_GIT: NotificationEvent.WAITING_FOR_GIT,
}


def _restart(status: Status) -> Iterator[Notification]:
    """The notification of the node that a person was asked to restart last."""
    rolled = status.condition(Condition.NODES_ROLLED)
    if rolled is None or rolled.reason != Reason.RESTART_REQUESTED:
        return
    requests = [sent_step for sent_step in sent_in(status) if sent_step.via is Via.PERSON]
    if requests:
        last = max(requests, key=lambda sent_step: datetime.fromisoformat(sent_step.at))
        yield _about(rolled, NotificationEvent.RESTART_REQUESTED, last.step.target, last.at)


def _phase(status: Status) -> Iterator[Notification]:
    migration = status.migration
    if migration is None or migration.since is None or migration.phase in ("", Phase.NONE):
        return
    message = "; ".join(filter(None, (modes_line(migration), forecast(migration, status.rollout))))
    yield Notification(NotificationEvent.MIGRATION_PHASE, migration.phase, "", message, migration.since)


def _remedy(status: Status) -> str:
    return next((blocker.remedy for blocker in status.blockers if blocker.remedy), "")


def _about(
    condition: StatusCondition, event: NotificationEvent, subject: str, since: Stamp, *, remedy: str = ""
) -> Notification:
    """The notification of a condition. `remedy`: added unless the message has it."""
    message = condition.message
    text = f"{message}; {remedy}" if remedy and remedy not in message else message
    return Notification(event, condition.reason, subject, text, since)
