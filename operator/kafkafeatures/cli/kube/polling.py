"""Polls the API server, for commands that wait for something, and for those that watch (`-w`).

If the server cannot be reached, polling continues. It also continues for `GRACE` seconds if the server denies a request
that it allowed before: an API server that starts does not know roles yet.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import TypeVar

from msgspec import Struct

from kafkafeatures.cli.kube.api import REQUEST_TIMEOUT, Away, Denied, Kube
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import tell
from kafkafeatures.core.words import printable

T = TypeVar("T")

EVERY = 1.0
"""Seconds between two readings."""
GRACE = 15.0
"""Seconds for which a denial after a successful reading is taken for temporary."""


class Ending(Struct, frozen=True):
    """The end of a wait: the exit code and the last line of the command."""

    code: Exit
    text: str

    def conclude(self) -> int:
        """Print the text in one line, with control characters replaced, and return the exit code, 0. Raises
        CommandFailed for any other exit code; the text is then printed on stderr.
        """
        if self.code is not Exit.DONE:
            raise CommandFailed(printable(self.text), self.code)
        print(printable(self.text))
        return self.code


def readings(kube: Kube, reader: Callable[[], T], deadline: float = inf) -> Iterator[T | Away | Denied]:
    """Yield a reading each second, or in its place the error if it failed. The last reading is at `deadline`
    (`time.monotonic`). Raises CommandFailed for other errors, and Denied if the denial is not temporary.
    """
    lenient_until = 0.0  # before the first successful reading a denial counts at once
    while True:
        kube.request_timeout = min(REQUEST_TIMEOUT, max(deadline - time.monotonic(), 0.1))
        reading: T | Away | Denied
        try:
            reading = reader()
            lenient_until = time.monotonic() + GRACE
        except Away as away:
            reading = away
        except Denied as denied:
            if time.monotonic() > lenient_until:
                raise
            reading = denied
        yield reading
        remaining_seconds = deadline - time.monotonic()
        if remaining_seconds <= 0:
            return
        time.sleep(min(EVERY, remaining_seconds))


class ChangedLines:
    """Prints lines to stderr, each only if it differs from the one before."""

    def __init__(self) -> None:
        self.line = ""

    def __call__(self, line: str) -> None:
        if line != self.line:
            tell(line)
            self.line = line


def until(
    kube: Kube,
    reader: Callable[[], T],
    judge: Callable[[T, float], Ending | None],
    progress: Callable[[T], str],
    *,
    seconds: float,
    missing: str,
) -> Ending:
    """Read until `judge` returns an Ending; it is called with each reading and the seconds so far. Prints `progress` to
    stderr when it changes. If the `seconds` are over, the Ending says `missing`, and the last line of progress.
    """
    began, say = time.monotonic(), ChangedLines()
    for reading in readings(kube, reader, began + seconds):
        if isinstance(reading, Away | Denied):
            say(str(reading))
            continue
        ending = judge(reading, time.monotonic() - began)
        if ending is not None:
            return ending
        say(progress(reading))
    return Ending(Exit.UNREACHABLE, f"timed out; {missing}: {say.line}")


def changes(
    kube: Kube, reader: Callable[[], Iterable[KubeResource]], essence: Callable[[KubeResource], object]
) -> Iterator[list[KubeResource]]:
    """Yield all resources first, then at each reading those whose `essence` changed. It does not end. A line on stderr
    tells of each resource that was deleted.
    """
    previous: dict[str, object] | None = None
    say = ChangedLines()
    for reading in readings(kube, reader):
        if isinstance(reading, Away | Denied):
            say(str(reading))
            continue
        say.line = ""  # the next error is printed even if it is the same as before
        resources = {str(resource): resource for resource in reading}
        current = {name: essence(resource) for name, resource in resources.items()}
        changed = [
            resource for name, resource in resources.items() if previous is None or previous.get(name) != current[name]
        ]
        for name in (previous or {}).keys() - current.keys():
            tell(f"{name} was deleted")
        if changed or previous is None:
            yield changed
            sys.stdout.flush()
        previous = current


def add_watch_flag(parser: argparse.ArgumentParser) -> None:
    """`-w`, for commands that use `changes`."""
    parser.add_argument(
        "-w", "--watch", action="store_true", help="then show what changes, until it is interrupted (Ctrl-C)"
    )
