"""The steps that `apply` prints above the lines of levels on a terminal."""

from __future__ import annotations

import io

from rich.console import Console
from rich.text import Text

from kafkafeatures.cli.document.live_steps import LiveSteps
from kafkafeatures.cli.shell.indented import hanging


def test_wrapped_lines_of_a_step_are_indented() -> None:
    shown = Console(file=io.StringIO(), width=40, color_system=None)
    LiveSteps(lambda: 0.0, shown).say("InSync: finalized and verified on every live node: group.version 1")
    first, *more = shown.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert first.startswith("InSync: ")
    assert more
    assert all(one.startswith("  ") for one in more)


def test_quoted_words_of_a_message_are_not_wrapped() -> None:
    """A broken name in the JSON of a znode, copied from a narrow terminal, stops every controller."""
    shown = io.StringIO()
    remedy = f"create it again: create /migration '{{\"{'n' * 60}\":1}}' (set, if it exists); then {'w' * 60}"
    hanging(Console(file=shown, width=40), Text(remedy), indent=2)
    lines = shown.getvalue().splitlines()
    assert f"  '{{\"{'n' * 60}\":1}}'" in lines
    assert all(len(line) <= 40 for line in lines if "'" not in line)
    assert "".join(shown.getvalue().split()) == "".join(remedy.split())
