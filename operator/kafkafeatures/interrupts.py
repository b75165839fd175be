"""Ctrl-C: exit code 130 and not a word, from the first instruction of ours to the last.

Imported before anything else, so it imports only what Python itself has loaded by then. While a program starts or ends
there is nothing to clean up, and it is left at once. While a command runs Ctrl-C is KeyboardInterrupt, so that locks,
folders and processes are given back. What was started with SIGINT ignored (in the background of a script) ignores it.
What comes before our first line (Python's `site`, the lines that pip writes into a command) is not ours to guard.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` is made of, built in
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

EXIT_CODE = 130


def guard() -> None:
    """End the program without a traceback at Ctrl-C from now on; one that was held back until now ends it here."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, leave)
        uncaught, unraisable = sys.excepthook, sys.unraisablehook

        def of_uncaught(kind: Any, error: Any, trace: Any) -> None:
            leave() if issubclass(kind, KeyboardInterrupt) else uncaught(kind, error, trace)

        def of_unraisable(found: Any) -> None:  # in a destructor, or while Python waits for threads at its end
            leave() if isinstance(found.exc_value, KeyboardInterrupt) else unraisable(found)

        sys.excepthook, sys.unraisablehook = of_uncaught, of_unraisable
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGINT,))


def leave(*_: Any) -> NoReturn:
    """Ends the process, as Ctrl-C does."""
    end(EXIT_CODE)


def end(code: int) -> NoReturn:
    """End the process now, with this exit code. It waits neither for threads that resolve names nor for Python's own
    cleanup, a tenth of a short command's time. Output is flushed before.
    """
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    finally:
        os._exit(code)


def raising(run: Callable[[], int]) -> int:
    """Run the function with Ctrl-C as KeyboardInterrupt, which asyncio handles as it does by default."""
    if _signal.getsignal(_signal.SIGINT) is not leave:
        return run()
    import warnings

    # Of a coroutine that was made, and interrupted before it began.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning, append=True)
    try:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        return run()
    finally:
        _signal.signal(_signal.SIGINT, leave)
