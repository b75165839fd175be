"""Stories on a simulated cluster, as the statuses that reconciliations write: a roll, changes of levels whose outcome
is open for a while, and restarts by a person. Each run is the same, to the second and to the id.

`python -m tests.kafkafeatures.reconcile.stories` has recorded them into `tests/golden/statuses`, as written by the
release that was current then. Later releases have to read these statuses, and to continue from each of them: do not
record again.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from kafkafeatures.api.status import Status, Via, read_status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState, OnDrift, Rollout
from kafkafeatures.core.engine.steps import NotSent, Outcome, OutcomeUnknown, Rejected
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.ports import PreparedUpdate, Withheld
from kafkafeatures.core.roll.drivers import MANUAL, STATEFUL_SET, driver_of
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.environment import Environment
from kafkafeatures.reconcile.act import Reconciliation, reconcile
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.context import ReconcileContext
from kafkafeatures.reconcile.ports import Resource
from kafkasim.plan import NodePlan, Plan, TopicPlan
from kafkasim.pods import Pods
from kafkasim.ports import SimulatedCluster, SimulatedWorkloads
from kafkasim.releases import release_named
from kafkasim.rules import FeatureUpdate, UpgradeType
from kafkasim.statefulsets import BudgetPlan, SetPlan, addresses
from kafkasim.world import World

Json = dict[str, Any]

GOLDEN = Path(__file__).parents[2] / "golden" / "statuses"
BEGINS_MS = 1_800_000_000_000
CONTROLLERS, BROKERS = (101, 102, 103), (1, 2, 3)
SETS = (
    SetPlan("controller", "controllers", CONTROLLERS, "kafka:4.1.2"),
    SetPlan("broker", "brokers", BROKERS, "kafka:4.1.2"),
)
TOPICS = (TopicPlan("orders", ((1, 2, 3), (2, 3, 1), (3, 1, 2)), 2),)
BEFORE = release_named("4.1")
BY_SETS = Rollout(STATEFUL_SET.name, ("broker",), ("controller",))
MAX_RECONCILIATIONS = 600
"""After so many a story has failed."""


class Kafka(SimulatedCluster):
    """A cluster to which changes may be lost on their way, or go through a broker. `lost`: for each of the next
    changes, True if it is lost.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.lost: list[bool] = []
        self.through_broker = False
        self.sent: list[UpdateFeature] = []

    @asynccontextmanager
    async def prepared(self, change: UpdateFeature) -> AsyncIterator[PreparedUpdate | NotSent]:
        async with super().prepared(change) as request:
            yield request if isinstance(request, NotSent) else _Way(self, change, request)


@dataclass
class _Way:
    kafka: Kafka
    change: UpdateFeature
    request: PreparedUpdate

    @property
    def via(self) -> Via:
        return Via.BROKER if self.kafka.through_broker else Via.CONTROLLER

    async def send(self, withheld: Withheld) -> Outcome:
        self.kafka.sent.append(self.change)
        if self.kafka.lost and self.kafka.lost.pop(0):
            return OutcomeUnknown("EOF")
        return await self.request.send(withheld)


class Restarts(SimulatedWorkloads):
    """Evictions, of which the first ones have these `answers`. `asked`: the pods of all of them."""

    def __init__(self, pods: Pods) -> None:
        super().__init__(pods)
        self.answers: list[Outcome] = []
        self.asked: list[str] = []

    async def restart(self, step: RestartNode, withheld: Withheld) -> Outcome:
        self.asked.append(step.pod)
        return self.answers.pop(0) if self.answers else await super().restart(step, withheld)


@dataclass
class Store:
    """The resource, with its status as JSON. `written`: the status after each write."""

    wanted: DesiredState
    status: Json = field(default_factory=dict)
    written: list[Json] = field(default_factory=list)

    async def read(self) -> Resource:
        status, invalid = read_status(json.loads(json.dumps(self.status)))
        return Resource("story", 1, self.wanted, status, invalid)

    async def read_again(self) -> Resource:
        return await self.read()

    async def write_status(self, status: Status) -> None:
        self.status = json.loads(json.dumps(status.as_json()))
        self.written.append(self.status)


class Scene:
    """A cluster in pods, one resource for it, and its reconciliations."""

    def __init__(self, wanted: DesiredState) -> None:
        nodes = [(Role.CONTROLLER, controller) for controller in CONTROLLERS] + [
            (Role.BROKER, broker) for broker in BROKERS
        ]
        plan = Plan(
            tuple(NodePlan(role, node_id, BEFORE) for role, node_id in nodes),
            {"metadata.version": BEFORE.bootstrap_level},
            leader=CONTROLLERS[0],
            addresses=addresses(SETS),
            topics=TOPICS,
        )
        self.world = World(plan, now_ms=BEGINS_MS, random=Random(1))
        self.pods = Pods(self.world, SETS)
        self.pods.budgets.append(BudgetPlan("kafka", tuple(stateful_set.name for stateful_set in SETS)))
        self.kafka, self.restarts = Kafka(self.world), Restarts(self.pods)
        self.store = Store(wanted)
        self.ages = Ages(self._monotonic)
        self.told: list[Reconciliation] = []

    def restart_process(self) -> None:
        """Drop what the process itself has measured, as a new process does."""
        self.ages = Ages(self._monotonic)

    async def once(self) -> Reconciliation:
        """Reconcile, and wait until the next reconciliation is due."""
        by_sets = driver_of(self.store.wanted.rollout).reads_pods
        context = ReconcileContext(
            self.store, self.kafka, Environment(self._now, self._monotonic, sleep=self._sleep), self.ages,
            workloads=self.restarts if by_sets else None,
        )  # fmt: skip
        done = await reconcile(context, await self.store.read())
        await self._sleep(min(30.0, 30.0 if done.requeue_after is None else done.requeue_after))
        self.told.append(done)
        return done

    async def until(self, reached: Callable[[Json], bool], between: Callable[[], None] = lambda: None) -> None:
        """Reconcile until `reached` is true of the status. `between`: what happens after each reconciliation."""
        for _ in range(MAX_RECONCILIATIONS):
            await self.once()
            between()
            if reached(self.store.status):
                return
        raise AssertionError(self.store.status)

    def set_images(self) -> None:
        for stateful_set in SETS:
            self.pods.set_image(stateful_set.name, "kafka:4.4.0")
        self.world.advance(self.world.now_ms + 1000)

    def _now(self) -> datetime:
        return self.kafka.now()

    def _monotonic(self) -> float:
        return self.world.now_ms / 1000

    async def _sleep(self, seconds: float) -> None:
        self.world.advance(self.world.now_ms + max(int(seconds * 1000), 1), sparse=True)


Between = Callable[[Scene], None]


def _nothing(_: Scene) -> None:
    """Nothing happens between two reconciliations."""


def is_in_sync(status: Json) -> bool:
    """Tell whether all levels and restarts are done."""
    rollout = status.get("rollout", {})
    ready: Json = next((condition for condition in status.get("conditions", ()) if condition["type"] == "Ready"), {})
    return (
        ready.get("reason") in ("InSync", "Observed")
        and "intents" not in status
        and rollout.get("done", 0) == rollout.get("total", 0)
    )


async def roll(between: Between = _nothing) -> Scene:
    """Three controllers and three brokers in pods, then the levels. One eviction is lost, and for a moment the resource
    is suspended; a budget refuses another one.
    """
    scene = Scene(DesiredState({"metadata.version": 31}, rollout=BY_SETS, finalize_after=timedelta(minutes=5)))
    await scene.once()
    scene.set_images()
    scene.restarts.answers = [OutcomeUnknown("EOF"), Rejected(429, "the budget does not allow it")]
    await scene.once()
    for suspend in (True, True, False):
        scene.store.wanted = replace(scene.store.wanted, suspend=suspend)
        between(scene)
        await scene.once()
    await scene.until(is_in_sync, lambda: between(scene))
    return scene


async def levels(between: Between = _nothing) -> Scene:
    """Two levels are raised, and the first change is lost. Another client lowers one of them, and this is corrected.
    Then the document lowers it, with a consent, through a broker.
    """
    scene = Scene(DesiredState({"group.version": 1, "metadata.version": 27}, policy=ApprovalPolicy.NEVER))
    scene.kafka.lost = [True, False, True]
    await scene.until(is_in_sync, lambda: between(scene))
    leader = scene.world.active_node
    assert leader is not None
    moved = FeatureUpdate("group.version", 0, UpgradeType.SAFE_DOWNGRADE)
    scene.world.update_features(leader, [moved], validate_only=False)
    scene.store.wanted = replace(scene.store.wanted, on_drift=OnDrift.CORRECT)
    await scene.until(is_in_sync, lambda: between(scene))
    scene.kafka.through_broker, scene.kafka.lost = True, [True]
    scene.store.wanted = DesiredState({"group.version": 0}, consents=frozenset({"group.version:1->0"}))
    await scene.until(is_in_sync, lambda: between(scene))
    return scene


async def by_hand(between: Between = _nothing) -> Scene:
    """A person is asked to restart every node with a newer Kafka, does it, and the level is raised."""
    scene = Scene(DesiredState({"metadata.version": 31}, rollout=Rollout(MANUAL.name)))

    def restart_what_was_asked_for() -> None:
        between(scene)
        for intent in scene.store.status.get("intents", ()):
            if intent["kind"] == "RestartNode" and "stableSince" not in intent and "stoppedAfter" not in intent:
                stateful_set = "controller" if intent["nodeId"] in CONTROLLERS else "broker"
                scene.pods.set_image(stateful_set, "kafka:4.4.0")
                scene.world.advance(scene.world.now_ms + 1000)
                pod = scene.pods.reading().pod(f"{stateful_set}-{(intent['nodeId'] - 1) % 100}")
                assert pod is not None
                if scene.pods.evict(pod.name, pod.uid):
                    scene.world.advance(scene.world.now_ms + 5000)

    await scene.until(is_in_sync, restart_what_was_asked_for)
    return scene


STORIES: Mapping[str, Callable[..., Any]] = {"roll": roll, "levels": levels, "by-hand": by_hand}


def recorded(name: str) -> list[Json]:
    """Return the statuses of a story, as an older release wrote them."""
    with gzip.open(GOLDEN / f"{name}.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def _record() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for name, story in STORIES.items():
        scene = asyncio.run(story())
        with (GOLDEN / f"{name}.jsonl.gz").open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
            file.write("".join(f"{json.dumps(status)}\n" for status in scene.store.written).encode())
        print(name, len(scene.store.written))


if __name__ == "__main__":
    _record()
