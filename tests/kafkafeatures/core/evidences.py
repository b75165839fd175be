"""Evidence about clients of brokers, as Prometheus has it: for tests of rolls that depend on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from kafkafeatures.api.values import replace
from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.clients.evidence import CounterKey, Scrape
from kafkafeatures.core.clients.reading import ClientsReading, JudgedBrokers
from kafkafeatures.core.clients.registry import BrokerRegistry
from kafkafeatures.core.clients.verdict import check_clients
from kafkafeatures.core.engine.desired_state import ClientRequirements
from kafkafeatures.core.facts.observation import Known, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from tests.clients.histories import TARGETS
from tests.kafkafeatures.worlds import NOW

DAY = 86_400_000
END = round(NOW.timestamp() * 1000)
WINDOW = timedelta(days=35)
GATE = ClientRequirements("4.4", WINDOW, holds_roll=True)
REPORT = replace(GATE, holds_roll=False)
PRODUCE_2, FETCH_3 = ("Produce", 2), ("Fetch", 3)
STALE = Unknown(Failure(FailureKind.STALE, "Prometheus", "evidence about clients is older than 30 minutes"))
MISSING = Unknown(Failure(FailureKind.UNREACHABLE, "Prometheus", "Prometheus does not answer"))


def scrapes(
    broker: int,
    *used: CounterKey,
    since: int = 40,
    before: tuple[CounterKey, ...] = (),
    until: int = 0,
    end: int = END,
) -> tuple[Scrape, ...]:
    """Build one scrape a day of a broker process that started `since` days ago. `used`: API versions that clients used
    on the last day; `before`: those whose counters were above 0 in the first scrape already, so that their time is not
    known; `until`: days ago of the last scrape; `end`: today, in ms.
    """
    start = end - since * DAY - broker
    days = range(since, until - 1, -1)
    return tuple(
        Scrape(broker, end - day * DAY, start, _counters(since - day, used, before, is_last=day == until), True)
        for day in days
    )


def _counters(
    age: int, used: Iterable[CounterKey], before: Iterable[CounterKey], *, is_last: bool
) -> Mapping[CounterKey, float]:
    counters: dict[CounterKey, float] = {("ApiVersions", 3): 1.0 + age}
    counters |= dict.fromkeys(before, 5.0)
    return counters | dict.fromkeys(used if is_last else (), 10.0)


def reading(
    ids: Iterable[int], *given: Scrape, release: str = "4.4", window: timedelta = WINDOW, all_refuse: bool = False
) -> Known[ClientsReading]:
    """Build the verdict from these scrapes, for these brokers."""
    brokers = JudgedBrokers(frozenset(ids), all_refuse=all_refuse)
    span = EvidenceWindow(END - round(window.total_seconds() * 1000), END)
    check = check_clients(release, TARGETS, given, BrokerRegistry(brokers.ids), span, all_refuse=all_refuse)
    return Known(ClientsReading(check, brokers), SourceKind.PROMETHEUS, "", NOW)


def covered(ids: Iterable[int], *used: CounterKey, release: str = "4.4") -> Known[ClientsReading]:
    """Build evidence without a gap for these brokers. `used`: API versions that clients of the first broker used."""
    first, *other_ids = ids
    every = [*scrapes(first, *used), *(scrape for id_ in other_ids for scrape in scrapes(id_))]
    return reading(ids, *every, release=release)


def with_clients(observation: Observation, clients: Known[ClientsReading] | Unknown) -> Observation:
    """Add evidence about clients."""
    return replace(observation, clients=clients)
