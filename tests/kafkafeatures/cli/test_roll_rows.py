"""The phases of each restart on the page of a roll, by the metadata log and by events and status of the operator."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from kafkafeatures.api.records import Stamp, stamp
from kafkafeatures.api.status import EMPTY, RolloutStatus, Status
from kafkafeatures.api.values import replace
from kafkafeatures.cli.pages.roll_rows import DAY, NodeAbsence, Point, Restart, restarts_of, rows_of, window_begins
from kafkafeatures.cli.shell.html_parts import time_in_log
from kraftlog.rolls import Absence, RollHistory
from kraftlog.strips import Moment
from tests.kafkafeatures.cli.restarts import BY_HAND, LATER, RESTART, ended, event, in_flight
from tests.kafkafeatures.worlds import NOW

MS = int(NOW.timestamp() * 1000)
STABLE_FOR = timedelta(seconds=30)
"""The time that a node has to stay up before its restart is over."""
BACK = LATER - STABLE_FOR


def after(seconds: float, offset: int = 0) -> Moment:
    """A record of the log, so long after NOW."""
    return Moment(MS + round(seconds * 1000), offset)


def at(seconds: float) -> Point:
    """A time by the operator, so long after NOW."""
    return Point(NOW + timedelta(seconds=seconds))


def history(*absences: Absence, end: float = 600.0, known_from: Moment | None = None) -> RollHistory:
    """A log with these absences, which ends `end` seconds after NOW."""
    return RollHistory(
        known_from, after(end, 999), absences, strips=(), affected=0, without_leader=0, below_minimum=0, partitions=9,
        minimum_known=True, unreadable=0,
    )  # fmt: skip


def broker(number: int, begin: float, role: str = "broker") -> Absence:
    """An absence of ten seconds, from its begin to in sync; its five records have the offsets 100 to 104."""
    stopping, fenced, registered, unfenced, in_sync = (
        after(begin + more, 100 + index) for index, more in enumerate((0, 2, 8, 9, 10))
    )
    return Absence(role, number, stopping, fenced, registered, unfenced, in_sync)


def rows(*restarts: Restart, log: RollHistory | None, since: float = -60.0) -> list[NodeAbsence]:
    return rows_of(restarts, log, STABLE_FOR, NOW + timedelta(seconds=since), NOW + timedelta(seconds=600))


def restart(node: str, began: float | None, ended_at: float | None = None, pod: str = "pod", **more: bool) -> Restart:
    """A restart by the operator; times in seconds after NOW."""

    def moment(seconds: float | None) -> datetime | None:
        return None if seconds is None else at(seconds).at

    return Restart(node, pod, moment(began), None, moment(ended_at), **more)


# --- events and status of the operator ---


def test_a_restart_is_followed_from_its_announcement_to_its_end() -> None:
    flight = in_flight(RESTART)
    events = [*event(EMPTY, flight), *event(flight, ended(RESTART), LATER)]
    assert restarts_of(EMPTY, events) == (Restart("broker 3", "orders-3", NOW, None, LATER),)
    by_hand = in_flight(BY_HAND)
    events = [*event(EMPTY, by_hand), *event(by_hand, ended(BY_HAND), LATER)]
    assert restarts_of(EMPTY, events) == (Restart("broker 4", "", NOW, None, LATER),)


def test_two_restarts_of_a_node_are_two_rows_and_the_status_says_which_is_in_flight() -> None:
    flight = in_flight(RESTART, stable_since=stamp(LATER))
    once = [*event(EMPTY, in_flight(RESTART)), *event(in_flight(RESTART), ended(RESTART), LATER)]
    found = restarts_of(flight, [*once, *event(EMPTY, flight)])
    assert found == (
        Restart("broker 3", "orders-3", NOW, None, LATER),
        Restart("broker 3", "orders-3", NOW, LATER, is_in_flight=True),
    )


def test_the_event_of_the_end_of_a_restart_also_gives_its_beginning() -> None:
    back = in_flight(RESTART, stable_since=stamp(BACK))
    events = event(back, ended(RESTART), LATER)
    assert restarts_of(EMPTY, events) == (Restart("broker 3", "orders-3", NOW, BACK, LATER),)
    assert restarts_of(EMPTY, [*event(EMPTY, in_flight(RESTART)), *events]) == restarts_of(EMPTY, events)


def test_an_event_without_facts_is_no_restart_whatever_its_message() -> None:
    """Events of older releases have no facts. A message is for people, and is not parsed."""
    flight = in_flight(RESTART)
    events = [*event(EMPTY, flight), *event(flight, ended(RESTART), LATER)]
    assert [one.note for one in events] == ["restarting broker 3: pod orders-3 is evicted", "broker 3 (orders-3)"]
    assert restarts_of(EMPTY, [replace(one, facts=None) for one in events]) == ()
    assert restarts_of(EMPTY, [replace(one, note="somebody else wrote it") for one in events]) == restarts_of(
        EMPTY, events
    )


def test_the_window_of_the_page_begins_ten_seconds_before_the_roll_or_with_the_last_day() -> None:
    def begun(at: str) -> Status:
        return Status(rollout=RolloutStatus(started_at=Stamp(at)))

    assert window_begins(begun(stamp(NOW)), LATER) == NOW - timedelta(seconds=10)
    assert window_begins(begun("no time"), LATER) == LATER - DAY
    assert window_begins(EMPTY, LATER) == LATER - DAY


# --- together with the log ---


def test_the_log_gives_the_phases_of_a_restart_and_the_operator_when_the_node_is_stable() -> None:
    (row,) = rows(restart("broker 3", -1.0, 45.0), log=history(broker(3, 0.0)))
    offsets = [one and one.offset for one in row.points]
    assert (row.node, row.pod, offsets) == ("broker 3", "pod", [100, 101, 102, 103, 104, None])
    assert row.stable == at(45.0)
    assert row.is_over


def test_without_the_operator_a_node_is_stable_if_the_log_shows_it_staying() -> None:
    stays, goes_again = history(broker(3, 0.0)), history(broker(3, 0.0), broker(3, 30.0), end=45.0)
    assert [one.stable for one in rows(log=stays)] == [Point(at(40.0).at, by="whole log")]  # in sync at 10 s, and 30 s
    # It leaves again 20 s after it was in sync; and the log ends 5 s after its second return.
    assert [one.stable for one in rows(log=goes_again)] == [None, None]
    assert [one.pod for one in rows(log=stays)] == [None]


def test_the_cost_of_rows_grows_linearly_with_the_absences_of_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost is the number of times that are converted: twice as many absences may at most double it."""
    conversions: list[int] = []

    def counted(at_ms: int) -> datetime:
        conversions.append(at_ms)
        return time_in_log(at_ms)

    monkeypatch.setattr("kafkafeatures.cli.pages.roll_rows.time_in_log", counted)
    costs = []
    for absences in (100, 200):
        conversions.clear()
        drawn = rows(log=history(*(broker(3, 60.0 * each) for each in range(absences)), end=60.0 * absences))
        assert [row.stable is not None for row in drawn] == [True] * absences
        costs.append(len(conversions))
    assert costs[1] <= 2 * costs[0]


def test_a_node_in_flight_is_not_stable_whatever_time_has_passed() -> None:
    (row,) = rows(restart("broker 3", -1.0, is_in_flight=True), log=history(broker(3, 0.0)))
    assert (row.stable, row.is_over) == (None, False)
    away = Absence("broker", 3, after(0.0, 1), after(2.0, 2))
    (row,) = rows(log=history(away))
    assert (row.start, row.is_over) == (None, False)


def test_each_restart_is_matched_with_the_absence_that_followed() -> None:
    twice = history(broker(3, 0.0), broker(3, 60.0), broker(4, 60.0))
    restarts = [restart("broker 3", -1.0, 40.0, "first"), restart("broker 3", 59.0, 100.0, "second")]
    assert [(one.node, one.pod) for one in rows(*restarts, log=twice)] == [
        ("broker 3", "first"),
        ("broker 3", "second"),
        ("broker 4", None),
    ]


def test_a_pod_evicted_twice_during_one_absence_is_one_row() -> None:
    long = Absence("broker", 3, after(0.0, 1), after(2.0, 2), after(300.0, 3), after(301.0, 4), after(302.0, 5))
    restarts = [restart("broker 3", -1.0), restart("broker 3", 290.0, 340.0, "again")]
    (row,) = rows(*restarts, log=history(long))
    assert (row.pod, row.stable) == ("again", at(340.0))


@pytest.mark.parametrize("role", ["broker", "node"])
def test_a_restart_of_a_combined_node_is_matched_to_the_log_by_its_title_or_as_a_broker(role: str) -> None:
    (row,) = rows(restart("node 3", -1.0, 45.0), log=history(broker(3, 0.0, role)))
    assert row.pod == "pod"


def test_the_log_gives_the_start_of_a_controller_and_the_operator_its_other_phases() -> None:
    (row,) = rows(restart("controller 3", 0.0, 36.0), log=history(Absence("controller", 3, registered=after(4.0, 7))))
    # Stop, start and end are the operator's; it is back at 6 s, as the end is 30 s (`STABLE_FOR`) later.
    assert row.points == (at(0.0), None, Point(at(4.0).at, 7), None, at(6.0), at(36.0))
    (alone,) = rows(log=history(Absence("controller", 3, registered=after(4.0, 7))))
    assert (alone.points.count(None), alone.is_over) == (5, True)


def test_restarts_missing_in_the_log_come_from_the_operator_and_older_ones_are_left_out() -> None:
    """With a log, restarts before its window (`since`, 60 s before NOW) are left out."""
    restarts = [restart("broker 3", 0.0, 40.0), restart("broker 4", -500.0, -400.0)]
    assert [one.node for one in rows(*restarts, log=history())] == ["broker 3"]
    assert [one.node for one in rows(*restarts, log=None)] == ["broker 4", "broker 3"]


def test_a_phase_read_from_a_snapshot_is_dated_as_latest_time() -> None:
    begin = after(0.0, 50)
    (row,) = rows(log=history(Absence("broker", 3, fenced=begin), known_from=begin))
    assert row.stop == Point(time_in_log(begin.at_ms), 50, is_upper_bound=True)


def test_a_broker_that_was_unregistered_is_not_waited_for() -> None:
    (row,) = rows(log=history(Absence("broker", 3, fenced=after(0.0, 1), unregistered=True)))
    assert (row.is_over, row.is_restart) == (True, False)
