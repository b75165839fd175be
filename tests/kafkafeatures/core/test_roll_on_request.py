"""A restart of one pod that a person requests: its node is restarted as after a change of its template, and no other
node.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.status import EMPTY, PlanStatus, RolloutStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Held
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState, Rollout, Window
from kafkafeatures.core.engine.kind import ReadContext
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.engine.plan import Plan
from kafkafeatures.core.facts.observation import NodeState, Observation
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.kinds import demands_of, without_withdrawn_plan
from kafkafeatures.core.roll.drivers import MANUAL
from tests.kafkafeatures.core.fleets import NEW, requested
from tests.kafkafeatures.core.plans import standing
from tests.kafkafeatures.core.replicas import row
from tests.kafkafeatures.core.rolls import (
    BROKERS,
    CONTROLLERS,
    CRASHES,
    PARTITIONS,
    ROLLOUT,
    a_node,
    a_pod,
    ago,
    behind_gates,
    cluster,
    current,
    fresh,
    refused,
    replaced,
    restarted_id,
    rolled,
    sent,
    workloads_of,
)
from tests.kafkafeatures.deciding import decide, propose
from tests.kafkafeatures.worlds import NOW

CURRENT = current(*CONTROLLERS, *BROKERS)
AWAY = Failure(FailureKind.UNREACHABLE, "the API server", "connection refused")


def with_requested(*ids: int, **of_cluster: Any) -> Observation:
    """Build pods of the update revision; a person requests the restart of these."""
    pods = {**CURRENT, **of_cluster.pop("pods", {})}
    return requested(cluster(pods, **of_cluster), *(pods[id_].name for id_ in ids))


# --- the node that is restarted ---


def test_a_request_for_a_pod_restarts_the_node_of_this_pod_and_no_other_node() -> None:
    roll = rolled(with_requested(4))
    assert (restarted_id(roll), dict(roll.needing)) == (4, {4: "the restart of pod broker-4 was requested"})
    assert (roll.done, roll.total) == (8, 9)


def test_requested_restarts_are_in_the_order_of_a_roll() -> None:
    """Controllers come before brokers; 3001 is the active controller, the last of the controllers."""
    assert restarted_id(rolled(with_requested(4, 3001, 3002))) == 3002
    assert restarted_id(rolled(with_requested(4, 3001))) == 3001


def test_a_controller_with_a_changed_template_is_restarted_before_a_broker_on_request() -> None:
    outdated = a_pod(3003)
    assert restarted_id(rolled(with_requested(4, pods={3003: outdated}))) == 3003


def test_the_next_pod_of_a_requested_restart_is_not_restarted_again() -> None:
    back = cluster({**CURRENT, **replaced(4)}, fresh(4))
    assert "broker 4 is in sync" in refused(rolled(back, sent(4, after=NEW)), Reason.ROLLING_NODES)
    assert rolled(back).decision is None


def test_a_node_already_restarted_in_this_roll_is_restarted_again_on_request() -> None:
    """The request is for the new pod. Without it, a pod that needs a second restart in one roll would halt the roll."""
    roll = rolled(with_requested(4))
    begun = RolloutStatus(id=roll.id, started_at=ago(60), total=9, done=8, nodes="4")
    assert restarted_id(rolled(with_requested(4), status=replace(EMPTY, rollout=begun))) == 4


# --- the same conditions as for any other restart ---


def test_partitions_and_disruption_budgets_hold_a_requested_restart() -> None:
    low = (row("orders", 1, 4, 2, isr=[4, 2], number=0), *PARTITIONS[1:])
    assert "cannot be restarted now" in refused(rolled(with_requested(4, partitions=low)), Reason.ROLLING_NODES)
    refused(rolled(with_requested(4, allowed=0)), Reason.WAITING_FOR_BUDGET)


def test_a_requested_restart_waits_outside_the_windows() -> None:
    closed = replace(ROLLOUT, windows=(Window("0 22 * * *", timedelta(hours=1)),))
    observation = with_requested(4)
    refused(behind_gates(observation, rolled(observation, rollout=closed), closed), Reason.WAITING_FOR_WINDOW)


@pytest.mark.parametrize("crashing", [4, 5])
def test_a_crash_halts_a_requested_restart_even_of_the_crashing_pod(crashing: int) -> None:
    pods = {crashing: a_pod(crashing, revision=NEW, **CRASHES)}
    message = refused(rolled(with_requested(4, pods=pods)), Reason.ROLLOUT_HALTED)
    assert f"pod broker-{crashing} crashes on its current revision" in message


def test_a_requested_restart_waits_while_the_pod_may_run_another_node() -> None:
    observation = with_requested(4, nodes={4: replace(a_node(4), proved_at="")})
    message = refused(rolled(observation), Reason.ROLLING_NODES)
    assert "broker 4 has not confirmed its node id at an address of pod broker-4" in message


@pytest.mark.parametrize(
    "unknown", [{"observed": False}, {"update_revision": ""}], ids=["template not processed", "no update revision"]
)
def test_a_requested_restart_waits_while_the_next_pod_is_unknown_even_of_a_stuck_node(
    unknown: dict[str, Any],
) -> None:
    cannot = a_pod(4, revision=NEW, waiting="ImagePullBackOff", phase="Pending", ready=False)
    away = replace(a_node(4, state=NodeState.UNREACHABLE), proved_at="")
    isr = tuple(replace(partition, in_sync=partition.isr - {4}) for partition in PARTITIONS)
    of_pod: dict[str, Any] = {"pods": {4: cannot}, "nodes": {4: away}, "partitions": isr}
    assert restarted_id(rolled(with_requested(4, **of_pod))) == 4
    assert not rolled(with_requested(4, **of_pod, **unknown)).needing


# --- while it is not sent yet ---


def test_a_requested_eviction_is_repeated_until_the_request_is_withdrawn() -> None:
    step = sent(4, after=NEW)
    assert restarted_id(rolled(with_requested(4), step)) == 4
    assert not step.step.is_not_wanted(with_requested(4))
    assert step.step.is_not_wanted(with_requested())
    assert "was not evicted yet" in refused(rolled(with_requested(), step), Reason.ROLLING_NODES)


def test_an_unsent_restart_of_a_broker_is_dropped_once_a_controller_is_requested() -> None:
    assert sent(4, after=NEW).step.is_not_wanted(with_requested(4, 3002))


# --- the plan ---


def planned(observation: Observation, before: PlanStatus | None = None, **of_wanted: Any) -> Plan:
    return propose(DesiredState({}, rollout=ROLLOUT, **of_wanted), observation, Memory(plan=before)).plan


def test_the_plan_of_a_requested_restart_names_the_pod_and_its_uid() -> None:
    plan = planned(with_requested(4))
    assert str(plan) == "restart pod broker-4, as requested"
    (stage,) = plan.stages
    assert (stage.start, stage.target) == ({"pod/broker-4": ""}, {"pod/broker-4": "not uid-4"})


def test_a_requested_pod_that_its_template_restarts_anyway_is_in_the_plan_once() -> None:
    observation = cluster({**CURRENT, 4: a_pod(4)})
    assert planned(requested(observation, "broker-4")) == planned(observation)


def test_the_plan_of_requested_restarts_stands_through_progress_and_changes_with_another_pod() -> None:
    plan = planned(with_requested(4, 5))
    before = standing(plan)
    assert planned(with_requested(5), before).hash == plan.hash
    assert planned(with_requested(4, 5, 6), before).hash != plan.hash
    assert planned(with_requested(6), before).hash != plan.hash
    next_life = {4: replace(a_pod(4, revision=NEW), uid="another")}
    assert planned(with_requested(4, 5, pods=next_life), before).hash != plan.hash


def test_a_request_makes_another_plan_than_the_roll_that_it_joins() -> None:
    outdated = {5: a_pod(5), 6: a_pod(6)}
    plan, both = planned(with_requested(pods=outdated)), planned(with_requested(4, pods=outdated))
    assert planned(with_requested(4, pods=outdated), standing(plan)).hash not in (plan.hash, both.hash)
    assert str(both) == f"restart the pods of broker with revision {NEW}, restart pod broker-4, as requested"
    assert planned(with_requested(pods=outdated), standing(both)).hash == both.hash


def test_a_requested_restart_waits_for_its_own_approval_where_every_plan_needs_one() -> None:
    observation = with_requested(4)

    def decided(**approvals: Any) -> Any:
        wanted = DesiredState({}, rollout=ROLLOUT, policy=ApprovalPolicy.ALWAYS, may_approve_unseen=True, **approvals)
        return decide(wanted, observation, roll=rolled(observation))

    decision = decided()
    assert isinstance(decision, Held)
    assert decision.condition == (Condition.APPROVAL_REQUIRED, Reason.PLAN_PENDING)
    assert decision.message.endswith(": restart pod broker-4, as requested")
    assert isinstance(decided(approvals=frozenset({planned(observation).hash})), Act)
    assert isinstance(decided(approvals=frozenset({planned(with_requested(5)).hash})), Held)


def test_the_plan_of_a_requested_restart_is_withdrawn_with_its_driver_also_without_a_reading() -> None:
    status = replace(EMPTY, plan=standing(planned(with_requested(4))))
    for workloads in (workloads_of(with_requested(4)), AWAY):
        assert without_withdrawn_plan(status, DesiredState({}, rollout=ROLLOUT), workloads) == status
    by_hand = DesiredState({}, rollout=Rollout(MANUAL.name))
    assert without_withdrawn_plan(status, by_hand, AWAY).plan is None


def test_partitions_are_read_for_a_requested_restart() -> None:
    wanted = DesiredState({}, rollout=ROLLOUT)
    for observation, partitions in ((with_requested(4), True), (with_requested(), False)):
        assert demands_of(ReadContext(wanted, EMPTY, workloads_of(observation), NOW)).partitions is partitions


def test_a_request_for_a_pod_is_ignored_if_the_driver_is_manual() -> None:
    observation = with_requested(4)
    roll = rolled(observation, rollout=Rollout(MANUAL.name))
    assert (roll.decision, dict(roll.needing)) == (None, {})
