"""The gates between a plan and its next step, in order: the first closed gate decides.

Pure. A gate is a function that returns None if it is open, else the decision that holds the next step back. Called by
`core/engine/decide.py` for stages of all kinds: no kind has an order of its own. `reconcile/last_second.py` checks the
owner again. A closed gate stops new steps only: a step that is in flight is followed to its end. Gates that hold back
the next step are open while no stage has one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cached_property

from msgspec import Struct

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.approval import hold_until_approved
from kafkafeatures.core.engine.decisions import Act, Decision, Done, Held, Stalled, Wait, unreadable, waits_on
from kafkafeatures.core.engine.desired_state import DesiredState, Mode
from kafkafeatures.core.engine.memory import NO_MEMORY, Memory
from kafkafeatures.core.engine.plan import Plan
from kafkafeatures.core.engine.settling import OpenOutcome
from kafkafeatures.core.engine.stage import StageState, due_in
from kafkafeatures.core.engine.steps import Step, UnknownStep
from kafkafeatures.core.engine.windows import closed_until, opening
from kafkafeatures.core.facts.observation import Observation, Unknown
from kafkafeatures.core.facts.readings import FailureKind

FOLLOWED = "bring back what is in flight; its progress is in status.rollout"
"""Remedy while steps in flight are followed to their end, and no other step begins."""
LONGEST_NAP = 60.0
"""Most seconds until the next reconciliation while a window is waited for."""


class Owner(Struct, frozen=True):
    """Another resource that prevents this one from acting: an older one with mode Apply, or one that is acting now.

    owns_cluster: it is older, and for this cluster. False: it is older, but its cluster was not read yet; or it only
        acts on this cluster.
    is_acting: it has a step in flight on this cluster, whatever its age.
    """

    name: str
    owns_cluster: bool
    is_acting: bool = False


class GateInput(Struct, frozen=True, dict=True):
    """Everything that the gates look at.

    stages: one state for each kind, in the order in which they are carried out.
    unsettled: steps that may have been sent and whose outcome is unknown.
    open_outcome: what is missing to determine their outcome.
    owner: the resource that owns this cluster, or may own it.
    log_decision: decision if the metadata log is not the one that the status describes, such as after a restore from a
        backup (`core/levels/accounted.py`).
    """

    desired: DesiredState
    observation: Observation
    plan: Plan
    stages: tuple[StageState, ...]
    current_time: datetime
    memory: Memory = NO_MEMORY
    unsettled: tuple[Step | UnknownStep, ...] = ()
    open_outcome: OpenOutcome | None = None
    owner: Owner | None = None
    log_decision: Stalled | Wait | None = None

    @cached_property
    def stage(self) -> StageState:
        """The stage whose turn it is; where none has anything to do, the one that sums up the cluster."""
        return due_in(self.stages)


Gate = Callable[[GateInput], Decision | None]


def cluster(inputs: GateInput) -> Decision | None:
    """Open if this is the cluster of the status and of the document, with the metadata log that was read before."""
    pinned, memory = inputs.desired.cluster_id, inputs.memory
    if pinned and memory.cluster_id and pinned != memory.cluster_id:
        return Stalled(
            Reason.CLUSTER_ID_MISMATCH,
            f"the status is of cluster {memory.cluster_id}, the document names {pinned}; "
            "create a separate resource (and state file) for each cluster",
            subject="spec.cluster",
            remedy="create a separate resource (and state file) for each cluster",
        )
    wrong = _wrong_cluster(inputs.observation, pinned or memory.cluster_id, lost=memory.lost_cluster)
    return wrong or _wrong_ensemble(inputs.observation) or inputs.log_decision


def _wrong_ensemble(observation: Observation) -> Stalled | None:
    """Halt where ZooKeeper's answers are those of another cluster's ensemble: they say nothing of this cluster, and
    nothing may be deleted there. None once a migration is finalized: then ZooKeeper is no longer needed.
    """
    zookeeper = observation.zookeeper
    if (
        observation.has_left_zookeeper
        or not isinstance(zookeeper, Unknown)
        or zookeeper.failure.kind is not FailureKind.WRONG_CLUSTER
    ):
        return None
    failure = zookeeper.failure
    return Stalled(Reason.CLUSTER_ID_MISMATCH, str(failure), subject=failure.location, remedy=failure.remedy)


def _wrong_cluster(observation: Observation, pinned: str, *, lost: bool) -> Decision | None:
    if isinstance(observation.cluster_id, Unknown):
        if observation.cluster_id.failure.kind is FailureKind.WRONG_CLUSTER:
            failure = observation.cluster_id.failure
            return Stalled(Reason.CLUSTER_ID_MISMATCH, str(failure), subject=failure.subject, remedy=failure.action)
        return unreadable("the cluster id could not be read", observation.cluster_id.failure)
    if pinned and observation.cluster_id.value != pinned:
        return Stalled(
            Reason.CLUSTER_ID_MISMATCH,
            f"connected to cluster {observation.cluster_id.value}, expected {pinned}; check the bootstrap addresses",
            subject="spec.cluster",
            remedy="check the bootstrap addresses",
        )
    if lost and not pinned:
        return Stalled(
            Reason.CLUSTER_ID_MISMATCH,
            f"connected to cluster {observation.cluster_id.value}, and the status no longer says which is expected: "
            "its clusterId was removed, or dropped by an older CustomResourceDefinition; if this is the intended "
            f"cluster, set spec.cluster.clusterId to {observation.cluster_id.value}",
            subject="status.clusterId",
            remedy=f"set spec.cluster.clusterId to {observation.cluster_id.value}",
        )
    return None


def owner(inputs: GateInput) -> Decision | None:
    """Open if no older resource owns the cluster. Doubt is left to `claim`, so that the stages report first."""
    owned = owned_by(inputs.owner)
    return owned if isinstance(owned, Stalled) else None


def owned_by(owner: Owner | None) -> Wait | Stalled | None:
    """Decision if another resource owns the cluster or may own it; None if there is none. Called again right before a
    step is sent.
    """
    if owner is None:
        return None
    if owner.owns_cluster:
        return Stalled(
            Reason.DUPLICATE_OWNER,
            f"{owner.name} is older and owns this cluster; set mode to Observe here, or delete one of the two",
            subject=owner.name,
            remedy="set mode to Observe here, or delete one of the two",
        )
    if owner.is_acting:
        return Wait(
            Reason.VERIFYING,
            f"{owner.name} has changed this cluster; nothing is sent until the outcome is known, for at most 5 minutes",
            delay=1.0,
            subject=owner.name,
            remedy=f"see the status of {owner.name}, and set mode to Observe there if it is to change nothing",
        )
    return Wait(
        Reason.PREFLIGHT,
        f"{owner.name} is older and may own this cluster; its cluster is not known yet",
        delay=1.0,
        subject=owner.name,
        remedy=f"make the cluster of {owner.name} reachable, or delete {owner.name}",
    )


def unsettled(inputs: GateInput) -> Decision | None:
    """Open if the outcome of every step that was sent is known."""
    steps, open_outcome = inputs.unsettled, inputs.open_outcome
    if not steps:
        return None
    unknown = [step.intent.kind or "an intent without a kind" for step in steps if isinstance(step, UnknownStep)]
    first = next((step for step in steps if not isinstance(step, UnknownStep)), None)
    if unknown or first is None:
        return Stalled(
            Reason.UNKNOWN_INTENT,
            f"status.intents contains {', '.join(unknown)}, which this release cannot read; run the release that "
            "wrote it, or remove the intent once you know its outcome",
            subject="status.intents",
            remedy="run the release that wrote it, or remove the intent once you know its outcome",
        )
    text = f"the outcome of {first} is unknown; nothing else is sent until {first.settled_by}" + (
        f"; {open_outcome.reason}" if open_outcome and open_outcome.reason else ""
    )
    if open_outcome and open_outcome.rights:
        return Stalled(
            Reason.NOT_AUTHORIZED, text, subject=str(first), remedy="grant this principal the right that is missing"
        )
    remedy = f"make the cluster reachable: {first.settled_by} is needed"
    return Wait(Reason.VERIFYING, text, delay=1.0, subject=str(first), remedy=remedy)


def mode(inputs: GateInput) -> Decision | None:
    """Open if the document lets the operator act, not only observe."""
    stage = inputs.stage
    if inputs.desired.mode is not Mode.OBSERVE:
        return None
    if not stage.is_due:
        return Done(Reason.OBSERVED, stage.next.message) if isinstance(stage.next, Done) else None
    if stage.work_in_flight is not None:  # begun before the mode was changed; followed to its end
        return _beside_work(inputs, "mode Observe")
    # Without a quorum nothing is observed for certain: a wait, so that the cluster is read again soon.
    leaderless = next((blocker for blocker in stage.blockers if blocker.kind is BlockerKind.QUORUM), None)
    if leaderless is not None:
        wait = waits_on(leaderless, Reason.WAITING_FOR_QUORUM, message=leaderless.message)
        return replace(wait, blockers=stage.blockers)
    return Done(Reason.OBSERVED, stage.outlook, stage.blockers)


def suspend(inputs: GateInput) -> Decision | None:
    """Open if the resource is not suspended."""
    stage = inputs.stage
    if not inputs.desired.suspend or not stage.is_due:
        return None
    if stage.work_in_flight is not None:
        return _beside_work(inputs, "suspended")
    return Held(Reason.SUSPENDED, f"suspended; {stage.outlook}", stage.blockers)


def drift(inputs: GateInput) -> Decision | None:
    """Open if no level that had been reached was changed outside KafkaFeatures, or if such drift is to be corrected."""
    return inputs.stage.drift


def blockers(inputs: GateInput) -> Decision | None:
    """Open if nothing prevents the step, and the dry run of the active controller accepts it."""
    return inputs.stage.blocked


def soak(inputs: GateInput) -> Decision | None:
    """Open once every node has been healthy for long enough, where the next step is irreversible."""
    wait = inputs.stage.soaking
    return None if wait is None else _with_missing_approval(inputs, wait)


def window(inputs: GateInput) -> Decision | None:
    """Open inside a maintenance window of the document, if it has none, or for a stage that may go at any time."""
    stage, windows = inputs.stage, inputs.desired.rollout.windows
    if not windows or not stage.is_due or stage.goes_at_any_time:
        return None
    opens = closed_until(windows, inputs.current_time)
    if opens is None:
        return None
    text = opening(opens)
    if stage.work_in_flight is not None:
        return _beside_work(inputs, text)
    seconds = max(1.0, (opens - inputs.current_time).total_seconds())
    wait = Wait(
        Reason.WAITING_FOR_WINDOW, text, delay=min(seconds, LONGEST_NAP), is_dated=True,
        subject="spec.rollout.windows", remedy="wait until it opens, or change spec.rollout.windows",
    )  # fmt: skip
    return _with_missing_approval(inputs, wait)


def approval(inputs: GateInput) -> Decision | None:
    """Open if the plan is approved or needs no approval, and no other plan is approved."""
    unapproved = _unapproved(inputs)
    if unapproved is None or inputs.stage.work_in_flight is None:
        return unapproved
    waits = _beside_work(inputs, unapproved.message)
    return None if waits is None else replace(waits, condition=unapproved.condition)


def claim(inputs: GateInput) -> Decision | None:
    """Open if no other resource may own the cluster or has a step in flight on it. It holds back only steps, not the
    report of other decisions.
    """
    return owned_by(inputs.owner) if isinstance(inputs.stage.next, Act) else None


GATES: tuple[Gate, ...] = (cluster, owner, unsettled, mode, suspend, drift, blockers, soak, window, approval, claim)
"""The gates of all kinds of stages, in their order; `docs/explanation/how-it-decides.md` explains each."""


def _unapproved(inputs: GateInput) -> Held | None:
    """Decision if the plan has to be approved and is not; None if it is, or if nothing is to be done."""
    stage, plan = inputs.stage, inputs.plan
    if not stage.is_due or (plan.is_over and not isinstance(stage.next, Act)):
        return None
    waits = stage.waits_for_approval(inputs.desired)
    return hold_until_approved(
        inputs.desired, plan, waits=waits, unverified=stage.unverified, pending=stage.approval_reason
    )


def _with_missing_approval(inputs: GateInput, wait: Wait) -> Wait:
    """The wait, with a request for a missing approval added: people need not wait to approve the plan."""
    unapproved = _unapproved(inputs)
    if unapproved is None:
        return wait
    return replace(wait, message=f"{wait.message}; {unapproved.message}", condition=unapproved.condition)


def _beside_work(inputs: GateInput, held: str) -> Wait | None:
    """Wait until the steps in flight end, if the stage would begin another step; else None, as the stage's own decision
    says what it waits for. `held`: why no other step begins.
    """
    work = inputs.stage.work_in_flight
    if work is None or not isinstance(inputs.stage.next, Act):
        return None
    reason, titles = work
    return Wait(reason, f"{held}; still in flight: {titles}", delay=1.0, subject=titles, remedy=FOLLOWED)
