"""What a reconciliation comes to: values with a reason. Made by the gates, and by stages of each kind."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kafkafeatures.api.reasons import BlockerKind, Condition, Reason
from kafkafeatures.core.engine.blockers import Blocker, grouped
from kafkafeatures.core.engine.steps import Step


class Act(Struct, frozen=True):
    """Carry out this step, then look again."""

    step: Step

    @property
    def reason(self) -> Reason:
        """Why the resource is not ready meanwhile."""
        return self.step.reason

    @property
    def message(self) -> str:
        """What is carried out."""
        return self.step.in_progress

    @property
    def blockers(self) -> tuple[Blocker, ...]:
        """Nothing prevents it."""
        return ()


class Wait(Struct, frozen=True):
    """What is waited for may resolve automatically; look again after `after` seconds. `condition`: one that is True
    meanwhile. `steady`: look that often for as long as it takes, not later and later. `subject`: the node, pod, topic
    or object that it depends on. `remedy`: what a person can do if it does not pass. `is_dated`: the message says by
    itself since when, or until when, and what can be done.
    """

    reason: Reason
    message: str
    after: float
    blockers: tuple[Blocker, ...] = ()
    condition: tuple[Condition, Reason] | None = None
    steady: bool = False
    is_dated: bool = False
    subject: str = ""
    remedy: str = ""


class Stalled(Struct, frozen=True):
    """Action is required. `subject`: the node, pod, topic or object it is about. `remedy`: what to do."""

    reason: Reason
    message: str
    blockers: tuple[Blocker, ...] = ()
    subject: str = ""
    remedy: str = ""


class Held(Struct, frozen=True):
    """A step is possible and held back: suspended, not approved yet, or drift that is only reported."""

    reason: Reason
    message: str
    blockers: tuple[Blocker, ...] = ()
    condition: tuple[Condition, Reason] | None = None


class Done(Struct, frozen=True):
    """Every desired level is verified on the active controller and every live node; or `Observed`: nothing is sent."""

    reason: Reason
    message: str
    blockers: tuple[Blocker, ...] = ()


Decision = Act | Wait | Stalled | Held | Done

PARTITIONS_ARE_NOT_NEEDED = Wait(
    Reason.PREFLIGHT, "partitions are read once the document lets a node be restarted", after=2.0
)
"""What a roll waits for where partitions were not read: the document holds it back, and the status has its needs
already.
"""

# What a blocker means: each kind is in one of the two.

ACTION_REQUIRED: Mapping[BlockerKind, Reason] = {
    BlockerKind.ZOOKEEPER_MODE: Reason.ZOOKEEPER_MODE,
    BlockerKind.DOWNGRADE: Reason.CONSENT_REQUIRED,
    BlockerKind.CONSENT: Reason.CONSENT_REQUIRED,
    BlockerKind.UNKNOWN_FEATURE: Reason.UNKNOWN_FEATURE,
    BlockerKind.GHOST_REGISTRATION: Reason.GHOST_REGISTRATION,
    BlockerKind.REFUSED_NODE: Reason.NODE_REFUSED,
    BlockerKind.DEPENDENCY: Reason.DEPENDENCY_MISSING,
    BlockerKind.WORKLOAD: Reason.ROLLOUT_HALTED,
    BlockerKind.SETTING: Reason.MIGRATION_BLOCKED,
    BlockerKind.ZOOKEEPER: Reason.MIGRATION_BLOCKED,
    BlockerKind.METADATA: Reason.METADATA_DIFFERS,
}
RESOLVES_AUTOMATICALLY: Mapping[BlockerKind, Reason] = {
    BlockerKind.MIGRATION: Reason.MIGRATING,
    BlockerKind.QUORUM: Reason.WAITING_FOR_QUORUM,
    BlockerKind.NODE_RANGE: Reason.WAITING_FOR_NODES,
    BlockerKind.NODE_UNKNOWN: Reason.WAITING_FOR_NODES,
    BlockerKind.PARTITION: Reason.ROLLING_NODES,
}

DOES_NOT_PASS = frozenset({Reason.UNSUPPORTED_LEVEL, Reason.MIGRATION_BLOCKED})
"""Reasons for which a blocker needs a person also where others of its kind pass by themselves."""


def blocked(found: tuple[Blocker, ...]) -> Wait | Stalled:
    """What blockers come to, of which there is at least one: what needs a person first."""
    groups = grouped(found)
    action = [blocker for blocker in groups if blocker.kind in ACTION_REQUIRED]
    if action:
        return Stalled(action[0].reason or ACTION_REQUIRED[action[0].kind], first_of(action[0], groups), found)
    impossible = next((blocker for blocker in groups if blocker.reason in DOES_NOT_PASS), None)
    if impossible is not None and impossible.reason is not None:
        return Stalled(impossible.reason, first_of(impossible, groups), found)
    return Wait(RESOLVES_AUTOMATICALLY[groups[0].kind], first_of(groups[0], groups), after=2.0, blockers=found)


def first_of(first: Blocker, groups: tuple[Blocker, ...]) -> str:
    """The message of the first blocker, and how many more there are."""
    more = len(groups) - 1
    return first.message + (f" (and {more} more)" if more else "")
