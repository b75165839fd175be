"""States of the consents of `spec.consents`: used, or still to be used. Every kind of stage asks here, whatever the
consent is for.

Pure. A consent can be used once: it is spent before it is used (`status.spentConsents`). Where the status was lost, or
knows no cluster yet, nothing shows whether one that is in the document was used (`status.unverifiedConsents`): then a
person has to approve the plan that uses it by its hash, or to remove the consent, apply, and add it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from kafkafeatures.api.names import DYNAMIC_QUORUM


class ConsentState(Enum):
    """State of a consent: whether it still authorises a change."""

    MISSING = "not in the document"
    SPENT = "used already"
    GIVEN = "good, unless it is unverified"


def state_of(consent: str, consents: Iterable[str], spent: Iterable[str]) -> ConsentState:
    """State of a consent: whether it is in the document, and was not used by anything else. `consents`: those of the
    document.
    """
    if consent not in consents:
        return ConsentState.MISSING
    return ConsentState.SPENT if consent in spent else ConsentState.GIVEN


def repeatable(consents: Iterable[str]) -> frozenset[str]:
    """Return the consents that could be used once more. A raise of kraft.version cannot be: it is never undone."""
    return frozenset(consents) - {DYNAMIC_QUORUM}


def unverified_among(used: Iterable[str], unverified: frozenset[str], spent: frozenset[str]) -> tuple[str, ...]:
    """Return the consents that a stage uses and that may have been used before the status began."""
    return tuple(sorted((frozenset(used) & unverified) - spent))
