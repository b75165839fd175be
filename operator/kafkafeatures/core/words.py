"""Words of others, made fit to be shown and kept: nothing that a terminal would obey, and no longer than there is room.

Pure. A Kafka, an API server or a status may say anything: escape sequences that write to a clipboard, characters that
turn the direction of a line, breaks that make one line look like two. Called where such words come in (`kafka/`), where
they are kept (`core/report/status.py`), and at the last place before a terminal (`cli/shell/output.py`).
"""

from __future__ import annotations

from datetime import timedelta
from math import ceil

STAND_IN = "\N{REPLACEMENT CHARACTER}"


def printable(text: str, *, printable_marks: str = "") -> str:
    """On one line: a space for every other kind of space and break, a stand-in for whatever else does not print.

    `printable_marks`: characters that may stay as they are.
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
    """Like `printable`, for text whose line breaks and tabs are ours."""
    return "\n".join(printable(line, printable_marks="\t") for line in text.split("\n"))


def cut(text: str, most: int) -> str:
    """Printable, and at most so many bytes of UTF-8; never half a character."""
    return printable(text).encode()[:most].decode(errors="ignore")


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 partition, 3 partitions."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
"""Seconds of each unit that people write a duration in, the largest first."""


def format_span(span: timedelta) -> str:
    """A duration as people write it, such as 15 min, 1 min 50 s or 24 h: in two units at most; below a minute a part
    of a second is kept. Days begin with the second one.
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
    """Rest of a wait, for people: rounded up, and so coarse that it changes seldom, such as 23 h or 14 min."""
    seconds = ceil(span.total_seconds())
    if seconds < 60:
        return f"{seconds} s"
    return f"{ceil(seconds / 60)} min" if seconds < 2 * 3600 else f"{ceil(seconds / 3600)} h"
