"""What people read on a resource: a decision and an observation made into its status.

Pure. The status holds facts that were read, never what is intended: `finalized` is what some node or the log said.
Called by `reconcile/evaluate.py` and `reconcile/controller.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from kafkafeatures.api.names import METADATA_VERSION, SINGLE_REPLICA_TOPICS
from kafkafeatures.api.reasons import BlockerKind, Condition, Reason
from kafkafeatures.api.records import keeping_unknown, stamp
from kafkafeatures.api.status import (
    EMPTY,
    ApprovedBy,
    BlockerStatus,
    FeatureState,
    FeatureStatus,
    PlanStatus,
    Status,
    StepState,
    StepStatus,
)
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker, grouped, title_and_address, verb
from kafkafeatures.core.engine.decide import Proposal
from kafkafeatures.core.engine.decisions import Act, Decision, Done, Held, Stalled, Wait
from kafkafeatures.core.engine.plan import Plan, may_lose_metadata, undo_of
from kafkafeatures.core.engine.stages import LEVELS, ROLL
from kafkafeatures.core.facts.observation import Node, Observation, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.facts.releases import Undo, format_level, level_name
from kafkafeatures.core.levels.checks import unknown_features_in
from kafkafeatures.core.levels.soak import with_soak
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.report.bounds import bounded
from kafkafeatures.core.report.cluster_document import or_none, supported_by_all
from kafkafeatures.core.report.conditions import Said, conditions_of, ready_reason_of, still_said
from kafkafeatures.core.roll.report import nodes_rolled, rollout_status, workload_statuses
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.core.words import cut

if TYPE_CHECKING:  # it judges partitions by numpy, which nobody else needs
    from kafkafeatures.core.roll.stage import Roll

MAX_BLOCKERS = 20
MAX_FEATURES = 64
MAX_FEATURE_NAME = 64  # as long as a document may write it; a broker says what it likes
MAX_WORDS = 512  # bytes of a blocker's message, and of its remedy


def status_of(
    decision: Decision,
    observation: Observation,
    proposal: Proposal,
    *,
    generation: int,
    previous: Status,
    version: str,
    now: datetime,
    approved_by: ApprovedBy | None = None,
    roll: Roll | None = None,
) -> Status:
    """The whole status after a reconciliation. What it does not decide (intents, history, pinned id) is kept."""
    desired, blocked = proposal.desired, () if isinstance(decision, Act) else decision.blockers
    unread = not observation.shows_levels
    names = observation.feature_names()
    features = feature_states(observation, proposal, blocked, names)
    there_are = len({*names, *desired})
    if unread and previous.features:
        features = previous.features  # what was reached stays reached while the levels are not known
        there_are = len(features)
    plan = previous.plan if unread else None
    if plan is None and not proposal.plan.is_over:
        plan = _plan(proposal.plan, previous.plan, approved_by, now)
    reached = sum(one.finalized == desired.get(one.name, -1) and one.state == FeatureState.IN_SYNC for one in features)
    groups, ready = grouped(blocked), _ready(decision)
    status = Status(
        observed_generation=generation,
        progress=f"{reached}/{len(desired)} levels" if desired else "",
        cluster_id=previous.cluster_id or or_none(observation.cluster_id) or "",
        operator_version=version,
        source=observation.source.kind.value,
        change_count=previous.change_count,
        spent_consents=previous.spent_consents,
        unverified_consents=previous.unverified_consents,
        log_position=previous.log_position,
        way_back=None if isinstance(decision, Act) and isinstance(decision.step, UpdateFeature) else previous.way_back,
        soak_started_at=previous.soak_started_at,
        metadata_mode=str(or_none(observation.mode) or ""),
        metadata_version=_level_named(observation.level_of(METADATA_VERSION) or None),
        target_metadata_version=_level_named(desired.get(METADATA_VERSION)),
        features=features,
        blockers=tuple(blocker_status(blocker) for blocker in groups[:MAX_BLOCKERS]),
        blockers_total=len(groups),
        plan=plan,
        intents=previous.intents,
        workloads=workload_statuses(observation, previous),
        rollout=rollout_status(roll, decision, previous.rollout, stamp(now), proposal.excused),
        history=previous.history,
        ready_reason=ready_reason_of(ready[1], previous, stamp(now)),
        conditions=conditions_of(
            {
                Condition.READY: ready,
                Condition.RECONCILING: _reconciling(decision),
                Condition.STALLED: _stalled(decision),
                Condition.REACHABLE: _reachable(observation),
                Condition.FEATURES_FINALIZED: _finalized(decision, proposal, observation),
                Condition.NODES_ROLLED: nodes_rolled(roll, decision),
                Condition.APPROVAL_REQUIRED: _approval(decision),
                Condition.DRIFT_DETECTED: _drift(proposal),
            },
            generation=generation,
            previous=previous,
            at=stamp(now),
        ),
        unknown=previous.unknown,
    )
    return bounded(keeping_unknown(status, previous), there_are)


def _plan(plan: Plan, before: PlanStatus | None, approved_by: ApprovedBy | None, now: datetime) -> PlanStatus:
    return PlanStatus(
        hash=plan.hash,
        created_at=before.created_at if before is not None and before.hash == plan.hash else stamp(now),
        approved_by=approved_by.value if approved_by else "",
        irreversible=plan.irreversible,
        summary=cut(str(plan), MAX_WORDS),
        stages=plan.stages,
        steps=tuple(steps_of(plan)),
    )


def blocker_status(blocker: Blocker) -> BlockerStatus:
    """One blocker as in `status.blockers` and in plan documents."""
    return BlockerStatus(
        kind=blocker.kind.value,
        node_id=blocker.node.id if blocker.node is not None else None,
        roles=tuple(role.value for role in blocker.nodes[0].roles) if blocker.nodes else (),
        feature=blocker.feature,
        supported_min=blocker.supported.min if blocker.supported is not None else None,
        supported_max=blocker.supported.max if blocker.supported is not None else None,
        wanted=blocker.wanted if blocker.wanted >= 0 else None,
        message=cut(blocker.message, MAX_WORDS),
        remedy=cut(blocker.remedy, MAX_WORDS),
    )


def steps_of(plan: Plan) -> Iterator[StepStatus]:
    """The steps as in `status.plan` and in plan documents, in the order of the stages."""
    by_kind = {ROLL: tuple(_restarts(plan)), LEVELS: tuple(_changes(plan))}
    steps = (step for stage in plan.stages for step in by_kind.get(stage.kind, ()))
    for number, step in enumerate(steps, start=1):
        costs = plan.costs if number == 1 else ""
        consent = SINGLE_REPLICA_TOPICS if costs and not step.consent else step.consent
        yield replace(step, id=str(number), detail=f"{step.detail}{costs}", consent=consent)


def _changes(plan: Plan) -> Iterator[StepStatus]:
    for step in plan.steps:
        undo, name = undo_of(step), level_name(step.feature, step.after)
        if may_lose_metadata(step):
            undo = Undo.LOSSY
        yield StepStatus(
            id="",
            action=step.kind,
            detail=f"{step} ({name})" if name else str(step),
            reversible=undo is Undo.SAFE,
            undo=undo.value,
            consent=step.consent,
            state=(StepState.PENDING if step in plan.pending else StepState.DONE).value,
        )


def _restarts(plan: Plan) -> Iterator[StepStatus]:
    """One of each StatefulSet, however many pods it has."""
    for pods in plan.pods:
        yield StepStatus(
            id="",
            action=RestartNode.kind,
            detail=str(pods),
            reversible=True,
            undo=Undo.SAFE.value,
            state=(StepState.PENDING if pods.left else StepState.DONE).value,
        )


def status_of_wrong_cluster(decision: Decision, *, generation: int, previous: Status, now: datetime) -> Status:
    """Another cluster answers, or one that cannot be told: nothing of it is written down, the conditions say so."""
    stalled = _stalled(decision)
    previous = with_soak(previous, None)  # its own was not seen
    return _facts_of_before(
        {
            Condition.READY: _ready(decision),
            Condition.RECONCILING: _reconciling(decision),
            Condition.STALLED: stalled,
            Condition.REACHABLE: ("True", Reason.PARTIALLY_CONNECTED, _ready(decision)[2]),
            Condition.FEATURES_FINALIZED: ("Unknown", Reason.UNKNOWN, "the cluster could not be read"),
            **({} if stalled else still_said(previous, generation)),
        },
        generation=generation,
        previous=previous,
        now=now,
    )


def status_of_unreachable(failure: Failure, *, generation: int, previous: Status, now: datetime) -> Status:
    """Nothing could be read: the facts of before stay, the conditions say so. What was not seen was not healthy."""
    message, previous = str(failure), with_soak(previous, None)
    reason = _UNREACHABLE.get(failure.kind, Reason.BOOTSTRAP_UNREACHABLE)
    return _facts_of_before(
        {
            Condition.READY: ("Unknown", Reason.UNREACHABLE, message),
            Condition.REACHABLE: ("False", reason, message),
            Condition.FEATURES_FINALIZED: ("Unknown", Reason.UNKNOWN, "the cluster could not be read"),
            **still_said(previous, generation),
        },
        generation=generation,
        previous=previous,
        now=now,
    )


def status_of_pending(*, generation: int, now: datetime) -> Status:
    """The first word about a resource, before its cluster was asked."""
    said = {Condition.READY: ("Unknown", Reason.PENDING, "not reconciled yet")}
    return _facts_of_before(said, generation=generation, previous=EMPTY, now=now)


def status_of_invalid(reason: Reason, message: str, *, generation: int, previous: Status, now: datetime) -> Status:
    """The resource cannot be understood, so its cluster was not asked: what was read before stays."""
    said = {
        Condition.READY: ("False", reason, message),
        Condition.STALLED: ("True", reason, message),
        **still_said(previous, generation),
    }
    return _facts_of_before(said, generation=generation, previous=previous, now=now)


def status_of_failed_reconciliation(message: str, *, generation: int, previous: Status, now: datetime) -> Status:
    """The reconciliation itself failed: a bug of ours, said where people look. It is tried again."""
    said = {
        Condition.READY: ("False", Reason.INTERNAL_ERROR, message),
        Condition.RECONCILING: ("True", Reason.INTERNAL_ERROR, message),
        **still_said(previous, generation),
    }
    return _facts_of_before(said, generation=generation, previous=previous, now=now)


def _facts_of_before(said: Mapping[Condition, Said], *, generation: int, previous: Status, now: datetime) -> Status:
    conditions = conditions_of(said, generation=generation, previous=previous, at=stamp(now))
    ready = said[Condition.READY]
    since = ready_reason_of(ready[1], previous, stamp(now)) if ready else None
    status = replace(previous, observed_generation=generation, conditions=conditions, ready_reason=since)
    return bounded(keeping_unknown(status, previous), len(previous.features))


_UNREACHABLE: Mapping[FailureKind, Reason] = {
    FailureKind.TLS: Reason.TLS_FAILED,
    FailureKind.AUTHENTICATION: Reason.AUTHENTICATION_FAILED,
    FailureKind.CREDENTIALS: Reason.CREDENTIALS_INVALID,
    FailureKind.FORBIDDEN: Reason.ADDRESS_REFUSED,
}


def feature_states(
    observation: Observation, proposal: Proposal, blocked: tuple[Blocker, ...], there: tuple[str, ...]
) -> tuple[FeatureStatus, ...]:
    """Every feature with what is wanted of it, and how far that is. Of very many, those that are wanted. `there`: those
    of the cluster.
    """
    names = dict.fromkeys((*there, *proposal.desired))
    shown = sorted(
        (name for name in names if len(name) <= MAX_FEATURE_NAME), key=lambda name: name not in proposal.desired
    )
    features = []
    for name, supported in supported_by_all(observation, sorted(shown[:MAX_FEATURES], key=[*names].index)).items():
        features.append(
            FeatureStatus(
                name=name,
                supported_min=supported.min if supported is not None else None,
                supported_max=supported.max if supported is not None else None,
                finalized=observation.level_of(name),
                desired=proposal.desired.get(name),
                state=_state_of(name, observation, proposal, blocked).value,
            )
        )
    return tuple(features)


def _state_of(name: str, observation: Observation, proposal: Proposal, blocked: tuple[Blocker, ...]) -> FeatureState:
    if name not in proposal.desired:
        return FeatureState.UNMANAGED
    if any(blocker.kind is BlockerKind.ZOOKEEPER_MODE for blocker in blocked):
        return FeatureState.BLOCKED
    if observation.level_of(name) == proposal.desired[name] and observation.shows_levels:
        return FeatureState.IN_SYNC
    if any(change.feature == name for change in proposal.drifted):
        return FeatureState.DRIFTED
    return FeatureState.BLOCKED if any(blocker.feature == name for blocker in blocked) else FeatureState.PENDING


def _level_named(level: int | None) -> str:
    return "" if level is None else level_name(METADATA_VERSION, level) or str(level)


def _ready(decision: Decision) -> tuple[str, Reason, str]:
    match decision:
        case Done(reason, message):
            return "True", reason, message
        case Act(step):
            return "False", *step.in_progress
        case Wait(reason, message):
            return "False", reason, message
        case Stalled(reason, message) | Held(reason, message):
            return "False", reason, message


def _stalled(decision: Decision) -> Said:
    return ("True", decision.reason, decision.message) if isinstance(decision, Stalled) else None


def _approval(decision: Decision) -> Said:
    if isinstance(decision, Held | Wait) and decision.condition is not None:
        kind, reason = decision.condition
        return ("True", reason, decision.message) if kind is Condition.APPROVAL_REQUIRED else None
    return None


def _drift(proposal: Proposal) -> Said:
    if not proposal.drifted:
        return None
    moved = ", ".join(
        f"{one.feature} was changed outside KafkaFeatures from {format_level(one.feature, one.after)} to "
        f"{format_level(one.feature, one.before)}"
        for one in proposal.drifted
    )
    return "True", proposal.drift_reason, moved


def _reconciling(decision: Decision) -> Said:
    match decision:
        case Act(step):
            return "True", *step.in_progress
        case Wait(reason, message):
            return "True", reason, message
        case _:
            return None


def _reachable(observation: Observation) -> Said:
    """A node that is down is reported here, even if it blocks nothing. Without times: they change."""
    silent: dict[tuple[Role, ...], list[Node]] = {}
    for node in observation.nodes:
        if isinstance(node.answer, Unknown) and node.answer.why.kind is not FailureKind.NOT_ASKED:
            silent.setdefault(node.roles, []).append(node)
    missing = [*map(str, observation.gaps), *(_silent(tuple(nodes)) for nodes in silent.values())]
    if missing:
        return "True", Reason.PARTIALLY_CONNECTED, "; ".join(missing)
    return "True", Reason.CONNECTED, f"{len(observation.nodes)} nodes seen"


def _silent(nodes: tuple[Node, ...]) -> str:
    return f"{title_and_address(nodes)} {verb(nodes, 'does', 'do')} not answer"


def _finalized(decision: Decision, proposal: Proposal, observation: Observation) -> Said:
    if isinstance(observation.finalized, Unknown):
        return "Unknown", Reason.UNKNOWN, str(observation.finalized.why)
    if not proposal.desired:
        return "True", Reason.NOTHING_DESIRED, "the document names no level"
    unknown_features = unknown_features_in(proposal.desired, observation)
    if not isinstance(decision, Act) and not proposal.changes and decision.blockers:
        if isinstance(decision, Wait):
            return "Unknown", Reason.UNKNOWN, decision.message  # without a leader they cannot be confirmed
        return "False", Reason.BLOCKED, "see blockers"
    if not proposal.changes and not unknown_features:  # whatever else was decided: of the levels, this was read
        levels = ", ".join(f"{feature} {format_level(feature, level)}" for feature, level in proposal.desired.items())
        return "True", Reason.ALL_AT_TARGET, decision.message if isinstance(decision, Done) else f"finalized: {levels}"
    if not isinstance(decision, Act) and decision.blockers:
        return "False", Reason.BLOCKED, "see blockers"
    unknown = (f"no node supports {feature}" for feature, _ in unknown_features)
    return "False", Reason.BEHIND_TARGET, ", ".join((*map(str, proposal.changes), *unknown))
