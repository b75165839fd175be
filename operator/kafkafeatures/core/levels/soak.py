"""The soak before an irreversible change of a level: the time for which every node must have been healthy on a Kafka
that supports the level, and during which the change can still be avoided.

Pure. Called by `core/levels/stage.py` in every reconciliation, whatever is decided; the status shows the soak, and
`core/engine/gates.py` holds the change back while it lasts. A node counts as healthy only by proof: not if it does not
answer, its range cannot be read, a restart is not over, or the operator did not read the cluster for a while. Only a
controller that may not be asked counts by its pod (`core/facts/inferred.py`); the dry run proves its range. Only the
memory of this process counts, never a status: a process that has just started begins the soak anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct, field

from kafkafeatures.api.records import Stamp, stamp
from kafkafeatures.api.status import Status, WayBack
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.kind import StageInput
from kafkafeatures.core.facts.membership import by_id
from kafkafeatures.core.facts.observation import NOT_SUPPORTED, Known, Node, NodeState, Observation
from kafkafeatures.core.facts.releases import Undo, format_level
from kafkafeatures.core.levels.proposal import LEVELS
from kafkafeatures.core.levels.update_feature import UpdateFeature

LOOK_AGAIN = 10.0
"""Seconds between two readings while the soak is waited for, so that a node that fails is noticed."""
LOOKS_WITHIN = 30.0
"""Most seconds until the next reading once the soak has begun, even if something else is waited for."""
LONGEST_GAP = 2 * LOOKS_WITHIN
"""Most seconds between two readings. After a longer gap it is unknown whether every node has been healthy."""


class Soak(Struct, frozen=True):
    """A soak, as this process knows it.

    changes: the irreversible changes that wait for it.
    lasts: its duration, from the document.
    started_at: when it began; None if it has not begun.
    remaining: the time left; zero or less once the soak is over.
    why_not: reason why it has not begun; empty once it has.
    anew: reason why the soak before this one was given up; empty for the first soak.
    of: uid of the resource, and id of the cluster. A soak of another resource or cluster does not count.
    began, looked: begin of the soak and time of the last reading, in seconds of the monotonic clock.
    processes: identity of the observed process by node id; empty text if it is not known. Another one means a restart.
    leader_epoch: highest epoch of the quorum's leader so far; -1 if it is not known.
    """

    changes: tuple[UpdateFeature, ...]
    lasts: timedelta
    started_at: Stamp | None
    remaining: timedelta
    why_not: str = ""
    anew: str = ""
    of: tuple[str, str] = ("", "")
    began: float = 0.0
    looked: float = 0.0
    processes: Mapping[int, str] = field(default_factory=dict)
    leader_epoch: int = -1

    @property
    def is_over(self) -> bool:
        """Tell whether every node has been healthy for long enough."""
        return self.remaining <= timedelta(0)

    @property
    def until(self) -> Stamp | None:
        """End of the soak, by the clock that wrote its start; None before it has begun, and once it is over."""
        if self.started_at is None or self.is_over:
            return None
        try:
            return stamp(datetime.fromisoformat(self.started_at) + self.lasts)
        except OverflowError:  # a time near the end of the year 9999
            return None

    def __str__(self) -> str:
        """Message without a remaining time, which would change the status with each reconciliation."""
        waits = f"{_names(self.changes)} is finalized once every node has been healthy for {duration(self.lasts)}"
        end = f", not before {self.until}" if self.until else ""
        if self.started_at is None:
            return f"soaking: {waits}; not begun yet: {self.why_not}"
        return f"soaking: {waits}{end}" + (f"; started over at {self.started_at}: {self.anew}" if self.anew else "")

    def interrupted(self, reason: str) -> Soak:
        """The soak after a reconciliation in which the cluster could not be read: it has to begin anew."""
        anew = reason if self.started_at is not None else self.anew  # one that had not begun was not given up either
        return replace(self, started_at=None, remaining=self.lasts, why_not=reason, anew=anew)

    def broken_by(self, facts: StageInput, changes: tuple[UpdateFeature, ...]) -> str:
        """Reason why it is unknown whether every node has been healthy since the last reading; empty if it is known."""
        if not set(changes) <= set(self.changes):
            return "the level that it is for was changed"  # it is unknown since when nodes support another level
        if facts.monotonic - self.looked > LONGEST_GAP:
            return (
                f"the cluster was not observed for more than {LONGEST_GAP:.0f} s; if this repeats, give the operator "
                "more CPU and check how long Kafka and the API server take to answer"
            )
        for node in facts.observation.nodes:
            previous, current = self.processes.get(node.id), _process(node)
            if previous is None:
                return f"{node.title} was added"
            if current and current != previous:
                return f"{node.title} was restarted" if previous else f"the registration of {node.title} was not known"
        # A restarted controller answers before its new registration is in the log; a new leader epoch shows it earlier.
        if self.leader_epoch >= 0 and _leader_epoch(facts.observation) > self.leader_epoch:
            return "another controller became active, or the same one anew"
        return ""


def soak_of(facts: StageInput, changes: tuple[UpdateFeature, ...]) -> Soak | None:
    """The soak after this reading; None if no change needs one, or another cluster answers. `changes`: all pending
    changes.

    A node may fail unnoticed while the cluster is being read. So a soak begins at the end of its first reading, and its
    duration so far is measured up to the begin of the latest one.
    """
    irreversible = tuple(change for change in changes if change.undo is Undo.IMPOSSIBLE)
    desired, observation = facts.desired, facts.observation
    lasts = desired.finalize_after
    if not facts.ours or not irreversible or not lasts:
        return None
    of = desired.uid, observation.cluster_id.value if isinstance(observation.cluster_id, Known) else ""
    previous = facts.stage_memory.get(LEVELS)
    if not isinstance(previous, Soak) or previous.of != of:
        previous = None
    # A change of a level stops no node; a restart does, and a step of another release may.
    restarts = any(intent.kind != UpdateFeature.kind for intent in facts.remembered.intents)
    why_not = "a restart is in progress" if restarts else _why_not_healthy(observation, irreversible)
    soak = Soak(
        irreversible, lasts, None if why_not else facts.stamp, lasts, why_not, of=of, began=facts.monotonic,
        looked=facts.monotonic, processes=_processes(observation, previous), leader_epoch=_leader_epoch(observation),
    )  # fmt: skip
    if previous is None:
        has_begun = facts.remembered.soak_started_at is not None
        return replace(soak, anew=(why_not or "the process that observed it was restarted") if has_begun else "")
    if previous.started_at is None:  # nothing is given up now: keep the reason of the soak that was given up before
        return replace(soak, anew=previous.anew)
    anew = why_not or previous.broken_by(facts, irreversible)
    if anew:
        return replace(soak, anew=anew)
    return replace(
        soak, started_at=previous.started_at, remaining=lasts - timedelta(seconds=facts.read_at - previous.began),
        anew=previous.anew, began=previous.began, leader_epoch=max(soak.leader_epoch, previous.leader_epoch),
    )  # fmt: skip


def with_soak(remembered: Status, soak: Soak | None, *, is_changing: bool = False) -> Status:
    """The status with the soak, and with the way back for as long as there surely is one. `is_changing`: a step is in
    flight; once it is carried out, which may be at any moment, there may be no way back.
    """
    if soak is None:
        if remembered.soak_started_at is None and remembered.way_back is None:
            return remembered
        return replace(remembered, soak_started_at=None, way_back=None)
    foreign = remembered.way_back.unknown if remembered.way_back is not None else {}  # fields of another release
    way_back = None if is_changing else WayBack(until=soak.until, how=_way_back_text(soak), unknown=foreign)
    return replace(remembered, soak_started_at=soak.started_at, way_back=way_back)


def duration(lasts: timedelta) -> str:
    """The duration in the form that a document has, such as 36h: in the largest unit of which it is a multiple."""
    seconds = int(lasts.total_seconds())
    return next(
        f"{seconds // unit}{letter}" for unit, letter in ((3600, "h"), (60, "m"), (1, "s")) if not seconds % unit
    )


def _why_not_healthy(observation: Observation, changes: tuple[UpdateFeature, ...]) -> str:
    """Reason why a node is not healthy, for the first such node; empty if all are healthy."""
    for node in observation.nodes:
        if node.state is not NodeState.LIVE and node.inferred is None:
            return f"{node.title} is {node.state.value}"
        for change in changes:
            if node.surely_holds(change.feature, change.to_level):
                continue
            supported = node.known_range_of(change.feature)
            if supported is None and node.inferred is not None:
                supported = node.inferred.ranges.get(change.feature, NOT_SUPPORTED)
            if supported is None:
                return f"what {node.title} supports of {change.feature} is not known"
            if change.to_level not in supported:
                return f"{node.title} supports {change.feature} {supported}"
    return ""


def _leader_epoch(observation: Observation) -> int:
    return observation.quorum.value.leader_epoch if isinstance(observation.quorum, Known) else -1


def _processes(observation: Observation, previous_soak: Soak | None) -> dict[int, str]:
    """Identity of the process of each node, by id. While it cannot be read, the previous one is kept."""
    previous = previous_soak.processes if previous_soak is not None else {}
    nodes = by_id(observation.nodes)
    return {id_: _process(node) or previous.get(id_, "") for id_, node in nodes.items()}


def _process(node: Node) -> str:
    """Identity of the process, new with each start, from its registration: broker epoch and incarnation id; else from
    the pod of a controller that may not be asked; empty if it is not known.
    """
    if node.inferred is not None:
        return node.inferred.process
    return f"{node.broker_epoch} {node.incarnation}" if node.incarnation else ""


def _way_back_text(soak: Soak) -> str:
    """The way back in words, for the status."""
    levels = ", ".join(_level(change, change.from_level) for change in soak.changes)
    return f"set the document to {levels}, then downgrade Kafka on the nodes; to stay at these levels, suspend"


def _names(changes: tuple[UpdateFeature, ...]) -> str:
    return ", ".join(_level(change, change.to_level) for change in changes)


def _level(change: UpdateFeature, level: int) -> str:
    return f"{change.feature} {format_level(change.feature, level)}"
