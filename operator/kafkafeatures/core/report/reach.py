"""Levels to which a cluster can be raised, and the nodes that prevent a higher one.

Pure. Called by `cli/cluster/matrix.py` for `describe`, which has no document and so no desired levels. Instead it aims
at the highest level of each feature that a live node supports; the checks of a raise (`core/levels/checks.py`) find the
nodes that prevent it.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.facts.binaries import inferred_release
from kafkafeatures.core.facts.observation import (
    Node,
    NodeKey,
    NodeState,
    Observation,
    Unknown,
    supported_by_all,
)
from kafkafeatures.core.facts.readings import FailureKind
from kafkafeatures.core.facts.releases import WITHOUT_A_LEVEL, dependencies, level_name, level_of_vendor
from kafkafeatures.core.levels.changes import changes_between
from kafkafeatures.core.levels.check_input import LevelCheckInput
from kafkafeatures.core.levels.checks import no_node_is_refused
from kafkafeatures.core.levels.node_ranges import every_node_supports_it
from kafkafeatures.core.words import counted

NAMED = 2
"""Most nodes that a line names; more are counted."""
_AWAY = (NodeState.FENCED, NodeState.UNREACHABLE, NodeState.GHOST)
"""States of registered nodes that are not live. A stopped broker is a ghost until it is back."""


def is_counted_on(observation: Observation, node: Node) -> bool:
    """Tell whether the node counts: it is live or, where only the files of a log were read, registered."""
    return node.state is NodeState.LIVE or (bool(observation.source.files) and node.state is NodeState.UNREACHABLE)


def highest_levels(observation: Observation) -> dict[str, int]:
    """The highest level of each feature that a live node supports."""
    nodes = [node for node in observation.nodes if is_counted_on(observation, node)]
    ranges = {name: [node.known_range_of(name) for node in nodes] for name in observation.feature_names()}
    return {
        name: max((version_range.max for version_range in version_ranges if version_range is not None), default=0)
        for name, version_ranges in ranges.items()
    }


def blockers_of(observation: Observation, levels: Mapping[str, int], flags: str) -> tuple[Blocker, ...]:
    """Nodes that prevent a raise to these levels. `flags`: flags with which commands in remedies reach the cluster."""
    finalized = observation.known_levels
    raised = {name: level for name, level in levels.items() if level > finalized.get(name, 0)}
    inputs = LevelCheckInput(observation, changes_between(raised, finalized), cluster_flags=flags)
    return (*every_node_supports_it(inputs), *no_node_is_refused(inputs))


def headline(observation: Observation, highest: int, blockers: tuple[Blocker, ...]) -> tuple[str, str]:
    """Two parts of a line: the level of metadata.version with the one that it can be raised to, and what prevents that,
    such as "metadata.version 4.0-IV3 -> 4.2-IV1: ", "blocked by broker 2 (Kafka 4.0)". Both are empty
    where the level is not known.

    highest: the highest metadata.version that a live node supports.
    blockers: nodes that prevent a raise to it.
    """
    level = observation.level_of(METADATA_VERSION)
    if level is None or observation.in_zookeeper_mode:
        return "", ""
    if reason := _reason_against_changes(observation):
        return f"{_current(level)}; no level can be changed {reason}", ""
    if not level and (vendors := level_of_vendor(observation.known_levels)):
        return f"{vendors}, which is not one of Kafka's features; {METADATA_VERSION} is not used", ""
    level = level or WITHOUT_A_LEVEL
    if not any(is_counted_on(observation, node) for node in observation.nodes):
        unknown = "no node is known to run, so how far it can be raised is unknown"
        return f"{_current(level)}; {unknown}", ""
    if highest <= level:
        return f"{_current(level)} is the highest level that a live node supports", ""
    supported = supported_by_all(observation, [METADATA_VERSION])[METADATA_VERSION]
    between = supported.max if supported is not None and level < supported.max < highest else 0
    counts = _blocking_nodes(
        observation,
        {node.key for blocker in blockers if blocker.feature in ("", METADATA_VERSION) for node in blocker.nodes},
    )
    if between:
        could = f"{_current(level)} -> {_named(between)}; {_named(highest)} is "
        return could, f"blocked by {counts}"
    if counts:
        return f"{_current(level)} -> {_named(highest)}: ", f"blocked by {counts}"
    return f"{_current(level)}; can be raised to {_named(highest)}", ""


def raises_of(
    observation: Observation, highest: Mapping[str, int], blockers: tuple[Blocker, ...]
) -> dict[str, tuple[int, int]]:
    """Features that can be raised now: name to (finalized level, highest level).

    highest, blockers: of `highest_levels` and `blockers_of`. A feature is left out if a node prevents its highest level
    or has an unknown range, if it needs a higher metadata.version, and if no level can be changed. So is kraft.version,
    whose level 1 makes the quorum dynamic for ever: no release raises it; and a metadata.version that is not used.
    """
    level = observation.level_of(METADATA_VERSION)
    if level is None or observation.in_zookeeper_mode or _reason_against_changes(observation):
        return {}
    finalized = observation.known_levels
    blocked = {blocker.feature for blocker in blockers}
    return {
        name: (finalized.get(name, 0), most)
        for name, most in sorted(highest.items())
        if name not in (KRAFT_VERSION, "" if level else METADATA_VERSION)
        and most > finalized.get(name, 0)
        and not blocked & {"", name}
        and level >= dependencies(name, most).get(METADATA_VERSION, 0)
    }


def other_raises(raises: Mapping[str, tuple[int, int]]) -> str:
    """Raises beside metadata.version, which has the headline, in a line; empty if there are none."""
    changes = [f"{name} {level} -> {most}" for name, (level, most) in raises.items() if name != METADATA_VERSION]
    return f"{counted(len(changes), 'other feature')} can be raised: {', '.join(changes)}" if changes else ""


def nodes_away(observation: Observation, blockers: tuple[Blocker, ...]) -> str:
    """The registered nodes that are not live, as in a roll: "1 node is not live: broker 2", or if they are more than
    `NAMED` only their number. Empty without any, and for files of a log, which show no live node. Those of blockers are
    left out: they have words of their own.
    """
    blocking = {node.key for blocker in blockers for node in blocker.nodes}
    away = [node for node in observation.nodes if node.state in _AWAY and node.key not in blocking]
    if not away or observation.source.files:
        return ""
    count = f"{counted(len(away), 'node')} {'is' if len(away) == 1 else 'are'} not live"
    return f"{count}: {' and '.join(node.title for node in away)}" if len(away) <= NAMED else count


def _reason_against_changes(observation: Observation) -> str:
    """Reason, for the end of a sentence, why no level can be changed now, whatever nodes support. Empty if one can be,
    and if the observation was made from files.
    """
    if observation.source.files:
        return ""
    if isinstance(observation.cluster_id, Unknown) and observation.cluster_id.failure.kind is FailureKind.WRONG_CLUSTER:
        return "while the addresses lead to two clusters"
    if observation.is_migrating:
        return "while a migration from ZooKeeper is open"
    failure = observation.no_quorum
    if failure is not None and failure.kind.is_of_the_asker:
        return "while the active controller is unknown"
    return "without an active controller" if failure is not None else ""


def _blocking_nodes(observation: Observation, keys: set[NodeKey]) -> str:
    """Blocking nodes in words: "broker 2 (Kafka 4.0) and broker 4 (a ghost)", or if they are more than `NAMED`
    "2 of 7 nodes and 1 ghost". `keys`: keys of these nodes. Ghosts are counted apart.
    """
    if len(keys) <= NAMED:
        return " and ".join(_with_release(node) for node in observation.nodes if node.key in keys)
    is_ghost = {node.key: node.state is NodeState.GHOST for node in observation.nodes if node.roles}
    ghosts = sum(is_ghost.get(key, False) for key in keys)
    nodes = len(is_ghost) - sum(is_ghost.values())
    blocking = len(keys) - ghosts
    parts = (f"{blocking} of {counted(nodes, 'node')}" if blocking else "", counted(ghosts, "ghost") if ghosts else "")
    return " and ".join(filter(None, parts))


def _with_release(node: Node) -> str:
    """A node with what prevents the raise: its release, or that it is a ghost."""
    release = "a ghost" if node.state is NodeState.GHOST else f"Kafka {inferred_release(node) or '?'}"
    return f"{node.title} ({release})"


def _current(level: int) -> str:
    return f"{METADATA_VERSION} {_named(level)}"


def _named(level: int) -> str:
    return level_name(METADATA_VERSION, level) or f"level {level}"
