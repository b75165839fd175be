"""`describe -o svg` and `-o html`: self-contained, light and dark, readable, and nothing that a browser would obey."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from html import unescape
from xml.etree import ElementTree

import pytest
from rich.console import Console
from rich.text import Text

from kafkafeatures.cli.cluster.matrix import draw
from kafkafeatures.cli.cluster.picture import as_html, as_svg
from kafkafeatures.core.facts.observation import NodeState
from tests.kafkafeatures.worlds import OLD, SILENT, answer, node, observation

EVIL = "<script>alert(1)</script>\x1b]52;c;aGk=\x07\u202e & 'so' on"
NODES = (
    node(3001), node(1), node(2, said=answer(OLD), written=OLD),
    node(4, state=NodeState.GHOST, said=SILENT, written=OLD),
)  # fmt: skip
OURS = partial(draw, observation=observation(*NODES))
FORMS = pytest.mark.parametrize("made", [as_svg, as_html])


@pytest.fixture(autouse=True)
def default_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def words(on: Console) -> None:
    on.print(Text(EVIL, "bold red"), Text("plain"))


@FORMS
def test_an_exported_page_or_picture_loads_nothing_and_has_no_script(made: Callable[..., str]) -> None:
    text = made(OURS, "t").replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|//|<script|@import|@font-face|url\(|\son\w+=", text)


@FORMS
def test_texts_of_an_exported_page_or_picture_are_escaped(made: Callable[..., str]) -> None:
    text = made(words, "t")
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert not any(one in text for one in ("\x1b", "\x07", "\u202e"))


def test_every_css_class_of_a_picture_has_a_colour_with_enough_contrast_in_both_colour_schemes() -> None:
    light, dark = as_svg(OURS, "t").split("@media (prefers-color-scheme: dark)")
    used = {name for found in re.findall(r'class="([^"]+)"', dark) for name in found.split()} - {"bold"}
    assert used == {"red", "dim", "cyan"}
    for scheme in (light, dark):
        (page,) = re.findall(r"rect \{ fill: (#\w+)", scheme)
        for name in (r"\.red", r"\.dim", r"\.cyan", "text"):
            (colour,) = re.findall(rf"^{name} \{{ fill: (#\w+)", scheme, re.MULTILINE)
            assert contrast(page, colour) >= 4.5, (name, page, colour)


def test_an_exported_svg_is_a_complete_document_with_aligned_columns() -> None:
    root = ElementTree.fromstring(as_svg(OURS, "a title"))
    inside = "{http://www.w3.org/2000/svg}"
    assert root.findtext(f"{inside}title") == "a title"
    rows = [[(float(run.attrib["x"]), run.text) for run in text] for text in root.iter(f"{inside}text")]
    (head,) = (row for row in rows if row[0][1] == "FEATURE")
    (level,) = (row for row in rows if row[0][1] == "metadata.version")
    assert [x for x, _ in head] == [x for x, _ in level]
    assert level[-1][1] == "1-21 !"
    assert max(x for row in rows for x, _ in row) < float(root.attrib["width"])
    assert root.attrib["viewBox"] == f"0 0 {root.attrib['width']} {root.attrib['height']}"
    assert ":root { color-scheme: light dark; }" in (root.findtext(f"{inside}style") or "")


def test_an_exported_html_page_has_the_text_of_the_terminal() -> None:
    (inside,) = re.findall("<pre>\n(.*)\n</pre>", as_html(OURS, "t"), re.DOTALL)
    lines = unescape(re.sub("<[^>]*>", "", inside)).splitlines()
    assert lines[0] == "metadata.version 3.9-IV0 -> 4.1-IV1: blocked by broker 2 (Kafka 3.9) and broker 4 (a ghost)"
    assert "  NodeRange: broker 2, Kafka 3.9" in lines


def contrast(one: str, other: str) -> float:
    """The ratio that WCAG asks to be 4.5 at least."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(one * 2 for one in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return sum(weight * one for weight, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
