"""One KafkaFeatures, `kafka/orders`, on a simulated API server: what its owner does to it, and what is read of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.kube.client import KubeApi
from tests.simulated.kubernetes import ApiServer
from tests.simulated.requests import Fault, Faults, Request, no_faults

KEY = ResourceKey("kafka", "orders")
Json = dict[str, Any]


class Orders:
    """`now`: the server's clock. `faults`: of all clients. It wants metadata.version 27."""

    def __init__(self, **cluster: Any) -> None:
        self.now = datetime(2026, 1, 2, 3, 5, 5, tzinfo=UTC)
        self.faults: Faults = no_faults
        self.server = ApiServer(lambda: self.now)
        self._ticks = itertools.cycle(("60s", "1m"))
        self.create(cluster={"bootstrapServers": "kafka:9092", **cluster})

    def create(self, **spec: Any) -> None:
        """Anew, under the same name."""
        levels = {"levels": [{"name": "metadata.version", "level": 27}]}
        self.server.create(*KEY, {"features": levels, **spec}, creationTimestamp="2026-01-01T00:00:00Z")

    def client(self) -> KubeApi:
        """A connection of one process."""
        return self.server.client(self._fault)

    def wait(self, time: timedelta) -> None:
        self.now += time

    @property
    def object(self) -> Json:
        """A copy of the object as it is now."""
        found = self.server.get(*KEY)
        assert found is not None
        return found

    @property
    def status(self) -> Json:
        """A copy of the status as it is now."""
        status: Json = self.object["status"]
        return status

    @property
    def spec(self) -> Json:
        """A copy of the spec as it is now."""
        spec: Json = self.object["spec"]
        return spec

    def edit(self, **spec: Any) -> None:
        """By its owner; without words in a way that means nothing. A generation of its own each time."""
        self.server.edit(*KEY, lambda one: one["spec"].update({"drift": {"checkEvery": next(self._ticks)}} | spec))

    def edit_status(self, change: Callable[[Json], Any]) -> None:
        """By a person. `change` gets the status."""
        self.server.edit_status(*KEY, lambda one: change(one.setdefault("status", {})))

    @property
    def writes(self) -> int:
        """How often operators wrote the status."""
        counts = self.server.status_writes
        return sum(times for manager, times in counts.items() if manager.startswith("kafkafeatures.dev/"))

    @property
    def events(self) -> list[str]:
        """The reasons of the Events, oldest first."""
        return [one["reason"] for one in self.server.events()]

    def condition(self, kind: str) -> Json:
        """A condition of the status."""
        return next(one for one in self.status["conditions"] if one["type"] == kind)

    def _fault(self, request: Request) -> Fault | None:
        return self.faults(request)
