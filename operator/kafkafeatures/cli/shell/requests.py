"""`-v`: each request to Kafka and to the API server on stderr, when it is sent and when it is answered.

Of a request its name, where it goes, and how long it takes: never what is in it.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkafeatures.kafka.base.settings import Address

_logger = logging.getLogger(__name__)


@contextmanager
def shown() -> Iterator[None]:
    """While this is entered, requests are shown."""
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
    """A line, where requests are shown."""
    _logger.debug("%s", text)


class KafkaRequests:
    """The `Recorder` of connections that are shown."""

    def __init__(self) -> None:
        self._open: dict[tuple[Address, bytes], list[tuple[str, float]]] = {}
        """There may be several connections to an address, each with the same correlation ids."""

    @classmethod
    def if_shown(cls) -> KafkaRequests | None:
        """None where nobody looks: connections are a little faster then."""
        return cls() if _logger.isEnabledFor(logging.DEBUG) else None

    def sent(self, address: Address, frame: bytes) -> None:
        """Each begins with its length, its api key, the version, and a correlation id that its answer repeats."""
        from kafkafeatures.kafka.base.api_names import API_NAMES

        key = int.from_bytes(frame[4:6])
        name = f"{API_NAMES.get(key, f'api {key}')} v{int.from_bytes(frame[6:8])}"
        self._open.setdefault((address, frame[8:12]), []).append((name, time.monotonic()))
        note(f"> {address} {name}")

    def received(self, address: Address, frame: bytes) -> None:
        """Begins with its length and the correlation id."""
        name, at = self._open[address, frame[4:8]].pop(0)
        note(f"< {address} {name}: {len(frame)} bytes in {milliseconds(at)}")


def milliseconds(since: float) -> str:
    """Since then, which is of `time.monotonic`."""
    return f"{(time.monotonic() - since) * 1000:.0f} ms"
