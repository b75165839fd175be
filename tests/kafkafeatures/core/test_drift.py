"""Drift: a level that was changed outside KafkaFeatures is reported or corrected."""

from __future__ import annotations

import pytest

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Held, Stalled
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState, OnDrift
from kafkafeatures.core.engine.memory import Memory
from tests.kafkafeatures.core.plans import SHARE, change, deciding, standing, world
from tests.kafkafeatures.deciding import propose

REACHED = Memory(reached={"share.version": 1})


def test_by_default_drift_is_reported_and_not_corrected() -> None:
    decision = deciding(DesiredState(SHARE), world(), REACHED)
    assert isinstance(decision, Held)
    assert decision.condition == (Condition.DRIFT_DETECTED, Reason.LEVEL_BEHIND)
    ahead = deciding(
        DesiredState({"metadata.version": 25}), world(metadata_version=26), Memory(reached={"metadata.version": 25})
    )
    assert isinstance(ahead, Held)
    assert ahead.condition == (Condition.DRIFT_DETECTED, Reason.LEVEL_AHEAD)


def test_a_level_that_was_never_reached_has_not_drifted() -> None:
    assert isinstance(deciding(DesiredState(SHARE)), Act)
    assert isinstance(
        deciding(DesiredState({"metadata.version": 26}), memory=Memory(reached={"metadata.version": 25})), Act
    )


def test_drift_of_one_feature_does_not_hold_changes_of_other_features() -> None:
    wanted = DesiredState({**SHARE, "group.version": 1})
    assert deciding(wanted, world(), REACHED) == Act(change("group.version 0->1"))


def test_drift_correction_makes_no_irreversible_change_and_stops_after_two_reverts() -> None:
    correct = DesiredState(SHARE, on_drift=OnDrift.CORRECT)
    assert isinstance(deciding(correct, world(), REACHED), Held)  # although it is named
    never_asks = DesiredState(SHARE, on_drift=OnDrift.CORRECT, policy=ApprovalPolicy.NEVER)
    assert isinstance(deciding(never_asks, world(), REACHED), Act)
    corrected_twice = Memory(reached=SHARE, corrections={"share.version": 2})
    reverted_often = deciding(never_asks, world(), corrected_twice)
    assert isinstance(reverted_often, Stalled)
    assert reverted_often.reason is Reason.CONFLICT_DETECTED
    reversible = DesiredState({"metadata.version": 26}, on_drift=OnDrift.CORRECT)
    assert isinstance(deciding(reversible, world(), Memory(reached={"metadata.version": 26})), Act)


@pytest.mark.parametrize("policy", ApprovalPolicy)
def test_under_no_policy_is_drift_corrected_by_an_irreversible_change_without_an_approval(
    policy: ApprovalPolicy,
) -> None:
    wanted = DesiredState({"metadata.version": 30}, on_drift=OnDrift.CORRECT, policy=policy)
    drifted = Memory(reached={"metadata.version": 30})
    decision = deciding(wanted, world(), drifted)
    assert isinstance(decision, Held)
    assert decision.condition == (Condition.APPROVAL_REQUIRED, Reason.PLAN_PENDING)
    approval = frozenset({propose(wanted, world(), drifted).plan.hash})
    approved = replace(wanted, approvals=approval, may_approve_unseen=True)
    assert isinstance(deciding(approved, world(), drifted), Act)


def test_a_level_below_the_one_reached_for_a_release_has_drifted() -> None:
    wanted = DesiredState({}, {"metadata.version": 25})
    decision = deciding(wanted, world(metadata_version=24), Memory(reached={"metadata.version": 26}))
    assert isinstance(decision, Held)
    assert decision.reason is Reason.DRIFTED


def test_an_old_hash_does_not_approve_a_step_that_was_done_and_reverted() -> None:
    wanted = DesiredState({}, {"metadata.version": 30, "share.version": 1})
    first = propose(wanted, world(), Memory()).plan
    again = propose(wanted, world(), Memory(plan=standing(first), change_count=1))
    assert again.plan.hash != first.hash
