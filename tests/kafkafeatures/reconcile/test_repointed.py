"""A document that is pointed to another cluster: the status of the first cluster decides nothing about the second."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Done, Held, Stalled
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState, OnDrift
from kafkafeatures.core.engine.steps import DryRun, Outcome, OutcomeUnknown
from kafkafeatures.core.facts.readings import Readings
from kafkafeatures.core.levels.stage import levels_in
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.context import ReconcileContext
from kafkafeatures.reconcile.evaluate import evaluate
from kafkafeatures.reconcile.evaluation import Evaluation
from tests.kafkafeatures.reconcile.simulated import Cluster, Store, once, run
from tests.kafkasim.clusters import plan
from tests.simulated import schema

A, B = "AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBB"
LOWER = DesiredState({"group.version": 0}, consents=frozenset({"group.version:1->0"}))


class Simulated(Cluster):
    """A cluster that may lose the request of a change, or its answer: `loses`."""

    def __init__(self, cluster_id: str, group_version: int = 0) -> None:
        levels = {"metadata.version": 25, "group.version": group_version}
        super().__init__(levels, replace(plan(), cluster_id=cluster_id))
        self.validated: list[UpdateFeature] = []
        self.loses = ""

    async def validate(self, changes: Sequence[UpdateFeature], *, directly: bool = False) -> DryRun:
        self.validated += changes
        return await super().validate(changes, directly=directly)

    async def update(self, change: UpdateFeature) -> Outcome:
        self.outcomes = [OutcomeUnknown("EOF")] if self.loses == "request" else []
        outcome = await super().update(change)
        return OutcomeUnknown("EOF") if self.loses == "answer" else outcome

    def level(self, feature: str) -> int:
        return self.levels.get(feature, 0)


def store_of(wanted: DesiredState) -> Store:
    store = Store(Simulated(A), {})
    store.wanted = wanted
    return store


def facts(store: Store) -> dict[str, Any]:
    """Return the part of the status about the cluster, without the conditions of the last reconciliation."""
    omitted = ("conditions", "readyReason", "observedGeneration")
    return {name: value for name, value in store.status.items() if name not in omitted}


@pytest.mark.parametrize("named", [B, ""], ids=["document names the other cluster", "document names no cluster"])
@pytest.mark.parametrize("level", [0, 1], ids=["level is at the target", "level is unchanged"])
@pytest.mark.parametrize("lost", ["request", "answer"])
def test_an_intent_and_a_spent_consent_wait_for_their_own_cluster(named: str, level: int, lost: str) -> None:
    ours, other = Simulated(A, group_version=1), Simulated(B, group_version=level)
    store = store_of(replace(LOWER, cluster_id=A))
    ours.loses = lost
    once(ours, store)
    before = facts(store)
    assert (before["intents"][0]["target"], before["spentConsents"]) == ("group.version", ["group.version:1->0"])
    store.wanted = replace(LOWER, cluster_id=named)
    for _ in range(3):
        last = once(other, store)
        assert isinstance(last.decision, Stalled)
        assert last.decision.reason is Reason.CLUSTER_ID_MISMATCH
    assert facts(store) == before
    assert (other.sent, other.validated, other.level("group.version")) == ([], [], level)

    store.wanted, ours.loses = replace(LOWER, cluster_id=A), ""
    assert isinstance(run(ours, store).decision, Done)
    assert (len(ours.sent), ours.level("group.version")) == (1 if lost == "answer" else 2, 0)
    assert store.status["spentConsents"] == ["group.version:1->0"]
    assert "intents" not in store.status


@pytest.mark.parametrize("named", [B, ""], ids=["document names the other cluster", "document names no cluster"])
def test_a_level_reached_on_one_cluster_is_no_drift_on_another_cluster(named: str) -> None:
    ours, other = Simulated(A), Simulated(B)
    wanted = DesiredState({"group.version": 1}, on_drift=OnDrift.CORRECT, policy=ApprovalPolicy.NEVER)
    store = store_of(wanted)
    assert isinstance(run(ours, store).decision, Done)
    before = facts(store)
    store.wanted = replace(wanted, cluster_id=named)
    assert isinstance(once(other, store).decision, Stalled)
    assert facts(store) == before
    assert (other.sent, other.validated) == ([], [])
    assert "DriftDetected" not in {condition["type"] for condition in store.status["conditions"]}


def test_a_status_without_cluster_id_belongs_to_no_cluster_until_the_document_names_one() -> None:
    ours, other = Simulated(A), Simulated(B)
    store = store_of(DesiredState({"group.version": 1}))
    run(ours, store)
    store.wanted = LOWER
    store.server.schema = schema.open_status()
    for lost in ({}, {"clusterId": ["?"]}):
        without_id = {name: value for name, value in store.status.items() if name != "clusterId"}
        store.status = {**without_id, **lost}
        for cluster in (other, ours):
            last = once(cluster, store)
            assert isinstance(last.decision, Stalled)
            assert last.decision.reason is Reason.CLUSTER_ID_MISMATCH
    assert (other.sent, other.validated, len(ours.sent)) == ([], [], 1)
    store.wanted = replace(store.wanted, cluster_id=A)
    assert isinstance(run(ours, store).decision, Held)  # the list of used consents may be lost as well
    store.wanted = replace(store.wanted, approvals=frozenset({store.status["plan"]["hash"]}))
    assert isinstance(run(ours, store).decision, Done)
    assert store.status["clusterId"] == A


@pytest.mark.parametrize("part", ["intents", "spentConsents"])
@pytest.mark.parametrize("level", [0, 1], ids=["level is at the target", "level is unchanged"])
def test_a_part_of_a_status_without_cluster_id_belongs_to_no_cluster(part: str, level: int) -> None:
    ours, other = Simulated(A, group_version=1), Simulated(B, group_version=level)
    store = store_of(replace(LOWER, cluster_id=A))
    ours.loses = "request"
    once(ours, store)
    store.server.schema = schema.open_status()
    store.status = {part: store.status[part]}
    store.wanted = LOWER
    for _ in range(3):
        last = once(other, store)
        assert isinstance(last.decision, Stalled)
        assert last.decision.reason is Reason.CLUSTER_ID_MISMATCH
    assert (other.sent, other.validated, other.level("group.version")) == ([], [], level)
    assert part in store.status


def test_a_level_of_another_cluster_is_never_taken_for_a_reached_level() -> None:
    ours, other = Simulated(A, group_version=1), Simulated(B)
    wanted = DesiredState({"group.version": 0})
    store = store_of(replace(wanted, cluster_id=A))
    assert isinstance(once(ours, store).decision, Stalled)  # no consent
    store.wanted = replace(wanted, cluster_id=B)
    once(other, store)  # in sync there
    store.wanted = replace(wanted, cluster_id=A, on_drift=OnDrift.CORRECT, consents=LOWER.consents)
    last = once(ours, store)
    assert not isinstance(last.decision, Held | Stalled)
    assert "correctsDrift" not in store.status["intents"][0]  # level 0 was never reached on this cluster


def test_an_evaluation_without_sending_uses_nothing_of_the_former_cluster() -> None:
    ours, other = Simulated(A), Simulated(B)
    store = store_of(DesiredState({"group.version": 1}))
    run(ours, store)

    async def on_paper() -> Any:
        return await evaluate(
            ReconcileContext(store, other, Environment(clock=other.now, sleep=other.sleep), Ages(SYSTEM.monotonic)),
            await store.read(),
        )

    planned = asyncio.run(on_paper())
    assert isinstance(planned, Evaluation)
    assert isinstance(planned.decision, Stalled)
    assert levels_in(planned.proposal).drifted == ()
    assert planned.remembered.as_json()["history"] == store.status["history"]


def test_readings_of_two_different_clusters_settle_no_step() -> None:
    """Between the two readings that settle a step, the addresses lead to another cluster, whose log is longer."""
    ours, other = Simulated(A, group_version=1), Simulated(B, group_version=0)
    for level in (1, 0) * 10:
        assert other.move("transaction.version", level)
    store = store_of(LOWER)
    ours.loses = "request"
    once(ours, store)
    before = facts(store)
    looks = iter((ours, other))

    class Switched(Simulated):
        async def read(self, **demands: Any) -> Readings:
            return await next(looks).read()

    switched = Switched(A)
    last = once(switched, store)
    assert store.status["intents"][0] == before["intents"][0]
    assert "history" not in store.status
    assert store.status["spentConsents"] == ["group.version:1->0"]
    assert not isinstance(last.decision, Done)
    assert (switched.sent, other.sent) == ([], [])
