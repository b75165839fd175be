"""One reconciliation up to its decision: observe, settle what was sent before, decide.

Sends nothing but a validateOnly, and writes nothing. `plan` is this alone; `apply` and the operator continue with
`execute` of `reconcile/act.py`. Level-triggered: nothing is remembered from one reconciliation to the next but the
status, and how old the moments in it are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkafeatures import __version__
from kafkafeatures.api.records import Stamp, keeping_unknown, stamp
from kafkafeatures.api.status import ApprovedBy, Result, Status, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.approval import approved_by
from kafkafeatures.core.engine.decide import decide
from kafkafeatures.core.engine.decisions import Decision, Stalled
from kafkafeatures.core.engine.desired_state import DesiredState, Mode
from kafkafeatures.core.engine.gates import GateInput, Owner
from kafkafeatures.core.engine.kind import ReadContext, StageInput
from kafkafeatures.core.engine.memory import Memory, lost_cluster, memory_of, remembering
from kafkafeatures.core.engine.plan import Proposal
from kafkafeatures.core.engine.settling import ObservationPair, OpenOutcome
from kafkafeatures.core.engine.stage import StageState, due_in
from kafkafeatures.core.engine.steps import DryRun, InFlight, Step, UnknownStep, why_unjudged
from kafkafeatures.core.engine.waits import explained
from kafkafeatures.core.facts.observation import Observation, Unknown
from kafkafeatures.core.facts.observe import ClusterUnreachable
from kafkafeatures.core.facts.readings import EarlierMoves, Failure
from kafkafeatures.core.kinds import assess, in_flight, is_changing, sent_in, without_withdrawn_plan
from kafkafeatures.core.levels.accounted import missing_in, position_of, sent_by
from kafkafeatures.core.levels.update_feature import what_is_there
from kafkafeatures.core.ports import KafkaPort, WorkloadPort, ZooKeeperPort
from kafkafeatures.core.report.history import with_result
from kafkafeatures.core.report.status import status_of, status_of_unreachable, status_of_wrong_cluster
from kafkafeatures.core.roll.drivers import driver_of
from kafkafeatures.kafka.base.threads import run_in_thread
from kafkafeatures.reconcile.accounting import accounted, held_against_the_log
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.look import Ports, look, look_again, pods, replication_in
from kafkafeatures.reconcile.ports import Resource, ResourceStore

if TYPE_CHECKING:
    from kafkafeatures.core.facts.replication import Replication

SETTLE_SECONDS = 1.0
"""Between the two readings that settle an unknown outcome: longer than a replica fetch (500 ms at most while idle)."""

CompetingOwner = Callable[[str], Owner | None]
"""From a cluster id to the older resource that owns the cluster, or may turn out to own it."""


def no_other_owner(cluster_id: str) -> Owner | None:
    """No other resource owns a cluster: on the command line there are none."""
    return None


class EffectRecord(Struct, frozen=True):
    """A step that leaves this process: of which resource, which cluster the decision was made on, and which way."""

    resource: str
    cluster_id: str
    step: Step
    via: Via


Effects = Callable[[EffectRecord], None]
"""Hears of each step right before it leaves the process."""


def ignore(effect: EffectRecord) -> None:
    """No log of effects is kept."""


class ReconcileContext(Struct, frozen=True):
    """The injected context of a reconciliation. `before_act` may raise: then nothing is written or sent.

    `effects` is called right before a step is sent, `on_settled` once no step of this resource can still be on its way.
    `ages` is the same for all reconciliations of a resource in a process. `hand_over`: seconds for which another
    process may still send what its intent says. `workloads`: None where no pods are restarted. `zookeeper`: None where
    nothing of ZooKeeper is wanted. `is_stopping`: this process was asked to end, and begins nothing new.
    """

    store: ResourceStore
    kafka: KafkaPort
    clock: Callable[[], datetime]
    sleep: Callable[[float], Awaitable[None]]
    monotonic: Callable[[], float]
    ages: Ages
    competing_owner: CompetingOwner = no_other_owner
    before_act: Callable[[Evaluation], None] = lambda _: None
    effects: Effects = ignore
    on_settled: Callable[[], None] = lambda: None
    workloads: WorkloadPort | None = None
    zookeeper: ZooKeeperPort | None = None
    hand_over: float = 0.0
    is_stopping: Callable[[], bool] = lambda: False

    @property
    def ports(self) -> Ports:
        """The ports to all that is looked at."""
        return Ports(self.kafka, self.workloads, self.zookeeper)

    def stamp(self) -> Stamp:
        return stamp(self.clock())

    def age_of(self, moment: str) -> timedelta:
        """The age of a stamp of the status."""
        return self.ages.of(moment, self.clock())

    def known_for(self, moment: str) -> timedelta:
        """The part of that age that this process has lived through: no clock that was set makes it longer."""
        return self.ages.known_for(moment, self.clock())

    def on_its_way(self, moment: str) -> timedelta:
        """For how long what was intended then may still be sent, by another process than this one."""
        return timedelta(seconds=0.0 if self.ages.is_ours(moment) else self.hand_over)


class Unread(Struct, frozen=True):
    """No node of the cluster could be asked."""

    resource: Resource
    failure: Failure
    status: Status


class Evaluation(Struct, frozen=True):
    """A reconciliation on paper.

    `remembered`: the status of before with what is known of it now: what was settled is closed in it. `stages`: where
    each stage stands. `verdict` None: there was nothing to ask the server about. `ours` False: another cluster answers,
    or one whose id is not known. `read_at`: before anything of it was read, in seconds of `ReconcileContext.monotonic`.
    `is_accounted`: `remembered` has all that the metadata log shows of levels.
    """

    resource: Resource
    observation: Observation
    remembered: Status
    proposal: Proposal
    stages: tuple[StageState, ...]
    decision: Decision
    verdict: DryRun | None
    ours: bool
    current_time: datetime
    read_at: float = -inf
    is_accounted: bool = False

    @property
    def desired(self) -> DesiredState:
        return self.resource.desired

    @property
    def approved_by(self) -> ApprovedBy | None:
        """The way in which the plan was approved; None while it is not, or needs no approval."""
        waits = any(stage.waits_for_approval(self.desired) for stage in self.stages)
        return approved_by(self.desired, self.proposal.plan, waits=waits)

    @property
    def status(self) -> Status:
        """The status that reports the evaluation."""
        if not self.ours:
            previous = replace(self.resource.status, spent_consents=self.remembered.spent_consents)
            return status_of_wrong_cluster(
                self.decision, generation=self.resource.generation, previous=previous, at=self.current_time
            )
        status = status_of(
            self.decision,
            self.observation,
            self.proposal.plan,
            self.stages,
            generation=self.resource.generation,
            previous=self.remembered,
            version=__version__,
            now=self.current_time,
            approved_by=self.approved_by,
        )
        position = position_of(self.observation) if self.is_accounted and not sent_by(status) else None
        if position is None or (status == self.resource.status and status.log_position is not None):
            return status  # the end of the log moves all the time: it goes with what is written anyway
        return keeping_unknown(replace(status, log_position=position), status)

    def with_decision(self, context: ReconcileContext, decision: Decision, remembered: Status) -> Evaluation:
        """This evaluation with a decision that was changed at the last moment. What was to be done does not interrupt
        what the status of before waited for.
        """
        previous_status = self.resource.status
        remembered = replace(
            remembered, conditions=previous_status.conditions, ready_reason=previous_status.ready_reason
        )
        decision = explained(decision, previous_status, context.stamp(), context.age_of)
        return replace(self, decision=decision, remembered=remembered)


async def evaluate(context: ReconcileContext, resource: Resource, *, again: bool = False) -> Evaluation | Unread:
    """Decide on what is there now. Looks a second time where a step was sent and its outcome is open.

    `again`: only what a restart is decided on is read once more, a moment after all of it was.
    """
    read_at, by_age = context.monotonic(), context.ages.monotonic()
    read_context = await _asked(context, resource)
    lasting = [since for intent in sent_in(resource.status) for since in intent.seen_since]
    try:
        observation = await (
            look_again(context.ports, read_context) if again else _look(context, resource, read_context)
        )
    except ClusterUnreachable as error:
        context.ages.interrupted("the cluster could not be read", lasting)
        from kafkafeatures.core.roll.none_answers import with_pods  # no level needs the pods

        failure = with_pods(error.failure, read_context.workloads)
        previous = without_withdrawn_plan(resource.status, resource.desired, read_context.workloads)
        status = status_of_unreachable(failure, generation=resource.generation, previous=previous, at=context.clock())
        return Unread(resource, failure, status)
    original_resource, wanted, ours = resource, resource.desired, is_ours(resource, observation)
    log_says, earlier = None, EarlierMoves()
    if ours:
        context.ages.looked(lasting)
        resource, log_says, earlier = await held_against_the_log(
            context.kafka, context.ages, resource, observation, at=context.stamp(), age_of=context.age_of
        )
        ours = not isinstance(log_says, Stalled)
    remembered = resource.status
    unsettled: tuple[Step | UnknownStep, ...] = ()
    why_open = OpenOutcome()
    followed: tuple[InFlight, ...] = ()
    replication = await replication_in(observation)
    if ours:  # another cluster tells nothing about what became of what was sent to ours
        first = observation
        observation, remembered, followed, unsettled, why_open = await _settled(context, resource, first, replication)
        replication = replication if observation is first else await replication_in(observation)
        remembered = accounted(resource, remembered, observation, earlier.moves)
    current_consents = {*wanted.consents, wanted.accepted_log}
    remembered = replace(
        remembered,
        spent_consents=tuple(consent for consent in remembered.spent_consents if consent in current_consents),
    )
    # What is remembered of one cluster is nothing to another: there it is neither drift nor an approved plan.
    memory = (
        memory_of(remembered, context.age_of, context.known_for)
        if ours
        else Memory(remembered.cluster_id, lost_cluster(remembered))
    )
    facts = StageInput(
        wanted, observation, memory, remembered, followed, context.clock(), context.age_of, context.known_for,
        ours=ours, restarts=_restarts_nodes(context, wanted), replication=replication,
        monotonic=context.ages.monotonic(), read_at=by_age, stage_memory=context.ages.kept,
        is_changing=is_changing(remembered),
    )  # fmt: skip
    proposal, stages = await run_in_thread(partial(assess, facts)) if replication is not None else assess(facts)
    context.ages.kept = dict(chain.from_iterable(stage.stage_memory.items() for stage in stages))
    if ours:
        remembered = replace(remembered, change_count=proposal.plan.change_count)
        for stage in stages:
            for intent, reason in stage.withdrawn:
                remembered = with_result(
                    remembered, intent, Result.NOT_APPLIED, at=context.stamp(), age_of=context.age_of, message=reason
                )
            for intent, result in stage.over:
                remembered = with_result(remembered, intent, result, at=context.stamp(), age_of=context.age_of)
            remembered = stage.remembered(remembered)
    owner = _competing_owner(context, wanted, observation) if ours else None
    verdict = None
    if ours and not (owner and owner.is_same_cluster):
        stages, verdict = await _with_verdict(context.kafka, wanted, stages, observation)
    decision = decide(
        GateInput(
            wanted, observation, proposal.plan, stages, context.clock(), memory, unsettled, why_open, owner, log_says,
        )
    )  # fmt: skip
    for stage in stages:
        remembered = stage.decided(decision, remembered)
    decision = explained(decision, original_resource.status, context.stamp(), context.age_of)
    return Evaluation(
        original_resource, observation, remembered, proposal, stages, decision, verdict, ours, context.clock(), read_at,
        log_says is None,
    )  # fmt: skip


def _competing_owner(context: ReconcileContext, desired: DesiredState, observation: Observation) -> Owner | None:
    if desired.mode is not Mode.APPLY or isinstance(observation.cluster_id, Unknown):
        return None
    return context.competing_owner(observation.cluster_id.value)


def _restarts_nodes(context: ReconcileContext, desired: DesiredState) -> bool:
    """Pods are restarted by the operator alone: on the command line they are not read."""
    driver = driver_of(desired.rollout)
    return driver.asks_people or (driver.reads_pods and context.workloads is not None)


async def _asked(context: ReconcileContext, resource: Resource) -> ReadContext:
    return ReadContext(
        resource.desired, resource.status, await pods(context.ports), context.clock(), stage_memory=context.ages.kept
    )


async def _look(context: ReconcileContext, resource: Resource, read_context: ReadContext) -> Observation:
    return await look(context.ports, read_context, partial(is_ours, resource))


async def _with_verdict(
    kafka: KafkaPort, desired: DesiredState, stages: tuple[StageState, ...], observation: Observation
) -> tuple[tuple[StageState, ...], DryRun | None]:
    """The server's own word on all changes at once, where it is their turn. A resource that only observes, or
    is suspended, sends nothing at all.
    """
    stage = due_in(stages)
    if not stage.dry_run or not observation.in_kraft_mode or desired.suspend or desired.mode is Mode.OBSERVE:
        return stages, None
    verdict = await kafka.validate(stage.dry_run)
    return tuple(candidate.with_verdict(verdict) if candidate is stage else candidate for candidate in stages), verdict


def is_ours(resource: Resource, observation: Observation) -> bool:
    """Tell whether this is the cluster of the status, and the one that the document names, as far as there is either.

    The status comes first: a document that names another cluster does not make its history that cluster's. Of a status
    that lost the id only the document can say which cluster it is of.
    """
    if isinstance(observation.cluster_id, Unknown):
        return False
    bound = {resource.status.cluster_id, resource.desired.cluster_id} - {""}
    return bound <= {observation.cluster_id.value} and (bool(bound) or not lost_cluster(resource.status))


async def _settled(
    context: ReconcileContext, resource: Resource, observation: Observation, replication: Replication | None
) -> tuple[Observation, Status, tuple[InFlight, ...], tuple[Step | UnknownStep, ...], OpenOutcome]:
    """The newest observation, the status with every intent closed whose end is known, and what is still open: steps
    that are followed, and what has to be settled before anything else is sent; and what that waits for.
    """
    intents = [*map(in_flight, resource.status.intents)]
    unknown = tuple(intent for intent in intents if isinstance(intent, UnknownStep))
    known_intents = [intent for intent in intents if isinstance(intent, InFlight)]
    first = _looks(context, resource, observation, observation, replication)
    status, followed, _ = _close(
        resource.status, [intent for intent in known_intents if intent.step.is_followed], first
    )
    status, still_open, why_open = _close(
        status, [intent for intent in known_intents if not intent.step.is_followed], first
    )
    if not still_open:
        return observation, status, followed, unknown, OpenOutcome()
    await context.sleep(SETTLE_SECONDS)
    unjudged = why_unjudged(await _nothing_judged(context.kafka, observation))
    try:
        again = await _look(context, resource, await _asked(context, resource))
    except ClusterUnreachable:
        again = None
    if again is None or not is_ours(resource, again) or missing_in(again, status, position_of(observation)):
        return observation, status, followed, (*unknown, *(intent.step for intent in still_open)), why_open
    second = replace(_looks(context, resource, observation, again, replication), unjudged=unjudged)
    status, still_open, why_open = _close(status, still_open, second)
    return again, status, followed, (*unknown, *(intent.step for intent in still_open)), why_open


def _looks(
    context: ReconcileContext,
    resource: Resource,
    before: Observation,
    after: Observation,
    replication: Replication | None,
) -> ObservationPair:
    return ObservationPair(
        before, after, context.stamp(), context.age_of, context.known_for, context.on_its_way, replication,
        resource.desired.rollout.stable_for,
    )  # fmt: skip


async def _nothing_judged(kafka: KafkaPort, observation: Observation) -> DryRun | None:
    """The answer to a dry run of what is there already; None where nothing is there that could be asked about."""
    changes = what_is_there(observation)
    return await kafka.validate(changes, directly=True) if changes else None


def _close(
    status: Status, sent: Iterable[InFlight], looks: ObservationPair
) -> tuple[Status, tuple[InFlight, ...], OpenOutcome]:
    """The status with every intent closed whose end is known, those that are open, and what the first waits for."""
    still_open, why_open = [], OpenOutcome()
    for intent in sent:
        followed_intent = intent.followed(looks)
        status = remembering(status, intent, followed_intent)
        result = followed_intent.settle(looks)
        if isinstance(result, OpenOutcome):
            still_open.append(followed_intent)
            why_open = why_open if why_open.reason else result
        else:
            status = with_result(status, followed_intent, result, at=looks.at, age_of=looks.age_of)
    return status, tuple(still_open), why_open
