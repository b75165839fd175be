"""Drawings on a time axis: tracks with pieces, ticks, and a key of what each piece stands for.

Pure. Called by the sections of a page that show what happened to nodes: `roll.py`, `migration.py`. A style is never a
colour alone: each has a pattern or a height of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from html import escape

from msgspec import Struct

Piece = tuple[str, datetime, datetime]
"""A piece of a track: its style, begin and end."""
DAY = timedelta(days=1)


class Axis(Struct, frozen=True):
    """The time that is drawn."""

    begin: datetime
    end: datetime

    def at(self, moment: datetime) -> float:
        """Percent from the left."""
        duration = max((self.end - self.begin).total_seconds(), 0.001)
        return min(max(100 * (moment - self.begin).total_seconds() / duration, 0.0), 100.0)

    def track(self, pieces: Iterable[Piece]) -> str:
        """One line of the drawing, over the whole width, with these pieces on it."""
        return f'<div class="track">{"".join(map(self._span, pieces))}</div>'

    def _span(self, piece: Piece) -> str:
        style, begin, end = piece
        offset = self.at(begin)
        return f'<span class="{style}" style="left:{offset:.2f}%;width:{self.at(end) - offset:.2f}%"></span>'

    @property
    def ticks(self) -> str:
        """Begin, middle and end."""
        middle = self.begin + (self.end - self.begin) / 2
        marks = ((moment, self.at(moment)) for moment in (self.begin, middle, self.end))
        write = clock if self.end - self.begin < DAY else _day
        return "".join(f'<span style="left:{offset:.0f}%">{write(moment)}</span>' for moment, offset in marks)


def keys(of: Iterable[tuple[str, str]]) -> str:
    """Key that says what each style of a piece stands for."""
    items = "".join(f'<li class="key"><i><span class="{style}"></span></i>{escape(words)}</li>' for style, words in of)
    return f'<ul class="keys">{items}</ul>'


def with_axis(drawn: str, axis: Axis) -> str:
    """The second head of a table becomes its time axis; its word stays for those who hear the page."""
    return drawn.replace('<th scope="col">When</th>', f'<th scope="col">When<div class="axis">{axis.ticks}</div></th>')


def clock(moment: datetime) -> str:
    """The time of day."""
    return moment.strftime("%H:%M:%S")


def _day(moment: datetime) -> str:
    return moment.strftime("%m-%d %H:%M")
