"""`kafkafeatures describe --watch`: draws the cluster again on the terminal whenever something of it has changed.

It polls on one connection: the metadata log continues where the last reading ended. Ctrl-C is its regular end.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TextIO

from rich.console import Console

from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.facts.observe import ClusterUnreachable
from kafkafeatures.core.words import printable
from kafkafeatures.environment import Environment

EVERY = 3.0
"""Seconds between two readings."""
_CLEAR = "\x1b[H\x1b[2J"
"""Moves the cursor to the upper left, and clears the screen; what was drawn before scrolls away."""
_MOVING = re.compile(r"offset \d+, epoch \d+")
"""What moves in an idle cluster as well."""


async def watch(
    read: Callable[[], Awaitable[Observation]],
    draw: Callable[[Console, Observation], None],
    new_console: Callable[[], Console],
    out: TextIO,
    environment: Environment,
) -> None:
    """Read and draw until cancelled. A cluster that cannot be reached stays on the screen, with the failure below it.
    Raises ClusterUnreachable if the first reading fails.

    `new_console`: makes a console of the terminal's present width; `out`: the terminal.
    """
    picture, shown = "", ""
    while True:
        failure = ""
        try:
            observation = await read()
        except ClusterUnreachable as error:
            if not picture:
                raise
            failure = f"Not reached: {printable(str(error.failure))}\n"
        else:
            console = new_console()
            with console.capture() as capture:
                draw(console, observation)
            picture = capture.get()
        content = f"{picture}\n{failure}"
        if _MOVING.sub("", content) != _MOVING.sub("", shown):
            shown = content
            at = f"{environment.clock():%H:%M:%S}"
            out.write(f"{_CLEAR}{content}Drawn at {at} UTC, and again after each change; Ctrl-C ends.\n")
            out.flush()
        await environment.sleep(EVERY)
