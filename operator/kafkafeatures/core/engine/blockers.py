"""Blockers: what prevents a change, each with a remedy, and their grouping into one line for many nodes.

Pure. Checks such as those of `core/levels/checks.py` yield one blocker per node, which programs read in the status.
People read the result of `grouped`: one line for all nodes with the same problem. This module decides nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.observation import Node, NodeKey
from kafkafeatures.core.facts.readings import FailureKind
from kafkafeatures.core.words import counted

Nodes = tuple[Node, ...]
Wording = Callable[[Nodes], tuple[str, str]]
"""Function that returns message and remedy for at least one node; all nodes have the same roles and the same
problem.
"""

RUNS_SHOWN = 5
"""Most runs of consecutive ids shown in a line. Where there are more, the middle is left out: "1, 3, 5, ... 299"."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """A cause that prevents a change, and what a person can do about it.

    feature: the feature it is about; empty for none.
    required_level: the level that is required; -1 for none.
    nodes: the nodes it is about, all with the same problem; empty if it is about the cluster.
    supported: levels that the nodes support.
    reason: the reason in the status, where the kind alone does not determine it.
    failure_kind: kind of failure, where something could not be read.
    about: name of the object, where it is neither a node nor a feature.
    alike: key for `grouped`, which joins blockers with equal keys. None: never joined with another.
    wording: makes message and remedy for all nodes once `grouped` has joined them.
    """

    kind: BlockerKind
    message: str
    remedy: str
    feature: str = ""
    required_level: int = -1
    nodes: Nodes = ()
    supported: VersionRange | None = None
    reason: Reason | None = None
    failure_kind: FailureKind | None = None
    about: str = ""
    alike: Hashable = None
    wording: Wording | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}"

    @property
    def subject(self) -> str:
        """The object, nodes or feature that the blocker is about."""
        return self.about or (title_of(self.nodes) if self.nodes else self.feature) or self.kind.subject

    @property
    def node(self) -> Node | None:
        """The node that the blocker is about, if there is exactly one."""
        return self.nodes[0] if len(self.nodes) == 1 else None


def about_nodes(
    kind: BlockerKind,
    nodes: Nodes,
    wording: Wording,
    *,
    feature: str = "",
    required_level: int = -1,
    supported: VersionRange | None = None,
    failure_kind: FailureKind | None = None,
    alike: Hashable = None,
) -> Blocker:
    """A blocker about nodes of the same roles and state. `alike`: whatever else must be equal so that `grouped` joins
    it with another blocker of its kind.
    """
    message, remedy = wording(nodes)
    key = (kind, nodes[0].roles, nodes[0].state, feature, required_level, supported, alike)
    return Blocker(
        kind,
        message,
        remedy,
        feature,
        required_level,
        nodes,
        supported,
        failure_kind=failure_kind,
        alike=key,
        wording=wording,
    )


def grouped(blockers: Iterable[Blocker]) -> tuple[Blocker, ...]:
    """Blockers, with those that differ only in their node joined into one, at the position of the first.

    Nodes are joined only if they have the same blockers for every feature. So each group of nodes appears with all its
    features.
    """
    all_blockers = tuple(blockers)
    alike_of_node: dict[NodeKey, list[Hashable]] = {}
    for blocker in all_blockers:
        for node in blocker.nodes:
            alike_of_node.setdefault(node.key, []).append(blocker.alike)
    groups: dict[Hashable, list[Blocker]] = {}
    for position, blocker in enumerate(all_blockers):
        of_node = frozenset(alike_of_node[blocker.nodes[0].key]) if blocker.nodes else None
        key = position if blocker.alike is None else (blocker.alike, of_node)
        groups.setdefault(key, []).append(blocker)
    return tuple(_as_one(group) for group in groups.values())


def _as_one(group: list[Blocker]) -> Blocker:
    first = group[0]
    if len(group) == 1 or first.wording is None:
        return first
    nodes = tuple(node for blocker in group for node in blocker.nodes)
    message, remedy = first.wording(nodes)
    return replace(first, message=message, remedy=remedy, nodes=nodes)


def only_the_asker(blockers: Iterable[Blocker]) -> bool:
    """Tell whether every blocker has its cause in this client (a missing right, credentials, TLS), so that the blockers
    say nothing about the cluster. False without blockers.
    """
    reasons = [blocker.failure_kind for blocker in blockers]
    return bool(reasons) and all(reason is not None and reason.is_of_the_asker for reason in reasons)


_KINDS_OF_NODES = {
    BlockerKind.NODE_RANGE: "outdated",
    BlockerKind.GHOST_REGISTRATION: "ghost",
    BlockerKind.REFUSED_NODE: "refused",
    BlockerKind.NODE_UNKNOWN: "unknown",
}
"""Words for nodes that prevent a change, by the kind of their blockers."""


def blocked_by(blockers: Iterable[Blocker]) -> str:
    """Blockers in short: "blocked by 2 nodes (1 outdated, 1 ghost)", "blocked by 1 outdated node"; those that are about
    no node by their reasons, and those about something else of a node, such as a setting, by their kinds.
    """
    kinds_of_nodes: dict[NodeKey, str] = {}
    causes: dict[str, None] = {}
    for blocker in blockers:
        if blocker.nodes and blocker.kind in _KINDS_OF_NODES:
            for node in blocker.nodes:
                kinds_of_nodes.setdefault(node.key, _KINDS_OF_NODES[blocker.kind])
        else:
            causes[blocker.kind.value if blocker.nodes else (blocker.reason or blocker.kind.reason).value] = None
    counts = Counter(kinds_of_nodes.values())
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    if len(counts) == 1:
        nodes = [counted(len(kinds_of_nodes), f"{next(iter(counts))} node")]
    else:
        nodes = [f"{counted(len(kinds_of_nodes), 'node')} ({kinds})"] if counts else []
    return f"blocked by {', '.join([*nodes, *causes])}"


# --- words for nodes ---


def title_of(nodes: Nodes) -> str:
    """Nodes in a message: "broker 3", or "150 brokers (1, 3, 5, ... 299)"; a node with both roles is a "node"."""
    return titled(_noun(nodes[0]), [node.id for node in nodes])


def titled(noun: str, ids: Sequence[int]) -> str:
    """Title of nodes of which only the ids are known, such as those of a metadata log: "2 brokers (3, 4)"."""
    return f"{noun} {ids[0]}" if len(ids) == 1 else f"{len(ids)} {noun}s ({shortened(ids)})"


def title_and_address(nodes: Nodes) -> str:
    """Title of the nodes, with host and port where it is a single node."""
    address = f" ({nodes[0].host}:{nodes[0].port})" if len(nodes) == 1 and nodes[0].host else ""
    return title_of(nodes) + address


def these(nodes: Nodes) -> str:
    """Reference to nodes that the sentence before has named: "broker 3", "these brokers"."""
    return nodes[0].title if len(nodes) == 1 else f"these {_noun(nodes[0])}s"


def verb(nodes: Nodes, one: str, many: str) -> str:
    """The form that fits the number of nodes: `one` for a single node, else `many`."""
    return one if len(nodes) == 1 else many


def shortened(ids: Iterable[int]) -> str:
    """Ids as people write them, on one line even if there are many: "1-3, 7", "1, 3, 5, ... 299"."""
    runs = _runs(ids)
    return ", ".join(runs) if len(runs) <= RUNS_SHOWN else f"{', '.join(runs[:3])}, ... {runs[-1]}"


def _noun(node: Node) -> str:
    return node.roles[0].value.lower() if len(node.roles) == 1 else "node"


def _runs(ids: Iterable[int]) -> list[str]:
    runs: list[list[int]] = []
    for id_ in sorted(ids):
        if runs and id_ == runs[-1][1] + 1:
            runs[-1][1] = id_
        else:
            runs.append([id_, id_])
    return [text for a, b in runs for text in ([f"{a}-{b}"] if b > a + 1 else map(str, dict.fromkeys((a, b))))]
