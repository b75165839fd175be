"""Checks that each broker is registered with the quorum, is live, and has the level with which it can register again.

Pure. The worst case is a broker that has replicas and is registered nowhere: Kafka does not wait for it, and it is not
known in which mode it will start again.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkafeatures.api.reasons import BlockerKind
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.facts.observation import NodeState, Unknown
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.migration.positions import BrokerMode
from kafkafeatures.core.migration.preflight_nodes import with_another_protocol
from kafkafeatures.core.migration.progress import MigrationProgress


def unregistered(progress: MigrationProgress, flying: frozenset[int]) -> Iterator[Blocker]:
    """Blockers for brokers that are not registered with the quorum, or not live. `flying`: nodes that are being
    restarted, of which nothing is expected.
    """
    observation = progress.observation
    if isinstance(observation.registered_brokers, Unknown):
        failure = observation.registered_brokers.failure
        yield Blocker(BlockerKind.NODE_UNKNOWN, f"registered brokers are not known: {failure}", failure.action)
        return
    for node in (node for node in observation.nodes if Role.BROKER in node.roles and node.id not in flying):
        if node.id not in observation.registered_brokers.value:
            text = f"{node.title} is not registered with the controllers yet"
            remedy = (
                f"see the log of {node.title}: it registers once controller.quorum.* and its listener are correct; if "
                "it repeats STALE_BROKER_EPOCH, the controllers got other disks while it ran: restart it"
            )
            yield Blocker(BlockerKind.NODE_UNKNOWN, text, remedy, nodes=(node,))
        elif node.state is not NodeState.LIVE:
            text = f"{node.title} is {node.state.value.lower()}"
            yield Blocker(BlockerKind.NODE_UNKNOWN, text, f"bring {node.title} back", nodes=(node,))


def missing(progress: MigrationProgress, flying: frozenset[int]) -> Iterator[Blocker]:
    """Blockers for brokers that have replicas but are registered nowhere, as they were unregistered. `flying`: nodes
    that are being restarted, which may be registered nowhere meanwhile.
    """
    for id_ in progress.facts.absent or ():
        if id_ not in flying:
            yield missing_broker(id_)


def missing_broker(id_: int) -> Blocker:
    """Blocker for a broker that has replicas but is registered nowhere."""
    text = f"broker {id_} has replicas but is not registered: it is not known in which mode it would start again"
    remedy = f"start broker {id_} in the mode of the other brokers, or move its replicas to other brokers"
    return Blocker(BlockerKind.NODE_UNKNOWN, text, remedy, about=f"broker {id_}")


def unknown_assignment(progress: MigrationProgress) -> Iterator[Blocker]:
    """Blocker if it is not known which brokers have replicas: one of them may be registered nowhere."""
    if progress.facts.absent is None:
        partitions = progress.observation.partitions
        text = "it is not known whether every broker that has replicas is registered"
        message = f"{text}: {partitions.failure}" if isinstance(partitions, Unknown) else text
        yield Blocker(BlockerKind.PARTITION, message, to_read(partitions))


def to_read(fact: object) -> str:
    """Remedy for a fact that is not known: that of its failure, if its reading failed."""
    return fact.failure.action if isinstance(fact, Unknown) else "make the brokers and the controllers reachable"


def with_other_levels(progress: MigrationProgress, flying: frozenset[int]) -> Iterator[Blocker]:
    """Blockers for brokers in ZooKeeper mode whose inter-broker protocol is not the finalized metadata.version: with
    another one, a broker stays fenced after its restart.
    """
    in_zookeeper = tuple(
        node
        for node in progress.observation.nodes
        if progress.facts.brokers.get(node.id) in (BrokerMode.PLAIN, BrokerMode.FLAGGED) and node.id not in flying
    )
    yield from with_another_protocol(progress.observation, in_zookeeper, is_of_others=True)
