"""How much of the same kind a test tries: all of it in `make soak`, a tenth each other time."""

from __future__ import annotations

import os

SOAK = bool(os.environ.get("SOAK"))


def share(count: int) -> int:
    """How many of so many random examples are tried this time; they are the same each time."""
    return count if SOAK else max(5, count // 10)
