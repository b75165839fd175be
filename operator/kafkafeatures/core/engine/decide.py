"""The one decision of a reconciliation: what is wanted, what is seen, hence what to do now.

Pure: `decide` gets values and returns a value with a reason. Called by `reconcile/evaluate.py`.

The order: another cluster; an older resource owns this one; what was sent and is not settled; nothing to do; mode
Observe; suspend; drift; all blockers; the active controller's dry run; the soak of an irreversible change; windows;
approval; an older resource that may own the cluster; one step. Levels are sent one by one, in the order of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkafeatures.api.names import KRAFT_VERSION
from kafkafeatures.api.reasons import BlockerKind, Condition, Reason
from kafkafeatures.api.status import ApprovedBy, ExcusedTopics
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker, grouped
from kafkafeatures.core.engine.decisions import PARTITIONS_ARE_NOT_NEEDED, Act, Decision, Done, Held, Stalled, Wait
from kafkafeatures.core.engine.memory import NO_MEMORY, Memory
from kafkafeatures.core.engine.plan import HASH_SHOWN, Plan, changes_between, plan_of, undo_of
from kafkafeatures.core.engine.settling import BROKER_KEEPS, Open
from kafkafeatures.core.engine.stages import pods_in
from kafkafeatures.core.engine.steps import DryRun, DryRunRejected, DryRunUnavailable, Step, UnknownStep
from kafkafeatures.core.engine.wanted import ApprovalPolicy, Mode, OnDrift, Wanted
from kafkafeatures.core.engine.windows import closed_until
from kafkafeatures.core.facts.observation import Known, Node, NodeState, Observation, Unknown
from kafkafeatures.core.facts.readings import FailureKind, Role
from kafkafeatures.core.facts.releases import Undo, format_level
from kafkafeatures.core.levels.checks import Question, blockers, quorum_is_known, unknown_features_in
from kafkafeatures.core.levels.soak import LOOK_AGAIN, Soak
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.excuses import excused_now
from kafkafeatures.core.words import counted

if TYPE_CHECKING:  # it judges partitions by numpy, which nobody else needs
    from kafkafeatures.core.roll.stage import Roll

LAG = 0.025
"""Seconds to look again after a level was raised: a broker is told with its next reply, 7 ms later (seen on 4.2). More
where many nodes are asked."""

MOST_CORRECTIONS = 2
"""Foreign changes of one level that are corrected within an hour; after that the other change seems intended."""


class Owner(Struct, frozen=True):
    """An older `Apply` resource: of the same cluster (`known`), or of one that was not read yet.

    `is_acting`: any other one, whose step on this cluster is open.
    """

    name: str
    known: bool
    is_acting: bool = False


class Proposal(Struct, frozen=True):
    """What there is to do. `drifted`: levels that had been reached and were changed outside.

    Where drift is only reported, `changes` leaves it out, unless there is nothing else.
    """

    desired: Mapping[str, int]
    changes: tuple[UpdateFeature, ...]
    drifted: tuple[UpdateFeature, ...]
    plan: Plan
    unverified: tuple[UpdateFeature, ...] = ()  # by a consent that may have been used before the status began
    excused: ExcusedTopics | None = None  # what the roll in progress may make unavailable, by a consent

    @property
    def drift_reason(self) -> Reason:
        """Which way the first drifted level went; only where there is one."""
        return Reason.LEVEL_AHEAD if self.drifted[0].is_downgrade else Reason.LEVEL_BEHIND


def propose(
    wanted: Wanted, observation: Observation, memory: Memory, unavailable: Mapping[str, int] | None = None
) -> Proposal:
    """Changes and plan; both empty where the finalized levels are not known. `unavailable`: topics that no restart of
    their brokers leaves available, and how many of their partitions; None where the partitions were not read.
    """
    finalized = observation.finalized.value if isinstance(observation.finalized, Known) else {}
    desired = wanted.desired(finalized)
    pending = changes_between(desired, finalized) if isinstance(observation.finalized, Known) else ()
    drifted = tuple(change for change in pending if _was_reached(wanted, memory, change))
    ours = tuple(change for change in pending if change not in drifted)
    changes = pending if wanted.on_drift is OnDrift.CORRECT else ours or pending
    excused, excused_is_known = excused_now(wanted, observation, memory, changes=changes, unavailable=unavailable)
    plan = plan_of(
        changes,
        finalized,
        uid=wanted.uid,
        cluster_id=observation.cluster_id.value if isinstance(observation.cluster_id, Known) else "",
        change_count=memory.change_count,
        standing=memory.plan if observation.shows_levels else None,
        pods=pods_in(observation),
        approvals=wanted.approvals,
        may_be_unseen=wanted.may_approve_unseen,
        excused=excused,
        excused_is_known=excused_is_known,
    )
    unverified = tuple(change for change in changes if change.is_downgrade and change.consent in memory.unverified)
    return Proposal(desired, changes, drifted, plan, unverified, excused)


def _was_reached(wanted: Wanted, memory: Memory, change: UpdateFeature) -> bool:
    """A bundle asks for a level or more, so a higher one that was there counts as well."""
    reached = memory.reached.get(change.feature, -1)
    return reached == change.after if change.feature in wanted.levels else reached >= change.after


def to_validate(changes: tuple[UpdateFeature, ...]) -> tuple[UpdateFeature, ...]:
    """What the server is asked about together. Never with kraft.version: some releases raise it while they refuse."""
    return tuple(change for change in changes if change.feature != KRAFT_VERSION)


def decide(
    wanted: Wanted,
    observation: Observation,
    memory: Memory = NO_MEMORY,
    *,
    proposal: Proposal | None = None,
    unsettled: tuple[Step | UnknownStep, ...] = (),
    why_open: Open | None = None,
    verdict: DryRun | None = None,
    owner: Owner | None = None,
    soak: Soak | None = None,
    roll: Roll | None = None,
    log_says: Stalled | Wait | None = None,
) -> Decision:
    """Decide one reconciliation. `verdict`: of exactly `to_validate(propose(...).changes)`, None if it was not asked.

    `proposal`: what `propose` made of the same three, for who needed it before to ask for the verdict. `unsettled`:
    steps that may have been sent and whose outcome is open; `why_open`: what has to be there for it. `owner`: the older
    resource that owns this cluster, or may turn out to. `soak`: what an irreversible change waits for. `roll`: what
    there is to restart. `log_says`: that it is not the log that the status tells of.
    """
    if wanted.cluster_id and memory.cluster_id and wanted.cluster_id != memory.cluster_id:
        return Stalled(
            Reason.CLUSTER_ID_MISMATCH,
            f"the status is of cluster {memory.cluster_id}, the document names {wanted.cluster_id}; "
            "create a separate resource (and state file) for each cluster",
        )
    wrong = _wrong_cluster(observation, wanted.cluster_id or memory.cluster_id, lost=memory.lost_cluster)
    wrong = wrong or log_says
    if wrong is not None:
        return wrong
    owned = owned_by(owner)
    if isinstance(owned, Stalled):
        return owned
    if proposal is None:
        proposal = propose(wanted, observation, memory)
    before = _unsettled(unsettled, why_open) if unsettled else _rolled(wanted, proposal, roll, owned)
    if before is not None:
        return before
    unknown_features = unknown_features_in(wanted.levels, observation)
    # In ZooKeeper mode no level can be finalized, so none is in sync, also where it is 0 and wanted to be.
    readable = not proposal.desired if observation.in_zookeeper_mode else isinstance(observation.finalized, Known)
    if not proposal.changes and not unknown_features and readable:
        done = _read_back(proposal.desired, observation)
        if wanted.mode is Mode.OBSERVE and isinstance(done, Done):
            return Done(Reason.OBSERVED, done.message)
        return done
    question = Question(
        observation, proposal.changes, verdict, wanted.consents, memory.spent, unknown_features, wanted.cluster_flags
    )
    found = blockers(question)
    if wanted.mode is Mode.OBSERVE:
        leaderless = tuple(blocker for blocker in found if blocker.kind is BlockerKind.QUORUM)
        if leaderless:
            return Wait(Reason.WAITING_FOR_QUORUM, leaderless[0].message, after=2.0, blockers=found)
        return Done(Reason.OBSERVED, _would(proposal, found, soak), found)
    if wanted.suspend:
        return Held(Reason.SUSPENDED, f"suspended; {_would(proposal, found, soak)}", found)
    held = _drift(wanted, proposal, memory, found)
    if held is not None:
        return held
    if found:
        return _blocked(found)
    return (
        _no_verdict(proposal, verdict)
        or _not_yet(wanted, observation, proposal, soak)
        or _not_approved(wanted, proposal)
        or owned
        or _passed_on(proposal.changes[0], memory)
        or Act(proposal.changes[0])
    )


def _unsettled(steps: tuple[Step | UnknownStep, ...], still: Open | None) -> Wait | Stalled:
    """Nothing else is sent before it is known what became of what was."""
    unknown = [step.intent.kind or "an intent without a kind" for step in steps if isinstance(step, UnknownStep)]
    if unknown:
        return Stalled(
            Reason.UNKNOWN_INTENT,
            f"status.intents contains {', '.join(unknown)}, which this release cannot read; run the release that "
            "wrote it, or remove the intent once you know its outcome",
        )
    text = (
        f"the outcome of {steps[0]} is unknown; nothing else is sent until the level was read twice; "
        "a request that a broker forwarded is waited for 5 minutes" + (f"; {still.why}" if still and still.why else "")
    )
    return Stalled(Reason.NOT_AUTHORIZED, text) if still and still.rights else Wait(Reason.VERIFYING, text, after=1.0)


def _passed_on(change: UpdateFeature, memory: Memory) -> Wait | None:
    """A broker may deliver a request twice: the second one would undo what was changed in between."""
    left = BROKER_KEEPS - memory.passed_on.get(change.feature, BROKER_KEEPS)
    if left <= timedelta(0):
        return None
    return Wait(
        Reason.VERIFYING,
        f"a broker forwarded the last change of {change.feature}, and may do so again for 5 minutes; {change} is sent "
        "after that; changes that can be sent to the active controller itself (bootstrapControllers) need no such wait",
        after=min(left.total_seconds(), LOOK_AGAIN),
    )


def _rolled(wanted: Wanted, proposal: Proposal, roll: Roll | None, owned: Wait | Stalled | None) -> Decision | None:
    """Nodes are restarted before levels are moved. None where none is, or levels must be downgraded before."""
    decision = roll.decision if roll is not None else None
    if roll is None or decision is None:
        return None
    would = f"would restart {counted(len(roll.needing), 'node')}"
    if wanted.mode is Mode.OBSERVE and roll.in_flight:  # of before; it is followed to its end
        return Wait(Reason.ROLLING_NODES, f"mode Observe; still in flight: {roll.titles_in_flight}", after=1.0)
    if wanted.mode is Mode.OBSERVE:
        if isinstance(decision, Act) or decision == PARTITIONS_ARE_NOT_NEEDED:
            return Done(Reason.OBSERVED, would)
        now = f"now: {decision.message}"
        return Done(Reason.OBSERVED, f"{would}; {now}" if roll.needing else now, decision.blockers)
    if not isinstance(decision, Act):
        if wanted.suspend and isinstance(decision, Wait) and not roll.in_flight:
            return Held(Reason.SUSPENDED, f"suspended; {would}", decision.blockers)
        needed = roll.needing or any(one.left for one in proposal.plan.pods)
        if needed and isinstance(decision, Wait) and not roll.in_flight:
            return _not_approved(wanted, proposal, of_roll=True) or decision  # it can be approved meanwhile
        return decision
    if wanted.suspend:
        if roll.in_flight:
            return Wait(Reason.ROLLING_NODES, f"suspended; still in flight: {roll.titles_in_flight}", after=1.0)
        return Held(Reason.SUSPENDED, f"suspended; {would}")
    held = _not_approved(wanted, proposal, of_roll=True)
    if held is not None and roll.in_flight:
        message = f"{held.message}; still in flight: {roll.titles_in_flight}"
        return Wait(Reason.ROLLING_NODES, message, after=1.0, condition=held.condition)
    return held or owned or decision


def owned_by(owner: Owner | None) -> Wait | Stalled | None:
    """What the older resource means for this one; None where there is none. Asked again right before an act."""
    if owner is None:
        return None
    if owner.known:
        return Stalled(
            Reason.DUPLICATE_OWNER,
            f"{owner.name} is older and owns this cluster; set mode to Observe here, or delete one of the two",
        )
    if owner.is_acting:
        return Wait(
            Reason.VERIFYING,
            f"{owner.name} has changed this cluster; nothing is sent until the outcome is known, for at most 5 minutes",
            after=1.0,
        )
    return Wait(
        Reason.PREFLIGHT, f"{owner.name} is older and may own this cluster; its cluster is not known yet", after=1.0
    )


def _would(proposal: Proposal, found: tuple[Blocker, ...], soak: Soak | None) -> str:
    would = "would change " + (", ".join(str(change) for change in proposal.changes) or "nothing")
    groups = grouped(found)
    if groups:
        return f"{would}; blocked: {_first_of(groups[0], groups)}"
    return f"{would}; {soak}" if soak is not None and not soak.is_over else would


def _not_yet(wanted: Wanted, observation: Observation, proposal: Proposal, soak: Soak | None) -> Wait | None:
    """It soaks, or no window is open. The plan may be approved meanwhile."""
    opens = closed_until(wanted.rollout.windows, observation.at) if wanted.rollout.windows else None
    if soak is not None and not soak.is_over and proposal.changes[0] in soak.changes:
        wait = Wait(Reason.SOAKING, str(soak), after=min(LOOK_AGAIN, soak.left.total_seconds()))
    elif opens is not None:
        at = opens.isoformat(timespec="minutes")
        wait = Wait(Reason.WAITING_FOR_WINDOW, f"the next window of spec.rollout opens at {at}", after=LOOK_AGAIN)
    else:
        return None
    approval = _not_approved(wanted, proposal)
    if approval is None:
        return wait
    return replace(wait, message=f"{wait.message}; {approval.message}", condition=approval.condition)


def _drift(wanted: Wanted, proposal: Proposal, memory: Memory, found: tuple[Blocker, ...]) -> Decision | None:
    """A level that had been reached was changed outside KafkaFeatures: report or correct it, without a fight."""
    if wanted.on_drift is OnDrift.CORRECT:
        for change in proposal.drifted:
            if memory.corrections.get(change.feature, 0) >= MOST_CORRECTIONS:
                return Stalled(
                    Reason.CONFLICT_DETECTED,
                    f"{change.feature} was changed outside KafkaFeatures {MOST_CORRECTIONS + 1} times within an hour; "
                    "find out what else manages it, then update the document",
                    found,
                )
        return None
    if not proposal.drifted or proposal.changes != proposal.drifted:
        return None
    told_changes = ", ".join(
        f"{one.feature} was changed outside KafkaFeatures from {format_level(one.feature, one.after)} to "
        f"{format_level(one.feature, one.before)}"
        for one in proposal.drifted
    )
    return Held(
        Reason.DRIFTED,
        f"drift detected: {told_changes}; set drift.onDrift to Correct to restore it, or set the document to the "
        "finalized level",
        found,
        (Condition.DRIFT_DETECTED, proposal.drift_reason),
    )


def _no_verdict(proposal: Proposal, verdict: DryRun | None) -> Decision | None:
    if isinstance(verdict, DryRunRejected):
        return Stalled(
            Reason.CONTROLLER_REJECTED, f"dry run (validateOnly) rejected by the active controller: {verdict.message}"
        )
    if not to_validate(proposal.changes):
        return None  # kraft.version alone is judged when it is sent
    if isinstance(verdict, DryRunUnavailable) or verdict is None:
        why = verdict.why if verdict else "not run yet"
        if verdict and verdict.rights:
            return Stalled(Reason.NOT_AUTHORIZED, why)
        return Wait(Reason.PREFLIGHT, f"dry run (validateOnly) unavailable: {why}", after=2.0)
    return None


def _not_approved(wanted: Wanted, proposal: Proposal, *, of_roll: bool = False) -> Held | None:
    """`of_roll`: nodes are to be restarted, which can be undone, whatever levels the plan changes afterwards."""
    plan, another = proposal.plan, _another_is_approved(wanted, proposal.plan)
    waits = wanted.policy is ApprovalPolicy.ALWAYS if of_roll else _waits_for_approval(wanted, proposal)
    if not another and (plan.is_approved_by(wanted.approvals) or not waits):
        return None
    what = str(plan)
    if another:
        return Held(
            Reason.APPROVAL_REQUIRED,
            f"the approval is for another plan; the current plan is {plan.hash[:HASH_SHOWN]}: {what}; "
            "approve this plan, or remove the approval",
            condition=(Condition.APPROVAL_REQUIRED, Reason.PLAN_CHANGED),
        )
    why = ""
    if proposal.unverified:
        consent = proposal.unverified[0].consent
        why = f"; it is unknown whether consent {consent!r} was already used: it is older than the status"
    return Held(
        Reason.APPROVAL_REQUIRED,
        f"approve plan {plan.hash[:HASH_SHOWN]}: {what}{why}",
        condition=(Condition.APPROVAL_REQUIRED, Reason.PLAN_PENDING),
    )


def _another_is_approved(wanted: Wanted, plan: Plan) -> bool:
    """Whether a plan was approved that is not this one, also beside this one: that holds everything, under every
    policy.
    """
    given = wanted.approvals | ({wanted.only} - {""})
    return any(not plan.is_approved_by(frozenset({one})) for one in given)


def _waits_for_approval(wanted: Wanted, proposal: Proposal) -> bool:
    """A change that is not safe to undo is approved by being named exactly; one the operator computed, or corrects, is
    not. To correct drift by an irreversible change takes a new approval, whatever the policy; so does a downgrade by a
    consent that may have been used before. On the command line a person is asked.
    """
    if wanted.policy is ApprovalPolicy.ALWAYS or (proposal.unverified and not wanted.may_approve_unseen):
        return True
    if wanted.policy is ApprovalPolicy.NEVER:
        return any(undo_of(change) is Undo.IMPOSSIBLE for change in proposal.changes if change in proposal.drifted)
    return any(
        undo_of(change) is not Undo.SAFE and (change.feature not in wanted.levels or change in proposal.drifted)
        for change in proposal.changes
    )


def _wrong_cluster(observation: Observation, pinned: str, *, lost: bool) -> Decision | None:
    if isinstance(observation.cluster_id, Unknown):
        if observation.cluster_id.why.kind is FailureKind.WRONG_CLUSTER:
            return Stalled(Reason.CLUSTER_ID_MISMATCH, str(observation.cluster_id.why))
        return Wait(Reason.PREFLIGHT, f"the cluster id could not be read: {observation.cluster_id.why}", after=2.0)
    if pinned and observation.cluster_id.value != pinned:
        return Stalled(
            Reason.CLUSTER_ID_MISMATCH,
            f"connected to cluster {observation.cluster_id.value}, expected {pinned}; check the bootstrap addresses",
        )
    if lost and not pinned:
        return Stalled(
            Reason.CLUSTER_ID_MISMATCH,
            f"connected to cluster {observation.cluster_id.value}, and the status no longer says which is expected: "
            "its clusterId was removed, or dropped by an older CustomResourceDefinition; if this is the intended "
            f"cluster, set spec.cluster.clusterId to {observation.cluster_id.value}",
        )
    return None


def _read_back(desired: Mapping[str, int], observation: Observation) -> Decision:
    leaderless = tuple(quorum_is_known(Question(observation, ())))
    if leaderless and not observation.in_zookeeper_mode:
        return _blocked(leaderless)
    behind = [
        (node, feature)
        for node in observation.nodes
        if node.state is NodeState.LIVE
        for feature, level in desired.items()
        if _seen_on(node, feature) not in (level, None)
    ]
    if behind:
        node, feature = behind[0]
        return Wait(
            Reason.VERIFYING,
            f"{node.title} still reports {feature} {_seen_on(node, feature)}"
            + (f", and {len(behind) - 1} more readings are behind" if len(behind) > 1 else ""),
            after=LAG * max(1.0, len(observation.nodes) / 20),
        )
    if not desired:
        return Done(Reason.IN_SYNC, "the document names no level; the cluster is left unchanged")
    told_levels = ", ".join(f"{feature} {format_level(feature, level)}" for feature, level in desired.items())
    return Done(Reason.IN_SYNC, f"finalized and verified on every live node: {told_levels}")


def _seen_on(node: Node, feature: str) -> int | None:
    """None where the node did not answer: a node that is down does not make a cluster unready.

    And for kraft.version on a broker: what brokers say of it differs between releases (KAFKA-18979, KAFKA-18602).
    """
    if feature == KRAFT_VERSION and Role.CONTROLLER not in node.roles:
        return None
    return node.answer.value.finalized.get(feature, 0) if isinstance(node.answer, Known) else None


# What a blocker means: each kind is in one of the two.
_ACTION_REQUIRED: Mapping[BlockerKind, Reason] = {
    BlockerKind.ZOOKEEPER_MODE: Reason.ZOOKEEPER_MODE,
    BlockerKind.DOWNGRADE: Reason.CONSENT_REQUIRED,
    BlockerKind.CONSENT: Reason.CONSENT_REQUIRED,
    BlockerKind.UNKNOWN_FEATURE: Reason.UNKNOWN_FEATURE,
    BlockerKind.GHOST_REGISTRATION: Reason.GHOST_REGISTRATION,
    BlockerKind.REFUSED_NODE: Reason.NODE_REFUSED,
    BlockerKind.DEPENDENCY: Reason.DEPENDENCY_MISSING,
    BlockerKind.RIGHTS: Reason.NOT_AUTHORIZED,
    BlockerKind.WORKLOAD: Reason.ROLLOUT_HALTED,
}
_RESOLVES_AUTOMATICALLY: Mapping[BlockerKind, Reason] = {
    BlockerKind.MIGRATION: Reason.MIGRATING,
    BlockerKind.QUORUM: Reason.WAITING_FOR_QUORUM,
    BlockerKind.NODE_RANGE: Reason.WAITING_FOR_NODES,
    BlockerKind.NODE_UNKNOWN: Reason.WAITING_FOR_NODES,
    BlockerKind.PARTITION: Reason.ROLLING_NODES,
}


def _blocked(found: tuple[Blocker, ...]) -> Decision:
    groups = grouped(found)
    action = [blocker for blocker in groups if blocker.kind in _ACTION_REQUIRED]
    if action:
        return Stalled(action[0].reason or _ACTION_REQUIRED[action[0].kind], _first_of(action[0], groups), found)
    impossible = [blocker for blocker in groups if blocker.reason is Reason.UNSUPPORTED_LEVEL]
    if impossible:
        return Stalled(Reason.UNSUPPORTED_LEVEL, _first_of(impossible[0], groups), found)
    return Wait(_RESOLVES_AUTOMATICALLY[groups[0].kind], _first_of(groups[0], groups), after=2.0, blockers=found)


def _first_of(first: Blocker, groups: tuple[Blocker, ...]) -> str:
    more = len(groups) - 1
    return first.message + (f" (and {more} more)" if more else "")


def approved_by(wanted: Wanted, proposal: Proposal) -> ApprovedBy | None:
    """How the plan was approved; None while it is not, or needs no approval."""
    if proposal.plan.is_over or _another_is_approved(wanted, proposal.plan):
        return None
    if proposal.plan.is_approved_by(wanted.approvals):
        in_document = proposal.plan.is_approved_by(wanted.approvals - {wanted.annotated})
        return ApprovedBy.PLAN_HASH if in_document else ApprovedBy.ANNOTATION
    if all(undo_of(step) is Undo.SAFE for step in proposal.plan.pending) or _waits_for_approval(wanted, proposal):
        return None
    return ApprovedBy.POLICY if wanted.policy is ApprovalPolicy.NEVER else ApprovedBy.NAMED_IN_SPEC
