"""`-v`: prints each request to Kafka and to the API server to stderr, when it is sent and when it is answered.

`cli/shell/main.py` enters `shown`; the commands that send requests call the rest. They pass the name, the address and
the duration of a request, never its contents.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_logger = logging.getLogger(__name__)


@contextmanager
def shown() -> Iterator[None]:
    """Show requests on stderr while this is entered."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s.%(msecs)03d %(message)s", "%H:%M:%S"))
    _logger.addHandler(handler)
    _logger.propagate = False
    _logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        _logger.removeHandler(handler)
        _logger.setLevel(logging.NOTSET)


def note(text: str) -> None:
    """Print a line, if requests are shown."""
    _logger.debug("%s", text)


def are_shown() -> bool:
    """True if requests are shown."""
    return _logger.isEnabledFor(logging.DEBUG)


def milliseconds(since: float) -> str:
    """Text with the milliseconds since `since` (`time.monotonic`)."""
    return f"{(time.monotonic() - since) * 1000:.0f} ms"
