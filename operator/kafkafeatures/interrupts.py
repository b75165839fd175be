"""Handling of Ctrl-C: the program ends with exit code 130 and without a traceback, from its first line to its last.
SIGTERM ends it in the same way, with exit code 143.

Called by `__main__.py`, by `cli/shell/main.py` around each command, and by commands that run an event loop. It is
imported before everything else, so it imports only modules that Python has loaded by then. While a program starts or
ends there is nothing to clean up, and the process ends at once. While a command runs, Ctrl-C is KeyboardInterrupt, so
that locks, folders and processes are released. A program that was started with SIGINT ignored, as in the background of
a script, ignores it. What runs before the first line of this program (Python's `site`, the script that pip installs) is
not covered.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` is made of, built in
import atexit
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

EXIT_CODE = 130
"""Exit code of a program that Ctrl-C has ended, as shells report it: 128 and the number of SIGINT."""
_ENDING = (_signal.SIGINT, _signal.SIGTERM)


class SentSteps:
    """What a command that can change something has sent so far, for the person who ends it with Ctrl-C."""

    def __init__(self) -> None:
        self._can_change = False
        self._sent: list[str] = []
        self._result = ""

    def begin(self, *, can_change: bool) -> None:
        """Begin a command. `can_change`: False for one that changes nothing, and has nothing to say."""
        self._can_change, self._sent = can_change, []

    def note(self, step: str, result: str = "kafkafeatures describe") -> None:
        """Note a step right before it is sent. `result`: the command that shows what came of it."""
        self._sent.append(step)
        self._result = result

    def __str__(self) -> str:
        if not self._sent:
            return "nothing was changed"
        steps = f"{len(self._sent)} step{' was' if len(self._sent) == 1 else 's were'} sent"
        return f"{steps}: {', '.join(self._sent)}; see the result with {self._result}"

    def tell(self) -> None:
        """Print it to stderr, on a terminal on a line of its own behind `^C`."""
        line_end = "\n" if sys.stderr.isatty() else ""
        text = f"kafkafeatures: interrupted; {self}\n" if self._can_change or self._sent else ""
        sys.stderr.write(line_end + text)


SENT_STEPS = SentSteps()
"""Steps sent by this process, which runs one command."""


def guard() -> None:
    """End the program without a traceback at Ctrl-C from now on. If SIGINT came while it was blocked, it ends here."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, leave)
        uncaught, unraisable = sys.excepthook, sys.unraisablehook

        def of_uncaught(kind: Any, error: Any, trace: Any) -> None:
            leave() if issubclass(kind, KeyboardInterrupt) else uncaught(kind, error, trace)

        def of_unraisable(problem: Any) -> None:  # in a destructor, or while Python waits for threads at its end
            leave() if isinstance(problem.exc_value, KeyboardInterrupt) else unraisable(problem)

        sys.excepthook, sys.unraisablehook = of_uncaught, of_unraisable
    if _signal.getsignal(_signal.SIGTERM) is _signal.SIG_DFL:
        _signal.signal(_signal.SIGTERM, _terminate)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGINT,))


def leave(*_: Any) -> NoReturn:
    """End the process with the exit code of Ctrl-C."""
    end(EXIT_CODE)


_received: list[int] = []
"""Numbers of signals, other than that of Ctrl-C, that end the process."""


def _terminate(number: int, _frame: Any) -> None:
    """Do what Ctrl-C does, so that nothing else has to know of SIGTERM."""
    _received.append(number)
    if _signal.getsignal(_signal.SIGINT) is _signal.SIG_IGN:
        leave()
    _signal.raise_signal(_signal.SIGINT)


def end(code: int) -> NoReturn:
    """End the process with this exit code, after output is flushed and temporary files are removed (`weakref.finalize`,
    `tempfile`). It waits neither for threads that resolve names nor for the rest of Python's cleanup, which takes a
    tenth of the time of a short command.
    """
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    finally:
        _signal.pthread_sigmask(_signal.SIG_BLOCK, _ENDING)  # they would leave files behind
        try:
            atexit._run_exitfuncs()
        finally:
            os._exit(128 + _received[0] if _received and code == EXIT_CODE else code)


def raising(run: Callable[[], int]) -> int:
    """Run the function with Ctrl-C as KeyboardInterrupt, Python's default, which asyncio handles."""
    if _signal.getsignal(_signal.SIGINT) is not leave:  # `guard` left SIGINT alone: it is ignored
        return run()
    import warnings

    # Python would warn about a coroutine that was interrupted before it began.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning, append=True)
    try:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        return run()
    finally:
        _signal.signal(_signal.SIGINT, leave)
