"""`kafkafeatures clients rejected`: requests that brokers of Kafka 4.x refused, and which clients sent them.

Called by `command.py`. It reads server logs, and joins the connections with clients that request logs have seen. A
client is identified by its connection alone; one that only shares the address is a guess, and is said to be one.
Exit code 0: none, 4: some, 5: none, but not everything could be read.
"""

from __future__ import annotations

import argparse

from kafkafeatures.cli.clients.log_blocks import STDIN, LogFile
from kafkafeatures.cli.clients.rejected_text import draw, rejections_document, write_csv
from kafkafeatures.cli.clients.request_log import ClientSearch
from kafkafeatures.cli.clients.server_log import read_rejections
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import CSV, clean_stdout, console, print_document, tell
from kafkafeatures.core.clients.rejections import RejectedRequests


def add_arguments(group: argparse._ActionsContainer) -> None:
    """Flag for the logs that name clients."""
    group.add_argument(
        "--request-logs", nargs="+", default=[], metavar="FILE",
        help="request logs of the same brokers, at DEBUG, and from before the upgrade: they name the clients",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Read the logs once, and show what was refused."""
    paths = arguments.operands or [STDIN]
    if [*paths, *arguments.request_logs].count(STDIN) > 1:
        raise CommandFailed("clients rejected: stdin (-) can be read only once", Exit.USAGE)
    files = [LogFile(path) for path in paths]
    refused = RejectedRequests()
    for file in files:
        refused.add(read_rejections(file.blocks()))
    search = ClientSearch(refused.addresses, refused.connections)
    if refused.addresses:
        request_logs = [LogFile(path) for path in arguments.request_logs]
        files += request_logs
        for file in request_logs:
            search.read(file.blocks())
    uses = refused.uses(search.seen)
    problems = [file.problem for file in files if file.problem]
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
