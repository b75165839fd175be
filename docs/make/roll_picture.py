"""docs/roll.svg, the picture of a roll in README: the timeline of a report, of the simulated nodes of the demo.

Rows, phases and their words are those of the page (`cli/pages/roll.py`), which is HTML; a README shows only pictures.
Time and chance of the simulation are fixed, so the picture is the same each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from datetime import timedelta
from html import escape
from io import StringIO
from pathlib import Path

from kafkafeatures.api.records import stamp
from kafkafeatures.api.status import EMPTY, Status
from kafkafeatures.cli.demo.roll import NEW_IMAGE, RollScene, is_rolled
from kafkafeatures.cli.demo.scene import BEGINS_MS, play
from kafkafeatures.cli.kube.seen_events import SeenEvent
from kafkafeatures.cli.pages.roll import PHASES, STATES, pieces_of, style_of
from kafkafeatures.cli.pages.roll_rows import restarts_of, rows_of
from kafkafeatures.cli.pages.timeline import Axis, Piece, clock
from kafkafeatures.cli.shell.html_parts import lasting, time_in_log
from kafkafeatures.core.report.events import events_between
from kafkafeatures.reconcile.act import Reconciliation
from kraftlog.rolls import RollHistory, RollReader

_STABLE_FOR = timedelta(seconds=30)
_LEFT, _WIDTH, _RIGHT, _LANE, _EDGE = 180, 590, 70, 26, 16
"""Pixels: the names, the tracks, the durations, the height of a lane, the margin."""
_TITLE = (
    "Timeline of a roll: one node after another, each in sync and stable before the next one; no partition below 2 of 3"
)
_TRACK = 18
"""Height of a piece, unless its style is lower."""
_HEIGHTS = {"catching": 0.6, "watched": 0.25, "fewer": 0.5}
"""Parts of that height, so that no style differs by its colour alone."""
_FILLS = {
    "stopping": "url(#stripes)", "down": "var(--bar)", "fenced": "url(#lines)", "catching": "var(--wait)",
    "watched": "var(--good)", "unclear": "var(--line)", "fewer": "var(--wait)",
}  # fmt: skip
_STYLE = """\
:root { color-scheme: light dark; --text: #1a1a1a; --muted: #555; --page: #fff; --line: #ccc; --box: #f4f4f4;
  --bar: #2b62a8; --good: #0a5d24; --wait: #7a4b00; }
@media (prefers-color-scheme: dark) { :root { --text: #eee; --muted: #b5b5b5; --page: #161616; --line: #444;
  --box: #222; --bar: #7fb0ee; --good: #7fd89a; --wait: #f2c573; } }
text { font: 13px system-ui, sans-serif; fill: var(--text); }
"""
_PATTERNS = """\
<defs>
<pattern id="stripes" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">\
<rect width="3" height="6" fill="var(--bar)"/></pattern>
<pattern id="lines" width="5" height="5" patternUnits="userSpaceOnUse"><rect width="2" height="5" fill="var(--bar)"/>\
</pattern>
</defs>
"""


class _Recorded(RollScene):
    """The scene of the demo's story, with its Events and the last status."""

    def __init__(self, state: Path) -> None:
        super().__init__(state)
        self.events: list[SeenEvent] = []
        self.status = EMPTY

    def after_reconciliation(self, previous_status: Status, done: Reconciliation) -> None:
        super().after_reconciliation(previous_status, done)
        self.status = done.status
        at = stamp(time_in_log(self.now_ms))
        self.events += [
            SeenEvent(at=at, reason=event.reason, note=event.note, facts=event.facts)
            for event in events_between(previous_status, done.status)
        ]

    def history(self) -> RollHistory:
        """The roll as the metadata log has it."""
        reader = RollReader(since_ms=0, default_minimum=None)
        log = self._world.log
        reader.append(log.read(0, max_bytes=1 << 30), below=log.end_offset)
        return reader.finish(most=3)


def picture() -> str:
    """The picture."""
    drawn: list[str] = []

    async def story(scene: _Recorded) -> None:
        scene.set_images(controller=NEW_IMAGE, broker=NEW_IMAGE)
        await scene.until(lambda status: is_rolled(status) and bool(status.soak_started_at))
        drawn.append(_svg(scene))

    with redirect_stdout(StringIO()):
        play(_Recorded, story)
    return drawn[0]


def _svg(scene: _Recorded) -> str:
    history, now = scene.history(), time_in_log(scene.now_ms)
    restarts = restarts_of(scene.status, scene.events)
    rows = rows_of(restarts, history, _STABLE_FOR, time_in_log(BEGINS_MS), now)
    axis = Axis(min(row.begin for row in rows), max(row.last for row in rows))
    lanes = [
        *((row.node, pieces_of(row, now), lasting((row.last - row.begin).total_seconds())) for row in rows),
        *(
            (
                f"{strip.topic}-{strip.partition}: {strip.fewest} of {strip.replicas} in sync",
                [(style_of(part), time_in_log(part.begin_ms), time_in_log(part.end_ms)) for part in strip.stretches],
                lasting(strip.under_replicated_ms / 1000),
            )
            for strip in history.strips
        ),
    ]
    used = {style for _, pieces, _ in lanes for style, _, _ in pieces}
    ticks = ((axis.begin, "start"), (axis.begin + (axis.end - axis.begin) / 2, "middle"), (axis.end, "end"))
    parts = [_text(_LEFT + _WIDTH * axis.at(at) / 100, _EDGE + 12, clock(at), anchor) for at, anchor in ticks]
    top = _EDGE + 20
    for name, pieces, took in lanes:
        parts += [_text(_EDGE, top + 14, name), *_track(top, axis, pieces), _text(_LEFT + _WIDTH + 10, top + 14, took)]
        top += _LANE
    for style, words in (kind for kind in (*PHASES, *STATES) if kind[0] in used):
        parts += [*_piece(style, _LEFT, top + 4, 28), _text(_LEFT + 40, top + 18, words)]
        top += _LANE - 4
    width, height = _LEFT + _WIDTH + _RIGHT, top + _EDGE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}">\n<title>{_TITLE}</title>\n<style>\n{_STYLE}</style>\n{_PATTERNS}'
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6" fill="var(--page)"'
        ' stroke="var(--line)"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _track(top: int, axis: Axis, pieces: Iterable[Piece]) -> Iterator[str]:
    """A track with its pieces."""
    yield _rectangle(_LEFT, top, _WIDTH, _TRACK, "var(--box)")
    for style, begin, end in pieces:
        at = axis.at(begin)
        yield from _piece(style, _LEFT + _WIDTH * at / 100, top, max(_WIDTH * (axis.at(end) - at) / 100, 2))


def _piece(style: str, left: float, top: float, width: float) -> Iterator[str]:
    height = _TRACK * _HEIGHTS.get(style, 1.0)
    yield _rectangle(left, top + _TRACK - height, width, height, _FILLS[style])


def _rectangle(left: float, top: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>'


def _text(left: float, base: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{left:.1f}" y="{base:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
