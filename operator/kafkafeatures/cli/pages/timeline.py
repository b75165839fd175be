"""Drawings on a time axis: tracks with pieces, ticks, and a legend.

Pure. Called by the sections of pages that have drawings. Each style has a pattern or height in addition to its colour.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct

from kafkafeatures.cli.shell.html_parts import Html

Piece = tuple[str, datetime, datetime]
"""A piece of a track: its style, begin and end."""
DAY = timedelta(days=1)


class Axis(Struct, frozen=True):
    """The time axis of a drawing, from `begin` to `end`."""

    begin: datetime
    end: datetime

    def at(self, moment: datetime) -> float:
        """The place of a moment on the axis, in percent from the left."""
        duration = max((self.end - self.begin).total_seconds(), 0.001)  # no division by 0 if there is one moment
        return min(max(100 * (moment - self.begin).total_seconds() / duration, 0.0), 100.0)

    def track(self, pieces: Iterable[Piece]) -> Html:
        """One line of the drawing, with these pieces on it."""
        return Html('<div class="track">{}</div>').format(Html().join(map(self._span, pieces)))

    def _span(self, piece: Piece) -> Html:
        style, begin, end = piece
        offset = self.at(begin)
        span = Html('<span class="{}" style="left:{:.2f}%;width:{:.2f}%"></span>')
        return span.format(style, offset, self.at(end) - offset)

    @property
    def ticks(self) -> Html:
        """HTML of the ticks: begin, middle and end, or the one moment of the axis; times of day, or also the days if it
        is a day or longer.
        """
        middle = self.begin + (self.end - self.begin) / 2
        moments = (self.begin, middle, self.end) if self.begin < self.end else (self.begin,)
        format_moment = clock if self.end - self.begin < DAY else _day
        tick = Html('<span style="left:{:.0f}%">{}</span>')
        return Html().join(tick.format(self.at(moment), format_moment(moment)) for moment in moments)


def legend(kinds: Iterable[tuple[str, str]]) -> Html:
    """The legend. `kinds`: (style, text) of each kind of piece."""
    key = Html('<li class="key"><i><span class="{}"></span></i>{}</li>')
    return Html('<ul class="keys">{}</ul>').format(Html().join(key.format(style, words) for style, words in kinds))


def with_axis(drawing: Html, axis: Axis) -> Html:
    """The table with a time axis in its heading "When"; the word stays for screen readers."""
    head = Html('<th scope="col">When<div class="axis">{}</div></th>').format(axis.ticks)
    return drawing.replace('<th scope="col">When</th>', head)


def clock(moment: datetime) -> str:
    """The time of day."""
    return moment.strftime("%H:%M:%S")


def _day(moment: datetime) -> str:
    return moment.strftime("%m-%d %H:%M")
