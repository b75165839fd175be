"""Outputs on pages of README and docs: each equals what its commands print."""

from __future__ import annotations

import re

import pytest

from tests.examples import (
    BLOCK,
    PAGES,
    PICTURE,
    ROOT,
    SCENES,
    SIMULATED,
    as_simulated,
    left_out,
    pages_of,
    simulated_picture,
    steady,
)


@pytest.mark.parametrize("name", {name: None for scene in (*SIMULATED, "strimzi", "fleet") for name in pages_of(scene)})
def test_the_output_on_each_page_is_what_its_commands_print(name: str) -> None:
    page = (ROOT / name).read_text()
    assert as_simulated(page) == page, "run: make docs"


def test_the_picture_of_the_readme_is_current_and_on_its_first_screen() -> None:
    assert (ROOT / PICTURE).read_text() == simulated_picture(), "run: make docs"
    first_screen = (ROOT / "README.md").read_text().splitlines()[:30]
    assert any(f"]({PICTURE})" in line for line in first_screen)


OF_A_NODE = "docs/how-to/read-a-metadata-log.md"
"""A page with output on files of a real node, which `kafkafeatures/cli/test_log_page.py` compares."""


def test_no_page_shows_an_output_that_no_test_compares() -> None:
    shown = {name: (ROOT / name).read_text() for name in PAGES if name != OF_A_NODE}
    assert {found["scene"] for page in shown.values() for found in BLOCK.finditer(page)} == set(SCENES)
    outside = {name: re.findall(r"^\s*\$ .*", BLOCK.sub("", page), re.MULTILINE) for name, page in shown.items()}
    assert {name: lines for name, lines in outside.items() if lines} == {}


def test_an_example_with_output_that_its_command_does_not_print_fails() -> None:
    page = (ROOT / "docs" / "how-to" / "without-kubernetes.md").read_text()
    wrong = page.replace("share.version 0 -> 1: Applied", "group.version 0 -> 1: Applied")
    assert wrong != page
    assert as_simulated(wrong) == page


def test_the_readme_has_a_bounded_number_of_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 120


@pytest.mark.parametrize(
    ("page", "printed", "shown"),
    [
        ("a\n...\nd\n", "a\nb\nc\nd\n", "a\n...\nd\n"),
        ("a\n...\nd\n", "a\nb\nc\ne\n", "a\nb\nc\ne\n"),
        ("a\nd\n", "a\nb\nd\n", "a\nb\nd\n"),
        ("...\nd\n", "d\n", "...\nd\n"),
        ("a\nb\n  ...\nd\n", "e\nb\nc\nd\n", "e\nb\n  ...\nd\n"),
    ],
    ids=["for two lines", "the line after it differs", "no ellipsis", "for no line", "the line before it differs"],
)
def test_an_ellipsis_on_a_page_may_stand_for_left_out_lines_only(page: str, printed: str, shown: str) -> None:
    assert left_out(page, printed) == shown


def test_pages_leave_out_a_node_that_lags_for_a_moment() -> None:
    """On real nodes both brokers have the level in most runs, when `apply` reads it back."""
    applied, done = "UpdateFeatures share.version 0 -> 1: Applied\n", "InSync: finalized\n"
    behind = "Verifying: broker 1 still reports share.version 0, and 1 more readings are behind\n"
    assert steady(applied + behind + done) == applied + done


def test_ages_on_a_page_do_not_depend_on_the_duration_of_the_scene() -> None:
    text = "kafka/orders  not ready: ApprovalRequired, for {}\nsha256:1  created {} ago\n"
    for age, longer in (("3s", ""), ("2m", " (not ready for 4m)"), ("1h", " (not ready for 2h)")):
        assert steady(text.format(age + longer, age)) == text.format("0s", "0s")
