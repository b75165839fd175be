"""Refuses flags that an action of `kafkafeatures clients` would ignore.

Called by `command.py`, and by `request_logger/command.py` for the steps of one action.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable

from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit


def flags_of(add_arguments: Callable[[argparse.ArgumentParser], None]) -> list[argparse.Action]:
    """The flags that a function adds to a parser."""
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    return parser._actions  # argparse has no public name for them


def refuse_flags(
    command: str,
    arguments: argparse.Namespace,
    flags: Iterable[argparse.Action],
    permitted: Collection[str],
    reason: str,
) -> None:
    """Raise CommandFailed for the first of these flags that is set and not permitted. `command`: such as `clients
    check`; `permitted`: flags by the names of their values.
    """
    for flag in flags:
        if flag.dest not in permitted and getattr(arguments, flag.dest) != flag.default:
            raise CommandFailed(f"{command}: {flag.option_strings[-1]}: {reason}", Exit.USAGE)
