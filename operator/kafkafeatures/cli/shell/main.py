"""Entry point of the command line: finds the command, imports only its module, runs it, and prints errors.

Importing only what a command needs makes it start faster than a JVM. An error is one line on stderr; tracebacks are
printed only with `--debug`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from kafkafeatures import __version__, interrupts
from kafkafeatures.cli.shell.commands import CHANGING, COMMANDS, GROUPS, add_common, every_command
from kafkafeatures.cli.shell.exit_codes import PROGRAM, CommandFailed, Exit
from kafkafeatures.cli.shell.output import Patient, tell_failed
from kafkafeatures.cli.shell.words import flags_behind, form_in, misplaced_word, unknown_flag
from kafkafeatures.core.words import printable


class _Parser(argparse.ArgumentParser):
    """The parser of the whole command line, and of each command."""

    command = ""
    """Name of the command that was typed; empty if there is none. `--help` shows its flags then, instead of all
    commands.
    """

    def format_help(self) -> str:
        """The help of all commands is in groups, which argparse does not support. That of a command ends with examples
        and its page.
        """
        if self.prog != PROGRAM:
            return super().format_help() + _examples(self.prog.split()[1])
        if self.command:
            return super().format_help()
        return f"{self.format_usage()}\n{self.description}\n{grouped_help()}"

    def error(self, message: str) -> NoReturn:
        start, required, names = message.partition("are required: ")
        if required:  # argparse names an argument, and not what it may be
            choices = {action.dest: action.choices for action in self._actions if action.choices}
            shown = (f"{name} ({', '.join(choices[name])})" if name in choices else name for name in names.split(", "))
            message = f"{start}{required}{', '.join(shown)}"
        raise wrong_usage(message, self.prog, f"{self.prog} {self.command}".strip())


def wrong_usage(message: str, program: str, explained_by: str) -> CommandFailed:
    """The error for a wrong command line. `explained_by`: the command whose `--help` it recommends."""
    text = f"{message}; see {explained_by} --help"
    return CommandFailed(text, Exit.USAGE, what=message, remedy=f"see {explained_by} --help", program=program)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code; never raises for what a user can do wrong."""
    sys.stdout, sys.stderr = Patient.wrapping(sys.stdout), Patient.wrapping(sys.stderr)
    if sys.stdin is None:  # it is closed; no other file must get its number
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - it stays open until the process ends
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["help"]:  # `help COMMAND` is `COMMAND --help`
        words = [*words[1:2], "--help"]
    words = flags_behind(words)
    parser = _parser(words)
    try:
        _check_command(parser, words)
        unknown = unknown_flag(parser, words, other_flags=_flags_of_all) or misplaced_word(parser, words)
        if unknown:
            program = f"{PROGRAM} {parser.command}".strip()
            raise wrong_usage(unknown, program, program)
        parsed, remaining = parser.parse_known_args(words)
        if "operands" in parsed and not any(word.startswith("-") for word in remaining):
            parsed.operands += remaining  # those behind a flag, which argparse does not take
        elif remaining:
            parser.error(f"unrecognized arguments: {' '.join(remaining)}")
        if "run" not in parsed:
            parser.print_help()
            return Exit.USAGE
        interrupts.SENT_STEPS.begin(can_change=parser.command in CHANGING)
        code = interrupts.raising(lambda: _run(parsed))
        sys.stdout.flush()  # here, so that a full disk is reported and not found by Python at exit
    except SystemExit as done:  # argparse ends by itself for --help
        return int(done.code or 0)
    except CommandFailed as failed:
        tell_failed(failed, form_in(words))
        return failed.code
    except KeyboardInterrupt:
        interrupts.SENT_STEPS.tell()
        return Exit.INTERRUPTED
    except Exception as error:
        if "--debug" in words:
            raise
        text = f"internal error: {type(error).__name__}: {error}; run again with --debug and report it"
        tell_failed(CommandFailed(printable(text), Exit.FAILED), form_in(words))
        return Exit.FAILED
    return code


def _run(parsed: argparse.Namespace) -> int:
    """Run the command, with `-v` while requests are shown. Returns its exit code. An error of the connection gets the
    source of the connection, which `settings_from_flags` sets.
    """
    try:
        if not parsed.verbose:
            return int(parsed.run(parsed))
        from kafkafeatures.cli.shell.requests import shown

        with shown():
            return int(parsed.run(parsed))
    except CommandFailed as failed:
        source: str = getattr(parsed, "connection_source", "")
        if failed.code is Exit.UNREACHABLE and source and failed.is_of_cluster:
            failed.add_source(source)
        raise


def grouped_help() -> str:
    """One line for each command, no wider than the terminal or 80 columns."""
    from shutil import get_terminal_size
    from textwrap import wrap

    columns, width = min(get_terminal_size().columns, 80), max(map(len, COMMANDS)) + 4
    lines = []
    for group, names in GROUPS.items():
        lines += ["", f"{group}:"]
        for name in names:
            first, *continuation = wrap(COMMANDS[name][1], max(columns - width, 20))
            lines += [f"  {name:<{width - 2}}{first}", *(" " * width + line for line in continuation)]
    return "\n".join([*lines, "", f"{PROGRAM} COMMAND --help explains a command, --version shows the version."]) + "\n"


def _examples(command: str) -> str:
    """The examples of a command, and its page."""
    from kafkafeatures.cli.shell.examples import EXAMPLES
    from kafkafeatures.cli.shell.site import with_addresses

    lines = [f"  # {purpose}\n  {PROGRAM} {words}" for purpose, words in EXAMPLES[command]]
    page = with_addresses(f"docs/reference/commands/{command}.md")
    return "\n".join(["", "examples:", *lines, "", f"Page: {page}", ""])


def _check_command(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Raise CommandFailed for an unknown command, with the command that was probably meant."""
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        from difflib import get_close_matches

        from kafkafeatures.cli.shell.other_words import ANSWERS
        from kafkafeatures.cli.shell.site import with_addresses

        similar = get_close_matches(words[0].lower(), (*COMMANDS, *ANSWERS), n=1)
        if similar and similar[0] in ANSWERS:
            problem, remedy = f"there is no command {words[0][:60]!r}", with_addresses(ANSWERS[similar[0]])
            raise CommandFailed(f"{problem}: {remedy}", Exit.USAGE, what=problem, remedy=remedy)
        meant = f" (did you mean {similar[0]!r}?)" if similar else ""
        parser.error(f"unknown command {words[0][:60]!r}{meant}")


def _flags_of_all() -> dict[str, frozenset[str]]:
    """The flags of each command, so that an error can name the command that has an unknown flag."""
    return {
        name: frozenset(flag for action in actions for flag in action.option_strings)
        for name, _, actions in every_command()
    }


def _parser(words: Sequence[str]) -> _Parser:
    """The parser for this command line: of the command in it alone, or of all commands if it names none."""
    # argparse makes a formatter for each flag, just to check it; that imports `shutil` to ask for the terminal's width.
    needs_width = not words or not {"-h", "--help"}.isdisjoint(words)
    form = argparse.HelpFormatter if needs_width else partial(argparse.HelpFormatter, width=80)
    parser = _Parser(
        prog=PROGRAM,
        description="Finalized feature levels of Apache Kafka clusters: see them, plan them, raise them safely.",
        allow_abbrev=False,
        formatter_class=form,
    )
    parser.command = words[0] if words and words[0] in COMMANDS else ""
    parser.add_argument("--version", action="version", version=f"kafkafeatures {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser, prog=parser.prog)
    for name in words[:1] if words[:1] and words[0] in COMMANDS else COMMANDS:
        module, help_line = COMMANDS[name]
        sub = subparsers.add_parser(
            name, help=help_line, description=f"{name}: {help_line}.", allow_abbrev=False, formatter_class=form
        )
        add_common(sub)
        if name in words:  # only the command in question is imported
            command = importlib.import_module(module)
            command.add_arguments(sub)
            sub.set_defaults(run=command.run)
    return parser
