"""Printing documents and opening a console: the same for every command."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

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


def print_document(document: dict[str, Any], form: str) -> None:
    """JSON or YAML on stdout, keys in the order of the document."""
    if form == "json":
        json.dump(document, sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        import yaml

        plain = json.loads(json.dumps(document))  # names of enums as texts: the same document in both forms
        yaml.safe_dump(plain, sys.stdout, sort_keys=False, allow_unicode=True)


def console() -> Console:
    """A console on stdout: as wide as the terminal, 100 columns into a pipe; no colour where NO_COLOR or a pipe is."""
    from rich.console import Console

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 100
    return Console(width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)
