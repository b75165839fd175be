"""Pace of the reconciliations of one resource: slower while the result is the same, and bounded over time.

Called by `reconcile/controller.py`, with one pace for each resource. It decides only when to reconcile.
"""

from __future__ import annotations

from collections.abc import Callable

BURST, REFILL_SECONDS = 100, 5.0
"""A token bucket: `BURST` reconciliations may follow one another freely, further ones at one in `REFILL_SECONDS`.
Every step, reading and wait of the longest upgrade fits; a Kafka that contradicts itself does not keep the operator
busy."""
ROLLING_REFILL_SECONDS = 1.0


class Pace:
    """Backoff and token bucket of one resource. `monotonic`: a clock in seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._tokens, self._at = float(BURST), monotonic()
        self._found: tuple[object, ...] = ()
        self.repeats = 0
        self.rolling = False
        """Nodes are in flight: they are looked at once a second, for hours."""

    def backoff(self, key: tuple[object, ...], first: float, longest: float) -> float:
        """Seconds to wait: `first`, doubled each time the key is the same, up to `longest`."""
        self.repeats = self.repeats + 1 if self._found == key else 0
        self._found = key
        return min(first * 2.0 ** min(self.repeats, 20), longest)

    def progress(self) -> None:
        """Reset the backoff: something was done, or there is nothing to do."""
        self._found = ()

    def throttle(self) -> float:
        """Seconds to wait for the token of this reconciliation: zero while tokens are left."""
        monotonic_time = self._monotonic()
        refill = ROLLING_REFILL_SECONDS if self.rolling else REFILL_SECONDS
        self._tokens = min(BURST, self._tokens + (monotonic_time - self._at) / refill) - 1.0
        self._at = monotonic_time
        if self._tokens >= 0.0:
            return 0.0
        self._tokens = 0.0
        return refill
