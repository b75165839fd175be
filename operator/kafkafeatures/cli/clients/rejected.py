"""`kafkafeatures clients rejected`: shows requests that brokers of Kafka 4.x refused, and which clients sent them.

Called by `command.py`. Refused requests are in server logs, which name connections; clients are in request logs. A
client is certain only if a request log shows it on the refused connection; one that only shares the address is shown as
a guess. Exit code 0: no request was refused, 4: some were, 5: none, but not everything could be read.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

from kafkafeatures.cli.clients.rejected_text import draw, rejections_document, write_csv
from kafkafeatures.cli.clients.sources import open_source, source_name, sources_of
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import CSV, clean_stdout, console, print_document, tell
from kafkafeatures.client_files.logs.client_search import ClientSearch, is_reduced
from kafkafeatures.client_files.logs.lines import LogStream, LogUnreadable, read_block
from kafkafeatures.client_files.logs.server_log import read_rejections
from kafkafeatures.core.clients.rejections import RejectedRequests

_LEVELS = (b"INFO", b"WARN", b"ERROR")


def add_arguments(group: argparse._ActionsContainer) -> None:
    """Add nothing: this action has only flags that others have as well."""


def run(arguments: argparse.Namespace) -> int:
    """Read the logs once, and show what was refused."""
    problems: list[str] = []
    refused = RejectedRequests()
    for source in sources_of(arguments, "server log"):
        log = _ServerLog(refused)
        _read(source, log.search, problems)
        if not log.has_levels:
            name = source_name(source)
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
    """A log that is searched for refused requests. `has_levels`: a level such as WARN occurs in it, so that it may be a
    server log.
    """

    def __init__(self, refused: RejectedRequests) -> None:
        self._refused = refused
        self.has_bytes = self.has_levels = False

    def search(self, stream: LogStream) -> None:
        """Add the refused requests of a stream. Raises LogUnreadable, OSError."""
        self._refused.add(read_rejections(self._blocks(stream)))

    def _blocks(self, stream: LogStream) -> Iterator[bytes]:
        """The bytes of a stream, block by block."""
        for block in iter(partial(read_block, stream), b""):
            self.has_bytes = True
            self.has_levels = self.has_levels or any(level in block for level in _LEVELS)
            yield block


def _read(source: str, search: Callable[[LogStream], None], problems: list[str]) -> None:
    """Search a log. If it cannot be read to its end, a line is added to `problems`, and what was read counts. Raises
    CommandFailed if it cannot be opened.
    """
    name = source_name(source)
    try:
        stream = open_source(source)
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
