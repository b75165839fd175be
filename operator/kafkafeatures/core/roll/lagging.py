"""Live brokers that are not in sync with what they host: the cause where partitions forbid the restart of another one.

Pure. Asked by the checks of a roll, and by what chooses the next node. Since when a broker is behind is kept in
`status.rollout.behind` while the roll lasts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkafeatures.api.records import Stamp, stamp
from kafkafeatures.core.facts.observation import Node
from kafkafeatures.core.facts.replication import NAMED, format_partitions
from kafkafeatures.core.roll.question import RestartQuestion


class Cause(NamedTuple):
    """`text`: which brokers are behind, with what, and since when. `remedy`: where to look."""

    text: str
    remedy: str
    nodes: tuple[Node, ...]

    @property
    def subject(self) -> str:
        """The first of these brokers."""
        return self.nodes[0].title if self.nodes else "replicas"


def brokers_behind(question: RestartQuestion) -> Mapping[int, Stamp]:
    """Live brokers that are out of sync with what they host, and since when. Of many the first are dated, those first
    that were known before: a status has room for few.
    """
    if question.replication is None:
        return {}
    rollout = question.remembered.status.rollout
    known = {one.node_id: one.since for one in rollout.behind} if rollout is not None else {}
    live = question.replication.behind() - question.flying - question.unavailable
    ids = sorted(live, key=lambda id_: (id_ not in known, id_))
    return {id_: known.get(id_) or stamp(question.remembered.now) for id_ in ids}


def cause_among(question: RestartQuestion, ids: Iterable[int] | None = None) -> Cause | None:
    """The first brokers that are behind, of these or of all; None where none is."""
    since = brokers_behind(question)
    behind = [id_ for id_ in sorted(since if ids is None else ids) if id_ in since][:NAMED]
    if not behind or question.replication is None:
        return None
    texts = []
    for id_ in behind:
        lacking = format_partitions(*question.replication.out_of_sync(id_))
        texts.append(f"{question.title(id_)} has not been in sync with {lacking} since {since[id_]}")
    first = behind[0]
    pod, title = question.fleet.pods.get(first), question.title(first)
    look = f"`kubectl logs {pod.name}`" if pod is not None else f"the log of {title}"
    remedy = f"see {look} for why {title} does not catch up, and restart it if it hangs"
    return Cause("; ".join(texts), remedy, tuple(node for id_ in behind for node in question.nodes(id_)))
