"""Terminal output of a command as a picture or a page: `describe -o svg` for a README, `-o html` for a chat.

Called by `drawn.py`. Both are single files without scripts or external fonts, light or dark as the reader's system is.
In the picture each run of words has its own x coordinate, so that columns stay aligned with any monospace font.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.style import Style
from rich.text import Text

from kafkafeatures.cli.shell.output import console

WIDTH = 100
"""Columns, unless COLUMNS says otherwise."""

_CELL, _LINE, _EDGE = 8.4, 20, 16
"""Pixels: width of a column and height of a line in a font of 14 pixels, and the margin."""
_FONT = "14px/20px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_LIGHT = {"text": "#1a1a1a", "page": "#fff", "line": "#ccc", "dim": "#555", "red": "#a11212", "yellow": "#7a4b00",
          "green": "#0a5d24", "cyan": "#0b5394"}  # fmt: skip
_DARK = {"text": "#eee", "page": "#161616", "line": "#444", "dim": "#b5b5b5", "red": "#ff9c9c", "yellow": "#f2c573",
         "green": "#7fd89a", "cyan": "#8ec5ff"}  # fmt: skip
_COLOURS = {1: "red", 2: "green", 3: "yellow", 6: "cyan"}
"""Classes of the colours that are drawn, by their numbers in a terminal."""
_WORDS = re.compile(r"\S+(?: \S+)*")


def as_svg(draw: Callable[[Console], None], title: str) -> str:
    """SVG of the output of `draw`."""
    lines = _drawn(draw)
    width = 2 * _EDGE + _CELL * _columns(lines)
    height = 2 * _EDGE + _LINE * len(lines)
    style = f":root {{ color-scheme: light dark; }}\ntext {{ font: {_FONT}; white-space: pre; }}\n"
    style += _rules("text", "fill", "rect {{ fill: {page}; stroke: {line}; }}")
    texts = []
    for number, line in enumerate(lines):
        runs = "".join(
            f'<tspan x="{_EDGE + _CELL * (start + words.start()):.1f}"{kind}>{escape(words[0])}</tspan>'
            for start, text, kind in _runs(line)
            for words in _WORDS.finditer(text)
        )
        # 15: pixels from the upper edge of a line to the baseline of its text
        texts += [f'<text y="{_EDGE + _LINE * number + 15}">{runs}</text>'] if runs else []
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}"'
        f' height="{height}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n"
        f'<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1}" rx="6"/>\n'
        + "\n".join(texts)
        + "\n</svg>\n"
    )


def as_html(draw: Callable[[Console], None], title: str) -> str:
    """HTML page with the output of `draw`; its text can be selected and copied."""
    text_lines = _drawn(draw)
    # A character is about 0.61 of the font's size wide: the widest line fits a narrow screen, in 14 px at most.
    size = f"clamp(1px, calc((100vw - {2 * _EDGE}px) / {_columns(text_lines) * 0.61:.1f}), 14px)"
    style = f":root {{ color-scheme: light dark; }}\nbody {{ margin: {_EDGE}px; }}\n"
    style += f"pre {{ font: {_FONT}; font-size: {size}; line-height: 1.43; overflow-x: auto; }}\n"
    style += _rules("pre", "color", "body {{ background: {page}; }}")
    lines = ("".join(f"<span{kind}>{escape(text)}</span>" for _, text, kind in _runs(line)) for line in text_lines)
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<pre>\n"
        + "\n".join(lines)
        + "\n</pre>\n</body>\n</html>\n"
    )


def _drawn(draw: Callable[[Console], None]) -> list[Text]:
    """The lines of the output of `draw`, with their styles."""
    stream, columns = io.StringIO(), os.environ.get("COLUMNS", "")
    draw(console(into=stream, width=int(columns) if columns.isdigit() else WIDTH))
    return [*AnsiDecoder().decode(stream.getvalue().rstrip("\n"))]


def _columns(lines: Sequence[Text]) -> int:
    """The length of the widest line."""
    return max((len(line.plain.rstrip()) for line in lines), default=1)


def _runs(line: Text) -> Iterator[tuple[int, str, str]]:
    """(first column, text, HTML attribute with the CSS classes) of each part of a line that has one style."""
    line.rstrip()
    ends = sorted({0, len(line), *(edge for span in line.spans for edge in (span.start, span.end))})
    for start, end in pairwise(ends):
        styles = [span.style for span in line.spans if span.start <= start < span.end]
        names = sorted({name for style in styles if isinstance(style, Style) for name in _classes(style)})
        yield start, line.plain[start:end], f' class="{" ".join(names)}"' if names else ""


def _classes(style: Style) -> Iterator[str]:
    """The names of the CSS classes for a style."""
    if style.color is not None and style.color.number in _COLOURS:
        yield _COLOURS[style.color.number]
    yield from (name for name, has in (("bold", style.bold), ("dim", style.dim)) if has)


def _rules(words: str, colour: str, page: str) -> str:
    """CSS rules of the light and the dark scheme. `words`: selector of the text; `colour`: the CSS property of its
    colour; `page`: rule of the background, a format string with the names of colours.
    """

    def of(scheme: Mapping[str, str]) -> str:
        rules = [page.format(**scheme), f"{words} {{ {colour}: {scheme['text']}; }}"]
        rules += [f".{name} {{ {colour}: {scheme[name]}; }}" for name in ("dim", *_COLOURS.values())]
        return "\n".join(rules)

    return f".bold {{ font-weight: bold; }}\n{of(_LIGHT)}\n@media (prefers-color-scheme: dark) {{\n{of(_DARK)}\n}}\n"
