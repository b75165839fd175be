"""The page of a report in a real browser: blockers first, a lane for each node, one form of time; and how it prints."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any

import pytest

from kafkafeatures.api.records import stamp
from kafkafeatures.api.status import EMPTY
from kafkafeatures.cli.kube.seen_events import SeenEvent
from kafkafeatures.cli.pages.resource import page
from kraftlog.rolls import Absence, RollHistory
from kraftlog.strips import Moment, Stretch, Strip
from tests.e2e.rig.browser import AS_PRINTED, evaluated
from tests.kafkafeatures import statuses
from tests.kafkafeatures.cli.restarts import LATER, RESTART, ended, event, in_flight
from tests.kafkafeatures.cli.test_roll_page import MS
from tests.kafkafeatures.statuses import resource
from tests.kafkafeatures.worlds import NOW

PHONE, TABLET, DESKTOP = 375, 800, 1280

_SEEN = rf"""
const words = one => one.innerText, all = (what, of = document) => [...of.querySelectorAll(what)];
const rows = table => [...table.tBodies[0].rows].map(row => [...row.cells].map(cell => words(cell).split("\n")));
const blockers = document.querySelector("h2");
const roll = all("table").find(one => words(one.caption).startsWith("Timeline"));
const seen = one => {{
  one.scrollIntoView();
  const {{ left, top, width, height }} = one.getBoundingClientRect();
  return document.elementFromPoint(left + width / 2, top + height / 2) === one;
}};
const found = {{
  first: words(blockers), lanes: rows(roll),
  cards: all(".card").map(one => words(one).split("\n").filter(line => line)),
  cut: all(".scroll").filter(one => one.scrollWidth > one.clientWidth + 1).map(words),
  marks: all(".track span", roll).map(seen), text: document.body.textContent, code: all("code").map(words),
  ticks: all(".axis span", roll).filter(one => one.checkVisibility()).map(one => one.getBoundingClientRect().height),
  folded: all("details table").map(one => one.checkVisibility()),
}};
{AS_PRINTED}
return {{ ...found, printed: all("details table").map(one => one.checkVisibility()) }};
"""

ShownAt = Callable[[int], dict[str, Any]]
"""A function that returns what `_SEEN` finds on the page in a browser of this width."""


def away(role: str, node: int, *seconds: int) -> Absence:
    """A node that was away. `seconds`: of a broker those of all five moments, of a controller that of its
    registration.
    """
    steps = [Moment(MS + 1000 * at, 10 + at) for at in seconds]
    if len(steps) == 1:
        return Absence(role, node, registered=steps[0])
    stopping, fenced, registered, unfenced, in_sync = steps
    return Absence(role, node, stopping, fenced, registered, unfenced, in_sync)


@pytest.fixture(scope="module")
def shown_at(tmp_path_factory: pytest.TempPathFactory) -> ShownAt:
    """The page of a blocked resource. A broker was away three times, and a controller registered at the very end of
    that.
    """
    absences = [away("broker", 3, *range(at, at + 5)) for at in (0, 20, 40)] + [away("controller", 101, 60)]
    stretch = Stretch(begin_ms=MS, end_ms=MS + 400, in_sync=2, has_leader=True, below_minimum=False, offset=1)
    strip = Strip(
        topic="payments.settlements", partition=0, replicas=3, fewest=2, without_leader_ms=0, below_minimum_ms=0,
        under_replicated_ms=400, lasts=False, stretches=(stretch,),
    )  # fmt: skip
    history = RollHistory(
        known_from=None, end=Moment(at_ms=MS + 60_000, offset=99), absences=tuple(absences), strips=(strip,),
        affected=1, without_leader=0, below_minimum=0, partitions=4, minimum_known=True, unreadable=0,
    )  # fmt: skip
    events = [*event(EMPTY, in_flight(RESTART)), *event(in_flight(RESTART), ended(RESTART), NOW + timedelta(seconds=9))]
    events.append(SeenEvent(at=stamp(NOW), reason="Blocked", note="run `kafkafeatures describe`"))
    folder = tmp_path_factory.mktemp("report")
    (folder / "report.html").write_text(page(resource(statuses.stalled()), events, LATER, history))

    @cache
    def at(width: int) -> dict[str, Any]:
        found: dict[str, Any] = evaluated(folder / "report.html", folder / "profile", _SEEN, width=width)
        return found

    return at


def test_blockers_are_the_first_section_with_one_card_for_equal_nodes_and_one_remedy(shown_at: ShownAt) -> None:
    found = shown_at(DESKTOP)
    assert found["first"] == "Blockers"
    ((where, kind, *lacks, remedy, command),) = found["cards"]
    assert (where, kind) == ("controller 3003, Kafka 3.9", "Ghost registration")
    assert [line.split()[0] for line in lacks] == ["metadata.version", "group.version"]
    assert remedy.startswith("start a controller with id 3003")
    assert command.startswith("kafkafeatures unregister --controller 3003 --")  # on a line of its own


@pytest.mark.parametrize("width", [PHONE, TABLET, DESKTOP])
def test_each_node_has_one_lane_with_visible_marks_at_both_ends(shown_at: ShownAt, width: int) -> None:
    found = shown_at(width)
    assert [one[0] for one in found["lanes"]] == [["broker 3", "3 times"], ["controller 101"]]
    assert len(found["marks"]) >= 4  # one for each of the four times away, or more
    assert all(found["marks"])
    assert len(found["ticks"]) >= 2
    assert max(found["ticks"]) < 30  # pixels: each is on one line


@pytest.mark.parametrize("width", [PHONE, TABLET, DESKTOP])
def test_no_table_is_wider_than_the_screen(shown_at: ShownAt, width: int) -> None:
    assert shown_at(width)["cut"] == []


def test_times_have_one_form_and_commands_no_backticks(shown_at: ShownAt) -> None:
    found = shown_at(DESKTOP)
    assert "2026-01-02 03:04:05 UTC" in found["text"]
    assert "2026-01-02T" not in found["text"]
    assert "`" not in found["text"]
    assert [one.split(" -")[0] for one in found["code"]] == ["kafkafeatures unregister", "kafkafeatures describe"]


def test_the_printed_page_shows_folded_sections(shown_at: ShownAt) -> None:
    found = shown_at(DESKTOP)
    # whether the table in each of the two folded sections is visible: on the screen, and on paper
    assert found["folded"] == [False, False]
    assert found["printed"] == [True, True]
