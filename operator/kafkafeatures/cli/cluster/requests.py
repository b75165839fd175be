"""`-v` for Kafka: prints the name and the address of each request, when it is sent and when it is answered.

Made by `connect.py`, which gives it to the connections.
"""

from __future__ import annotations

import time

from kafkafeatures.cli.shell.requests import milliseconds, note
from kafkafeatures.kafka.base.api_names import API_NAMES
from kafkafeatures.kafka.base.settings import Address


class KafkaRequests:
    """A `Recorder` of connections."""

    def __init__(self) -> None:
        self._open: dict[tuple[Address, bytes], list[tuple[str, float]]] = {}
        """Requests without a response, by address and correlation id: (name, when it was sent in monotonic seconds).
        Several connections to an address use the same ids, so the value is a list; the newest counts. Requests of a
        connection that was lost stay in it.
        """

    def sent(self, address: Address, frame: bytes) -> None:
        """Print a request. A frame begins with its length, the api key, the version, and a correlation id."""
        key = int.from_bytes(frame[4:6])
        name = f"{API_NAMES.get(key, f'api {key}')} v{int.from_bytes(frame[6:8])}"
        self._open.setdefault((address, frame[8:12]), []).append((name, time.monotonic()))
        note(f"> {address} {name}")

    def received(self, address: Address, frame: bytes) -> None:
        """Print a response, with the time since its request. A frame begins with its length and the request's
        correlation id.
        """
        name, at = self._open[address, frame[4:8]].pop()
        note(f"< {address} {name}: {len(frame)} bytes in {milliseconds(at)}")
