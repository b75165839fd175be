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

from kafkafeatures.core.facts.readings import Role
from tests.kafkafeatures.reconcile.test_stateful_sets import WORKLOAD, Rig
from tests.simulated.requests import Fault, Request

ANNOTATION = "example.com/restart"
MOST = 200


class Story(Rig):
    """Brokers that stop and start with their pods. `requests`: that change pods."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.uids: dict[int, str] = {}
        super().__init__()
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


if __name__ == "__main__":
    print(json.dumps(asyncio.run(rolled_by(sys.argv[1]))))
