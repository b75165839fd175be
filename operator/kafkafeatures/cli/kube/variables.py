"""Values of flags and environment variables that are one of a few words: for the flags of `run`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit


def one_of(variable: str, allowed: Sequence[str]) -> str:
    """The value of an environment variable; empty if it is not set. Raises CommandFailed unless it is allowed."""
    value = os.environ.get(variable, "")
    return allowed_value(variable, value, allowed) if value else ""


def allowed_value(source: str, value: str, allowed: Sequence[str]) -> str:
    """The value. Raises CommandFailed unless it is allowed. `source`: flag or variable that has it."""
    if value not in allowed:
        *first, last = allowed
        expected = f"{', '.join(first)} or {last}"
        raise CommandFailed(f"{source}: invalid value {value[:60]!r}; expected {expected}", Exit.USAGE)
    return value
