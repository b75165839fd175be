"""A program of the rig as a child of the test process: started, killed, frozen, and started again as before."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.e2e.rig.cluster import _die_with_parent as die_with_parent
from tests.e2e.rig.cluster import wait_until

ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
"""For all of them: a proxy that this machine needs is not for addresses of the rig."""


class Daemon:
    """One process. `ready` says when it may be used; the log keeps what all its lives wrote.

    The kernel kills it with the thread that started it: start daemons from the main thread.
    """

    def __init__(self, command: Sequence[str | Path], log: Path, ready: Callable[[], bool] = lambda: True) -> None:
        self.command = [str(word) for word in command]
        self.log_file, self._ready = log, ready
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return self.log_file.stem

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def start(self, *, wait: bool = True) -> None:
        assert not self.alive, f"{self.name} runs already"
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=ENVIRONMENT,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, no locks
            )
        if wait:
            self.wait_ready()

    def wait_ready(self, seconds: float = 120.0) -> None:
        def ready() -> bool:
            assert self.alive, f"{self.name} ended:\n{self.log[-3000:]}"
            return self._ready()

        wait_until(f"{self.name} is ready (see {self.log_file})", ready, seconds)

    def stop(self, seconds: float = 60.0) -> None:
        self._signal(signal.SIGTERM)
        self.wait_gone(seconds)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self.wait_gone(10)

    def freeze(self) -> None:
        """It keeps its connections and takes new ones, and answers nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self.alive:
            os.kill(self.pid, number)

    def wait_gone(self, seconds: float = 60.0) -> None:
        if self.process is not None:
            self.process.wait(seconds)
