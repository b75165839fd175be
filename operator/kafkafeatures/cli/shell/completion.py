"""`kafkafeatures completion bash|zsh|fish`: prints a completion script with all commands, flags and fixed values.

The script is generated from the commands. Only for names of existing objects (resources, namespaces, contexts) the Tab
key runs the program, as `kafkafeatures __complete WORDS`.

    source <(kafkafeatures completion bash)       # zsh the same, after compinit
    kafkafeatures completion fish | source

For `kubectl kafkafeatures` kubectl itself runs `kubectl_complete-kafkafeatures` (`cli/kube/offers.py`).
"""

from __future__ import annotations

import argparse
import shlex

from kafkafeatures.cli.shell.commands import COMMANDS, every_command
from kafkafeatures.cli.shell.exit_codes import Exit

PROGRAMS = ("kafkafeatures", "kubectl-kafkafeatures")

_BASH = """\
_kafkafeatures_live() {{
    [[ $current == -* ]] && return
    local found=$("${{COMP_WORDS[0]}}" __complete "${{COMP_WORDS[@]:1:$COMP_CWORD}}" 2>/dev/null </dev/null | cut -f1)
    offered+=" "$(echo $(grep -v ^: <<< "$found"))
}}
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
_ZSH = """\
autoload -U +X bashcompinit && bashcompinit
{bash}
_kafkafeatures_zsh() {{
    local -a commands=(
{commands}
    )
    if (( CURRENT == 2 )); then _describe command commands; else _bash_complete -o default -F _kafkafeatures; fi
}}
compdef _kafkafeatures_zsh {programs}
"""
_FISH = """\
function _kafkafeatures_live
    set -l words (commandline -opc) (commandline -ct)
    $words[1] __complete $words[2..] 2>/dev/null </dev/null | string match -rv '^(:|-)'
end"""

_CALL = "; _kafkafeatures_live"
"""Shell code behind an assignment, which adds the names of existing objects to what bash offers."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The argument that names the shell."""
    parser.add_argument("shell", choices=tuple(SHELLS), help="which shell")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    print(SHELLS[arguments.shell](), end="")
    return Exit.DONE


def _bash() -> str:
    """The script for bash. It offers a command's flags and fixed positional values, or behind a flag the values of that
    flag; for a flag without fixed values the shell offers file names.
    """
    values, flags = [], []
    for command, _, actions in every_command():
        names = [flag for action in actions for flag in action.option_strings]
        fixed_values = [
            str(choice) for action in actions if not action.option_strings for choice in action.choices or ()
        ]
        live = any(is_live(action) for action in actions if not action.option_strings)
        flags.append(f'            {command}) offered="{" ".join((*fixed_values, *names))}"{_CALL if live else ""} ;;')
        by_words: dict[str, list[str]] = {}  # flags that take the same values share a branch of the script's `case`
        for action in actions:
            if action.option_strings and action.nargs != 0:
                words = f'"{" ".join(map(str, action.choices or ()))}"{_CALL if is_live(action) else ""}'
                by_words.setdefault(words, []).extend(f'"{command} {flag}"' for flag in action.option_strings)
        values += [f"        {'|'.join(cases)}) offered={words} ;;" for words, cases in by_words.items()]
    return _BASH.format(
        commands=" ".join(name for name, _, _ in every_command()),
        values="\n".join(values),
        flags="\n".join(flags),
        programs=" ".join(PROGRAMS),
    )


def is_live(action: argparse.Action) -> bool:
    """True if an action takes a resource, a namespace or a context, whose current names are offered."""
    return action.dest in (("namespace", "context") if action.option_strings else ("name",))


def _zsh() -> str:
    """The script for zsh: the one for bash, run by zsh's own emulation, and commands with their lines of help."""
    lines = "\n".join(f"        {shlex.quote(f'{name}:{line}')}" for name, (_, line) in COMMANDS.items())
    return _ZSH.format(bash=_bash(), commands=lines, programs=" ".join(PROGRAMS))


def _fish() -> str:
    """The script for fish, a line for each flag and each positional argument with values."""
    lines = [_FISH]
    for program in PROGRAMS:
        for command, help_line, actions in every_command():
            lines.append(f"complete -c {program} -n __fish_use_subcommand -a {command} -d {_quoted(help_line)}")
            prefix = f"complete -c {program} -n {_quoted(f'__fish_seen_subcommand_from {command}')}"
            for action in actions:
                names = "".join(
                    f" -{'l' if option_string.startswith('--') else 's'} {option_string.lstrip('-')}"
                    for option_string in action.option_strings
                )
                choices = "(_kafkafeatures_live)" if is_live(action) else " ".join(map(str, action.choices or ()))
                words = f" -{'x' if names else 'f'} -a {_quoted(choices)}" if choices else ""
                value = words or (" -r" if action.option_strings and action.nargs != 0 else "")
                if names or words:
                    lines.append(f"{prefix}{names}{value} -d {_quoted((action.help or '') % vars(action))}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A text as a word in single quotes, in which fish knows the escapes of the quote and the backslash."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
