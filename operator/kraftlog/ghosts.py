"""Which registrations may be those of ghosts: registered, although no such node exists any more.

A log says who is registered and not who runs, so this is a suspicion: a controller that is not a voter, a broker that
has been fenced for long. Called with what a log says by its readers, which also put the reason into words.
"""

from __future__ import annotations

from collections.abc import Collection

from kraftlog.image import BrokerRegistration, ControllerRegistration

FENCED_FOR_MS = 15 * 60 * 1000
"""A broker that restarts is fenced for as long as it recovers its logs, minutes at most for nearly all."""


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

    voters: None where the log does not say who votes. fenced_since_ms: None, or below 0, where the log does not say it.
    """
    if isinstance(registration, ControllerRegistration):
        return None if voters is None else registration.id not in voters
    if not registration.fenced:
        return False
    if fenced_since_ms is None or end_ms is None or fenced_since_ms < 0:
        return None
    return end_ms - fenced_since_ms >= fenced_for_ms
