"""Comparison of a status with the metadata log: whether it is still the same log, and whether the status accounts for
every change of a level in it.

Called by `reconcile/evaluate.py` at each reading of a resource's cluster, before and after steps are settled. The rules
are in `core/levels/accounted.py`; here older parts of the log are read where something depends on them. A log can be
another one after a restore from a backup; a change that the status does not have was made outside KafkaFeatures, and
voids consents and approvals.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import LogPosition, Result, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.consents import repeatable
from kafkafeatures.core.engine.decisions import Stalled, Wait, unreadable
from kafkafeatures.core.engine.settling import AgeOf
from kafkafeatures.core.facts.observation import Known, Observation
from kafkafeatures.core.facts.readings import EarlierMoves, Failure, FailureKind, Moves
from kafkafeatures.core.kinds import without_withdrawn_plan
from kafkafeatures.core.levels.accounted import (
    FIRST_OFFSET,
    acceptance_of,
    is_downgrade,
    keeps_no_log,
    missing_in,
    moved_unremembered,
    position_of,
    sent_by,
    sent_without_log,
    void_after,
    void_all,
    why_restored,
    with_own_moves,
)
from kafkafeatures.core.ports import KafkaPort
from kafkafeatures.core.report.history import with_result
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.ports import Resource


async def compare_with_log(
    kafka: KafkaPort, ages: Ages, resource: Resource, observation: Observation, *, at: Stamp, age_of: AgeOf
) -> tuple[Resource, Stalled | Wait | None, EarlierMoves]:
    """Compare the status with the metadata log. Returns the resource; a decision if the log is not that of the status,
    or that could not be read, else None; and changes of levels from before this reading that the status may not have.

    If a person has accepted another log, steps in flight end unverified, and approvals and consents are void, as the
    log does not show what became of them. An acceptance is used once: otherwise it would also accept the next log that
    begins with the same epoch.
    """
    cluster_id = observation.cluster_id.value if isinstance(observation.cluster_id, Known) else ""
    if keeps_no_log(observation):  # after a migration was rolled back, its log is wiped, and the next one begins anew
        ages.read_until.pop(cluster_id, None)
        return replace(resource, status=replace(resource.status, log_position=None)), None, EarlierMoves()
    status = resource.status
    missing = missing_in(observation, status, ages.read_until.get(cluster_id))
    earlier = EarlierMoves() if missing is not None else await _earlier_moves(kafka, resource, observation)
    if isinstance(earlier, Failure):
        wait = unreadable("it could not be read whether levels were moved since the status was written", earlier)
        return resource, wait, EarlierMoves()
    if earlier.restored:
        missing = status.log_position
    accepted = resource.desired.accepted_log
    if missing is not None and (accepted != acceptance_of(observation) or accepted in status.spent_consents):
        message = why_restored(observation, missing, is_spent=accepted in status.spent_consents)
        remedy = "see whether a backup was restored; then accept this log, as the message says"
        decision = Stalled(Reason.CLUSTER_ID_MISMATCH, message, subject="metadata log", remedy=remedy)
        return resource, decision, EarlierMoves()
    if missing is not None:
        for in_flight in sent_by(status):
            status = with_result(status, in_flight, Result.UNVERIFIED, at=at, age_of=age_of)
        status = void_all(status, resource.desired.consents, accepted)
        resource, earlier = replace(resource, status=status), EarlierMoves()
    position = position_of(observation)
    if position is not None:
        ages.read_until[cluster_id] = position
    return resource, None, earlier


async def _earlier_moves(kafka: KafkaPort, resource: Resource, observation: Observation) -> EarlierMoves | Failure:
    """Changes of levels between the position in the status and the beginning of the reading. A log may be large, so
    they are read only if a plan or an unspent consent depends on them.

    If there is nothing in between, the log is still asked whether it ever had that position: a restored log soon grows
    past its former end. A status that knows its cluster but has no position is compared from the first offset.
    """
    status, past = resource.status, observation.past_levels
    if past is None or (status.log_position is None and (not status.cluster_id or past.since_offset <= FIRST_OFFSET)):
        return EarlierMoves()
    position = status.log_position or LogPosition(offset=FIRST_OFFSET, epoch=observation.source.epoch)
    unspent = resource.desired.consents - {*status.spent_consents}
    depends = status.plan is not None or any(map(is_downgrade, unspent))
    if past.since_offset > position.offset and not depends:
        return EarlierMoves()
    moves = await kafka.moves_since(position.offset, position.epoch)
    if status.log_position is None and not isinstance(moves, Failure) and moves.restored:
        return Failure(
            FailureKind.NO_LEADER, "metadata log", "the leader has changed"
        )  # not a restore: every log has this offset
    return moves


def accounted(resource: Resource, status: Status, observation: Observation, earlier: Mapping[str, Moves]) -> Status:
    """The status after comparison with the log: without consents and approvals that are void because levels were
    changed outside KafkaFeatures, and with consents noted as unverified that may have been used before. `status`: with
    settled steps closed.
    """
    previous_status, consents = resource.status, resource.desired.consents
    moved = moved_unremembered(previous_status, status, observation, earlier)
    if moved:
        status = void_after(previous_status, status, consents, moved)
    if not observation.shows_levels:  # otherwise the new proposal shows whether the plan still holds
        pods = (
            observation.workloads.value if isinstance(observation.workloads, Known) else observation.workloads.failure
        )
        status = without_withdrawn_plan(status, resource.desired, pods)
    if observation.past_levels is None:
        status = with_own_moves(previous_status, status)
    unverified = previous_status.unverified_consents
    # Without a cluster id the status is new or was lost, so any consent that can be used twice may have been used;
    # except for those that a command made in this run.
    if not previous_status.cluster_id and resource.desired.approves_by_name:
        unverified = tuple(repeatable(consents))
    # A change that was sent while the log could not be read cannot be told from other changes in it. So a consent to
    # downgrade that feature may have been used.
    not_followed = sent_without_log(previous_status) if observation.past_levels is not None else frozenset[str]()
    doubtful = {consent for consent in consents if is_downgrade(consent) and consent.partition(":")[0] in not_followed}
    return replace(status, unverified_consents=tuple(sorted(consents & {*unverified, *doubtful})))
