"""One random history: clusters, resources, people, operators that die, and everything that goes wrong in between.

`simulate(seed)` makes it, the same each time. First faults are drawn, then they stop: all nodes run, every resource
asks for something that can be had, and there is time. What the record then shows is judged by `checker.py`, which knows
nothing of how it came about.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from datetime import timedelta
from types import MethodType
from typing import Any

from kafkafeatures.api.names import PAUSE
from kafkafeatures.core.facts.readings import Role
from kafkasim.releases import release_named
from tests.reliability import rolls
from tests.reliability.encores import encore_of
from tests.reliability.hands import Hands, as_the_status_asks
from tests.reliability.kafka import LEVELS, Cluster, Roads
from tests.reliability.migrations import MigrationHistory, is_migration
from tests.reliability.records import Calmed, History, Stored
from tests.reliability.scene import NAMESPACE, ROLL, Scene
from tests.reliability.stories import STORIES, without_what_is_not_known
from tests.reliability.virtual import run
from tests.simulated import schema

SETTLES_WITHIN = 900.0
"""Virtual seconds after the last fault: a broker's window, backoff, a resync, and the plan itself."""
LATEST_DELIVERY = 61.0
QUIET_FOR = 130.0


class Simulation(Scene):
    """A history while it is simulated."""

    async def live(self) -> History:
        """Run the history from its beginning to its end."""
        try:
            for name in self.names:
                self.create(name)
            self.begin()
            told_at = self.random.randrange(6)  # the story of most histories begins early
            for step in range(self.random.randrange(4, 26)):
                await self.wait(self.random.choice((0.05, 0.5, 3.0, 15.0, 60.0)) * self.random.random())
                if step == told_at or self.random.random() < 0.08:
                    story = self.random.choice(STORIES[self.theme])
                    self.history.acts.append(f"{self.loop.time():.3f} {story.__name__}")
                    await story(self)
                else:
                    await self._something_happens()
                self.revive()
            encore = encore_of(self)
            if encore is not None:
                self.history.acts.append(f"{self.loop.time():.3f} encore: {encore.__name__}")
                await self._still()
                await encore(Hands(self))
            await self._calm()
        finally:
            for process in self.processes:
                await process.kill()
        self.history.seconds = self.loop.time()
        return self.history

    # --- what happens ---

    async def _something_happens(self) -> None:
        acts: tuple[tuple[int, Callable[[], Any]], ...] = (
            (5, self._a_node_stops),
            (9, self._a_node_starts),
            (2, self._an_upgrade),
            (5, self._another_client_moves_a_level),
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
        if self.theme == ROLL:
            in_pods = (self._a_node_stops, self._a_node_starts, self._an_upgrade, self._pointed_elsewhere)
            acts = tuple((weight, one) for weight, one in acts if one not in in_pods)
            acts += tuple((weight, MethodType(one, self)) for weight, one in rolls.acts_of(self))
        act = self.random.choices([one for _, one in acts], [weight for weight, _ in acts])[0]
        self.history.acts.append(f"{self.loop.time():.3f} {act.__name__.strip('_')}")
        done = act()
        if done is not None:
            await done

    def _edited(self, change: Callable[[dict[str, Any]], object]) -> None:
        found = self.some_resource()
        if found is not None:
            self.edit(found["metadata"]["name"], change)

    def _nothing(self) -> None:
        """Lets time pass."""

    def _a_node_stops(self) -> None:
        cluster = self.some_cluster()
        node = self.random.choice([one for _, one in sorted(cluster.world.nodes.items())])
        if self.random.random() < 0.5 and cluster.world.active is not None:
            node = cluster.world.nodes[Role.CONTROLLER, cluster.world.active]
        cluster.world.stop(node.role, node.id, kill=self.random.random() < 0.6)
        if self.random.random() < 0.7:  # its owner starts it again
            self.loop.call_later(60.0 * self.random.random(), cluster.world.start_again, node.role, node.id)

    def _a_node_starts(self) -> None:
        cluster = self.some_cluster()
        stopped = [one for _, one in sorted(cluster.world.nodes.items()) if not one.running]
        if stopped:
            node = self.random.choice(stopped)
            cluster.world.start(node.role, node.id)

    def _an_upgrade(self) -> None:
        cluster = self.some_cluster()
        node = self.random.choice([one for _, one in sorted(cluster.world.nodes.items())])
        if node.running:
            cluster.world.upgrade(node.role, node.id, release_named(self.random.choice(("4.1", "4.2"))))

    def _another_client_moves_a_level(self) -> None:
        cluster = self.some_cluster()
        for _ in range(self.random.choice((1, 1, 2))):
            feature = self.random.choice(sorted(LEVELS))
            cluster.move(feature, self.random.choice(LEVELS[feature]))

    def _the_document_changes(self) -> None:
        def change(one: dict[str, Any]) -> None:
            new = self.spec(one["metadata"]["name"], self.cluster_of(one).name)
            parts = self.random.sample(sorted(new), self.random.randrange(1, 4))
            if self.random.random() < 0.3:
                parts = ["consents"]
            for part in parts:
                if part in new:
                    one["spec"][part] = new[part]

        self._edited(change)

    def _a_plan_is_approved(self) -> None:
        found = self.some_resource()
        waiting = [
            one for one in self.resources() if "ApprovalRequired" in str((one.get("status") or {}).get("conditions"))
        ]
        if waiting and self.random.random() < 0.8:
            found = self.random.choice(waiting)
        if found is not None:
            self.approve(found)

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
        found = self.server.stored(NAMESPACE, name)
        if found is None:
            self.create(name)
        elif "deletionTimestamp" in found["metadata"]:
            self.server.change(NAMESPACE, name, lambda one: one["metadata"].update(finalizers=[]))
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
        self.set_clock(self.random.choice((0, 0, 400, -400, 90_000, -90_000)))

    def _another_schema(self) -> None:
        older: tuple[str, ...] = (
            "status.intents",
            "status.intents",
            "status.spentConsents",
            "status.operator",
            "status.changeCount",
            "status.history",
        )
        if "MoveVoters" in str(self.resources()):  # a history of it is not promised where the API server drops fields
            older = older[2:]
        self.server.schema = schema.without(self.random.choice(older))

        def installed() -> None:
            self.server.schema = schema.current()

        self.loop.call_later(40.0 * self.random.random(), installed)

    def _compacted(self) -> None:
        self.server.compact()

    async def _replaced(self) -> None:
        """A rollout of the operator: Recreate."""
        for process in list(self.processes):
            await process.stop()
        self.processes.clear()
        self.begin()

    def _a_second_operator(self) -> None:
        """The Deployment is scaled to two."""
        if len(self.processes) == 1:
            self.begin(self.random.choice(("operator", "another")))

    # --- the end ---

    async def _calm(self) -> None:
        """Stop all faults, and let every resource ask for levels that can be reached."""
        self.history.acts.append(f"{self.loop.time():.3f} calm")
        await self._still()
        cluster_of = self._let_all_ask_for_what_can_be_had()
        self.begin()
        wants = {uid: dict(levels) for uid, (_, levels) in cluster_of.items()}
        ids = {uid: cluster_id for uid, (cluster_id, _) in cluster_of.items()}
        self.history.records.append(Calmed(self.loop.time(), False, wants, ids))
        until = self.loop.time() + SETTLES_WITHIN
        while self.loop.time() < until and not all(self._looks_settled(uid) for uid in wants):
            await asyncio.sleep(20.0)
            as_the_status_asks(self)
            if self.theme == ROLL:
                rolls.a_person_restarts_what_is_asked_for(self)
                rolls.a_person_changes_the_image_where_a_restart_did_not_help(self)
                rolls.a_person_deletes_what_crashed_and_runs(self)
                rolls.a_person_deletes_a_pod_that_does_not_run(self)
                rolls.a_person_says_that_disks_were_meant(self)
        await asyncio.sleep(65.0)
        self.history.records.append(Calmed(self.loop.time(), True, wants, ids))
        await asyncio.sleep(QUIET_FOR)

    async def _still(self) -> None:
        """Faults stop, all nodes run, and no process of the operator does."""
        for field in ("dies", "lost_before", "lost_after", "refused", "stale", "unseen", "late", "slow"):
            setattr(self.weather, field, 0.0)
        self.weather.roads = Roads()
        self.server.schema, self.skew = schema.current(), timedelta(0)
        for process in list(self.processes):
            await process.kill()
        self.processes.clear()
        for cluster in self.clusters.values():
            await self._heal(cluster)
        await self.wait(LATEST_DELIVERY)  # of what brokers kept: only then is it plain what can be had

    def _looks_settled(self, uid: str) -> bool:
        """Enough to stop waiting; the checker judges."""
        found = next(one for one in self.resources() if one["metadata"]["uid"] == uid)
        ready = [one for one in (found.get("status") or {}).get("conditions", ()) if one["type"] == "Ready"]
        rolled = all(map(rolls.are_current, self.clusters.values()))
        current = rolled and bool(ready) and ready[0].get("observedGeneration") == found["metadata"]["generation"]
        return current and (ready[0]["status"] == "True" or ready[0]["reason"] == "DuplicateOwner")

    async def _heal(self, cluster: Cluster) -> None:
        """Let all nodes run the newest release, and unregister nodes that cannot run; nodes in pods can be rolled."""
        cluster.world.hung.clear()
        cluster.world.twice, cluster.world.healed = 0.0, True
        if cluster.pods is not None:
            await rolls.heal(self, cluster)
            return
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

    def _first_bound(self, uid: str) -> str:
        """The cluster that a status named first; empty where it named none."""
        told = (one for one in self.history.records if isinstance(one, Stored) and one.uid == uid)
        return next((str(found) for one in told if (found := one.status.get("clusterId"))), "")

    def _let_all_ask_for_what_can_be_had(self) -> dict[str, tuple[str, dict[str, int]]]:
        """Let each remaining resource ask for reachable levels of the cluster that it belongs to."""
        found: dict[str, tuple[str, dict[str, int]]] = {}
        ids = {one.world.cluster_id: one for one in self.clusters.values()}
        for name in self.names:
            one = self.server.stored(NAMESPACE, name)
            if one is None or "deletionTimestamp" in one["metadata"]:
                continue
            bound = (one.get("status") or {}).get("clusterId")
            was_bound = bool(one.get("status")) and not bound and self._first_bound(one["metadata"]["uid"])
            cluster = ids.get(str(bound or was_bound)) or self.cluster_of(one)
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

            if was_bound:  # as the status asks for where its own id was lost
                spec["cluster"] = {"bootstrapServers": f"{name}.{cluster.name}:9092", "clusterId": was_bound}
            if cluster.pods is not None:
                spec |= {**rolls.CALM, "workload": cluster.pods.workload}

            def change(one: dict[str, Any], spec: dict[str, Any] = spec) -> None:
                one["spec"] = spec
                one["metadata"]["annotations"] = {}

            self.server.edit(NAMESPACE, name, change)
            if "MoveVoters" in str((one.get("status") or {}).get("intents")):
                self.server.edit_status(NAMESPACE, name, without_what_is_not_known)
            found[one["metadata"]["uid"]] = cluster.world.cluster_id, wants
        return found


def simulate(seed: int) -> History:
    """The history of this seed. Nothing is logged meanwhile."""

    async def lived() -> History:
        return await (MigrationHistory if is_migration(seed) else Simulation)(seed).live()

    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        return run(lived())
    finally:
        logging.disable(before)


def trace_of(history: History) -> str:
    """A hash of everything that happened: the same seed has the same, in every process."""
    digest = hashlib.sha256()
    for record in history.records:
        digest.update(repr(record).encode())
    return digest.hexdigest()
