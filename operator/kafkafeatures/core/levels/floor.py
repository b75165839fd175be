"""Check before an upgrade of Kafka: the finalized metadata.version must not be below the lowest level that the new
release supports, or its nodes cannot register.

Pure. Used for levels that need an upgrade (`core/levels/checks.py`), and before a roll (`core/roll/held_levels.py`). No
node reports the range of the new release beforehand, so the range comes from the table of releases.
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


def floor_of_target(inputs: LevelCheckInput) -> Blocker | None:
    """Blocker if a node needs a newer Kafka for the changes, and the release with these levels does not support the
    finalized metadata.version; else None.
    """
    finalized = inputs.observation.finalized
    if isinstance(finalized, Unknown):
        return None
    targets = {change.feature: change.to_level for change in inputs.changes}
    known_levels = (
        (name, level) for name, level in inputs.unknown_features if level and releases_that_hold({name: level})
    )
    targets.update(known_levels)  # without features that no release has: no upgrade brings them
    if not any(_lacks(inputs.observation, feature, level) for feature, level in targets.items()):
        return None
    # The oldest release that has all levels: the lowest supported level only rises with newer releases.
    release = (*releases_that_hold(targets), newest_release())[0]
    supported = (supported_by(release) or {}).get(METADATA_VERSION, NOT_SUPPORTED)
    level = finalized.value.get(METADATA_VERSION) or WITHOUT_A_LEVEL
    if level >= supported.min:
        return None
    return Blocker(
        BlockerKind.NODE_RANGE,
        f"{METADATA_VERSION} {format_level(METADATA_VERSION, level)} is below what Kafka {release} supports "
        f"({supported.min} and up): its nodes could not register",
        raise_first(METADATA_VERSION, level, supported.min, inputs.observation),
        feature=METADATA_VERSION,
        required_level=supported.min,
        reason=Reason.UNSUPPORTED_LEVEL,
    )


def _lacks(observation: Observation, feature: str, level: int) -> bool:
    """Tell whether a node that may be running supports only levels below this one."""
    ranges = (node.known_range_of(feature) for node in _running_nodes(observation))
    return any(version_range is not None and version_range.max < level for version_range in ranges)


def raise_first(feature: str, level: int, floor: int, observation: Observation) -> str:
    """Remedy before the upgrade: the level to which `feature` is raised first, and the Kafka release that allows it.
    `level`: finalized now; `floor`: lowest level that the new release supports.
    """
    ranges = [node.known_range_of(feature) for node in _running_nodes(observation)]
    current = common(version_range for version_range in ranges if version_range is not None)
    # The present Kafka of all nodes allows the raise: no other release is needed in between.
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


def _running_nodes(observation: Observation) -> list[Node]:
    """Nodes that may be running, and so need the new release."""
    away = (NodeState.GHOST, NodeState.REFUSED)
    return [node for node in observation.nodes if node.roles and node.state not in away]
