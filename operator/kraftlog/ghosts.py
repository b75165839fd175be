"""Judges which registrations may be ghosts, that is, registrations of nodes that no longer exist.

A log shows which nodes are registered, not which run. So the result is a suspicion, about a controller that is not a
voter, or a broker that has been fenced for a long time. Callers make the messages.
"""

from __future__ import annotations

from collections.abc import Collection

from kraftlog.image import BrokerRegistration, ControllerRegistration

FENCED_FOR_MS = 15 * 60 * 1000
"""Milliseconds for which a broker must be fenced to be suspected. A broker that restarts is fenced while it recovers
its logs, which nearly always takes minutes at most.
"""


def may_be_ghost(
    registration: BrokerRegistration | ControllerRegistration,
    *,
    voters: Collection[int] | None,
    fenced_since_ms: int | None,
    end_ms: int | None,
    fenced_for_ms: int = FENCED_FOR_MS,
) -> bool | None:
    """Judge whether a registration at the end of a log (at `end_ms`) may be a ghost's; None where that cannot be
    decided.

    voters: None if the log does not have them. fenced_since_ms: None, or below 0, if the log does not have it. end_ms:
    time of the last record.
    """
    if isinstance(registration, ControllerRegistration):
        return None if voters is None else registration.id not in voters
    if not registration.fenced:
        return False
    if fenced_since_ms is None or end_ms is None or fenced_since_ms < 0:
        return None
    return end_ms - fenced_since_ms >= fenced_for_ms
