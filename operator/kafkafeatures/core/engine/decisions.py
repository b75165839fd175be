"""Decisions of a reconciliation, each with its reason: to act, to wait, to halt, to hold a step back, or that all is
done.

Pure. Made by the gates (`core/engine/gates.py`) and by the stages of each kind; `reconcile/act.py` carries them out.
"""

from __future__ import annotations

from msgspec import Struct

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.core.engine.blockers import Blocker, grouped, only_the_asker
from kafkafeatures.core.engine.steps import Step
from kafkafeatures.core.facts.readings import Failure

FIRST_DELAY = 2.0
"""Seconds until the next reconciliation after most waits: nodes, partitions and pods come back within seconds, and a
shorter pause would only read the cluster more often. While a wait lasts, the delay grows (`reconcile/pace.py`).
"""


class Act(Struct, frozen=True):
    """Carry out this step, then reconcile again."""

    step: Step

    @property
    def reason(self) -> Reason:
        """Reason why the resource is not ready while the step is carried out."""
        return self.step.reason

    @property
    def message(self) -> str:
        """Message while the step is carried out."""
        return self.step.in_progress

    @property
    def blockers(self) -> tuple[Blocker, ...]:
        """Always empty: nothing prevents the step."""
        return ()


class Pending(Struct, frozen=True, kw_only=True):
    """A wait, or a halt. The status keeps its beginning (`core/engine/waits.py`).

    subject: the node, pod, topic or object that it depends on. While reason and subject stay the same, it counts as one
        wait.
    remedy: what a person can do.
    """

    subject: str
    remedy: str


class Wait(Pending, frozen=True):
    """Wait for something that may resolve automatically.

    delay: seconds until the next reconciliation.
    condition: a condition of the status that is True meanwhile, and its reason.
    steady: keep this delay for as long as the wait lasts; otherwise delays grow.
    is_dated: the message already says since or until when it lasts, and what can be done.
    """

    reason: Reason
    message: str
    delay: float = FIRST_DELAY
    blockers: tuple[Blocker, ...] = ()
    condition: tuple[Condition, Reason] | None = None
    steady: bool = False
    is_dated: bool = False


class Stalled(Pending, frozen=True):
    """Halt until a person acts."""

    reason: Reason
    message: str
    blockers: tuple[Blocker, ...] = ()


class Held(Struct, frozen=True):
    """A step is possible but held back: the resource is suspended, the plan not approved, or drift is only reported."""

    reason: Reason
    message: str
    blockers: tuple[Blocker, ...] = ()
    condition: tuple[Condition, Reason] | None = None


class Done(Struct, frozen=True):
    """All that the document asks for is reached and was read back, such as each desired level on every live node; or,
    with reason `Observed`, mode Observe sends nothing.
    """

    reason: Reason
    message: str
    blockers: tuple[Blocker, ...] = ()


Decision = Act | Wait | Stalled | Held | Done

PARTITIONS_ARE_NOT_NEEDED = Wait(
    Reason.PREFLIGHT, "partitions are read once the document lets a node be restarted",
    subject="spec", remedy="change what holds restarts back in the document: mode, suspend, paused or its windows",
)  # fmt: skip
"""Decision of a roll for which no partitions were read: the document holds it back, and the status already says what it
needs.
"""

DOES_NOT_PASS = frozenset({Reason.UNSUPPORTED_LEVEL, Reason.MIGRATION_BLOCKED})
"""Reasons in a blocker that need a person, although blockers of the same kind without them resolve automatically."""


def blocked(blockers: tuple[Blocker, ...]) -> Wait | Stalled:
    """Decision for one or more blockers: a halt if any of them needs a person, else a wait."""
    groups = grouped(blockers)
    action = [blocker for blocker in groups if blocker.kind.reason.needs_action]
    if action:
        return stalled_by(action[0], *blockers, message=first_of(action[0], groups))
    impossible = next((blocker for blocker in groups if blocker.reason in DOES_NOT_PASS), None)
    if impossible is not None and impossible.reason is not None:
        return stalled_by(impossible, *blockers, message=first_of(impossible, groups))
    first = groups[0]
    return Wait(
        first.kind.reason, first_of(first, groups), blockers=blockers, subject=first.subject, remedy=first.remedy
    )


def may_pass(decision: Act | Wait) -> bool:
    """True for a step, and for a wait that may end by itself: an old node or a missing quorum may be an upgrade in
    progress. False for a wait that only a person can end, such as for a missing right or address.
    """
    blockers = decision.blockers if isinstance(decision, Wait) else ()
    return all(blocker.failure_kind is None or blocker.failure_kind.may_pass for blocker in blockers)


def lacks_access(decision: object) -> bool:
    """Tell whether nothing but this client keeps the decision from a step: a missing right, credentials, TLS. Then the
    cluster may be fine.
    """
    if not isinstance(decision, Wait | Stalled):
        return False
    return only_the_asker(decision.blockers) if decision.blockers else decision.reason is Reason.NOT_AUTHORIZED


def stalled_by(first: Blocker, *blockers: Blocker, message: str = "") -> Stalled:
    """Halt because of `first`. `blockers`: all blockers; if omitted, only `first`. The reason is ROLLOUT_HALTED if
    neither `first` nor its kind has one.
    """
    of_kind = first.kind.reason if first.kind.reason.needs_action else Reason.ROLLOUT_HALTED
    return Stalled(
        first.reason or of_kind, message or str(first), blockers or (first,),
        subject=first.subject, remedy=first.remedy,
    )  # fmt: skip


def waits_on(blocker: Blocker, reason: Reason, *, message: str = "", delay: float = FIRST_DELAY) -> Wait:
    """Wait for the subject of one blocker."""
    text = message or str(blocker)
    return Wait(reason, text, delay=delay, blockers=(blocker,), subject=blocker.subject, remedy=blocker.remedy)


def unreadable(
    message: str, failure: Failure, *, reason: Reason = Reason.PREFLIGHT, delay: float = FIRST_DELAY
) -> Wait:
    """Wait for a value that could not be read."""
    return Wait(reason, f"{message}: {failure}", delay=delay, subject=failure.subject, remedy=failure.action)


def first_of(first: Blocker, groups: tuple[Blocker, ...]) -> str:
    """The message of the first blocker, and how many more there are."""
    remaining = len(groups) - 1
    return first.message + (f" (and {remaining} more)" if remaining else "")
