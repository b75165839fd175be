"""Preflight: may these levels be finalized now, and what stands in the way?

An ordered chain of small pure checks; `blockers` runs all of them, so that people see everything at once. Called by
`core/decide.py` on every pass. A check that cannot tell says so with a blocker: nothing passes by silence.

What Kafka itself checks is in `FeatureControlManager.java`; it counts every registered node, living or not, and from
metadata.version 15 (3.7-IV0) the controllers too. We also look where Kafka does not: controllers below that level,
and voters that never registered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.api.reasons import BlockerKind
from kafkafeatures.core.levels import VersionRange
from kafkafeatures.core.observation import NOT_SUPPORTED, Known, MetadataMode, Node, NodeState, Observation, Unknown
from kafkafeatures.core.releases import told
from kafkafeatures.core.steps import Accepted, UpdateFeature, Verdict
from kafkafeatures.core.survey import Role

CONTROLLER_REGISTRATION = 15
"""metadata.version 3.7-IV0: from here on the controller checks the registrations of controllers (KIP-919)."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """One thing that stands in the way, with what a person can do about it."""

    kind: BlockerKind
    message: str
    remedy: str = ""
    feature: str = ""
    wanted: int = -1
    node: Node | None = None
    supported: VersionRange | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """The changes that are wanted, seen against the cluster. `verdict`: the server's own, None while not asked."""

    observation: Observation
    changes: tuple[UpdateFeature, ...]
    verdict: Verdict | None = None


def blockers(question: Question) -> tuple[Blocker, ...]:
    """Everything in the way of the changes, in the order of the chain; empty: they may be sent."""
    return tuple(found for check in CHAIN for found in check(question))


def zookeeper_mode(question: Question) -> Iterator[Blocker]:
    """No client can finalize a feature there: brokers run with empty features (`KafkaServer.scala`)."""
    mode = question.observation.mode
    if isinstance(mode, Known) and mode.value is MetadataMode.ZOOKEEPER:
        yield Blocker(
            BlockerKind.ZOOKEEPER_MODE,
            "the cluster runs on ZooKeeper; features can be finalized in KRaft mode only",
            "migrate the cluster to KRaft first",
        )


def migration_is_open(question: Question) -> Iterator[Blocker]:
    """A kept UpdateFeatures may be applied after the migration took another turn: send nothing from P1 to P4."""
    mode = question.observation.mode
    if isinstance(mode, Unknown):
        yield Blocker(BlockerKind.MIGRATION, f"the metadata mode is not known: {mode.why}", mode.why.remedy)
    elif mode.value is MetadataMode.MIGRATING:
        yield Blocker(
            BlockerKind.MIGRATION,
            "a migration from ZooKeeper is open; no level moves until it is finalized or rolled back",
            "finish the migration",
        )


def quorum_is_known(question: Question) -> Iterator[Blocker]:
    """Without an active controller nothing can be decided, and a sent request may be kept and applied later."""
    active = question.observation.active_controller
    if isinstance(active, Unknown):
        yield Blocker(BlockerKind.QUORUM, f"no active controller: {active.why}", "bring a majority of controllers back")
    finalized = question.observation.finalized
    if isinstance(finalized, Unknown):
        yield Blocker(BlockerKind.QUORUM, f"the finalized levels are not known: {finalized.why}", finalized.why.remedy)


def kraft_version_is_left_alone(question: Question) -> Iterator[Blocker]:
    """Raising it turns a static quorum into a dynamic one for good; it needs a consent of its own."""
    for change in question.changes:
        if change.feature == KRAFT_VERSION:
            yield Blocker(
                BlockerKind.CONSENT,
                f"kraft.version {change.before} -> {change.after} changes the kind of quorum for good",
                "take it out of the document; this version does not change kraft.version",
                feature=change.feature,
                wanted=change.after,
            )


def nothing_is_lowered(question: Question) -> Iterator[Blocker]:
    """A level below the finalized one is refused loudly: a reverted document must never lower a cluster."""
    for change in question.changes:
        if change.after < change.before:
            yield Blocker(
                BlockerKind.LOWERING,
                f"{change.feature} is finalized at {told(change.feature, change.before)}; "
                f"{told(change.feature, change.after)} would lower it",
                "set the level in the document to the finalized one, or higher",
                feature=change.feature,
                wanted=change.after,
            )


def features_exist(question: Question) -> Iterator[Blocker]:
    """A name nobody supports is a typing error, or needs a newer Kafka."""
    known = question.observation.feature_names()
    for change in question.changes:
        if known and change.feature not in known:
            yield Blocker(
                BlockerKind.UNKNOWN_FEATURE,
                f"no node knows a feature {change.feature}",
                f"known here: {', '.join(known)}",
                feature=change.feature,
                wanted=change.after,
            )


def every_node_supports_it(question: Question) -> Iterator[Blocker]:
    """Every node, registered or voting, living or not, has a known range that holds the level."""
    known = question.observation.feature_names()
    for change in question.changes:
        if change.feature not in known:
            continue  # said once by `features_exist`, not once per node
        for node in question.observation.nodes:
            if node.state is NodeState.REFUSED:
                continue  # not registered: `no_node_is_refused` speaks of it
            found = node.range_of(change.feature)
            if isinstance(found, Unknown):
                if not _vouched_for(node, question):
                    yield _unknown(node, change, found)
            elif change.after not in found.value:
                yield _out_of_range(node, change, found.value)


def no_node_is_refused(question: Question) -> Iterator[Blocker]:
    """A broker the controller keeps refusing is outside already; another raise would only bury it deeper."""
    if question.changes:
        for node in question.observation.nodes:
            if node.state is NodeState.REFUSED:
                yield Blocker(
                    BlockerKind.REFUSED_NODE,
                    f"{node.title} keeps fetching the metadata log but is not registered: the controller refuses it",
                    "upgrade its Kafka so that it supports the finalized levels, or stop it; "
                    "the active controller's log says why",
                    node=node,
                )


Check = Callable[[Question], Iterable[Blocker]]

CHAIN: tuple[Check, ...] = (
    zookeeper_mode,  # nothing below means anything there
    migration_is_open,
    quorum_is_known,
    nothing_is_lowered,
    kraft_version_is_left_alone,
    features_exist,
    every_node_supports_it,  # the one Kafka checks too, though not for every controller
    no_node_is_refused,
)


def _vouched_for(node: Node, question: Question) -> bool:
    """Rung (c) of the evidence ladder: the controller checked exactly this change against its own registrations.

    It checks all registered brokers at any level, but controllers only from metadata.version 15 on, and voters that
    never registered only where they stand in `controller.quorum.voters`: so every voter must be registered.
    """
    if not isinstance(question.verdict, Accepted):
        return False
    if Role.CONTROLLER not in node.roles:
        return True
    observation = question.observation
    if not isinstance(observation.finalized, Known) or not isinstance(observation.quorum, Known):
        return False
    if observation.finalized.value.get(METADATA_VERSION, 0) < CONTROLLER_REGISTRATION:
        return False
    if not isinstance(observation.registered_controllers, Known):
        return False
    registered = observation.registered_controllers.value
    return all(voter.id in registered for voter in observation.quorum.value.voters)


def _unknown(node: Node, change: UpdateFeature, found: Unknown) -> Blocker:
    return Blocker(
        BlockerKind.NODE_UNKNOWN,
        f"{node.title}: its range of {change.feature} could not be read: {found.why.message}",
        found.why.remedy or "make the node reachable, or give access to the metadata log",
        feature=change.feature,
        wanted=change.after,
        node=node,
    )


def _out_of_range(node: Node, change: UpdateFeature, found: VersionRange) -> Blocker:
    has = f"does not support {change.feature}" if found == NOT_SUPPORTED else f"supports {change.feature} {found}"
    kind, what, remedy = _ABSENT[node.state](node) if node.state in _ABSENT else (BlockerKind.NODE_RANGE, "", "")
    where = f" ({node.host}:{node.port})" if node.host else ""
    return Blocker(
        kind,
        f"{node.title}{where} {has}{what}; wanted is {told(change.feature, change.after)}",
        remedy or _range_remedy(change, found),
        feature=change.feature,
        wanted=change.after,
        node=node,
        supported=found,
    )


def _range_remedy(change: UpdateFeature, found: VersionRange) -> str:
    if change.after < found.min:
        return f"its Kafka is too new for {change.feature} {change.after}; the lowest level it knows is {found.min}"
    return "upgrade its Kafka"


def _ghost(node: Node) -> tuple[BlockerKind, str, str]:
    if Role.CONTROLLER in node.roles:
        return (
            BlockerKind.GHOST_REGISTRATION,
            ", is registered, and no such voter exists any more",
            f"start a controller with id {node.id} on the new Kafka once, so that it registers anew, then remove it; "
            "from Kafka 4.4 (metadata.version 4.4-IV2) kafka-cluster.sh unregister-controller does it",
        )
    return (
        BlockerKind.GHOST_REGISTRATION,
        ", is registered, is fenced and does not answer: stopped or removed",
        f"if it is gone for good: kafka-cluster.sh unregister --id {node.id}; else start it on the new Kafka",
    )


_ABSENT: Mapping[NodeState, Callable[[Node], tuple[BlockerKind, str, str]]] = {
    NodeState.GHOST: _ghost,
    NodeState.UNREACHABLE: lambda _: (BlockerKind.NODE_RANGE, ", and does not answer", ""),
}
