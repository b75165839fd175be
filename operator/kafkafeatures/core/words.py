"""Text for people: foreign text made harmless and short, numbers with their nouns, times and durations.

Pure. Text from a Kafka, an API server or a status may contain anything: escape sequences that write to a clipboard,
characters that change the direction of a line, breaks that make one line look like two. It is made harmless where it is
read (`kafka/`), where it is stored (`core/report/status.py`), and last before a terminal (`cli/shell/output.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import ceil

STAND_IN = "\N{REPLACEMENT CHARACTER}"
"""Character in place of one that must not be shown."""


def printable(text: str, *, printable_marks: str = "") -> str:
    """The text on one line: each white space or line break becomes a space, any other unprintable character `STAND_IN`.
    `printable_marks`: characters that stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character in printable_marks
        else " "
        if character.isspace()
        else STAND_IN
        for character in text
    )


def printable_lines(text: str) -> str:
    """Printable text that keeps its line breaks and tabs: for text that this program composed, never for foreign text
    alone.
    """
    return "\n".join(printable(line, printable_marks="\t") for line in text.split("\n"))


def cut(text: str, most: int) -> str:
    """The printable text, cut to at most `most` bytes of UTF-8, between two characters."""
    return printable(text).encode()[:most].decode(errors="ignore")


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 partition, 3 partitions."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def first_of(names: Sequence[object], most: int = 3, *, total: int | None = None) -> str:
    """The first `most` of these names, and how many more there are: a, b and 3 more. `total`: the number of all names,
    if `names` has only some.
    """
    omitted = (len(names) if total is None else total) - min(most, len(names))
    return ", ".join(map(str, names[:most])) + (f" and {omitted} more" if omitted > 0 else "")


UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
"""Units of a duration for people, each with its seconds, the largest first."""


def format_span(span: timedelta) -> str:
    """A duration for people, such as 15 min, 1 min 50 s or 24 h: in at most two units; below a minute with fractions of
    a second. Days are used from two days on.
    """
    seconds = span.total_seconds()
    if seconds < 60:
        return f"{seconds:g} s"
    remaining = round(seconds)
    units = UNITS if remaining >= 2 * 86_400 else UNITS[1:]
    first = next(index for index, (size, _) in enumerate(units) if remaining >= size)
    parts = []
    for size, name in units[first : first + 2]:
        count, remaining = divmod(remaining, size)
        parts += [f"{count} {name}"] if count else []
    return " ".join(parts)


def format_left(span: timedelta) -> str:
    """Remaining time of a wait, for people: rounded up, and so coarse that it changes seldom, such as 23 h or
    14 min.
    """
    seconds = ceil(span.total_seconds())
    if seconds < 60:
        return f"{seconds} s"
    return f"{ceil(seconds / 60)} min" if seconds < 2 * 3600 else f"{ceil(seconds / 3600)} h"


@lru_cache(maxsize=1000)
def _second(seconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
    except (ValueError, OverflowError, OSError):  # a time that no calendar has
        return ""


def format_time(milliseconds: int) -> str:
    """A time stamp such as 2026-11-21T00:24:59.728Z; the number itself where it is no valid date."""
    seconds, remainder = divmod(milliseconds, 1000)
    text = _second(seconds)
    return f"{text}.{remainder:03}Z" if text else str(milliseconds)
