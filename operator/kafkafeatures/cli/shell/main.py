"""The command line: finds the command, imports what it needs and nothing more, and words what went wrong.

`describe` promises to start faster than a JVM, so modules of a command are imported when the command runs. Errors are
one line on stderr; a traceback only with `--debug`.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NoReturn

from kafkafeatures import __version__, interrupts
from kafkafeatures.cli.shell.exit_codes import PROGRAM, CommandFailed, Exit
from kafkafeatures.cli.shell.output import Patient, tell_failed
from kafkafeatures.cli.shell.words import flags_behind, form_in, misplaced_word, unknown_flag
from kafkafeatures.core.words import printable

# command -> (module, one line of help). A module has `add_arguments(parser)` and `run(arguments) -> int`.
COMMANDS = {
    "describe": ("kafkafeatures.cli.cluster.describe", "show every feature on every node of a cluster"),
    "check": (
        "kafkafeatures.cli.document.check",
        "check that every node is healthy, and ready for a release; for scripts",
    ),
    "plan": ("kafkafeatures.cli.document.plan", "show what apply would do, and its blockers; changes nothing"),
    "apply": ("kafkafeatures.cli.document.apply", "bring a cluster to the levels of a document, and verify them"),
    "upgrade": ("kafkafeatures.cli.document.upgrade", "raise a cluster to the levels of a release, without a document"),
    "init": ("kafkafeatures.cli.cluster.init", "print a document that matches a cluster, to adopt it"),
    "unregister": ("kafkafeatures.cli.cluster.unregister", "unregister a broker or a controller that no longer exists"),
    "migration": (
        "kafkafeatures.cli.migration.command",
        "show what the next phase of a migration from ZooKeeper to KRaft needs; changes nothing",
    ),
    "log": (
        "kafkafeatures.cli.log.command",
        "decode, check or summarize the files of a metadata log; needs no cluster and no JVM",
    ),
    "pipeline": (
        "kafkafeatures.cli.pipeline.command",
        "make tables of the metadata logs of many clusters, optionally on Spark",
    ),
    "list": ("kafkafeatures.cli.kube.list", "list the resources on Kubernetes; first those that require action"),
    "status": ("kafkafeatures.cli.kube.status", "show a resource on Kubernetes: its condition, plan and blockers"),
    "wait": (
        "kafkafeatures.cli.kube.wait",
        "wait until a resource on Kubernetes is ready, or a feature reaches a level",
    ),
    "reconcile": (
        "kafkafeatures.cli.kube.reconcile",
        "make the operator reconcile a resource now, and show the result",
    ),
    "approve": ("kafkafeatures.cli.kube.approve", "approve the plan that is waiting, and no other"),
    "suspend": (
        "kafkafeatures.cli.kube.suspend",
        "suspend a resource: the step in progress completes, no new step starts",
    ),
    "resume": ("kafkafeatures.cli.kube.resume", "resume a suspended resource"),
    "restart": ("kafkafeatures.cli.kube.restart", "restart the nodes of a resource, or one node, without a new image"),
    "report": ("kafkafeatures.cli.kube.report", "collect what an issue report needs about a resource; no secrets"),
    "run": ("kafkafeatures.cli.kube.run", "run the operator on Kubernetes"),
    "demo": ("kafkafeatures.cli.demo.command", "see a walkthrough on a simulated cluster; no Kafka, no network"),
    "completion": ("kafkafeatures.cli.shell.completion", "print completions for bash, zsh or fish"),
    "version": ("kafkafeatures.cli.shell.version", "show the version and the known Kafka releases"),
}

GROUPS = {
    "look": ("describe", "check", "plan", "init", "migration"),
    "change": ("apply", "upgrade", "unregister"),
    "Kubernetes": ("list", "status", "wait", "reconcile", "approve", "suspend", "resume", "restart", "report", "run"),
    "files and pipelines": ("log", "pipeline"),
    "more": ("demo", "completion", "version"),
}
"""All commands, as the help has them."""


class _Parser(argparse.ArgumentParser):
    command = ""
    """The one that was named: its help has the flags, also where this parser is that of all commands."""

    def format_help(self) -> str:
        """Help for all commands at once is in groups, which argparse does not know."""
        if self.command or self.prog != PROGRAM:
            return super().format_help()
        return f"{self.format_usage()}\n{self.description}\n{grouped_help()}"

    def error(self, message: str) -> NoReturn:
        raise wrong_usage(message, self.prog, f"{self.prog} {self.command}".strip())


def wrong_usage(message: str, program: str, explained_by: str) -> CommandFailed:
    """Error that says what is wrong with the words of a command line, and which command explains them."""
    text = f"{message}; see {explained_by} --help"
    return CommandFailed(text, Exit.USAGE, what=message, remedy=f"see {explained_by} --help", program=program)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code; never raises for what a user can do wrong."""
    sys.stdout, sys.stderr = Patient.wrapping(sys.stdout), Patient.wrapping(sys.stderr)
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    if words[:1] == ["__complete"]:  # of kubectl, and of what `completion` prints
        importlib.import_module("kafkafeatures.cli.kube.offers").offer(words[1:])
        return Exit.DONE
    words = flags_behind(words)
    parser = _parser(words)
    try:
        _check_command(parser, words)
        unknown = unknown_flag(parser, words, others=_flags_of_all) or misplaced_word(parser, words)
        if unknown:
            program = f"{PROGRAM} {parser.command}".strip()
            raise wrong_usage(unknown, program, program)
        parsed = parser.parse_args(words)
        if "run" not in parsed:
            parser.print_help()
            return Exit.USAGE
        code = interrupts.raising(lambda: _run(parsed))
        sys.stdout.flush()
    except SystemExit as done:  # argparse ends by itself for --help
        return int(done.code or 0)
    except CommandFailed as failed:
        tell_failed(failed, form_in(words))
        return failed.code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except Exception as error:
        if "--debug" in words:
            raise
        text = f"internal error: {type(error).__name__}: {error}; run again with --debug and report it"
        tell_failed(CommandFailed(printable(text), Exit.FAILED), form_in(words))
        return Exit.FAILED
    return code


def _run(parsed: argparse.Namespace) -> int:
    if not parsed.verbose:
        return int(parsed.run(parsed))
    from kafkafeatures.cli.shell.requests import shown

    with shown():
        return int(parsed.run(parsed))


def grouped_help() -> str:
    """One line for each command, no wider than 80 columns."""
    from textwrap import wrap

    width = max(map(len, COMMANDS)) + 4
    lines = []
    for group, names in GROUPS.items():
        lines += ["", f"{group}:"]
        for name in names:
            first, *continuation = wrap(COMMANDS[name][1], 80 - width)
            lines += [f"  {name:<{width - 2}}{first}", *(" " * width + line for line in continuation)]
    return "\n".join([*lines, "", f"{PROGRAM} COMMAND --help explains a command, --version shows the version."]) + "\n"


def _check_command(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        from difflib import get_close_matches

        from kafkafeatures.cli.shell.other_words import ANSWERS

        similar = get_close_matches(words[0].lower(), (*COMMANDS, *ANSWERS), n=1)
        if similar and similar[0] in ANSWERS:
            problem, remedy = f"there is no command {words[0][:60]!r}", ANSWERS[similar[0]]
            raise CommandFailed(f"{problem}: {remedy}", Exit.USAGE, what=problem, remedy=remedy)
        meant = f" (did you mean {similar[0]!r}?)" if similar else ""
        parser.error(f"unknown command {words[0][:60]!r}{meant}")


def every_command(only: str = "") -> Iterator[tuple[str, str, list[argparse.Action]]]:
    """(command, its line of help, its flags and arguments), of all commands or of one. Imports them."""
    for name, (module, help_line) in COMMANDS.items():
        if only not in ("", name):
            continue
        parser = argparse.ArgumentParser()
        _add_common(parser)
        importlib.import_module(module).add_arguments(parser)
        yield name, help_line, parser._actions  # argparse has no public name for them


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-v", "--verbose", action="store_true", help="show the requests that are made, on stderr")
    parser.add_argument("--debug", action="store_true", help="show a traceback on an internal error")


def _flags_of_all() -> dict[str, frozenset[str]]:
    """The flags of each command: to name the one that has what another lacks."""
    return {
        name: frozenset(flag for action in actions for flag in action.option_strings)
        for name, _, actions in every_command()
    }


def _parser(words: Sequence[str]) -> _Parser:
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
        _add_common(sub)
        if name in words:  # only the command in question is imported
            command = importlib.import_module(module)
            command.add_arguments(sub)
            sub.set_defaults(run=command.run)
    return parser
