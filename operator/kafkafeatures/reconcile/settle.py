"""Settle steps that were sent: close those that have ended, and list those that must end before anything else is sent.

Called by `reconcile/evaluate.py` in every reconciliation. Each kind of step decides by itself whether it has ended
(`InFlight.settle`). Beside a step that is followed (`is_followed`, such as a restart) others may be sent, so it may
stay open. If this reading does not settle another step, a second one is made a moment later; a step that this does not
settle either prevents all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkafeatures.api.status import Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.memory import remembering
from kafkafeatures.core.engine.settling import ObservationPair, OpenOutcome
from kafkafeatures.core.engine.steps import DryRun, InFlight, Step, UnknownStep, outcome_without
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.facts.observe import ClusterUnreachable
from kafkafeatures.core.kinds import in_flight
from kafkafeatures.core.levels.accounted import missing_in, position_of
from kafkafeatures.core.levels.update_feature import unchanged_level
from kafkafeatures.core.ports import KafkaPort
from kafkafeatures.core.report.history import with_result
from kafkafeatures.core.roll.drivers import request_lifetime_of
from kafkafeatures.reconcile.context import ReconcileContext
from kafkafeatures.reconcile.ports import Resource
from kafkafeatures.reconcile.reading import is_ours, observe_cluster, read_context_of

if TYPE_CHECKING:
    from kafkafeatures.core.facts.replication import Replication

SETTLE_SECONDS = 1.0
"""Seconds between two readings that settle a step: longer than a replica fetch (500 ms at most while idle)."""


class Settled(Struct, frozen=True):
    """The newest observation, and the status in which every intent with a known outcome is closed.

    followed: open steps beside which others may be sent.
    unsettled: open steps that must end before anything else is sent.
    open_outcome: what is missing to settle the unsettled ones.
    """

    observation: Observation
    status: Status
    followed: tuple[InFlight, ...] = ()
    unsettled: tuple[Step | UnknownStep, ...] = ()
    open_outcome: OpenOutcome = OpenOutcome()


async def settle(
    context: ReconcileContext, resource: Resource, observation: Observation, replication: Replication | None
) -> Settled:
    """Close every intent whose outcome shows in this reading, or in a second one."""
    intents = [*map(in_flight, resource.status.intents)]
    unknown_steps = tuple(intent for intent in intents if isinstance(intent, UnknownStep))
    known_intents = [intent for intent in intents if isinstance(intent, InFlight)]

    first_pair = _pair(context, resource, observation, observation, replication)
    status, followed, _ = _close(
        resource.status, [intent for intent in known_intents if intent.step.is_followed], first_pair
    )
    status, still_open, open_outcome = _close(
        status, [intent for intent in known_intents if not intent.step.is_followed], first_pair
    )
    if not still_open:
        return Settled(observation, status, followed, unknown_steps)

    await context.environment.sleep(SETTLE_SECONDS)
    without_dry_run = outcome_without(await _dry_run_of_nothing(context.kafka, observation))
    second = await _second_reading(context, resource, status, observation)
    if second is not None:
        second_pair = replace(
            _pair(context, resource, observation, second, replication), without_dry_run=without_dry_run
        )
        status, still_open, open_outcome = _close(status, still_open, second_pair)  # followed steps need no second look
    unsettled: tuple[Step | UnknownStep, ...] = (*unknown_steps, *(intent.step for intent in still_open))
    return Settled(second or observation, status, followed, unsettled, open_outcome)


async def _second_reading(
    context: ReconcileContext, resource: Resource, status: Status, first: Observation
) -> Observation | None:
    """A second reading; None where it fails, or is not of the same cluster and metadata log. Then nothing is
    settled.
    """
    try:
        second = await observe_cluster(context, resource, await read_context_of(context, resource))
    except ClusterUnreachable:
        return None
    return second if is_ours(resource, second) and not missing_in(second, status, position_of(first)) else None


def _pair(
    context: ReconcileContext,
    resource: Resource,
    earlier: Observation,
    later: Observation,
    replication: Replication | None,
) -> ObservationPair:
    return ObservationPair(
        earlier, later, context.stamp(), context.age_of, context.known_for, context.on_its_way, replication,
        resource.desired.rollout.stable_for,
        request_lifetime_of,
    )  # fmt: skip


async def _dry_run_of_nothing(kafka: KafkaPort, observation: Observation) -> DryRun | None:
    """Answer to a dry run of the present levels; None where these are not known. The active controller answers requests
    in order, so after this answer no earlier request is still waiting there.
    """
    changes = unchanged_level(observation)
    return await kafka.validate(changes, directly=True) if changes else None


def _close(
    status: Status, steps: Iterable[InFlight], pair: ObservationPair
) -> tuple[Status, tuple[InFlight, ...], OpenOutcome]:
    """The status with every intent closed whose outcome is known, the steps that are still open, and what the first of
    them waits for.
    """
    still_open, open_outcome = [], OpenOutcome()
    for intent in steps:
        followed_intent = intent.followed(pair)
        status = remembering(status, intent, followed_intent)
        result = followed_intent.settle(pair)
        if isinstance(result, OpenOutcome):
            still_open.append(followed_intent)
            open_outcome = open_outcome if open_outcome.reason else result
        else:
            status = with_result(status, followed_intent, result, at=pair.at, age_of=pair.age_of)
    return status, tuple(still_open), open_outcome
