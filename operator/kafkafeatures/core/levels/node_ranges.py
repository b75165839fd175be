"""Check that the supported range of every node contains the desired levels, and the messages of its blockers.

Pure. One of the checks of `core/levels/checks.py`. Kafka checks this too, though not for every controller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.engine.blockers import Blocker, Nodes, about_nodes, these, title_and_address, title_of, verb
from kafkafeatures.core.engine.remedies import ghost_remedy, in_its_place, kind_of_replacement
from kafkafeatures.core.engine.steps import DryRunAccepted, DryRunRejected
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.observation import (
    NOT_SUPPORTED,
    Known,
    Node,
    NodeState,
    Observation,
    Unknown,
)
from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.facts.releases import KRAFT_VERSION_MISREPORTED, format_level
from kafkafeatures.core.levels.check_input import LevelCheckInput
from kafkafeatures.core.levels.readiness import (
    controllers_are_registered,
    is_dynamic,
    unregistered_voters,
)
from kafkafeatures.core.levels.update_feature import UpdateFeature


def every_node_supports_it(inputs: LevelCheckInput) -> Iterator[Blocker]:
    """Require of every node, registered or voting, live or not, a known supported range that contains the level."""
    unknown_features = {feature for feature, _ in inputs.unknown_features}
    unknown = False  # some range is not known, and no dry run makes up for it
    for change in inputs.changes:
        if change.feature in unknown_features:
            continue  # `features_exist` reports it, once for all nodes
        impossible = _supported_nowhere(change, inputs.observation)
        if impossible is not None:
            yield impossible
        for node in inputs.observation.nodes:
            if node.surely_holds(change.feature, change.to_level) or node.state is NodeState.REFUSED:
                continue  # a refused node is not registered: `no_node_is_refused` reports it
            if node.runs_in_kraft_mode is False and not inputs.observation.in_kraft_mode:
                continue  # it reports no features: `migration_is_open` blocks the whole cluster
            if impossible is not None and node.state is not NodeState.GHOST:
                continue  # `impossible` speaks for all nodes but ghosts
            supported = node.range_of(change.feature)
            if isinstance(supported, Unknown):
                if change.feature == KRAFT_VERSION or not _vouched_for(node, supported, inputs):
                    unknown = True
                    yield unknown_range(node, change, supported, inputs)
            elif change.to_level not in supported.value:
                yield _out_of_range(node, change, supported.value, inputs)
    if unknown and isinstance(inputs.verdict, DryRunRejected) and inputs.verdict.is_judgement:
        yield _rejected(inputs.verdict)  # its message may name nodes that did not answer here


def _vouched_for(node: Node, fact: Unknown, inputs: LevelCheckInput) -> bool:
    """Tell whether the active controller has checked this change for a node whose range is unknown here, as it accepted
    the dry run and knows the range by the registration of the node.

    The controller checks registered brokers at any level, but controllers only from metadata.version 15 on. In a static
    quorum it also refuses for a voter that never registered (`reasonNotSupported` in `FeatureControlManager.java`). In
    a dynamic quorum every voter must therefore be registered.
    """
    if not isinstance(inputs.verdict, DryRunAccepted) or fact.failure.kind is FailureKind.STALE:
        return False  # the process contradicts its registration, which is all that the controller checks
    if node.roles == (Role.BROKER,):
        return True
    observation = inputs.observation
    if not isinstance(observation.finalized, Known) or not isinstance(observation.quorum, Known):
        return False
    if not controllers_are_registered(observation.finalized.value):
        return False
    if not isinstance(observation.registered_controllers, Known):
        return node.is_voter and _is_surely_static(observation.finalized.value, observation)
    voters = {voter.id for voter in observation.quorum.value.voters}
    return not unregistered_voters(voters, observation.registered_controllers.value)


def _is_surely_static(levels: Mapping[str, int], observation: Observation) -> bool:
    """Tell whether kraft.version is 0, and every node answers with a release that reports kraft.version correctly."""
    feature_ranges = [node.answer.value.supported for node in observation.nodes if isinstance(node.answer, Known)]
    ranges = [supported.get(METADATA_VERSION) for supported in feature_ranges]
    is_reported_correctly = all(
        version_range is not None and version_range.max not in KRAFT_VERSION_MISREPORTED for version_range in ranges
    )
    return not is_dynamic(levels) and bool(feature_ranges) and is_reported_correctly


def _supported_nowhere(change: UpdateFeature, observation: Observation) -> Blocker | None:
    """Blocker for a level that no node but a ghost supports, in place of a blocker for each node. None if a node
    supports it, or the range of a node is not known.
    """
    gone = (NodeState.GHOST, NodeState.REFUSED)
    nodes = [node for node in observation.nodes if node.state not in gone]
    if any(node.surely_holds(change.feature, change.to_level) for node in nodes):
        return None  # nearly always the first node does, which makes this cheap for a thousand nodes
    readings = [node.range_of(change.feature) for node in nodes]
    ranges = [reading.value for reading in readings if isinstance(reading, Known)]
    if not ranges or len(ranges) < len(readings) or any(change.to_level in version_range for version_range in ranges):
        return None
    too_high = change.to_level > max(version_range.max for version_range in ranges)
    nearest = (
        max(version_range.max for version_range in ranges)
        if too_high
        else min(version_range.min for version_range in ranges)
    )
    return Blocker(
        BlockerKind.NODE_RANGE,
        f"no node supports {change.feature} {format_level(change.feature, change.to_level)}; "
        f"the {'highest' if too_high else 'lowest'} level that any node supports is "
        f"{format_level(change.feature, nearest)}",
        f"choose a level that every node supports{', or upgrade Kafka on all nodes' if too_high else ''}",
        feature=change.feature,
        required_level=change.to_level,
        reason=Reason.UNSUPPORTED_LEVEL,
    )


def _rejected(verdict: DryRunRejected) -> Blocker:
    return Blocker(
        BlockerKind.NODE_UNKNOWN,
        f"dry run (validateOnly) rejected by the active controller: {verdict.message}",
        "correct what the message names; no level is changed until then",
    )


def unknown_range(node: Node, change: UpdateFeature, fact: Unknown, inputs: LevelCheckInput, of: str = "") -> Blocker:
    """Blocker for a node whose range is unknown. `of`: feature of that range, if it is not the feature of the
    change.
    """
    return about_nodes(
        BlockerKind.NODE_UNKNOWN,
        (node,),
        partial(_could_not_be_read, of or change.feature, fact.failure.with_flags(inputs.cluster_flags)),
        feature=change.feature,
        required_level=change.to_level,
        failure_kind=fact.failure.kind,
        alike=(of, fact.failure.kind),
    )


def _out_of_range(node: Node, change: UpdateFeature, supported_range: VersionRange, inputs: LevelCheckInput) -> Blocker:
    ghost = node.state is NodeState.GHOST
    return about_nodes(
        BlockerKind.GHOST_REGISTRATION if ghost else BlockerKind.NODE_RANGE,
        (node,),
        partial(_ghosts, change, supported_range, inputs)
        if ghost
        else partial(_do_not_support, change, supported_range),
        feature=change.feature,
        required_level=change.to_level,
        supported=supported_range,
        alike=kind_of_replacement(node) if ghost else None,
    )


def _could_not_be_read(feature: str, failure: Failure, nodes: Nodes) -> tuple[str, str]:
    return (
        f"the supported range of {feature} on {title_of(nodes)} could not be read: "
        f"{verb(nodes, '', 'for example ')}{failure.message}",
        failure.remedy or "make the node reachable, or grant access to the metadata log",
    )


def _do_not_support(change: UpdateFeature, supported_range: VersionRange, nodes: Nodes) -> tuple[str, str]:
    has = (
        f"{verb(nodes, 'does', 'do')} not support {change.feature}"
        if supported_range == NOT_SUPPORTED
        else f"{verb(nodes, 'supports', 'support')} {change.feature} {supported_range}"
    )
    silent = verb(nodes, " and does not answer", " and do not answer")
    return (
        f"{title_and_address(nodes)} {has}{silent if nodes[0].state is NodeState.UNREACHABLE else ''}; "
        f"{format_level(change.feature, change.to_level)} is required",
        f"Kafka on {these(nodes)} is too new for {change.feature} {change.to_level}; the lowest level it supports is "
        f"{supported_range.min}"
        if change.to_level < supported_range.min
        else f"upgrade Kafka on {these(nodes)}",
    )


def _ghosts(
    change: UpdateFeature, supported_range: VersionRange, inputs: LevelCheckInput, nodes: Nodes
) -> tuple[str, str]:
    controllers = Role.CONTROLLER in nodes[0].roles
    has = (
        f"without {change.feature}" if supported_range == NOT_SUPPORTED else f"with {change.feature} {supported_range}"
    )
    gone = (
        f": {in_its_place(nodes)}"
        if nodes[0].replaced_by is not None
        else verb(nodes, " but is no longer a voter", " but are no longer voters")
        if controllers
        else f" but {verb(nodes, 'is', 'are')} fenced and {verb(nodes, 'does', 'do')} not answer"
    )
    return (
        f"{title_and_address(nodes)} {verb(nodes, 'is', 'are')} registered {has}{gone} "
        f"({verb(nodes, 'ghost registration', 'ghost registrations')}); "
        f"{format_level(change.feature, change.to_level)} is required",
        ghost_remedy(nodes, inputs.cluster_flags, inputs.observation.finalized, is_outdated=True),
    )
