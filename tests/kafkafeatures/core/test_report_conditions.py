"""Conditions of the status that stay while nothing new is read: approval, drift, finalized features."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.status import EMPTY, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Decision
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.gates import Owner
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.engine.steps import DryRunAccepted
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.report import status as report
from tests.kafkafeatures.core.test_report import (
    WANTED,
    conditions,
    status_of,
    status_of_failed_reconciliation,
    status_of_invalid,
    status_of_unreachable,
    status_of_wrong_cluster,
)
from tests.kafkafeatures.deciding import decide, propose
from tests.kafkafeatures.worlds import NEW, NOW, SILENT, answer, node, observation

# --- conditions of an earlier reconciliation ---


def waiting(previous: dict[str, Any], *, later: int = 0) -> dict[str, Any]:
    """Return a status whose plan waits for its approval."""
    wanted, observed = DesiredState({}, {"metadata.version": 27}), observation()
    proposal = propose(wanted, observed, Memory())
    decision = decide(wanted, observed, proposal=proposal, verdict=DryRunAccepted())
    return status_of(
        decision, observed, proposal,
        generation=1, previous=previous, version="0.1.0", now=NOW + timedelta(seconds=later),
    )  # fmt: skip


def drifted(previous: dict[str, Any], *, later: int = 0) -> dict[str, Any]:
    """Return a status with a level that was reached and then changed outside KafkaFeatures."""
    memory, observed = Memory(reached={"metadata.version": 27}), observation()
    proposal = propose(WANTED, observed, memory)
    decision = decide(WANTED, observed, memory, proposal=proposal, verdict=DryRunAccepted())
    return status_of(
        decision, observed, proposal,
        generation=1, previous=previous, version="0.1.0", now=NOW + timedelta(seconds=later),
    )  # fmt: skip


def failed(previous: dict[str, Any], generation: int) -> dict[str, Any]:
    return status_of_failed_reconciliation("a deadline", generation=generation, previous=previous, at=NOW)


def invalid(previous: dict[str, Any], generation: int) -> dict[str, Any]:
    return status_of_invalid(Reason.INVALID_SPEC, "no", generation=generation, previous=previous, at=NOW)


def away(previous: dict[str, Any], generation: int) -> dict[str, Any]:
    return status_of_unreachable(SILENT, generation=generation, previous=previous, at=NOW)


def unread(previous: dict[str, Any], generation: int) -> dict[str, Any]:
    """Return a status after a reconciliation that could not read the cluster id."""
    decision = decide(WANTED, observation(cluster_id=SILENT))
    return status_of_wrong_cluster(decision, generation=generation, previous=previous, at=NOW)


@pytest.mark.parametrize("status_without_reading", [failed, invalid, away, unread])
@pytest.mark.parametrize(("decision", "kind"), [(waiting, "ApprovalRequired"), (drifted, "DriftDetected")])
def test_a_reconciliation_without_a_reading_keeps_the_conditions_of_approval_and_drift(
    decision: Any, kind: str, status_without_reading: Any
) -> None:
    before = decision({})
    between = status_without_reading(before, 1)
    after = decision(between, later=3600)
    first, second, third = (
        next(condition for condition in status["conditions"] if condition["type"] == kind)
        for status in (before, between, after)
    )
    assert first == second == third
    assert kind not in conditions(status_without_reading(before, 2))  # generation 2: the document has changed


def test_a_reading_of_another_cluster_removes_the_condition_approval_required() -> None:
    decision = decide(DesiredState({}, cluster_id="another"), observation())
    previous = waiting({})
    assert "ApprovalRequired" in conditions(previous)
    status = status_of_wrong_cluster(decision, generation=1, previous=previous, at=NOW)
    assert "ApprovalRequired" not in conditions(status)


@pytest.mark.parametrize("status_without_reading", [failed, invalid, away, unread])
def test_a_condition_with_a_reason_of_a_newer_release_is_dropped(status_without_reading: Any) -> None:
    old = {"type": "ApprovalRequired", "status": "True", "reason": "FleetChanged", "message": "m"}
    previous = {"conditions": [{**old, "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    assert "ApprovalRequired" not in conditions(status_without_reading(previous, 1))


# --- the condition FeaturesFinalized ---


def finalized(decision: Decision, observation: Observation, wanted: DesiredState) -> tuple[str, str, str]:
    made = status_of(
        decision,
        observation,
        propose(wanted, observation, Memory()),
        generation=1,
        previous={},
        version="0.1.0",
        now=NOW,
    )
    (condition,) = [condition for condition in made["conditions"] if condition["type"] == "FeaturesFinalized"]
    return condition["status"], condition["reason"], condition["message"]


def test_the_condition_features_finalized_is_true_at_the_target_levels_whatever_was_decided() -> None:
    wanted, observed = DesiredState({"metadata.version": 21}), observation()
    slow = observation(node(3001), node(1, said=answer(NEW, {"metadata.version": 20})))
    finalized_condition = ("True", "AllAtTarget", "finalized: metadata.version 21 (3.9-IV0)")
    rival = decide(wanted, observed, owner=Owner("kafka/older", owns_cluster=True))
    standing = decide(wanted, observed, unsettled=(UpdateFeature("metadata.version", 21, 27),))
    verifying = decide(wanted, slow)
    assert [decision.reason for decision in (rival, standing, verifying) if not isinstance(decision, Act)] == [
        "DuplicateOwner",
        "Verifying",
        "Verifying",
    ]
    assert finalized(rival, observed, wanted) == finalized_condition
    assert finalized(standing, observed, wanted) == finalized_condition
    assert finalized(verifying, slow, wanted) == finalized_condition


def test_the_condition_features_finalized_is_false_for_a_feature_that_no_node_supports() -> None:
    wanted, observed = DesiredState({"no.such": 0}), observation()
    rival = Owner("kafka/older", owns_cluster=True)
    assert finalized(decide(wanted, observed), observed, wanted)[:2] == ("False", "Blocked")
    assert finalized(decide(wanted, observed, owner=rival), observed, wanted) == (
        "False", "BehindTarget", "no node supports no.such",
    )  # fmt: skip


def test_the_age_of_the_reason_of_ready_is_kept_while_the_reason_stays() -> None:
    """`since` belongs to the reason, and not to the time since when Ready is false. If an older release, which does not
    write it, changed the reason, the age is unknown.
    """
    later = NOW + timedelta(minutes=5)

    def after(reason: Reason, previous: Status, now: datetime) -> Status:
        return report.status_of_invalid(reason, "no", generation=1, previous=previous, at=now)

    first = after(Reason.INVALID_SPEC, EMPTY, NOW)
    same = after(Reason.INVALID_SPEC, first, later)
    other = after(Reason.UNKNOWN_RELEASE, same, later)
    reasons = [status.ready_reason for status in (first, same, other)]
    assert [(reason.reason, reason.since) for reason in reasons if reason] == [
        ("InvalidSpec", stamp(NOW)), ("InvalidSpec", stamp(NOW)), ("UnknownRelease", stamp(later)),
    ]  # fmt: skip
    assert other.conditions[0].last_transition_time == stamp(NOW)
    kept_by_an_older_release = replace(other, ready_reason=first.ready_reason)
    assert after(Reason.UNKNOWN_RELEASE, kept_by_an_older_release, later).ready_reason is None
