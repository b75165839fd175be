"""The verdict on a release: what blocks it, what is a gap, and from when on it can be ready."""

from __future__ import annotations

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.clients.coverage import GapCause
from kafkafeatures.core.clients.evidence import MINUTE, Scrape
from kafkafeatures.core.clients.verdict import ClientCheck, ClientVerdict, UseKind
from tests.clients.histories import (
    BEGIN,
    DAY,
    DAYS,
    END,
    GONE,
    HOUR,
    History,
    Process,
    checked,
    fifteen_clients,
)

READY, BLOCKED, UNKNOWN = ClientVerdict.READY, ClientVerdict.BLOCKED, ClientVerdict.UNKNOWN
QUIET = History({broker: (Process(BEGIN - DAY, END),) for broker in (1, 2, 3)})
"""Three brokers that run since a day before the window, and are sent no removed version."""


def causes(check: ClientCheck, broker: int) -> list[GapCause]:
    assert check.brokers is not None
    (coverage,) = [item for item in check.brokers if item.broker == broker]
    return [gap.cause for gap in coverage.gaps]


def counted(versions: dict[str, list[int]]) -> Scrape:
    """A scrape of a broker that runs for an hour, and was sent these versions five times each."""
    counters = {("ApiVersions", 3): 1.0} | {(api, number): 5.0 for api in versions for number in versions[api]}
    return Scrape(1, END * MINUTE, (END - HOUR) * MINUTE, counters, accepts_removed=True, source="1.prom")


def test_one_scrape_of_each_broker_is_enough_when_all_have_run_longer_than_the_window() -> None:
    check = checked(QUIET.scrapes([END]), {1, 2, 3})
    assert (check.verdict, check.uses, check.ready_from) == (READY, (), END * MINUTE)


@pytest.mark.parametrize("name", sorted(fifteen_clients()))
def test_the_verdict_predicts_which_real_clients_work_with_kafka_4_1(name: str) -> None:
    client = fifteen_clients()[name]
    check = checked([counted(client.versions)], {1})
    assert (check.verdict is not BLOCKED) == client.works


def test_a_removed_version_blocks_and_is_named_with_its_brokers_and_times() -> None:
    history = History({**QUIET.brokers, 2: (Process(BEGIN - DAY, END, uses=(END - DAY, END - DAY + 1)),)})
    check = checked(history.scrapes([BEGIN + DAY, END - 2 * DAY, END]), {1, 2, 3})
    assert check.verdict is BLOCKED
    (use,) = check.uses
    assert (use.kind, use.name, use.version, use.brokers, use.requests) == (UseKind.REMOVED, *GONE, (2,), 2)
    assert (use.after, use.until) == ((END - 2 * DAY) * MINUTE, END * MINUTE)
    assert check.ready_from == (END + DAYS * DAY) * MINUTE


def test_a_count_from_before_the_window_is_unknown_until_a_second_scrape_shows_that_it_does_not_grow() -> None:
    """One scrape shows only that the version was used since the start of the process, maybe before the window."""
    history = History({1: (Process(BEGIN - 9 * DAY, END + 99 * DAY, uses=(BEGIN - 8 * DAY,)),)})
    first = checked(history.scrapes([END]), {1})
    assert (first.verdict, [use.kind for use in first.uses]) == (UNKNOWN, [UseKind.MAYBE_BEFORE])
    assert first.ready_from == (END + DAYS * DAY) * MINUTE
    later = END + DAYS * DAY
    assert checked(history.scrapes([END, later]), {1}, at=later).verdict is READY
    assert checked(history.scrapes([BEGIN - DAY, END]), {1}).verdict is READY


def test_a_registered_broker_without_evidence_makes_the_verdict_unknown() -> None:
    check = checked(QUIET.scrapes([END]), {1, 2, 3, 4})
    assert (check.verdict, causes(check, 4), causes(check, 1)) == (UNKNOWN, [GapCause.NO_EVIDENCE], [])


@pytest.mark.parametrize("registered", [None, set[int]()])
def test_the_verdict_is_unknown_without_a_list_of_registered_brokers(registered: set[int] | None) -> None:
    check = checked(QUIET.scrapes([END]), registered)
    assert (check.verdict, check.brokers, check.ready_from) == (UNKNOWN, None, None)


def test_a_young_broker_can_be_ready_a_whole_window_after_its_start() -> None:
    history = History({1: (Process(END - 12 * DAY, END),)})
    check = checked(history.scrapes([END - 12 * DAY + 1, END]), {1})
    assert (check.verdict, causes(check, 1)) == (UNKNOWN, [GapCause.BEFORE_START])
    assert check.ready_from == (END + (DAYS - 12) * DAY) * MINUTE + 1  # 1 ms: `History.scrape` adds the broker id


def test_a_restart_is_covered_only_by_a_scrape_just_before_it() -> None:
    restart = END - 5 * DAY
    history = History({1: (Process(BEGIN - DAY, restart - 1), Process(restart, END))})
    assert checked(history.scrapes([restart - 2, restart + 1, END]), {1}).verdict is READY
    check = checked(history.scrapes([restart - 9, restart + 1, END]), {1})
    assert (check.verdict, causes(check, 1)) == (UNKNOWN, [GapCause.RESTART])
    assert check.ready_from == (restart + DAYS * DAY) * MINUTE + 1  # 1 ms: `History.scrape` adds the broker id


def test_a_last_scrape_six_minutes_before_the_end_of_the_window_leaves_a_gap() -> None:
    check = checked(QUIET.scrapes([END - 6]), {1, 2, 3})
    assert (check.verdict, causes(check, 1)) == (UNKNOWN, [GapCause.STALE])


def test_a_scrape_repeated_with_a_later_time_is_no_evidence_for_that_time() -> None:
    scrapes = [*QUIET.scrapes([END - DAY])]
    check = checked([*scrapes, *(replace(scrape, time=END * MINUTE) for scrape in scrapes)], {1, 2, 3})
    assert (check.verdict, causes(check, 1)) == (UNKNOWN, [GapCause.STALE])


def test_one_process_under_two_ids_is_a_contradiction() -> None:
    scrapes = [*QUIET.scrapes([END - HOUR, END])]
    under_another_id = [replace(scrape, broker=4) for scrape in scrapes if scrape.broker == 1]
    check = checked([*scrapes, *under_another_id], {1, 2, 3, 4})
    assert check.verdict is UNKNOWN
    assert causes(check, 1) == causes(check, 4) == [GapCause.CONTRADICTION]
    assert (causes(check, 2), causes(check, 3)) == ([], [])


@pytest.mark.parametrize("earlier_ms", [0, 1000], ids=["at the same time", "a second earlier"])
def test_two_exporters_of_one_broker_are_no_contradiction(earlier_ms: int) -> None:
    """Both show the same process under the same id."""
    scrapes = [*QUIET.scrapes([END - HOUR, END])]
    by_another = [replace(scrape, time=scrape.time - earlier_ms, source="another exporter") for scrape in scrapes]
    check = checked([*scrapes, *by_another], {1, 2, 3})
    assert check.verdict is READY
    assert [causes(check, broker) for broker in (1, 2, 3)] == [[], [], []]


def test_two_brokers_with_the_same_start_are_told_apart_by_counters_that_neither_could_have_later() -> None:
    scrapes = [replace(scrape, start=(BEGIN - DAY) * MINUTE) for scrape in QUIET.scrapes([END])]
    busy = [replace(scrape, counters={**scrape.counters, ("Produce", 9): 900.0 * scrape.broker}) for scrape in scrapes]
    assert checked(busy, {1, 2, 3}).verdict is UNKNOWN, "each may be a later scrape of one process"
    # Counts of Produce grow with the id and those of Metadata shrink: none can be a later scrape of another.
    other = [replace(scrape, counters={**scrape.counters, ("Metadata", 12): 9000.0 / scrape.broker}) for scrape in busy]
    assert checked(other, {1, 2, 3}).verdict is READY


def test_counters_that_go_back_without_a_restart_are_a_contradiction() -> None:
    early, late, *_ = QUIET.scrapes([END - HOUR, END])
    for lower in ({**late.counters, ("Fetch", 11): 1.0}, {("ApiVersions", 3): late.counters["ApiVersions", 3]}):
        check = checked([early, replace(late, counters=lower)], {1})
        assert (check.verdict, causes(check, 1)) == (UNKNOWN, [GapCause.CONTRADICTION])


def test_two_processes_of_one_broker_id_at_the_same_time_are_a_contradiction() -> None:
    older = QUIET.scrape(1, END - HOUR)
    newer = History({1: (Process(END - DAY, END),)}).scrape(1, END)
    assert older is not None
    assert newer is not None
    check = checked([older, newer], {1})
    assert causes(check, 1) == [GapCause.CONTRADICTION]
    assert causes(checked([replace(newer, time=older.time - MINUTE), older], {1}), 1) == [GapCause.CONTRADICTION]


def test_a_scrape_from_before_the_start_that_it_shows_is_a_contradiction() -> None:
    """Five minutes are within the error of clocks."""
    scrape = QUIET.scrape(1, END)
    assert scrape is not None
    assert causes(checked([replace(scrape, start=(END + 6) * MINUTE)], {1}), 1) == [GapCause.CONTRADICTION]
    assert causes(checked([replace(scrape, start=(END + 4) * MINUTE)], {1}), 1) == [GapCause.BEFORE_START]


def test_a_version_used_in_and_before_the_window_is_listed_once_with_the_requests_in_it() -> None:
    history = History({1: (Process(BEGIN - 9 * DAY, END, uses=(BEGIN - 8 * DAY, END - DAY)),)})
    check = checked(history.scrapes([END - 2 * DAY, END]), {1})
    assert [(use.kind, use.requests) for use in check.uses] == [(UseKind.REMOVED, 1)]


def test_a_process_that_ended_before_the_window_leaves_a_gap_after_it() -> None:
    history = History({1: (Process(BEGIN - 9 * DAY, BEGIN - DAY), Process(BEGIN + DAY, END))})
    check = checked(history.scrapes([BEGIN - DAY, BEGIN + DAY + 1, END]), {1})
    assert causes(check, 1) == [GapCause.RESTART]


def test_the_time_of_a_process_of_kafka_4_stays_a_gap_after_the_broker_was_downgraded() -> None:
    """The upgraded process refused and did not count the version that a client sent to it."""
    times = (BEGIN - DAY, END - 9 * DAY, END - 8 * DAY, END + 90 * DAY)
    spans = [(times[0], times[1] - 1), (times[1], times[2] - 1), (times[2], times[3])]
    older, upgraded, rolled_back = (Process(*span) for span in spans)
    refusing = replace(upgraded, refuses=True, uses=(times[1] + HOUR,))
    minutes = [minute for start, end in spans for minute in (start + 1, end)] + [END]
    history = History({1: (older, refusing, rolled_back), 2: (Process(BEGIN - DAY, END + 90 * DAY),)})
    check = checked(history.scrapes(minutes), {1, 2})
    assert (check.verdict, causes(check, 1), causes(check, 2)) == (UNKNOWN, [GapCause.MAY_REFUSE], [])
    assert check.ready_from == (times[2] - 1 + DAYS * DAY) * MINUTE
    later = times[2] + DAYS * DAY
    assert checked(history.scrapes([*minutes, later]), {1, 2}, at=later).verdict is READY
    never_upgraded = History({**history.brokers, 1: (older, upgraded, rolled_back)})
    assert checked(never_upgraded.scrapes(minutes), {1, 2}).verdict is READY


def test_a_process_of_kafka_4_that_ran_for_three_minutes_is_a_gap_as_well() -> None:
    """A gap of three minutes without any scrape is tolerated; here it is known that a process refused."""
    upgrade = END - 9 * DAY
    spans = (Process(BEGIN - DAY, upgrade), Process(upgrade + 1, upgrade + 4, refuses=True), Process(upgrade + 5, END))
    history = History({1: spans})
    check = checked(history.scrapes([upgrade, upgrade + 2, upgrade + 4, upgrade + 6, END]), {1})
    assert (check.verdict, causes(check, 1)) == (UNKNOWN, [GapCause.MAY_REFUSE])


def test_a_broker_of_kafka_4_is_a_gap_unless_all_brokers_already_refuse_removed_versions() -> None:
    history = History({**QUIET.brokers, 2: (Process(BEGIN - DAY, END, refuses=True),)})
    check = checked(history.scrapes([END]), {1, 2, 3})
    assert (check.verdict, causes(check, 1), causes(check, 2)) == (UNKNOWN, [], [GapCause.MAY_REFUSE])
    assert check.ready_from == END * MINUTE  # the exporter may hide the older release: then the next scrape is enough
    assert checked(history.scrapes([END]), {1, 2, 3}, all_refuse=True).verdict is READY


def test_one_scrape_with_the_mark_of_an_older_release_is_enough_for_all_scrapes_of_the_process() -> None:
    """Exporters may leave the mark of an older release out of some scrapes."""
    early, late = (scrape for scrape in QUIET.scrapes([END - HOUR, END]) if scrape.broker == 1)
    early_without_mark, late_without_mark = (replace(scrape, accepts_removed=False) for scrape in (early, late))
    assert checked([early_without_mark, late], {1}).verdict is READY
    assert causes(checked([early_without_mark, late_without_mark], {1}), 1) == [GapCause.MAY_REFUSE]
    for scrapes in ([late, late_without_mark], [late_without_mark, late]):
        assert checked(scrapes, {1}).verdict is READY


def test_a_clock_that_is_an_hour_off_does_not_hide_a_gap() -> None:
    """With the wrong clock, the start of the new process seems to be close to the last scrape of the old one."""
    restart = END - 5 * DAY
    history = History({1: (Process(BEGIN - DAY, restart - 62), Process(restart, END))})
    minutes = [restart - 62, restart + 1, END]
    for error in (-60, 60):
        assert checked(history.scrapes(minutes, clock_errors={1: error}), {1}).verdict is UNKNOWN
    young = History({1: (Process(BEGIN + 30, END),)})
    assert checked(young.scrapes([END], clock_errors={1: -60}), {1}).verdict is UNKNOWN


def test_the_verdict_on_a_release_that_is_not_in_the_table_is_unknown() -> None:
    for release in ("4.9", "5.0", "4", "", "3.8.1"):
        check = checked(QUIET.scrapes([END]), {1, 2, 3}, release=release)
        assert (check.verdict, check.is_known_release, check.ready_from) == (UNKNOWN, False, None)
    assert checked(QUIET.scrapes([END]), {1, 2, 3}, release="4.1.2").verdict is READY


def test_unknown_apis_and_versions_newer_than_the_release_make_the_verdict_unknown() -> None:
    for versions, kind in (({"Teleport": [0]}, UseKind.UNKNOWN_API), ({"Fetch": [18]}, UseKind.NEWER)):
        scrape = replace(counted(versions), start=(BEGIN - DAY) * MINUTE)
        check = checked([scrape], {1}, release="4.0" if kind is UseKind.UNKNOWN_API else "3.9")
        assert (check.verdict, [use.kind for use in check.uses]) == (UNKNOWN, [kind])


def test_removed_versions_of_requests_between_brokers_do_not_block() -> None:
    versions = {"WriteTxnMarkers": [0], "LeaderAndIsr": [7], "AlterPartition": [0], "UpdateMetadata": [8]}
    assert checked([replace(counted(versions), start=(BEGIN - DAY) * MINUTE)], {1}).verdict is READY


def test_an_early_access_version_that_was_removed_blocks_too() -> None:
    check = checked([counted({"ShareFetch": [0]})], {1})
    assert (check.verdict, check.uses[0].name) == (BLOCKED, "ShareFetch")


def test_a_fetch_that_two_counters_count_is_listed_once() -> None:
    check = checked([counted({"Fetch": [3], "FetchConsumer": [3], "ListClientMetricsResources": [0]})], {1})
    assert [(use.name, use.version) for use in check.uses] == [("Fetch", 3)]
    assert [use.name for use in checked([counted({"FetchConsumer": [3]})], {1}).uses] == ["FetchConsumer"]


def test_two_exporters_that_disagree_on_the_start_within_its_error_show_one_process() -> None:
    jvm, later = (scrape for scrape in QUIET.scrapes([END - HOUR, END]) if scrape.broker == 1)
    by_kafka = replace(later, start=later.start + 8000, start_error=MINUTE)
    assert checked([jvm, by_kafka], {1}).verdict is READY
    assert causes(checked([jvm, replace(by_kafka, broker=2)], {1, 2}), 2) == [GapCause.CONTRADICTION]
    assert causes(checked([jvm, replace(by_kafka, start_error=0)], {1}), 1) == [GapCause.CONTRADICTION]


def test_one_process_under_two_ids_is_a_contradiction_although_the_clocks_of_its_scrapers_differ() -> None:
    for seconds in (2, 600, 3599):
        early, late = (scrape for scrape in QUIET.scrapes([END - HOUR, END]) if scrape.broker == 1)
        other = replace(late, broker=2, time=late.time - seconds * 1000)
        assert causes(checked([replace(early, time=END * MINUTE), other], {1, 2}), 1) == [GapCause.CONTRADICTION]
    # Two scrapes at the same time may differ by the requests that came while they were made.
    counted_meanwhile = {**late.counters, ("Heartbeat", 4): late.counters["Heartbeat", 4] + 90, ("Fetch", 11): 70_000.0}
    other = replace(late, broker=2, counters=counted_meanwhile)
    assert causes(checked([late, other], {1, 2}), 1) == [GapCause.CONTRADICTION]


def test_pauses_of_four_minutes_are_gaps_once_they_sum_to_more_than_an_hour() -> None:
    def check_of(restarts: int) -> ClientCheck:
        starts = [BEGIN + number * HOUR for number in range(restarts + 1)]
        spans = [(BEGIN - DAY, BEGIN - 4), *((start, start + HOUR - 4) for start in starts[:-1]), (starts[-1], END)]
        history = History({1: tuple(Process(*span) for span in spans)})
        minutes = {minute for start, end in spans for minute in (start + 1, end)}
        return checked(history.scrapes(sorted(minutes)), {1})

    assert check_of(14).verdict is READY  # 14 pauses of four minutes: 56 minutes
    assert set(causes(check_of(20), 1)) == {GapCause.RESTART}  # 80 minutes


def test_scrapes_before_the_window_that_contradict_each_other_are_ignored() -> None:
    history = History({1: (Process(BEGIN - 9 * DAY, END, uses=(BEGIN - 8 * DAY,)),)})
    early, partial, late = history.scrapes([BEGIN - 7 * DAY, BEGIN - 6 * DAY, END])
    partial = replace(partial, counters={("ApiVersions", 3): 1.0})
    check = checked([early, partial, late], {1})
    assert (check.verdict, causes(check, 1)) == (UNKNOWN, [])
    assert [use.kind for use in check.uses] == [UseKind.MAYBE_BEFORE], "the count of the early scrape is not trusted"
    assert causes(checked([early, replace(partial, time=BEGIN * MINUTE + 1), late], {1}), 1) == [GapCause.CONTRADICTION]


def test_a_use_blocks_although_other_scrapes_of_the_broker_contradict_each_other() -> None:
    history = History({1: (Process(BEGIN - DAY, END, uses=(BEGIN - HOUR, END - DAY)),)})
    early, partial, late = history.scrapes([BEGIN + DAY, BEGIN + 2 * DAY, END])
    partial = replace(partial, counters={("ApiVersions", 3): 1.0})
    check = checked([early, partial, late], {1})
    assert (check.verdict, causes(check, 1)) == (BLOCKED, [GapCause.CONTRADICTION])
    assert [use.requests for use in check.uses if use.kind is UseKind.REMOVED] == [1]
    none = History({1: (Process(BEGIN - DAY, END, uses=(BEGIN - HOUR,)),)})
    early, partial, late = none.scrapes([BEGIN + DAY, BEGIN + 2 * DAY, END])
    partial = replace(partial, counters={("ApiVersions", 3): 1.0})
    assert checked([early, partial, late], {1}).verdict is UNKNOWN, "what a partial scrape lacks is no use"


@pytest.mark.parametrize("name", ["AlterIsr", "ElectPreferredLeaders"])
def test_a_former_name_of_an_api_is_known(name: str) -> None:
    assert checked([replace(counted({name: [0]}), start=(BEGIN - DAY) * MINUTE)], {1}).verdict is READY
