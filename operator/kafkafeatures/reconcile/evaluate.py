"""One reconciliation up to its decision: observe, settle what was sent before, decide.

    1. Read the cluster. Where no node answers, nothing is decided: `Unread`.
    2. Compare the reading with the status: is it the same cluster, and the log that the status describes? What is
       remembered of one cluster does not count for another.
    3. Settle steps that were sent: close every intent whose outcome shows; read a second time where one is open.
    4. Account for levels that were changed since, by the metadata log; consents that the document no longer has
       may be given again.
    5. Let each kind of stage make its proposal for the plan, and judge its state (`core/kinds.py`).
    6. Close the restarts that are withdrawn or over.
    7. Look for an older owner of the cluster, and have the server judge the next changes (a dry run).
    8. Decide, through the gates (`core/engine/gates.py`); each stage remembers what it needs of the decision.

It sends nothing but a dry run (validateOnly), and writes nothing. `plan` does this alone; `apply` and the operator
continue with `execute` of `reconcile/act.py`. It is level-triggered: a reconciliation starts from the status alone.
What a process remembers besides, the ages of times in the status and the memory of stages, it may lose (`ages.py`).
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkafeatures.api.status import Result, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decide import decide
from kafkafeatures.core.engine.decisions import Stalled, Wait
from kafkafeatures.core.engine.desired_state import DesiredState, Mode
from kafkafeatures.core.engine.gates import GateInput, Owner
from kafkafeatures.core.engine.kind import ReadContext, StageInput
from kafkafeatures.core.engine.memory import Memory, lost_cluster, memory_of
from kafkafeatures.core.engine.stage import StageState, due_in
from kafkafeatures.core.engine.steps import DryRun, InFlight
from kafkafeatures.core.engine.waits import explained
from kafkafeatures.core.facts.observation import Observation, Unknown
from kafkafeatures.core.facts.observe import ClusterUnreachable
from kafkafeatures.core.facts.readings import EarlierMoves, Failure
from kafkafeatures.core.kinds import assess, is_changing, sent_in, without_withdrawn_plan
from kafkafeatures.core.ports import KafkaPort
from kafkafeatures.core.report.history import with_result
from kafkafeatures.core.report.status import status_of_unreachable
from kafkafeatures.core.roll.drivers import driver_of
from kafkafeatures.kafka.base.threads import run_in_thread
from kafkafeatures.reconcile.accounting import accounted, compare_with_log
from kafkafeatures.reconcile.context import ReconcileContext
from kafkafeatures.reconcile.evaluation import Evaluation, Unread
from kafkafeatures.reconcile.look import replication_in
from kafkafeatures.reconcile.ports import Resource
from kafkafeatures.reconcile.reading import is_ours, observe_cluster, read_context_of
from kafkafeatures.reconcile.settle import Settled, settle

if TYPE_CHECKING:
    from kafkafeatures.core.facts.replication import Replication


class _Comparison(Struct, frozen=True):
    """A reading, compared with the status.

    resource: the resource; if a person has accepted a restored log, without what that voids in its status.
    is_ours: the reading is of the cluster and of the metadata log that the status describes.
    log_decision: set if the log is another one than the status describes, or if it could not be read whether it is.
    earlier: changes of levels from before this reading that the status may not have.
    """

    resource: Resource
    is_ours: bool
    log_decision: Stalled | Wait | None = None
    earlier: EarlierMoves = EarlierMoves()


async def evaluate(
    context: ReconcileContext, resource: Resource, *, only_for_restart: bool = False
) -> Evaluation | Unread:
    """Decide on the present state, in the numbered steps above. `only_for_restart`: a moment after a full reading, make
    only those readings once more that a restart depends on.
    """
    read_at, monotonic_read_at = context.environment.monotonic(), context.ages.monotonic()
    read_context = await read_context_of(context, resource)
    observation = await _read(context, resource, read_context, only_for_restart=only_for_restart)
    if isinstance(observation, Failure):
        return _unread(context, resource, read_context, observation)
    compared = await _compare(context, resource, observation)
    settled, replication = await _settle(context, compared, observation)
    observation, remembered = settled.observation, _without_used_up(settled.status, resource.desired)
    facts = _stage_input(context, compared, settled, remembered, replication=replication, read_at=monotonic_read_at)
    proposal, stages = await run_in_thread(partial(assess, facts)) if replication is not None else assess(facts)
    context.ages.stage_memory = dict(chain.from_iterable(stage.stage_memory.items() for stage in stages))
    owner: Owner | None = None
    verdict: DryRun | None = None
    if compared.is_ours:
        remembered = _with_ended(context, replace(remembered, change_count=proposal.plan.change_count), stages)
        owner = _competing_owner(context, resource.desired, observation)
        if not (owner and owner.owns_cluster):
            stages, verdict = await _with_verdict(context.kafka, resource.desired, stages, observation)
    decision = decide(
        GateInput(
            resource.desired, observation, proposal.plan, stages, context.now(), facts.memory, settled.unsettled,
            settled.open_outcome, owner, compared.log_decision,
        )
    )  # fmt: skip
    for stage in stages:
        remembered = stage.decided(decision, remembered)
    decision = explained(decision, resource.status, context.stamp(), context.age_of)
    return Evaluation(
        resource, observation, remembered, proposal, stages, decision, verdict, compared.is_ours, context.now(),
        read_at, compared.log_decision is None,
    )  # fmt: skip


async def _read(
    context: ReconcileContext, resource: Resource, read_context: ReadContext, *, only_for_restart: bool
) -> Observation | Failure:
    try:
        return await observe_cluster(context, resource, read_context, only_for_restart=only_for_restart)
    except ClusterUnreachable as error:
        context.ages.note_failed_reading("the cluster could not be read", _lasting(resource))
        return error.failure


def _unread(context: ReconcileContext, resource: Resource, read_context: ReadContext, failure: Failure) -> Unread:
    from kafkafeatures.core.roll.none_answers import with_pods  # no level needs the pods

    failure = with_pods(failure, read_context.workloads)
    previous = without_withdrawn_plan(resource.status, resource.desired, read_context.workloads)
    status = status_of_unreachable(failure, generation=resource.generation, previous=previous, at=context.now())
    return Unread(resource, failure, status)


def _lasting(resource: Resource) -> list[str]:
    """Times since which steps in flight have been observed in their present state; a failed reading interrupts them."""
    return [since for intent in sent_in(resource.status) for since in intent.seen_since]


async def _compare(context: ReconcileContext, resource: Resource, observation: Observation) -> _Comparison:
    if not is_ours(resource, observation):
        return _Comparison(resource, is_ours=False)
    context.ages.note_reading(_lasting(resource))
    resource, log_decision, earlier = await compare_with_log(
        context.kafka, context.ages, resource, observation, at=context.stamp(), age_of=context.age_of
    )
    return _Comparison(resource, not isinstance(log_decision, Stalled), log_decision, earlier)


async def _settle(
    context: ReconcileContext, compared: _Comparison, observation: Observation
) -> tuple[Settled, Replication | None]:
    """Settle steps that were sent, and account for changes of levels; neither where another cluster answers."""
    resource, replication = compared.resource, await replication_in(observation)
    if not compared.is_ours:
        return Settled(observation, resource.status), replication
    settled = await settle(context, resource, observation, replication)
    if settled.observation is not observation:
        replication = await replication_in(settled.observation)
    status = accounted(resource, settled.status, settled.observation, compared.earlier.moves)
    return replace(settled, status=status), replication


def _without_used_up(status: Status, desired: DesiredState) -> Status:
    """The status without spent consents that the document no longer has. If they are added again, they count as new."""
    current_consents = {*desired.consents, desired.accepted_log}
    spent_consents = tuple(consent for consent in status.spent_consents if consent in current_consents)
    return replace(status, spent_consents=spent_consents)


def _stage_input(
    context: ReconcileContext,
    compared: _Comparison,
    settled: Settled,
    remembered: Status,
    *,
    replication: Replication | None,
    read_at: float,
) -> StageInput:
    if compared.is_ours:
        memory = memory_of(remembered, context.age_of, context.known_for)
    else:  # another cluster has neither drift nor an approved plan
        memory = Memory(remembered.cluster_id, lost_cluster(remembered))
    desired = compared.resource.desired
    return StageInput(
        desired, settled.observation, memory, remembered, settled.followed, context.now(), context.age_of,
        context.known_for, ours=compared.is_ours, restarts=_restarts_nodes(context, desired), replication=replication,
        monotonic=context.ages.monotonic(), read_at=read_at, stage_memory=context.ages.stage_memory,
        is_changing=is_changing(remembered),
    )  # fmt: skip


def _with_ended(context: ReconcileContext, status: Status, stages: tuple[StageState, ...]) -> Status:
    """The status with the steps closed that are withdrawn or over, and with what each stage has to remember."""

    def closed(intent: InFlight, result: Result, message: str = "") -> Status:
        return with_result(status, intent, result, at=context.stamp(), age_of=context.age_of, message=message)

    for stage in stages:
        for intent, reason in stage.withdrawn:
            status = closed(intent, Result.NOT_APPLIED, reason)
        for intent, result in stage.over:
            status = closed(intent, result)
        status = stage.remembered(status)
    return status


def _competing_owner(context: ReconcileContext, desired: DesiredState, observation: Observation) -> Owner | None:
    if desired.mode is not Mode.APPLY or isinstance(observation.cluster_id, Unknown):
        return None
    return context.competing_owner(observation.cluster_id.value)


def _restarts_nodes(context: ReconcileContext, desired: DesiredState) -> bool:
    """Tell whether this process can have nodes restarted: by a person on request, or through pods, which the command
    line cannot.
    """
    driver = driver_of(desired.rollout)
    return driver.asks_people or (driver.reads_pods and context.workloads is not None)


async def _with_verdict(
    kafka: KafkaPort, desired: DesiredState, stages: tuple[StageState, ...], observation: Observation
) -> tuple[tuple[StageState, ...], DryRun | None]:
    """The stages, with the active controller's answer to a dry run of all changes that are due; None where none is
    made: nothing is due, or the resource only observes or is suspended.
    """
    stage = due_in(stages)
    if not stage.dry_run or not observation.in_kraft_mode or desired.suspend or desired.mode is Mode.OBSERVE:
        return stages, None
    verdict = await kafka.validate(stage.dry_run)
    return tuple(candidate.with_verdict(verdict) if candidate is stage else candidate for candidate in stages), verdict
