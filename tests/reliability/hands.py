"""The actions of encores on the one resource, cluster and process that remain at the end of a history.

Everything before was healed (`simulation.py`), so what happens here happens exactly, and alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from kafkafeatures.api.names import ACCEPT_RESTORED_LOG, APPROVE
from kafkafeatures.core.facts.readings import Role
from tests.reliability.kafka import Cluster
from tests.reliability.recorded_world import RecordedWorld
from tests.reliability.records import Approved, Restored, steps_left
from tests.reliability.scene import NAMESPACE, Scene

WHOLE = 64
"""Digits of a hash."""
_ASKED = re.compile(re.escape(ACCEPT_RESTORED_LOG) + r': "([^"]+)"')
TRANSACTION, GROUP, METADATA, KRAFT = "transaction.version", "group.version", "metadata.version", "kraft.version"


class Hands:
    """See the module. `random`: of its own, so that whatever is drawn elsewhere stays as it is."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.random = Random(f"{scene.history.seed} encore")
        self.name = scene.names[0]
        self.cluster: Cluster = scene.clusters["a"]

    @property
    def world(self) -> RecordedWorld:
        """The cluster."""
        return self.cluster.world

    # --- the resource ---

    @property
    def object(self) -> Mapping[str, Any]:
        """The resource as it is stored."""
        found = self.scene.server.stored(NAMESPACE, self.name)
        assert found is not None
        return found

    @property
    def status(self) -> Mapping[str, Any]:
        """The status of the resource; empty where there is none yet."""
        return self.object.get("status") or {}

    async def begin(self, levels: Mapping[str, int], **fields: Any) -> None:
        """A new resource instead of all others, and one process; until it was looked at."""
        server = self.scene.server
        for one in list(self.scene.resources()):
            name = one["metadata"]["name"]
            server.change(NAMESPACE, name, lambda each: each["metadata"].update(finalizers=[]))
            if server.stored(NAMESPACE, name) is not None:
                server.delete(NAMESPACE, name)
        spec = {
            "mode": "Apply",
            "cluster": {"bootstrapServers": f"{self.name}.{self.cluster.name}:9092"},
            "approval": {"policy": "Never"},
            "drift": {"onDrift": "Report", "checkEvery": "30s"},
            **fields,
            "features": {**fields.get("features", {}), "levels": listed(levels)},
        }
        server.create(NAMESPACE, self.name, spec)
        self.scene.begin()
        await self.until(self.is_observed)

    def is_observed(self) -> bool:
        """Tell whether the status is of the current document, and of a cluster that was read."""
        ready = self.ready
        told = ready.get("observedGeneration") == self.object["metadata"]["generation"]
        return told and ready.get("status") in ("True", "False") and bool(self.status.get("clusterId"))

    @property
    def ready(self) -> Mapping[str, Any]:
        """The condition Ready of the resource."""
        conditions = self.status.get("conditions", ())
        return next((one for one in conditions if one["type"] == "Ready"), {})

    def edit(self, **fields: Any) -> None:
        """The document has these fields from now on."""
        self.scene.edit(self.name, lambda one: one["spec"].update(fields))

    def ask(self, levels: Mapping[str, int], **fields: Any) -> None:
        """The document asks for these levels alone."""
        features = {**self.object["spec"]["features"], "levels": listed(levels)}
        self.edit(features=features, **fields)

    def annotate(self, name: str, value: str) -> None:
        """Annotate the resource, as a person does."""
        self.scene.edit(self.name, lambda one: one["metadata"].setdefault("annotations", {}).update({name: value}))

    def approve(self, digits: int = WHOLE) -> None:
        """The plan that its status shows, by so many digits of the hash."""
        plan = self.status.get("plan") or {}
        if plan.get("hash"):
            given = plan["hash"][: len("sha256:") + digits]
            at, uid = self.scene.loop.time(), self.object["metadata"]["uid"]
            self.scene.history.records.append(Approved(at, uid, plan["hash"], steps_left(plan), given))
            self.annotate(APPROVE, given)

    # --- time, processes, Kafka ---

    async def wait(self, seconds: float) -> None:
        """A while passes."""
        await self.scene.wait(seconds)

    async def until(self, is_so: Callable[[], bool], *, within: float = 60.0, every: float = 0.25) -> bool:
        """Wait for a condition; tells whether it came true within so many seconds."""
        until = self.scene.loop.time() + within
        while not (so := is_so()) and self.scene.loop.time() < until:
            await self.wait(every)
        return so

    async def sent(self) -> bool:
        """Wait until a request has left the operator and has not yet arrived."""
        before = self.scene.sent
        return await self.until(lambda: self.scene.sent != before, within=20.0, every=0.005)

    async def announced(self, happens: Callable[[], None]) -> bool:
        """Until a step is announced in the status: this happens then, before the operator hears that it was stored.

        Nothing can be written within it: the API server is not done yet.
        """
        server = self.scene.server
        seen: list[str] = []
        before, known = server.listener, self.status.get("intents") or ()

        def stored(event: dict[str, Any], by: str) -> None:
            before(event, by)
            if not seen and any(one not in known for one in event["object"].get("status", {}).get("intents") or ()):
                seen.append(by)
                happens()

        server.listener = stored
        found = await self.until(lambda: bool(seen), within=40.0, every=0.05)
        server.listener = before
        return found

    async def leave(self) -> None:
        """The operator is gone, without a word."""
        for process in self.scene.processes:
            await process.kill()
        self.scene.processes.clear()

    def move(self, **levels: int) -> None:
        """A change by another client; the names without their `.version`."""
        for name, level in levels.items():
            self.cluster.move(f"{name}.version", level)

    def level(self, feature: str) -> int:
        """The level of a feature that is finalized."""
        return self.world.levels.get(feature, 0)

    async def elect(self) -> None:
        """Another controller leads, or the same one anew."""
        leader = self.world.active
        if leader is not None:
            self.world.stop(Role.CONTROLLER, leader, kill=True)
            await self.wait(2.5)
            self.world.start(Role.CONTROLLER, leader)
            await self.wait(5.0)


def listed(levels: Mapping[str, int]) -> list[dict[str, Any]]:
    """The levels as they stand in a document."""
    return [{"name": name, "level": level} for name, level in sorted(levels.items())]


def as_the_status_asks(scene: Scene) -> None:
    """Let a person accept the log that was restored from a backup, and a level that was lost with it."""
    if not any(isinstance(one, Restored) for one in scene.history.records):
        return
    hands = Hands(scene)
    if hands.ready.get("reason") == "ApprovalRequired":
        hands.approve()
    for condition in hands.status.get("conditions", ()):
        asked = _ASKED.search(condition["message"])
        if asked is not None:
            is_spent = asked[1] in (hands.status.get("spentConsents") or ())
            hands.annotate(ACCEPT_RESTORED_LOG, "" if is_spent else asked[1])
