"""Blockers in the form of `status.blockers` and of plan documents.

Pure. Called by the modules of `core/report/`, and by the commands that show blockers. It imports nothing that decides,
because `describe` has to start fast.
"""

from __future__ import annotations

from kafkafeatures.api.status import BlockerStatus
from kafkafeatures.core.engine.blockers import Blocker, title_of
from kafkafeatures.core.facts.binaries import inferred_release
from kafkafeatures.core.words import cut

MAX_WORDS = 512  # bytes of a blocker's message, and of its remedy


def blocker_status(blocker: Blocker) -> BlockerStatus:
    """The entry of a blocker. `inferred_release` is empty where its nodes run different releases, or none is known."""
    releases = {inferred_release(node) for node in blocker.nodes}
    return BlockerStatus(
        kind=blocker.kind.value,
        nodes=title_of(blocker.nodes) if blocker.nodes else "",
        node_id=blocker.node.id if blocker.node is not None else None,
        roles=tuple(role.value for role in blocker.nodes[0].roles) if blocker.nodes else (),
        inferred_release=releases.pop() if len(releases) == 1 else "",
        feature=blocker.feature,
        supported_min=blocker.supported.min if blocker.supported is not None else None,
        supported_max=blocker.supported.max if blocker.supported is not None else None,
        wanted=blocker.required_level if blocker.required_level >= 0 else None,
        message=cut(blocker.message, MAX_WORDS),
        remedy=cut(blocker.remedy, MAX_WORDS),
    )
