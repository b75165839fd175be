"""Kubernetes Events of a change between two statuses: one for each occurrence, none for an unchanged status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp, stamp
from kafkafeatures.api.status import (
    EMPTY,
    HistoryEntry,
    MigrationStatus,
    PlanStatus,
    Result,
    RolloutStatus,
    Status,
    StatusCondition,
    Via,
)
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import DesiredState, Mode
from kafkafeatures.core.engine.event_records import MAX_NOTE, EventFacts
from kafkafeatures.core.engine.gates import Owner
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.engine.steps import DryRunAccepted, InFlight
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.levels.update_feature import ChangeInFlight, UpdateFeature
from kafkafeatures.core.report.events import events_between
from kafkafeatures.core.report.status import (
    status_of_failed_reconciliation,
    status_of_invalid,
    status_of_unreachable,
    status_of_wrong_cluster,
)
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from tests.kafkafeatures.deciding import decide, propose, status_of
from tests.kafkafeatures.worlds import NOW, OLD, SILENT, answer, node, observation

AT = stamp(NOW)
PLAN = PlanStatus(hash="sha256:" + "a" * 64, created_at=AT, irreversible=False, summary="share.version 0 -> 1")
PLANNED = Status(plan=PLAN)
APPROVED = Status(plan=replace(PLAN, approved_by="PlanHash"))


def status(**conditions: tuple[str, str]) -> Status:
    return Status(
        conditions=tuple(
            StatusCondition(type=kind, status="True", last_transition_time=AT, reason=reason, message=message)
            for kind, (reason, message) in conditions.items()
        )
    )


def ended(result: str, action: str = "f 0 -> 1", message: str = "") -> HistoryEntry:
    return HistoryEntry(at=AT, action=action, result=result, message=message)


def reasons(before: Status, after: Status) -> list[str]:
    return [event.reason for event in events_between(before, after)]


def test_an_unchanged_status_makes_no_event() -> None:
    same = replace(status(Stalled=("NodeRefused", "x")), plan=PLAN, history=(ended("Applied"),))
    assert reasons(same, same) == []


def test_a_plan_makes_one_event_when_computed_and_one_when_approved() -> None:
    assert reasons(EMPTY, PLANNED) == ["PlanComputed"]
    assert reasons(PLANNED, APPROVED) == ["PlanApproved"]
    assert reasons(EMPTY, APPROVED) == ["PlanComputed", "PlanApproved"]
    assert reasons(APPROVED, EMPTY) == []
    assert all(event.facts == EventFacts(plan=PLAN.hash) for event in events_between(EMPTY, APPROVED))


def test_a_level_change_that_succeeded_or_was_rejected_has_its_event_and_no_other_result_has_one() -> None:
    history = tuple(ended(result, f"f {n} -> 1", "why") for n, result in enumerate(Result))
    event_of_note = {event.note: event for event in events_between(EMPTY, Status(history=history))}
    assert [event.reason for event in event_of_note.values()] == [
        "FeatureUpdated",
        "DriftCorrected",
        "FeatureUpdateRejected",
    ]
    assert [event.warning for event in event_of_note.values()] == [False, False, True]
    assert all(": why" in note for note in event_of_note)


def test_an_entry_that_the_history_drops_makes_no_event() -> None:
    history = tuple(ended(result, f"f {n} -> 1") for n, result in enumerate(Result))
    assert reasons(Status(history=history), Status(history=history[1:])) == []


def test_a_repeated_rejection_makes_one_event() -> None:
    first = ended("Rejected", "f 0 -> 1", "why")
    an_hour_later = replace(first, at=Stamp("2026-01-02T04:04:05Z"))
    assert reasons(Status(history=(first,)), Status(history=(an_hour_later,))) == []
    assert reasons(Status(history=(first,)), Status(history=(replace(an_hour_later, message="no"),))) == [
        "FeatureUpdateRejected"
    ]


RESTART = RestartNode(3, "broker 3", "orders-3", "uid-3")
BY_HAND = RestartNode(3, "broker 3")


def in_flight(step: RestartNode | UpdateFeature, *, is_back: bool = False) -> Status:
    sent: InFlight = (
        RestartInFlight(step, AT, Via.API_SERVER, stable_since=AT if is_back else None)
        if isinstance(step, RestartNode)
        else ChangeInFlight(step, AT, Via.CONTROLLER)
    )
    return Status(intents=(sent.to_intent(),))


def test_a_restart_in_flight_makes_one_event() -> None:
    (event,) = events_between(EMPTY, in_flight(RESTART))
    assert (event.reason, event.note) == ("RestartingNode", "restarting broker 3: pod orders-3 is evicted")
    assert event.facts == EventFacts(kind="RestartNode", node="broker 3", node_id=3, pod="orders-3", begun_at=AT)
    assert reasons(in_flight(RESTART), in_flight(RESTART, is_back=True)) == []
    assert reasons(in_flight(RESTART), EMPTY) == []


def test_a_request_to_restart_a_node_by_hand_makes_one_event() -> None:
    (event,) = events_between(EMPTY, in_flight(BY_HAND))
    assert (event.reason, event.note, event.facts.pod) == ("RestartRequested", "restart broker 3", "")
    assert reasons(in_flight(BY_HAND), in_flight(BY_HAND, is_back=True)) == []


def test_each_withdrawn_request_to_a_person_makes_an_event_and_a_withdrawn_eviction_does_not() -> None:
    gone = replace(ended("NotApplied", "broker 3"), kind="RestartNode", target="broker 3", message="broker 5 is away")
    (event,) = events_between(EMPTY, Status(history=(gone,)))
    assert (event.reason, event.warning, event.facts.pod) == ("RestartWithdrawn", True, "")
    assert event.note == "do not restart broker 3: broker 5 is away"
    assert reasons(EMPTY, Status(history=(replace(gone, target="broker-3"),))) == []


def test_a_restarted_node_makes_a_node_event_and_no_feature_event() -> None:
    done = replace(ended("Applied", "broker 3 (orders-3)"), kind="RestartNode")
    assert [(event.reason, event.note) for event in events_between(EMPTY, Status(history=(done,)))] == [
        ("NodeRestarted", "broker 3 (orders-3)")
    ]
    assert reasons(EMPTY, Status(history=(replace(done, result="Superseded"),))) == []


def test_the_event_of_a_step_that_was_in_flight_has_its_facts() -> None:
    done = replace(ended("Applied", "broker 3 (orders-3)"), kind="RestartNode", target="orders-3")
    (event,) = events_between(in_flight(RESTART, is_back=True), Status(history=(done,)))
    restart = EventFacts(kind="RestartNode", node="broker 3", node_id=3, pod="orders-3", begun_at=AT, in_sync_at=AT)
    assert event.facts == restart
    (event,) = events_between(
        in_flight(UpdateFeature("f", 0, 1)), Status(history=(replace(ended("Applied"), target="f"),))
    )
    assert event.facts == EventFacts(kind="UpdateFeature", feature="f", before="0", after="1", begun_at=AT)
    assert event.facts.as_json() == {"kind": "UpdateFeature", "feature": "f", "from": "0", "to": "1", "begunAt": AT}


def test_the_event_of_a_step_that_was_not_observed_in_flight_has_fewer_facts() -> None:
    pod = replace(ended("Applied", "broker 3 (orders-3)"), kind="RestartNode", target="orders-3")
    person = replace(pod, action="broker 3", target="broker 3")
    level = replace(ended("Applied"), target="f")
    assert [event.facts for event in events_between(EMPTY, Status(history=(pod, person, level)))] == [
        EventFacts(kind="RestartNode", pod="orders-3"),
        EventFacts(kind="RestartNode", node="broker 3"),
        EventFacts(kind="UpdateFeature", feature="f"),
    ]


def test_a_rollout_makes_one_start_and_one_completion_event_for_each_image() -> None:
    def at(done: int, id_: str = "a") -> Status:
        return Status(rollout=RolloutStatus(id=id_, started_at=AT, total=3, done=done))

    assert reasons(EMPTY, at(0)) == ["RolloutStarted"]
    assert reasons(at(0), at(1)) == []
    assert reasons(at(1), at(1, "b")) == ["RolloutStarted"]
    assert reasons(at(2), at(3)) == ["RolloutCompleted"]
    assert reasons(at(3), at(3)) == []
    assert reasons(at(3), at(0)) == ["RolloutStarted"]


def test_two_equal_history_entries_make_two_events() -> None:
    once = ended("Applied")
    assert reasons(Status(history=(once,)), Status(history=(once, once))) == ["FeatureUpdated"]


def test_suspension_resumption_drift_and_each_stalled_reason_make_one_event() -> None:
    suspended, free = status(Ready=("Suspended", "suspended")), status(Ready=("UpdatingFeatures", "f 0 -> 1"))
    assert reasons(free, suspended) == ["Suspended"]
    assert reasons(suspended, suspended) == []
    assert reasons(suspended, free) == ["Resumed"]
    drift = status(DriftDetected=("LevelBehind", "was 1 and is 0"))
    assert reasons(free, drift) == ["DriftDetected"]
    ghost, more = (status(Stalled=("GhostRegistration", text)) for text in ("broker 2", "broker 2 (and 1 more)"))
    assert reasons(free, ghost) == ["GhostRegistration"]
    assert reasons(ghost, more) == []


SUSPENDED = DesiredState({"metadata.version": 27}, suspend=True)


def status_after_decision(
    wanted: DesiredState, observation: Observation, previous: Status | None = None, *, older: bool = False
) -> Status:
    proposal = propose(wanted, observation, Memory())
    owner = Owner("kafka/older", owns_cluster=True) if older else None
    decision = decide(wanted, observation, proposal=proposal, verdict=DryRunAccepted(), owner=owner)
    return status_of(
        decision, observation, proposal, generation=1, previous=previous or EMPTY, version="0.1.0", now=NOW
    )


def status_without_cluster_id(previous: Status) -> Status:
    decision = decide(SUSPENDED, observation(cluster_id=SILENT))
    return status_of_wrong_cluster(decision, generation=1, previous=previous, at=NOW)


@pytest.mark.parametrize(
    "after",
    [
        status_without_cluster_id,
        lambda before: status_after_decision(SUSPENDED, observation(levels={"metadata.version": 27}), before),
        lambda before: status_after_decision(SUSPENDED, observation(), before, older=True),
        lambda before: status_after_decision(replace(SUSPENDED, mode=Mode.OBSERVE), observation(), before),
        lambda before: status_of_invalid(Reason.INVALID_SPEC, "no", generation=2, previous=before, at=NOW),
        lambda before: status_of_unreachable(SILENT, generation=1, previous=before, at=NOW),
        lambda before: status_of_failed_reconciliation("a deadline", generation=1, previous=before, at=NOW),
    ],
    ids=["no cluster id", "raised by another client", "an older owner", "observed", "invalid", "unreachable", "failed"],
)
def test_a_suspended_resource_makes_no_resumed_event(after: Callable[[Status], Status]) -> None:
    before = status_after_decision(SUSPENDED, observation())
    assert "Resumed" not in reasons(before, after(before))
    assert "Resumed" not in reasons(after(before), before)


@pytest.mark.parametrize(
    ("wanted", "observation"),
    [
        (DesiredState({"metadata.version": 27}), observation()),
        (DesiredState({}, {"metadata.version": 27}), observation()),
        (DesiredState({"metadata.version": 20}), observation()),
        (DesiredState({"no.such": 1}), observation()),
        (DesiredState({"metadata.version": 27}), observation(node(3001), node(1, said=answer(OLD), written=OLD))),
    ],
    ids=["acts", "waits for approval", "needs a consent", "unknown feature", "waits for a node"],
)
def test_a_resumed_resource_makes_one_resumed_event_even_if_it_is_blocked(
    wanted: DesiredState, observation: Observation
) -> None:
    before = status_after_decision(replace(wanted, suspend=True), observation)
    after = status_after_decision(wanted, observation, before)
    assert reasons(before, after).count("Resumed") == 1
    assert "Resumed" not in reasons(after, after)


def test_the_note_of_an_event_fits_the_limit_of_the_api_server() -> None:
    (event,) = events_between(EMPTY, status(Stalled=("NodeRefused", "x" * 5000)))
    assert len(event.note) == MAX_NOTE


# --- phases of a migration ---


def migrating(phase: str, **fields: Any) -> Status:
    return Status(migration=MigrationStatus(phase=phase, **fields))


def test_each_migration_phase_that_is_entered_makes_an_event_with_its_state() -> None:
    (event,) = events_between(migrating("Migrating"), migrating("DualWrite", restarts_left=0, lag_records=2))
    assert (event.reason, event.action, event.warning) == ("MigrationPhaseChanged", "Migrate", False)
    assert event.note == "Migrating -> DualWrite; no restart of a node is left"
    assert event.facts == EventFacts(before="Migrating", after="DualWrite")


@pytest.mark.parametrize("phase", ["Finalizing", "Finalized"])
def test_a_migration_that_was_finalized_without_the_consent_makes_a_warning_event(phase: str) -> None:
    (event,) = events_between(migrating("DualWrite"), migrating(phase))
    assert event.warning
    assert "this was done outside KafkaFeatures, which has not used the consent zk-finalize" in event.note
    spent = replace(migrating("DualWrite"), spent_consents=("zk-finalize",))
    for before in (spent, migrating("Finalizing"), EMPTY):
        (event,) = events_between(before, migrating("Finalized"))
        assert (event.warning, "outside" in event.note) == (False, False)


def test_an_unchanged_migration_phase_makes_no_event() -> None:
    assert reasons(migrating("Migrating", lag_records=1), migrating("Migrating", lag_records=99)) == []


def test_an_unknown_migration_phase_makes_no_event() -> None:
    assert reasons(migrating("DualWrite"), EMPTY) == []


@pytest.mark.parametrize(("phase", "is_event"), [("None", False), ("DualWrite", True), ("Finalized", True)])
def test_the_first_observed_phase_makes_an_event_unless_no_migration_has_begun(phase: str, is_event: bool) -> None:
    for before in (EMPTY, migrating("")):
        assert reasons(before, migrating(phase)) == ["MigrationPhaseChanged"] * is_event
