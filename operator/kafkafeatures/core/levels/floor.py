"""A finalized level below the lowest one that the Kafka release of an upgrade supports: its nodes could not register.

Pure. Used by `check --release`, by plans and by drivers that do not know the binaries (`core/levels/checks.py`), and
for restarts into a known image (`core/roll/held_levels.py`). Nodes of the new release never register, so no range that
a node reports shows this beforehand.
"""

from __future__ import annotations

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.facts.binaries import newest_release, releases_that_hold, releases_with, supported_by
from kafkafeatures.core.facts.levels import common
from kafkafeatures.core.facts.observation import NOT_SUPPORTED, Node, NodeState, Observation, Unknown
from kafkafeatures.core.facts.releases import WITHOUT_A_LEVEL, format_level
from kafkafeatures.core.levels.check_input import LevelCheckInput


def floor_of_target(question: LevelCheckInput) -> Blocker | None:
    """The blocker where a node needs another Kafka for the changes, and no such Kafka supports the finalized level."""
    finalized = question.observation.finalized
    if isinstance(finalized, Unknown):
        return None
    targets = {change.feature: change.to_level for change in question.changes}
    known_levels = (
        (name, level) for name, level in question.unknown_features if level and releases_that_hold({name: level})
    )
    targets.update(known_levels)  # a feature that no release has needs no upgrade
    if not any(_lacks(question.observation, feature, level) for feature, level in targets.items()):
        return None
    release = (*releases_that_hold(targets), newest_release())[0]  # a newer one has no lower minimum
    supported = (supported_by(release) or {}).get(METADATA_VERSION, NOT_SUPPORTED)
    level = finalized.value.get(METADATA_VERSION) or WITHOUT_A_LEVEL
    if level >= supported.min:
        return None
    return Blocker(
        BlockerKind.NODE_RANGE,
        f"{METADATA_VERSION} {format_level(METADATA_VERSION, level)} is below what Kafka {release} supports "
        f"({supported.min} and up): its nodes could not register",
        raise_first(METADATA_VERSION, level, supported.min, question.observation),
        feature=METADATA_VERSION,
        required_level=supported.min,
        reason=Reason.UNSUPPORTED_LEVEL,
    )


def _lacks(observation: Observation, feature: str, level: int) -> bool:
    """Tell whether a node, which may be running, supports a lower range only."""
    ranges = (node.known_range_of(feature) for node in _counted(observation))
    return any(version_range is not None and version_range.max < level for version_range in ranges)


def raise_first(feature: str, level: int, floor: int, observation: Observation) -> str:
    """Remedy before the upgrade: the level to raise to, and the Kafka to run for that."""
    ranges = [node.known_range_of(feature) for node in _counted(observation)]
    current = common(version_range for version_range in ranges if version_range is not None)
    if current is not None and None not in ranges and floor in current and level in current:
        running = " or ".join(releases_with({feature: current})) if set(ranges) == {current} else ""
        return (
            f"first raise it to {floor}..{current.max} while the nodes run {running or 'the Kafka that they run now'}"
        )
    bridges = releases_that_hold({feature: level}, {feature: floor})
    if not bridges:
        return f"first raise it to {format_level(feature, floor)} or higher"
    top = (supported_by(bridges[-1]) or {}).get(feature, NOT_SUPPORTED).max
    return f"first run Kafka {bridges[-1]} on every node, and raise it to {floor}..{top} there"


def _counted(observation: Observation) -> list[Node]:
    away = (NodeState.GHOST, NodeState.REFUSED)
    return [node for node in observation.nodes if node.roles and node.state not in away]
