"""Moves of levels that the metadata log shows and a status does not account for.

Pure. Called by `reconcile/evaluate.py`. A status may be older than what happened: its operator was away, or it came out
of a backup. So it keeps the end of the log up to which each move of a level is in it, `logPosition`; a move behind that
which is none of its own steps voids what was approved or allowed before. One that has no position yet, since the log
could not be read, is held against all of the log. And a log that ends before that position, or before what this process
has read, is not the log that was read: it came out of a backup itself.
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
"""Number of its own changes that a status keeps behind its position: an older one counts as another's later."""

FIRST_OFFSET = 1
"""From where all moves of a log are read. The record before it is the first leader's announcement of itself."""


def position_of(observation: Observation) -> LogPosition | None:
    """The end of the log that was read; None where it was not."""
    source = observation.source
    return None if source.kind is not SourceKind.METADATA_LOG else LogPosition(offset=source.offset, epoch=source.epoch)


def keeps_no_log(observation: Observation) -> bool:
    """Tell whether the cluster certainly keeps its metadata in ZooKeeper, and so no log that could have been read is
    its own: no broker that ever follows a quorum looks like that.
    """
    return position_of(observation) is None and observation.in_zookeeper_mode


def sent_by(status: Status) -> tuple[ChangeInFlight, ...]:
    """Changes of levels whose end is open."""
    changes = (UpdateFeature.read_own(intent) for intent in status.intents)
    return tuple(change for change in changes if change is not None)


def sent_without_log(status: Status) -> frozenset[str]:
    """Features whose change was sent while the log could not be read, and whose end is open. A status that was restored
    does not know which of the moves that the log shows later is its own.
    """
    return frozenset(change.step.feature for change in sent_by(status) if change.offset < 0)


# --- a log that ends too soon ---


def missing_in(observation: Observation, status: Status, reading: LogPosition | None) -> LogPosition | None:
    """Position that was read of this log, and is not in it; None where all is. `reading`: by this process."""
    end = position_of(observation)
    if end is None:
        return None
    intended = (LogPosition(offset=change.offset, epoch=-1) for change in sent_by(status))
    for position in (status.log_position, reading, *intended):
        if position is not None and (end.offset < position.offset or end.epoch < position.epoch):
            return position
    return None


def acceptance_of(observation: Observation) -> str:
    """Text by which a person accepts the log as it is now."""
    cluster = observation.cluster_id.value if isinstance(observation.cluster_id, Known) else ""
    return f"{cluster}@{observation.source.epoch}"


def why_restored(observation: Observation, missing: LogPosition, *, is_spent: bool) -> str:
    """Without what moves on: a status that says the same is not written again. `is_spent`: an earlier log was accepted
    by the annotation that is there.
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


# --- moves that are not remembered ---


def moved_unremembered(
    previous_status: Status, next_status: Status, observation: Observation, earlier: Mapping[str, Moves]
) -> Mapping[str, Moves]:
    """By feature, the moves behind the position of the status that are not one step of its own.

    `previous_status`: as it was kept; `next_status`: with what was settled by now. `earlier`: moves from before this
    reading of the log. What is still open is judged once it is settled.
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
    """By feature, all its moves where the last one may have come after the status, which has no position.

    That it came before is known where it led to the level that the status saw last, or is the last of its own changes,
    and the log shows the same only once. Judged once nothing is open: from then on there is a position. A first contact
    has rules of its own.
    """
    if not previous_status.cluster_id or sent_by(next_status):
        return {}
    last_seen = {feature.name: feature.finalized for feature in previous_status.features}
    own_levels: dict[str, list[int]] = {}
    for ended in next_status.history:
        step = UpdateFeature.from_history(ended.action) if ended.result in (Result.APPLIED, Result.CORRECTED) else None
        if step is not None:
            own_levels.setdefault(step.feature, []).append(step.to_level)
    unremembered = {}
    for feature, moves in moves_of_log.items():
        levels, seen_at = [level for _, level in moves], last_seen.get(feature)
        if not _ends_once([0, *levels], [seen_at]) and not _ends_once(levels, own_levels.get(feature, ())):
            unremembered[feature] = moves
    return unremembered


def _ends_once(levels: Sequence[int], known_levels: Sequence[int | None]) -> bool:
    """Tell whether the levels end with what is known of them, and have it nowhere else."""
    size = len(known_levels)
    places = [at for at in range(len(levels) - size + 1) if [*levels[at : at + size]] == [*known_levels]]
    return size > 0 and places == [len(levels) - size]


def with_own_moves(previous_status: Status, status: Status) -> Status:
    """The status after a look without the log: what it settled is behind the position, and was the operator's own."""
    position, still_open = previous_status.log_position, sent_by(status)
    closed = tuple(_own(change) for change in sent_by(previous_status) if change not in still_open)
    if position is None or not closed:
        return status
    return replace(status, log_position=replace(position, own=(*position.own, *closed)[-MAX_OWN:]))


def void_after(previous_status: Status, status: Status, consents: Iterable[str], moved: Mapping[str, Moves]) -> Status:
    """The status once levels were moved by something that it does not remember.

    The plan that has one of them is over, and so is its approval. Consents for them are used up: all while such a plan
    stands; else one whose very change the log shows to have been made. `previous_status`: as it was
    kept, `status`: as of now.
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
        counted = status.change_count > previous_status.change_count
        status = replace(status, plan=None, change_count=status.change_count + (0 if counted else 1))
    return replace(status, spent_consents=tuple(sorted(spent)))


def void_all(status: Status, consents: Iterable[str], accepted: str) -> Status:
    """End the plan and use up all consents to downgrades, where it is not known which levels were moved, and what
    `accepted` that.
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
    """Tell whether a consent is to a downgrade: it names feature and levels."""
    return "->" in consent


def _move(feature: str, level: int) -> str:
    return f"{feature}:{level}"


def _own(sent: ChangeInFlight) -> str:
    return _move(sent.step.feature, sent.step.to_level)


def _was_made(levels: str, moves: Moves, first: int | None) -> bool:
    """Tell whether a move is from the one level to the other. first: the level they begin at; None if not logged."""
    start, _, target = levels.partition("->")
    origins = [start if first is None else str(first), *(str(level) for _, level in moves)]
    return any(origin == start and str(level) == target for origin, (_, level) in zip(origins, moves, strict=False))
