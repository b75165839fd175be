"""What is imported by others, and never used here, takes memory all the same.

Called by whoever imports a library that looks which others are installed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hidden(*names: str) -> Iterator[None]:
    """In here, importing these says that they are not installed; those that were imported before stay."""
    absent = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None: what Python documents for that
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
