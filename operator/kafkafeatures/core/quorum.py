"""What two readings of a quorum prove: that it worked in between, and that no level was moved.

Pure. Called by `core/steps.py` to settle what was sent.
"""

from __future__ import annotations

from kafkafeatures.core.observation import Observation, SourceKind, Unknown
from kafkafeatures.core.readings import MAJORITY_WITHIN_MS, QuorumAnswer


def worked_between(first: Observation, second: Observation) -> bool:
    """The same leader, in the same epoch, has worked since: what it had not appended by then is gone.

    One reading, given twice, proves nothing: a single voter is a majority of itself.
    """
    if first is second:
        return False
    if isinstance(first.quorum, Unknown) or isinstance(second.quorum, Unknown):
        return False
    before, after = first.quorum.value, second.quorum.value
    if before.leader_epoch != after.leader_epoch:
        return False
    return after.high_watermark > before.high_watermark or _majority_fetched_since(before, after)


def _majority_fetched_since(before: QuorumAnswer, after: QuorumAnswer) -> bool:
    """The same where NoOps are switched off: nothing is uncommitted, and a majority fetched after the first look."""
    then = next((v.last_fetch_timestamp for v in before.voters if v.id == before.leader_id), -1)
    leader = next((v for v in after.voters if v.id == after.leader_id), None)
    if then < 0 or leader is None or leader.log_end_offset != after.high_watermark:
        return False
    since = sum(v.id == after.leader_id or v.last_fetch_timestamp > then for v in after.voters)
    return since > len(after.voters) // 2


def nothing_was_moved_since(offset: int, observation: Observation) -> bool:
    """Whether the metadata log shows that no level at all was moved at or above this offset."""
    source = observation.source
    return source.kind is SourceKind.METADATA_LOG and 0 <= source.features_offset <= offset


def is_caught_up(id_: int, quorum: QuorumAnswer) -> bool:
    """Whether the leader says that this voter has just fetched, and has all that is there: by the leader's clock."""
    if id_ == quorum.leader_id:
        return True
    clock = next((voter.last_fetch_timestamp for voter in quorum.voters if voter.id == quorum.leader_id), -1)
    since = clock - MAJORITY_WITHIN_MS
    return clock >= 0 and any(
        voter.id == id_ and voter.last_fetch_timestamp >= since and voter.last_caught_up_timestamp >= since
        for voter in quorum.voters
    )
