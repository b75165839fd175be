"""Verification of levels after their changes: the active controller and every live node must report each level.

Pure. The last part of the stage: used once no level has to be changed.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkafeatures.api.names import KRAFT_VERSION
from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.engine.decisions import Done, Stalled, Wait, blocked
from kafkafeatures.core.facts.observation import Known, Node, NodeState, Observation
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.releases import format_level
from kafkafeatures.core.levels.check_input import LevelCheckInput
from kafkafeatures.core.levels.checks import quorum_is_known, remedy_of_unmet
from kafkafeatures.core.levels.dynamic_quorum import left_in_files
from kafkafeatures.core.levels.readiness import unmet_dependencies

LAG = 0.025
"""Seconds until the next reading while a node still reports the old level, in a cluster of up to 20 nodes; more with
more nodes. A broker learns the level with its next fetch, 7 ms later on Kafka 4.2.
"""


def read_back(
    desired: Mapping[str, int], observation: Observation, held_back: Mapping[str, int] | None = None
) -> Done | Wait | Stalled:
    """Done once every live node that answered reports every level. Until then a wait; without a known quorum, the
    decision for that blocker. `held_back`: levels that wait for another operator (`LevelsProposal`).
    """
    leaderless = tuple(quorum_is_known(LevelCheckInput(observation, ())))
    if leaderless and not observation.in_zookeeper_mode:
        return blocked(leaderless)
    lagging = [
        (node, feature)
        for node in observation.nodes
        if node.state is NodeState.LIVE
        for feature, level in desired.items()
        if _reported_level(node, feature) not in (level, None)
    ]
    if lagging:
        node, feature = lagging[0]
        return Wait(
            Reason.VERIFYING,
            f"{node.title} still reports {feature} {_reported_level(node, feature)}"
            + (f", and {len(lagging) - 1} more readings are behind" if len(lagging) > 1 else ""),
            delay=LAG * max(1.0, len(observation.nodes) / 20),
            subject=node.title,
            remedy=f"see the log of {node.title} for why it does not follow the metadata log, and restart it",
        )
    if not desired:
        return Done(Reason.IN_SYNC, "the document names no level; the cluster is left unchanged")
    levels = ", ".join(f"{feature} {format_level(feature, level)}" for feature, level in desired.items())
    file_changes = left_in_files(observation) if KRAFT_VERSION in desired else ""
    then = f"; the quorum is dynamic: {file_changes}" if file_changes else ""
    for unmet in unmet_dependencies(observation.known_levels, held_back or {}):
        then += f"; not yet, as {unmet}: {remedy_of_unmet(unmet, observation)}"
    return Done(Reason.IN_SYNC, f"finalized and verified on every live node: {levels}{then}")


def verified_on(observation: Observation, feature: str, level: int) -> tuple[int, int]:
    """Number of live nodes that report this level, and number of live nodes that report any level of the feature."""
    levels = [_reported_level(node, feature) for node in observation.nodes if node.state is NodeState.LIVE]
    return levels.count(level), len(levels) - levels.count(None)


def _reported_level(node: Node, feature: str) -> int | None:
    """Level that the node reports; None if there is none that counts: the node did not answer (a node that is down does
    not make a cluster unready), or it is a broker that reports kraft.version (what brokers report as kraft.version
    depends on their release; KAFKA-18979, KAFKA-18602).
    """
    if feature == KRAFT_VERSION and Role.CONTROLLER not in node.roles:
        return None
    return node.answer.value.finalized.get(feature, 0) if isinstance(node.answer, Known) else None
