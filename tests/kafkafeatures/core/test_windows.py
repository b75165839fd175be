"""Maintenance windows: opened by cron in their time zone, open for a duration in real time, across clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.document import InvalidDocument, read_document
from kafkafeatures.core.engine.desired_state import Window
from kafkafeatures.core.engine.windows import closed_until, problems
from kafkafeatures.core.resolve import wanted_of


def window(schedule: str, hours: float = 1, zone: str = "Etc/UTC") -> Window:
    return Window(schedule, timedelta(hours=hours), zone)


def time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def next_opening(now: str, *windows: Window) -> str | None:
    """The time at which the first of these windows opens; None if one is open, or if there are no windows."""
    opens = closed_until(windows, time(now))
    return None if opens is None else opens.isoformat(timespec="minutes")


NIGHT = window("0 22 * * 1-5", 6, "Europe/Berlin")  # Monday to Friday, until four


@pytest.mark.parametrize(
    ("now", "opens"),
    [
        ("2026-11-23T20:59:59+00:00", "2026-11-23T22:00+01:00"),  # Monday, a second before ten in Berlin
        ("2026-11-23T21:00:00+00:00", None),
        ("2026-11-24T02:59:59+00:00", None),
        ("2026-11-24T03:00:00+00:00", "2026-11-24T22:00+01:00"),
        ("2026-11-28T02:30:00+00:00", None),  # the window of Friday
        ("2026-11-28T12:00:00+00:00", "2026-11-30T22:00+01:00"),
        ("2026-07-06T20:00:00+00:00", None),  # the same schedule in summer
        ("2026-11-23T22:30:00+01:00", None),  # whatever zone the time is given in
    ],
)
def test_a_window_opens_by_the_clocks_of_its_zone(now: str, opens: str | None) -> None:
    assert next_opening(now, NIGHT) == opens


def test_without_windows_changes_are_always_allowed() -> None:
    assert next_opening("2026-11-23T12:00:00+00:00") is None


def test_one_open_window_of_several_is_enough_and_the_next_opening_is_the_earliest() -> None:
    noon, evening = window("0 12 * * *"), window("0 22 * * *", 1, "Europe/Berlin")
    assert next_opening("2026-11-23T12:30:00+00:00", evening, noon) is None
    assert next_opening("2026-11-23T13:00:00+00:00", noon, evening) == "2026-11-23T22:00+01:00"


def test_a_window_that_is_longer_than_its_schedule_is_always_open() -> None:
    assert next_opening("2026-11-23T12:30:00+00:00", window("0 3 * * *", 25)) is None


# --- clock changes: in 2026 Berlin skips an hour on March 29, and has one twice on October 25 ---


def test_a_window_at_a_time_that_the_clock_skips_opens_right_after_it() -> None:
    early = window("30 2 * * *", 1, "Europe/Berlin")
    assert next_opening("2026-03-29T00:59:00+00:00", early) == "2026-03-29T03:00+02:00"
    assert next_opening("2026-03-29T01:00:00+00:00", early) is None
    assert next_opening("2026-03-29T02:00:00+00:00", early) == "2026-03-30T02:30+02:00"


def test_a_window_at_a_time_that_comes_twice_opens_once() -> None:
    early = window("30 2 * * *", 0.5, "Europe/Berlin")
    assert next_opening("2026-10-25T00:30:00+00:00", early) is None
    for second_time in ("2026-10-25T01:00:00+00:00", "2026-10-25T01:30:00+00:00", "2026-10-25T01:45:00+00:00"):
        assert next_opening(second_time, early) == "2026-10-26T02:30+01:00"


@pytest.mark.parametrize("day", ["2026-03-28T20:00:00+01:00", "2026-10-24T20:00:00+02:00"])
def test_the_duration_of_a_window_is_real_time_also_across_a_clock_change(day: str) -> None:
    night = window("0 20 * * *", 10, "Europe/Berlin")
    opened = time(day)
    assert closed_until((night,), opened.astimezone(UTC) + timedelta(hours=10, seconds=-1)) is None
    assert closed_until((night,), opened.astimezone(UTC) + timedelta(hours=10)) is not None


@given(
    st.integers(0, 59), st.integers(0, 23), st.integers(1, 2000),
    st.integers(0, 365 * 24 * 60).map(lambda minutes: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)),
    st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns", "Asia/Kolkata", "Etc/UTC"]),
)  # fmt: skip
def test_a_window_is_open_for_its_duration_from_each_opening_and_closed_until_the_next(
    minute: int, hour: int, lasts: int, now: datetime, zone: str
) -> None:
    window_ = Window(f"{minute} {hour} * * *", timedelta(minutes=lasts), zone)
    opens = closed_until((window_,), now)
    if opens is None:
        # It is open, so it opened at most `lasts` minutes ago: at that time, a window that opens with it but lasts for
        # one minute only was open, or had its next opening before now.
        opened = closed_until((Window(window_.schedule, timedelta(minutes=1), zone),), now - window_.duration)
        assert opened is None or opened <= now
        return
    assert opens > now
    assert closed_until((window_,), opens.astimezone(UTC) - timedelta(seconds=1)) == opens
    assert closed_until((window_,), opens.astimezone(UTC)) is None
    assert closed_until((window_,), opens.astimezone(UTC) + timedelta(minutes=lasts, seconds=-1)) is None


# --- invalid windows ---


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("61 * * * *", "bad minute"),
        ("* * * *", "found 4"),
        ("0 0 22 * * 1-5", "found 6"),
        ("@daily", "found 1"),
        ("", "found 0"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 * 4 MON#6", "bad day-of-week"),
        ("0 0 31 * 8", "bad day-of-week"),
    ],
)
def test_an_invalid_schedule_is_reported_with_the_part_that_is_wrong(schedule: str, words: str) -> None:
    (problem,) = problems(window(schedule))
    expected = "expected five fields of cron, such as '0 22 * * 1-5'"
    assert problem == ("schedule", f"invalid value {schedule!r}; {expected} ({words})")


@pytest.mark.parametrize("zone", ["Europe/Berln", "Europe", "", "../../etc/passwd", "/etc/localtime", "CET+1", "\0"])
def test_an_unknown_time_zone_is_reported(zone: str) -> None:
    (problem,) = problems(window("0 22 * * *", zone=zone))
    assert problem[0] == "timeZone"
    assert problem[1].startswith(f"unknown time zone {zone!r}; expected a name of the IANA time zone database")


@given(
    st.text(st.sampled_from("0123456789*/,-#LW MONJAN²٣"), max_size=64),
    st.sampled_from(["Asia/Kolkata", "Europe/Berlin", "Mars", ""]),
)
def test_any_text_is_a_valid_window_or_reported(schedule: str, zone: str) -> None:
    now, parsed = time("2026-11-23T12:00:00+00:00"), window(schedule, zone=zone)
    if list(problems(parsed)):
        return
    opens = closed_until((parsed,), now)
    assert opens is None or opens > now


def test_a_document_with_a_bad_window_is_invalid_at_the_field() -> None:
    good: dict[str, Any] = {"schedule": "0 22 * * *", "duration": "2h", "timeZone": "Europe/Berlin"}
    body = {
        "apiVersion": "kafkafeatures.dev/v1alpha1",
        "kind": "KafkaFeatures",
        "metadata": {"name": "orders"},
        "spec": {
            "cluster": {"bootstrapServers": "a:1"},
            "rollout": {"windows": [good, {**good, "schedule": "at ten", "timeZone": "Berlin"}]},
        },
    }
    with pytest.raises(InvalidDocument) as caught:
        wanted_of(read_document(body))
    assert [problem.split(": ")[0] for problem in caught.value.problems] == [
        "spec.rollout.windows[1].timeZone",
        "spec.rollout.windows[1].schedule",
    ]
    body["spec"]["rollout"]["windows"].pop()  # type: ignore[index]
    assert wanted_of(read_document(body)).rollout.windows == (window("0 22 * * *", 2, "Europe/Berlin"),)
