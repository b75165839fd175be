"""A real terminal (pty) for the command line's tests: of a given width, with colours or without."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.started import PYTHONPATH

PROGRAM = (sys.executable, "-m", "kafkafeatures")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
_OF_TERMINALS = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TERM")


def environment(*, colour: bool = True, **more: str) -> dict[str, str]:
    """The environment of a shell in a terminal window: nothing but TERM, and NO_COLOR where no colours are wanted."""
    found = {name: value for name, value in os.environ.items() if name not in _OF_TERMINALS}
    found |= {"PYTHONPATH": PYTHONPATH, "TERM": "xterm-256color"}
    return found | ({} if colour else {"NO_COLOR": "1"}) | more


@dataclass(frozen=True)
class Ended:
    """What became of a program in a terminal: its exit code (below 0: the signal), and all that was shown."""

    code: int
    shown: str

    @property
    def text(self) -> str:
        """Without colours, spaces and breaks of lines as one space: what a person read."""
        return " ".join(ESCAPE.sub("", self.shown).split())

    @property
    def screen(self) -> list[str]:
        """The lines as they stand in the end, where some were drawn anew."""
        rows, at = [""], 0
        for one in re.findall(r"\x1b\[[0-9;?]*[a-zA-Z]|\n|[^\x1b\n]+", self.shown):
            if one == "\n":
                at += 1
                rows += [""] * (at == len(rows))
            elif one == "\x1b[1A":
                at -= 1
            elif one == "\x1b[2K":
                rows[at] = ""
            elif not one.startswith("\x1b"):
                rows[at] += one
        return rows

    @property
    def lines(self) -> list[str]:
        return ESCAPE.sub("", self.shown).splitlines()


def in_terminal(
    command: Sequence[str],
    *,
    columns: int = 80,
    colour: bool = True,
    answers: Sequence[tuple[str, str]] = (),
    cwd: Path | None = None,
    seconds: float = 60.0,
) -> Ended:
    """Run it with a pty as its stdin, stdout, stderr and controlling terminal.

    `answers`: (what is asked, what is typed then); "\\x03" is Ctrl-C.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    pending = list(answers)
    shown = b""
    with subprocess.Popen(
        ("setsid", "--ctty", *command), stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd,
        env=environment(colour=colour),
    ) as process:  # fmt: skip
        os.close(theirs)
        try:
            for shown in _shown(ours, seconds):
                if pending and pending[0][0].encode() in shown:
                    os.write(ours, pending.pop(0)[1].encode())
            code = process.wait(seconds)
        finally:
            os.close(ours)
            if process.poll() is None:
                process.kill()
    return Ended(code, shown.decode().replace("\r\n", "\n"))


def _shown(terminal: int, seconds: float) -> Iterator[bytes]:
    """All that was shown so far, after each part of it, until the other end of the terminal is closed."""
    shown = b""
    while True:
        came = select.select([terminal], [], [], seconds)[0]
        assert came, f"nothing came for {seconds:g} s after: {shown.decode(errors='replace')}"
        try:
            shown += os.read(terminal, 65536)
        except OSError:  # EIO: the other end is closed
            return
        yield shown


class Session:
    """A program at a pseudo terminal that a person talks to, while other commands run."""

    def __init__(self, terminal: int, process: subprocess.Popen[bytes]) -> None:
        self._terminal, self.process = terminal, process

    def reads(self, end: str = "> ", seconds: float = 60.0) -> str:
        """The text up to the next prompt, without control sequences."""
        text = ""
        while not text.endswith(end):
            assert select.select([self._terminal], [], [], seconds)[0], f"nothing came for {seconds:g} s after: {text}"
            text = ESCAPE.sub("", text + os.read(self._terminal, 65536).decode().replace("\r\n", "\n"))
        return text

    def ends(self, seconds: float = 60.0) -> tuple[int, str]:
        """The exit code, and the text up to the end, with each break of a line as one space."""
        *_, text = (b"", *_shown(self._terminal, seconds))
        return self.process.wait(seconds), " ".join(ESCAPE.sub("", text.decode()).split())

    def enters(self, text: str) -> None:
        """Type a text, without waiting for what answers it."""
        os.write(self._terminal, text.encode())

    def types(self, line: str) -> str:
        """The text that answers a line; the terminal repeats the line first."""
        self.enters(f"{line}\n")
        return self.reads().removeprefix(f"{line}\n")


@contextmanager
def session(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdout: IO[str] | None = None,
    stderr: IO[str] | None = None,
) -> Iterator[Session]:
    """Start a program at a pseudo terminal; it is killed in the end. stdout, stderr: files instead of the terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command,
        env=env or environment(colour=False),
        stdin=theirs,
        stdout=stdout or theirs,
        stderr=stderr or theirs,
        start_new_session=True,
        preexec_fn=hears_ctrl_c,  # noqa: PLW1509 - one system call, no locks
    ) as process:
        os.close(theirs)
        try:
            yield Session(ours, process)
        finally:
            process.kill()
            os.close(ours)


def hears_ctrl_c() -> None:
    """Handle SIGINT as usual. Tests may run in the background, where a shell lets its children ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
