"""Verdict of `kafkafeatures check`: whether a cluster is healthy, and whether it can be upgraded to a release.

Pure. Called by `cli/document/check.py`. Every node that is registered or votes has to be live. Every partition needs
all replicas in sync, or more than min.insync.replicas requires. For a release, the levels that belong to it are judged
by the checks of a raise (`core/levels/checks.py`). The verdict is Unknown where something could not be read and there
are no blockers; also where all blockers come from this client: a missing right, credentials, or TLS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkafeatures.api.names import KRAFT_VERSION
from kafkafeatures.api.reasons import BlockerKind
from kafkafeatures.core.engine.blockers import (
    Blocker,
    Nodes,
    about_nodes,
    grouped,
    only_the_asker,
    these,
    title_of,
    verb,
)
from kafkafeatures.core.engine.remedies import ghost_remedy, in_its_place, kind_of_replacement, refused_texts
from kafkafeatures.core.facts.observation import Node, NodeKey, NodeState, Observation, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.levels.changes import changes_between
from kafkafeatures.core.levels.check_input import LevelCheckInput
from kafkafeatures.core.levels.checks import blockers, quorum_is_known
from kafkafeatures.core.levels.prerequisites import prerequisites_of

if TYPE_CHECKING:  # it judges partitions by numpy, which nothing else needs
    from kafkafeatures.core.facts.replication import Replication


class CheckVerdict(StrEnum):
    """Outcome of a check."""

    READY = "Ready"
    BLOCKED = "Blocked"
    UNKNOWN = "Unknown"


class Check(Struct, frozen=True):
    """Result of a check.

    blockers: what makes the cluster unhealthy, or prevents the upgrade; nodes with the same problem share one.
    unread: what could not be read.
    warnings: what will not work, although nothing prevents the upgrade.
    """

    blockers: tuple[Blocker, ...]
    unread: tuple[Failure, ...]
    warnings: tuple[str, ...] = ()

    @property
    def verdict(self) -> CheckVerdict:
        """Blocked only by problems of the cluster; Unknown if only this client is to blame, or something is unread."""
        if self.blockers and not only_the_asker(self.blockers):
            return CheckVerdict.BLOCKED
        return CheckVerdict.UNKNOWN if self.blockers or self.unread else CheckVerdict.READY


def check(
    observation: Observation, levels: Mapping[str, int], flags: str, replication: Replication | None = None
) -> Check:
    """Check a cluster.

    levels: levels of the release; empty to check only its health. A higher finalized level counts as reached.
    flags: flags with which commands in remedies reach the cluster.
    replication: its partitions; None where they were not read.
    """
    finalized = observation.known_levels
    targets = {name: max(level, finalized.get(name, 0)) for name, level in levels.items() if name != KRAFT_VERSION}
    inputs = LevelCheckInput(observation, changes_between(targets, finalized), cluster_flags=flags)
    health = () if observation.in_zookeeper_mode else tuple(quorum_is_known(inputs))
    level_blockers = blockers(inputs) if inputs.changes else health
    # A ghost or a refused node that blocks a level has a blocker already.
    described = (BlockerKind.GHOST_REGISTRATION, BlockerKind.REFUSED_NODE)
    described_keys = {node.key for blocker in level_blockers if blocker.kind in described for node in blocker.nodes}
    partitions = _partitions(observation, replication) if replication is not None else ()
    unread = (
        (observation.partitions.failure,) if isinstance(observation.partitions, Unknown) and replication is None else ()
    )
    gaps = (
        *(gap.with_flags(flags) for gap in observation.gaps),
        *(
            failure
            for failure in unread
            if failure.kind is not FailureKind.NOT_ASKED and failure not in observation.gaps
        ),
    )
    warnings = tuple(line for change in inputs.changes for line in prerequisites_of(change, observation))
    return Check(
        (*grouped((*_nodes(observation, flags, described_keys), *level_blockers)), *partitions), gaps, warnings
    )


def _partitions(observation: Observation, replication: Replication) -> Iterator[Blocker]:
    """Blockers for partitions that refuse writes with acks=all, or would with one broker less. They name the live
    brokers that are behind.
    """
    from kafkafeatures.core.facts.replication import format_partitions

    away = {node.id for node in observation.nodes if Role.BROKER in node.roles and node.state is not NodeState.LIVE}
    lagging = tuple(
        node for node in observation.nodes if Role.BROKER in node.roles and node.id in replication.lagging() - away
    )
    lag, remedy = "", "bring the brokers of its other replicas back"
    if lagging:
        hosts = verb(lagging, "is not in sync with what it hosts", "are not in sync with what they host")
        lag, remedy = f"; {title_of(lagging)} {hosts}", f"see the log of {these(lagging)} for why it does not catch up"
    for (number, names), singular, plural in (
        (replication.offline(), "has no leader", "have no leader"),
        (replication.under_min_isr(), "is below min.insync.replicas", "are below min.insync.replicas"),
        (
            replication.at_min_isr(),
            "is at min.insync.replicas, and lacks a replica",
            "are at min.insync.replicas, and lack a replica",
        ),
    ):
        if number:
            text = f"{format_partitions(number, names)} {singular if number == 1 else plural}{lag}"
            yield Blocker(BlockerKind.PARTITION, text, remedy)


_LEADS_ELSEWHERE = (FailureKind.ANOTHER_NODE, FailureKind.WRONG_CLUSTER)
"""Kinds of failures that mean that something else answers at the address of the node."""
_MAKE_IT_LEAD = (
    "make the address of each lead to it: see advertised.listeners, the DNS records, and load balancers or proxies in "
    "between"
)


def _nodes(observation: Observation, flags: str, described: Set[NodeKey]) -> Iterator[Blocker]:
    """Blockers for nodes that are not live, without those in `described`, which have one already."""
    for node in observation.nodes:
        if not node.roles or node.state is NodeState.LIVE or node.key in described:
            continue
        yield _ghost(node, observation, flags) if node.state is NodeState.GHOST else _away(node, observation)


def _ghost(node: Node, observation: Observation, flags: str) -> Blocker:
    def words(nodes: Nodes) -> tuple[str, str]:
        is_registered, runs = verb(nodes, "is registered", "are registered"), verb(nodes, "it runs", "they run")
        text = f"{title_of(nodes)} {is_registered}, but nothing shows that {runs} (ghost registration)"
        text += f": {replacement}" if (replacement := in_its_place(nodes)) else ""
        return text, ghost_remedy(nodes, flags, observation.finalized)

    return about_nodes(BlockerKind.GHOST_REGISTRATION, (node,), words, alike=kind_of_replacement(node))


def _away(node: Node, observation: Observation) -> Blocker:
    """Blocker for a node that is refused, fenced or unreachable."""

    def words(nodes: Nodes) -> tuple[str, str]:
        if node.state is NodeState.REFUSED:
            return refused_texts(nodes, observation.finalized)
        is_away, them = f"{title_of(nodes)} {verb(nodes, 'is', 'are')}", verb(nodes, "it", "them")
        if node.state is NodeState.FENCED:
            causes = verb(nodes, "it recovers its log, catches up, or", "they recover their logs, catch up, or")
            return f"{is_away} fenced: {causes} cannot reach the controller", f"see the log of {them}"
        if kind not in _LEADS_ELSEWHERE:
            listens = verb(nodes, "it listens at its address", "they listen at their addresses")
            return f"{is_away} not reachable", f"start {them}, or see whether {listens}"
        if len(nodes) == 1 and isinstance(nodes[0].answer, Unknown):
            return f"{is_away} not reachable: {nodes[0].answer.failure.message}", nodes[0].answer.failure.action
        return f"{is_away} not reachable: their addresses lead to other nodes", _MAKE_IT_LEAD

    mode = node.runs_in_kraft_mode if node.state is NodeState.REFUSED else None
    kind = (
        node.answer.failure.kind if node.state is NodeState.UNREACHABLE and isinstance(node.answer, Unknown) else None
    )
    return about_nodes(BlockerKind.NODE_UNKNOWN, (node,), words, failure_kind=kind, alike=(mode, kind))
