"""Pace of the reconciliations of one resource: slower while the result is the same (backoff), and never more than a
number over time (token bucket).

Called by `reconcile/controller.py`, with one pace for each resource. It decides only when to reconcile.
"""

from __future__ import annotations

from collections.abc import Callable

BURST, REFILL_SECONDS = 100, 5.0
"""Token bucket: `BURST` reconciliations may follow one another freely, further ones at one in `REFILL_SECONDS`. The
longest upgrade fits into it with every step, reading and wait; a Kafka that contradicts itself all the time does not
keep the operator busy.
"""
ROLLING_REFILL_SECONDS = 1.0
"""Seconds for a token while nodes are in flight."""


class Pace:
    """Backoff and token bucket of one resource. `monotonic`: a clock in seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._tokens, self._at = float(BURST), monotonic()
        self._last_key: tuple[object, ...] = ()
        self.repeats = 0
        """Number of times in a row that the key of the backoff was the same as before."""
        self.rolling = False
        """Nodes are in flight, so that the cluster is read once a second, for hours."""

    def backoff(self, key: tuple[object, ...], first: float, longest: float) -> float:
        """Seconds to wait: `first`, doubled each time the key (the result of a reconciliation) is the same as before,
        up to `longest`.
        """
        self.repeats = self.repeats + 1 if self._last_key == key else 0
        self._last_key = key
        return min(first * 2.0 ** min(self.repeats, 20), longest)

    def progress(self) -> None:
        """Reset the backoff: something was done, or there is nothing to do."""
        self._last_key = ()

    def throttle(self) -> float:
        """Seconds to wait for the token of this reconciliation: zero while tokens are left."""
        monotonic_time = self._monotonic()
        refill = ROLLING_REFILL_SECONDS if self.rolling else REFILL_SECONDS
        self._tokens = min(BURST, self._tokens + (monotonic_time - self._at) / refill) - 1.0
        self._at = monotonic_time
        if self._tokens >= 0.0:
            return 0.0
        self._tokens = 0.0  # the wait is for the token of this reconciliation, so it is no longer owed
        return refill
