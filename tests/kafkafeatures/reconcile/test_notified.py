"""Notifications of reconciliations: noted in the status once a real receiver has them, and never waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.notify.notifier import Notifier
from kafkafeatures.notify.settings import NotifySettings
from tests.kafkafeatures.notify.receiver import Answer, Hours, Receiver, answer, is_silent, receiving
from tests.kafkafeatures.reconcile.rig import Kafka, Rig
from tests.kafkafeatures.reconcile.test_operators import TwoOperators
from tests.kafkafeatures.reconcile.test_schema import schema_without
from tests.simulated.orders import KEY, Orders


class Notified:
    """A resource whose plan waits for approval, a receiver, and a process of the operator with its notifier."""

    def __init__(self, receiver: Receiver, api: Orders | None = None) -> None:
        self.receiver = receiver
        self.delivered: asyncio.Queue[ResourceKey] = asyncio.Queue()
        settings = NotifySettings(receiver.url_file, "slack")
        self.notifier = Notifier(settings, Hours().environment, delivered=self.delivered.put_nowait)
        self.api = api or Orders()
        if api is None:
            self.api.edit(approval={"policy": "Always"})
        self.rig = Rig(self.api, Kafka({"metadata.version": 21}), notifier=self.notifier)

    async def until_delivered(self) -> None:
        async with asyncio.timeout(10):
            assert await self.delivered.get() == KEY

    @property
    def notified(self) -> list[str]:
        return [delivery["key"].partition("-")[0] for delivery in self.api.status.get("notified", [])]

    @property
    def texts(self) -> list[str]:
        return [request["text"] for request in self.receiver.requests]


@asynccontextmanager
async def notified(folder: Path, *answers: Answer) -> AsyncIterator[Notified]:
    async with receiving(folder, *answers) as receiver:
        world = Notified(receiver)
        try:
            yield world
        finally:
            await world.notifier.close()


async def test_a_waiting_plan_is_told_once_and_noted_by_the_next_reconciliation(tmp_path: Path) -> None:
    async with notified(tmp_path) as world:
        await world.rig.work()
        await world.until_delivered()
        assert world.notified == []
        await world.rig.work()
        assert world.notified == ["ApprovalRequired"]
        writes = world.api.writes
        for _ in range(3):
            await world.rig.work()
        successor = Notified(world.receiver, world.api)
        await successor.rig.work()
        await asyncio.sleep(0)
        assert successor.notifier.is_unnoted(KEY) is False
        assert world.api.writes - writes <= 1  # the name of the next process
        await successor.notifier.close()
    (text,) = world.texts
    assert text.startswith("kafka/orders: a plan waits for approval (PlanPending): approve plan sha256:")


async def test_a_delivery_is_noted_although_the_resource_is_at_rest_and_the_pause_is_not_over(tmp_path: Path) -> None:
    async with notified(tmp_path) as world:
        await world.rig.controller.reconcile(KEY)
        world.rig.watched = world.api.object["metadata"]["resourceVersion"]
        await world.until_delivered()
        looks = world.rig.kafka.looks
        pause = await world.rig.controller.reconcile(KEY)  # as the queue does when it is woken
        assert world.notified == ["ApprovalRequired"]
        assert pause is not None
        assert pause > 0
        world.rig.watched = world.api.object["metadata"]["resourceVersion"]
        writes = world.api.writes
        await world.rig.controller.reconcile(KEY)
        await world.rig.controller.reconcile(KEY)
        assert (world.api.writes, world.rig.kafka.looks - looks) == (writes, 2)


async def test_a_receiver_that_never_answers_delays_no_reconciliation(tmp_path: Path) -> None:
    async with notified(tmp_path, is_silent) as world:
        async with asyncio.timeout(5):  # a request to the receiver would take 10 s
            for _ in range(3):
                await world.rig.work()
        assert world.api.condition("ApprovalRequired")["status"] == "True"
        assert world.notified == []


async def test_an_approved_plan_is_told_of_no_more_and_the_next_plan_is_told(tmp_path: Path) -> None:
    async with notified(tmp_path) as world:
        await world.rig.work()
        await world.until_delivered()
        levels = [{"name": "metadata.version", "level": 26}]
        world.api.edit(features={"levels": levels}, approval={"policy": "Always"})
        await world.rig.work()
        await world.until_delivered()
        await world.rig.work()
    assert world.notified == ["ApprovalRequired"] * 2
    assert [text.rpartition(" ")[2] for text in world.texts] == ["27", "26"]


async def test_a_resource_that_was_deleted_is_told_of_no_more(tmp_path: Path) -> None:
    async with notified(tmp_path, is_silent) as world:
        await world.rig.work()
        (task,) = world.notifier._tasks
        world.api.server.delete(*KEY)
        assert await world.rig.controller.reconcile(KEY) is None
        await asyncio.wait([task], timeout=5)
        assert task.cancelled()


async def test_a_failing_receiver_changes_no_status(tmp_path: Path) -> None:
    async with notified(tmp_path, answer(500)) as world:
        for _ in range(3):
            await world.rig.work()
        async with asyncio.timeout(10):
            await world.receiver.has_request.wait()
        writes = world.api.writes
        await world.rig.work()
    assert (world.notified, world.api.writes) == ([], writes)


async def test_an_older_crd_that_drops_the_note_costs_no_second_notification_in_a_process(tmp_path: Path) -> None:
    async with notified(tmp_path) as world:
        world.api.server.schema = schema_without("notified")
        await world.rig.work()
        await world.until_delivered()
        for _ in range(3):
            await world.rig.work()
    assert (world.notified, len(world.texts)) == ([], 1)
    assert world.api.condition("Ready")["reason"] == "ApprovalRequired"


async def test_two_operators_that_stop_for_each_other_are_told_of(tmp_path: Path) -> None:
    two = TwoOperators()
    async with receiving(tmp_path) as receiver:
        world = Notified(receiver, two.api)
        two.first = Rig(two.api, two.kafka, "a", notifier=world.notifier)
        await two.begun()
        await two.settled(two.first, two.second)
        assert two.api.condition("Stalled")["reason"] == "ConflictDetected"
        await world.until_delivered()
        await two.settled(two.first, two.second)
        await world.notifier.close()
    (text,) = world.texts
    assert text.startswith("kafka/orders: action required (ConflictDetected): ")
