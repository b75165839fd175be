"""Runs the commands of a story in a folder, shows each with its output, and checks the result.

It is for the stories whose commands run in processes of their own; `scene.py` is for the others. An unexpected result
ends the demo.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from kafkafeatures.cli.demo.text import not_the_story, show, width
from kafkafeatures.cli.shell.exit_codes import Exit

_COMMAND_SECONDS = 120.0
"""Time limit of a command."""
_SOURCE_ROOT = Path(__file__).parents[3]
"""The folder that the commands import the package from, so that they are those of this installation."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Demonstration(Struct, frozen=True):
    """Runs and shows commands of `kafkafeatures`. `folder`: the one that they run in, which has the files of the
    story. `words` in its methods: the arguments of a command.
    """

    folder: Path

    def run(self, words: Sequence[str], *, code: Exit, shows: Sequence[str], into: str | None = None) -> None:
        """Show a command and its output. Raises CommandFailed unless it ends with `code` and shows these words.

        `into`: a file for the standard output, as a shell would redirect it.
        """
        show(f"$ kafkafeatures {' '.join(words)}{f' > {into}' if into else ''}")
        done = self._execute(words, subprocess.PIPE if into else subprocess.STDOUT)
        output = done.stdout
        if into:
            self.write(into, done.stdout)
            output = done.stderr
        show(output)
        show(f"(exit code {done.returncode})\n")
        if done.returncode != code:
            raise not_the_story(f"`{words[0]}` ended with {done.returncode} instead of {int(code)}")
        # as people read it: without colours and line breaks
        words_shown = " ".join(_COLOURS.sub("", output).split())
        if missing := [word for word in shows if word not in words_shown]:
            raise not_the_story(f"`{words[0]}` does not mention {', '.join(missing)}")

    def quiet(self, words: Sequence[str], *, code: Exit = Exit.DONE) -> str:
        """Run a command without showing it. Returns its standard output."""
        done = self._execute(words, subprocess.PIPE)
        if done.returncode != code:
            raise not_the_story(f"`{words[0]}` ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def write(self, name: str, text: str) -> Path:
        """Write a file into the folder. Returns its path."""
        path = self.folder / name
        path.write_text(text)
        return path

    def show_file(self, path: Path) -> None:
        """Print a file below the `cat` command that would show it."""
        show(f"$ cat {path.name}\n{path.read_text()}")

    def show(self, text: str) -> None:
        """Show a text, such as a few lines of a document."""
        show(text)

    def _execute(self, words: Sequence[str], errors: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kafkafeatures", *words]
        try:
            return subprocess.run(  # noqa: S603 - our own command with our own words
                command, cwd=self.folder, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=errors, text=True, timeout=_COMMAND_SECONDS, check=False,
                process_group=0,  # Ctrl-C is for the demo, which then ends what it started
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise not_the_story(f"`{words[0]}` did not end within {_COMMAND_SECONDS:.0f} s") from None


def environment() -> dict[str, str]:
    """The environment for commands: that of this process, with this installation to import from, with the width of the
    terminal, and with colours if stdout is a terminal.
    """
    variables = dict(os.environ)
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_SOURCE_ROOT), variables.get("PYTHONPATH"))))
    variables["COLUMNS"] = str(width())
    if sys.stdout.isatty() and not variables.get("NO_COLOR"):
        variables["FORCE_COLOR"] = "1"
    return variables
