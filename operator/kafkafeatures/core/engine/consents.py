"""States of the consents of `spec.consents`, by which a user allows one dangerous change each.

Pure. A consent can be used once: it is written to `status.spentConsents` before it is used, so a consent that is left
in Git never allows a second change. If the status was lost, or names no cluster yet, nothing shows whether a consent in
the document was used before: it is unverified (`status.unverifiedConsents`). A person then has to approve the plan that
uses it by its hash, or remove the consent, apply the document, and add it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from kafkafeatures.api.names import DYNAMIC_QUORUM
from kafkafeatures.api.status import Status
from kafkafeatures.api.values import replace


class ConsentState(Enum):
    """State of a consent: whether it still authorises a change."""

    MISSING = "not in the document"
    SPENT = "used already"
    GIVEN = "good, unless it is unverified"


def state_of(consent: str, consents: Iterable[str], spent: Iterable[str]) -> ConsentState:
    """State of a consent. `consents`: those in the document; `spent`: those that were used already."""
    if consent not in consents:
        return ConsentState.MISSING
    return ConsentState.SPENT if consent in spent else ConsentState.GIVEN


def spend(status: Status, consents: frozenset[str]) -> Status:
    """Return the status in which these consents are spent as well."""
    return replace(status, spent_consents=tuple(sorted(consents.union(status.spent_consents)))) if consents else status


def repeatable(consents: Iterable[str]) -> frozenset[str]:
    """Return the consents that could be used a second time: all but the one for kraft.version, whose raise cannot be
    undone and so cannot be repeated.
    """
    return frozenset(consents) - {DYNAMIC_QUORUM}


def unverified_among(used: Iterable[str], unverified: frozenset[str], spent: frozenset[str]) -> tuple[str, ...]:
    """Return the consents, sorted, that a stage uses and that are unverified and not spent."""
    return tuple(sorted((frozenset(used) & unverified) - spent))
