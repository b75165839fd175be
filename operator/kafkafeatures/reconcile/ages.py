"""How long ago the moments of a status were, by a monotonic clock.

A status holds stamps of the wall clock, which may be a day wrong and set right at any time. So a stamp is only a hint,
and counts once: when this process meets it. From then on the monotonic clock counts, and a stamp of the future is met
as one of just now. One for each resource, for as long as the process works on it. Used by `reconcile/evaluate.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from kafkafeatures.environment import SYSTEM

MOST = 256
"""Stamps that are kept: more than a status holds."""


class Ages:
    """When this process first met each stamp of one resource. `monotonic` in seconds."""

    def __init__(self, monotonic: Callable[[], float] = SYSTEM.monotonic) -> None:
        self._monotonic = monotonic
        self._since: dict[str, float] = {}

    def begins(self, stamp: str) -> None:
        """It was made just now."""
        self._keep(stamp, self._monotonic())

    def of(self, stamp: str, now: datetime) -> timedelta:
        """Its age. `now`, of the wall clock, counts where the stamp is met for the first time."""
        since = self._since.get(stamp)
        if since is None:
            since = self._monotonic() - max((now - datetime.fromisoformat(stamp)).total_seconds(), 0.0)
        self._keep(stamp, since)
        return timedelta(seconds=self._monotonic() - since)

    def _keep(self, stamp: str, since: float) -> None:
        self._since.pop(stamp, None)
        self._since[stamp] = since
        if len(self._since) > MOST:
            del self._since[next(iter(self._since))]
