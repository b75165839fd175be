"""HTML as a type: a text that no call escaped is text on every page, in a table, a drawing or an attribute."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from kafkafeatures.cli.pages import cluster_tables, sortable
from kafkafeatures.cli.pages.timeline import Axis, legend, with_axis
from kafkafeatures.cli.shell import html_parts
from kafkafeatures.cli.shell.html_parts import Html
from tests.kafkafeatures.cli.test_report_page import Page
from tests.kafkafeatures.worlds import NOW

HOSTILE = "\"'><script>alert(1)</script><b onclick='x'>\u202e&"
SHOWN = HOSTILE.replace("\u202e", "\ufffd")
PIECE = HOSTILE, NOW, NOW + timedelta(seconds=1)
AXIS = Axis(NOW, NOW + timedelta(seconds=9))

MADE: dict[str, Callable[[str], Html]] = {
    "format": Html("<p>{}</p>").format,
    "format of an attribute": lambda text: Html('<p class="{}"></p>').format(text),
    "join": lambda text: Html("<br>").join((text, text)),
    "replace": lambda text: Html("<p>a</p>").replace("a", text),
    "add": lambda text: text + Html("<p></p>") + text,
    "text": html_parts.text,
    "text with a command": lambda text: html_parts.text(f"`{text}` 1 (4.0-IV3) {text}"),
    "lines": lambda text: html_parts.lines((text, text)),
    "small": html_parts.small,
    "remedy": lambda text: html_parts.remedy(f"{text}; kafkafeatures describe --x {text}"),
    "table": lambda text: html_parts.table(text, (text, text), [(text, text)], text),
    "folded": lambda text: html_parts.folded(text, html_parts.text(text)),
    "section": lambda text: cluster_tables.section(text, text, (text, text), [(text, text)]),
    "place": lambda text: cluster_tables.place(text, text, text),
    "evidence": lambda text: cluster_tables.evidence(text, text, text, None),
    "sortable": lambda text: sortable.sortable(text, (text, text), [(text, text)], text, (text,)),
    "track": lambda _: AXIS.track([PIECE]),
    "keys": lambda text: legend([(text, text)]),
    "with_axis": lambda text: with_axis(html_parts.table(text, (text, "When"), [(text, text)]), AXIS),
}


@pytest.mark.parametrize("name", MADE)
def test_a_text_inserted_into_html_is_escaped(name: str) -> None:
    page = Page(html_parts.whole_page(HOSTILE, [MADE[name](HOSTILE)], Html()))
    assert not {"script", "b"} & {tag for tag, _ in page.tags}
    assert "onclick" not in {attribute for _, attributes in page.tags for attribute in attributes}
    values = [value for _, attributes in page.tags for value in attributes.values() if value]
    assert page.text.count(SHOWN) > 1 or SHOWN in values  # the first is the title
    assert "\u202e" not in page.text
    assert not any("\u202e" in value for value in values)


def test_a_section_given_as_text_is_escaped() -> None:
    page = Page(html_parts.whole_page("a", [HOSTILE], Html()))  # type: ignore[list-item]
    assert SHOWN in page.text


def test_html_is_not_escaped_again() -> None:
    html = Html("<i>a</i>")
    assert html_parts.text(html) is html
    assert html_parts.lines((html, "<")) == "<i>a</i><br>&lt;"


def test_an_axis_of_one_moment_has_one_tick() -> None:
    assert Axis(NOW, NOW).ticks == '<span style="left:0%">03:04:05</span>'
    assert Axis(NOW, NOW + timedelta(seconds=2)).ticks.count("<span") == 3


def test_a_time_without_seconds_stays_on_one_line() -> None:
    assert html_parts.text("until 2026-01-07 22:59") == 'until <span class="whole">2026-01-07 22:59</span>'
