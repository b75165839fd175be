"""A document that is pointed to another cluster: nothing of the first is concluded from it, nothing is sent to it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.decide import Done, Held, Stalled
from kafkafeatures.core.observation import Observation
from kafkafeatures.core.steps import Outcome, OutcomeUnknown, UpdateFeature
from kafkafeatures.core.wanted import ApprovalPolicy, OnDrift, Wanted
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.consider import consider
from kafkafeatures.reconcile.loop import Pass, Shell, one_pass
from kafkasim.ports import SimulatedCluster
from tests.kafkafeatures.reconcile.in_memory import Home, World
from tests.kafkasim.clusters import plan, world

A, B = "AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBB"
LOWER = Wanted({"group.version": 0}, consents=frozenset({"group.version:1->0"}))


class Simulated(SimulatedCluster):
    """One that tells what it was asked to change, and may lose the request or the answer."""

    def __init__(self, cluster_id: str, **levels: int) -> None:
        super().__init__(world(replace(plan(metadata_version=25, **levels), cluster_id=cluster_id)))
        self.validated: list[UpdateFeature] = []
        self.sent: list[UpdateFeature] = []
        self.loses = ""

    async def validate(self, changes: Any) -> Any:
        self.validated += changes
        return await super().validate(changes)

    async def update(self, change: UpdateFeature) -> Outcome:
        self.sent.append(change)
        if self.loses == "request":
            return OutcomeUnknown("EOF")
        outcome = await super().update(change)
        return OutcomeUnknown("EOF") if self.loses == "answer" else outcome

    def level(self, feature: str) -> int:
        return self.world.image.features.get(feature, 0)


def one(home: Home, kafka: SimulatedCluster) -> Pass:
    return asyncio.run(one_pass(Shell(home=home, kafka=kafka, now=kafka.now, sleep=kafka.sleep)))


def until_settled(home: Home, kafka: SimulatedCluster) -> Pass:
    for _ in range(20):
        last = one(home, kafka)
        if last.requeue_after is None:
            return last
    raise AssertionError(last)


def home_of(wanted: Wanted) -> Home:
    made = Home(World({}), {})
    made.wanted = wanted
    return made


def facts(home: Home) -> dict[str, Any]:
    """What the status holds of the cluster, without what is said of the last reconciliation."""
    return {name: value for name, value in home.status.items() if name not in ("conditions", "observedGeneration")}


@pytest.mark.parametrize("named", [B, ""], ids=["with the other's cluster id", "without a cluster id"])
@pytest.mark.parametrize("level", [0, 1], ids=["where the level is there", "where it reads as before"])
@pytest.mark.parametrize("lost", ["request", "answer"])
def test_an_intent_and_a_spent_consent_wait_for_their_own_cluster(named: str, level: int, lost: str) -> None:
    ours, other = Simulated(A, group_version=1), Simulated(B, group_version=level)
    home = home_of(replace(LOWER, cluster_id=A))
    ours.loses = lost
    one(home, ours)
    before = facts(home)
    assert (before["intent"]["target"], before["spentConsents"]) == ("group.version", ["group.version:1->0"])
    home.wanted = replace(LOWER, cluster_id=named)
    for _ in range(3):
        last = one(home, other)
        assert isinstance(last.decision, Stalled)
        assert last.decision.reason is Reason.CLUSTER_ID_MISMATCH
    assert facts(home) == before
    assert (other.sent, other.validated, other.level("group.version")) == ([], [], level)

    home.wanted, ours.loses = replace(LOWER, cluster_id=A), ""
    assert isinstance(until_settled(home, ours).decision, Done)
    assert (len(ours.sent), ours.level("group.version")) == (1 if lost == "answer" else 2, 0)
    assert home.status["spentConsents"] == ["group.version:1->0"]
    assert "intent" not in home.status


@pytest.mark.parametrize("named", [B, ""], ids=["with the other's cluster id", "without a cluster id"])
def test_what_was_reached_on_one_cluster_is_no_drift_of_another(named: str) -> None:
    ours, other = Simulated(A), Simulated(B)
    wanted = Wanted({"group.version": 1}, on_drift=OnDrift.CORRECT, policy=ApprovalPolicy.NEVER)
    home = home_of(wanted)
    assert isinstance(until_settled(home, ours).decision, Done)
    before = facts(home)
    home.wanted = replace(wanted, cluster_id=named)
    assert isinstance(one(home, other).decision, Stalled)
    assert facts(home) == before
    assert (other.sent, other.validated) == ([], [])
    assert "DriftDetected" not in {condition["type"] for condition in home.status["conditions"]}


def test_a_level_of_another_cluster_is_never_taken_for_one_that_was_reached() -> None:
    ours, other = Simulated(A, group_version=1), Simulated(B)
    wanted = Wanted({"group.version": 0})
    home = home_of(replace(wanted, cluster_id=A))
    assert isinstance(one(home, ours).decision, Stalled)  # no consent
    home.wanted = replace(wanted, cluster_id=B)
    one(home, other)  # in sync there
    home.wanted = replace(wanted, cluster_id=A, on_drift=OnDrift.CORRECT, consents=LOWER.consents)
    last = one(home, ours)
    assert not isinstance(last.decision, Held | Stalled)
    assert home.status["intent"]["action"] == "UpdateFeature"  # and no correction of a drift that never was


def test_a_plan_on_paper_knows_nothing_of_the_other_cluster_either() -> None:
    ours, other = Simulated(A), Simulated(B)
    home = home_of(Wanted({"group.version": 1}))
    until_settled(home, ours)

    async def on_paper() -> Any:
        return await consider(
            await home.read(), await other.look(), other, now=other.now, ages=Ages(), sleep=other.sleep
        )

    found = asyncio.run(on_paper())
    assert isinstance(found.decision, Stalled)
    assert found.proposal.drifted == ()
    assert found.before["history"] == home.status["history"]


def test_a_cluster_that_changes_between_the_two_looks_settles_nothing() -> None:
    """The same addresses lead to another cluster in the second that an unknown outcome is given."""
    ours, other = Simulated(A, group_version=1), Simulated(B, group_version=0)
    home = home_of(LOWER)
    ours.loses = "request"
    one(home, ours)
    before = facts(home)
    looks = iter((ours, other))

    class Switched(Simulated):
        async def look(self) -> Observation:
            return await next(looks).look()

    switched = Switched(A)
    last = one(home, switched)
    assert home.status["intent"] == before["intent"]
    assert "history" not in home.status
    assert home.status["spentConsents"] == ["group.version:1->0"]
    assert not isinstance(last.decision, Done)
    assert (switched.sent, other.sent) == ([], [])
