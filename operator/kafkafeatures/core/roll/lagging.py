"""Live brokers that are not in sync with what they host: the cause where partitions forbid the restart of another one.

Pure. Asked by `core/roll/admission.py` and `core/roll/checks.py`. Since when a broker is behind is kept in
`status.rollout.behind` while the roll lasts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

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


def cause_among(question: RestartQuestion, ids: Iterable[int]) -> Cause | None:
    """The first brokers of these that are behind; None where none is."""
    behind = [id_ for id_ in sorted(ids) if id_ in question.behind][:NAMED]
    if not behind or question.replication is None:
        return None
    texts = []
    for id_ in behind:
        lacking = format_partitions(*question.replication.out_of_sync(id_))
        texts.append(f"{question.title(id_)} has not been in sync with {lacking} since {question.behind[id_]}")
    first = behind[0]
    pod, title = question.fleet.pods.get(first), question.title(first)
    look = f"`kubectl logs {pod.name}`" if pod is not None else f"the log of {title}"
    remedy = f"see {look} for why {title} does not catch up, and restart it if it hangs"
    return Cause("; ".join(texts), remedy, tuple(node for id_ in behind for node in question.nodes(id_)))
