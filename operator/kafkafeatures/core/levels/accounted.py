"""Changes of levels that the metadata log shows and the status does not account for.

Pure. Called by `reconcile/accounting.py`, `reconcile/settle.py` and `reconcile/evaluation.py`. A status may be older
than the cluster: the operator did not run, or the status was restored from a backup. So the status has a `logPosition`:
the end of the log up to which each change of a level is accounted for. A later change that is no step of this resource
was made by somebody else, and voids earlier approvals and consents. A status without a position, because the log could
not be read so far, is compared with the whole log.

A log that ends before the position, or before what this process has read, was itself restored from a backup. Then
nothing is sent until a person accepts that log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafkafeatures.api.names import ACCEPT_RESTORED_LOG
from kafkafeatures.api.status import LogPosition, Result, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import Known, Observation, SourceKind
from kafkafeatures.core.facts.readings import Moves
from kafkafeatures.core.levels.proposal import LEVELS
from kafkafeatures.core.levels.update_feature import ChangeInFlight, UpdateFeature

MAX_OWN = 50
"""Most own changes after its position that a status keeps. Older ones would later be taken for changes by others, which
voids approvals: the safe side.
"""

FIRST_OFFSET = 1
"""Offset from which all changes of a log are read. The record before it is the first leader's LeaderChange."""


def position_of(observation: Observation) -> LogPosition | None:
    """The end of the log that was read; None if no log was read."""
    source = observation.source
    return None if source.kind is not SourceKind.METADATA_LOG else LogPosition(offset=source.offset, epoch=source.epoch)


def keeps_no_log(observation: Observation) -> bool:
    """Tell whether the cluster surely keeps its metadata in ZooKeeper, and so has no metadata log. A metadata log that
    was read before was then that of another cluster.
    """
    return position_of(observation) is None and observation.in_zookeeper_mode


def sent_by(status: Status) -> tuple[ChangeInFlight, ...]:
    """Changes of levels whose intents are in the status."""
    changes = (UpdateFeature.read_own(intent) for intent in status.intents)
    return tuple(change for change in changes if change is not None)


def sent_without_log(status: Status) -> frozenset[str]:
    """Features with a change in flight that was sent while the log could not be read. If such a status is later
    restored from a backup, it cannot tell which of the later changes in the log is its own.
    """
    return frozenset(change.step.feature for change in sent_by(status) if change.offset < 0)


# --- a log that ends too soon ---


def missing_in(observation: Observation, status: Status, reading: LogPosition | None) -> LogPosition | None:
    """A position that was read before and is no longer in the log; None if the log has all of them. `reading`: the last
    position that this process read.
    """
    end = position_of(observation)
    if end is None:
        return None
    intended = (LogPosition(offset=change.offset, epoch=-1) for change in sent_by(status))
    for position in (status.log_position, reading, *intended):
        if position is not None and (end.offset < position.offset or end.epoch < position.epoch):
            return position
    return None


def acceptance_of(observation: Observation) -> str:
    """Text by which a person accepts the present log: "<cluster id>@<leader epoch>"."""
    cluster = observation.cluster_id.value if isinstance(observation.cluster_id, Known) else ""
    return f"{cluster}@{observation.source.epoch}"


def why_restored(observation: Observation, missing: LogPosition, *, is_spent: bool) -> str:
    """Message for a log that lacks records. It contains nothing that changes with time, so that the status is not
    written again. `missing`: the first position that the log lacks. `is_spent`: the annotation accepts an earlier log.
    """
    accepted = acceptance_of(observation)
    once_more = (
        "; the annotation that is set accepted an earlier log: remove it first, and add the new one a minute later"
    )
    return (
        f"the metadata log of this cluster no longer has all records that were read before, up to offset "
        f"{missing.offset}: Kafka was restored from a backup or formatted again, so the outcome of earlier changes is "
        "unknown, and nothing is sent; "
        f"check the finalized levels, then accept this log with the annotation {ACCEPT_RESTORED_LOG}: "
        f'"{accepted}" (on the command line: --accept-restored-log {accepted})'
        f"{once_more if is_spent else ''}"
    )


# --- changes that the status does not have ---
# A move is a change of a level in the log: the offset after it, and the new level. An own move is one that this
# resource has made; as text, "feature:level".


def moved_unremembered(
    previous_status: Status, next_status: Status, observation: Observation, earlier: Mapping[str, Moves]
) -> Mapping[str, Moves]:
    """Moves after the position of the status that are no steps of this resource, by feature. Empty if the log was not
    read.

    A feature with a change in flight is left out until that change is settled. Of any other feature, all moves count if
    they are not exactly the own ones, in the same order.
    previous_status: status before this reconciliation. next_status: the same, in which the steps that have ended since
    are closed. earlier: moves that earlier readings of this process had.
    """
    past, position = observation.past_levels, previous_status.log_position
    if past is None:
        return {}
    moves = {
        feature: tuple(sorted({*past.moves.get(feature, ()), *earlier.get(feature, ())}))
        for feature in {*past.moves, *earlier}
    }
    if position is None:
        return _moved_by_the_whole_log(previous_status, next_status, moves)
    sent_changes, still_open = sent_by(previous_status), {change.step.target for change in sent_by(next_status)}
    remembered = (*position.own, *map(_own, sent_changes))
    unremembered = {}
    for feature in moves.keys() - still_open:
        since = tuple(move for move in moves[feature] if move[0] > position.offset)
        if since and [_move(feature, level) for _, level in since] != [
            own_move for own_move in remembered if own_move.startswith(f"{feature}:")
        ]:
            unremembered[feature] = since
    return unremembered


def _moved_by_the_whole_log(
    previous_status: Status, next_status: Status, moves_of_log: Mapping[str, Moves]
) -> Mapping[str, Moves]:
    """All moves in the log, by feature, if the status has no position and may be older than the last of them.

    The status surely knows the last change if the log ends with the level that the status read last, or with the
    changes that its history has, and contains that level or these changes nowhere else. Empty while a change is in
    flight (once it is settled there is a position), and for a status without a cluster.
    """
    if not previous_status.cluster_id or sent_by(next_status):
        return {}
    last_levels = {feature.name: feature.finalized for feature in previous_status.features}
    own_levels: dict[str, list[int]] = {}
    for ended in next_status.history:
        step = UpdateFeature.from_history(ended.action) if ended.result in (Result.APPLIED, Result.CORRECTED) else None
        if step is not None:
            own_levels.setdefault(step.feature, []).append(step.to_level)
    unremembered = {}
    for feature, moves in moves_of_log.items():
        levels, last_level = [level for _, level in moves], last_levels.get(feature)
        # 0: the level before the first change of the log.
        if not _ends_once([0, *levels], [last_level]) and not _ends_once(levels, own_levels.get(feature, ())):
            unremembered[feature] = moves
    return unremembered


def _ends_once(levels: Sequence[int], known_levels: Sequence[int | None]) -> bool:
    """Tell whether the levels end with `known_levels` and contain this sequence nowhere else."""
    size = len(known_levels)
    places = [at for at in range(len(levels) - size + 1) if [*levels[at : at + size]] == [*known_levels]]
    return size > 0 and places == [len(levels) - size]


def with_own_moves(previous_status: Status, status: Status) -> Status:
    """The status after a reconciliation that could not read the log, so that its position stays: changes that were
    settled in it are added to the own changes after that position (`logPosition.own`).
    """
    position, still_open = previous_status.log_position, sent_by(status)
    closed = tuple(_own(change) for change in sent_by(previous_status) if change not in still_open)
    if position is None or not closed:
        return status
    return replace(status, log_position=replace(position, own=(*position.own, *closed)[-MAX_OWN:]))


def void_after(previous_status: Status, status: Status, consents: Iterable[str], moved: Mapping[str, Moves]) -> Status:
    """The status after somebody else has changed levels.

    A plan that changes one of these features ends, and so does its approval. Consents to changes of the plan are used
    up, and so are consents to exactly the changes that the log shows.
    previous_status: status before this reconciliation. status: the present one. consents: consents of the document.
        moved: moves that others made, by feature.
    """
    plan = status.plan
    planned = {name for stage in plan.stages if stage.kind == LEVELS for name in stage.target} if plan else set()
    spent = {*status.spent_consents}
    for consent in consents:
        feature, _, levels = consent.partition(":")
        first = None if previous_status.log_position is not None else 0  # without a position, the whole log was read
        if feature in planned & moved.keys() or _was_made(levels, moved.get(feature, ()), first):
            spent.add(consent)
    if planned & moved.keys():
        # A plan's hash contains the change count, so that no later plan has the hash that was approved.
        counted = status.change_count > previous_status.change_count  # a step of this plan has just been counted
        status = replace(status, plan=None, change_count=status.change_count + (0 if counted else 1))
    return replace(status, spent_consents=tuple(sorted(spent)))


def void_all(status: Status, consents: Iterable[str], accepted: str) -> Status:
    """End the plan and use up all consents to downgrades, as it is unknown which levels were changed. `accepted`: the
    text by which a person accepted the restored log; used up as well.
    """
    spent = {*status.spent_consents, *(consent for consent in consents if is_downgrade(consent)), accepted}
    return replace(
        status,
        plan=None,
        change_count=status.change_count + 1,
        spent_consents=tuple(sorted(spent)),
        log_position=None,
    )


def is_downgrade(consent: str) -> bool:
    """Tell whether a consent is for a downgrade: such a consent is written "feature:from->to"."""
    return "->" in consent


def _move(feature: str, level: int) -> str:
    return f"{feature}:{level}"


def _own(sent: ChangeInFlight) -> str:
    return _move(sent.step.feature, sent.step.to_level)


def _was_made(levels: str, moves: Moves, first: int | None) -> bool:
    """Tell whether one of the moves leads from and to the levels of a consent, given as "from->to". `first`: level
    before all moves; None if the log does not show it: then the first move is taken to begin at the consent's level.
    """
    start, _, target = levels.partition("->")
    origins = [start if first is None else str(first), *(str(level) for _, level in moves)]
    return any(origin == start and str(level) == target for origin, (_, level) in zip(origins, moves, strict=False))
