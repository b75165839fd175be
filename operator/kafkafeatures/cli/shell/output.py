"""Output of all commands: prints documents, opens consoles, and makes all text safe for terminals.

Texts from Kafka, the API server or files may contain escape sequences. `Patient` replaces all characters that do not
print on stdout and stderr; `console` does the same before it adds its own colours.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.core.words import printable, printable_lines

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.table import Table

FORMATS = ("table", "json", "yaml")
SVG, HTML, CSV = "svg", "html", "csv"
DRAWN = ("table", SVG, HTML)
"""Forms for people; the others are for programs."""
NEVER_WRAPPED = 100_000
"""Columns of a console in a pipe: more than any line has."""


def at_terminal() -> bool:
    """True if a person can read a question on the terminal, and answer it. All questions are asked on stderr, with what
    they are about, as stdout may be a file or a pipe.
    """
    return sys.stdin.isatty() and sys.stderr.isatty()


def answer(question: str) -> str:
    """The line that the person types after the question, without blanks around it."""
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


def is_confirmed(question: str) -> bool:
    """Tell whether the person answers a question, which ends with [y/N], with yes."""
    return answer(f"{question} [y/N] ").lower() in ("y", "yes")


class Patient:
    """A stdout or stderr whose reader may end early (`| head`) without effect on the command or its exit code. A write
    to stdout that fails for another reason (a full disk) ends the command with one line. Characters that do not print
    are replaced, unless the text is `clean` already.
    """

    def __init__(self, stream: Any, *, clean: bool = False) -> None:
        self._stream = stream
        self._clean = clean

    @classmethod
    def wrapping(cls, stream: Any) -> Any:
        """The stream, wrapped once; for a closed one (`>&-`) a sink."""
        if isinstance(stream, cls):
            return stream
        return cls(stream if stream is not None else open(os.devnull, "w", encoding="utf-8"))

    @property
    def for_clean_text(self) -> Patient:
        """This stream for text that is clean already: nothing is escaped again."""
        return Patient(self._stream, clean=True)

    def write(self, text: str) -> int:
        """Write like the stream itself; silently discarded once the reader has left."""
        try:
            return int(self._stream.write(text if self._clean else printable_lines(text)))
        except BrokenPipeError:
            self._into_nothing()
            return len(text)
        except OSError as error:
            raise self._refused(error) from None

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._into_nothing()
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: OSError) -> Exception:
        """The exception for a write that failed: on stderr the error itself, since there is no place for a message."""
        if self._stream is not sys.__stdout__:
            return error
        self._into_nothing()
        return CommandFailed(f"stdout: {error.strerror}; what was written is not complete", Exit.FAILED)

    def _into_nothing(self) -> None:
        # The file itself is replaced, so that what Python flushes at exit finds no broken pipe either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def add_output_flag(parser: argparse.ArgumentParser, *, is_drawn: bool = False) -> None:
    """`-o table|json|yaml`. `is_drawn`: also `svg` and `html`."""
    table = "table for people (default)"
    parser.add_argument(
        "-o",
        "--output",
        choices=(*FORMATS, SVG, HTML) if is_drawn else FORMATS,
        default="table",
        help=f"{table}, a document, or the table as a picture or a page" if is_drawn else f"{table}, or a document",
    )


def print_document(
    document: dict[str, Any] | list[Any], form: str, stream: TextIO | None = None, *, another: bool = False
) -> None:
    """Print a document as JSON or YAML to stdout or `stream`, with the keys in their order. `another`: a document was
    printed before, so in YAML `---` separates them.

    Characters that do not print are escaped in the way of the format, so that a parser gets the original text.
    """
    stream = stream or sys.stdout
    if form == "json":
        lines = json.dumps(document, indent=2, ensure_ascii=False).split("\n")
        stream.write("\n".join(line if line.isprintable() else _escaped(line) for line in lines) + "\n")
    else:
        import yaml

        plain = json.loads(json.dumps(document))  # names of enums as texts: the same document in both forms
        fast = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # of libyaml, where PyYAML was built with it
        text = yaml.dump(plain, Dumper=fast, sort_keys=False, allow_unicode=True)
        if text != printable_lines(text):  # `allow_unicode` leaves characters that do not print
            text = yaml.dump(plain, Dumper=fast, sort_keys=False)
        stream.write(f"---\n{text}" if another else text)


def print_junit(suite: Element) -> None:
    """Print a test suite of JUnit (XML) with the numbers of its cases, failures and errors."""
    from xml.etree import ElementTree

    suite.set("tests", str(len(suite)))
    for kind in ("failure", "error"):
        suite.set(f"{kind}s", str(sum(case.find(kind) is not None for case in suite)))
    ElementTree.indent(suite)
    sys.stdout.write(ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n")


def _escaped(line: str) -> str:
    """The line with JSON escapes for characters that do not print: JSON has these only within strings."""
    return "".join(character if character.isprintable() else json.dumps(character)[1:-1] for character in line)


def tell(text: str) -> None:
    """Print a single line on stderr: what happens next, or why the command ends."""
    print(printable(text), file=sys.stderr, flush=True)


def tell_failed(failed: CommandFailed, form: str = "") -> None:
    """Print why a command ends, on stderr, a line for each mistake; for `form` json as one object on one line."""
    if form == "json":
        tell(json.dumps(failed.document, ensure_ascii=False))
    else:
        for line in str(failed).split("\n"):
            print(f"{failed.program}: {line}", file=sys.stderr)


def paragraph(text: str, *, errors: bool = False) -> None:
    """Print a sentence for people, with no word broken at the edge of the terminal. `errors`: on stderr."""
    from rich.text import Text

    console(errors=errors).print(Text(text), overflow="fold")


def clean_stdout() -> Any:
    """Stdout for a writer that adds its own escape sequences, and has made all other text safe."""
    return _clean(sys.stdout)


def _clean(stream: Any) -> Any:
    return stream.for_clean_text if isinstance(stream, Patient) else stream


def console(
    *, errors: bool = False, width: int | None = None, plain: bool = False, into: TextIO | None = None
) -> Console:
    """A console on stdout, as wide as the terminal; in a pipe as wide as COLUMNS says, or without a limit.

    `errors`: on stderr. `width`: columns, instead of those. `plain`: no styles at all. `into`: another stream, always
    with colours; otherwise there are none with NO_COLOR or in a pipe.
    """
    from rich.console import Console
    from rich.segment import Segment

    class CleanConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for text, style, control in super().render(renderable, options):
                yield Segment(text if control else printable_lines(text), style, control)

    if into is not None:
        return CleanConsole(
            file=into, width=width, color_system="standard", force_terminal=True, no_color=False, highlight=False,
            markup=False, emoji=False, soft_wrap=False,
        )  # fmt: skip
    stream = sys.stderr if errors else sys.stdout
    if width is None and not stream.isatty() and "COLUMNS" not in os.environ:
        width = NEVER_WRAPPED
    return CleanConsole(
        file=_clean(stream), width=width, color_system=None if plain else "auto",
        highlight=False, markup=False, emoji=False, soft_wrap=False,
    )  # fmt: skip


def least_width(console: Console, table: Table) -> int:
    """The least width of the table at which no word is broken."""
    return console.measure(table, options=console.options.update(max_width=100_000)).minimum


def natural_width(console: Console, table: Table) -> int:
    """The width of the table with nothing cut off: rich measures within a width, so a wide terminal is assumed."""
    return console.measure(table, options=console.options.update(max_width=100_000)).maximum
