"""Plans, consents, approval, drift and modes: what is done, in which order, and with whose word."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.reasons import BlockerKind, Condition, Reason
from kafkafeatures.api.status import PlanStatus
from kafkafeatures.core.decide import (
    Act,
    Decision,
    Done,
    Held,
    Stalled,
    Wait,
    approved_by,
    decide,
    propose,
)
from kafkafeatures.core.memory import Memory
from kafkafeatures.core.observation import Observation
from kafkafeatures.core.plan import Plan, changes_between, plan_of, undo_of
from kafkafeatures.core.readings import Failure, FailureKind
from kafkafeatures.core.releases import METADATA_VERSIONS, Undo, bundle, dependencies, floor_of
from kafkafeatures.core.report import stamp, steps_of
from kafkafeatures.core.steps import DryRunAccepted, DryRunRejected, DryRunUnavailable, UpdateFeature
from kafkafeatures.core.wanted import ApprovalPolicy, Mode, OnDrift, Wanted
from tests.kafkafeatures.worlds import NOW, SILENT, answer, node, observation

EVERY = {
    "metadata.version": (7, 30),
    "group.version": (0, 1),
    "transaction.version": (0, 2),
    "eligible.leader.replicas.version": (0, 1),
    "share.version": (0, 1),
    "kraft.version": (0, 1),
}


def world(**levels: int) -> Observation:
    """Everybody supports everything; `levels` with underscores for dots."""
    finalized = {"metadata.version": 25, **{name.replace("_", "."): level for name, level in levels.items()}}
    finalized = {name: level for name, level in finalized.items() if level}
    nodes = [node(i, said=answer(EVERY, finalized), written=EVERY) for i in (3001, 3002, 1, 2)]
    return observation(*nodes, levels=finalized)


def deciding(
    wanted: Wanted, seen: Observation | None = None, memory: Memory | None = None, verdict: Any = None
) -> Decision:
    return decide(wanted, seen or world(), memory or Memory(), verdict=verdict or DryRunAccepted())


def change(text: str) -> UpdateFeature:
    feature, levels = text.split(" ")
    before, after = levels.split("->")
    return UpdateFeature(feature, int(before), int(after))


# --- order ---


def test_dependents_are_raised_after_metadata_version_and_lowered_before_it() -> None:
    up = changes_between({"share.version": 1, "metadata.version": 29, "group.version": 1}, {"metadata.version": 25})
    assert [one.feature for one in up] == ["metadata.version", "group.version", "share.version"]
    down = changes_between(
        {"share.version": 0, "metadata.version": 24, "kraft.version": 1}, {"metadata.version": 25, "share.version": 1}
    )
    assert [one.feature for one in down] == ["share.version", "metadata.version", "kraft.version"]


def test_a_level_that_is_there_is_in_no_plan() -> None:
    assert changes_between({"a": 1, "b": 0}, {"a": 1}) == ()


@given(
    st.dictionaries(st.sampled_from(sorted(EVERY)), st.integers(0, 30)),
    st.dictionaries(st.sampled_from(sorted(EVERY)), st.integers(0, 30)),
)
def test_every_state_on_the_way_keeps_what_depends_on_metadata_version(
    desired: dict[str, int], finalized: dict[str, int]
) -> None:
    """If the first and the last state are in order, so are all between."""

    def in_order(levels: dict[str, int]) -> bool:
        return all(levels.get(n, 0) >= m for f, v in levels.items() for n, m in dependencies(f, v).items())

    changes = changes_between(desired, finalized)
    states = list(itertools.accumulate(changes, lambda now, one: {**now, one.feature: one.after}, initial=finalized))
    if in_order(states[0]) and in_order(states[-1]):
        assert all(in_order(state) for state in states)
    assert {**finalized, **desired} == states[-1] | {k: v for k, v in desired.items() if v == 0}


# --- bundles ---


def test_a_bundle_never_contains_kraft_version_and_never_lowers() -> None:
    for version in METADATA_VERSIONS.values():
        found = bundle(version.name)
        assert found is not None
        assert "kraft.version" not in found
    old = Wanted({}, bundle("3.9") or {})
    assert old.desired({"metadata.version": 25}) == {"metadata.version": 25}
    assert isinstance(deciding(old), Done)


def test_levels_that_are_named_win_over_the_bundle() -> None:
    wanted = Wanted({"share.version": 0}, bundle("4.2") or {})
    assert wanted.desired({})["share.version"] == 0
    assert wanted.desired({})["metadata.version"] == 29


# --- undo ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("metadata.version 25->29", Undo.SAFE),
        ("metadata.version 29->30", Undo.IMPOSSIBLE),
        ("metadata.version 21->23", Undo.IMPOSSIBLE),
        ("metadata.version 3->4", Undo.IMPOSSIBLE),  # 4 changed nothing, and no release goes below it
        ("metadata.version 25->99", Undo.IMPOSSIBLE),  # a level of a vendor: nothing is promised
        ("group.version 0->1", Undo.LOSSY),
        ("group.version 1->0", Undo.SAFE),
        ("kraft.version 0->1", Undo.IMPOSSIBLE),
        ("confluent.metadata.version 3->4", Undo.LOSSY),
    ],
)
def test_how_a_change_can_be_undone(text: str, expected: Undo) -> None:
    assert undo_of(change(text)) is expected


def test_only_a_plan_with_a_step_that_kafka_refuses_to_undo_is_irreversible() -> None:
    assert not propose(Wanted({"group.version": 1}), world(), Memory()).plan.irreversible
    crossing = propose(Wanted({"metadata.version": 30, "group.version": 1}), world(), Memory()).plan
    assert crossing.irreversible
    assert [step.undo for step in steps_of(crossing)] == ["Impossible", "Lossy"]
    assert [step.reversible for step in steps_of(crossing)] == [False, False]


@pytest.mark.parametrize(
    ("level", "floor"),
    [(21, 17), (22, 17), (25, 23), (29, 23), (30, 30), (31, 30), (17, 17), (99, None), (8, 8), (4, 4), (1, 1)],
)
def test_how_far_metadata_version_can_go_back(level: int, floor: int | None) -> None:
    assert floor_of(level) == floor


# --- consents ---


def kinds(decision: Decision) -> set[BlockerKind]:
    assert not isinstance(decision, Act)
    return {one.kind for one in decision.blockers}


LOWER = Wanted({"transaction.version": 1})
CONSENT = "transaction.version:2->1"


def test_a_downgrade_without_its_consent_is_refused_loudly() -> None:
    decision = deciding(LOWER, world(transaction_version=2))
    assert isinstance(decision, Stalled)
    assert decision.reason is Reason.CONSENT_REQUIRED
    assert CONSENT in decision.blockers[0].remedy


@pytest.mark.parametrize("consent", ["transaction.version:2->0", "transaction.version:1->2", "group.version:2->1"])
def test_a_consent_for_something_else_is_none(consent: str) -> None:
    wanted = Wanted({"transaction.version": 1}, consents=frozenset({consent}))
    assert isinstance(deciding(wanted, world(transaction_version=2)), Stalled)


def test_a_consent_is_good_once() -> None:
    wanted = Wanted({"transaction.version": 1}, consents=frozenset({CONSENT}))
    seen = world(transaction_version=2)
    assert deciding(wanted, seen) == Act(change("transaction.version 2->1"))
    spent = deciding(wanted, seen, Memory(spent=frozenset({CONSENT})))
    assert isinstance(spent, Stalled)
    assert spent.reason is Reason.CONSENT_SPENT


def test_no_consent_crosses_a_level_that_changed_metadata() -> None:
    wanted = Wanted({"metadata.version": 22}, consents=frozenset({"metadata.version:25->22"}))
    decision = deciding(wanted)
    assert isinstance(decision, Stalled)
    assert decision.reason is Reason.DOWNGRADE_REFUSED
    allowed = Wanted({"metadata.version": 23}, consents=frozenset({"metadata.version:25->23"}))
    assert deciding(allowed) == Act(change("metadata.version 25->23"))


def test_kraft_version_never_goes_back_and_old_controllers_are_not_asked_to_raise_it() -> None:
    back = Wanted({"kraft.version": 0}, consents=frozenset({"dynamic-quorum"}))
    decision = deciding(back, world(kraft_version=1))
    assert isinstance(decision, Stalled)
    assert decision.reason is Reason.DOWNGRADE_REFUSED
    up = Wanted({"kraft.version": 1}, consents=frozenset({"dynamic-quorum"}))
    assert deciding(up) == Act(change("kraft.version 0->1"))
    assert kinds(deciding(Wanted({"kraft.version": 1}))) == {BlockerKind.CONSENT}
    old = {**EVERY, "metadata.version": (7, 25)}
    seen = observation(node(3001, said=answer(old), written=old), levels={"metadata.version": 25})
    assert kinds(deciding(up, seen)) == {BlockerKind.NODE_RANGE}


def test_kraft_version_goes_after_everything_else_whatever_its_name() -> None:
    wanted = Wanted({"kraft.version": 1, "share.version": 1}, consents=frozenset({"dynamic-quorum"}))
    assert deciding(wanted) == Act(change("share.version 0->1"))


def test_what_brokers_say_of_kraft_version_does_not_count() -> None:
    """KAFKA-18979, KAFKA-18602: it differs between releases; the controllers' word is the one."""
    levels = {"metadata.version": 25, "kraft.version": 1}
    controllers = [node(i, said=answer(EVERY, levels), written=EVERY) for i in (3001, 3002)]
    broker = node(1, said=answer(EVERY, {"metadata.version": 25}), written=EVERY)
    seen = observation(*controllers, broker, levels=levels)
    assert isinstance(deciding(Wanted({"kraft.version": 1}), seen), Done)


# --- dependencies ---


def test_a_dependency_that_is_not_met_is_named_and_one_that_comes_along_is_met() -> None:
    alone = Wanted({"eligible.leader.replicas.version": 1})
    assert kinds(deciding(alone, world(metadata_version=22))) == {BlockerKind.DEPENDENCY}
    together = Wanted({"eligible.leader.replicas.version": 1, "metadata.version": 23})
    assert deciding(together, world(metadata_version=22)) == Act(change("metadata.version 22->23"))


def test_a_dependency_that_is_lowered_away_is_named_though_kafka_would_not_look() -> None:
    """Kafka checks what a feature depends on while it is raised, and never again."""
    down = Wanted({"metadata.version": 22}, consents=frozenset({"metadata.version:25->22"}))
    decision = deciding(down, world(eligible_leader_replicas_version=1))
    assert BlockerKind.DEPENDENCY in kinds(decision)
    assert BlockerKind.DEPENDENCY not in kinds(deciding(down))


# --- approval ---

COMPUTED = Wanted({}, {"metadata.version": 30})
NAMED = Wanted({"metadata.version": 30})


def test_what_is_named_exactly_is_approved_and_what_is_computed_waits() -> None:
    assert isinstance(deciding(NAMED), Act)
    held = deciding(COMPUTED)
    assert isinstance(held, Held)
    assert held.condition == (Condition.APPROVAL_REQUIRED, Reason.PLAN_PENDING)
    assert isinstance(deciding(Wanted({}, {"metadata.version": 29})), Act)  # safe to undo
    assert isinstance(deciding(Wanted({}, {"group.version": 1})), Held)  # lossy


@pytest.mark.parametrize(
    ("policy", "wanted", "acts"),
    [
        (ApprovalPolicy.NEVER, COMPUTED, True),
        (ApprovalPolicy.ALWAYS, NAMED, False),
        (ApprovalPolicy.ALWAYS, Wanted({"metadata.version": 26}), False),
        (ApprovalPolicy.IRREVERSIBLE_ONLY, COMPUTED, False),
    ],
)
def test_the_policy_says_what_waits(policy: ApprovalPolicy, wanted: Wanted, acts: bool) -> None:
    made = Wanted(wanted.levels, wanted.bundle, policy=policy)
    assert isinstance(deciding(made), Act if acts else Held)


def with_hash(wanted: Wanted, *hashes: str) -> Wanted:
    return Wanted(wanted.levels, wanted.bundle, approvals=frozenset(hashes), may_approve_unseen=True)


def test_the_hash_of_the_plan_approves_it_and_no_other_does() -> None:
    whole = propose(COMPUTED, world(), Memory()).plan.hash
    assert isinstance(deciding(with_hash(COMPUTED, whole)), Act)
    assert isinstance(deciding(with_hash(COMPUTED, whole[:19])), Act)
    assert approved_by(with_hash(COMPUTED, whole), propose(COMPUTED, world(), Memory())) == "PlanHash"
    for other in (whole[:14], "sha256:", "sha256:00000000", ""):
        held = deciding(with_hash(COMPUTED, other))
        assert isinstance(held, Held)
        assert held.condition == (Condition.APPROVAL_REQUIRED, Reason.PLAN_CHANGED)


@pytest.mark.parametrize(
    ("seen", "memory", "wanted"),
    [
        (world(metadata_version=26), Memory(), COMPUTED),
        (world(), Memory(change_count=1), COMPUTED),
        (world(), Memory(), Wanted({}, {"metadata.version": 30, "share.version": 1})),
        (world(), Memory(), Wanted({}, {"metadata.version": 30}, uid="another")),
    ],
    ids=["other levels", "a change since", "other wishes", "another resource"],
)
def test_an_old_approval_authorises_no_later_plan(seen: Observation, memory: Memory, wanted: Wanted) -> None:
    approved = propose(COMPUTED, world(), Memory()).plan.hash
    assert propose(wanted, seen, memory).plan.hash != approved


def standing(plan: Plan) -> PlanStatus:
    """As it stands in a status."""
    return PlanStatus(
        hash=plan.hash, created_at=stamp(NOW), irreversible=plan.irreversible, summary="", stages=plan.stages
    )


def test_a_new_node_or_progress_does_not_void_an_approval() -> None:
    wanted = Wanted({}, {"metadata.version": 30, "share.version": 1})
    first = propose(wanted, world(), Memory()).plan
    status = standing(first)
    later = propose(wanted, world(metadata_version=30), Memory(change_count=1, plan=status))
    assert later.plan.hash == first.hash
    assert later.plan.pending == later.changes == (change("share.version 0->1"),)
    assert len(later.plan.steps) == 2
    joined = observation(*world().nodes, node(9, said=answer(EVERY), written=EVERY), levels={"metadata.version": 25})
    assert propose(wanted, joined, Memory()).plan.hash == first.hash


def test_the_order_of_steps_and_levels_that_are_there_are_no_part_of_the_hash() -> None:
    """It covers what is changed from where to where; how a stage is carried out may differ between versions."""
    asked, there = Wanted({"group.version": 1}), {"group.version": 1, "metadata.version": 25}
    assert propose(asked, world(), Memory()).plan.hash == propose(Wanted(there), world(), Memory()).plan.hash
    steps = changes_between({"metadata.version": 26, "group.version": 1}, {"metadata.version": 25})
    hashes = {
        plan_of(some, {}, uid="u", cluster_id="c", change_count=0, standing=None).hash
        for some in itertools.permutations(steps)
    }
    assert len(hashes) == 1


def test_a_step_of_ours_that_somebody_reverted_while_they_did_another_is_not_covered_by_the_old_hash() -> None:
    """As many steps are done as before, and not those that we did."""
    wanted = Wanted({"group.version": 1, "share.version": 1}, policy=ApprovalPolicy.ALWAYS)
    first = propose(wanted, world(), Memory()).plan
    done_by_us = first.steps[0].feature
    other = next(step.feature for step in first.steps if step.feature != done_by_us)
    memory = Memory(change_count=1, plan=standing(first))
    assert propose(wanted, world(**{done_by_us.replace(".", "_"): 1}), memory).plan.hash == first.hash
    assert propose(wanted, world(**{other.replace(".", "_"): 1}), memory).plan.hash != first.hash


def test_a_hash_written_into_the_status_by_hand_is_not_believed() -> None:
    wanted = Wanted({}, {"metadata.version": 30, "share.version": 1})
    first = propose(wanted, world(), Memory()).plan
    forged = replace(standing(first), hash="sha256:" + "0" * 64)
    assert propose(wanted, world(), Memory(plan=forged)).plan.hash == first.hash


def test_a_step_that_somebody_else_did_does_not_turn_a_standing_plan_into_one_that_was_approved_before() -> None:
    wanted = Wanted({}, {"metadata.version": 30, "share.version": 1})
    approved = propose(wanted, world(), Memory()).plan
    now = propose(wanted, world(), Memory(change_count=1)).plan
    later = propose(wanted, world(metadata_version=30), Memory(change_count=1, plan=standing(now))).plan
    assert later.steps == later.pending == (change("share.version 0->1"),)
    assert later.hash not in (approved.hash, now.hash)


def test_a_plan_that_was_approved_by_name_lets_no_other_through() -> None:
    """Also where the policy would have asked nobody: `--approve` means this plan."""
    wanted = Wanted({"group.version": 1}, policy=ApprovalPolicy.NEVER, only="sha256:00000000")
    held = deciding(wanted)
    assert isinstance(held, Held)
    assert held.condition == (Condition.APPROVAL_REQUIRED, Reason.PLAN_CHANGED)
    hash_ = propose(wanted, world(), Memory()).plan.hash
    assert isinstance(deciding(replace(wanted, only=hash_)), Act)


def test_a_plan_whose_steps_were_taken_back_is_a_new_one() -> None:
    wanted = Wanted({}, {"metadata.version": 30, "share.version": 1})
    first = propose(wanted, world(), Memory()).plan
    status = standing(first)
    reverted = propose(wanted, world(metadata_version=24), Memory(change_count=1, plan=status))
    assert reverted.plan.hash != first.hash


@given(st.dictionaries(st.sampled_from(sorted(EVERY)), st.integers(0, 30), min_size=1), st.integers(0, 5))
def test_the_hash_depends_on_nothing_but_what_it_covers(desired: dict[str, int], count: int) -> None:
    def made(uid: str = "u", cluster: str = "c", number: int = count) -> str:
        changes = changes_between(dict(reversed(desired.items())), {})
        return plan_of(
            changes, {}, uid=uid, cluster_id=cluster, change_count=number, standing=None,
        ).hash  # fmt: skip

    assert made() == made()
    assert len({made(), made(uid="v"), made(cluster="d"), made(number=count + 1)}) == 4


# --- drift ---

REACHED = Memory(reached={"share.version": 1})
SHARE = {"share.version": 1}


def test_a_level_somebody_else_moved_is_reported_and_left() -> None:
    held = deciding(Wanted(SHARE), world(), REACHED)
    assert isinstance(held, Held)
    assert held.condition == (Condition.DRIFT_DETECTED, Reason.LEVEL_BEHIND)
    ahead = deciding(
        Wanted({"metadata.version": 25}), world(metadata_version=26), Memory(reached={"metadata.version": 25})
    )
    assert isinstance(ahead, Held)
    assert ahead.condition == (Condition.DRIFT_DETECTED, Reason.LEVEL_AHEAD)


def test_a_level_that_was_never_reached_has_not_drifted() -> None:
    assert isinstance(deciding(Wanted(SHARE)), Act)
    assert isinstance(deciding(Wanted({"metadata.version": 26}), memory=Memory(reached={"metadata.version": 25})), Act)


def test_drift_does_not_keep_other_levels_from_moving() -> None:
    wanted = Wanted({**SHARE, "group.version": 1})
    assert deciding(wanted, world(), REACHED) == Act(change("group.version 0->1"))


def test_a_correction_makes_no_irreversible_change_by_itself_and_ends_a_fight() -> None:
    correct = Wanted(SHARE, on_drift=OnDrift.CORRECT)
    assert isinstance(deciding(correct, world(), REACHED), Held)  # although it is named
    bold = Wanted(SHARE, on_drift=OnDrift.CORRECT, policy=ApprovalPolicy.NEVER)
    assert isinstance(deciding(bold, world(), REACHED), Act)
    again = Memory(reached=SHARE, corrections={"share.version": 2})
    fought = deciding(bold, world(), again)
    assert isinstance(fought, Stalled)
    assert fought.reason is Reason.CONFLICT_DETECTED
    back = Wanted({"metadata.version": 26}, on_drift=OnDrift.CORRECT)
    assert isinstance(deciding(back, world(), Memory(reached={"metadata.version": 26})), Act)  # safe to undo


@pytest.mark.parametrize("policy", ApprovalPolicy)
def test_under_no_policy_is_drift_corrected_by_an_irreversible_change_without_an_approval(
    policy: ApprovalPolicy,
) -> None:
    wanted = Wanted({"metadata.version": 30}, on_drift=OnDrift.CORRECT, policy=policy)
    drifted = Memory(reached={"metadata.version": 30})
    held = deciding(wanted, world(), drifted)
    assert isinstance(held, Held)
    assert held.condition == (Condition.APPROVAL_REQUIRED, Reason.PLAN_PENDING)
    approval = frozenset({propose(wanted, world(), drifted).plan.hash})
    approved = replace(wanted, approvals=approval, may_approve_unseen=True)
    assert isinstance(deciding(approved, world(), drifted), Act)


def test_a_bundle_that_was_passed_by_has_drifted_when_it_is_below() -> None:
    wanted = Wanted({}, {"metadata.version": 25})
    held = deciding(wanted, world(metadata_version=24), Memory(reached={"metadata.version": 26}))
    assert isinstance(held, Held)
    assert held.reason is Reason.DRIFTED


def test_a_step_that_was_done_and_taken_back_is_not_covered_by_the_old_hash() -> None:
    wanted = Wanted({}, {"metadata.version": 30, "share.version": 1})
    first = propose(wanted, world(), Memory()).plan
    again = propose(wanted, world(), Memory(plan=standing(first), change_count=1))
    assert again.plan.hash != first.hash


# --- modes ---


@pytest.mark.parametrize("verdict", [DryRunAccepted(), DryRunRejected(95, "no"), DryRunUnavailable("x")])
def test_who_observes_or_is_suspended_never_acts(verdict: Any) -> None:
    observed = deciding(Wanted(SHARE, mode=Mode.OBSERVE), verdict=verdict)
    assert isinstance(observed, Done)
    assert observed.reason is Reason.OBSERVED
    assert "would change share.version 0 -> 1" in observed.message
    held = deciding(Wanted(SHARE, suspend=True), verdict=verdict)
    assert isinstance(held, Held)
    assert held.reason is Reason.SUSPENDED


def test_who_is_suspended_with_nothing_to_do_is_in_sync() -> None:
    assert isinstance(deciding(Wanted({"metadata.version": 25}, suspend=True)), Done)


# --- the server's word ---


def test_without_a_verdict_nothing_is_sent_but_kraft_version_which_no_release_can_judge() -> None:
    assert isinstance(decide(NAMED, world()), Wait)
    up = Wanted({"kraft.version": 1}, consents=frozenset({"dynamic-quorum"}))
    assert isinstance(decide(up, world()), Act)


# --- what is not known ---


def test_a_mistyped_feature_is_no_feature_at_level_zero() -> None:
    wrong = deciding(Wanted({"transaction.verison": 0}))
    assert isinstance(wrong, Stalled)
    assert wrong.reason is Reason.UNKNOWN_FEATURE
    assert isinstance(deciding(Wanted({"streams.version": 0})), Done)  # Kafka has it, these nodes do not yet


def test_a_verdict_does_not_overrule_a_process_that_contradicts_its_registration() -> None:
    """The controller judges the registration, which is the half in doubt: the process may be an older binary."""
    back = node(2, said=answer({**EVERY, "metadata.version": (7, 25)}), written=EVERY)
    decision = deciding(Wanted({"metadata.version": 27}), observation(node(3001), node(1), back))
    assert BlockerKind.NODE_UNKNOWN in kinds(decision)


def test_two_clusters_are_for_a_human() -> None:
    wrong = Failure(FailureKind.WRONG_CLUSTER, "x", "they lead to 2 clusters", "name one")
    decision = deciding(NAMED, observation(cluster_id=wrong))
    assert isinstance(decision, Stalled)
    assert decision.reason is Reason.CLUSTER_ID_MISMATCH


# --- properties ---

_LEVELS = st.dictionaries(st.sampled_from(sorted(EVERY)), st.integers(0, 31))
_CONSENTS = st.sets(st.sampled_from(["dynamic-quorum", "metadata.version:25->24", "share.version:1->0"]))


@given(
    levels=_LEVELS, bundled=_LEVELS, finalized=_LEVELS, consents=_CONSENTS, spent=_CONSENTS, reached=_LEVELS,
    mode=st.sampled_from(Mode), suspend=st.booleans(), policy=st.sampled_from(ApprovalPolicy),
    on_drift=st.sampled_from(OnDrift),
    verdict=st.sampled_from([DryRunAccepted(), DryRunRejected(95, "no"), DryRunUnavailable("x"), None]),
    silent=st.booleans(),
)  # fmt: skip
def test_whatever_is_wanted_an_act_is_one_that_was_allowed(
    levels: dict[str, int], bundled: dict[str, int], finalized: dict[str, int], consents: set[str], spent: set[str],
    reached: dict[str, int], mode: Mode, suspend: bool, policy: ApprovalPolicy, on_drift: OnDrift, verdict: Any,
    silent: bool,
) -> None:  # fmt: skip
    wanted = Wanted(levels, bundled, frozenset(consents), mode, suspend, policy, on_drift=on_drift)
    nodes = [node(i, said=answer(EVERY, finalized), written=EVERY) for i in (3001, 1)]
    if silent:
        nodes.append(node(2, said=SILENT, written=None))
    memory = Memory(spent=frozenset(spent), reached=reached)
    decision = decide(wanted, observation(*nodes, levels=finalized), memory, verdict=verdict)
    if not isinstance(decision, Act):
        return
    step = decision.step
    assert mode is Mode.APPLY
    assert not suspend
    assert step.before == finalized.get(step.feature, 0) != step.after
    assert EVERY[step.feature][0] <= step.after <= EVERY[step.feature][1]
    if step.after < step.before:
        consent = f"{step.feature}:{step.before}->{step.after}"
        assert consent in consents - spent
        assert step.feature != "metadata.version" or step.after >= (floor_of(step.before) or 0)
        assert step.feature in levels  # a bundle never lowers
    if step.feature == "kraft.version":
        assert "dynamic-quorum" in consents - spent
        assert all(
            change.feature == "kraft.version"
            for change in propose(wanted, observation(*nodes, levels=finalized), memory).changes
        )
    else:
        assert isinstance(verdict, DryRunAccepted)
    assert policy is not ApprovalPolicy.ALWAYS
    if policy is ApprovalPolicy.IRREVERSIBLE_ONLY and undo_of(step) is not Undo.SAFE:
        assert step.feature in levels
    assert undo_of(step) is not Undo.IMPOSSIBLE or reached.get(step.feature) != step.after
    assert on_drift is OnDrift.CORRECT or reached.get(step.feature) != step.after
