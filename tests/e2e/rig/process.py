"""Programs of the rig as children of the test process: started, killed, frozen, and started again as before."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
"""Without the proxy that this machine may need: that is not for addresses of the rig."""

_PR_SET_PDEATHSIG = 1
_CHANCE, _GIVEN = random.SystemRandom(), set[int]()  # of this process
_SHARE, _SHARES = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]), 4  # of the ports, with suites side by side
_LIBC = ctypes.CDLL(None, use_errno=True)


def free_port() -> int:
    """A port that is free, and that no outgoing connection is ever given: the kernel's own range begins above."""
    while True:
        port = _CHANCE.randrange(12_000 + _SHARE % _SHARES, 30_000, _SHARES)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _GIVEN:
            _GIVEN.add(port)
            return port


def wait_until(what: str, holds: Callable[[], object], seconds: float = 120.0, *, step: float = 0.05) -> None:
    """Look until it holds, each `step` seconds, and half of the time at most; fails with `what`, never quietly."""
    began = look = time.monotonic()
    while not holds():
        if (now := time.monotonic()) > began + seconds:
            raise AssertionError(f"after {seconds:g} s still not: {what}")
        time.sleep(max(step, now - look))
        look = time.monotonic()


class Daemon:
    """One process. `ready` says when it may be used; the log keeps what all its lives wrote.

    The kernel kills it with the thread that started it: start daemons from the main thread.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        ready: Callable[[], bool] = lambda: True,
        environment: Mapping[str, str] = ENVIRONMENT,
    ) -> None:
        self.command = [str(word) for word in command]
        self.log_file, self._ready, self.environment = log, ready, environment
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
        assert not self.alive, f"{self.name} is already running"
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call, no locks
            )
        if wait:
            self.wait_ready()

    def wait_ready(self, seconds: float = 120.0) -> None:
        def ready() -> bool:
            assert self.alive, f"{self.name} ended:\n{self.log[-3000:]}"
            return self._ready()

        wait_until(f"{self.name} is ready (see {self.log_file})", ready, seconds)

    def stop(self, seconds: float = 60.0) -> int:
        """SIGTERM; the exit code."""
        assert self.process is not None
        self._signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def kill(self) -> None:
        """SIGKILL."""
        self._signal(signal.SIGKILL)
        self.wait_gone(10)

    def freeze(self) -> None:
        """Let the process keep its connections and take new ones, and answer nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def heal(self) -> None:
        """Make the process run again, whatever a test did to it."""
        self.thaw()
        if not self.alive:
            self.start()

    def _signal(self, number: int) -> None:
        if self.alive:
            os.kill(self.pid, number)

    def wait_gone(self, seconds: float = 60.0) -> None:
        if self.process is not None:
            self.process.wait(seconds)


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
