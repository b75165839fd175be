"""A cluster and a resource in memory, for passes in a row: what the process does to both, and where it dies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from kafkafeatures.api.status import Status, read_status
from kafkafeatures.core.readings import Failure, LogReading, Readings
from kafkafeatures.core.steps import Applied, DryRun, DryRunAccepted, Outcome, UpdateFeature
from kafkafeatures.core.wanted import Wanted
from kafkafeatures.reconcile.act import Reconciliation, reconcile
from kafkafeatures.reconcile.evaluate import ReconcileContext
from kafkafeatures.reconcile.ports import Resource
from tests.kafkafeatures.worlds import NEW, NOW, SILENT, answer, asked, image, probe, quorum

IDS = (3001, 3002, 1)


class Crash(BaseException):
    """The process is gone."""


class World:
    """A cluster that does what it is told, and dies on the n-th call of anybody."""

    def __init__(self, levels: Mapping[str, int], *, epoch: int = 4) -> None:
        self.levels = dict(levels)
        self.epoch, self.high_watermark = epoch, 100
        self.outcomes: list[Outcome] = []
        self.sent: list[UpdateFeature] = []
        self.effective = 0
        self.crash_in: int | None = None
        self.down: Failure | None = None
        self.quorum_works = True
        self.fetches, self.fetched = False, 1000
        self.no_levels = False
        self.voters: tuple[int, ...] = (3001, 3002)
        self.moved, self.log_is_read = 10, True
        self.later: UpdateFeature | None = None
        self.cluster_id = "cluster-1"

    sends_to_active_controller = True

    def tick(self) -> None:
        if self.crash_in is not None:
            if self.crash_in == 0:
                raise Crash
            self.crash_in -= 1

    async def read(self) -> Readings:
        self.tick()
        if self.down is not None:
            return Readings(probe(asked(1, self.down), brokers=self.down), self.down)
        self.high_watermark += self.quorum_works
        self.fetched += 1000 * self.fetches
        if self.later is not None:
            self.apply(self.later)
            self.later = None
        voting = quorum(epoch=self.epoch, high_watermark=self.high_watermark, voters=self.voters, fetched=self.fetched)
        if self.no_levels:
            return Readings(probe(*(asked(i, answer(epoch=-1)) for i in IDS), quorum=voting), SILENT)
        answers = probe(*(asked(i, answer(NEW, self.levels)) for i in IDS), quorum=voting, cluster_id=self.cluster_id)
        if not self.log_is_read:
            return Readings(answers, SILENT)
        levels = dict(self.levels)
        at = image(
            {1: (NEW, False)},
            {3001: NEW, 3002: NEW},
            kraft_version=levels.pop("kraft.version", 0),
            levels={name: level for name, level in levels.items() if level},
            offset=self.high_watermark,
            epoch=self.epoch,
            features_offset=self.moved,
        )
        return Readings(answers, LogReading(at, self.high_watermark, 3001, self.epoch, NOW))

    async def validate(self, changes: Sequence[UpdateFeature]) -> DryRun:
        self.tick()
        assert all(change.feature != "kraft.version" for change in changes)
        return DryRunAccepted()

    async def update(self, change: UpdateFeature) -> Outcome:
        self.tick()
        self.sent.append(change)
        outcome = self.outcomes.pop(0) if self.outcomes else Applied()
        if isinstance(outcome, Applied):
            self.apply(change)
        self.tick()
        return outcome

    def apply(self, change: UpdateFeature) -> None:
        self.effective += self.levels.get(change.feature, 0) != change.after
        self.levels[change.feature] = change.after
        self.high_watermark += 1
        self.moved = self.high_watermark


class Store:
    """A resource in memory; what was written is written, also after a crash."""

    def __init__(self, world: World, desired: Mapping[str, int]) -> None:
        self.world, self.wanted = world, Wanted(desired)
        self.status: dict[str, Any] = {}
        self.writes = 0

    async def read(self) -> Resource:
        return Resource("ns/name", 1, self.wanted, read_status(self.status)[0])

    async def write_status(self, status: Status) -> None:
        self.world.tick()
        self.status = json.loads(json.dumps(status.as_json()))
        self.writes += 1
        self.world.tick()


async def reconcile_once(context: ReconcileContext) -> Reconciliation:
    """Read the resource, and reconcile it."""
    return await reconcile(context, await context.store.read())


async def no_time(seconds: float) -> None:
    """Time passes without anybody waiting for it."""


def context_of(world: World, store: Store) -> ReconcileContext:
    return ReconcileContext(store=store, kafka=world, now=lambda: NOW, sleep=no_time)


def run(world: World, store: Store, *, most: int = 20) -> Reconciliation:
    """Passes until one has nothing more to do by itself."""
    for _ in range(most):
        last = asyncio.run(reconcile_once(context_of(world, store)))
        if last.requeue_after is None:
            return last
    raise AssertionError(f"not settled after {most} passes: {last}")
