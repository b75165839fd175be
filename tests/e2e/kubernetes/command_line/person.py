"""A person who works with the command line: a kubeconfig, a home, a folder for temporary files, and nothing else."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.e2e.kafka.cli import KAFKAFEATURES, run
from tests.e2e.rig.process import ENVIRONMENT, wait_until
from tests.kafkafeatures.terminal import Session, session


class Person:
    """`kubeconfig`: as KUBECONFIG has it; empty: not set."""

    def __init__(self, home: Path, kubeconfig: Path | str = "") -> None:
        self.home, self.temporary = home, home / "tmp"
        self.temporary.mkdir(parents=True, exist_ok=True)
        self.environment = {**ENVIRONMENT, "HOME": str(home), "TMPDIR": str(self.temporary)}
        if kubeconfig:
            self.environment["KUBECONFIG"] = str(kubeconfig)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command, which leaves nothing behind."""
        done = run(*words, environment=self.environment)
        assert "Traceback" not in done.stderr, done.stderr
        assert list(self.temporary.iterdir()) == []
        return done

    def at_terminal(self, *words: str) -> AbstractContextManager[Session]:
        """A command at a terminal, which may ask there."""
        return session([*KAFKAFEATURES, *words], env=self.environment)

    @contextmanager
    def running(self, *words: str) -> Iterator[Running]:
        """A command that takes its time, with its output in files; ended with the block if it did not end before."""
        out, err = self.home / "out", self.home / "err"
        with (
            out.open("w") as stdout,
            err.open("w") as stderr,
            session([*KAFKAFEATURES, *words], env=self.environment, stdout=stdout, stderr=stderr) as terminal,
        ):
            yield Running(terminal, out, err)


class Running:
    """A command under way."""

    def __init__(self, terminal: Session, out: Path, err: Path) -> None:
        self.process, self._out, self._err = terminal.process, out, err

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def until_it_says(self, text: str) -> None:
        """On stderr, while it runs."""

        def said() -> bool:
            assert text in self.err or self.process.poll() is None, f"it ended: {self.err}"
            return text in self.err

        wait_until(f"it says {text!r}", said)

    def ends(self, seconds: float = 60) -> int:
        """The exit code."""
        return self.process.wait(seconds)
