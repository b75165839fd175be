"""Restarts for tests of pages: the Events and the status that the operator writes of them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from kafkafeatures.api.records import stamp
from kafkafeatures.api.status import HistoryEntry, Status, Via
from kafkafeatures.cli.kube.seen_events import SeenEvent, seen_event
from kafkafeatures.core.report.events import events_between
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from kafkafeatures.environment import Environment
from kafkafeatures.kube.events import event_of
from tests.kafkafeatures.statuses import resource
from tests.kafkafeatures.worlds import NOW

LATER = NOW + timedelta(minutes=3)
RESTART = RestartNode(3, "broker 3", "orders-3", "uid-3")
BY_HAND = RestartNode(4, "broker 4")


def event(before: Status, after: Status, at: datetime = NOW) -> list[SeenEvent]:
    """Events of a change of the status, written as the operator does, and read back as a command does."""
    environment = Environment(lambda: at)
    made = (
        event_of(one, resource().raw, environment=environment, instance="test") for one in events_between(before, after)
    )
    return [seen_event(json.loads(json.dumps(one))) for one in made]


def in_flight(step: RestartNode, at: datetime = NOW, **more: Any) -> Status:
    """The status while a restart is under way."""
    return Status(intents=(RestartInFlight(step, stamp(at), Via.API_SERVER, **more).to_intent(),))


def ended(step: RestartNode, at: datetime = LATER) -> Status:
    """The status after a restart has ended well."""
    return Status(
        history=(HistoryEntry(at=stamp(at), action=str(step), target=step.target, kind=step.kind, result="Applied"),)
    )
