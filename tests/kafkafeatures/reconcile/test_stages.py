"""An image changed in Git: roll, soak, approval and levels are stages of one plan, also if the document is edited
meanwhile.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Done, Held, Wait
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState, Rollout
from kafkafeatures.core.roll.drivers import STATEFUL_SET
from kafkafeatures.environment import Environment
from kafkafeatures.reconcile.act import Reconciliation
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.context import ReconcileContext
from kafkasim.plan import TopicPlan
from kafkasim.pods import Pods
from kafkasim.ports import SimulatedWorkloads
from kafkasim.statefulsets import SetPlan, addresses
from tests.kafkafeatures.reconcile.simulated import Cluster, Store, reconcile_once
from tests.kafkasim.clusters import outdated, plan

OLD, NEW, OTHER = "kafka:4.1.2", "kafka:4.4.0", "kafka:4.3.1"
SETS = (SetPlan("brokers", "brokers", (1, 2, 3), OLD), SetPlan("controllers", "controllers", (3001, 3002, 3003), OLD))
ROLLOUT = Rollout(STATEFUL_SET.name, ("brokers",), ("controllers",), stable_for=timedelta(seconds=5))
WANTED = DesiredState(
    {"metadata.version": 30}, policy=ApprovalPolicy.ALWAYS, finalize_after=timedelta(minutes=10), rollout=ROLLOUT
)


TOPICS = (TopicPlan("orders", ((1, 2, 3), (2, 3, 1)), 2),)


class ClusterInPods:
    """Six nodes of Kafka 4.1 in pods, and a resource: metadata.version 30 after a soak of 10 min, with an approval."""

    def __init__(self, wanted: DesiredState = WANTED, topics: tuple[TopicPlan, ...] = TOPICS) -> None:
        old = plan(dict.fromkeys((1, 2, 3), "4.1"), dict.fromkeys((3001, 3002, 3003), "4.1"), metadata_version=27)
        self.cluster = Cluster({}, replace(old, topics=topics, addresses=addresses(SETS)))
        self.pods = Pods(self.cluster.world, SETS)
        self.ages = Ages(lambda: self.cluster.world.now_ms / 1000)
        self.store = Store(self.cluster, {})
        self.store.wanted = wanted

    def new_image(self, image: str = NEW) -> None:
        for stateful_set in SETS:
            self.pods.set_image(stateful_set.name, image)
        self.wait(1.0)

    def wait(self, seconds: float) -> None:
        self.cluster.world.advance(self.cluster.world.now_ms + int(seconds * 1000))

    def reconcile(self) -> Reconciliation:
        context = ReconcileContext(
            self.store, self.cluster, Environment(clock=self.cluster.now, sleep=self.cluster.sleep), self.ages,
            workloads=SimulatedWorkloads(self.pods),
        )  # fmt: skip
        return asyncio.run(reconcile_once(context))

    def until(self, *reasons: Reason, most: int = 700) -> Reconciliation:
        """Reconcile until Ready has one of these reasons, at most so many times."""
        for _ in range(most):
            last = self.reconcile()
            if self.ready in reasons:
                return last
            self.wait(last.requeue_after or 0.1)
        raise AssertionError(f"{self.ready}: {last.decision}")

    @property
    def ready(self) -> str:
        conditions = {condition["type"]: condition["reason"] for condition in self.store.status["conditions"]}
        return str(conditions[Condition.READY])

    @property
    def stages(self) -> list[str]:
        return [stage["kind"] for stage in self.store.status["plan"]["stages"]]

    @property
    def steps(self) -> list[tuple[str, str]]:
        return [(step["action"], step["state"]) for step in self.store.status["plan"]["steps"]]

    def approve(self) -> str:
        plan_hash: str = self.store.status["plan"]["hash"]
        self.store.wanted = replace(self.store.wanted, approvals=frozenset({plan_hash}))
        return plan_hash


def test_one_approval_covers_the_roll_the_soak_and_the_levels_of_a_plan() -> None:
    life = ClusterInPods()
    life.new_image()
    evaluation = life.until(Reason.APPROVAL_REQUIRED)
    assert isinstance(evaluation.decision, Held)
    assert life.stages == ["Roll", "Levels"]
    approved = life.approve()
    assert outdated(life.pods) != []
    life.until(Reason.SOAKING)
    assert outdated(life.pods) == []
    assert life.store.status["plan"]["hash"] == approved
    assert life.steps == [("RestartNode", "Done"), ("RestartNode", "Done"), ("UpdateFeature", "Pending")]
    assert life.cluster.sent == []
    life.until(Reason.IN_SYNC)
    assert [str(step) for step in life.cluster.sent] == ["metadata.version 27 -> 30"]
    assert "plan" not in life.store.status
    assert "wayBack" not in life.store.status


def test_the_soak_begins_when_the_last_restarted_node_is_stable_and_lasts_finalize_after() -> None:
    life = ClusterInPods(replace(WANTED, policy=ApprovalPolicy.IRREVERSIBLE_ONLY))
    life.new_image()
    life.until(Reason.SOAKING)
    began = life.cluster.world.now_ms
    assert not life.store.status.get("intents")
    life.until(Reason.IN_SYNC)
    assert life.cluster.world.now_ms - began >= 599_000  # ten minutes, less a second, as a status has whole seconds


def test_another_image_in_the_middle_of_a_roll_is_another_plan_that_waits_for_its_own_approval() -> None:
    life = ClusterInPods()
    life.new_image()
    life.until(Reason.APPROVAL_REQUIRED)
    first = life.approve()
    life.until(Reason.ROLLING_NODES)
    for _ in range(30):  # half a minute of the roll, which takes longer
        life.reconcile()
        life.wait(1.0)
    life.new_image(OTHER)
    outdated_before = len(outdated(life.pods))
    life.until(Reason.APPROVAL_REQUIRED)
    assert life.store.status["plan"]["hash"] != first
    conditions = {condition["type"]: condition["reason"] for condition in life.store.status["conditions"]}
    assert conditions["ApprovalRequired"] == Reason.PLAN_CHANGED
    life.wait(60)
    life.reconcile()
    assert len(outdated(life.pods)) == outdated_before
    life.approve()
    life.until(Reason.IN_SYNC)
    assert outdated(life.pods) == []


def test_a_plan_that_makes_topics_unavailable_is_approved_with_them_and_stands_while_nodes_are_restarted() -> None:
    consents, single = frozenset({"single-replica-topics"}), TopicPlan("one", ((2,),), 1)
    life = ClusterInPods(topics=(*TOPICS, single))
    life.new_image()
    life.until(Reason.APPROVAL_REQUIRED, Reason.CONSENT_REQUIRED)
    without = life.approve()
    life.until(Reason.CONSENT_REQUIRED)
    life.store.wanted = replace(life.store.wanted, consents=consents)
    life.until(Reason.APPROVAL_REQUIRED)
    assert len(outdated(life.pods)) == 6  # all nodes: none was restarted without the consent
    approved = life.approve()
    assert approved != without
    life.until(Reason.SOAKING)
    assert outdated(life.pods) == []
    assert life.store.status["plan"]["hash"] == approved
    life.store.wanted = replace(life.store.wanted, consents=frozenset())
    life.until(Reason.IN_SYNC)
    # The consent counts from the approval on: its removal during the soak does not change the plan.
    assert life.store.status["history"][-1]["planHash"] == approved


def test_the_consent_of_one_roll_is_for_the_topics_of_its_plan_and_for_no_other_image() -> None:
    consents = frozenset({"single-replica-topics"})
    life = ClusterInPods(
        replace(WANTED, policy=ApprovalPolicy.NEVER, consents=consents), (*TOPICS, TopicPlan("one", ((2,),), 1))
    )
    life.new_image()
    life.until(Reason.ROLLING_NODES)
    rollout, plan = life.store.status["rollout"], life.store.status["plan"]
    assert (rollout["excused"]["partitions"], rollout["excused"]["names"]) == (1, ["one"])
    assert plan["stages"][0]["excused"]["names"] == ["one"]
    assert "1 partition of 1 topic (one)" in plan["steps"][0]["detail"]
    assert life.store.status["spentConsents"] == ["single-replica-topics"]
    life.new_image(OTHER)
    life.until(Reason.CONSENT_SPENT)
    assert not life.store.status["rollout"].get("excused")
    life.store.wanted = replace(life.store.wanted, consents=frozenset())
    life.until(Reason.CONSENT_REQUIRED)
    life.store.wanted = replace(life.store.wanted, consents=consents, finalize_after=timedelta(0))
    life.until(Reason.IN_SYNC)
    assert outdated(life.pods) == []


def test_an_edited_level_in_the_middle_of_a_soak_is_another_plan_and_restarts_no_node_again() -> None:
    life = ClusterInPods()
    life.new_image()
    life.until(Reason.APPROVAL_REQUIRED)
    life.approve()
    life.until(Reason.SOAKING)
    uids = {name: life.pods.uid(name) for name in life.pods.names()}
    life.store.wanted = replace(life.store.wanted, levels={"metadata.version": 32})
    last = life.reconcile()
    assert isinstance(last.decision, Wait)
    assert last.decision.condition == (Condition.APPROVAL_REQUIRED, Reason.PLAN_CHANGED)
    life.approve()
    life.until(Reason.IN_SYNC)
    assert life.cluster.levels["metadata.version"] == 32
    assert {name: life.pods.uid(name) for name in life.pods.names()} == uids


def test_a_plan_suspended_midway_restarts_no_node_and_raises_no_level_until_it_is_resumed() -> None:
    life = ClusterInPods(replace(WANTED, policy=ApprovalPolicy.NEVER))
    life.new_image()
    life.until(Reason.ROLLING_NODES)
    life.store.wanted = replace(life.store.wanted, suspend=True)
    life.until(Reason.SUSPENDED)
    outdated_before = len(outdated(life.pods))
    for _ in range(60):
        life.reconcile()
        life.wait(5.0)
    assert life.cluster.sent == []
    assert len(outdated(life.pods)) == outdated_before > 0
    life.store.wanted = replace(life.store.wanted, suspend=False)
    assert isinstance(life.until(Reason.IN_SYNC).decision, Done)
    assert outdated(life.pods) == []


def test_reverting_the_image_during_the_soak_rolls_the_nodes_back() -> None:
    life = ClusterInPods(replace(WANTED, policy=ApprovalPolicy.NEVER))
    life.new_image()
    life.until(Reason.SOAKING)
    assert life.store.status["wayBack"]["until"]
    life.store.wanted = replace(life.store.wanted, levels={"metadata.version": 27})
    life.new_image(OLD)
    life.until(Reason.IN_SYNC)
    assert outdated(life.pods) == []
    assert {node.release.name for node in life.cluster.world.nodes.values()} == {"4.1"}
    assert life.cluster.levels["metadata.version"] == 27
