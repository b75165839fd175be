"""One reconciliation up to its decision: observe, settle what was sent before, decide.

Sends nothing but a validateOnly, and writes nothing. `plan` is this alone; `apply` and the operator continue with
`execute` of `reconcile/act.py`. Level-triggered: nothing is remembered from one reconciliation to the next but the
status, and how old the moments in it are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct, field

from kafkafeatures import __version__
from kafkafeatures.api.names import SINGLE_REPLICA_TOPICS
from kafkafeatures.api.records import Stamp, keeping_unknown, stamp
from kafkafeatures.api.status import Result, Status, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decide import Owner, Proposal, approved_by, decide, propose, to_validate
from kafkafeatures.core.engine.decisions import Act, Decision, Stalled
from kafkafeatures.core.engine.memory import Memory, lost_cluster, memory_of
from kafkafeatures.core.engine.settling import Looks, Open
from kafkafeatures.core.engine.stages import nodes_to_restart
from kafkafeatures.core.engine.steps import DryRun, InFlight, Step, UnknownStep, why_unjudged
from kafkafeatures.core.engine.wanted import ApprovalPolicy, Mode, Wanted
from kafkafeatures.core.engine.windows import closed_until
from kafkafeatures.core.facts.observation import Known, MetadataMode, Observation, Unknown
from kafkafeatures.core.facts.observe import ClusterUnreachable, observe
from kafkafeatures.core.facts.readings import NOT_ASKED, EarlierMoves, Failure
from kafkafeatures.core.kinds import in_flight
from kafkafeatures.core.levels.accounted import missing_in, position_of, sent_by
from kafkafeatures.core.levels.soak import soak_of, with_soak
from kafkafeatures.core.levels.update_feature import what_is_there
from kafkafeatures.core.ports import KafkaPort, WorkloadPort
from kafkafeatures.core.report.history import with_result
from kafkafeatures.core.report.status import status_of, status_of_unreachable, status_of_wrong_cluster
from kafkafeatures.core.roll.drivers import driver_of
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.aside import aside
from kafkafeatures.reconcile.accounting import accounted, held_against_the_log
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.ports import Resource, ResourceStore

if TYPE_CHECKING:
    from kafkafeatures.core.facts.replication import Replication
    from kafkafeatures.core.facts.workloads import WorkloadsReading
    from kafkafeatures.core.roll.stage import Roll

SETTLE_SECONDS = 1.0
"""Between the two readings that settle an unknown outcome: longer than a replica fetch (500 ms at most while idle)."""

CompetingOwner = Callable[[str], Owner | None]
"""Of a cluster id: the older resource that owns it, or may turn out to."""


def no_other_owner(cluster_id: str) -> Owner | None:
    """Where there are no other resources: the command line."""
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
    """What is injected into a reconciliation. `before_act` may raise: then nothing is written or sent.

    `effects` is called right before a step is sent, `on_settled` once none of this resource can be on its way any more.
    `ages` is the same for all reconciliations of a resource in a process. `hand_over`: seconds for which another
    process may still send what its intent says. `workloads`: None where no pods are restarted. `is_stopping`: this
    process was told to end, and begins nothing any more.
    """

    store: ResourceStore
    kafka: KafkaPort
    now: Callable[[], datetime]
    sleep: Callable[[float], Awaitable[None]]
    monotonic: Callable[[], float] = SYSTEM.monotonic
    ages: Ages = field(default_factory=Ages)
    competing_owner: CompetingOwner = no_other_owner
    before_act: Callable[[Evaluation], None] = lambda _: None
    effects: Effects = ignore
    on_settled: Callable[[], None] = lambda: None
    workloads: WorkloadPort | None = None
    hand_over: float = 0.0
    is_stopping: Callable[[], bool] = lambda: False

    def stamp(self) -> Stamp:
        return stamp(self.now())

    def age_of(self, moment: str) -> timedelta:
        """How long ago a stamp of the status was."""
        return self.ages.of(moment, self.now())

    def known_for(self, moment: str) -> timedelta:
        """How much of that this process has lived through: no clock that was set makes it longer."""
        return self.ages.known_for(moment, self.now())

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

    `remembered`: the status of before with what is known of it now: what was settled is closed in it. `verdict` None:
    there was nothing to ask the server about. `ours` False: another cluster answers, or one that cannot be told. `roll`
    None: no driver restarts nodes. `read_at`: before the cluster was asked, in seconds of `ReconcileContext.monotonic`.
    `is_accounted`: `remembered` has all that the metadata log shows of levels.
    """

    resource: Resource
    observation: Observation
    remembered: Status
    proposal: Proposal
    decision: Decision
    verdict: DryRun | None
    ours: bool
    now: datetime
    roll: Roll | None = None
    read_at: float = -inf
    is_accounted: bool = False

    @property
    def wanted(self) -> Wanted:
        return self.resource.wanted

    @property
    def status(self) -> Status:
        """What is to be reported of it."""
        if not self.ours:
            return status_of_wrong_cluster(
                self.decision, generation=self.resource.generation, previous=self.resource.status, now=self.now
            )
        status = status_of(
            self.decision,
            self.observation,
            self.proposal,
            generation=self.resource.generation,
            previous=self.remembered,
            version=__version__,
            now=self.now,
            approved_by=approved_by(self.wanted, self.proposal),
            roll=self.roll,
        )
        position = position_of(self.observation) if self.is_accounted and not sent_by(status) else None
        if position is None or (status == self.resource.status and status.log_position is not None):
            return status  # the end of the log moves all the time: it goes with what is written anyway
        return keeping_unknown(replace(status, log_position=position), status)

    def with_decision(self, decision: Decision, remembered: Status) -> Evaluation:
        """The same, where something else was decided at the last moment."""
        return replace(self, decision=decision, remembered=remembered)


async def evaluate(context: ReconcileContext, resource: Resource, *, again: bool = False) -> Evaluation | Unread:
    """Decide on what is there now. Looks a second time where a step was sent and its outcome is open.

    `again`: only what a restart is decided on is read once more, a moment after all of it was.
    """
    workloads = await _workloads(context)
    read_at = context.monotonic()
    try:
        observation = await (_look_again(context, workloads) if again else _look(context, resource, workloads))
    except ClusterUnreachable as error:
        if context.ages.soak is not None:
            context.ages.soak = context.ages.soak.interrupted("the cluster could not be read")
        status = status_of_unreachable(
            error.failure, generation=resource.generation, previous=resource.status, now=context.now()
        )
        return Unread(resource, error.failure, status)
    kept, wanted, ours = resource, resource.wanted, is_ours(resource, observation)
    log_says, earlier = None, EarlierMoves()
    if ours:
        resource, log_says, earlier = await held_against_the_log(
            context.kafka, context.ages, resource, observation, at=context.stamp(), age_of=context.age_of
        )
        ours = not isinstance(log_says, Stalled)
    remembered = resource.status
    unsettled: tuple[Step | UnknownStep, ...] = ()
    why_open = Open()
    restarts: tuple[InFlight, ...] = ()
    replication = await _replication(observation)
    if ours:  # another cluster tells nothing about what became of what was sent to ours
        first = observation
        observation, remembered, restarts, unsettled, why_open = await _settled(context, resource, first, replication)
        replication = replication if observation is first else await _replication(observation)
        remembered = accounted(resource, remembered, observation, earlier.moves)
    remembered = replace(
        remembered, spent_consents=tuple(one for one in remembered.spent_consents if one in wanted.consents)
    )
    # What is remembered of one cluster is nothing to another: there it is neither drift nor an approved plan.
    memory = (
        memory_of(remembered, context.age_of, context.known_for)
        if ours
        else Memory(remembered.cluster_id, lost_cluster(remembered))
    )
    proposal = propose(wanted, observation, memory, await _unavailable(wanted, replication))
    soak, roll = None, None
    if ours:
        if proposal.plan.change_count != remembered.change_count:
            remembered = replace(remembered, change_count=proposal.plan.change_count)
        if restarts or _restarts_nodes(context, wanted):
            # They judge partitions by numpy, which nobody else needs.
            from kafkafeatures.core.roll.question import Remembered
            from kafkafeatures.core.roll.stage import roll_of

            told = Remembered(restarts, remembered, context.now(), age_of=context.age_of, known_for=context.known_for)
            of_now = partial(roll_of, wanted, observation, proposal.changes, told, replication)
            judge = partial(of_now, excused=proposal.excused)
            roll = await aside(judge) if replication is not None else judge()
            remembered = _without_withdrawn(context, roll, remembered)
        soak = soak_of(
            wanted, observation, proposal.changes, remembered,
            now=context.stamp(), monotonic=context.ages.monotonic(), before=context.ages.soak,
        )  # fmt: skip
        remembered = with_soak(remembered, soak)
        remembered = _after_roll(roll, wanted, remembered)
    context.ages.soak = soak
    owner = _competing_owner(context, wanted, observation) if ours else None
    mine = ours and not (owner and owner.known)
    rolling = roll is not None and roll.decision is not None
    verdict = await _verdict_on(context.kafka, wanted, proposal, observation) if mine and not rolling else None
    decision = decide(
        wanted, observation, memory, proposal=proposal, unsettled=unsettled, why_open=why_open, verdict=verdict,
        owner=owner, soak=soak, roll=roll, log_says=log_says,
    )  # fmt: skip
    remembered = _not_asked(context, roll, decision, observation, _spending(decision, proposal, remembered))
    return Evaluation(
        kept, observation, remembered, proposal, decision, verdict, ours, context.now(), roll, read_at, log_says is None
    )


def _competing_owner(context: ReconcileContext, wanted: Wanted, seen: Observation) -> Owner | None:
    if wanted.mode is not Mode.APPLY or isinstance(seen.cluster_id, Unknown):
        return None
    return context.competing_owner(seen.cluster_id.value)


async def _replication(seen: Observation) -> Replication | None:
    """All partitions, to be judged: once for each look, beside the event loop. None where they were not read."""
    if isinstance(seen.partitions, Unknown):
        return None
    from kafkafeatures.core.roll.stage import replication_of

    return await aside(partial(replication_of, seen))


async def _unavailable(wanted: Wanted, replication: Replication | None) -> Mapping[str, int] | None:
    """Topics that no restart of their brokers leaves available, where there is a consent to that."""
    if replication is None or SINGLE_REPLICA_TOPICS not in wanted.consents:
        return None
    return await aside(replication.never_available)


def _restarts_nodes(context: ReconcileContext, wanted: Wanted) -> bool:
    """Pods are restarted by the operator alone: on the command line they are not read."""
    driver = driver_of(wanted.rollout)
    return driver.asks_people or (driver.reads_pods and context.workloads is not None)


async def _workloads(context: ReconcileContext) -> WorkloadsReading | Failure:
    return NOT_ASKED if context.workloads is None else await context.workloads.read()


async def _look(context: ReconcileContext, resource: Resource, workloads: WorkloadsReading | Failure) -> Observation:
    """The cluster as it is now. Partitions are read only where restarts are under way, or about to be."""
    partitions = _needs_partitions(resource, workloads, context.now())
    observation = observe(*await context.kafka.read(partitions=partitions), workloads)
    by_hand = driver_of(resource.wanted.rollout).asks_people and not _waits_for_people(resource, context.now())
    if by_hand and not partitions and is_ours(resource, observation):
        # Who has to be restarted by hand is known only once the cluster was read.
        memory = memory_of(resource.status, context.age_of, context.known_for)
        changes = propose(resource.wanted, observation, memory).changes
        if nodes_to_restart(observation, changes):
            return observe(*await context.kafka.read(partitions=True), workloads)
    return observation


async def _look_again(context: ReconcileContext, workloads: WorkloadsReading | Failure) -> Observation:
    return observe(*await context.kafka.look_again(), workloads)


def _needs_partitions(resource: Resource, workloads: WorkloadsReading | Failure, now: datetime) -> bool:
    if any(intent.kind == RestartNode.kind for intent in resource.status.intents):
        return True
    if _waits_for_people(resource, now):
        return False
    if driver_of(resource.wanted.rollout).asks_people and _is_rolled(resource.status):
        return True  # not read twice, without them and with them
    return not isinstance(workloads, Failure) and any(
        pod.revision != one.update_revision for one in workloads.stateful_sets for pod in one.pods
    )


def _waits_for_people(resource: Resource, now: datetime) -> bool:
    """Whether no node may be restarted for hours, and what a roll needs was told. Few clusters may have their
    partitions in memory: who waits for an approval or for a night must not keep others from it.
    """
    wanted, rollout = resource.wanted, resource.status.rollout
    if not _is_rolled(resource.status) or rollout is None or not rollout.notes:
        return False
    unapproved = wanted.policy is ApprovalPolicy.ALWAYS and not wanted.approvals and not wanted.only
    closed = bool(wanted.rollout.windows) and closed_until(wanted.rollout.windows, now) is not None
    return wanted.mode is Mode.OBSERVE or wanted.suspend or unapproved or closed


def _is_rolled(status: Status) -> bool:
    return status.rollout is not None and status.rollout.is_in_progress


def _spending(decision: Decision, proposal: Proposal, remembered: Status) -> Status:
    """A consent is spent before it is used: `status.rollout` has what this roll was given; no other roll gets that."""
    if proposal.excused is None or not isinstance(decision, Act) or not decision.step.consents_of_plan:
        return remembered
    spent = {*remembered.spent_consents, *decision.step.consents_of_plan}
    return replace(remembered, spent_consents=tuple(sorted(spent)))


def _not_asked(
    context: ReconcileContext, roll: Roll | None, decision: Decision, seen: Observation, remembered: Status
) -> Status:
    """Since when an eviction that may not have been sent is not asked for. It is asked for again as long as nothing
    forbids it; what is forbidden for longer than it can be on its way ends, and no other node waits for it.
    """
    for one in roll.in_flight if roll is not None else ():
        if one.may_be_unsent or one.step.is_not_wanted(seen):
            again = isinstance(decision, Act) and decision.step == one.step
            remembered = _remembering(remembered, one.sent, one.sent.asked(context.stamp(), again=again))
    return remembered


def _without_withdrawn(context: ReconcileContext, roll: Roll, status: Status) -> Status:
    """Closed are those that a person was asked for and must not carry out now, or does not have to."""
    for one, why in roll.withdrawn:
        at, result = context.stamp(), Result.NOT_APPLIED
        status = with_result(status, one, result, at=at, age_of=context.age_of, message=why)
    return status


def _after_roll(roll: Roll | None, wanted: Wanted, remembered: Status) -> Status:
    """What a roll was allowed ends with it."""
    if roll is None or roll.is_active or not _is_rolled(remembered):
        return remembered
    spent = {*remembered.spent_consents, *({SINGLE_REPLICA_TOPICS} & wanted.consents)}
    return replace(remembered, spent_consents=tuple(sorted(spent)))


def is_ours(resource: Resource, observation: Observation) -> bool:
    """Whether this is the cluster the status tells of, and the one that the document names, as far as there is either.

    The status comes first: a document that names another cluster does not make its history that cluster's. Of a status
    that lost the id only the document can say which cluster it is of.
    """
    if isinstance(observation.cluster_id, Unknown):
        return False
    bound = {resource.status.cluster_id, resource.wanted.cluster_id} - {""}
    return bound <= {observation.cluster_id.value} and (bool(bound) or not lost_cluster(resource.status))


async def _settled(
    context: ReconcileContext, resource: Resource, observation: Observation, replication: Replication | None
) -> tuple[Observation, Status, tuple[InFlight, ...], tuple[Step | UnknownStep, ...], Open]:
    """The newest observation, the status with every intent closed whose end is known, and what is still open: steps
    that are followed, and what has to be settled before anything else is sent; and what that waits for.
    """
    found = [*map(in_flight, resource.status.intents)]
    unknown = tuple(one for one in found if isinstance(one, UnknownStep))
    sent = [one for one in found if isinstance(one, InFlight)]
    first = _looks(context, resource, observation, observation, replication)
    status, followed, _ = _close(resource.status, [one for one in sent if one.step.is_followed], first)
    status, still_open, why = _close(status, [one for one in sent if not one.step.is_followed], first)
    if not still_open:
        return observation, status, followed, unknown, Open()
    await context.sleep(SETTLE_SECONDS)
    unjudged = why_unjudged(await _nothing_judged(context.kafka, observation))
    try:
        again = await _look(context, resource, await _workloads(context))
    except ClusterUnreachable:
        again = None
    if again is None or not is_ours(resource, again) or missing_in(again, status, position_of(observation)):
        return observation, status, followed, (*unknown, *(one.step for one in still_open)), why
    second = replace(_looks(context, resource, observation, again, replication), unjudged=unjudged)
    status, still_open, why = _close(status, still_open, second)
    return again, status, followed, (*unknown, *(one.step for one in still_open)), why


def _looks(
    context: ReconcileContext,
    resource: Resource,
    before: Observation,
    after: Observation,
    replication: Replication | None,
) -> Looks:
    return Looks(
        before, after, context.stamp(), context.age_of, context.known_for, context.on_its_way, replication,
        resource.wanted.rollout.stable_for,
    )  # fmt: skip


async def _nothing_judged(kafka: KafkaPort, observation: Observation) -> DryRun | None:
    """The answer to a dry run of what is there already; None where nothing is there that could be asked about."""
    changes = what_is_there(observation)
    return await kafka.validate(changes, directly=True) if changes else None


def _close(status: Status, sent: Iterable[InFlight], looks: Looks) -> tuple[Status, tuple[InFlight, ...], Open]:
    """The status with every intent closed whose end is known, those that are open, and what the first waits for."""
    still_open, why = [], Open()
    for one in sent:
        now = one.followed(looks)
        status = _remembering(status, one, now)
        result = now.settle(looks)
        if isinstance(result, Open):
            still_open.append(now)
            why = why if why.why else result
        else:
            status = with_result(status, now, result, at=looks.at, age_of=looks.age_of)
    return status, tuple(still_open), why


def _remembering(status: Status, before: InFlight, now: InFlight) -> Status:
    if now is before:
        return status
    old, new = before.to_intent(), now.to_intent()
    return replace(status, intents=tuple(new if one == old else one for one in status.intents))


async def _verdict_on(kafka: KafkaPort, wanted: Wanted, proposal: Proposal, observation: Observation) -> DryRun | None:
    """The server's own word on all changes at once. Who only observes, or is suspended, sends nothing at all."""
    changes = to_validate(proposal.changes)
    in_kraft = isinstance(observation.mode, Known) and observation.mode.value is MetadataMode.KRAFT
    if not changes or not in_kraft or wanted.suspend or wanted.mode is Mode.OBSERVE:
        return None
    return await kafka.validate(changes)
