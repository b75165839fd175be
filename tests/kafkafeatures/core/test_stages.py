"""Rolls and levels as stages of one plan, its hash and its approval."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.status import PlanStatus, Via, read_status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Decision, Held, Wait
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState
from kafkafeatures.core.engine.kind import ReadRequirements
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.engine.plan import Plan, Proposal
from kafkafeatures.core.facts.observation import Observation, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.workloads import WorkloadsReading
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.report.status import steps_of
from kafkafeatures.core.roll.check_input import Restarting
from kafkafeatures.core.roll.coming_back import RestartState, ReturnPhase
from kafkafeatures.core.roll.excuses import excused_by
from kafkafeatures.core.roll.pods import Fleet
from kafkafeatures.core.roll.proposal import PodsOfSet, RollProposal, pods_of, pods_rolled_by
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from kafkafeatures.core.roll.roll import Roll
from tests.kafkafeatures.core.fleets import NEW, OLD, in_pod, observed_fleet, pod, stateful_set
from tests.kafkafeatures.core.plans import change, standing
from tests.kafkafeatures.deciding import decide, plan_of, propose
from tests.kafkafeatures.worlds import NOW

RAISE = (change("metadata.version 25->30"),)
LEVELS = {"metadata.version": 25}

# The StatefulSet "broker" in the course of its roll (two pods have the old revision, one pod, none), and with a third
# revision after the new one.
TWO_LEFT = {"broker": PodsOfSet("broker", OLD, NEW, 2)}
ONE_LEFT = {"broker": PodsOfSet("broker", OLD, NEW, 1)}
ROLLED = {"broker": PodsOfSet("broker", "", NEW, 0)}
NEWER = {"broker": PodsOfSet("broker", f"{OLD}, {NEW}", "broker-9aa", 2)}


def planned(
    changes: tuple[UpdateFeature, ...] = RAISE,
    pods: Mapping[str, PodsOfSet] | None = TWO_LEFT,
    before: PlanStatus | None = None,
    finalized: Mapping[str, int] = LEVELS,
    count: int = 0,
    approvals: frozenset[str] = frozenset(),
) -> Plan:
    """A plan for these pods and level changes. `before`: the plan in the status; `finalized`: the current levels;
    `count`: the change count of the status.
    """
    return plan_of(
        changes, finalized, uid="u", cluster_id="c", change_count=count, standing=before, pods=pods, approvals=approvals
    )


def kinds(plan: Plan) -> list[str]:
    return [stage.kind for stage in plan.stages]


# --- the stages of a plan ---


def test_a_roll_is_a_stage_before_the_levels_with_its_old_and_new_revisions() -> None:
    plan = planned()
    assert kinds(plan) == ["Roll", "Levels"]
    assert (plan.stages[0].start, plan.stages[0].target) == ({"broker": OLD}, {"broker": NEW})
    assert (plan.stages[1].start, plan.stages[1].target) == ({"metadata.version": 25}, {"metadata.version": 30})


def test_levels_that_are_only_downgraded_are_a_stage_before_the_roll() -> None:
    assert kinds(planned((change("share.version 2->1"),))) == ["Levels", "Roll"]


@pytest.mark.parametrize(
    ("changes", "pods", "stages"),
    [(RAISE, ROLLED, ["Levels"]), ((), TWO_LEFT, ["Roll"])],
    ids=["only levels", "only a roll"],
)
def test_a_roll_or_levels_with_nothing_to_do_are_no_stage(
    changes: tuple[UpdateFeature, ...], pods: Mapping[str, PodsOfSet], stages: list[str]
) -> None:
    assert kinds(planned(changes, pods)) == stages


def test_steps_are_reported_by_stateful_set_and_not_by_node() -> None:
    reported = [(step.id, step.action, step.detail, step.undo, step.state) for step in steps_of(planned())]
    assert reported == [
        ("1", "RestartNode", f"restart the pods of broker with revision {NEW}", "Safe", "Pending"),
        ("2", "UpdateFeature", "metadata.version 25 (4.0-IV3) -> 30 (4.3-IV0)", "Impossible", "Pending"),
    ]
    assert str(planned()) == f"restart the pods of broker with revision {NEW}, metadata.version 25 -> 30"


def test_a_roll_is_reported_in_the_order_of_the_pods_however_a_status_was_sorted() -> None:
    """Controllers are restarted first, but the API server may sort the StatefulSets in the status by name."""
    pods = {name: PodsOfSet(name, OLD, NEW, 1) for name in ("controllers", "brokers")}
    (roll,) = RollProposal(pods).stages
    by_name = replace(roll, target=dict(sorted(roll.target.items())))
    for stage in (roll, by_name):
        assert [stateful_set.name for stateful_set in pods_rolled_by(stage, pods)] == ["controllers", "brokers"]
    assert [stateful_set.name for stateful_set in pods_rolled_by(by_name, None)] == ["brokers", "controllers"]


def test_the_hash_of_a_plan_of_levels_alone_does_not_depend_on_a_driver() -> None:
    """Approvals that were given before a driver was named still count."""
    without_driver = plan_of(RAISE, LEVELS, uid="u", cluster_id="c", change_count=0, standing=None)
    assert without_driver.hash == planned(pods=ROLLED).hash == planned(pods=None).hash


def consenting(topics: Mapping[str, int], before: PlanStatus | None = None, *, known: bool = True) -> Plan:
    """A plan whose roll makes partitions unavailable by a consent. `topics`: the number of these partitions by topic;
    `known`: whether the partitions were read.
    """
    excused = excused_by(topics)
    return plan_of(
        RAISE, LEVELS, uid="u", cluster_id="c", change_count=0, standing=before, pods=TWO_LEFT,
        excused=excused, excused_is_known=known,
    )  # fmt: skip


def test_partitions_that_a_consent_makes_unavailable_are_in_the_plan_and_its_hash() -> None:
    plan = consenting({"one": 2, "two": 1})
    unavailability = "; 3 partitions of 2 topics (one, two) unavailable while a broker restarts"
    assert str(plan).endswith(unavailability)
    first, second = steps_of(plan)
    assert (first.consent, second.consent) == ("single-replica-topics", "")
    assert first.detail.endswith(unavailability)
    of_other_topics = (consenting({"one": 2}).hash, consenting({"one": 2, "three": 1}).hash)
    assert len({plan.hash, planned().hash, *of_other_topics}) == 4
    assert consenting({}).hash == planned().hash


def test_a_plan_with_a_consent_stands_while_its_partitions_are_the_same_or_unread() -> None:
    plan = consenting({"one": 2})
    assert consenting({"one": 2}, standing(plan)).hash == plan.hash
    assert consenting({}, standing(plan), known=False).hash == plan.hash
    assert consenting({"one": 1, "two": 1}, standing(plan)).hash != plan.hash


# --- changes through which a plan stands, with its hash and approval ---


@pytest.mark.parametrize(
    "pods", [TWO_LEFT, ONE_LEFT, ROLLED, None], ids=["two left", "one left", "all rolled", "not read"]
)
def test_a_plan_stands_through_its_progress_and_through_unread_pods(
    pods: Mapping[str, PodsOfSet] | None,
) -> None:
    plan = planned()
    later = planned(pods=pods, before=standing(plan))
    assert (later.hash, later.stages) == (plan.hash, plan.stages)
    assert not later.is_over


def test_a_plan_stands_when_one_more_node_needs_the_restart() -> None:
    more = {"broker": PodsOfSet("broker", OLD, NEW, 3)}
    assert planned(pods=more, before=standing(planned())).hash == planned().hash


OTHER_PLANS = {
    "another image": NEWER,
    "the image of before": {"broker": PodsOfSet("broker", NEW, OLD, 1)},
    "another StatefulSet as well": {**TWO_LEFT, "more": PodsOfSet("more", "a", "b", 1)},
    "its StatefulSet is gone": {},
    "its StatefulSet was replaced by another": {"more": PodsOfSet("more", "a", "b", 1)},
}


@pytest.mark.parametrize("case", OTHER_PLANS)
def test_a_plan_with_other_revisions_or_stateful_sets_has_another_hash_and_no_approval(case: str) -> None:
    plan = planned()
    other = planned(pods=OTHER_PLANS[case], before=standing(plan), approvals=frozenset({plan.hash}))
    assert other.hash != plan.hash
    assert not other.is_approved_by(frozenset({plan.hash}))


def test_a_plan_with_another_level_has_another_hash() -> None:
    assert planned((change("metadata.version 25->29"),), before=standing(planned())).hash != planned().hash


def test_a_plan_stands_for_its_roll_after_its_downgrade_was_done() -> None:
    plan = planned((change("share.version 2->1"),), finalized={"share.version": 2})
    later = planned((), before=standing(plan), finalized={"share.version": 1}, count=1)
    assert later.hash == plan.hash
    assert [step.state for step in steps_of(later)] == ["Done", "Pending"]


# --- the end of a plan ---


def test_an_approval_of_a_roll_that_is_over_does_not_cover_a_later_roll() -> None:
    """The image goes back and forth: the second time is another plan."""
    plan = planned(())
    over = planned((), ROLLED, standing(plan))
    assert over.is_over
    assert over.change_count == 1
    second = planned((), TWO_LEFT, None, count=over.change_count)
    assert second.hash != plan.hash


def test_a_plan_is_over_if_its_roll_is_withdrawn_before_a_node_was_restarted() -> None:
    withdrawn = {"broker": PodsOfSet("broker", old_revisions="", new_revision=OLD, remaining=0)}
    over = planned((), withdrawn, before=standing(planned(())))
    assert over.is_over
    assert over.change_count == 1


def test_a_plan_whose_roll_is_done_continues_with_its_levels_and_is_over_after_them() -> None:
    plan = planned()
    assert not planned(pods=ROLLED, before=standing(plan)).is_over
    done = planned((), ROLLED, standing(plan), {"metadata.version": 30}, count=1)
    assert (done.is_over, done.change_count) == (True, 1)


STAGES = st.sampled_from(
    [
        {"kind": "Roll", "from": {"broker": OLD}, "to": {"broker": NEW}},
        {"kind": "Roll", "from": {}, "to": {"broker": NEW}},
        {"kind": "Roll", "from": {"broker": 1}, "to": {"broker": 2}},
        {"kind": "Levels", "from": {"metadata.version": 25}, "to": {"metadata.version": 30}},
        {"kind": "Levels", "from": {"metadata.version": "25"}, "to": {"metadata.version": "30"}},
        {"kind": "Levels", "from": {}, "to": {}},
        {"kind": "Migrate", "from": {}, "to": {}},
        {"kind": "Levels", "from": {}, "to": {}, "more": 1},
    ]
)


@given(st.lists(STAGES, max_size=3), st.sampled_from([TWO_LEFT, ROLLED, NEWER, None, {}]), st.booleans())
def test_an_edited_status_cannot_give_a_plan_the_hash_of_another_plan(
    stages: list[dict[str, object]], pods: Mapping[str, PodsOfSet] | None, changes: bool
) -> None:
    of_status = {"hash": planned().hash, "createdAt": "2026-01-01T00:00:00Z", "irreversible": True, "summary": ""}
    status, invalid = read_status({"plan": {**of_status, "stages": stages}})
    assert not invalid
    made = planned(RAISE if changes else (), pods, status.plan)
    if made.hash == planned().hash:
        assert changes
        assert pods in (TWO_LEFT, ROLLED, None)
        assert made.stages == planned().stages


# --- plans made from readings ---


def proposed(observation: Observation) -> Proposal:
    return propose(DesiredState({}), observation, Memory())


def test_the_stage_of_a_roll_is_made_of_the_pods_of_a_reading() -> None:
    nodes, done = (in_pod(1), in_pod(2)), pod(2, revision=NEW)
    (stage,) = proposed(observed_fleet(*nodes, sets=(stateful_set(pod(1), done),))).plan.stages
    assert (stage.kind, stage.start, stage.target) == ("Roll", {"broker": OLD}, {"broker": NEW})
    assert proposed(observed_fleet(*nodes, sets=(stateful_set(done),))).plan.is_over


def test_unread_pods_make_no_stage() -> None:
    observation = observed_fleet(in_pod(1), sets=(stateful_set(pod(1)),))
    not_asked = Unknown(Failure(FailureKind.NOT_ASKED, "pods", "no driver"))
    assert proposed(replace(observation, workloads=not_asked)).plan.is_over


def test_the_pods_are_unknown_while_the_template_of_their_stateful_set_is_not_processed() -> None:
    unobserved = WorkloadsReading(NOW, (stateful_set(pod(1), observed=False),))
    assert pods_of(unobserved) is None


# --- approvals ---

RESTART = RestartNode(
    node_id=1, title="broker 1", pod="broker-1", pod_uid="uid-1", earlier_support=OLD, next_revision=NEW
)
NEXT = replace(RESTART, node_id=2, title="broker 2", pod="broker-2", pod_uid="uid-2")
TO_ROLL = observed_fleet(in_pod(1), in_pod(2), sets=(stateful_set(pod(1), pod(2)),))


def deciding(wanted: DesiredState, *in_flight: RestartNode, step: RestartNode = RESTART) -> Decision:
    stopping = RestartState(ReturnPhase.STOPPING, "stopping")
    flying = tuple(
        Restarting(restart, RestartInFlight(restart, stamp(NOW), Via.API_SERVER), stopping) for restart in in_flight
    )
    roll = Roll("id", 2, {1: OLD, 2: OLD}, flying, Fleet.EMPTY, Act(step))
    return decide(wanted, TO_ROLL, roll=roll)


def test_a_restart_needs_no_approval_unless_every_plan_does() -> None:
    assert deciding(DesiredState({})) == Act(RESTART)
    decision = deciding(DesiredState({}, policy=ApprovalPolicy.ALWAYS))
    assert isinstance(decision, Held)
    assert decision.condition == (Condition.APPROVAL_REQUIRED, Reason.PLAN_PENDING)
    assert decision.message.endswith(f": restart the pods of broker with revision {NEW}")
    approved = frozenset({proposed(TO_ROLL).plan.hash})
    assert deciding(DesiredState({}, policy=ApprovalPolicy.ALWAYS, approvals=approved, may_approve_unseen=True)) == Act(
        RESTART
    )


def test_levels_that_wait_for_approval_do_not_keep_nodes_from_being_restarted() -> None:
    """A level that follows from `releaseVersion` (`bundle`) waits for approval."""
    assert deciding(DesiredState({}, bundle={"metadata.version": 27})) == Act(RESTART)


def test_an_approval_of_another_plan_holds_new_restarts_while_those_in_flight_are_waited_for() -> None:
    """The image was changed again after the plan was approved."""
    wanted = DesiredState({}, approvals=frozenset({"sha256:0123456789"}))
    decision = deciding(wanted)
    assert isinstance(decision, Held)
    assert decision.condition == (Condition.APPROVAL_REQUIRED, Reason.PLAN_CHANGED)
    waits = deciding(wanted, RESTART, step=NEXT)
    assert isinstance(waits, Wait)
    assert waits.condition == decision.condition
    assert waits.message.endswith("; still in flight: broker 1")
    assert deciding(wanted, RESTART, step=RESTART) == waits  # nor is the restart in flight repeated


def test_the_read_requirements_of_all_kinds_of_stages_are_combined() -> None:
    of_roll = ReadRequirements(partitions=True, settings=frozenset({"a", "b"}))
    of_levels = ReadRequirements(settings=frozenset({"c"}))
    assert of_roll | of_levels == ReadRequirements(partitions=True, settings=frozenset({"a", "b", "c"}))
    assert ReadRequirements() | ReadRequirements(znodes=True) == ReadRequirements(znodes=True)
    assert ReadRequirements() | ReadRequirements() == ReadRequirements()
