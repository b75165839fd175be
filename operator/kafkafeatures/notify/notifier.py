"""Deliveries of notifications: each in a task of its own with retries, never delaying a reconciliation.

Called by `reconcile/controller.py` after each reconciliation (`tell`), which it never makes wait. A delivery is noted
in `status.notified` by the next reconciliation, which is asked for at once. So a notification is sent at least once:
once more if the operator ends between the delivery and that note, or if the receiver took it and answered too late.
It is sent again until the receiver takes it or the status no longer calls for it: a receiver that is mended after days
still learns what waits by then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from kafkafeatures.api.records import Stamp, stamp
from kafkafeatures.api.since_status import NotifiedStatus
from kafkafeatures.api.status import Status
from kafkafeatures.core.report.notifications import (
    is_delivered,
    notifications_of,
    with_delivery,
)
from kafkafeatures.environment import Environment
from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.notify.formats import FORMATS, Message
from kafkafeatures.notify.settings import NotifySettings
from kafkafeatures.notify.webhook import NotDelivered, Webhook

MAX_PENDING = 256
"""Most notifications that are being delivered. Others begin at a later reconciliation of their resource."""
AT_ONCE = 4
"""Requests at the same time."""
FIRST_RETRY, LAST_RETRY = 5.0, 300.0
"""Seconds until the first retry, and between later ones at most."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Deliveries:
    """Deliveries of one resource, by key of the notification.

    uid: of the resource. pending: tasks. ended: what was delivered, until the status has it.
    """

    uid: str
    pending: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    ended: dict[str, Stamp] = field(default_factory=dict)

    def withdraw(self, keys: set[str]) -> int:
        """Cancel these deliveries; return their number."""
        for key in keys:
            self.pending.pop(key).cancel()
        return len(keys)


class Notifier:
    """The `NotifierPort` of the controller. `delivered`: called with a resource whose notification was delivered.
    `count`: called with a result (`RESULTS`), for metrics.
    """

    def __init__(
        self,
        settings: NotifySettings,
        environment: Environment,
        *,
        delivered: Callable[[ResourceKey], None],
        count: Callable[[str], None] = lambda result: None,
    ) -> None:
        self._settings, self._environment = settings, environment
        self._format, self._webhook = FORMATS[settings.format], Webhook(settings)
        self._delivered, self._count = delivered, count
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._deliveries: dict[ResourceKey, _Deliveries] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._not_before = 0.0  # the receiver asked for a pause until this monotonic time
        self._is_failing = False

    def check(self) -> None:
        """Log an error if the URL cannot be used. That ends nothing: it is read again for each notification."""
        try:
            self._webhook.url()
        except NotDelivered as error:
            logger.error("notifications cannot be sent: %s", error)

    def tell(self, resource: ResourceKey, uid: str, status: Status) -> tuple[NotifiedStatus, ...]:
        deliveries = self._of(resource, uid)
        due = {
            notification.key: notification
            for notification in notifications_of(status)
            if notification.event in self._settings.events
        }
        for _ in range(deliveries.withdraw(deliveries.pending.keys() - due.keys())):
            self._count("withdrawn")
        notified = status.notified
        for delivery in notified:
            if deliveries.ended.get(delivery.key) == delivery.at:
                del deliveries.ended[delivery.key]  # it is noted
        for key, at in deliveries.ended.items():
            notified = with_delivery(notified, key, at, due.keys())
        now = self._environment.clock()
        for key, notification in due.items():
            is_told = key in deliveries.pending or is_delivered(notification, notified, now)
            if not is_told and len(self._tasks) < MAX_PENDING:
                self._begin(Message(resource, uid, notification, self._settings.sender), deliveries)
        return notified

    def is_unnoted(self, resource: ResourceKey) -> bool:
        deliveries = self._deliveries.get(resource)
        return deliveries is not None and bool(deliveries.ended)

    def forgot(self, resource: ResourceKey) -> None:
        """Discard what is known of a resource that was deleted."""
        deliveries = self._deliveries.pop(resource, None)
        if deliveries is not None:
            deliveries.withdraw({*deliveries.pending})

    async def close(self) -> None:
        """Cancel all deliveries: the next process begins them anew."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _of(self, resource: ResourceKey, uid: str) -> _Deliveries:
        deliveries = self._deliveries.get(resource)
        if deliveries is None or deliveries.uid != uid:
            self.forgot(resource)
            deliveries = self._deliveries[resource] = _Deliveries(uid)
        return deliveries

    def _begin(self, message: Message, deliveries: _Deliveries) -> None:
        task = asyncio.create_task(self._deliver(message, deliveries), name=f"notification of {message.resource}")
        deliveries.pending[message.notification.key] = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, message: Message, deliveries: _Deliveries) -> None:
        """Send a notification until it is delivered."""
        await self._send(message)
        key = message.notification.key
        deliveries.pending.pop(key, None)
        deliveries.ended[key] = stamp(self._environment.clock())
        self._count("delivered")
        self._delivered(message.resource)

    async def _send(self, message: Message) -> None:
        """Send it until the receiver takes it."""
        body = msgspec.json.encode(self._format(message))
        monotonic, delay = self._environment.monotonic, FIRST_RETRY
        while True:
            try:
                async with self._slots:
                    # In the slot: what waits for one must not be sent in a pause that begins meanwhile.
                    while (pause := self._not_before - monotonic()) > 0:
                        await self._environment.sleep(pause)
                    await self._webhook.post(body)
            except NotDelivered as error:
                self._not_before = max(self._not_before, monotonic() + error.wait)
                self._count("failed")
                self._note_failure(error)
                await self._environment.sleep(max(self._environment.jittered(delay), error.wait))
                delay = min(2 * delay, LAST_RETRY)
            else:
                self._note_success()
                return

    def _note_failure(self, error: NotDelivered) -> None:
        """Log the first failure, not each one."""
        if not self._is_failing:
            logger.warning("notifications fail, and are tried again: %s", error)
        self._is_failing = True

    def _note_success(self) -> None:
        if self._is_failing:
            logger.info("notifications are delivered again")
        self._is_failing = False
