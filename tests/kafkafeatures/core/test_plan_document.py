"""The verdict of a plan document, computed from an evaluation and from its stored status: both agree."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.reasons import Condition, PlanVerdict, Reason
from kafkafeatures.api.status import Intent, read_status
from kafkafeatures.api.values import replace
from kafkafeatures.cli.document.plan import CODES
from kafkafeatures.cli.kube.plan import plan_document_of
from kafkafeatures.core.engine.decisions import Act, Done, Held, Stalled
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState, Mode, OnDrift, Rollout, Window
from kafkafeatures.core.engine.memory import memory_of
from kafkafeatures.core.engine.steps import DryRun, DryRunAccepted, DryRunRejected, DryRunUnavailable, Step, UnknownStep
from kafkafeatures.core.facts.observation import MetadataMode, NodeState, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.levels.soak import soak_of, with_soak
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.report.plan_document import plan_verdict
from kafkafeatures.reconcile.evaluation import Evaluation
from kafkafeatures.reconcile.ports import Resource
from kafkafeatures.reconcile.reading import is_ours
from tests.kafkafeatures import statuses
from tests.kafkafeatures.deciding import changes_in, decide, facts_of, propose, stages_of
from tests.kafkafeatures.worlds import NEW, NOW, OLD, SILENT, answer, node, observation

OTHER = Failure(FailureKind.WRONG_CLUSTER, "h:1", "node 1 is of cluster B", "")
NODES = (node(3001), node(3002), node(1))
OBSERVATIONS = (
    observation(),
    observation(levels={"metadata.version": 27, "group.version": 1}),
    observation(levels={"metadata.version": 20}),
    observation(levels=SILENT),
    observation(voting=SILENT),
    observation(cluster_id=SILENT),
    observation(cluster_id=OTHER),
    observation(cluster_id="cluster-2"),
    observation(mode=MetadataMode.ZOOKEEPER, levels=SILENT),
    observation(mode=MetadataMode.MIGRATING),
    observation(mode=SILENT),
    observation(*NODES, node(2, said=answer(levels={"metadata.version": 20}))),
    observation(*NODES, node(2, said=SILENT, state=NodeState.UNREACHABLE, written=NEW)),
    observation(*NODES, node(2, said=SILENT, state=NodeState.UNREACHABLE, written=None)),
    observation(*NODES, node(2, said=answer(OLD), written=OLD)),
    observation(*NODES, node(3003, said=SILENT, state=NodeState.GHOST, written=OLD, voter=False)),
)
VERDICTS: tuple[DryRun, ...] = (
    DryRunAccepted(),
    DryRunRejected(95, "no"),
    DryRunUnavailable("nobody answers"),
    DryRunUnavailable("no ALTER", rights=True),
)
BEFORE = tuple(
    read_status(status)[0]
    for status in ({}, statuses.in_sync(), statuses.waiting_for_approval(), statuses.unreachable(statuses.acting()))
)
# A value that is listed more than once is drawn more often: most documents apply their plan without a wait.
WANTED = st.builds(
    DesiredState,
    levels=st.fixed_dictionaries(
        {},
        optional={
            "metadata.version": st.sampled_from((20, 21, 27, 99)),
            "group.version": st.sampled_from((0, 1)),
            "no.such": st.just(1),
        },
    ),
    bundle=st.sampled_from(({}, statuses.UP)),
    consents=st.sampled_from((frozenset[str](), frozenset({"metadata.version:21->20"}))),
    mode=st.sampled_from((Mode.APPLY, Mode.APPLY, Mode.OBSERVE)),
    suspend=st.sampled_from((False, False, True)),
    policy=st.sampled_from(ApprovalPolicy),
    approvals=st.sampled_from((frozenset[str](), frozenset({"sha256:0123456789"}))),
    on_drift=st.sampled_from(OnDrift),
    cluster_id=st.sampled_from(("", "cluster-1")),
    finalize_after=st.sampled_from((timedelta(0), timedelta(0), timedelta(hours=1))),
    rollout=st.sampled_from((Rollout(), Rollout(), Rollout(windows=(Window("0 12 * * *", timedelta(hours=1)),)))),
)
UNSETTLED: tuple[tuple[Step | UnknownStep, ...], ...] = (
    *((), (), ()),
    (UpdateFeature("group.version", 0, 1),),
    (UnknownStep(Intent(kind="RestartNode")),),
)


@st.composite
def evaluations(draw: st.DrawFn) -> Evaluation:
    """Evaluations of drawn parts, made as `evaluate` makes them."""
    wanted, observation, before = draw(WANTED), draw(st.sampled_from(OBSERVATIONS)), draw(st.sampled_from(BEFORE))
    server, unsettled = draw(st.sampled_from(VERDICTS)), draw(st.sampled_from(UNSETTLED))
    resource = Resource("kafka/orders", 1, wanted, before)
    memory = memory_of(before, lambda _: timedelta(0), lambda _: timedelta(0))
    proposal = propose(wanted, observation, memory)
    soak = soak_of(replace(facts_of(wanted, observation, now=NOW), remembered=before), changes_in(proposal))
    if soak is not None and soak.started_at and draw(st.sampled_from((False, False, True))):
        soak = replace(soak, remaining=timedelta(0))
    decision = decide(wanted, observation, memory, proposal=proposal, unsettled=unsettled, verdict=server, soak=soak)
    before = with_soak(before, soak)
    stages = stages_of(facts_of(wanted, observation, memory), proposal, verdict=server, soak=soak)
    return Evaluation(
        resource, observation, before, proposal, stages, decision, server, is_ours(resource, observation), NOW
    )


TIMED_WAITS = (Reason.SOAKING, Reason.WAITING_FOR_WINDOW)
"""Reasons of waits that end by themselves at a known time."""


def decided(evaluation: Evaluation) -> PlanVerdict:
    """Return the verdict of the decision itself, without any status."""
    decision, observation = evaluation.decision, evaluation.observation
    if isinstance(decision, Stalled):
        return PlanVerdict.BLOCKED
    if isinstance(observation.finalized, Unknown) or isinstance(observation.cluster_id, Unknown):
        return PlanVerdict.UNKNOWN
    if isinstance(decision, Act):
        return PlanVerdict.CHANGES
    if isinstance(decision, Held):
        approval = decision.reason is Reason.APPROVAL_REQUIRED
        return PlanVerdict.APPROVAL_REQUIRED if approval else PlanVerdict.BLOCKED
    if isinstance(decision, Done):
        if decision.blockers:
            return PlanVerdict.BLOCKED
        return PlanVerdict.CHANGES if changes_in(evaluation.proposal) else PlanVerdict.IN_SYNC
    if decision.reason in TIMED_WAITS:
        return PlanVerdict.APPROVAL_REQUIRED if decision.condition else PlanVerdict.CHANGES
    return PlanVerdict.BLOCKED if decision.blockers and changes_in(evaluation.proposal) else PlanVerdict.UNKNOWN


@given(evaluations())
def test_the_verdict_of_a_file_equals_that_of_its_stored_status_and_the_decision(evaluation: Evaluation) -> None:
    of_file = plan_verdict(evaluation.status, 1)
    stored = json.loads(json.dumps(evaluation.status.as_json()))
    assert of_file == plan_document_of(statuses.resource(stored))["verdict"] == decided(evaluation)


@given(evaluations())
def test_the_verdict_agrees_with_the_conditions_that_the_operator_writes(evaluation: Evaluation) -> None:
    status = evaluation.status
    verdict, ready = plan_verdict(status, 1), status.condition(Condition.READY)
    assert ready is not None
    if verdict is PlanVerdict.IN_SYNC:
        assert ready.status == "True"
        assert not status.plan
    if ready.status == "True" and ready.reason == Reason.IN_SYNC:
        assert verdict is PlanVerdict.IN_SYNC
    if status.condition(Condition.STALLED):
        assert verdict is PlanVerdict.BLOCKED
    if verdict is PlanVerdict.APPROVAL_REQUIRED:
        assert status.condition(Condition.APPROVAL_REQUIRED)
    if verdict is PlanVerdict.CHANGES:
        assert status.plan
        assert ready.reason in (Reason.UPDATING_FEATURES, Reason.OBSERVED, *TIMED_WAITS)


def test_without_a_leader_and_without_a_level_to_change_the_verdict_is_unknown() -> None:
    made = statuses.status(DesiredState({}), observation(voting=SILENT))
    assert made["blockers"]
    assert plan_document_of(statuses.resource(made))["verdict"] is PlanVerdict.UNKNOWN


@given(evaluations())
def test_a_user_who_only_plans_needs_no_right_to_change_levels(evaluation: Evaluation) -> None:
    """Without the right the operator is blocked; a person without it still sees the changes that would be made."""
    decision, status = evaluation.decision, evaluation.status
    only_a_right = isinstance(decision, Stalled) and decision.reason is Reason.NOT_AUTHORIZED
    expected = PlanVerdict.CHANGES if only_a_right else plan_verdict(status, 1)
    assert plan_verdict(status, 1, sends=False) is expected


@pytest.mark.parametrize("field", ["conditions", "plan", "blockers", "features"])
@pytest.mark.parametrize("made", [statuses.acting, statuses.observed, statuses.stalled, statuses.waiting_for_approval])
def test_a_status_that_lost_a_field_is_never_in_sync(made: Callable[[], dict[str, Any]], field: str) -> None:
    left = {name: value for name, value in made().items() if name != field}
    assert plan_document_of(statuses.resource(left))["verdict"] is not PlanVerdict.IN_SYNC


def test_the_verdict_is_blocked_also_where_no_blocker_fits_into_the_status() -> None:
    status, _ = read_status({**statuses.observed(), "blockersTotal": 3})
    assert plan_verdict(status, 1) is PlanVerdict.BLOCKED


def test_every_verdict_has_an_exit_code() -> None:
    assert {verdict.value: int(CODES[verdict]) for verdict in PlanVerdict} == {
        "InSync": 0, "Changes": 0, "ApprovalRequired": 3, "Blocked": 4, "Unknown": 5,
    }  # fmt: skip
