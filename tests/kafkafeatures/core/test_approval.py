"""Plans that wait for an approval, and the plan hash that approves exactly one plan."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Held
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.levels.changes import changes_between
from tests.kafkafeatures.core.plans import EVERY, NAMED, change, deciding, standing, world
from tests.kafkafeatures.deciding import all_in, approved_by, changes_in, pending_in, plan_of, propose
from tests.kafkafeatures.worlds import answer, node, observation

COMPUTED = DesiredState({}, {"metadata.version": 30})
"""A level that a release stands for. From 25, where `world()` is, the raise to 30 is irreversible, to 29 it is not."""


def test_an_exactly_named_level_is_approved_and_a_level_computed_from_a_release_waits_for_approval() -> None:
    assert isinstance(deciding(NAMED), Act)
    decision = deciding(COMPUTED)
    assert isinstance(decision, Held)
    assert decision.condition == (Condition.APPROVAL_REQUIRED, Reason.PLAN_PENDING)
    assert isinstance(deciding(DesiredState({}, {"metadata.version": 29})), Act)  # safe to undo
    assert isinstance(deciding(DesiredState({}, {"group.version": 1})), Held)  # lossy


@pytest.mark.parametrize(
    ("policy", "wanted", "acts"),
    [
        (ApprovalPolicy.NEVER, COMPUTED, True),
        (ApprovalPolicy.ALWAYS, NAMED, False),
        (ApprovalPolicy.ALWAYS, DesiredState({"metadata.version": 26}), False),
        (ApprovalPolicy.IRREVERSIBLE_ONLY, COMPUTED, False),
    ],
    ids=["Never, irreversible", "Always, named", "Always, reversible", "IrreversibleOnly, irreversible"],
)
def test_the_approval_policy_decides_which_plans_wait_for_approval(
    policy: ApprovalPolicy, wanted: DesiredState, acts: bool
) -> None:
    with_policy = DesiredState(wanted.levels, wanted.bundle, policy=policy)
    assert isinstance(deciding(with_policy), Act if acts else Held)


def test_an_irreversible_level_that_no_person_named_waits_for_an_approval() -> None:
    """`approves_by_name=False`: a command derived the level from a release. A person who confirmed the command has not
    approved a change that Kafka refuses to undo.
    """
    decision = deciding(replace(NAMED, approves_by_name=False))
    assert isinstance(decision, Held)
    assert decision.condition == (Condition.APPROVAL_REQUIRED, Reason.PLAN_PENDING)
    assert isinstance(deciding(replace(NAMED, approves_by_name=False, policy=ApprovalPolicy.NEVER)), Held)
    assert isinstance(deciding(DesiredState({"metadata.version": 26}, approves_by_name=False)), Act)
    assert isinstance(deciding(DesiredState({"group.version": 1}, approves_by_name=False)), Act)  # lossy


def test_a_consent_that_no_person_gave_waits_for_an_approval() -> None:
    consented = DesiredState({"group.version": 0}, consents=frozenset({"group.version:1->0"}))
    observation = world(group_version=1)
    assert isinstance(deciding(consented, observation), Act)
    assert isinstance(deciding(replace(consented, approves_by_name=False), observation), Held)


def with_hash(wanted: DesiredState, *hashes: str) -> DesiredState:
    return DesiredState(wanted.levels, wanted.bundle, approvals=frozenset(hashes), may_approve_unseen=True)


def test_only_the_hash_of_a_plan_approves_the_plan() -> None:
    whole = propose(COMPUTED, world(), Memory()).plan.hash
    assert isinstance(deciding(with_hash(COMPUTED, whole)), Act)
    assert isinstance(deciding(with_hash(COMPUTED, whole[:19])), Act)
    assert approved_by(with_hash(COMPUTED, whole), world(), propose(COMPUTED, world(), Memory())) == "PlanHash"
    for other in (whole[:14], "sha256:", "sha256:00000000", ""):  # the first has 7 digits: one too few
        decision = deciding(with_hash(COMPUTED, other))
        assert isinstance(decision, Held)
        assert decision.condition == (Condition.APPROVAL_REQUIRED, Reason.PLAN_CHANGED)


@pytest.mark.parametrize(
    ("observation", "memory", "wanted"),
    [
        (world(metadata_version=26), Memory(), COMPUTED),
        (world(), Memory(change_count=1), COMPUTED),
        (world(), Memory(), DesiredState({}, {"metadata.version": 30, "share.version": 1})),
        (world(), Memory(), DesiredState({}, {"metadata.version": 30}, uid="another")),
    ],
    ids=["other current levels", "a later change", "other target levels", "another resource"],
)
def test_an_earlier_approval_approves_no_later_plan(
    observation: Observation, memory: Memory, wanted: DesiredState
) -> None:
    approved = propose(COMPUTED, world(), Memory()).plan.hash
    assert propose(wanted, observation, memory).plan.hash != approved


def test_progress_does_not_void_an_approval() -> None:
    wanted = DesiredState({}, {"metadata.version": 30, "share.version": 1})
    first = propose(wanted, world(), Memory()).plan
    later = propose(wanted, world(metadata_version=30), Memory(change_count=1, plan=standing(first)))
    assert later.plan.hash == first.hash
    assert pending_in(later.plan) == changes_in(later) == (change("share.version 0->1"),)
    assert len(all_in(later.plan)) == 2


def test_a_new_node_does_not_void_an_approval() -> None:
    wanted = DesiredState({}, {"metadata.version": 30, "share.version": 1})
    first = propose(wanted, world(), Memory()).plan
    joined = observation(*world().nodes, node(9, said=answer(EVERY), written=EVERY), levels={"metadata.version": 25})
    assert propose(wanted, joined, Memory()).plan.hash == first.hash


def test_the_order_of_steps_and_already_finalized_levels_do_not_change_the_hash() -> None:
    """The hash covers each feature with its levels before and after; the order of steps may differ between versions."""
    desired, finalized = DesiredState({"group.version": 1}), {"group.version": 1, "metadata.version": 25}
    assert (
        propose(desired, world(), Memory()).plan.hash == propose(DesiredState(finalized), world(), Memory()).plan.hash
    )
    steps = changes_between({"metadata.version": 26, "group.version": 1}, {"metadata.version": 25})
    hashes = {
        plan_of(ordered, {}, uid="u", cluster_id="c", change_count=0, standing=None).hash
        for ordered in itertools.permutations(steps)
    }
    assert len(hashes) == 1


def test_an_earlier_hash_does_not_cover_a_plan_whose_step_was_reverted_while_another_step_was_done_by_hand() -> None:
    """One step is done, as before, but it is the one that was done by hand."""
    wanted = DesiredState({"group.version": 1, "share.version": 1}, policy=ApprovalPolicy.ALWAYS)
    first = propose(wanted, world(), Memory()).plan
    done_by_us = all_in(first)[0].feature
    done_by_hand = next(step.feature for step in all_in(first) if step.feature != done_by_us)
    memory = Memory(change_count=1, plan=standing(first))
    assert propose(wanted, world(**{done_by_us.replace(".", "_"): 1}), memory).plan.hash == first.hash
    assert propose(wanted, world(**{done_by_hand.replace(".", "_"): 1}), memory).plan.hash != first.hash


def test_a_plan_hash_written_into_the_status_by_hand_is_ignored() -> None:
    wanted = DesiredState({}, {"metadata.version": 30, "share.version": 1})
    first = propose(wanted, world(), Memory()).plan
    forged = replace(standing(first), hash="sha256:" + "0" * 64)
    assert propose(wanted, world(), Memory(plan=forged)).plan.hash == first.hash


def test_a_step_done_by_hand_does_not_turn_a_standing_plan_into_one_that_was_approved_before() -> None:
    """The approved plan was carried out in part (`change_count` 1), and undone. The present plan has the same changes
    and another hash; so has the plan that is left once a person has made the first of them.
    """
    wanted = DesiredState(levels={}, bundle={"metadata.version": 30, "share.version": 1})
    approved = propose(wanted, world(), Memory(change_count=0)).plan
    present = propose(wanted, world(), Memory(change_count=1)).plan
    later = propose(wanted, world(metadata_version=30), Memory(change_count=1, plan=standing(present))).plan
    assert all_in(later) == pending_in(later) == (change("share.version 0->1"),)
    assert later.hash not in (approved.hash, present.hash)


def test_an_approval_of_one_hash_holds_every_other_plan_even_under_policy_never() -> None:
    """The policy requires no approval, but a plan hash that a user gives still approves only this plan."""
    approvals = frozenset({"sha256:00000000"})
    wanted = DesiredState(
        {"group.version": 1}, policy=ApprovalPolicy.NEVER, approvals=approvals, may_approve_unseen=True
    )
    decision = deciding(wanted)
    assert isinstance(decision, Held)
    assert decision.condition == (Condition.APPROVAL_REQUIRED, Reason.PLAN_CHANGED)
    hash_ = propose(wanted, world(), Memory()).plan.hash
    assert isinstance(deciding(replace(wanted, approvals=frozenset({hash_}))), Act)


def test_a_plan_whose_steps_were_reverted_has_a_new_hash() -> None:
    wanted = DesiredState({}, {"metadata.version": 30, "share.version": 1})
    first = propose(wanted, world(), Memory()).plan
    status = standing(first)
    reverted = propose(wanted, world(metadata_version=24), Memory(change_count=1, plan=status))
    assert reverted.plan.hash != first.hash


@given(st.dictionaries(st.sampled_from(sorted(EVERY)), st.integers(0, 30), min_size=1), st.integers(0, 5))
def test_the_hash_depends_only_on_the_resource_the_cluster_and_the_changes(desired: dict[str, int], count: int) -> None:
    def made(uid: str = "u", cluster: str = "c", number: int = count) -> str:
        changes = changes_between(dict(reversed(desired.items())), {})
        return plan_of(
            changes, {}, uid=uid, cluster_id=cluster, change_count=number, standing=None,
        ).hash  # fmt: skip

    assert made() == made()
    assert len({made(), made(uid="v"), made(cluster="d"), made(number=count + 1)}) == 4
