"""The logs that a command reads: files that it names, or standard input. Called by `reduce.py` and `rejected.py`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.client_files.logs.lines import LogStream, open_log, uncompressed

STDIN = "-"


def sources_of(arguments: argparse.Namespace, kind: str) -> Sequence[str]:
    """Paths, or `STDIN` if the user names none. Raises CommandFailed if there are none, and standard input is a
    terminal. `kind`: words for the logs, such as "server log".
    """
    if not arguments.operands and sys.stdin.isatty():
        text = f"clients {arguments.action}: no {kind} given; name the files, or pipe one in"
        raise CommandFailed(text, Exit.USAGE)
    return arguments.operands or [STDIN]


def source_name(source: str) -> str:
    """The name of a log in messages."""
    return "stdin" if source == STDIN else source


def open_source(source: str) -> LogStream:
    """The log, out of gzip if it is compressed. Raises LogUnreadable, OSError."""
    return uncompressed(sys.stdin.buffer) if source == STDIN else open_log(Path(source))
