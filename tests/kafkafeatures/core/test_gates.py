"""The gates that every step passes, in one order for all kinds of stages."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Decision, Done, Held, Stalled, Wait
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState, Mode, Window
from kafkafeatures.core.engine.gates import GATES, Owner
from kafkafeatures.core.engine.steps import DryRunAccepted
from tests.kafkafeatures.core.plans import world
from tests.kafkafeatures.core.rolls import ROLLED_CONTROLLERS, ROLLOUT, cluster, replaced, rolled, sent
from tests.kafkafeatures.deciding import decide, propose

PAGE = Path(__file__).resolve().parents[3] / "docs/explanation/how-it-decides.md"
CLOSED = replace(ROLLOUT, windows=(Window("0 22 * * *", timedelta(hours=1)),))
LEVELS = DesiredState({"metadata.version": 30}, rollout=CLOSED)
ROLLS = DesiredState({}, rollout=CLOSED)


def test_the_gates_are_one_tuple_and_the_documentation_explains_them_in_its_order() -> None:
    names = [gate.__name__ for gate in GATES]
    assert names == [
        "cluster", "owner", "unsettled", "mode", "suspend", "drift", "blockers", "soak", "window", "approval", "claim",
    ]  # fmt: skip
    section = PAGE.read_text().split("## The gates")[1].split("\n## ")[0]
    assert re.findall(r"^\d+\. \*\*(\w+)\*\*", section, re.MULTILINE) == names
    assert all(gate.__doc__ for gate in GATES)


def decision_at(wanted: DesiredState, owner: Owner | None = None) -> Decision:
    """Return the decision about levels if the document names any, else the one about restarts."""
    if wanted.levels:
        return decide(wanted, world(), verdict=DryRunAccepted(), owner=owner)
    return decide(wanted, cluster(), roll=rolled(cluster(), rollout=wanted.rollout), owner=owner)


@pytest.mark.parametrize("wanted", [LEVELS, ROLLS], ids=["levels", "restarts"])
def test_opening_one_gate_after_another_shows_each_next_gate_for_every_kind_of_stage(wanted: DesiredState) -> None:
    """`shut` closes every gate of the document; each line below opens one more."""
    policy, another = ApprovalPolicy.ALWAYS, frozenset({"sha256:0123456789"})
    shut = replace(wanted, cluster_id="another", mode=Mode.OBSERVE, suspend=True, policy=policy, approvals=another)
    older = Owner("kafka/older", owns_cluster=True)
    decisions = [decision_at(shut, older)]
    decisions.append(decision_at(shut := replace(shut, cluster_id=""), older))
    decisions.append(decision_at(shut, maybe := replace(older, owns_cluster=False)))
    decisions.append(decision_at(shut := replace(shut, mode=Mode.APPLY), maybe))
    decisions.append(decision_at(shut := replace(shut, suspend=False), maybe))
    decisions.append(decision_at(shut := replace(shut, rollout=replace(CLOSED, windows=())), maybe))
    decisions.append(decision_at(shut := replace(shut, approvals=frozenset(), policy=ApprovalPolicy.NEVER), maybe))
    assert [(type(decision), getattr(decision, "reason", None)) for decision in decisions] == [
        (Stalled, Reason.CLUSTER_ID_MISMATCH),
        (Stalled, Reason.DUPLICATE_OWNER),
        (Done, Reason.OBSERVED),
        (Held, Reason.SUSPENDED),
        (Wait, Reason.WAITING_FOR_WINDOW),
        (Held, Reason.APPROVAL_REQUIRED),
        (Wait, Reason.PREFLIGHT),
    ]
    assert isinstance(decision_at(shut), Act)


@pytest.mark.parametrize("wanted", [LEVELS, ROLLS], ids=["levels", "restarts"])
def test_no_step_begins_while_an_older_resource_may_own_the_cluster(wanted: DesiredState) -> None:
    opened = replace(wanted, rollout=replace(CLOSED, windows=()), policy=ApprovalPolicy.NEVER)
    assert isinstance(decision_at(opened), Act)
    assert isinstance(decision_at(opened, Owner("kafka/older", owns_cluster=False)), Wait)


@pytest.mark.parametrize("wanted", [LEVELS, ROLLS], ids=["levels", "restarts"])
def test_a_plan_that_waits_for_its_window_can_be_approved_meanwhile(wanted: DesiredState) -> None:
    decision = decision_at(replace(wanted, policy=ApprovalPolicy.ALWAYS))
    assert isinstance(decision, Wait)
    assert decision.reason is Reason.WAITING_FOR_WINDOW
    assert decision.condition == (Condition.APPROVAL_REQUIRED, Reason.PLAN_PENDING)
    assert "approve plan sha256:" in decision.message


CLOSING = {
    "suspended": replace(ROLLS, suspend=True, rollout=ROLLOUT),
    "mode Observe": replace(ROLLS, mode=Mode.OBSERVE, rollout=ROLLOUT),
    "the next window of spec.rollout opens at": ROLLS,
    "approve plan sha256:": replace(ROLLS, policy=ApprovalPolicy.ALWAYS, rollout=ROLLOUT),
}


@pytest.mark.parametrize("gate", CLOSING)
def test_a_closed_gate_begins_no_further_restart_and_the_message_names_the_restarts_in_flight(gate: str) -> None:
    observation = cluster({**ROLLED_CONTROLLERS, **replaced(1)})
    wanted = CLOSING[gate]
    open_ = replace(wanted, suspend=False, mode=Mode.APPLY, policy=ApprovalPolicy.NEVER, rollout=ROLLOUT)
    roll = rolled(observation, sent(1), rollout=wanted.rollout)
    assert isinstance(decide(open_, observation, roll=roll), Act)
    decision = decide(wanted, observation, roll=roll)
    assert isinstance(decision, Wait)
    assert decision.reason is Reason.ROLLING_NODES
    assert decision.message.startswith(gate)
    assert decision.message.endswith("still in flight: broker 1")


def test_the_message_of_a_suspended_roll_has_the_cause_that_halts_the_roll() -> None:
    blocked = replace(
        rolled(cluster()),
        decision=Stalled(Reason.ROLLOUT_HALTED, "broker 1 is not back", subject="broker 1", remedy="see its log"),
    )
    decision = decide(DesiredState({}, suspend=True, rollout=ROLLOUT), cluster(), roll=blocked)
    assert isinstance(decision, Held)
    assert decision.message == "suspended; would restart 9 nodes; now: broker 1 is not back"


def test_a_plan_that_is_over_waits_for_no_approval() -> None:
    wanted = DesiredState({"metadata.version": 25}, policy=ApprovalPolicy.ALWAYS)
    assert propose(wanted, world()).plan.is_over
    assert isinstance(decision_at(wanted), Done)
