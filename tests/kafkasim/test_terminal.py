"""The command line in a real terminal, on a simulated cluster: the same words with colours and without."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.amounts import SOAK
from tests.kafkafeatures.terminal import PROGRAM, in_terminal
from tests.kafkasim.documents import CONSENT, DOWN, RAISED, document, finalized, release
from tests.kafkasim.test_process import heard, simulator


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, Any]]:
    flags = ("--release", "4.2", "--old-broker", "2=4.0", "--ghost-broker", "4=4.0", "--metadata-version", "25")
    with simulator(*flags) as process:
        yield heard(process)


PAUSES = {"upgrade": 1, "cure": 0, "back": 0, "drift": 0, "all": 3}
"""Number of times that each story waits for Enter; one of a single part never waits."""


@pytest.mark.parametrize(
    ("story", "columns", "colour"),
    [
        ("upgrade", 80, True),
        *([("back", 80, True), ("cure", 80, True), ("drift", 80, True)] if SOAK else []),
        *([("all", 80, False), ("all", 40, True)] if SOAK else []),
    ],
)  # fmt: skip
def test_a_demo_in_a_terminal_waits_for_enter_between_its_parts(story: str, columns: int, colour: bool) -> None:
    enter = [("Enter continues", "\n")] * PAUSES[story]
    ended = in_terminal((*PROGRAM, "demo", "--story", story), columns=columns, colour=colour, answers=enter)
    assert ended.text.count("Enter continues") == PAUSES[story]
    assert ended.code == 0, ended.text[-1000:]
    draws = story != "drift"  # it shows only the progress of `apply`, which has no colours
    assert ("\x1b[" in ended.shown) is (colour and draws)
    assert "Done after" in ended.text


@pytest.mark.parametrize(
    ("words", "code", "columns"),
    [
        (("describe", "--bootstrap-server", "{}"), 0, 80),
        (("describe", "--apis", "--bootstrap-server", "{}"), 0, 40),
        (("plan", "-f", "{file}"), 4, 40),
        (("plan", "-f", "{file}", "-o", "json"), 4, 80),
    ],
)
def test_the_text_is_the_same_with_and_without_colours(
    cluster: dict[str, Any], tmp_path: Path, words: tuple[str, ...], code: int, columns: int
) -> None:
    file = document(tmp_path, cluster, {"metadata.version": 29, "share.version": 1})
    command = (*PROGRAM, *(one.format(cluster["bootstrapServers"], file=file) for one in words))
    plain, coloured = (in_terminal(command, columns=columns, colour=colour) for colour in (False, True))
    assert (plain.code, coloured.code) == (code, code)
    assert _without_offsets(plain.text) == _without_offsets(coloured.text)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", plain.shown)  # bold is no colour


def _without_offsets(text: str) -> str:
    """The text without offsets, which grow between two commands."""
    return re.sub(r'offset"?:? [0-9]+', "offset", text)


@pytest.mark.parametrize(
    ("flags", "typed", "code", "level"),
    [((), "y\n", 0, 0), ((), "n\n", 4, 1), ((), "\n", 4, 1), ((), "\x03", 130, 1), (("--yes",), "", 0, 0)],
)
def test_apply_in_a_terminal_shows_its_plan_and_asks_for_confirmation(
    tmp_path: Path, flags: tuple[str, ...], typed: str, code: int, level: int
) -> None:
    with simulator(*RAISED) as process:
        cluster = heard(process)
        document(tmp_path, cluster, DOWN, [CONSENT])
        answers = [("Apply this plan? [y/N]", typed)] if typed else []
        ended = in_terminal((*PROGRAM, "apply", "-f", "levels.yaml", *flags), cwd=tmp_path, answers=answers)
        assert finalized(cluster, "share.version") == level
    assert ended.code == code, ended.text
    assert sum(one.startswith("  1. share.version 1 -> 0  downgrade may lose") for one in ended.screen) == 1
    loss = "The downgrade may lose metadata, which raising the level again does not restore: share.version 1 -> 0."
    assert loss in ended.text
    assert (f"It is unknown whether consent {CONSENT} was already used" in ended.text) is bool(typed)


@pytest.mark.parametrize(("typed", "code", "level"), [("y\n", 0, 29), ("n\n", 4, 25), ("\n", 4, 25), ("\x03", 130, 25)])
def test_apply_in_a_terminal_asks_for_the_approval_of_a_waiting_plan(
    tmp_path: Path, typed: str, code: int, level: int
) -> None:
    with simulator("--release", "4.2", "--metadata-version", "25") as process:
        cluster = heard(process)
        release(tmp_path, cluster)
        answers = [("Approve and apply? [y/N]", typed)]
        ended = in_terminal((*PROGRAM, "apply", "-f", "levels.yaml"), cwd=tmp_path, answers=answers)
        assert finalized(cluster, "metadata.version") == level
    assert ended.code == code, ended.text
    assert "1. metadata.version 25 (4.0-IV3) -> 29 (4.2-IV1)" in ended.text
    assert "downgrade may lose metadata" in ended.text
    assert ended.text.count("[y/N]") == 1


@pytest.mark.parametrize(
    ("columns", "titles"),
    [
        (80, (r"metadata\.version 25 \(4\.0-IV3\) -> 29 \(4\.2-IV1\)", r"share\.version 0 -> 1")),
        (60, (r"metadata\.version -> 29", r"share\.version -> 1")),
        (40, (r"metadata\.version", r"share\.version ->")),
    ],
)
def test_apply_in_a_terminal_ends_with_a_line_for_each_level_and_a_summary(
    tmp_path: Path, columns: int, titles: tuple[str, str]
) -> None:
    with simulator("--release", "4.2", "--metadata-version", "25") as process:
        document(tmp_path, heard(process), {"metadata.version": 29, "share.version": 1})
        ended = in_terminal((*PROGRAM, "apply", "-f", "levels.yaml", "--yes"), cwd=tmp_path, columns=columns)
    assert ended.code == 0, ended.text
    at = ended.screen.index(next(one for one in ended.screen if "verified" in one))
    seconds = r"[0-9.]+ s"
    for shown, expected in zip(
        ended.screen[at:],
        (
            *(rf"  {title} +verified 6/6  {seconds}" for title in titles),
            rf"2 levels changed and verified on 6 live nodes in {seconds}",
            r"default/x: InSync; status kept in levels\.status\.yaml",
            "",
        ),
        strict=True,
    ):
        assert re.fullmatch(expected, shown), ended.screen
    assert all(word in ended.text for word in ("dry run accepted", "sent", "finalized"))


def test_a_blocked_plan_is_shown_with_each_blocker_once(tmp_path: Path) -> None:
    flags = ("--release", "4.2", "--old-broker", "2=4.0", "--metadata-version", "25")
    with simulator(*flags) as process:
        document(tmp_path, heard(process), {"metadata.version": 29, "share.version": 1})
        ended = in_terminal((*PROGRAM, "apply", "-f", "levels.yaml", "--timeout", "5s"), cwd=tmp_path)
    assert ended.code == 5, ended.text
    assert ended.text.count("1. metadata.version 25 (4.0-IV3) -> 29 (4.2-IV1)") == 1
    assert ended.text.count("NodeRange: broker 2, Kafka 4.0") == 1
    assert ended.text.count("upgrade Kafka on broker 2") == 1


@pytest.mark.parametrize("hash_", ["sha256:00000000", ""], ids=["the hash of another plan", "--yes"])
def test_apply_in_a_terminal_does_not_ask_about_a_plan_that_must_be_approved_elsewhere(
    tmp_path: Path, hash_: str
) -> None:
    """Another plan was approved by its hash; or --yes, which confirms and does not approve."""
    with simulator("--release", "4.2", "--metadata-version", "25") as process:
        cluster = heard(process)
        release(tmp_path, cluster)
        flags = ("--approve", hash_) if hash_ else ("--yes",)
        ended = in_terminal((*PROGRAM, "apply", "-f", "levels.yaml", *flags), cwd=tmp_path)
        assert finalized(cluster, "metadata.version") == 25
    assert ended.code == 3, ended.text
    assert "1. metadata.version 25 (4.0-IV3) -> 29 (4.2-IV1)" in ended.text
    assert "[y/N]" not in ended.text


def test_apply_without_changes_asks_for_no_confirmation(cluster: dict[str, Any], tmp_path: Path) -> None:
    document(tmp_path, cluster, {"metadata.version": 25})
    ended = in_terminal((*PROGRAM, "apply", "-f", "levels.yaml"), cwd=tmp_path)
    assert ended.code == 0
    assert "[y/N]" not in ended.text


def test_apply_in_a_terminal_ends_with_one_line_or_the_status_that_o_asks_for(
    cluster: dict[str, Any], tmp_path: Path
) -> None:
    document(tmp_path, cluster, {"metadata.version": 25})
    ended = in_terminal((*PROGRAM, "apply", "-f", "levels.yaml"), cwd=tmp_path)
    assert ended.text.rstrip().endswith("default/x: InSync; status kept in levels.status.yaml")
    assert "conditions:" not in ended.text
    with_status = in_terminal((*PROGRAM, "apply", "-f", "levels.yaml", "-o", "yaml"), cwd=tmp_path)
    assert "conditions:" in with_status.text


def test_apply_does_not_ask_about_a_plan_approved_by_its_hash(tmp_path: Path) -> None:
    with simulator("--metadata-version", "25") as process:
        document(tmp_path, heard(process), {"metadata.version": 29})
        plan = in_terminal((*PROGRAM, "plan", "-f", "levels.yaml", "-o", "json"), cwd=tmp_path, colour=False)
        hash_ = json.loads(plan.shown)["hash"]
        ended = in_terminal((*PROGRAM, "apply", "-f", "levels.yaml", "--approve", hash_), cwd=tmp_path)
    assert ended.code == 0, ended.text
    assert "[y/N]" not in ended.text
    assert ended.text.count("1. metadata.version 25 (4.0-IV3) -> 29 (4.2-IV1)") == 1
