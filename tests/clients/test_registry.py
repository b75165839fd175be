"""Registrations of brokers: the times that scrapes have to cover, and scrapes of a process that is not registered."""

from __future__ import annotations

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.clients.coverage import EvidenceWindow, GapCause
from kafkafeatures.core.clients.evidence import MINUTE, Scrape
from kafkafeatures.core.clients.registry import BrokerRegistry, RegisteredProcess
from kafkafeatures.core.clients.verdict import ClientCheck, ClientVerdict, check_clients
from tests.clients.histories import BEGIN, DAY, END, HOUR, TARGETS, History, Process

READY, UNKNOWN = ClientVerdict.READY, ClientVerdict.UNKNOWN
START = BEGIN - DAY
HISTORY = History({broker: (Process(START, END),) for broker in (1, 2)})


def check(registry: BrokerRegistry, scrapes: list[Scrape]) -> ClientCheck:
    return check_clients("4.1", TARGETS, scrapes, registry, EvidenceWindow(BEGIN * MINUTE, END * MINUTE))


def gaps(result: ClientCheck) -> dict[int, list[tuple[GapCause, int, int]]]:
    """The gaps of each broker that has to be covered, in minutes."""
    return {
        item.broker: [(gap.cause, gap.begin // MINUTE, gap.end // MINUTE) for gap in item.gaps]
        for item in result.brokers or ()
    }


def scrapes_of(broker: int, *minutes: int) -> list[Scrape]:
    return [scrape for scrape in HISTORY.scrapes(minutes) if scrape.broker == broker]


def test_a_broker_that_was_unregistered_in_the_window_has_to_be_covered_until_then() -> None:
    gone = END - DAY
    registry = BrokerRegistry(frozenset((1,)), removed={2: gone * MINUTE})
    whole = scrapes_of(1, END)
    assert gaps(check(registry, whole)) == {1: [], 2: [(GapCause.NO_EVIDENCE, BEGIN, gone)]}
    result = check(registry, [*whole, *scrapes_of(2, gone - HOUR)])
    assert gaps(result) == {1: [], 2: [(GapCause.STALE, gone - HOUR, gone)]}
    assert result.ready_from == (gone + END - BEGIN) * MINUTE, "no scrape of it will come any more"
    assert check(registry, [*whole, *scrapes_of(2, gone - 1)]).verdict is READY
    before = BrokerRegistry(frozenset((1,)), removed={2: BEGIN * MINUTE})
    assert check(before, whole).verdict is READY


def test_a_broker_with_a_scrape_in_the_window_has_to_be_covered_though_it_is_not_registered() -> None:
    registry = BrokerRegistry(frozenset((1,)))
    for last in (BEGIN + DAY, END - DAY):
        result = check(registry, [*scrapes_of(1, END), *scrapes_of(2, last)])
        assert gaps(result) == {1: [], 2: [(GapCause.STALE, last, END)]}
        assert result.ready_from == (last + END - BEGIN) * MINUTE, "nobody will scrape it any more"
    assert check(registry, [*scrapes_of(1, END), *scrapes_of(2, BEGIN - HOUR)]).verdict is READY
    assert check(registry, scrapes_of(1, END) + scrapes_of(2, END)).verdict is READY


def test_a_broker_that_joined_within_the_window_has_no_gap_before_its_first_registration() -> None:
    joined = END - 3 * DAY
    history = History({2: (Process(joined, END),)})
    evidence = [*scrapes_of(1, END), *history.scrapes([END])]
    process = RegisteredProcess(joined * MINUTE, joined * MINUTE)
    registry = BrokerRegistry(frozenset((1, 2)), joined={2: joined * MINUTE}, processes={2: process})
    assert check(registry, evidence).verdict is READY
    unknown = replace(registry, joined={})
    assert gaps(check(unknown, evidence)) == {1: [], 2: [(GapCause.BEFORE_START, BEGIN, joined)]}
    restarted = replace(registry, processes={2: RegisteredProcess((END - DAY) * MINUTE, (END - DAY) * MINUTE)})
    assert [cause for cause, *_ in gaps(check(restarted, evidence))[2]] == [GapCause.CONTRADICTION]


def test_the_verdict_is_unknown_if_no_broker_was_registered_within_the_window() -> None:
    registry = BrokerRegistry(frozenset((1,)), joined={1: END * MINUTE})
    assert (check(registry, []).verdict, check(registry, []).brokers) == (UNKNOWN, None)


@pytest.mark.parametrize(
    ("earliest", "latest", "fits"),
    [
        pytest.param(START, START, True, id="at its start"),
        pytest.param(START - 59, START - 59, True, id="59 minutes before: the clock may be off"),
        pytest.param(START + 59, START + 59, True, id="59 minutes after"),
        pytest.param(START - 61, START - 61, False, id="61 minutes before"),
        pytest.param(START + 61, START + 61, False, id="61 minutes after"),
        pytest.param(0, START - 61, False, id="at any time up to 61 minutes before"),
        pytest.param(0, START, True, id="at any time up to its start"),
        pytest.param(0, END - 10 * DAY, True, id="at any time up to ten days before the end"),
        pytest.param(END - DAY, END - DAY, False, id="a day before the end: the scrape is of an older process"),
        pytest.param(END - 4, END - 4, True, id="minutes before the end: the scrape may be of the process before"),
    ],
)
def test_a_start_more_than_an_hour_off_the_registration_is_a_contradiction(
    earliest: int, latest: int, *, fits: bool
) -> None:
    """The process started at START. The log says that it registered between `earliest` and `latest` (minutes)."""
    registry = BrokerRegistry(frozenset((1,)), processes={1: RegisteredProcess(earliest * MINUTE, latest * MINUTE)})
    result = check(registry, scrapes_of(1, END))
    assert result.verdict is (READY if fits else UNKNOWN)
    assert [cause for cause, *_ in gaps(result)[1]] == ([] if fits else [GapCause.CONTRADICTION])


def test_a_restart_after_the_last_known_registration_is_no_contradiction() -> None:
    history = History({1: (Process(START, END - 30), Process(END - 29, END))})
    registry = BrokerRegistry(frozenset((1,)), processes={1: RegisteredProcess(START * MINUTE, START * MINUTE)})
    assert check(registry, list(history.scrapes([END - 30, END - 28, END]))).verdict is READY
    # Its clock may be an hour behind: 29 minutes after its start nothing before the scrape is covered. That is a gap,
    # and no contradiction.
    assert gaps(check(registry, list(history.scrapes([END]))))[1] == [(GapCause.BEFORE_START, BEGIN, END)]
