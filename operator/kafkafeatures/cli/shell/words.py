"""Checks the words of a command line before argparse, whose errors would name the wrong word. Called by `main.py`.

kubectl accepts flags before and after the command, argparse only after it. And argparse assigns positional arguments
before it reports unknown flags: it takes the value of an unknown flag for NAME, and the error is about that.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

_KUBECTL_FLAGS = {
    **dict.fromkeys(("-n", "--namespace", "--context", "--kubeconfig", "--as", "--as-group", "-o", "--output"), 1),
    **dict.fromkeys(("-A", "--all-namespaces", "-v", "--verbose", "--debug"), 0),
}
"""Flags that may stand before the command, with the number of their values."""
_VALUE_PATTERNS = {
    "-f": r".+\.(?:ya?ml|json)",
    "-n": r"([a-z0-9-]+)/([a-z0-9.-]+)",
    "--bootstrap-server": r"[^/\s]+:\d+(?:,[^/\s]+:\d+)*",
    "--release": r"\d+\.\d+",
    "--feature": r"[a-z.]+\.version=\S+",
}
"""Patterns of values that people type without the flag, by flag. Groups: the value, if it is not the whole word."""


def flags_behind(words: Sequence[str]) -> list[str]:
    """The words, with flags of kubectl that stand before the command moved behind everything else."""
    at = 0
    while at < len(words) and (name := words[at].partition("=")[0]) in _KUBECTL_FLAGS:
        at += 1 + (0 if "=" in words[at] else _KUBECTL_FLAGS[name])
    return list(words) if at == 0 or at >= len(words) else [*words[at:], *words[:at]]


def form_in(words: Sequence[str]) -> str:
    """The value of `-o`, even if other words are wrong; empty without it."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word in ("-o", "--output"):
            return following
        for flag in ("--output=", "-o"):
            if word.startswith(flag):
                return word.removeprefix(flag).removeprefix("=")
    return ""


def unknown_flag(
    parser: argparse.ArgumentParser, words: Sequence[str], other_flags: Callable[[], Mapping[str, frozenset[str]]]
) -> str:
    """Error about the first flag that the command does not have, or has without a value; empty if there is none.
    `other_flags`: returns the flags of each command; called only if there is an unknown flag, since it imports all
    commands.
    """
    own_flags = _flags(parser, words)
    for previous, word in pairwise(["", *words]):
        name = word.partition("=")[0]
        if word == "--":  # all words behind it are arguments
            break
        if (taking := own_flags.get(previous)) is not None and taking.nargs != 0:
            continue  # `--namespace -x`: argparse reports the missing value
        if "=" in word and name in own_flags and own_flags[name].nargs == 0:
            return f"{name} takes no value"
        is_short = name[:1] == "-" and name[1:2].isalpha()  # its value may follow without a blank
        if not (name.startswith("--") or is_short) or (name[:2] if is_short else name) in own_flags:
            continue
        from difflib import get_close_matches

        from kafkafeatures.cli.shell.other_words import FLAGS

        if answer := FLAGS.get(f"{words[0]} {name}") or FLAGS.get(name):
            return f"unknown flag {name}: {answer}"
        similar = [flag for flag in sorted(own_flags) if flag.startswith(name)] or get_close_matches(
            name, own_flags, 1, 0.75
        )
        if similar:
            return f"unknown flag {name[:60]} (did you mean {' or '.join(similar[:2])}?)"
        having = [command for command, flags in other_flags().items() if name in flags]
        return f"unknown flag {name[:60]}" + (f" ({', '.join(having[:3])} {_take(having)} it)" if having else "")
    return ""


def misplaced_word(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    """Error about the first word that should be the value of a flag; empty if there is none."""
    own_flags = _flags(parser, words)
    for previous, word in pairwise(words):
        taking = own_flags.get(previous)
        if word.startswith("-") or (taking is not None and taking.nargs != 0):
            continue
        for flag, pattern in _VALUE_PATTERNS.items():
            if flag in own_flags and (match := re.fullmatch(pattern, word)):
                return f"invalid argument {word[:60]!r}: use {flag} {' '.join(match.groups() or (word,))}"
    return ""


def _take(having: Sequence[str]) -> str:
    return "takes" if len(having) == 1 else "take"


def _flags(parser: argparse.ArgumentParser, words: Sequence[str]) -> dict[str, argparse.Action]:
    """The flags of this parser, and of those of its commands that the words name."""
    flags: dict[str, argparse.Action] = {}
    for action in parser._actions:
        flags |= dict.fromkeys(action.option_strings, action)
        if isinstance(action, argparse._SubParsersAction):
            command = next((word for word in words if word in action.choices), None)
            if command is not None:
                flags |= _flags(action.choices[command], words)
    return flags
