"""Proofs by readings of a quorum: that it worked in between, that no level was moved, who may be away, and who votes.

Pure. Called by `core/levels/update_feature.py` to settle what was sent, by `core/roll/admission.py` before a
controller restarts, and by `describe`. Only the leader knows who has caught up; lag is measured by its clock, never
by ours.
"""

from __future__ import annotations

from enum import StrEnum

from kafkafeatures.api.names import KRAFT_VERSION
from kafkafeatures.core.facts.observation import Known, Node, NodeState, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.readings import QuorumAnswer, Role, majority_of


def worked_between(first: Observation, second: Observation) -> bool:
    """Tell whether one leader has worked in one epoch between two readings: then what it had not appended by the first
    is gone. One reading given twice proves nothing: a single voter is a majority of itself.
    """
    if first is second:
        return False
    if isinstance(first.quorum, Unknown) or isinstance(second.quorum, Unknown):
        return False
    earlier, later = first.quorum.value, second.quorum.value
    if earlier.leader_epoch != later.leader_epoch:
        return False
    return later.high_watermark > earlier.high_watermark or _majority_fetched_since(earlier, later)


def _majority_fetched_since(earlier: QuorumAnswer, later: QuorumAnswer) -> bool:
    """Without NoOps the mark stands still: then nothing may be uncommitted, and a majority must have fetched since."""
    leader = next((v for v in later.voters if v.id == later.leader_id), None)
    if earlier.clock < 0 or leader is None or leader.log_end_offset != later.high_watermark:
        return False
    return later.fetched_by_majority(earlier.clock + 1)


def nothing_was_moved_since(offset: int, observation: Observation) -> bool:
    """Tell whether the metadata log shows that no level at all was moved at or above this offset."""
    source = observation.source
    return source.kind is SourceKind.METADATA_LOG and 0 <= source.features_offset <= offset


def is_caught_up(id_: int, quorum: QuorumAnswer) -> bool:
    """Tell whether the leader says that this voter has just fetched, and has all that is there: by the leader's
    clock.
    """
    if id_ == quorum.leader_id:
        return True
    since = quorum.recent_since
    return any(
        voter.id == id_ and voter.last_fetch_timestamp >= since and voter.last_caught_up_timestamp >= since
        for voter in quorum.voters
    )


def may_restart(controller: int, quorum: QuorumAnswer, down: frozenset[int]) -> str | None:
    """Reason why this controller may not go away now; None where it may: a majority of the voters stays caught up
    without it.

    down: everybody who is away or about to be, whatever for. Of one or two voters none can go: there is no majority
    without it. Who is no voter takes nothing from the majority, but goes only while there is one.
    """
    voters = {voter.id for voter in quorum.voters}
    staying = voters - down - {controller}
    lagging = {id_ for id_ in staying if not is_caught_up(id_, quorum)}
    required = majority_of(len(voters))
    if len(staying - lagging) >= required:
        return None
    if len(voters - {controller}) < required:
        return f"a quorum of {len(voters)} has no majority without it"
    text = f"without it {len(staying - lagging)} of {len(voters)} voters are caught up, {required} required"
    missing = [f"{id_} is down" for id_ in sorted(voters & down - {controller})]
    missing += [f"{id_} is behind" for id_ in sorted(lagging)]
    return f"{text}: {', '.join(missing)}"


def next_controller(needing: frozenset[int], quorum: QuorumAnswer) -> int | None:
    """Controller of these that goes next: those behind first, for they hold no majority; the leader after all others.

    Ask again before each restart: another controller may lead by then.
    """
    return min(needing, key=lambda id_: (id_ == quorum.leader_id, is_caught_up(id_, quorum), id_), default=None)


class QuorumMode(StrEnum):
    """Source of the voters: the file of each node, or the metadata log (KIP-853)."""

    STATIC = "Static"
    DYNAMIC = "Dynamic"


def quorum_mode(observation: Observation) -> QuorumMode | None:
    """By the finalized kraft.version; None in ZooKeeper mode, and where that is not known."""
    level = None if observation.in_zookeeper_mode else observation.level_of(KRAFT_VERSION)
    return None if level is None else QuorumMode.DYNAMIC if level else QuorumMode.STATIC


def observers(observation: Observation) -> tuple[Node, ...]:
    """The controllers that run and are no voters; none where the voters could not be read."""
    if not isinstance(observation.quorum, Known) or not observation.in_kraft_mode:
        return ()
    running = (node for node in observation.nodes if node.state is NodeState.LIVE and Role.CONTROLLER in node.roles)
    return tuple(node for node in running if not node.is_voter)
