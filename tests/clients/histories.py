"""Histories of brokers and of what clients send them, and the scrapes that such brokers would give.

A test knows the history, and holds the verdict on the scrapes against it. Times are minutes; the window is the last
`DAYS` days before `END`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from kafkafeatures.client_targets import client_targets
from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.clients.evidence import MINUTE, Scrape
from kafkafeatures.core.clients.registry import BrokerRegistry
from kafkafeatures.core.clients.verdict import ClientCheck, check_clients

HOUR, DAY = 60, 24 * 60
END = 20_000 * DAY
DAYS = 35
BEGIN = END - DAYS * DAY
TARGETS = client_targets()
GONE = ("Produce", 2)
"""A version that 4.x removed."""


class Process(Struct, frozen=True):
    """A process of a broker from its start to its end. `uses`: the minutes at which it is sent a removed version.
    `refuses`: it is of Kafka 4.x, which refuses removed versions and does not count them.
    """

    start: int
    end: int
    uses: tuple[int, ...] = ()
    refuses: bool = False

    def counters(self, minute: int, offset: int = 0) -> dict[tuple[str, int], float]:
        """The counters at a minute. Heartbeats and fetches grow with every minute, so no two scrapes are equal. The
        first offsets are deleted after three days. `offset`: makes the counters of two brokers differ.
        """
        alive = float(minute - self.start + offset)
        counters = {("ApiVersions", 3): 1.0 + offset, ("Heartbeat", 4): alive + 1, ("Fetch", 11): 2 * alive + 1}
        counters |= {("OffsetCommit", 8): alive + 1} | ({("OffsetDelete", 0): 1.0} if alive >= 3 * DAY else {})
        uses = 0 if self.refuses else sum(use <= minute for use in self.uses)
        return counters | ({GONE: float(uses)} if uses else {})


class History(Struct, frozen=True):
    """The processes of each broker."""

    brokers: dict[int, tuple[Process, ...]]

    def scrape(self, broker: int, minute: int, *, clock_error: int = 0) -> Scrape | None:
        """The scrape of a broker at a minute; None if no process runs then. `clock_error`: minutes by which the clock
        of the broker is ahead.
        """
        for process in self.brokers[broker]:
            if process.start <= minute <= process.end:
                # The id, in ms, makes the starts of all brokers differ, as the scrapes of one process have one start.
                start = (process.start + clock_error) * MINUTE + broker
                name = f"{broker}/{minute}.prom"
                counters = process.counters(minute, offset=broker * 7)
                return Scrape(broker, minute * MINUTE, start, counters, not process.refuses, name)
        return None

    def scrapes(self, minutes: Iterable[int], *, clock_errors: dict[int, int] | None = None) -> Iterator[Scrape]:
        """The scrapes of all brokers at these minutes."""
        for broker in self.brokers:
            for minute in minutes:
                error = (clock_errors or {}).get(broker, 0)
                if (scrape := self.scrape(broker, minute, clock_error=error)) is not None:
                    yield scrape


def checked(
    scrapes: Iterable[Scrape],
    registered: Iterable[int] | None,
    *,
    release: str = "4.1",
    at: int = END,
    days: int = DAYS,
    all_refuse: bool = False,
) -> ClientCheck:
    """The check for a window of `days` that ends at the minute `at`. `all_refuse`: all brokers are of Kafka 4.x."""
    window = EvidenceWindow((at - days * DAY) * MINUTE, at * MINUTE)
    registry = None if registered is None else BrokerRegistry(frozenset(registered))
    return check_clients(release, TARGETS, scrapes, registry, window, all_refuse=all_refuse)


class Client(Struct, frozen=True):
    """A real client. `versions`: those that it sent to Kafka 3.9.2, by API; `works`: it works with Kafka 4.1.2."""

    works: bool
    versions: dict[str, list[int]]


def fifteen_clients() -> dict[str, Client]:
    """Real clients with their real outcomes."""
    path = Path(__file__).with_name("fifteen_clients.json")
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Client])
