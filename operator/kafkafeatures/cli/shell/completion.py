"""`kafkafeatures completion bash|zsh|fish`: words that a shell offers: commands, their flags, and what flags can be.

Made of the commands themselves, printed once, static: pressing Tab starts no Python.

    source <(kafkafeatures completion bash)       # zsh the same, after compinit
    kafkafeatures completion fish | source

For `kubectl kafkafeatures` it is kubectl that completes, and asks the program `kubectl_complete-kafkafeatures`.
"""

from __future__ import annotations

import argparse
import sys

from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import every_command

PROGRAMS = ("kafkafeatures", "kubectl-kafkafeatures")

_BASH = """\
_kafkafeatures() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} offered=""
    if [[ $COMP_CWORD -eq 1 ]]; then
        offered="{commands}"
    else
        case "${{COMP_WORDS[1]}} $previous" in
{values}
        *) case "${{COMP_WORDS[1]}}" in
{flags}
            esac ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$offered" -- "$current"))
}}
complete -o default -F _kafkafeatures {programs}
"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The shell."""
    parser.add_argument("shell", choices=tuple(SHELLS), help="which shell")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    print(SHELLS[arguments.shell](), end="")
    return Exit.DONE


def _bash() -> str:
    """Where a flag wants a value that is not one of a few there are no words, and the shell offers files."""
    values, flags = [], []
    for command, _, actions in every_command():
        names = [flag for action in actions for flag in action.option_strings]
        places = [str(one) for action in actions if not action.option_strings for one in action.choices or ()]
        flags.append(f'            {command}) offered="{" ".join((*places, *names))}" ;;')
        by_words: dict[str, list[str]] = {}
        for action in actions:
            if action.option_strings and action.nargs != 0:
                words = " ".join(map(str, action.choices or ()))
                by_words.setdefault(words, []).extend(f'"{command} {flag}"' for flag in action.option_strings)
        values += [f'        {"|".join(cases)}) offered="{words}" ;;' for words, cases in by_words.items()]
    return _BASH.format(
        commands=" ".join(name for name, _, _ in every_command()),
        values="\n".join(values),
        flags="\n".join(flags),
        programs=" ".join(PROGRAMS),
    )


def _zsh() -> str:
    return _ZSH + _bash()


def _fish() -> str:
    lines = []
    for program in PROGRAMS:
        for command, help_line, actions in every_command():
            lines.append(f"complete -c {program} -n __fish_use_subcommand -a {command} -d {_quoted(help_line)}")
            here = f"complete -c {program} -n {_quoted(f'__fish_seen_subcommand_from {command}')}"
            for action in actions:
                names = "".join(
                    f" -{'l' if one.startswith('--') else 's'} {one.lstrip('-')}" for one in action.option_strings
                )
                words = f" -x -a {_quoted(' '.join(map(str, action.choices)))}" if action.choices else ""
                value = words or (" -r" if action.option_strings and action.nargs != 0 else "")
                if names or words:
                    lines.append(f"{here}{names}{value} -d {_quoted((action.help or '') % vars(action))}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """For fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def for_kubectl() -> None:
    """The program that kubectl runs with the words after `kafkafeatures`: an offer a line, and last what else to offer.

    Its answer is that of Cobra's `__complete`: `:4` for nothing else, `:0` for files.
    """
    *before, current = sys.argv[1:] or [""]
    offered, files = _offered(before)
    print(*(one for one in offered if one.startswith(current)), f":{0 if files else 4}", sep="\n")


def _offered(before: list[str]) -> tuple[list[str], bool]:
    """What may come next, and whether files may."""
    known = {name: (help_line, actions) for name, help_line, actions in every_command()}
    if not before:
        return [f"{name}\t{help_line}" for name, (help_line, _) in known.items()], False
    _, actions = known.get(before[0], ("", []))
    flags = {flag: action for action in actions for flag in action.option_strings}
    asking = flags.get(before[-1])
    if asking is not None and asking.nargs != 0:
        return [str(one) for one in asking.choices or ()], not asking.choices
    places = [str(one) for action in actions if not action.option_strings for one in action.choices or ()]
    return [*places, *(f"{flag}\t{(action.help or '') % vars(action)}" for flag, action in flags.items())], False


SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
