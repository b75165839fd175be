"""Printing documents and opening a console: the same for every command."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FORMATS = ("table", "json", "yaml")


class Patient:
    """A stream whose reader may leave (`| head`): what a command does, and how it ends, does not depend on that."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @classmethod
    def wrapping(cls, stream: Any) -> Any:
        """The stream, wrapped once; for a closed one (`>&-`) a sink."""
        if isinstance(stream, cls):
            return stream
        return cls(stream if stream is not None else open(os.devnull, "w", encoding="utf-8"))

    def write(self, text: str) -> int:
        """As the stream's; quietly into nothing once nobody reads."""
        try:
            return int(self._stream.write(text))
        except BrokenPipeError:
            self._into_nothing()
            return len(text)

    def flush(self) -> None:
        """As the stream's."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._into_nothing()

    def _into_nothing(self) -> None:
        # The file itself is replaced, so that what Python flushes at exit finds no broken pipe either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def add_output_flag(parser: argparse.ArgumentParser) -> None:
    """`-o table|json|yaml`."""
    parser.add_argument(
        "-o", "--output", choices=FORMATS, default="table", help="table for people (default), or a document"
    )


def print_document(document: dict[str, Any], form: str, stream: TextIO | None = None) -> None:
    """JSON or YAML on stdout, or where it is said, keys in the order of the document."""
    stream = stream or sys.stdout
    if form == "json":
        json.dump(document, stream, indent=2, ensure_ascii=False)
        stream.write("\n")
    else:
        import yaml

        plain = json.loads(json.dumps(document))  # names of enums as texts: the same document in both forms
        yaml.safe_dump(plain, stream, sort_keys=False, allow_unicode=True)


def console() -> Console:
    """A console on stdout: as wide as the terminal, 100 columns into a pipe; no colour where NO_COLOR or a pipe is."""
    from rich.console import Console

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 100
    return Console(width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)


def natural_width(console: Console, table: Table) -> int:
    """Of the table with nothing cut off: asked about a terminal of its own width, rich answers what it would cut to."""
    return console.measure(table, options=console.options.update(max_width=100_000)).maximum
