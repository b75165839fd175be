"""The parts of one history: clusters, resources, processes, random faults, and the actions of people.

The beginning of a history is drawn here, and what people can do is a method each. What is done when is decided by
`simulation.py`, and by `stories.py` where several acts have to follow each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from kafkafeatures.api.names import APPROVE
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkasim.plan import NodePlan, Plan
from kafkasim.releases import release_named
from tests.reliability.kafka import LEVELS, Cluster, Roads
from tests.reliability.pods import cluster_in_pods, rollout_fields
from tests.reliability.process import Process, Surrounding, Weather
from tests.reliability.recorded_world import START_MS, RecordedWorld
from tests.reliability.records import Approved, Asked, History, Jumped, Sent, Stored, steps_left
from tests.simulated.kubernetes import ApiServer

NAMESPACE = "kafka"
START = datetime.fromtimestamp(START_MS / 1000, UTC)
THEMES = (
    "anything", "drift", "approval", "kept request", "another cluster", "two operators", "asked", "fight", "soak",
    "overtaken",    "dynamic quorum", "another release", "lost state",
)  # fmt: skip
"""What most of a history is about."""
OF_LEVELS = ("approval", "drift", "fight", "soak", "dynamic quorum", "asked", "overtaken", "lost state")
"""Themes whose clusters seldom have a node that keeps levels from being moved."""
RESTORE = "restore"
"""Who stored what is there after a restore."""
ROLL, ROLLS = "roll", 16
"""One history out of so many is about rolls, in a cluster of its own kind."""


class RecordedScene:
    """An API server, and what happens at it and beyond it, which is written into the history."""

    weather: Weather
    processes: Sequence[Process]

    def __init__(self, random: Random, history: History) -> None:
        self.random, self.history = random, history
        self.loop = asyncio.get_running_loop()
        self.skew = timedelta(0)
        self.sent = self._instances = 0
        self.server = ApiServer(lambda: START + timedelta(seconds=self.loop.time()))
        self.server.listener = self._stored

    def surrounding(self, clusters: Mapping[str, Cluster]) -> Surrounding:
        """What is around each process, once the weather was drawn."""
        return Surrounding(
            server=self.server,
            clusters=clusters,
            weather=self.weather,
            random=self.random,
            wall=lambda: START + timedelta(seconds=self.loop.time()) + self.skew,
            record=self.history.records.append,
            sent=self._note_sent,
            asked=self._note_asked,
            reconciled=self._count,
        )

    def _stored(self, event: Mapping[str, Any], by: str) -> None:
        self.history.records.append(Stored(self.loop.time(), event["type"], event["object"], by))
        for process in self.processes:
            if self.random.random() >= self.weather.unseen:
                delay = self.random.random() * (30.0 if self.random.random() < self.weather.late else 0.1)
                process.show(event["object"], gone=event["type"] == "DELETED", after=delay)

    def _note_sent(self, process: str, uid: str, cluster_id: str, change: UpdateFeature, logged: bool) -> int:
        self.sent += 1
        moved = change.feature, change.from_level, change.to_level
        self.history.records.append(Sent(self.loop.time(), process, uid, cluster_id, *moved, self.sent, logged))
        return self.sent

    def _note_asked(self, process: str, uid: str, cluster_id: str, restart: RestartNode, logged: bool) -> int:
        self.sent += 1
        named = restart.node_id, restart.pod, restart.pod_uid
        self.history.records.append(Asked(self.loop.time(), process, uid, cluster_id, *named, self.sent, logged))
        return self.sent

    def _count(self) -> None:
        self.history.reconciliations += 1


class Scene(RecordedScene):
    """See the module."""

    def __init__(self, seed: int) -> None:
        super().__init__(Random(seed), History(seed))
        self.processes: list[Process] = []
        self.weather = self._drawn_weather()
        self.theme = ROLL if seed % ROLLS == ROLLS - 1 else self.random.choice(THEMES)
        if self.theme == "asked" or self.random.random() < 0.1:
            self.weather.roads.no_log = 1.0
        there_are = 2 if self.theme == "another cluster" else self.random.choice((1, 1, 2))
        clusters = [self._cluster(name) for name in ("a", "b")[: 1 if self.theme == ROLL else there_are]]
        self.clusters = {one.name: one for one in clusters}
        self.names = ("orders", "payments", "stock")[: self.random.choice((1, 1, 1, 2, 3))]
        self._around = self.surrounding(self.clusters)

    # --- the beginning ---

    def _drawn_weather(self) -> Weather:
        """Often only a few kinds of faults, so that each is seen alone as well."""

        def chance(most: float) -> float:
            return self.random.random() * most if self.random.random() < 0.35 else 0.0

        roads = Roads(chance(0.3), chance(0.5), chance(1.0), chance(0.6), chance(0.5), chance(0.3), chance(0.5))
        roads.overtaken, roads.lagging, roads.log_behind = chance(0.5), chance(0.5), chance(0.5)
        roads.late, roads.queued, roads.twice = chance(0.5), chance(0.3), chance(1.0)
        return Weather(
            chance(0.04), chance(0.1), chance(0.1), chance(0.15), chance(0.5), chance(0.6), chance(0.3), roads
        )

    def _cluster(self, name: str) -> Cluster:
        if self.theme == ROLL:
            return cluster_in_pods(name, self.random, self.history.records.append, self.loop.time)
        pick = self.random.choice
        controllers = range(3001, 3001 + pick((1, 3, 3)))
        brokers = range(1, 1 + pick((1, 2, 3)))
        newest, older = pick((("4.2", "4.2"), ("4.2", "4.1"), ("4.2", "4.0"), ("4.2", "3.9")))
        if self.theme in OF_LEVELS and self.random.random() < 0.8:
            older = newest
        level = pick((17, 21)) if older == "3.9" else pick((21, 25))
        if self.theme == "soak":
            level = 21
        nodes = [NodePlan(Role.CONTROLLER, i, release_named(pick((newest, newest, older)))) for i in controllers]
        nodes += [NodePlan(Role.BROKER, i, release_named(pick((newest, newest, older)))) for i in brokers]
        if self.random.random() < (0.03 if self.theme in OF_LEVELS else 0.15):
            nodes.append(NodePlan(Role.BROKER, 9, release_named(older), ghost=True))
        plan = Plan(tuple(nodes), {"metadata.version": level})
        return Cluster(name, RecordedWorld(plan, self.history.records.append, self.random), self.loop.time)

    def create(self, name: str) -> None:
        """Create a resource, as a person does."""
        metadata = {"finalizers": ["example.com/keep"]} if self.random.random() < 0.1 else {}
        self.server.create(NAMESPACE, name, self.spec(name), **metadata)

    def spec(self, name: str, cluster: str = "") -> dict[str, Any]:
        """A document, drawn: more often than not of levels that every node of the cluster supports."""
        pick, random = self.random.choice, self.random.random
        cluster = cluster or pick(sorted(self.clusters))
        spec: dict[str, Any] = {
            "mode": pick(("Apply", "Apply", "Apply", "Apply", "Apply", "Apply", "Observe")),
            "cluster": {"bootstrapServers": f"{name}.{cluster}:9092"},
            "features": {"levels": self._levels(self.clusters[cluster])},
            "approval": {"policy": pick(("IrreversibleOnly", "IrreversibleOnly", "Never", "Never", "Always"))},
            "drift": {"onDrift": pick(("Report", "Correct")), "checkEvery": "30s"},
        }
        if random() < 0.1:
            spec["features"] = {"releaseVersion": pick(("4.0", "4.1", "4.2"))}
        if self.theme == "soak" or random() < 0.05:
            spec["features"]["finalizeAfter"] = pick(("10s", "30s", "2m"))
        if random() < 0.3:
            named = pick(sorted(self.clusters)) if random() < 0.3 else cluster
            spec["cluster"]["clusterId"] = self.clusters[named].world.cluster_id
        if random() < 0.6:
            spec["consents"] = self.consents(cluster)
        if self.theme == ROLL:
            spec |= rollout_fields(self.random, _workload(self.clusters[cluster]))
            if random() < 0.5:
                spec["consents"] = [*spec.get("consents", [])[:15], "single-replica-topics"]
        return spec

    def _levels(self, cluster: Cluster) -> list[dict[str, Any]]:
        drawn = {name: self.random.choice(LEVELS[name]) for name in sorted(LEVELS) if self.random.random() < 0.45}
        if self.random.random() < 0.7:
            can = self.to_be_had(cluster)
            drawn = {name: self.random.choice(can[name]) for name in drawn if name in can}
        return [{"name": name, "level": level} for name, level in drawn.items()]

    def to_be_had(self, cluster: Cluster) -> dict[str, tuple[int, ...]]:
        """Levels that every node supports, by feature; metadata.version not below what there is."""
        ranges, levels = cluster.ranges(), cluster.world.levels
        found = {}
        for name in sorted(LEVELS):
            low, high = ranges.get(name, (0, 0))
            low = max(low, levels["metadata.version"]) if name == "metadata.version" else low
            there = tuple(level for level in LEVELS[name] if low <= level <= high)
            if high and there:
                found[name] = there
        return found

    def consents(self, cluster: str) -> list[str]:
        """The consents to every downgrade from the present levels of the cluster."""
        levels = self.clusters[cluster].world.levels
        found = [
            f"{name}:{levels.get(name, 0)}->{level}"
            for name, choice in sorted(LEVELS.items())
            for level in choice
            if level < levels.get(name, 0)
        ]
        return found[:16]

    # --- processes and clocks ---

    def begin(self, operator: str = "operator") -> None:
        """A process of the operator, or of another installation of it."""
        self._instances += 1
        self.processes.append(Process(self._around, f"operator-{self._instances}", operator))

    def revive(self) -> None:
        """Kubernetes starts anew what died."""
        self.processes = [one for one in self.processes if not one.dead]
        if not self.processes and self.random.random() < 0.7:
            self.begin()

    def set_clock(self, seconds: float) -> None:
        """Let the wall clock be off by this many seconds from now on."""
        self.skew = timedelta(seconds=seconds)
        self.history.records.append(Jumped(self.loop.time()))

    # --- what people see and do ---

    def catch_up(self) -> None:
        """Clusters are as old as everything else."""
        for one in self.clusters.values():
            one.catch_up()

    async def wait(self, seconds: float) -> None:
        """Lets time pass."""
        await asyncio.sleep(seconds)
        self.catch_up()

    def some_cluster(self) -> Cluster:
        """Any."""
        return self.clusters[self.random.choice(sorted(self.clusters))]

    def some_resource(self) -> dict[str, Any] | None:
        """Any; None where all are deleted."""
        there = self.resources()
        return self.random.choice(there) if there else None

    def resources(self) -> list[dict[str, Any]]:
        """The existing resources."""
        return [found for name in self.names if (found := self.server.stored(NAMESPACE, name)) is not None]

    def cluster_of(self, one: Mapping[str, Any]) -> Cluster:
        """The cluster that a document names; the first where it names none that is there."""
        name = str(one["spec"]["cluster"]["bootstrapServers"]).partition(":")[0].partition(".")[2]
        return self.clusters[name if name in self.clusters else "a"]

    def edit(self, name: str, change: Callable[[dict[str, Any]], object]) -> None:
        """Change a document, if it is still there."""
        if self.server.stored(NAMESPACE, name) is not None:
            self.server.change(NAMESPACE, name, change)

    def restore(self, revision: int) -> None:
        """Etcd, to what it was then."""
        before = self.resources()
        self.server.restore(revision)
        at, there = self.loop.time(), {one["metadata"]["uid"]: one for one in self.resources()}
        for one in before:
            uid = one["metadata"]["uid"]
            kind = "MODIFIED" if uid in there else "DELETED"
            self.history.records.append(Stored(at, kind, there.get(uid, one), RESTORE))

    def approve(self, one: Mapping[str, Any]) -> None:
        """Exactly the plan that its status shows, by annotation or in the document."""
        plan, name = (one.get("status") or {}).get("plan") or {}, one["metadata"]["name"]
        if not plan.get("hash"):
            return
        uid = one["metadata"]["uid"]
        self.history.records.append(Approved(self.loop.time(), uid, plan["hash"], steps_left(plan)))

        def annotated(each: dict[str, Any]) -> None:
            each["metadata"].setdefault("annotations", {})[APPROVE] = plan["hash"]

        def written(each: dict[str, Any]) -> None:
            each["spec"].setdefault("approval", {})["planHash"] = plan["hash"]

        self.edit(name, annotated if self.random.random() < 0.7 else written)


def _workload(cluster: Cluster) -> Mapping[str, Any]:
    assert cluster.pods is not None
    return cluster.pods.workload
