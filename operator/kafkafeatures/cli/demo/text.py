"""Prints the texts of the walkthrough between the outputs of commands, as shell comments that fit the terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap
from contextlib import suppress

from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import clean_stdout

_WIDEST, _WIDEST_TEXT = 100, 80
"""Most columns of the output of commands, and of paragraphs."""


def width() -> int:
    """Columns of the terminal, but at most `_WIDEST`; 80 where there is no terminal."""
    return min(_WIDEST, shutil.get_terminal_size((80, 24)).columns)


def tell(text: str, indent: str = "# ") -> None:
    """Print a paragraph. `indent`: text before each line; not "# " for texts of other programs."""
    show(textwrap.fill(text, width=min(width(), _WIDEST_TEXT), initial_indent=indent, subsequent_indent=indent) + "\n")


def turn_the_page() -> None:
    """Wait for Enter where a person reads along; not in a pipe."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        with suppress(EOFError):
            input("# Enter continues ")
        show("")


def title(text: str) -> None:
    """Print the heading of a part of the walkthrough."""
    show(f"# {text}\n# {'-' * len(text)}\n")


def show(text: str) -> None:
    """Print text unchanged."""
    # The output of commands may have colours. It is safe for terminals already, so nothing in it is escaped again.
    print(text, file=clean_stdout(), flush=True)


def not_the_story(reason: str) -> CommandFailed:
    """The error for anything that happened otherwise than the walkthrough says."""
    return CommandFailed(f"the demo did not work as expected: {reason}; please report it", Exit.FAILED)
