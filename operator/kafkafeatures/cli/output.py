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

        yaml.safe_dump(document, sys.stdout, sort_keys=False, allow_unicode=True)


def console() -> Console:
    """A console on stdout: as wide as the terminal, 100 columns into a pipe; no colour where NO_COLOR or a pipe is."""
    from rich.console import Console

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 100
    return Console(width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)
