"""The command line in a real terminal, on a simulated cluster: the same words with colours and without."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kafkafeatures.terminal import PROGRAM, in_terminal
from tests.kafkasim.test_command_line import document
from tests.kafkasim.test_process import heard, simulator


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, Any]]:
    flags = ("--release", "4.2", "--old-broker", "2=4.0", "--ghost-broker", "4=4.0", "--metadata-version", "25")
    with simulator(*flags) as process:
        yield heard(process)


@pytest.mark.parametrize(
    ("story", "columns", "colour"),
    [("cure", 80, True), ("back", 80, True), ("drift", 80, True), ("all", 80, False), ("all", 40, True)],
)
def test_the_demo_tells_its_story_in_a_terminal(story: str, columns: int, colour: bool) -> None:
    ended = in_terminal((*PROGRAM, "demo", "--story", story), columns=columns, colour=colour)
    assert ended.code == 0, ended.text[-1000:]
    draws = story in ("cure", "all")  # the other parts show only the progress of `apply`, which has no colours
    assert ("\x1b[" in ended.shown) is (colour and draws)
    assert "The end, after" in ended.text


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("describe", "--bootstrap-server", "{}"), 0),
        (("describe", "--apis", "--bootstrap-server", "{}"), 0),
        (("plan", "-f", "{file}"), 4),
        (("plan", "-f", "{file}", "-o", "json"), 4),
    ],
)
def test_colours_change_no_word(
    cluster: dict[str, Any], tmp_path: Path, words: tuple[str, ...], code: int, columns: int
) -> None:
    file = document(tmp_path, cluster, {"metadata.version": 29, "share.version": 1})
    command = (*PROGRAM, *(one.format(cluster["bootstrapServers"], file=file) for one in words))
    plain, coloured = (in_terminal(command, columns=columns, colour=colour) for colour in (False, True))
    assert (plain.code, coloured.code) == (code, code)
    assert _but_the_offset(plain.text) == _but_the_offset(coloured.text)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", plain.shown)  # bold is no colour


def _but_the_offset(text: str) -> str:
    """The log goes on while we look."""
    return re.sub(r'offset"?:? [0-9]+', "offset", text)
