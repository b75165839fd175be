"""`kafkafeatures demo --story roll`: six simulated nodes are rolled by the operator's own reconciliation."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from argparse import Namespace
from functools import cache
from pathlib import Path

import pytest

from kafkafeatures.cli.demo import command as demo
from kafkafeatures.cli.demo import roll as demo_roll
from kafkafeatures.cli.demo import scene
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from tests.amounts import SOAK, only_in_soak
from tests.kafkafeatures.terminal import PROGRAM, in_terminal
from tests.kafkasim.test_process import ENVIRONMENT

STORY = ("demo", "--story", "roll")
KEY_LINES = (
    "SIMULATED",
    "RolloutStarted: 6 of 6 nodes are to be restarted",
    "NodeRestarted: controller 102",
    "NodeRestarted: controller 103",
    "NodeRestarted: controller 101",  # it leads the quorum
    "RolloutHalted: no other node is restarted and no level is raised: pod broker-0 crashes on its current revision",
    "3 of 6 nodes are current",
    "image: kafka:4.1.2",
    "NodeRestarted: broker 1",
    "RolloutCompleted: all 6 nodes are current",
    "image: kafka:4.4.0",
    "NodeRestarted: broker 1",
    "NodeRestarted: broker 2",
    "NodeRestarted: broker 3",
    "RolloutCompleted: all 6 nodes are current",
    "soaking: metadata.version 33",
    "approve plan sha256:",
    "PlanApproved:",
    "FeatureUpdated: metadata.version 27 -> 33",
    "finalized and verified on every live node: metadata.version 33",
    "8 evictions",
    "met: 2 of 3",
    "Done after",
)


@cache  # the output is always the same for a width
def piped(columns: int) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kafkafeatures", *STORY], env=ENVIRONMENT | {"COLUMNS": str(columns)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def as_read(text: str) -> str:
    """The text without line breaks, and without the duration, which differs from run to run."""
    return re.sub(r"Done after \d+ s", "Done after", " ".join(text.replace("#", " ").split()))


@pytest.mark.parametrize("columns", [80, 40] if SOAK else [40])
def test_the_roll_demo_shows_a_halted_roll_a_reverted_image_and_raised_levels(
    columns: int,
) -> None:
    shown = piped(columns)
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= columns
    read, at = as_read(shown), 0
    for line in KEY_LINES:
        assert line in read[at:], f"{line!r} is not after {read[max(at - 200, 0) : at]!r}"
        at = read.index(line, at) + len(line)
    halted = read[read.index("RolloutHalted:") : read.index("image: kafka:4.1.2")]
    assert "RestartingNode" not in halted


@pytest.mark.parametrize("colour", [True, False] if SOAK else [True])
@only_in_soak
def test_the_roll_demo_has_colours_in_a_terminal_unless_no_color_is_set(colour: bool) -> None:
    ended = in_terminal((*PROGRAM, *STORY), columns=80, colour=colour)
    assert ended.code == 0, ended.text[-1000:]
    assert ("\x1b[" in ended.shown) is colour
    assert as_read(ended.text) == as_read(piped(80))


def test_the_roll_demo_fails_if_the_roll_does_not_go_as_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_roll, "_BROKEN_IMAGE", "kafka:4.4.0")  # so that nothing is ever halted
    monkeypatch.setattr(scene, "_LONGEST_MS", 600_000)
    with pytest.raises(CommandFailed, match=r"the demo did not work as expected: Soaking: ") as failed:
        demo_roll.tell_the_roll()
    assert failed.value.code is Exit.FAILED


@pytest.mark.parametrize(
    ("on_path", "line_shown"),
    [
        ("{bin}/", "More: kafkafeatures demo --story NAME"),
        ("/usr/bin/", "More: .venv/bin/kafkafeatures demo --story NAME"),
        (None, "More: .venv/bin/kafkafeatures demo --story NAME"),
    ],
    ids=["this one is on the path", "another one is on the path", "none is on the path"],
)
def test_the_command_for_the_next_demo_works_in_the_environment_of_this_demo(
    on_path: str | None,
    line_shown: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = tmp_path / ".venv/bin"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(own / "python"))
    monkeypatch.setattr(shutil, "which", lambda name: None if on_path is None else on_path.format(bin=own) + name)
    monkeypatch.setattr(demo, "_tell_over_the_wire", lambda chosen: None)
    demo.run(Namespace(story="cure"))
    assert line_shown in " ".join(capsys.readouterr().out.replace("# ", "").split())
