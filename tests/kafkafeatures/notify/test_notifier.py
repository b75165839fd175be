"""Deliveries to a real receiver that fails, pauses and lies: each is made once, and nobody waits for it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kafkafeatures.api.records import stamp
from kafkafeatures.api.status import Status, read_status
from kafkafeatures.api.values import replace
from kafkafeatures.core.report.notifications import NotificationEvent
from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.notify import notifier as module
from kafkafeatures.notify.notifier import AT_ONCE, Notifier
from kafkafeatures.notify.settings import NotifySettings
from tests.kafkafeatures import statuses
from tests.kafkafeatures.notify.receiver import (
    SECRET,
    Answer,
    Hours,
    Receiver,
    answer,
    closes,
    is_silent,
    receiving,
    speaks_otherwise,
)
from tests.kafkafeatures.worlds import NOW

ORDERS, PAYMENTS = ResourceKey("kafka", "orders"), ResourceKey("kafka", "payments")
WAITING = read_status(statuses.waiting_for_approval())[0]
IN_SYNC = read_status(statuses.in_sync())[0]


class Telling:
    """A notifier with its receiver. `results`: what it counted. `noted`: resources whose deliveries are to be noted.
    `failed`: an entry for each request that failed.
    """

    def __init__(self, receiver: Receiver, hours: Hours, events: frozenset[NotificationEvent] | None = None) -> None:
        self.receiver, self.hours = receiver, hours
        self.results: Counter[str] = Counter()
        self.noted: asyncio.Queue[ResourceKey] = asyncio.Queue()
        self.failed: asyncio.Queue[str] = asyncio.Queue()
        settings = NotifySettings(receiver.url_file, events=events or frozenset(NotificationEvent))
        self.notifier = Notifier(settings, hours.environment, delivered=self.noted.put_nowait, count=self._count)

    def _count(self, result: str) -> None:
        self.results[result] += 1
        if result == "failed":
            self.failed.put_nowait(result)

    def tell(self, status: Status = WAITING, resource: ResourceKey = ORDERS, uid: str = "u1") -> Status:
        """Tell a status, and return the status as it is to be written."""
        return replace(status, notified=self.notifier.tell(resource, uid, status))

    async def until_noted(self) -> ResourceKey:
        async with asyncio.timeout(10):
            return await self.noted.get()

    async def until_fewer(self, tasks: int) -> None:
        """Wait until fewer notifications than this are being delivered."""
        async with asyncio.timeout(10):
            while len(self.notifier._tasks) >= tasks:
                await asyncio.wait(self.notifier._tasks, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.sleep(0)  # for the callback that removes it

    async def until_idle(self) -> None:
        await self.until_fewer(1)


@asynccontextmanager
async def telling(
    folder: Path, *answers: Answer, hours: Hours | None = None, events: frozenset[NotificationEvent] | None = None
) -> AsyncIterator[Telling]:
    async with receiving(folder, *answers) as receiver:
        rig = Telling(receiver, hours or Hours(), events)
        try:
            yield rig
        finally:
            await rig.notifier.close()


async def test_a_plan_that_waits_is_told_once_also_by_the_next_process(tmp_path: Path) -> None:
    async with telling(tmp_path) as rig:
        assert rig.tell().notified == ()
        assert rig.tell().notified == ()  # it is being delivered
        assert await rig.until_noted() == ORDERS
        assert rig.notifier.is_unnoted(ORDERS)
        written = rig.tell()
        assert [delivery.at for delivery in written.notified] == [stamp(NOW)]
        assert rig.tell(written) == written
        assert not rig.notifier.is_unnoted(ORDERS)
        successor = Telling(rig.receiver, rig.hours)
        assert successor.tell(written) == written
        await successor.until_idle()
        assert len(rig.receiver.requests) == 1


async def test_a_delivery_that_was_not_noted_is_told_again_by_the_next_process_with_the_same_id(
    tmp_path: Path,
) -> None:
    async with telling(tmp_path) as rig:
        rig.tell()
        await rig.until_noted()
        successor = Telling(rig.receiver, rig.hours)
        successor.tell()
        await successor.until_noted()
        first, second = rig.receiver.requests
        assert first == second


async def test_a_write_that_failed_is_repeated_with_the_delivery(tmp_path: Path) -> None:
    async with telling(tmp_path) as rig:
        rig.tell()
        await rig.until_noted()
        assert rig.tell().notified == rig.tell().notified != ()


async def test_the_receiver_is_tried_again_with_growing_pauses_until_it_takes_the_notification(tmp_path: Path) -> None:
    failing = [answer(500), closes, speaks_otherwise, answer(302, Location="/x"), answer(404), answer(200, b"<html>")]
    async with telling(tmp_path, *failing, answer(429, Retry_After="7"), answer(200)) as rig:
        rig.tell()
        await rig.until_noted()
    assert rig.hours.pauses == [5, 10, 20, 40, 80, 160, 300]
    assert rig.results == {"failed": 7, "delivered": 1}
    assert len({json.dumps(request) for request in rig.receiver.requests}) == 1


async def test_a_pause_that_the_receiver_asks_for_holds_all_notifications(tmp_path: Path) -> None:
    async with telling(tmp_path, answer(429, Retry_After="90"), answer(200), hours=Hours(stands_still=True)) as rig:
        rig.tell()
        await rig.failed.get()
        rig.tell(resource=PAYMENTS)
        await asyncio.sleep(0)
        assert rig.hours.pauses == [90, 90]  # of the failed notification, and of the one that came meanwhile
        assert len(rig.receiver.requests) == 1


async def test_a_pause_that_begins_holds_what_waits_for_a_slot(tmp_path: Path) -> None:
    hours = Hours(stands_still=True)
    async with telling(tmp_path, answer(429, Retry_After="90"), hours=hours) as rig:
        for number in range(3 * AT_ONCE):
            rig.tell(resource=ResourceKey("kafka", f"k{number}"))
        async with asyncio.timeout(10):
            for _ in range(2 * AT_ONCE):  # those that were answered, and those that have the slots now
                await hours.begun.get()
        assert len(rig.receiver.requests) == AT_ONCE


async def test_a_receiver_that_is_down_for_hours_costs_one_line_of_the_log_and_gets_the_notification_at_last(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with telling(tmp_path, *[answer(500)] * 50, answer(200)) as rig:
        rig.tell()
        assert rig.tell().notified == ()
        assert await rig.until_noted() == ORDERS
    assert rig.results == {"failed": 50, "delivered": 1}
    assert sum(rig.hours.pauses) > 3 * 3600
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("kafkafeatures")]
    assert lines == [
        "notifications fail, and are tried again: the webhook answers HTTP 500",
        "notifications are delivered again",
    ]
    assert SECRET not in caplog.text


async def test_a_notification_that_is_no_longer_true_is_withdrawn(tmp_path: Path) -> None:
    async with telling(tmp_path, is_silent) as rig:
        rig.tell()
        assert rig.tell(IN_SYNC).notified == ()
        await rig.until_idle()
        rig.tell()
        rig.notifier.forgot(ORDERS)
        await rig.until_idle()
    assert rig.results == {"withdrawn": 1}


async def test_a_resource_that_was_created_again_has_notifications_of_its_own(tmp_path: Path) -> None:
    async with telling(tmp_path) as rig:
        for uid in ("u1", "u2"):
            rig.tell(uid=uid)
            await rig.until_noted()
    assert [request["id"].partition("/")[0] for request in rig.receiver.requests] == ["u1", "u2"]


async def test_a_silent_receiver_delays_nobody_and_holds_a_bounded_number_of_notifications(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PENDING", 3)
    async with telling(tmp_path, is_silent) as rig:
        for number in range(5):
            rig.tell(resource=ResourceKey("kafka", f"k{number}"))
        assert len(rig.notifier._tasks) == 3
        rig.tell(IN_SYNC, ResourceKey("kafka", "k0"))
        await rig.until_fewer(3)
        rig.tell(resource=ResourceKey("kafka", "k4"))  # its next reconciliation
        assert len(rig.notifier._tasks) == 3


async def test_people_are_told_of_chosen_events_only(tmp_path: Path) -> None:
    async with telling(tmp_path, events=frozenset({NotificationEvent.STALLED})) as rig:
        rig.tell()
        rig.tell(read_status(statuses.stalled())[0], PAYMENTS)
        assert await rig.until_noted() == PAYMENTS
    assert [request["event"] for request in rig.receiver.requests] == ["Stalled"]


async def test_a_url_that_cannot_be_used_is_logged_at_the_start_and_may_be_set_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with telling(tmp_path) as rig:
        rig.notifier.check()
        assert not caplog.messages
        rig.receiver.set_url("")
        rig.notifier.check()
        (line,) = caplog.messages
        assert line.startswith(f"notifications cannot be sent: invalid URL in {rig.receiver.url_file}: ")
        rig.tell()
        await rig.failed.get()
        rig.receiver.set_url(f"http://127.0.0.1:{rig.receiver.port}/")
        assert await rig.until_noted() == ORDERS
