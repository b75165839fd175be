"""Registrations of brokers: what has to be covered, and evidence of a process that is not the registered one."""

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


def test_a_broker_of_which_there_is_evidence_in_the_window_has_to_be_covered_whoever_is_registered() -> None:
    registry = BrokerRegistry(frozenset((1,)))
    for last in (BEGIN + DAY, END - DAY):
        result = check(registry, [*scrapes_of(1, END), *scrapes_of(2, last)])
        assert gaps(result) == {1: [], 2: [(GapCause.STALE, last, END)]}
        assert result.ready_from == (last + END - BEGIN) * MINUTE, "nobody will scrape it any more"
    assert check(registry, [*scrapes_of(1, END), *scrapes_of(2, BEGIN - HOUR)]).verdict is READY
    assert check(registry, scrapes_of(1, END) + scrapes_of(2, END)).verdict is READY


def test_a_broker_has_no_gap_before_its_first_registration_if_the_rest_of_the_cluster_was_there() -> None:
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


def test_a_cluster_without_a_broker_in_the_window_is_unknown() -> None:
    registry = BrokerRegistry(frozenset((1,)), joined={1: END * MINUTE})
    assert (check(registry, []).verdict, check(registry, []).brokers) == (UNKNOWN, None)


@pytest.mark.parametrize(
    ("earliest", "latest", "fits"),
    [
        (START, START, True),
        (START - 59, START - 59, True),
        (START + 59, START + 59, True),
        (START - 61, START - 61, False),
        (START + 61, START + 61, False),
        (0, START - 61, False),
        (0, START, True),
        (0, END - 10 * DAY, True),
        (END - DAY, END - DAY, False),
        (END - 4, END - 4, True),  # the scrape may be of the process before
    ],
)
def test_evidence_of_a_process_that_is_not_the_registered_one_is_a_contradiction(
    earliest: int, latest: int, *, fits: bool
) -> None:
    registry = BrokerRegistry(frozenset((1,)), processes={1: RegisteredProcess(earliest * MINUTE, latest * MINUTE)})
    result = check(registry, scrapes_of(1, END))
    assert result.verdict is (READY if fits else UNKNOWN)
    assert [cause for cause, *_ in gaps(result)[1]] == ([] if fits else [GapCause.CONTRADICTION])


def test_a_restart_after_the_end_of_what_is_known_of_registrations_is_none_of_another_cluster() -> None:
    history = History({1: (Process(START, END - 30), Process(END - 29, END))})
    registry = BrokerRegistry(frozenset((1,)), processes={1: RegisteredProcess(START * MINUTE, START * MINUTE)})
    assert check(registry, list(history.scrapes([END - 30, END - 28, END]))).verdict is READY
    assert gaps(check(registry, list(history.scrapes([END]))))[1] == [(GapCause.BEFORE_START, BEGIN, END)]
