"""Maintenance windows: whether one is open, and when the next one opens.

A window opens at each moment of a cron schedule in its time zone, and stays open for its duration in real time, also
where a clock change lies in it. At clock changes schedules are Debian cron's: a time that is skipped opens when the
clock has moved on, one that comes twice opens once. Called by `core/engine/gates.py` and `core/roll/stage.py` with the
time; by `core/resolve.py` for what is wrong with a schedule or a zone. It never reads a clock: of the machine
only the time zone database.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafkafeatures.core.engine.desired_state import Window

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

FIELDS = 5
"""Number of fields of a schedule. The library would take seconds as a sixth."""
_ANY_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)


def closed_until(windows: tuple[Window, ...], current_time: datetime) -> datetime | None:
    """Time at which the first of them opens again, in its own time zone; None while one is open, and where there are
    none.
    """
    following = []
    for window in windows:
        opens = _first_opening(window, current_time - window.duration)
        if _in_utc(opens) <= _in_utc(current_time):
            return None
        following.append(opens)
    return min(following, key=_in_utc, default=None)


def opening(opens: datetime) -> str:
    """Message of the status while no window is open."""
    return f"the next window of spec.rollout opens at {opens:%Y-%m-%d %H:%M %Z}"


def problems(window: Window) -> Iterator[tuple[str, str]]:
    """Problems of the window: the field, and the line for people."""
    try:
        _zone(window.time_zone)
    except (KeyError, ValueError, OSError):  # unknown; no name at all; a folder of the database
        yield (
            "timeZone",
            f"unknown time zone {window.time_zone!r}; expected a name of the IANA time zone database, "
            "such as Europe/Berlin",
        )
    reason = _why_not(window.schedule)
    if reason:
        yield (
            "schedule",
            f"invalid value {window.schedule!r}; expected five fields of cron, such as '0 22 * * 1-5' ({reason})",
        )


def _first_opening(window: Window, earliest: datetime) -> datetime:
    """First opening after a moment. When an hour comes for the second time, the library continues from the first."""
    from cronsim import CronSim

    openings = CronSim(window.schedule, earliest.astimezone(_zone(window.time_zone)))
    first_opening: datetime = next(moment for moment in openings if _in_utc(moment) > _in_utc(earliest))
    return first_opening


def _in_utc(moment: datetime) -> datetime:
    """Two moments of one zone compare by what its clocks show, and those go back once a year."""
    return moment.astimezone(UTC)


def _why_not(schedule: str) -> str:
    """In the library's words; empty where it is a schedule that comes to pass."""
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
