"""Notifications that a status calls for, and how often each is delivered."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.since_status import NotifiedStatus, ReadyReason
from kafkafeatures.api.status import EMPTY, MigrationStatus, Status, StatusCondition, Via, read_status
from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.report.notifications import (
    MAX_NOTIFIED,
    REPEAT_AFTER,
    Notification,
    NotificationEvent,
    is_delivered,
    notifications_of,
    with_delivery,
)
from kafkafeatures.core.report.status import status_of_invalid, status_of_unreachable
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from tests.kafkafeatures import statuses
from tests.kafkafeatures.worlds import NOW

AT = stamp(NOW)
HALTED = NotificationEvent.HALTED


def read(status: dict[str, object]) -> Status:
    return read_status(status)[0]


def only(status: Status) -> Notification:
    (notification,) = notifications_of(status)
    return notification


def condition(kind: str, reason: str, message: str = "m", status: str = "True") -> StatusCondition:
    return StatusCondition(type=kind, status=status, last_transition_time=AT, reason=reason, message=message)


@pytest.mark.parametrize(
    "status",
    [{}, statuses.in_sync(), statuses.acting(), statuses.observed(), statuses.suspended()],
    ids=["new", "in sync", "acting", "observed", "suspended"],
)
def test_a_status_that_requires_nobody_calls_for_no_notification(status: dict[str, object]) -> None:
    assert notifications_of(read(status)) == ()


def test_a_plan_that_waits_is_told_with_its_hash_and_how_to_approve_it() -> None:
    status = read(statuses.waiting_for_approval())
    assert status.plan is not None
    notification = only(status)
    assert (notification.event, notification.subject) == ("ApprovalRequired", status.plan.hash)
    assert notification.message.startswith(f"approve plan {status.plan.hash[:15]}")


def test_a_plan_is_the_same_notification_after_an_approval_of_another_plan_and_while_kafka_is_away() -> None:
    status = read(statuses.waiting_for_approval())
    changed = replace(status, conditions=(condition("ApprovalRequired", "PlanChanged"),))
    away = read(statuses.unreachable(statuses.waiting_for_approval()))
    assert only(status).key == only(changed).key == only(away).key
    assert status.plan is not None
    other = replace(status, plan=replace(status.plan, hash="sha256:" + "b" * 64))
    assert only(other).key != only(status).key


def test_a_stalled_resource_is_told_with_the_reason_and_what_to_do() -> None:
    notification = only(read(statuses.stalled()))
    assert (notification.event, notification.reason) == ("Stalled", "GhostRegistration")
    assert "(ghost registration)" in notification.message
    assert "kafkafeatures unregister" in notification.message


def test_a_halt_at_another_node_is_another_notification() -> None:
    keys = set()
    for subject in ("broker 1", "broker 2", "broker 1"):
        halted = Status(
            conditions=(
                condition("Ready", "RolloutHalted", status="False"),
                condition("Stalled", "RolloutHalted", f"{subject} is not back"),
                condition("NodesRolled", "Halted", status="False"),
            ),
            ready_reason=ReadyReason(reason="RolloutHalted", subject=subject, since=AT),
        )
        assert only(halted).event is HALTED
        keys.add(only(halted).key)
    assert len(keys) == 2


@pytest.mark.parametrize("reason", ["Drifted", "WaitingForGit"])
def test_a_reason_that_the_owner_of_the_document_has_to_resolve_is_notified(reason: str) -> None:
    notification = only(Status(conditions=(condition("Ready", reason, status="False"),)))
    assert (notification.event, notification.since) == (reason, AT)


def test_a_cluster_that_cannot_be_reached_is_told_only_if_a_person_has_to_act() -> None:
    failures = {kind: Failure(kind, "kafka:9092", "m") for kind in (FailureKind.TLS, FailureKind.TIMED_OUT)}
    told = {
        kind: notifications_of(status_of_unreachable(failure, generation=1, previous=EMPTY, at=NOW))
        for kind, failure in failures.items()
    }
    assert told[FailureKind.TIMED_OUT] == ()
    assert [(one.event, one.reason) for one in told[FailureKind.TLS]] == [("Unreachable", "TlsFailed")]


def test_a_person_who_restarts_nodes_is_told_of_each_node() -> None:
    restarts = [
        RestartInFlight(
            RestartNode(number, f"broker {number}"), stamp(NOW + timedelta(minutes=number)), Via.PERSON
        ).to_intent()
        for number in (1, 2)
    ]
    rolled = condition("NodesRolled", "RestartRequested", "restart broker 2; 1 of 3 nodes are current", "False")
    first, second = (
        only(Status(conditions=(rolled,), intents=intents)) for intents in (tuple(restarts[:1]), tuple(restarts))
    )
    assert second.message == rolled.message
    assert first.key != second.key


def test_a_phase_of_a_migration_is_told_but_not_that_none_has_begun() -> None:
    assert notifications_of(Status(migration=MigrationStatus(phase="None", since=AT))) == ()
    notification = only(Status(migration=MigrationStatus(phase="DualWrite", since=AT, restarts_left=0)))
    assert (notification.event, notification.reason) == ("MigrationPhase", "DualWrite")
    assert notification.message == "no restart of a node is left"


def test_an_invalid_document_is_told() -> None:
    status = status_of_invalid(Reason.INVALID_SPEC, "spec.mode: x", generation=1, previous=EMPTY, at=NOW)
    assert (only(status).event, only(status).message) == ("Stalled", "spec.mode: x")


@pytest.mark.parametrize(
    ("since", "delivered", "now", "is_done"),
    [
        (0, 0, 0, True),  # in the same second
        (0, 5, 100_000, True),  # it lasts
        (10, 5, 20, True),  # it ended and came back within the hour
        (10, 5, 4000, False),  # it still lasts after the hour
        (10, 5, 3605, False),
        (10, 5, 3604, True),
    ],
)
def test_a_reason_that_comes_back_is_notified_again_at_most_once_an_hour(
    since: int, delivered: int, now: int, is_done: bool
) -> None:
    assert timedelta(seconds=3600) == REPEAT_AFTER
    moment = {name: NOW + timedelta(seconds=value) for name, value in (("s", since), ("d", delivered), ("n", now))}
    notification = Notification(HALTED, "RolloutHalted", "broker 1", "m", stamp(moment["s"]))
    notified = (NotifiedStatus(key=notification.key, at=stamp(moment["d"])),)
    assert is_delivered(notification, notified, moment["n"]) is is_done
    assert not is_delivered(notification, (), moment["n"])


def test_a_status_keeps_the_last_deliveries_and_those_of_what_lasts() -> None:
    notified: tuple[NotifiedStatus, ...] = ()
    for number in range(3 * MAX_NOTIFIED):
        notified = with_delivery(notified, f"k{number}", AT, {"k0", "k1"})
    assert [delivery.key for delivery in notified][:3] == ["k0", "k1", f"k{2 * MAX_NOTIFIED + 2}"]
    assert len(notified) == MAX_NOTIFIED
    assert with_delivery(notified, "k0", AT, {"k0"})[-1].key == "k0"
    assert len(with_delivery(notified, "k0", AT, {"k0"})) == MAX_NOTIFIED
