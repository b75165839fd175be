"""Restarts as the operator tells of them in Events and in the status."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from kafkafeatures.api.records import stamp
from kafkafeatures.api.status import HistoryEntry, Status, Via
from kafkafeatures.core.engine.steps import InFlight
from kafkafeatures.core.report.events import events_between
from kafkafeatures.core.roll.restart_node import RestartNode
from tests.kafkafeatures.worlds import NOW

LATER = NOW + timedelta(minutes=3)
RESTART = RestartNode(3, "broker 3", "orders-3", "uid-3")
BY_HAND = RestartNode(4, "broker 4")


def event(before: Status, after: Status, at: datetime = NOW) -> list[dict[str, Any]]:
    """As the operator would tell them, and a report has them."""
    return [{"at": stamp(at), "reason": one.reason, "note": one.note} for one in events_between(before, after)]


def in_flight(step: RestartNode, at: datetime = NOW, **more: Any) -> Status:
    return Status(intents=(InFlight(step, stamp(at), Via.API_SERVER, **more).to_intent(),))


def ended(step: RestartNode, at: datetime = LATER) -> Status:
    return Status(
        history=(HistoryEntry(at=stamp(at), action=str(step), target=step.target, kind=step.kind, result="Applied"),)
    )
