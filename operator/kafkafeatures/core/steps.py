"""What can be done to a cluster, and what came of it: a closed union.

Only `reconcile/act.py` carries a step out. A new kind of effect is a new class in `Step` here and a new case there;
mypy's exhaustiveness shows the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UpdateFeature:
    """Finalize one feature at `after`; it was read at `before`. Absent and disabled are both level 0."""

    feature: str
    before: int
    after: int

    def __str__(self) -> str:
        return f"{self.feature} {self.before} -> {self.after}"

    @classmethod
    def parse(cls, text: str) -> UpdateFeature:
        """Of what `str()` made. Raises ValueError for any other text."""
        feature, before, _, after = text.split(" ")
        return cls(feature, int(before), int(after))

    @classmethod
    def of_intent(cls, intent: Mapping[str, str]) -> UpdateFeature:
        """The step of `status.intent`. Raises KeyError, TypeError or ValueError for what is none."""
        return cls(intent["target"], int(intent["before"]), int(intent["after"]))


Step = UpdateFeature


@dataclass(frozen=True, slots=True)
class Applied:
    """The active controller said yes (error code 0). Not proof yet: the level is read back."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The active controller said no, in its own words. Nothing was changed."""

    code: int
    message: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """No request left this process, so nothing can have changed."""

    why: str


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """The request may have been sent and may still be applied: EOF, reset, time-out, NOT_CONTROLLER (41)."""

    why: str


Outcome = Applied | Rejected | NotSent | OutcomeUnknown


@dataclass(frozen=True, slots=True)
class Accepted:
    """A validateOnly of exactly the pending changes was answered with yes."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A validateOnly was answered with no."""

    code: int
    message: str


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No verdict could be had; `rights`: because ALTER on the cluster is missing."""

    why: str
    rights: bool = False


Verdict = Accepted | Refused | Unavailable
