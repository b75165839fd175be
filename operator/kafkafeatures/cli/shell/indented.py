"""Prints paragraphs that are indented on every line, with commands in them that can be copied.

Otherwise a terminal continues a long line in column 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

_COMMAND = re.compile(r"((?:kafkafeatures [a-z]+ -|kafka-[a-z-]+\.sh --(?:add|bootstrap))[^;]*)")
"""A command of ours with a flag, or a whole one of Kafka's; other mentions of a command stay in the text."""
COMMAND_STYLE = "bold cyan"
"""Style of a command to type: it stands out, and texts about it are plain."""
_WORD = re.compile(r"\S+")
_COLUMNS_AT_LEAST = 24
"""Columns that a paragraph has at least, however narrow the terminal is."""


def hanging(console: Console, text: Text, *, indent: int, first: Text | None = None) -> None:
    """Print a paragraph, indented by `indent` columns. `first`: text in the indent of its first line."""
    margin = first if first is not None else Text(" " * indent)
    for paragraph in text.split(allow_blank=True):
        for line in paragraph.divide(_breaks(paragraph.plain, max(console.width - indent, _COLUMNS_AT_LEAST))):
            line.rstrip()
            console.print(Text.assemble(margin, line), soft_wrap=True)
            margin = Text(" " * indent)


def _breaks(text: str, width: int) -> Iterator[int]:
    """Offsets at which the second and further lines begin. A word that is too long for a line is broken, unless it
    begins with a quote, such as JSON to be copied.
    """
    start = 0
    for word in _WORD.finditer(text):
        if start < word.start() and cell_len(text[start : word.end()]) > width:
            start = word.start()
            yield start
        if not word[0].startswith("'"):
            for piece in chop_cells(text[start : word.end()], width)[:-1]:
                start += len(piece)
                yield start


def line(console: Console, text: Text) -> None:
    """Print a line that begins in column 0; what does not fit is indented below it."""
    hanging(console, text, indent=2, first=Text())


def heading(console: Console, text: str) -> None:
    """Print a title, with an empty line before it."""
    console.print()
    line(console, Text(text, "bold"))


def item(console: Console, text: Text) -> None:
    """Print an entry of a list, which begins in column 2; what does not fit is indented below it."""
    hanging(console, text, indent=4, first=Text("  "))


def remedy(console: Console, text: str, *, indent: int, style: str = "", first: Text | None = None) -> None:
    """Print a remedy. Each command in it begins on a line of its own, and is continued with a backslash, so that it can
    be pasted into a shell. `style`: of the text beside commands. `first`: as that of `hanging`.
    """
    for number, part in enumerate(_COMMAND.split(text)):
        words = part.strip("; ")
        if not words:
            continue
        if number % 2:  # `split` alternates between other text and the matches of the pattern
            _command(console, words, indent + 2)
        else:
            hanging(console, Text(words, style), indent=indent, first=None if number else first)


def _command(console: Console, words: str, indent: int) -> None:
    """Print a command; where a line would be too long, the next `--flag` begins on a line of its own."""
    margin, flag_margin = " " * indent, " " * (indent + 2)
    first, *flags = words.split(" --")
    lines = [f"{margin}{first}"]
    for flag in flags:
        if len(lines[-1]) + len(f" --{flag} \\") > console.width:
            lines[-1] += " \\"
            lines.append(f"{flag_margin}--{flag}")
        else:
            lines[-1] += f" --{flag}"
    console.print(Text("\n".join(lines), COMMAND_STYLE), soft_wrap=True)
