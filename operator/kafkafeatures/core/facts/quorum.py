"""Judgements on readings of a quorum: whether it worked between two readings, whether a level was changed since an
offset, which controller may restart, and which controllers are no voters.

Pure. Used to settle steps, before a controller restarts, and by reports. Only the leader knows which voters have caught
up; lag is measured by the leader's clock, never by the operator's.
"""

from __future__ import annotations

from enum import StrEnum

from kafkafeatures.api.names import KRAFT_VERSION
from kafkafeatures.core.facts.observation import Known, Node, NodeState, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.readings import QuorumAnswer, Role, majority_of


def worked_between(first: Observation, second: Observation) -> bool:
    """Tell whether the same leader committed something, or was followed by a majority, between two readings. Then a
    request that the leader received before the first one, and that does not show in the second one, was lost.
    """
    if first is second:
        return False  # a quorum with a single voter would seem to work, as its leader is always a majority
    if isinstance(first.quorum, Unknown) or isinstance(second.quorum, Unknown):
        return False
    earlier, later = first.quorum.value, second.quorum.value
    if earlier.leader_epoch != later.leader_epoch:
        return False
    return later.high_watermark > earlier.high_watermark or _majority_fetched_since(earlier, later)


def _majority_fetched_since(earlier: QuorumAnswer, later: QuorumAnswer) -> bool:
    """Tell whether a majority has fetched since the earlier reading, and everything is committed. Needed if no NoOp
    records move the high watermark, as below metadata.version 3.3-IV1.
    """
    leader = next((voter for voter in later.voters if voter.id == later.leader_id), None)
    if earlier.clock < 0 or leader is None or leader.log_end_offset != later.high_watermark:
        return False
    return later.fetched_by_majority(earlier.clock + 1)  # + 1: later than the first reading, by the leader's clock


def nothing_was_moved_since(offset: int, observation: Observation) -> bool:
    """Tell whether the metadata log shows that no level was changed at or after this offset; False without a log."""
    source = observation.source
    return source.kind is SourceKind.METADATA_LOG and 0 <= source.features_offset <= offset


def is_caught_up(id_: int, quorum: QuorumAnswer) -> bool:
    """Tell whether this voter fetched and was caught up within the last `MAJORITY_WITHIN_MS`, by the leader's clock."""
    if id_ == quorum.leader_id:
        return True
    since = quorum.recent_since
    return any(
        voter.id == id_ and voter.last_fetch_timestamp >= since and voter.last_caught_up_timestamp >= since
        for voter in quorum.voters
    )


def why_not_restart(controller: int, quorum: QuorumAnswer, down: frozenset[int]) -> str | None:
    """Reason why this controller may not restart now; None where a majority of the voters stays caught up without it.

    down: all nodes that are away or about to be, for any reason. With only one or two voters, no voter may restart, as
    no majority would remain. A controller that does not vote takes nothing from the majority, but may restart only
    while there is a majority.
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
    """The controller to restart next: first the controllers that are behind, on which no majority depends; last the
    leader. To be called before each restart, as another controller may lead after a restart. None if no controller
    needs one. `needing`: ids of the controllers that need a restart.
    """
    return min(needing, key=lambda id_: (id_ == quorum.leader_id, is_caught_up(id_, quorum), id_), default=None)


class QuorumMode(StrEnum):
    """Source of the voters: the settings of each node (Static), or the metadata log (Dynamic, KIP-853)."""

    STATIC = "Static"
    DYNAMIC = "Dynamic"


def quorum_mode(observation: Observation) -> QuorumMode | None:
    """Mode by the finalized kraft.version; None in ZooKeeper mode, and where the level is not known."""
    level = None if observation.in_zookeeper_mode else observation.level_of(KRAFT_VERSION)
    return None if level is None else QuorumMode.DYNAMIC if level else QuorumMode.STATIC


def observers(observation: Observation) -> tuple[Node, ...]:
    """Controllers that run and are no voters; none where the voters could not be read, or the cluster is not certainly
    in KRaft mode.
    """
    if not isinstance(observation.quorum, Known) or not observation.in_kraft_mode:
        return ()
    running = (node for node in observation.nodes if node.state is NodeState.LIVE and Role.CONTROLLER in node.roles)
    return tuple(node for node in running if not node.is_voter)
