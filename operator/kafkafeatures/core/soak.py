"""The soak before an irreversible change: since when every node has been healthy on a binary that holds its target, and
until when one can still go back.

Pure. Asked by `reconcile/evaluate.py` in every reconciliation, whatever is decided then; what it says is part of the
status, and all that is remembered of it. `core/decide.py` holds a change back while it lasts. What was not seen is not
healthy: a node that does not answer, a range that cannot be read, a restart that is not over.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec import Struct

from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import PlanStatus, Status, WayBack
from kafkafeatures.api.values import replace
from kafkafeatures.core.memory import AgeOf
from kafkafeatures.core.observation import NodeState, Observation
from kafkafeatures.core.plan import undo_of
from kafkafeatures.core.releases import Undo, format_level
from kafkafeatures.core.restarts import RestartNode
from kafkafeatures.core.steps import UpdateFeature
from kafkafeatures.core.wanted import Wanted

LOOK_AGAIN = 10.0
"""Seconds between two looks while it lasts: a node that fails is to be seen."""


class Soak(Struct, frozen=True):
    """`changes`: the irreversible ones that wait for it. `lasts`: as the document says.

    `started_at` None: it has not begun, and `why_not` says why. `left`: what remains of it; zero once it is over.
    """

    changes: tuple[UpdateFeature, ...]
    lasts: timedelta
    started_at: Stamp | None
    left: timedelta
    why_not: str = ""

    @property
    def is_over(self) -> bool:
        return self.left <= timedelta(0)

    @property
    def until(self) -> Stamp | None:
        """When it is over, by the clock of who wrote the stamp; None while it has not begun, and once it is over."""
        if self.started_at is None or self.is_over:
            return None
        try:
            over = datetime.fromisoformat(self.started_at).astimezone(UTC) + self.lasts
        except OverflowError:  # of a stamp that no clock ever showed
            return None
        return Stamp(over.strftime("%Y-%m-%dT%H:%M:%SZ"))

    def __str__(self) -> str:
        """Without times that pass: a status that says the same is not written again."""
        waits = f"{_names(self.changes)} is finalized once every node has been healthy for {duration(self.lasts)}"
        when = f", not before {self.until}" if self.until else ""
        return f"soaking: {waits}{when}" + (f"; not begun yet: {self.why_not}" if self.why_not else "")


def soak_of(
    wanted: Wanted,
    observation: Observation,
    changes: tuple[UpdateFeature, ...],
    remembered: Status,
    *,
    age_of: AgeOf,
    now: Stamp,
) -> Soak | None:
    """None where nothing has to soak. `changes`: all that are pending. `remembered`: with what is not settled in it."""
    irreversible = tuple(change for change in changes if undo_of(change) is Undo.IMPOSSIBLE)
    if not irreversible or not wanted.finalize_after:
        return None
    # What is sent to Kafka stops no node; a restart does, and what another release had begun may.
    restarts = any(intent.kind != UpdateFeature.kind for intent in remembered.intents)
    why_not = "a restart is in progress" if restarts else _why_not_healthy(observation, irreversible)
    if why_not:
        return Soak(irreversible, wanted.finalize_after, None, wanted.finalize_after, why_not)
    begun = remembered.soak_started_at if _is_of_this(remembered.plan, irreversible) else None
    started_at = begun or now
    return Soak(irreversible, wanted.finalize_after, started_at, wanted.finalize_after - age_of(started_at))


def with_soak(remembered: Status, soak: Soak | None) -> Status:
    """The status with what is to be remembered of it, and the way back as long as there surely is one."""
    if soak is None:
        if remembered.soak_started_at is None and remembered.way_back is None:
            return remembered
        return replace(remembered, soak_started_at=None, way_back=None)
    sent = any(intent.kind != RestartNode.kind for intent in remembered.intents)  # and may be carried out at any moment
    way_back = None if sent else WayBack(until=soak.until, how=_how(soak))
    return replace(remembered, soak_started_at=soak.started_at, way_back=way_back)


def duration(lasts: timedelta) -> str:
    """As a document says it."""
    seconds = int(lasts.total_seconds())
    return next(
        f"{seconds // unit}{letter}" for unit, letter in ((3600, "h"), (60, "m"), (1, "s")) if not seconds % unit
    )


def _why_not_healthy(observation: Observation, changes: tuple[UpdateFeature, ...]) -> str:
    """Of the first node that is not; empty where all are."""
    for node in observation.nodes:
        if node.state is not NodeState.LIVE:
            return f"{node.title} is {node.state.value}"
        for change in changes:
            if node.surely_holds(change.feature, change.after):
                continue
            supported = node.known_range_of(change.feature)
            if supported is None:
                return f"what {node.title} supports of {change.feature} is not known"
            if change.after not in supported:
                return f"{node.title} supports {change.feature} {supported}"
    return ""


def _is_of_this(plan: PlanStatus | None, changes: tuple[UpdateFeature, ...]) -> bool:
    """Whether the soak was of these targets: of others nobody knows since when every node has held them."""
    soaked = [stage.target for stage in plan.stages] if plan is not None else []
    return all(any(target.get(change.feature) == change.after for target in soaked) for change in changes)


def _how(soak: Soak) -> str:
    levels = ", ".join(_level(change, change.before) for change in soak.changes)
    return f"set the document to {levels}, then downgrade Kafka on the nodes; to stay at these levels, suspend"


def _names(changes: tuple[UpdateFeature, ...]) -> str:
    return ", ".join(_level(change, change.after) for change in changes)


def _level(change: UpdateFeature, level: int) -> str:
    return f"{change.feature} {format_level(change.feature, level)}"
