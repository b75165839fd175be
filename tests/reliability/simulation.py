"""One random history: clusters, resources, people, operators that die, and everything that goes wrong in between.

`simulate(seed)` makes it, the same each time. First faults are drawn, then they stop: all nodes run, every resource
asks for something that can be had, and there is time. What the record then shows is judged by `checker.py`, which knows
nothing of how it came about.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from kafkafeatures.api.names import APPROVE, PAUSE
from kafkafeatures.core.readings import Role
from kafkafeatures.core.steps import UpdateFeature
from kafkasim.plan import NodePlan, Plan
from kafkasim.releases import release_named
from tests.reliability.kafka import START_MS, Cluster, RecordedWorld, Roads
from tests.reliability.process import Process, Surrounding, Weather
from tests.reliability.records import Approved, Calmed, History, Sent, Stored
from tests.reliability.virtual import run
from tests.simulated import schema
from tests.simulated.kubernetes import ApiServer

NAMESPACE = "kafka"
START = datetime.fromtimestamp(START_MS / 1000, UTC)
LEVELS: Mapping[str, tuple[int, ...]] = {
    "metadata.version": (21, 22, 24, 25, 26, 27, 28, 29),
    "group.version": (0, 1),
    "transaction.version": (0, 1, 2),
    "share.version": (0, 1),
    "streams.version": (0, 1),
}
SETTLES_WITHIN = 900.0
"""Virtual seconds after the last fault: a broker's window, backoff, a resync, and the plan itself."""
QUIET_FOR = 130.0


class Simulation:
    """One history while it happens."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.history = History(seed)
        self._loop = asyncio.get_running_loop()
        self._skew = timedelta(0)
        self._sent = 0
        self._processes: list[Process] = []
        self._instances = 0
        self._finalizers: set[str] = set()
        self.weather = self._drawn_weather()
        self.server = ApiServer(lambda: START + timedelta(seconds=self._loop.time()))
        self.server.listener = self._stored
        clusters = [self._cluster(name) for name in ("a", "b")[: self.random.choice((1, 1, 2))]]
        self.clusters = {one.name: one for one in clusters}
        self.names = ("orders", "payments", "stock")[: self.random.choice((1, 1, 1, 2, 3))]
        self._around = Surrounding(
            server=self.server,
            clusters=self.clusters,
            weather=self.weather,
            random=self.random,
            wall=lambda: START + timedelta(seconds=self._loop.time()) + self._skew,
            record=self.history.records.append,
            sent=self._note_sent,
            reconciled=self._count,
        )

    async def live(self) -> History:
        """From the beginning to the end."""
        try:
            for name in self.names:
                self._create(name)
            self._begin()
            for _ in range(self.random.randrange(4, 30)):
                await asyncio.sleep(self.random.choice((0.05, 0.5, 3.0, 15.0, 60.0)) * self.random.random())
                await self._something_happens()
                self._revive()
            await self._calm()
        finally:
            for process in self._processes:
                await process.kill()
        self.history.seconds = self._loop.time()
        return self.history

    # --- what is written down ---

    def _stored(self, event: Mapping[str, Any], by: str) -> None:
        self.history.records.append(Stored(self._loop.time(), event["type"], event["object"], by))
        for process in self._processes:
            if self.random.random() >= self.weather.unseen:
                delay = self.random.random() * (30.0 if self.random.random() < self.weather.late else 0.1)
                self._loop.call_later(delay, process.shown, event["object"])

    def _note_sent(self, process: str, uid: str, cluster_id: str, change: UpdateFeature, logged: bool) -> int:
        self._sent += 1
        sent = Sent(
            self._loop.time(), process, uid, cluster_id, change.feature, change.before, change.after, self._sent, logged
        )
        self.history.records.append(sent)
        return self._sent

    def _count(self) -> None:
        self.history.reconciliations += 1

    # --- the beginning ---

    def _drawn_weather(self) -> Weather:
        """Often only a few kinds of faults, so that each is seen alone as well."""

        def chance(most: float) -> float:
            return self.random.random() * most if self.random.random() < 0.35 else 0.0

        roads = Roads(chance(0.3), chance(0.5), chance(1.0), chance(1.0), chance(0.5), chance(0.3))
        return Weather(
            chance(0.04), chance(0.1), chance(0.1), chance(0.15), chance(0.5), chance(0.6), chance(0.3), roads
        )

    def _cluster(self, name: str) -> Cluster:
        pick = self.random.choice
        controllers = range(3001, 3001 + pick((1, 3, 3)))
        brokers = range(1, 1 + pick((1, 2, 3)))
        newest, older = pick((("4.2", "4.2"), ("4.2", "4.1"), ("4.2", "4.0"), ("4.2", "3.9")))
        level = pick((17, 21)) if older == "3.9" else pick((21, 25))
        nodes = [NodePlan(Role.CONTROLLER, i, release_named(pick((newest, newest, older)))) for i in controllers]
        nodes += [NodePlan(Role.BROKER, i, release_named(pick((newest, newest, older)))) for i in brokers]
        if self.random.random() < 0.15:
            nodes.append(NodePlan(Role.BROKER, 9, release_named(older), ghost=True))
        plan = Plan(tuple(nodes), {"metadata.version": level})
        return Cluster(name, RecordedWorld(plan, self.history.records.append, self.random), self._loop.time)

    def _create(self, name: str) -> None:
        metadata = {"finalizers": ["example.com/keep"]} if self.random.random() < 0.1 else {}
        self.server.create(NAMESPACE, name, self._spec(name), **metadata)

    def _spec(self, name: str, cluster: str = "") -> dict[str, Any]:
        pick, random = self.random.choice, self.random.random
        cluster = cluster or pick(sorted(self.clusters))
        levels = [{"name": one, "level": pick(LEVELS[one])} for one in sorted(LEVELS) if random() < 0.45]
        spec: dict[str, Any] = {
            "mode": pick(("Apply", "Apply", "Apply", "Apply", "Apply", "Apply", "Observe")),
            "cluster": {"bootstrapServers": f"{name}.{cluster}:9092"},
            "features": {"levels": levels},
            "approval": {"policy": pick(("IrreversibleOnly", "IrreversibleOnly", "Never", "Never", "Always"))},
            "drift": {"onDrift": pick(("Report", "Correct")), "checkEvery": "30s"},
        }
        if random() < 0.1:
            spec["features"] = {"releaseVersion": pick(("4.0", "4.1", "4.2"))}
        if random() < 0.3:
            spec["cluster"]["clusterId"] = self.clusters[cluster].world.cluster_id
        if random() < 0.6:
            spec["consents"] = self._consents(cluster)
        return spec

    def _consents(self, cluster: str) -> list[str]:
        """To every downgrade from where the cluster is now."""
        levels = self.clusters[cluster].world.levels
        found = [
            f"{name}:{levels.get(name, 0)}->{level}"
            for name, choice in sorted(LEVELS.items())
            for level in choice
            if level < levels.get(name, 0)
        ]
        return found[:16]

    def _begin(self) -> None:
        self._instances += 1
        self._processes.append(Process(self._around, f"operator-{self._instances}"))

    def _revive(self) -> None:
        """Kubernetes starts anew what died."""
        self._processes = [one for one in self._processes if not one.dead]
        if not self._processes and self.random.random() < 0.7:
            self._begin()

    # --- what happens ---

    async def _something_happens(self) -> None:
        acts: tuple[tuple[int, Callable[[], Any]], ...] = (
            (6, self._a_node_stops),
            (6, self._a_node_starts),
            (2, self._an_upgrade),
            (5, self._somebody_else_moves_a_level),
            (14, self._the_document_changes),
            (8, self._a_plan_is_approved),
            (3, self._held_or_released),
            (2, self._deleted_or_made),
            (3, self._pointed_elsewhere),
            (4, self._the_clock_jumps),
            (4, self._another_schema),
            (1, self._compacted),
            (2, self._replaced),
            (1, self._a_second_operator),
            (5, self._nothing),
        )
        act = self.random.choices([one for _, one in acts], [weight for weight, _ in acts])[0]
        self.history.acts.append(f"{self._loop.time():.3f} {act.__name__.strip('_')}")
        for one in self.clusters.values():
            one.catch_up()
        done = act()
        if done is not None:
            await done

    def _some_cluster(self) -> Cluster:
        return self.clusters[self.random.choice(sorted(self.clusters))]

    def _some_resource(self) -> dict[str, Any] | None:
        there = self._resources()
        return self.random.choice(there) if there else None

    def _resources(self) -> list[dict[str, Any]]:
        return [found for name in self.names if (found := self.server.stored(NAMESPACE, name)) is not None]

    def _edited(self, change: Callable[[dict[str, Any]], object]) -> None:
        found = self._some_resource()
        if found is not None:
            self.server.edit(NAMESPACE, found["metadata"]["name"], change)

    def _nothing(self) -> None:
        """A while passes."""

    def _a_node_stops(self) -> None:
        cluster = self._some_cluster()
        node = self.random.choice([one for _, one in sorted(cluster.world.nodes.items())])
        if self.random.random() < 0.5 and cluster.world.active is not None:
            node = cluster.world.nodes[Role.CONTROLLER, cluster.world.active]
        cluster.world.stop(node.role, node.id, kill=self.random.random() < 0.6)

    def _a_node_starts(self) -> None:
        cluster = self._some_cluster()
        stopped = [one for _, one in sorted(cluster.world.nodes.items()) if not one.running]
        if stopped:
            node = self.random.choice(stopped)
            cluster.world.start(node.role, node.id)

    def _an_upgrade(self) -> None:
        cluster = self._some_cluster()
        node = self.random.choice([one for _, one in sorted(cluster.world.nodes.items())])
        if node.running:
            cluster.world.upgrade(node.role, node.id, release_named(self.random.choice(("4.1", "4.2"))))

    def _somebody_else_moves_a_level(self) -> None:
        cluster = self._some_cluster()
        for _ in range(self.random.choice((1, 1, 2))):
            feature = self.random.choice(sorted(LEVELS))
            cluster.move(feature, self.random.choice(LEVELS[feature]))

    def _the_document_changes(self) -> None:
        def change(one: dict[str, Any]) -> None:
            new = self._spec(one["metadata"]["name"], _cluster_of(one["spec"]))
            parts = self.random.sample(sorted(new), self.random.randrange(1, 4))
            if self.random.random() < 0.3:
                parts = ["consents"]
            for part in parts:
                if part in new:
                    one["spec"][part] = new[part]

        self._edited(change)

    def _a_plan_is_approved(self) -> None:
        found = self._some_resource()
        waiting = [
            one for one in self._resources() if "ApprovalRequired" in str((one.get("status") or {}).get("conditions"))
        ]
        if waiting and self.random.random() < 0.8:
            found = self.random.choice(waiting)
        if found is None:
            return
        plan = (found.get("status") or {}).get("plan") or {}
        if not plan.get("hash") or self.random.random() < 0.1:
            return
        steps = tuple(one["detail"].partition(" (")[0] for one in plan.get("steps", ()) if one.get("state") != "Done")
        approved = Approved(self._loop.time(), found["metadata"]["uid"], plan["hash"], steps)
        name = found["metadata"]["name"]
        self.history.records.append(approved)
        if self.random.random() < 0.7:
            self.server.edit(
                NAMESPACE,
                name,
                lambda one: one["metadata"].setdefault("annotations", {}).update({APPROVE: plan["hash"]}),
            )
        else:
            self.server.edit(
                NAMESPACE, name, lambda one: one["spec"].setdefault("approval", {}).update(planHash=plan["hash"])
            )

    def _held_or_released(self) -> None:
        def change(one: dict[str, Any]) -> None:
            if self.random.random() < 0.5:
                one["spec"]["suspend"] = not one["spec"].get("suspend", False)
            else:
                annotations = one["metadata"].setdefault("annotations", {})
                annotations[PAUSE] = "false" if annotations.get(PAUSE) == "true" else "true"

        self._edited(change)

    def _deleted_or_made(self) -> None:
        name = self.random.choice(self.names)
        found = self.server.get(NAMESPACE, name)
        if found is None:
            self._create(name)
        elif "deletionTimestamp" in found["metadata"]:
            self.server.edit(NAMESPACE, name, lambda one: one["metadata"].update(finalizers=[]))
        else:
            self.server.delete(NAMESPACE, name)

    def _pointed_elsewhere(self) -> None:
        def change(one: dict[str, Any]) -> None:
            name, to = one["metadata"]["name"], self.random.choice((*sorted(self.clusters), "nowhere"))
            one["spec"]["cluster"]["bootstrapServers"] = f"{name}.{to}:9092"
            if to in self.clusters and self.random.random() < 0.3:
                one["spec"]["cluster"]["clusterId"] = self.clusters[to].world.cluster_id

        self._edited(change)

    def _the_clock_jumps(self) -> None:
        self._skew = timedelta(seconds=self.random.choice((0, 0, 400, -400, 90_000, -90_000)))

    def _another_schema(self) -> None:
        older = (
            "status.intents",
            "status.intents",
            "status.spentConsents",
            "status.operator",
            "status.changeCount",
            "status.history",
        )
        self.server.schema = (
            schema.current()
            if self.server.schema is not schema.current()
            else schema.without(self.random.choice(older))
        )

    def _compacted(self) -> None:
        self.server.compact()

    async def _replaced(self) -> None:
        """A rollout of the operator: Recreate."""
        for process in list(self._processes):
            await process.stop()
        self._processes.clear()
        self._begin()

    def _a_second_operator(self) -> None:
        """Somebody scaled it to two."""
        if len(self._processes) == 1:
            self._begin()

    # --- the end ---

    async def _calm(self) -> None:
        """Nothing goes wrong any more, and everything that is asked for can be had."""
        self.history.acts.append(f"{self._loop.time():.3f} calm")
        for field in ("dies", "lost_before", "lost_after", "refused", "stale", "unseen", "late"):
            setattr(self.weather, field, 0.0)
        self.weather.roads = Roads()
        self.server.schema, self._skew = schema.current(), timedelta(0)
        for process in list(self._processes):
            await process.kill()
        self._processes.clear()
        for cluster in self.clusters.values():
            await self._heal(cluster)
        cluster_of = self._let_all_ask_for_what_can_be_had()
        self._begin()
        wants = {uid: dict(levels) for uid, (_, levels) in cluster_of.items()}
        ids = {uid: cluster_id for uid, (cluster_id, _) in cluster_of.items()}
        self.history.records.append(Calmed(self._loop.time(), False, wants, ids))
        until = self._loop.time() + SETTLES_WITHIN
        while self._loop.time() < until and not all(self._looks_settled(uid) for uid in wants):  # noqa: ASYNC110
            await asyncio.sleep(20.0)
        await asyncio.sleep(65.0)
        self.history.records.append(Calmed(self._loop.time(), True, wants, ids))
        await asyncio.sleep(QUIET_FOR)

    def _looks_settled(self, uid: str) -> bool:
        """Enough to stop waiting; the checker judges."""
        found = next(one for one in self._resources() if one["metadata"]["uid"] == uid)
        ready = [one for one in (found.get("status") or {}).get("conditions", ()) if one["type"] == "Ready"]
        current = bool(ready) and ready[0].get("observedGeneration") == found["metadata"]["generation"]
        return current and (ready[0]["status"] == "True" or ready[0]["reason"] == "DuplicateOwner")

    async def _heal(self, cluster: Cluster) -> None:
        """Every node runs the newest release, and what cannot run is unregistered."""
        world, newest = cluster.world, release_named("4.2")
        for _, node in sorted(world.nodes.items()):
            if not node.running:
                world.start(node.role, node.id, newest)
        await asyncio.sleep(20.0)
        cluster.catch_up()
        for _, node in sorted(world.nodes.items()):
            if node.release is not newest:
                world.upgrade(node.role, node.id, newest)
                await asyncio.sleep(30.0)
                cluster.catch_up()

    def _let_all_ask_for_what_can_be_had(self) -> dict[str, tuple[str, dict[str, int]]]:
        """Of each resource that is still there: the cluster that it belongs to, and what it wants of it."""
        found: dict[str, tuple[str, dict[str, int]]] = {}
        ids = {one.world.cluster_id: one for one in self.clusters.values()}
        for name in self.names:
            one = self.server.get(NAMESPACE, name)
            if one is None or "deletionTimestamp" in one["metadata"]:
                continue
            bound = (one.get("status") or {}).get("clusterId")
            cluster = ids.get(str(bound)) or self.clusters[_cluster_of(one["spec"], self.clusters)]
            levels = cluster.world.levels
            wants = {"metadata.version": max(levels["metadata.version"], self.random.choice((25, 27, 29)))}
            for feature in ("group.version", "transaction.version"):
                if self.random.random() < 0.5:
                    wants[feature] = max(levels.get(feature, 0), 1)
            spec = {
                "mode": "Apply",
                "cluster": {"bootstrapServers": f"{name}.{cluster.name}:9092"},
                "features": {"levels": [{"name": each, "level": level} for each, level in sorted(wants.items())]},
                "approval": {"policy": "Never"},
                "drift": {"onDrift": "Correct", "checkEvery": "30s"},
            }

            def change(one: dict[str, Any], spec: dict[str, Any] = spec) -> None:
                one["spec"] = spec
                one["metadata"]["annotations"] = {}

            self.server.edit(NAMESPACE, name, change)
            found[one["metadata"]["uid"]] = cluster.world.cluster_id, wants
        return found


def _cluster_of(spec: Mapping[str, Any], known: Mapping[str, Cluster] | None = None) -> str:
    name = str(spec["cluster"]["bootstrapServers"]).partition(":")[0].partition(".")[2]
    return name if name in (known if known is not None else ("a", "b")) else "a"


def simulate(seed: int) -> History:
    """The history of this seed."""
    logging.disable(logging.CRITICAL)

    async def lived() -> History:
        return await Simulation(seed).live()

    return run(lived())


def trace_of(history: History) -> str:
    """A hash of everything that happened: the same seed has the same, in every process."""
    digest = hashlib.sha256()
    for record in history.records:
        digest.update(repr(record).encode())
    return digest.hexdigest()
