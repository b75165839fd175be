"""`kafkafeatures demo --story roll`: six simulated nodes in pods are rolled by the operator's own reconciliation.

It runs in this process (see `scene.py`), since the simulator has no Kubernetes API that an operator process could
connect to. The script plays the people, who change images, the document and the approval. It ends with exit code 1 if
anything differs from the story.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.status import Status, Via
from kafkafeatures.cli.demo.scene import BEGINS_MS, Scene, play
from kafkafeatures.cli.demo.text import not_the_story, show, tell, title
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.kube.status_text import draw_status
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.report.events import events_between
from kafkafeatures.core.roll.restart_node import RESTARTED
from kafkafeatures.reconcile.act import Reconciliation
from kafkafeatures.reconcile.context import ReconcileContext
from kafkafeatures.reconcile.file_store import FileStore
from kafkasim.plan import NodePlan, Plan, TopicPlan
from kafkasim.pods import Pods
from kafkasim.ports import SimulatedCluster, SimulatedWorkloads
from kafkasim.releases import Release, release_named
from kafkasim.statefulsets import BudgetPlan, SetPlan, addresses
from kafkasim.world import World

_OLD_IMAGE, NEW_IMAGE, _BROKEN_IMAGE = "kafka:4.1.2", "kafka:4.4.0", "kafka:broken"
_CONTROLLERS, _BROKERS = (101, 102, 103), (1, 2, 3)
_SETS = (
    SetPlan("controller", "controllers", _CONTROLLERS, _OLD_IMAGE),
    SetPlan("broker", "brokers", _BROKERS, _OLD_IMAGE),
)
_MIN_IN_SYNC = 2
_TOPICS = (TopicPlan("orders", ((1, 2, 3), (2, 3, 1), (3, 1, 2)), _MIN_IN_SYNC),)
_BEFORE, _AFTER = release_named("4.1"), release_named("4.4")
_DOCUMENT = """\
apiVersion: kafkafeatures.dev/v1alpha1
kind: KafkaFeatures
metadata: {name: demo, namespace: kafka}
spec:
  cluster:
    bootstrapServers: broker:9092
  workload:
    driver: StatefulSet
    statefulSet:
      controllers: [controller]
      brokers: [broker]
  rollout:
    stableFor: 30s
    nodeTimeout: 5m
  features:
    releaseVersion: "4.4"
    finalizeAfter: 1h
"""


def tell_the_roll() -> None:
    """Play the story. Raises CommandFailed if a reconciliation decides otherwise than the story says."""
    play(RollScene, _tell)


async def _tell(scene: RollScene) -> None:
    title("Roll")
    tell(
        "This is a SIMULATED cluster: three controllers and three brokers of Kafka 4.1, in pods of two StatefulSets. "
        "No Kafka and no Kubernetes run here, and the clock is simulated too: an hour passes in a moment. Pods are "
        "evicted by the operator's own reconciliation; the lines below are its Events, and what it waits for."
    )
    show(_DOCUMENT)
    tell(
        "New images are pushed to Git: for the controllers Kafka 4.4; for the brokers, by mistake, one that ends as "
        "soon as it starts. Controllers go first, one at a time, the leader of the quorum last."
    )
    scene.set_images(controller=NEW_IMAGE, broker=_BROKEN_IMAGE)
    await scene.until(lambda status: status.is_stalled(Reason.ROLLOUT_HALTED))
    scene.must_have_restarted(_CONTROLLERS)
    scene.draw()

    tell("One broker is down, and no other one is touched. The image of the brokers is reverted in Git.")
    scene.set_images(broker=_OLD_IMAGE)
    await scene.until(is_rolled)
    scene.must_have_restarted(_BROKERS[:1])

    tell("All nodes are back. Kafka 4.4 for the brokers is pushed to Git, and this image starts.")
    scene.set_images(broker=NEW_IMAGE)
    await scene.until(lambda status: is_rolled(status) and bool(status.soak_started_at))
    scene.must_have_restarted(_BROKERS)

    tell("All six nodes run Kafka 4.4. The levels are still those of 4.1: the way back is open.")
    await scene.until(lambda status: status.reason(Condition.READY) == Reason.APPROVAL_REQUIRED)
    scene.must_have_finalized(_BEFORE)

    tell("A person approves the plan: `kafkafeatures approve`, or its hash in Git.")
    scene.approve()
    await scene.until(lambda status: status.reason(Condition.READY) == Reason.IN_SYNC)
    scene.must_have_finalized(_AFTER)
    scene.must_have_served()
    tell(
        f"That took {scene.time} of simulated time and {scene.evictions} evictions. The fewest in-sync replicas of a "
        f"partition that a reconciliation met: {scene.fewest_in_sync} of 3."
    )


def is_rolled(status: Status) -> bool:
    """Tell whether every node runs the image that is wanted."""
    return status.rollout is not None and status.rollout.done == status.rollout.total and not status.intents


class RollScene(Scene):
    """The simulated cluster in pods, and the facts that the story checks."""

    def __init__(self, state: Path) -> None:
        nodes = [(Role.CONTROLLER, node_id) for node_id in _CONTROLLERS] + [
            (Role.BROKER, node_id) for node_id in _BROKERS
        ]
        plan = Plan(
            tuple(NodePlan(role, node_id, _BEFORE) for role, node_id in nodes),
            {METADATA_VERSION: _BEFORE.bootstrap_level},
            leader=_CONTROLLERS[0],
            addresses=addresses(_SETS),
            topics=_TOPICS,
        )
        self._world = World(plan, now_ms=BEGINS_MS, random=Random(1))  # noqa: S311 - ids of a simulation, no secret
        super().__init__(self._world, _DOCUMENT, state)
        self._pods = Pods(self._world, _SETS)
        self._pods.budgets.append(BudgetPlan("kafka", tuple(set_plan.name for set_plan in _SETS)))
        self._kafka = SimulatedCluster(self._world)
        self._restarted: list[int] = []
        self.fewest_in_sync = min(self._in_sync())

    def context(self, store: FileStore) -> ReconcileContext:
        return ReconcileContext(
            store, self._kafka, self.environment, self.ages,
            effects=self.effects.append, workloads=SimulatedWorkloads(self._pods),
        )  # fmt: skip

    def after_reconciliation(self, previous_status: Status, done: Reconciliation) -> None:
        """Record restarts that are over, and the fewest in-sync replicas so far."""
        self.fewest_in_sync = min(self.fewest_in_sync, *self._in_sync())
        events = events_between(previous_status, done.status)
        self._restarted += [self._pods.node_of(event.facts.pod) for event in events if event.reason == RESTARTED]

    @property
    def evictions(self) -> int:
        """Number of evictions that the reconciliation asked for."""
        return sum(effect.via is Via.API_SERVER for effect in self.effects)

    def _in_sync(self) -> list[int]:
        """Number of replicas of each partition that are in sync now."""
        return [len(state.in_sync) for _, _, state in self._world.image.partitions.rows()]

    # --- what people do ---

    def set_images(self, **images: str) -> None:
        """Change the images in Git, from where they reach the StatefulSets a moment later."""
        for stateful_set, image in images.items():
            show(f"  {stateful_set}: image: {image}")
            self._pods.set_image(stateful_set, image)
        show("")
        self._world.advance(self._world.now_ms + 1000)
        self._restarted.clear()  # `must_have_restarted` counts from here on

    # --- what is shown of it, and checked ---

    def draw(self) -> None:
        """Print what `kafkafeatures status` would show of this resource on Kubernetes."""
        tell("On Kubernetes, `kafkafeatures status demo -n kafka` shows it so:")
        raw = {
            "metadata": {**self._document["metadata"], "generation": self._generation},
            "spec": self._document["spec"],
            "status": self._last.as_json(),
        }
        draw_status(self._console(), KubeResource(raw), self._kafka.now())
        show("")

    def must_have_restarted(self, nodes: Sequence[int]) -> None:
        """Raise CommandFailed unless exactly these nodes were restarted since the last change of images, each once."""
        if sorted(self._restarted) != sorted(nodes):
            raise not_the_story(f"restarted were {self._restarted}, not {list(nodes)}")

    def must_have_served(self) -> None:
        """Raise CommandFailed unless each partition had its `min.insync.replicas` after every reconciliation."""
        if self.fewest_in_sync < _MIN_IN_SYNC:
            raise not_the_story(f"a partition had {self.fewest_in_sync} in-sync replicas")

    def must_have_finalized(self, release: Release) -> None:
        """Raise CommandFailed unless the simulated cluster itself has the level of this release finalized."""
        level = self._world.image.features[METADATA_VERSION]
        if level != release.bootstrap_level:
            raise not_the_story(f"{METADATA_VERSION} is {level}, not {release.bootstrap_level}")
