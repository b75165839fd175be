"""Makes a page for each command: examples, arguments and flags, as its parser has them. Called by `reference.py`."""

from __future__ import annotations

import argparse

from docs.make.fields_page import as_text
from kafkafeatures.cli.shell.commands import every_command
from kafkafeatures.cli.shell.examples import EXAMPLES
from kafkafeatures.cli.shell.exit_codes import PROGRAM

FOLDER = "docs/reference/commands"


def page_of(command: str, note: str) -> str:
    """The page of a command. `note`: the line that says what made it."""
    [(_, help_line, actions)] = every_command(command)
    examples = [line for purpose, words in EXAMPLES[command] for line in (f"    # {purpose}", f"    {PROGRAM} {words}")]
    head = [f"# {PROGRAM} {command}", "", note, f"{help_line[0].upper()}{help_line[1:]}.", "", *examples]
    arguments = [action for action in actions if not action.option_strings]
    flags = [action for action in actions if action.option_strings and not isinstance(action, argparse._HelpAction)]
    tables = [*_table("Arguments", "Argument", arguments), *_table("Flags", "Flag", flags)]
    return "\n".join([*head, *tables, "", "[All commands, and exit codes](../commands.md)", ""])


def _table(heading: str, column: str, actions: list[argparse.Action]) -> list[str]:
    if not actions:
        return []
    rows = [f"| {_names(action)} | {as_text((action.help or '') % vars(action))} |" for action in actions]
    return ["", f"## {heading}", "", f"| {column} | Meaning |", "|---|---|", *rows]


def _names(action: argparse.Action) -> str:
    """All names of a flag with its value, or the name of an argument, as code for a cell of a table."""
    choices = "|".join(map(str, action.choices)) if action.choices else ""
    value = "" if action.nargs == 0 else str(action.metavar or choices or action.dest.upper())
    names = [f"{name} {value}".strip() for name in action.option_strings] or [value]
    return ", ".join(f"`{name}`" for name in names).replace("|", "\\|")
