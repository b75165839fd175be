"""Maintenance windows of `spec.rollout.windows`: whether one is open, and when the next one opens.

A window opens at each time of a cron schedule, in its time zone, and stays open for its duration in real time, also
across a clock change. At clock changes a schedule works as in Debian's cron: a time that is skipped opens once the
clock has moved on; a time that comes twice opens once. Callers give the current time: this module reads no clock, only
the machine's time zone database.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafkafeatures.core.engine.desired_state import Window

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

FIELDS = 5
"""Number of fields of a schedule. CronSim, the library, would take seconds as a sixth."""
_ANY_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)
"""Begin of the search for any time of a schedule, which shows that the schedule is valid."""


def closed_until(windows: tuple[Window, ...], current_time: datetime) -> datetime | None:
    """Time at which the next window opens, in its own time zone; None while a window is open, and without windows."""
    following = []
    for window in windows:
        # A window that opened within the last `duration` is still open.
        opens = _first_opening(window, current_time - window.duration)
        if _in_utc(opens) <= _in_utc(current_time):
            return None
        following.append(opens)
    return min(following, key=_in_utc, default=None)


def opening(opens: datetime) -> str:
    """Message of the status while no window is open."""
    return f"the next window of spec.rollout opens at {opens:%Y-%m-%d %H:%M %Z}"


def problems(window: Window) -> Iterator[tuple[str, str]]:
    """Problems of the window, each with the name of the field and a message; none for a valid one."""
    try:
        _zone(window.time_zone)
    except (KeyError, ValueError, OSError):  # unknown; not a valid name; a folder of the database
        yield (
            "timeZone",
            f"unknown time zone {window.time_zone!r}; expected a name of the IANA time zone database, "
            "such as Europe/Berlin",
        )
    reason = _invalid_reason(window.schedule)
    if reason:
        yield (
            "schedule",
            f"invalid value {window.schedule!r}; expected five fields of cron, such as '0 22 * * 1-5' ({reason})",
        )


def _first_opening(window: Window, earliest: datetime) -> datetime:
    """First opening after a time. If an hour comes twice, as a clock is set back, CronSim may begin with a time that is
    not later in UTC; such times are skipped.
    """
    from cronsim import CronSim

    openings = CronSim(window.schedule, earliest.astimezone(_zone(window.time_zone)))
    first_opening: datetime = next(moment for moment in openings if _in_utc(moment) > _in_utc(earliest))
    return first_opening


def _in_utc(moment: datetime) -> datetime:
    """The time in UTC. Python compares two times of one zone by their local clock, which goes back once a year."""
    return moment.astimezone(UTC)


def _invalid_reason(schedule: str) -> str:
    """Reason why a schedule is invalid, in the library's words; empty if it is valid and occurs at some time."""
    from cronsim import CronSim, CronSimError

    if len(schedule.split()) != FIELDS:
        return f"found {len(schedule.split())}"
    try:
        next(CronSim(schedule, _ANY_MOMENT))
    except CronSimError as error:
        return str(error).lower()
    except StopIteration:
        return "no such day"
    return ""


def _zone(name: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)
