"""Status of a resource, made from a decision and an observation.

Pure. Called by the modules of `reconcile/`, and for its steps by documents and texts of a plan. What a status says of
the cluster was read, and is never what is only intended: `finalized`, for example, was read from a node or the log.
What belongs to one kind of stage is added by that stage (`StageState.reported`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import chain

from kafkafeatures.api.names import SINGLE_REPLICA_TOPICS
from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.records import keeping_unknown, stamp
from kafkafeatures.api.status import (
    EMPTY,
    ApprovedBy,
    PlanStatus,
    Status,
    StepStatus,
)
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import grouped, title_and_address, verb
from kafkafeatures.core.engine.decisions import Act, Decision, Done, Held, Stalled, Wait
from kafkafeatures.core.engine.desired_state import ClientRequirements
from kafkafeatures.core.engine.plan import Plan
from kafkafeatures.core.engine.stage import Conditions, ConditionText, StageState
from kafkafeatures.core.engine.waits import since_of, subject_of
from kafkafeatures.core.facts.observation import Node, Observation, Unknown
from kafkafeatures.core.facts.readings import NO_ANSWER, Failure, FailureKind, Role
from kafkafeatures.core.levels.soak import with_soak
from kafkafeatures.core.migration.not_desired import kept_of
from kafkafeatures.core.report.blockers import MAX_WORDS, blocker_status
from kafkafeatures.core.report.bounds import bounded
from kafkafeatures.core.report.clients_document import clients_reported, clients_unread
from kafkafeatures.core.report.cluster_document import or_none
from kafkafeatures.core.report.conditions import conditions_of, lasting_conditions
from kafkafeatures.core.words import cut

MAX_BLOCKERS = 20
"""Most blockers in a status, which also has their total number."""


def status_of(
    decision: Decision,
    observation: Observation,
    plan: Plan,
    stages: tuple[StageState, ...],
    *,
    generation: int,
    previous: Status,
    version: str,
    now: datetime,
    approved_by: ApprovedBy | None = None,
    clients: ClientRequirements | None = None,
) -> Status:
    """The whole status after a reconciliation that read the cluster. Intents and history are those of `previous`; a
    cluster id that it has is never replaced.
    """
    groups, ready = grouped(decision.blockers), _ready(decision)
    statements: dict[Condition, ConditionText] = {
        Condition.READY: ready,
        Condition.RECONCILING: _reconciling(decision),
        Condition.STALLED: _stalled(decision),
        Condition.REACHABLE: _reachable(observation),
        Condition.APPROVAL_REQUIRED: _approval(decision),
    }
    status = Status(
        observed_generation=generation,
        cluster_id=previous.cluster_id or or_none(observation.cluster_id) or "",
        operator_version=version,
        source=observation.source.kind.value,
        change_count=previous.change_count,
        spent_consents=previous.spent_consents,
        unverified_consents=previous.unverified_consents,
        log_position=previous.log_position,
        metadata_mode=str(or_none(observation.mode) or ""),
        blockers=tuple(blocker_status(blocker) for blocker in groups[:MAX_BLOCKERS]),
        blockers_total=len(groups),
        plan=_planned(plan, observation, previous.plan, approved_by, now),
        intents=previous.intents,
        migration=kept_of(previous.migration, observation),
        history=previous.history,
        ready_reason=since_of(ready[1], subject_of(decision), previous, stamp(now)),
        last_handled_reconcile_at=previous.last_handled_reconcile_at,
        notified=previous.notified,
        unknown=previous.unknown,
    )
    client_conditions, section = clients_reported(clients, observation, previous, now)
    statements.update(client_conditions)
    status = replace(status, clients=section)
    for stage in stages:
        statements.update(stage.conditions(decision))
        status = stage.reported(decision, status, previous)
    status = _dated(status)
    in_order = {kind: statements[kind] for kind in Condition if kind in statements}
    conditions = conditions_of(in_order, generation=generation, previous=previous, at=stamp(now))
    names = {*observation.feature_names(), *(feature.name for feature in status.features)}
    feature_count = len(names) if observation.shows_levels else len(status.features)
    return bounded(keeping_unknown(replace(status, conditions=conditions), previous), feature_count)


def _dated(status: Status) -> Status:
    """The status whose roll waits since the time at which Ready got its present reason."""
    if status.rollout is None or not status.rollout.waiting_for:
        return status
    since = status.ready_reason.since if status.ready_reason is not None else None
    return replace(status, rollout=replace(status.rollout, waiting_since=since))


def _planned(
    plan: Plan,
    observation: Observation,
    previous: PlanStatus | None,
    approved_by: ApprovedBy | None,
    at: datetime,
) -> PlanStatus | None:
    """`status.plan`: None once the plan is over; the previous one while the levels are not known."""
    if previous is not None and not observation.shows_levels:
        return previous
    return None if plan.is_over else _plan(plan, previous, approved_by, at)


def _plan(plan: Plan, previous: PlanStatus | None, approved_by: ApprovedBy | None, at: datetime) -> PlanStatus:
    return PlanStatus(
        hash=plan.hash,
        created_at=previous.created_at if previous is not None and previous.hash == plan.hash else stamp(at),
        approved_by=approved_by.value if approved_by else "",
        irreversible=plan.irreversible,
        summary=cut(str(plan), MAX_WORDS),
        stages=plan.stages,
        steps=tuple(steps_of(plan)),
    )


def steps_of(plan: Plan) -> Iterator[StepStatus]:
    """Steps as in `status.plan` and in plan documents, in the order of the stages."""
    steps = chain.from_iterable(work.steps for work in plan.work)
    for number, step in enumerate(steps, start=1):
        costs = plan.costs if number == 1 else ""
        consent = SINGLE_REPLICA_TOPICS if costs and not step.consent else step.consent
        yield replace(step, id=str(number), detail=f"{step.detail}{costs}", consent=consent)


def status_of_wrong_cluster(decision: Decision, *, generation: int, previous: Status, at: datetime) -> Status:
    """Status where another cluster answers, or one whose id is not known: the previous one with other conditions. A
    soak ends.
    """
    stalled = _stalled(decision)
    previous = with_soak(previous, None)  # its own cluster was not read
    return _with_other_conditions(
        {
            Condition.READY: _ready(decision),
            Condition.RECONCILING: _reconciling(decision),
            Condition.STALLED: stalled,
            Condition.REACHABLE: ("True", Reason.PARTIALLY_CONNECTED, _ready(decision)[2]),
            Condition.FEATURES_FINALIZED: ("Unknown", Reason.UNKNOWN, "the cluster could not be read"),
            **clients_unread(previous),
            **({} if stalled else lasting_conditions(previous, generation)),
        },
        generation=generation,
        previous=previous,
        at=at,
        subject=subject_of(decision),
    )


def status_of_unreachable(failure: Failure, *, generation: int, previous: Status, at: datetime) -> Status:
    """Status where nothing could be read: the previous one with other conditions. A soak ends."""
    message, previous = str(failure), with_soak(previous, None)
    reason = UNREACHABLE_BECAUSE.get(failure.kind, Reason.BOOTSTRAP_UNREACHABLE)
    return _with_other_conditions(
        {
            Condition.READY: ("Unknown", Reason.UNREACHABLE, message),
            Condition.REACHABLE: ("False", reason, message),
            Condition.FEATURES_FINALIZED: ("Unknown", Reason.UNKNOWN, "the cluster could not be read"),
            **clients_unread(previous),
            **lasting_conditions(previous, generation),
        },
        generation=generation,
        previous=previous,
        at=at,
    )


def status_of_pending(*, generation: int, at: datetime) -> Status:
    """First status of a resource, before its cluster was read."""
    statements = {Condition.READY: ("Unknown", Reason.PENDING, "not reconciled yet")}
    return _with_other_conditions(statements, generation=generation, previous=EMPTY, at=at)


def status_of_invalid(reason: Reason, message: str, *, generation: int, previous: Status, at: datetime) -> Status:
    """Status of an invalid document, for which no cluster was read: the previous one with other conditions."""
    statements = {
        Condition.READY: ("False", reason, message),
        Condition.STALLED: ("True", reason, message),
        **lasting_conditions(previous, generation),
    }
    return _with_other_conditions(statements, generation=generation, previous=previous, at=at)


def status_of_failed_reconciliation(message: str, *, generation: int, previous: Status, at: datetime) -> Status:
    """Status after a reconciliation that failed because of a defect of the operator, and will be tried again."""
    statements = {
        Condition.READY: ("False", Reason.INTERNAL_ERROR, message),
        Condition.RECONCILING: ("True", Reason.INTERNAL_ERROR, message),
        **lasting_conditions(previous, generation),
    }
    return _with_other_conditions(statements, generation=generation, previous=previous, at=at)


def _with_other_conditions(
    statements: Conditions, *, generation: int, previous: Status, at: datetime, subject: str = ""
) -> Status:
    """The previous status with other conditions. `subject`: what the condition Ready waits for; empty for nothing."""
    conditions = conditions_of(statements, generation=generation, previous=previous, at=stamp(at))
    ready = statements[Condition.READY]
    since = since_of(ready[1], subject, previous, stamp(at)) if ready else None
    status = replace(previous, observed_generation=generation, conditions=conditions, ready_reason=since)
    return bounded(keeping_unknown(status, previous), len(previous.features))


UNREACHABLE_BECAUSE: Mapping[FailureKind, Reason] = {
    FailureKind.TLS: Reason.TLS_FAILED,
    FailureKind.AUTHENTICATION: Reason.AUTHENTICATION_FAILED,
    FailureKind.CREDENTIALS: Reason.CREDENTIALS_INVALID,
    FailureKind.FORBIDDEN: Reason.ADDRESS_REFUSED,
}
"""Reason of the condition Reachable by the kind of failure, for kinds that have one of their own."""


def _ready(decision: Decision) -> tuple[str, Reason, str]:
    return "True" if isinstance(decision, Done) else "False", decision.reason, decision.message


def _stalled(decision: Decision) -> ConditionText:
    return ("True", decision.reason, decision.message) if isinstance(decision, Stalled) else None


def _approval(decision: Decision) -> ConditionText:
    if isinstance(decision, Held | Wait) and decision.condition is not None:
        kind, reason = decision.condition
        return ("True", reason, decision.message) if kind is Condition.APPROVAL_REQUIRED else None
    return None


def _reconciling(decision: Decision) -> ConditionText:
    return ("True", decision.reason, decision.message) if isinstance(decision, Act | Wait) else None


def _reachable(observation: Observation) -> ConditionText:
    """Condition Reachable. It names nodes that do not answer even if they block nothing. It has no times: they would
    change, and the status be written again, in every reconciliation. For the same reason it does not tell apart the
    causes that alternate while a node is away.
    """
    silent: dict[tuple[tuple[Role, ...], FailureKind | None], list[tuple[Node, Failure]]] = {}
    for node in observation.nodes:
        if isinstance(node.answer, Unknown) and node.answer.failure.kind is not FailureKind.NOT_ASKED:
            failure = node.answer.failure
            kind = None if failure.kind in NO_ANSWER else failure.kind
            silent.setdefault((node.roles, kind), []).append((node, failure))
    missing = [*map(str, observation.gaps), *map(_silent, silent.values())]
    if missing:
        return "True", Reason.PARTIALLY_CONNECTED, "; ".join(missing)
    return "True", Reason.CONNECTED, f"{len(observation.nodes)} nodes seen"


def _silent(failures: list[tuple[Node, Failure]]) -> str:
    """Text on nodes of the same roles, whose failures are of the same kind."""
    nodes, failure = tuple(node for node, _ in failures), failures[0][1]
    if failure.kind in NO_ANSWER:
        return f"{title_and_address(nodes)} {verb(nodes, 'does', 'do')} not answer"
    return f"{title_and_address(nodes)}: {verb(nodes, '', 'for example ')}{failure.message}; {failure.action}"
