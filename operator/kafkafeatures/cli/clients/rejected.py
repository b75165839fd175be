"""`kafkafeatures clients rejected`: requests that brokers of Kafka 4.x refused, and which clients sent them.

Called by `command.py`. It reads server logs, and joins the connections with clients that request logs have seen. A
client is identified by its connection alone; one that only shares the address is a guess, and is said to be one.
Exit code 0: none, 4: some, 5: none, but not everything could be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from kafkafeatures.cli.clients.client_search import ClientSearch, is_reduced
from kafkafeatures.cli.clients.logs.lines import LogStream, LogUnreadable, open_log, read_block, uncompressed
from kafkafeatures.cli.clients.rejected_text import draw, rejections_document, write_csv
from kafkafeatures.cli.clients.server_log import read_rejections
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import CSV, clean_stdout, console, print_document, tell
from kafkafeatures.core.clients.rejections import RejectedRequests

_STDIN = "-"
_LEVELS = (b"INFO", b"WARN", b"ERROR")


def add_arguments(group: argparse._ActionsContainer) -> None:
    """No flag that other actions do not have."""


def run(arguments: argparse.Namespace) -> int:
    """Read the logs once, and show what was refused."""
    if not arguments.operands and sys.stdin.isatty():
        raise CommandFailed("clients rejected: no server log given; name the files, or pipe one in", Exit.USAGE)
    problems: list[str] = []
    refused = RejectedRequests()
    for source in arguments.operands or [_STDIN]:
        log = _ServerLog(refused)
        _read(source, log.search, problems)
        if not log.has_levels:
            name = "stdin" if source == _STDIN else source
            problems.append(f"{name}: {'no line of a server log' if log.has_bytes else 'empty'}: it proves nothing")
    search = ClientSearch(refused.addresses, refused.connections)
    for source in arguments.request_logs if refused.addresses else ():
        if is_reduced(source):
            problems += search.read_reduced(source)
        else:
            _read(str(source), search.read, problems)
    uses = refused.uses(search.seen)
    if arguments.output == CSV:
        write_csv(uses, clean_stdout())
    elif arguments.output == "table":
        draw(console(), uses, is_joined=bool(arguments.request_logs))
    else:
        print_document(rejections_document(uses, problems), arguments.output)
    for problem in problems:
        tell(problem)
    if uses:
        return Exit.BLOCKED
    return Exit.UNREACHABLE if problems else Exit.DONE


class _ServerLog:
    """A log that is searched for refused requests. `has_levels`: it has a level of Kafka's server log."""

    def __init__(self, refused: RejectedRequests) -> None:
        self._refused = refused
        self.has_bytes = self.has_levels = False

    def search(self, stream: LogStream) -> None:
        """Add what was refused. Raises LogUnreadable, OSError."""
        self._refused.add(read_rejections(self._blocks(stream)))

    def _blocks(self, stream: LogStream) -> Iterator[bytes]:
        for block in iter(partial(read_block, stream), b""):
            self.has_bytes = True
            self.has_levels = self.has_levels or any(level in block for level in _LEVELS)
            yield block


def _read(source: str, search: Callable[[LogStream], None], problems: list[str]) -> None:
    """Search a log. That it cannot be read to its end is one of the problems, and what came before counts. Raises
    CommandFailed if it cannot be opened.
    """
    name = "stdin" if source == _STDIN else source
    try:
        stream = uncompressed(sys.stdin.buffer) if source == _STDIN else open_log(Path(source))
    except LogUnreadable as error:
        raise CommandFailed(f"{name}: {error}", Exit.USAGE) from None
    except OSError as error:
        raise CommandFailed(f"{name}: {error.strerror}", Exit.USAGE) from None
    try:
        with closing(stream):
            search(stream)
    except LogUnreadable as error:
        problems.append(f"{name}: not read to its end: {error}")
    except OSError as error:
        problems.append(f"{name}: not read to its end: {error.strerror}")
