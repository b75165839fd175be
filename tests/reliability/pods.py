"""Simulated pods of a history: who stops which of them is recorded, and so is the true state of their nodes.

The pods are kafkasim's. A process of the operator reaches them as it reaches everything: late, in part, or not at all
(`process.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.workloads import WorkloadsReading
from kafkasim.plan import NodePlan, Plan, Timing, TopicPlan
from kafkasim.pods import Pods
from kafkasim.releases import release_named
from kafkasim.replicas import partitions_in
from kafkasim.settings import minimum_of
from kafkasim.statefulsets import LEAKY, PodTiming, SetPlan, addresses, release_of, revision_of
from kraftlog.partitions import Partitions
from tests.reliability.kafka import Cluster
from tests.reliability.recorded_world import RecordedWorld
from tests.reliability.records import Copies, Nodes, Stopped, Templated

OLD = "kafka:4.1.2"
BROKERS, CONTROLLERS = "brokers", "controllers"
WITHIN_MS = 3_590_000
"""An hour, and a little less: what is read takes its time."""
CRASHES_FOR_MS = 150_000
COMBINED, BY_HAND = 0.25, 0.2
"""The share of clusters whose controllers are brokers as well, and of those in which a person restarts the nodes."""


class RecordedPods(Pods):
    """Pods that say who began to stop them: the effect that is on its way in their world, or another client."""

    def __init__(
        self,
        world: RecordedWorld,
        sets: Sequence[SetPlan],
        timing: PodTiming,
        record: Callable[[Stopped | Templated], None],
        by_hand: bool,
    ) -> None:
        super().__init__(world, sets, timing)
        self.by_hand = by_hand
        self._history = world
        self._record = record
        self.gone: set[str] = set()
        """StatefulSets that are not found for a while; their pods run on."""
        self.sticky: set[str] = set()
        """Pods whose next ones are as they are, whatever their template says: a webhook changes them."""
        self._known: tuple[Partitions, int, dict[str, Copies]] | None = None
        """The copies that were recorded last: with which partitions, and which default."""

    @property
    def workload(self) -> dict[str, Any]:
        """The workload as it stands in a document."""
        if self.by_hand:
            return {"driver": "Manual"}
        listed: dict[str, list[str]] = {}
        for one in self.sets.values():
            listed.setdefault(one.plan.role, []).append(one.plan.name)
        return {"driver": "StatefulSet", "statefulSet": listed}

    def reading(self) -> WorkloadsReading:
        """The reading without the objects that are missing for some time."""
        found = super().reading()
        there = tuple(one for one in found.stateful_sets if one.name not in self.gone)
        return replace(found, stateful_sets=there, missing=tuple(sorted(self.gone))) if self.gone else found

    def set_image(self, stateful_set: str, image: str) -> None:
        """Record the new template as well."""
        super().set_image(stateful_set, image)
        at, revision = self._history.seconds, revision_of(stateful_set, image)
        self._record(Templated(at, self.world.cluster_id, stateful_set, revision))

    def crash_loop(self, name: str) -> None:
        """The process of a pod ends again and again, whatever its template: for minutes, unless it is replaced."""
        pod = self._pods[name]
        for node in self._nodes(pod):
            self.world.stop(node.role, node.id, kill=True)
        pod.running, pod.ready, pod.waiting = False, False, "CrashLoopBackOff"
        pod.ended_for, pod.ended_ms = "Error", self.world.now_ms
        pod.restarts += 6
        self.world.after(CRASHES_FOR_MS, partial(self._run, pod))

    def _replace(self, pod: Any) -> None:
        super()._replace(pod)
        if pod.name in self.sticky:
            self._pods[pod.name].image = pod.image

    def delete(self, name: str) -> None:
        found = super().reading().pod(name)
        if found is not None and not found.terminating:
            at, number = self._history.seconds, self._history.sender
            goes_to = revision_of(found.stateful_set, self.sets[found.stateful_set].image)
            self._record(
                Stopped(at, self.world.cluster_id, self.node_of(name), name, found.uid, found.revision, goes_to, number)
            )
        super().delete(name)

    def leaking(self) -> frozenset[int]:
        """Nodes whose process ends by itself again and again, and would not in the next pod."""
        pods = [(one, pod) for one in self.sets.values() for pod in self._of(one)]
        return frozenset(pod.node_id for one, pod in pods if pod.image != one.image and pod.image.endswith(LEAKY))

    def kill_node(self, node_id: int) -> None:
        """The container that runs it dies."""
        for name in self.names():
            if self.node_of(name) == node_id:
                self.kill(name)

    def nodes(self) -> Nodes:
        """The true state now, as a record of the history."""
        world = self._history
        pods = [(one, pod) for one in self.sets.values() for pod in self._of(one)]
        outdated = [pod for one, pod in pods if pod.image != one.image]
        templates = {one.plan.name: revision_of(one.plan.name, one.image) for one in self.sets.values()}
        return Nodes(
            copies=self._copies(),
            brokers=frozenset(node.id for node in world.of_role(Role.BROKER)),
            behind=frozenset(pod.node_id for pod in outdated),
            stuck=frozenset(pod.node_id for pod in outdated if pod.waiting and pod.ended_for != "OOMKilled"),
            away=frozenset(world.away()),
            voters={
                voter: world.nodes[Role.CONTROLLER, voter].running
                and world.now_ms >= world.nodes[Role.CONTROLLER, voter].caught_up_ms
                for voter in world.voters
            },
            leader=-1 if world.active is None else world.active,
            templates={pod.node_id: templates[one.plan.name] for one, pod in pods},
            ends=dict(self._ends()),
            crashing=frozenset(
                pod.node_id
                for one, pod in pods
                if pod.image == one.image and not pod.terminating
                if pod.ended_for and world.now_ms - pod.ended_ms < WITHIN_MS
            ),
            stopped=frozenset(node.id for node in world.nodes.values() if not node.running),
            fenced=frozenset(one.id for one in world.image.brokers.values() if one.fenced),
            draining=frozenset(pod.node_id for _, pod in pods if pod.draining),
            moving=frozenset(
                f"{one.topic}-{one.number}" for one in world.partitions() if one.state.adding or one.state.removing
            ),
            serving=dict(self._serving()),
            emptied=frozenset(id_ for id_ in world.emptied if world.serves(world.nodes[Role.BROKER, id_])),
            refused=frozenset(
                pod.node_id
                for _, pod in pods
                if pod.ready and not pod.terminating and not all(self._allows(each, pod) for each in self.budgets)
            ),
        )

    def _serving(self) -> Iterator[tuple[int, str]]:
        for pod in self._pods.values():
            node = self._history.nodes.get((Role.BROKER, pod.node_id))
            if node is not None and not pod.terminating and self._history.serves(node):
                yield node.id, pod.uid

    def _ends(self) -> Iterator[tuple[int, str]]:
        for one in self.sets.values():
            release = release_of(one.image)
            for node in self._history.voting():
                if release is not None and node.id in one.plan.nodes:
                    level = self._history.fatal_level(node, release)
                    if level:
                        yield node.id, level

    def _copies(self) -> dict[str, Copies]:
        """Made anew only where partitions are not those of the last time: most looks see the same."""
        image = self.world.image
        partitions, default = image.partitions, self._default()
        if self._known is None or self._known[0] is not partitions or self._known[1] != default:
            least = partitions.min_insync_replicas.topics
            current = partitions is self.world.leader_image.partitioned
            copies = {
                f"{one.topic}-{one.number}": Copies(
                    frozenset(one.state.replicas), one.state.in_sync, least.get(one.topic, default)
                )
                for one in (self.world.partitions() if current else partitions_in(image))
            }
            self._known = partitions, default, copies
        return self._known[2]

    def _default(self) -> int:
        """The highest that a broker applies."""
        brokers = self.world.image.brokers
        return max((minimum_of(self.world, one) for one in brokers), default=1)


# --- the beginning of a history ---


def cluster_in_pods(name: str, random: Random, record: Callable[[Any], None], seconds: Callable[[], float]) -> Cluster:
    """Three to five brokers, three controllers, a few topics: all of them of one release, and with room to go up."""
    apart = _apart(random)
    pure = tuple(random.sample(range(1, 40), random.choice((3, 3, 4, 5))))
    controllers = (3001, 3002, 3003)
    is_combined = apart.random() < COMBINED
    listed = "brokers" if is_combined else "controllers"
    sets = (SetPlan(BROKERS, "brokers", pure, OLD), SetPlan(CONTROLLERS, listed, controllers, OLD))
    brokers = (*pure, *controllers) if is_combined else pure
    release = release_named("4.1")
    nodes = [NodePlan(Role.BROKER, one, release) for one in sorted(brokers)]
    nodes += [NodePlan(Role.CONTROLLER, one, release) for one in controllers]
    plan = Plan(
        tuple(nodes),
        {"metadata.version": random.choice((25, 27))},
        leader=random.choice(controllers),
        addresses=addresses(sets),
        topics=tuple(_topics(random, brokers)),
        min_insync_replicas=random.choice((1, 1, 2)),
        timing=Timing(
            700, 1_000, 400, random.choice((500, 20_000)), (200, random.choice((1_000, 8_000))), snapshot=60_000
        ),
    )
    world = RecordedWorld(plan, record, random)
    boot = random.choice((1_000, 4_000))
    timing = PodTiming(recreate=300, start=400, boot_broker=boot, boot_controller=800, ready=300)
    return Cluster(name, world, seconds, RecordedPods(world, sets, timing, record, apart.random() < BY_HAND))


def _topics(random: Random, brokers: tuple[int, ...]) -> list[TopicPlan]:
    def placed(copies: int, partitions: int) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(random.sample(brokers, copies)) for _ in range(partitions))

    found = [TopicPlan("orders", placed(3, random.choice((2, 6))), 2), TopicPlan("stock", placed(3, 2), 1)]
    if random.random() < 0.3:
        found.append(TopicPlan("events", placed(2, 3), 1))
    if random.random() < 0.1:
        found.append(TopicPlan("lonely", placed(1, 2)))
    return found


def _apart(random: Random) -> Random:
    """Another one, so that what is drawn afterwards is as it was without."""
    return Random(hash(random.getstate()[1]))


def rollout_fields(random: Random, workload: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a document that are about rolls; now and then nothing may begin in every other minute."""
    apart, pick = _apart(random), random.choice
    windows = {"windows": [{"schedule": "*/2 * * * *", "duration": "1m"}]} if apart.random() < 0.2 else {}
    return {
        "workload": workload,
        "rollout": {
            "maxParallel": pick((1, 1, 2, 2, "34%", 200)),
            "availability": pick(("NoUnderReplicated", "NoUnderReplicated", "RespectMinISR")),
            "stableFor": pick(("1s", "5s", "20s")),
            "nodeTimeout": pick(("20s", "1m", "5m")),
            **windows,
        },
    }
