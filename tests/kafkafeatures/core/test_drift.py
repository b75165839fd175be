"""Drift: a level that was changed outside KafkaFeatures is reported or corrected."""

from __future__ import annotations

import pytest

from kafkafeatures.api.reasons import BlockerKind, Condition, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Held, Stalled
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState, OnDrift
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.facts.managed import ManagedLevel
from tests.kafkafeatures.core.plans import SHARE, change, deciding, kinds, standing, world
from tests.kafkafeatures.deciding import propose

REACHED = Memory(reached={"share.version": 1})


def test_by_default_drift_is_reported_and_not_corrected() -> None:
    decision = deciding(DesiredState(SHARE), world(), REACHED)
    assert isinstance(decision, Held)
    assert decision.condition == (Condition.DRIFT_DETECTED, Reason.LEVEL_BEHIND)


def test_a_level_above_the_one_that_was_reached_has_drifted() -> None:
    decision = deciding(
        DesiredState({"metadata.version": 25}), world(metadata_version=26), Memory(reached={"metadata.version": 25})
    )
    assert isinstance(decision, Held)
    assert decision.condition == (Condition.DRIFT_DETECTED, Reason.LEVEL_AHEAD)


def test_a_level_that_was_never_reached_has_not_drifted() -> None:
    assert isinstance(deciding(DesiredState(SHARE)), Act)
    assert isinstance(
        deciding(DesiredState({"metadata.version": 26}), memory=Memory(reached={"metadata.version": 25})), Act
    )


def test_drift_of_one_feature_does_not_hold_changes_of_other_features() -> None:
    wanted = DesiredState({**SHARE, "group.version": 1})  # share.version is 0 now: it has drifted
    assert deciding(wanted, world(), REACHED) == Act(change("group.version 0->1"))


NEVER_ASKS = DesiredState(SHARE, on_drift=OnDrift.CORRECT, policy=ApprovalPolicy.NEVER)


def test_drift_is_corrected_by_a_change_that_is_safe_to_undo() -> None:
    wanted = DesiredState({"metadata.version": 26}, on_drift=OnDrift.CORRECT)
    assert isinstance(deciding(wanted, world(), Memory(reached={"metadata.version": 26})), Act)


def test_drift_is_corrected_by_a_change_that_may_lose_metadata_when_undone_only_under_policy_never() -> None:
    """Although the document names the level."""
    assert isinstance(deciding(DesiredState(SHARE, on_drift=OnDrift.CORRECT), world(), REACHED), Held)
    assert isinstance(deciding(NEVER_ASKS, world(), REACHED), Act)


def test_drift_correction_stops_after_two_reverts() -> None:
    corrected_twice = Memory(reached=SHARE, corrections={"share.version": 2})
    decision = deciding(NEVER_ASKS, world(), corrected_twice)
    assert isinstance(decision, Stalled)
    assert decision.reason is Reason.CONFLICT_DETECTED


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


def test_a_level_of_a_release_that_was_reached_and_that_metadata_version_now_forbids_has_drifted() -> None:
    """If it was forgotten, it would be raised once more as soon as metadata.version allows it."""
    elr = {"eligible.leader.replicas.version": 1}
    wanted = DesiredState({}, bundle={**elr, **SHARE}, policy=ApprovalPolicy.NEVER)
    managed = (ManagedLevel("metadata.version", "another operator", 21),)
    first, then, later = (
        replace(world(**levels), managed=managed)
        for levels in ({"metadata_version": 21}, {"metadata_version": 21, "share_version": 1}, {"share_version": 1})
    )
    reached = Memory(reached=elr)
    assert deciding(wanted, first) == deciding(wanted, first, reached) == Act(change("share.version 0->1"))
    for cluster in (then, later):
        decision = deciding(wanted, cluster, reached)
        assert isinstance(decision, Held)
        assert decision.reason is Reason.DRIFTED


def test_a_level_of_a_release_waits_for_metadata_version_alone_only_if_another_operator_sets_that() -> None:
    wanted = DesiredState({}, bundle={"eligible.leader.replicas.version": 1, **SHARE})
    assert kinds(deciding(wanted, world(metadata_version=21))) == {BlockerKind.DEPENDENCY, BlockerKind.SETTING}


def test_an_earlier_hash_does_not_approve_a_step_that_was_done_and_reverted() -> None:
    wanted = DesiredState({}, {"metadata.version": 30, "share.version": 1})
    first = propose(wanted, world(), Memory()).plan
    after_revert = propose(wanted, world(), Memory(plan=standing(first), change_count=1))
    assert after_revert.plan.hash != first.hash
