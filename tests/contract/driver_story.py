"""A roll of three brokers in pods by one driver: production's controller, a simulated API server, a simulated cluster.

`python -m tests.contract.driver_story NAME` prints what came of it as JSON. Called by `test_new_driver.py`, also in a
copy of this tree that has one driver more.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from kafkafeatures.api.names import RESTART_POD_UID
from kafkafeatures.core.facts.readings import Role
from tests.contract.new_drivers.annotations import ANNOTATION
from tests.kafkafeatures.reconcile.test_stateful_sets import WORKLOAD, Rig
from tests.simulated.requests import Fault, Request

MOST = 200


class Story(Rig):
    """Brokers that stop and start with their pods. `requests`: that change pods."""

    def __init__(self, *, only_controller: bool = False) -> None:
        self.requests: list[str] = []
        self.uids: dict[int, str] = {}
        super().__init__(only_controller=only_controller)
        self.workloads.restarts_on = ANNOTATION
        self.api.faults = self._heard
        self.uids = {id_: self.workloads.uid(f"broker-{id_ - 1}") for id_ in (1, 2, 3)}

    def pass_time(self, time: timedelta) -> None:
        super().pass_time(time)
        for id_ in self.uids:
            self._follow(id_)
        world = self.kafka.world if self.uids else None
        if world is not None:
            world.advance(world.now_ms + int(time.total_seconds() * 1000))

    def restart(self, pod: str) -> None:
        """What another operator does: the pod is replaced, and its node comes back."""
        self.workloads._stop(pod, self.workloads.uid(pod))
        for _ in range(4):
            self.pass_time(timedelta(seconds=10))

    def request(self, pod: str, uid: str | None) -> None:
        """What a person does: request a restart of the pod with this uid, or withdraw the request."""
        self.workloads.change_pod(pod, lambda raw: raw["metadata"].update(annotations=_without(raw, RESTART_POD_UID)))
        if uid is not None:
            self.workloads.change_pod(pod, lambda raw: raw["metadata"]["annotations"].update({RESTART_POD_UID: uid}))

    def _follow(self, id_: int) -> None:
        pod, world = self.api.server.read(f"/api/v1/namespaces/kafka/pods/broker-{id_ - 1}"), self.kafka.world
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            world.stop(Role.BROKER, id_)
        elif pod["metadata"]["uid"] != self.uids[id_] and pod["status"].get("podIP"):
            self.uids[id_] = pod["metadata"]["uid"]
            world.ips[Role.BROKER, id_] = pod["status"]["podIP"]
            world.start(Role.BROKER, id_)

    def _heard(self, request: Request) -> Fault | None:
        if request.writes and "/pods/" in request.path:
            self.requests.append(f"{request.method} {request.path.removeprefix('/api/v1/namespaces/kafka/')}")
        return None


def _without(raw: Mapping[str, Any], name: str) -> dict[str, str]:
    return {key: text for key, text in raw["metadata"].get("annotations", {}).items() if key != name}


async def rolled_by(driver: str) -> Mapping[str, Any]:
    """Wait until every broker has been restarted and was seen to be back."""
    story = Story()
    story.api.edit(workload={**WORKLOAD, "driver": driver})
    if driver != WORKLOAD["driver"]:  # what only an eviction needs is not asked of others
        story.workloads.change("broker", lambda one: one["spec"].update(updateStrategy={"type": "RollingUpdate"}))
    for _ in range(MOST):
        await story.work(1)
        if [one["result"] for one in story.api.status.get("history", ())] == ["Applied"] * 3:
            break
    status = story.api.status
    return {
        "requests": story.requests,
        "evictions": story.workloads.evictions,
        "notes": [one["note"] for one in story.api.server.events() if one["reason"] == "RestartingNode"],
        "history": [(one["kind"], one["target"], one["result"]) for one in status.get("history", ())],
        "pods": story.workloads.pods(),
        "rolled": story.api.condition("NodesRolled"),
    }


async def followed_by(driver: str) -> Mapping[str, Any]:
    """Another operator rolls the brokers; then a restart is requested, withdrawn, and requested again."""
    story = Story()
    story.workloads.restarts_on = ""  # the other operator acts later than at once
    story.api.edit(workload={**WORKLOAD, "driver": driver})
    await story.work(2)
    ready, rolled = [story.api.condition("Ready")["message"]], [story.api.condition("NodesRolled")["message"]]
    for pod in story.workloads.pods():
        story.restart(pod)
    await story.work(2)
    rolled.append(story.api.condition("NodesRolled")["message"])
    story.request("broker-1", story.workloads.uid("broker-1"))
    await story.work(3)
    ready.append(story.api.condition("Ready")["message"])
    story.request("broker-1", None)
    await story.work(5)
    story.request("broker-1", story.workloads.uid("broker-1"))
    await story.work(2)
    story.restart("broker-1")
    await story.work(3)
    return {
        "waited": ready,
        "rolled": [message.partition(";")[0] for message in rolled],
        "requests": story.requests,
        "evictions": story.workloads.evictions,
        "history": [
            (entry["kind"], entry["target"], entry["result"])
            for entry in story.api.status["history"]
            if entry.get("kind") == "RestartNode"
        ],
    }


if __name__ == "__main__":
    told = followed_by if "--follow" in sys.argv else rolled_by
    print(json.dumps(asyncio.run(told(sys.argv[1]))))
