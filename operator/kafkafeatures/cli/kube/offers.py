"""Shell completion while a command line is typed: commands, flags, values, and names of existing objects.

Called by `__main__.py`. kubectl runs `kubectl_complete-kafkafeatures WORDS` for all completions. The scripts of
`cli/shell/completion.py` know commands and flags themselves, and run `kafkafeatures __complete WORDS` for names of
objects.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from kafkafeatures.cli.kube.api import add_kube_flags, connected
from kafkafeatures.cli.kube.config import contexts
from kafkafeatures.cli.shell.commands import COMMANDS, every_command
from kafkafeatures.cli.shell.completion import is_live
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.output import Patient

LIVE_SECONDS = 2
"""Time limit for names from the API server: a user has pressed Tab and waits."""


def complete() -> int:
    """Answer for the words after `__complete`. Returns the exit code."""
    sys.stdout = Patient.wrapping(sys.stdout)
    offer(sys.argv[2:])
    return Exit.DONE


def offer(words: Sequence[str]) -> None:
    """Print the completions of the last word, one on each line, and then a directive for the shell.

    The format is that of Cobra's `__complete`. Directives: `:4` no other completions, `:0` also file names.
    """
    *earlier_words, current = words or [""]
    offered, files = _offered(earlier_words)
    print(*(completion for completion in offered if completion.startswith(current)), f":{0 if files else 4}", sep="\n")


def _offered(earlier_words: list[str]) -> tuple[list[str], bool]:
    """Completions of the next word, and whether it may be a file. `earlier_words`: the words before it."""
    if not earlier_words:
        return [f"{name}\t{help_line}" for name, (_, help_line) in COMMANDS.items()], False
    actions = [action for _, _, command_actions in every_command(earlier_words[0]) for action in command_actions]
    flags = {flag: action for action in actions for flag in action.option_strings}
    flag_before = flags.get(earlier_words[-1])
    if flag_before is not None and flag_before.nargs != 0:  # the next word is its value
        if is_live(flag_before):
            return _live(flag_before.dest, earlier_words[1:-1]), False
        return [str(choice) for choice in flag_before.choices or ()], not flag_before.choices
    positional = [action for action in actions if not action.option_strings]
    values = [str(choice) for action in positional for choice in action.choices or ()]
    values += [name for action in positional if is_live(action) for name in _live(action.dest, earlier_words[1:])]
    return [*values, *(f"{flag}\t{(action.help or '') % vars(action)}" for flag, action in flags.items())], False


def _live(kind: str, words: Sequence[str]) -> list[str]:
    """Names of existing objects of this kind: "name" (of a resource), "namespace" (one with resources) or "context".
    They are read with the connection flags in these words; none if that fails or takes longer than LIVE_SECONDS.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_kube_flags(parser)
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(1))
    signal.alarm(LIVE_SECONDS)
    try:
        flags, _ = parser.parse_known_args(words)
        if kind == "context":
            return contexts(flags.kubeconfig)
        with connected(flags) as kube:
            resources = kube.resources(everywhere=kind == "namespace")
        return sorted({str(resource.metadata[kind]) for resource in resources})
    except (Exception, SystemExit):
        return []
    finally:
        signal.alarm(0)
