"""The page of a roll: every restart with its phases, and the partitions that were unavailable for the longest time."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.records import stamp
from kafkafeatures.api.status import EMPTY
from kafkafeatures.cli.pages.resource import page
from kafkafeatures.cli.pages.roll import MAX_PIECES, MAX_ROWS, MAX_STRIPS, STYLE_OF_ROLLS
from kafkafeatures.cli.shell.html_parts import lasting, time_in_log
from kraftlog.rolls import Absence, RollHistory, RollReader
from kraftlog.strips import Moment, Stretch, Strip
from tests.kafkafeatures import statuses
from tests.kafkafeatures.cli.restarts import BY_HAND, LATER, RESTART, ended, event, in_flight
from tests.kafkafeatures.cli.test_report_page import NOT_READ, Page
from tests.kafkafeatures.statuses import resource
from tests.kafkafeatures.worlds import NOW
from tests.kraftlog.build import log, no_op
from tests.kraftlog.golden import KRAFT, MIGRATION, snapshot_id
from tests.kraftlog.partitions import ALL, change, partition, topic

MS = int(NOW.timestamp() * 1000)


def of_log(data: bytes, default: int | None = None) -> RollHistory:
    """The history in a log. `default`: min.insync.replicas of topics without a value of their own."""
    reader = RollReader(since_ms=0, default_minimum=default)
    reader.append(data, below=ALL)
    return reader.finish(MAX_STRIPS)


def shown(log: RollHistory | str, status: dict[str, Any] | None = None, events: Any = ()) -> tuple[Page, str]:
    """The page, and its HTML, at the time when the log ends; at LATER if the log was not read (`log` says why)."""
    now = LATER if isinstance(log, str) else time_in_log(log.end.at_ms)
    text = page(resource(status or statuses.in_sync()), list(events), now, log)
    return Page(text), text


# Times, offsets and durations in the next two tests are those of the recorded log MIGRATION.


def test_real_brokers_have_a_row_with_each_phase_and_the_records_that_prove_it() -> None:
    made, text = shown(of_log(MIGRATION.read_bytes()))
    times = {row[0]: row[1:] for row in made.rows_under("When, and the offset") if row[0].startswith("broker")}
    assert times == {
        "broker 1": [
            "00:14:18offset 550", "00:14:22offset 571", "00:14:25offset 579", "00:14:26offset 581",
            "00:14:26offset 605", "00:14:56whole log", "38 s",
        ],
        "broker 2": [
            "00:14:29offset 612", "00:14:31offset 629", "00:14:35offset 637", "00:14:35offset 639",
            "00:14:35offset 664", "00:15:05whole log", "36 s",
        ],
        "broker 3": [
            "00:14:36offset 666", "00:14:40offset 687", "00:14:43offset 694", "00:14:43offset 696",
            "00:14:44offset 721", "00:15:14whole log", "38 s",
        ],
    }  # fmt: skip
    drawn = re.findall(r'<span class="(\w+)" style="left:', text)
    assert {"stopping", "down", "fenced", "catching", "watched"} <= set(drawn)


def test_real_partitions_are_listed_by_worst_availability_and_the_healthy_ones_are_counted() -> None:
    made, _ = shown(of_log(MIGRATION.read_bytes()))
    strips = made.rows_under("Availability of 12 partitions")[1:]
    assert len(strips) == 12
    assert strips[0] == ["t1-112 of 3 in sync", "", "-", "-", "23 s"]
    assert "The other 2 partitions had all replicas in sync all the time." in made.text


def test_the_time_below_min_isr_is_unknown_if_the_default_is_not_known() -> None:
    # The ISR shrinks to 1 of 2; then 4,000 records of 1 ms each follow.
    data = log((topic(1, "t"), partition(1, 0, 1, 2)), [change(1, 0, isr=(1,))], [no_op()] * 4000)
    unknown, _ = shown(of_log(data))
    assert unknown.rows_under("Availability")[1] == ["t-01 of 2 in sync", "", "-", "?", "4 sstill"]
    assert "at least 0 of 1partitions below min.insync.replicas" in unknown.text
    assert "min.insync.replicas is not known of every topic" in unknown.text
    known, text = shown(of_log(data, default=2))
    assert known.rows_under("Availability")[1] == ["t-01 of 2 in sync", "", "-", "4 s", "4 sstill"]
    assert '<span class="below" style="left:' in text
    assert "not known" not in known.text


def test_a_partition_without_a_leader_is_marked_by_a_word_and_a_pattern() -> None:
    made, text = shown(of_log(KRAFT.read_bytes()))
    assert "3 of 3partitions without a leader" in made.text
    assert made.rows_under("Availability")[1] == ["t1-01 of 1 in sync", "", "0.2 s", "?", "-still"]
    assert '<span class="leaderless" style="left:' in text
    assert "without a leader: unavailable" in made.text


def test_a_page_without_partitions_out_of_sync_says_so() -> None:
    made, _ = shown(of_log(log((topic(1), partition(1, 0, 1, 2)), [no_op()])), {"rollout": {"total": 2, "done": 2}})
    assert "All 1 partition had all replicas in sync all the time." in made.text
    assert "0 of 1partitions below min.insync.replicas" in made.text


def test_partitions_above_the_maximum_of_the_chart_are_counted() -> None:
    many = MAX_STRIPS + 7
    values = [topic(1), *(partition(1, at, 1, 2) for at in range(many))]
    made, _ = shown(of_log(log(values, [change(1, at, isr=(1,)) for at in range(many)], [no_op()])))
    assert len(made.rows_under("Availability")) == 1 + MAX_STRIPS
    assert "7 more of them had it no worse than the last one here." in made.text


def history(*absences: Absence, end: Moment | None = None) -> RollHistory:
    """A log that was read from its beginning, has these absences, and in which no partition suffered. `end`: its last
    record; by default a minute after NOW.
    """
    return RollHistory(
        known_from=None, end=end or Moment(MS + 60_000, 99), absences=absences, strips=(), affected=0,
        without_leader=0, below_minimum=0, partitions=4, minimum_known=True, unreadable=0,
    )  # fmt: skip


@pytest.mark.parametrize("turns", [MAX_PIECES, 100 * MAX_PIECES])
def test_a_flapping_partition_is_drawn_with_its_latest_changes_and_its_total_time(turns: int) -> None:
    stretches = tuple(
        Stretch(
            MS + at * 1000, MS + at * 1000 + 400, in_sync=2, has_leader=True, below_minimum=False, offset=at
        )
        for at in range(turns)
    )  # fmt: skip
    strip = Strip(
        "flaps", 0, replicas=3, fewest=2, without_leader_ms=0, below_minimum_ms=0, under_replicated_ms=turns * 400,
        lasts=False, stretches=stretches,
    )  # fmt: skip
    made, text = shown(replace(history(end=Moment(MS + turns * 1000, turns)), strips=(strip,), affected=1))
    (track,) = re.findall(r'<div class="track">(.*?)</div>', text)
    assert track.count("<span") == MAX_PIECES
    left = [float(each) for each in re.findall(r"left:([\d.]+)%", track)]
    assert (left[0] > 98, left[-1] > 98) == (turns > MAX_PIECES, True)
    assert made.rows_under("Availability")[1][-1] == lasting(turns * 0.4)
    assert ("the earlier part of a strip is left out" in made.text) is (turns > MAX_PIECES)


def test_the_page_takes_restarts_from_events_without_the_log_and_says_what_is_missing() -> None:
    events = [
        *event(EMPTY, in_flight(RESTART)),
        *event(in_flight(RESTART), ended(RESTART), NOW + timedelta(seconds=90)),
    ]
    made, text = shown(NOT_READ, in_flight(BY_HAND).as_json(), events)
    drawn = {row[0]: row[1:] for row in made.rows_under("Timeline of 2 restarts")[1:]}
    assert drawn == {"broker 3orders-3": ["", "1 min 30 s"], "broker 4by hand": ["", "3 min so far"]}
    times = {row[0]: row[1:] for row in made.rows_under("When, and the offset")[1:]}
    assert times["broker 3"] == ["03:04:05operator", "-", "-", "-", "-", "03:05:35operator", "1 min 30 s"]
    bars = [tuple(map(float, one)) for one in re.findall(r"left:([\d.]+)%;width:([\d.]+)%", text)]
    assert bars == [(0.0, 50.0), (0.0, 100.0)]  # 90 s of the 3 min that the page shows, and all of them
    assert "not shown" in made.text
    assert NOT_READ.replace("`", "") in made.text
    assert "partitions without a leader" not in made.text


def test_a_restart_of_the_operator_and_its_absence_in_the_log_are_one_row() -> None:
    stopping, fenced, registered, unfenced, in_sync = (Moment(MS + 1000 * at, 10 + at) for at in (1, 3, 9, 10, 12))
    away = Absence("broker", 3, stopping, fenced, registered, unfenced, in_sync)
    events = [
        *event(EMPTY, in_flight(RESTART)),
        *event(in_flight(RESTART), ended(RESTART), NOW + timedelta(seconds=50)),
    ]
    made, _ = shown(history(away), {"rollout": {"startedAt": stamp(NOW)}}, events)
    assert made.rows_under("Timeline of 1 restart,")[1:] == [["broker 3orders-3", "", "49 s"]]
    assert "1restart" in made.text
    assert "1most nodes away at once" in made.text


def test_the_page_says_which_history_is_missing_before_a_snapshot() -> None:
    path = MIGRATION.with_name("00000000000000000945-0000000004.checkpoint")
    reader, (offset, epoch) = RollReader(since_ms=0), snapshot_id(path)
    reader.load_snapshot(path.read_bytes(), end_offset=offset, epoch=epoch)
    reader.append(MIGRATION.read_bytes(), below=ALL)
    made, _ = shown(reader.finish(9), {"rollout": {"total": 1, "done": 1, "startedAt": "2026-11-21T00:00:00Z"}})
    assert "(a snapshot at offset 945)" in made.text
    assert "What happened before that is no longer in the log and is missing here." in made.text


def test_restarts_above_the_maximum_of_the_chart_are_counted() -> None:
    many = tuple(Absence("broker", at, fenced=Moment(MS + at, at)) for at in range(MAX_ROWS + 3))
    made, _ = shown(history(*many))
    assert len(made.rows_under("Timeline")) == 1 + MAX_ROWS
    assert "the 3 earlier ones are not shown" in made.text


def test_names_of_topics_are_escaped_on_the_roll_page() -> None:
    evil = "<script>\u202e"
    made, text = shown(of_log(log((topic(1, evil), partition(1, 0, 1, 2)), [change(1, 0, isr=(1,))], [no_op()])))
    assert "<script>-0" in made.text.replace("\N{REPLACEMENT CHARACTER}", "")
    assert "<script" not in text
    assert "\u202e" not in text


def test_a_time_beyond_the_calendar_does_not_break_the_page() -> None:
    absence = Absence("broker", 3, fenced=Moment(1 << 62, 4))  # ms: beyond the year 9999
    made, _ = shown(history(absence, end=Moment(MS, 99)))
    assert "broker 3" in made.text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0.0 s"),
        (0.25, "0.2 s"),
        (1, "1 s"),
        (59.6, "1 min"),
        (252, "4 min 12 s"),
        (11_100, "3 h 5 min"),
        (238_200, "2 d 18 h"),
    ],
)
def test_durations_are_shown_in_at_most_two_units(seconds: float, words: str) -> None:
    assert lasting(seconds) == words


def test_each_phase_and_state_of_the_chart_has_its_own_pattern_or_height() -> None:
    """Without colours, all rules differ: the page can be read by people who do not see colours."""
    rules = re.findall(r"\.(stopping|down|fenced|catching|watched|unclear) \{ (.*?) \}", STYLE_OF_ROLLS)
    drawn = {name: re.sub(r"var\(--\w+\)", "colour", rule) for name, rule in rules}
    assert len(drawn) == 6
    assert len(set(drawn.values())) == 6
    states = re.findall(r"\.(fewer|below|leaderless) \{ (.*?) \}", STYLE_OF_ROLLS)
    assert len({re.sub(r"var\(--\w+\)", "colour", rule) for _, rule in states}) == 3
