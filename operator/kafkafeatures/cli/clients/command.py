"""`kafkafeatures clients`: finds clients that break with a release of Kafka, by what brokers counted and logged.

Called by the command line. The actions are modules of their own, in the table `ACTIONS`; each adds its flags. What this
module decides: a flag of another action is refused instead of ignored.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from kafkafeatures.cli.clients.flags import flags_of, refuse_flags
from kafkafeatures.cli.cluster.connect import add_connection_flags
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import CSV, FORMATS, HTML


class ClientsAction(Struct, frozen=True):
    """An action, its module, and what it does. `operands`: help for the arguments that may follow it, empty if none
    may; `shared`: the flags of `_add_shared` that it takes, by the name of their value; `forms`: the forms of its
    output.
    """

    module: str
    help_line: str
    shared: frozenset[str]
    operands: str = ""
    forms: tuple[str, ...] = FORMATS


_CONNECTION = (
    "bootstrap_server", "bootstrap_controller", "config", "controller_config", "file", "profile", "request_timeout",
    "secrets_dir",
)  # fmt: skip

ACTIONS: Mapping[str, ClientsAction] = {
    "check": ClientsAction(
        "kafkafeatures.cli.clients.check",
        "can the cluster go to a release, or do clients use API versions that the release lacks",
        frozenset(("cluster", "output", "request_logs", *_CONNECTION)),
        forms=(*FORMATS, HTML, CSV),
    ),
    "reduce": ClientsAction(
        "kafkafeatures.cli.clients.reduce",
        "make request logs small: who sent which API and version, by broker and hour",
        frozenset(("output",)),
        operands="request logs to reduce, plain or gzip, as files or containers keep them (default: stdin)",
    ),
    "rejected": ClientsAction(
        "kafkafeatures.cli.clients.rejected",
        "after the upgrade: which clients did brokers of Kafka 4.x refuse",
        frozenset(("output", "request_logs")),
        operands="server logs, plain or gzip (default: stdin)",
        forms=(*FORMATS, CSV),
    ),
    "evidence": ClientsAction(
        "kafkafeatures.cli.clients.request_logger.command",
        "switch the request log of brokers on for a time: it names clients",
        frozenset(("cluster", "output", *_CONNECTION)),
        operands="start, status or stop",
    ),
}
"""Each action. A module has `add_arguments(group)`, for flags that no other action has, and `run(arguments)`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of every action, each in its group, and those that several have."""
    parser.add_argument(
        "action", choices=tuple(ACTIONS),
        help="; ".join(f"{name}: {action.help_line}" for name, action in ACTIONS.items()),
    )  # fmt: skip
    operands = "; ".join(f"{name}: {action.operands}" for name, action in ACTIONS.items() if action.operands)
    parser.add_argument("operands", nargs="*", default=[], metavar="FILE", help=operands or argparse.SUPPRESS)
    for name, action in ACTIONS.items():
        importlib.import_module(action.module).add_arguments(parser.add_argument_group(name))
    _add_shared(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the action. Raises CommandFailed, also for a flag of another action."""
    action = ACTIONS[arguments.action]
    _refuse_other_flags(arguments, action)
    if arguments.operands and not action.operands:
        text = f"clients {arguments.action}: unexpected argument {arguments.operands[0][:60]!r}"
        raise CommandFailed(text, Exit.USAGE)
    if arguments.output not in action.forms:
        text = f"clients {arguments.action}: -o {arguments.output}: expected {', '.join(action.forms)}"
        raise CommandFailed(text, Exit.USAGE)
    return int(importlib.import_module(action.module).run(arguments))


def _add_shared(parser: argparse.ArgumentParser) -> None:
    """Add the flags that several actions have."""
    parser.add_argument("--cluster", metavar="NAME", help="of several clusters in the evidence, the folder of this one")
    add_connection_flags(parser, "cluster that says which brokers are registered", takes_document=True)
    parser.add_argument(
        "--request-logs", nargs="+", type=Path, default=(), metavar="FILE|DIR",
        help="request logs, which name the clients: reduced ones (see reduce); rejected reads others, too",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", choices=(*FORMATS, HTML, CSV), default=FORMATS[0],
        help="table for people (default), a document, a page, or rows for a spreadsheet",
    )  # fmt: skip


def _refuse_other_flags(arguments: argparse.Namespace, action: ClientsAction) -> None:
    command = f"clients {arguments.action}"
    permitted = {flag.dest for flag in _flags_of(action)} | action.shared
    for name, other in ACTIONS.items():
        if other is not action:
            refuse_flags(command, arguments, _flags_of(other), permitted, f"it is a flag of clients {name}")
    refuse_flags(command, arguments, flags_of(_add_shared), permitted, "it has no meaning here")


def _flags_of(action: ClientsAction) -> list[argparse.Action]:
    """The flags that only this action has."""
    return flags_of(importlib.import_module(action.module).add_arguments)
