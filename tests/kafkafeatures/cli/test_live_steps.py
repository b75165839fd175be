"""What `apply` prints above the lines of its levels on a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from kafkafeatures.cli.document.live_steps import LiveSteps


def test_a_line_that_the_terminal_breaks_is_indented() -> None:
    shown = Console(file=io.StringIO(), width=40, color_system=None)
    LiveSteps(lambda: 0.0, shown).say("InSync: finalized and verified on every live node: group.version 1")
    first, *more = shown.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert first.startswith("InSync: ")
    assert more
    assert all(one.startswith("  ") for one in more)
