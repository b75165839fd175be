"""The HTML page of a report: every fact of the status is in it, as text, escaped, and readable in light and dark."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest

from kafkafeatures.api.status import EMPTY, HistoryEntry, Status, Via
from kafkafeatures.cli.report_page import Restart, page, restarts_of
from kafkafeatures.core.events import events_between
from kafkafeatures.core.report import stamp
from kafkafeatures.core.restarts import RestartNode
from kafkafeatures.core.steps import InFlight
from tests.kafkafeatures import statuses
from tests.kafkafeatures.statuses import resource
from tests.kafkafeatures.worlds import NOW

LATER = NOW + timedelta(minutes=3)
RESTART = RestartNode(3, "broker 3", "orders-3", "uid-3")
BY_HAND = RestartNode(4, "broker 4")


class Page(HTMLParser):
    """Tags in their nesting, what is in them, and what is left open."""

    VOID = ("meta", "link", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.text += data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def event(before: Status, after: Status, at: datetime = NOW) -> list[dict[str, Any]]:
    """As the operator would tell them, and a report has them."""
    return [{"at": stamp(at), "reason": one.reason, "note": one.note} for one in events_between(before, after)]


def in_flight(step: RestartNode, **more: Any) -> Status:
    return Status(intents=(InFlight(step, stamp(NOW), Via.API_SERVER, **more).to_intent(),))


def ended(step: RestartNode) -> Status:
    return Status(
        history=(HistoryEntry(at=stamp(LATER), action=str(step), target=step.target, kind=step.kind, result="Applied"),)
    )


KINDS = {
    "none": {},
    "in sync": statuses.in_sync(),
    "approval": statuses.waiting_for_approval(),
    "soaking": statuses.soaking(),
    "stalled": statuses.stalled(),
    "unreachable": statuses.unreachable(statuses.acting()),
    "rolling": {
        **in_flight(RESTART).as_json(),
        "rollout": {"id": "1", "total": 3, "done": 1, "waitingFor": "broker 3 is stopping"},
        "workloads": [{"name": "orders", "updateRevision": "orders-2", "updated": 1, "total": 3}],
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_status_makes_a_whole_page_that_needs_nothing_else(kind: str) -> None:
    made = Page(page(resource(KINDS[kind]), [], LATER))
    assert {"script", "img", "iframe", "a"} & {tag for tag, _ in made.tags} == set()
    assert not [one for _, one in made.tags for name in ("src", "href") if (one.get(name) or "data:,") != "data:,"]
    assert [tag for tag, _ in made.tags].count("h1") == 1
    assert ("html", {"lang": "en"}) in made.tags


@pytest.mark.parametrize("kind", KINDS)
def test_every_table_has_a_caption_and_heads_with_their_scope(kind: str) -> None:
    tags = Page(page(resource(KINDS[kind]), [], LATER)).tags
    assert sum(tag == "table" for tag, _ in tags) == sum(tag == "caption" for tag, _ in tags) > 0
    assert all(one.get("scope") in ("row", "col") for tag, one in tags if tag == "th")


@pytest.mark.parametrize("kind", ["approval", "soaking", "stalled"])
def test_what_a_status_says_to_people_is_on_the_page(kind: str) -> None:
    made, status = Page(page(resource(KINDS[kind]), [], LATER)), KINDS[kind]
    told = [one["message"] for one in status["conditions"]]
    told += [one[name] for one in status.get("blockers", ()) for name in ("kind", "message", "remedy")]
    told += [step["detail"] for step in status.get("plan", {}).get("steps", ())]
    told += list(status.get("wayBack", {}).values())
    assert [one for one in told if one not in made.text] == []


def test_what_nodes_and_people_write_is_text_and_never_markup() -> None:
    evil = '<script>alert("1")</script>&'
    status = {
        **statuses.stalled(),
        "rollout": {"waitingFor": evil},
        "wayBack": {"how": evil, "until": evil},
        "history": [{"at": evil, "action": evil, "result": evil, "message": evil}],
        "features": [{"name": evil, "state": evil, "supportedMin": evil}],
        "blockers": [{"kind": evil, "message": evil, "remedy": evil}],
        "conditions": [{"type": evil, "status": evil, "reason": evil, "message": evil, "lastTransitionTime": evil}],
        "plan": {"hash": evil, "steps": [{"detail": evil, "state": evil}]},
        "intents": [{"kind": "RestartNode", "title": evil, "target": evil, "at": evil}, {"kind": evil, "at": evil}],
        "workloads": [{"name": evil, "updateRevision": evil}],
    }
    events = [{"at": evil, "reason": evil, "note": evil}, {"at": stamp(NOW), "reason": "NodeRestarted", "note": evil}]
    made = Page(page(resource(status), events, LATER))
    assert "script" not in {tag for tag, _ in made.tags}
    assert made.text.count(evil) > 20


# --- the timeline ---


def test_a_restart_is_followed_from_its_announcement_to_its_end() -> None:
    flight = in_flight(RESTART)
    told = [*event(EMPTY, flight), *event(flight, ended(RESTART), LATER)]
    assert restarts_of({}, told) == (Restart("broker 3", "orders-3", NOW, None, LATER),)
    by_hand = in_flight(BY_HAND)
    told = [*event(EMPTY, by_hand), *event(by_hand, ended(BY_HAND), LATER)]
    assert restarts_of({}, told) == (Restart("broker 4", "", NOW, None, LATER),)


def test_the_same_node_twice_is_two_restarts_and_what_is_in_flight_is_known_from_the_status() -> None:
    flight = in_flight(RESTART, stable_since=stamp(LATER))
    once = [*event(EMPTY, in_flight(RESTART)), *event(EMPTY, ended(RESTART), LATER)]
    found = restarts_of(flight.as_json(), [*once, *event(EMPTY, flight)])
    assert found == (Restart("broker 3", "orders-3", NOW, None, LATER), Restart("broker 3", "orders-3", NOW, LATER))


def test_of_what_events_have_forgotten_the_end_is_shown() -> None:
    assert restarts_of({}, event(EMPTY, ended(RESTART), LATER)) == (Restart("broker 3", "orders-3", None, None, LATER),)


def test_every_restart_has_a_row_with_its_times_and_a_bar_within_the_track() -> None:
    told = [*event(EMPTY, in_flight(RESTART)), *event(EMPTY, ended(RESTART), NOW + timedelta(seconds=90))]
    text = page(resource(in_flight(BY_HAND).as_json()), told, LATER)
    rows = {row[0]: row[1:5] for row in Page(text).rows if row[0].startswith("broker")}
    assert rows == {
        "broker 3": ["orders-3", "2026-01-02 03:04:05 UTC", "2026-01-02 03:05:35 UTC", "90 s"],
        "broker 4": ["by hand", "2026-01-02 03:04:05 UTC", "in flight", "180 s"],
    }
    bars = [tuple(map(float, one)) for one in re.findall(r"left:([\d.]+)%;width:([\d.]+)%", text)]
    assert bars == [(0.0, 50.0), (0.0, 100.0)]


def test_events_that_could_not_be_read_are_said_to_be_missing() -> None:
    assert "The Events could not be read." in Page(page(resource(statuses.in_sync()), None, LATER)).text


# --- colours ---


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_text_has_enough_contrast(theme: int) -> None:
    """4.5 to 1 is what WCAG asks of text, 3 to 1 of a bar."""
    text = page(resource(statuses.in_sync()), [], datetime.now(UTC))
    found = re.findall(r":root \{(.*?)\}", text, re.DOTALL)[theme]
    colours = dict(re.findall(r"--(\w+): (#\w+)", found))
    for ground in (colours["page"], colours["box"]):
        assert all(contrast(colours[name], ground) >= 4.5 for name in ("text", "muted", "good", "bad", "wait"))
        assert contrast(colours["bar"], ground) >= 3
