"""Checks before a broker is restarted on the way to another inter.broker.protocol.version (IBP).

Pure. Called by `core/ibp/state.py` in each reconciliation, so also right before each restart. All checks run, so that
people see every blocker at once, and missing information blocks. The rules for restarts of any kind, such as in-sync
replicas, are in `core/roll/checks.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from msgspec import Struct

from kafkafeatures.api.names import KAFKA_VERSION
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.engine.blockers import Blocker, Nodes, title_of, verb
from kafkafeatures.core.facts.observation import Known, Unknown
from kafkafeatures.core.facts.readings import Failure, Role
from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.core.facts.znodes import ZooKeeperReading
from kafkafeatures.core.ibp.progress import IbpProgress, RollPurpose
from kafkafeatures.core.migration.contradictions import position_of
from kafkafeatures.core.migration.positions import Misplaced, Position, facts_of


class IbpCheckInput(Struct, frozen=True):
    """Everything that decides whether a broker may be restarted now.

    progress: versions that the brokers use, and the next roll.
    flying: ids of brokers that are being restarted, of which nothing is expected.
    assigned: ids of brokers that have replicas, as far as they are known.
    """

    progress: IbpProgress
    flying: frozenset[int] = frozenset()
    assigned: frozenset[int] = frozenset()

    @property
    def znodes(self) -> ZooKeeperReading | Failure:
        """Reading of ZooKeeper, or the reason why there is none."""
        reading = self.progress.observation.zookeeper
        return reading.failure if isinstance(reading, Unknown) else reading.value


Check = Callable[[IbpCheckInput], Iterator[Blocker]]

_MEANWHILE = "until it ends, no inter.broker.protocol.version is changed, and no broker is restarted for it"


def zookeeper_is_read(inputs: IbpCheckInput) -> Iterator[Blocker]:
    """ZooKeeper was read: it says which broker is controller, and which brokers are registered."""
    znodes = inputs.znodes
    if isinstance(znodes, Failure):
        yield Blocker(BlockerKind.NODE_UNKNOWN, f"ZooKeeper could not be read: {znodes.message}", znodes.action)


def no_migration_is_open(inputs: IbpCheckInput) -> Iterator[Blocker]:
    """No migration is open: brokers and quorum must agree on one version from the first controller on (KIP-866)."""
    znodes, observation = inputs.znodes, inputs.progress.observation
    if isinstance(znodes, Failure):
        return
    if observation.is_migrating:
        yield _migrating("brokers or the metadata log say so")
        return
    facts = facts_of(observation, znodes)
    if isinstance(facts, Failure):
        yield Blocker(BlockerKind.NODE_UNKNOWN, f"it is not known whether a migration is open: {facts}", facts.action)
        return
    position = position_of(facts)
    if isinstance(position, Misplaced):
        text = f"it is not known whether a migration is open: {position.message}"
        yield Blocker(BlockerKind.NODE_UNKNOWN, text, position.remedy, about=position.subject)
    elif position is not Position.ZOOKEEPER:
        yield _migrating(f"the cluster is at {position}")
    elif znodes.migration is not None:
        yield _migrating(
            "there is a znode /migration, but no controller of a quorum is known",
            "add the controllers to spec.cluster.bootstrapControllers; if there are none, delete /migration with "
            "zookeeper-shell.sh",
        )


def _migrating(reason: str, remedy: str = "finalize the migration, or roll it back") -> Blocker:
    return Blocker(BlockerKind.MIGRATION, f"a migration from ZooKeeper is open: {reason}; {_MEANWHILE}", remedy)


def every_broker_was_asked(inputs: IbpCheckInput) -> Iterator[Blocker]:
    """Each registered broker has reported which version it uses, and the newest that its Kafka knows."""
    progress, znodes = inputs.progress, inputs.znodes
    if not progress.brokers:
        yield Blocker(BlockerKind.NODE_UNKNOWN, "no broker is known", "add one to spec.cluster.bootstrapServers")
    for id_, failure in progress.unknown.items():
        if id_ not in inputs.flying:
            text = f"the {IBP} of broker {id_} is not known: {failure.message}"
            yield Blocker(BlockerKind.NODE_UNKNOWN, text, failure.action, nodes=_nodes(progress, id_))
    registered = {} if isinstance(znodes, Failure) or isinstance(znodes.brokers, Failure) else znodes.brokers
    for id_ in sorted(registered.keys() - progress.brokers.keys() - inputs.flying):
        text = f"broker {id_} is registered in ZooKeeper, but its address is not known"
        yield Blocker(BlockerKind.NODE_UNKNOWN, text, "add it to spec.cluster.bootstrapServers")


def no_broker_is_missing(inputs: IbpCheckInput) -> Iterator[Blocker]:
    """Before a raise, every broker that has replicas is registered. Otherwise it is down, and may start again with an
    old Kafka, which cannot work with brokers that use a higher version.
    """
    if inputs.progress.roll is RollPurpose.RAISE:
        for id_ in sorted(inputs.assigned - inputs.progress.brokers.keys() - inputs.flying):
            text = f"broker {id_} has replicas but is not registered: which Kafka it has is not known"
            remedy = f"start broker {id_}, or move its replicas to other brokers"
            yield Blocker(BlockerKind.NODE_UNKNOWN, text, remedy)


def target_is_no_downgrade(inputs: IbpCheckInput) -> Iterator[Blocker]:
    """The target is not lower than a version in use: Kafka has no way back to an older version."""
    progress = inputs.progress
    higher = [broker for broker in progress.known_brokers.values() if progress.target < broker.uses]
    if higher:
        highest, nodes = max(broker.uses for broker in higher), tuple(broker.node for broker in higher)
        yield Blocker(
            BlockerKind.DOWNGRADE,
            f"{title_of(nodes)} {verb(nodes, 'uses', 'use')} {IBP} {highest}, and {progress.target} would be a "
            "downgrade, which is never made",
            f"set spec.interBrokerProtocolVersion to {highest} or higher",
            nodes=nodes,
            reason=Reason.DOWNGRADE_REFUSED,
        )


def none_is_ahead(inputs: IbpCheckInput) -> Iterator[Blocker]:
    """No broker uses a version that another broker's Kafka does not know. Such a version was raised too early: by a pod
    template, or because the broker sets none, and its newer Kafka has a higher default.
    """
    brokers = inputs.progress.known_brokers
    if not brokers:
        return
    oldest = min(brokers.values(), key=lambda broker: broker.knows)
    for id_, broker in brokers.items():
        if oldest.knows < broker.uses:
            by = "" if broker.is_set else ", the default of its Kafka, because its settings do not name one"
            yield Blocker(
                BlockerKind.WORKLOAD,
                f"broker {id_} uses {IBP} {broker.uses}{by}, but broker {oldest.node.id} runs a Kafka that supports at "
                f"most {oldest.knows}",
                f"set {IBP}={oldest.knows} on broker {id_} in Git, and restart it; raise it once all brokers have the "
                "newer Kafka",
                nodes=_nodes(inputs.progress, id_),
                reason=Reason.TEMPLATE_AHEAD,
            )


def no_image_is_exchanged_early(inputs: IbpCheckInput) -> Iterator[Blocker]:
    """No pod template has another Kafka while a broker sets no version: its version would change with the default."""
    progress, workloads = inputs.progress, inputs.progress.observation.workloads
    unset = [broker for broker in progress.known_brokers.values() if not broker.is_set]
    if not unset or not isinstance(workloads, Known):
        return
    from kafkafeatures.core.roll.pods import is_outdated

    releases = {broker.knows.of_release for broker in unset}
    for owner in workloads.value.stateful_sets:
        outdated = [pod.name for pod in owner.pods if is_outdated(pod, owner)]
        if outdated and owner.role == "brokers" and {owner.release} != releases:
            runs = f"has Kafka {owner.release}" if owner.release else "has a Kafka whose release is not known"
            nodes = tuple(broker.node for broker in unset)
            yield Blocker(
                BlockerKind.SETTING,
                f"{title_of(nodes)} {verb(nodes, 'sets', 'set')} no {IBP}, and the template of {owner.name} {runs}: "
                "no pod is restarted with it, because another Kafka release has another default",
                f"keep the image of Kafka {', '.join(sorted(releases))} in Git, and set "
                f"{IBP}={min(broker.uses for broker in unset)} with it; the annotation {KAFKA_VERSION} of the template "
                "names its release",
                nodes=nodes,
                reason=Reason.TEMPLATE_AHEAD,
            )


CHAIN: tuple[Check, ...] = (
    zookeeper_is_read, no_migration_is_open, every_broker_was_asked, no_broker_is_missing, target_is_no_downgrade,
    none_is_ahead, no_image_is_exchanged_early,
)  # fmt: skip
"""Checks in the order in which their blockers are listed."""


def blockers(inputs: IbpCheckInput) -> tuple[Blocker, ...]:
    """All that prevents the next restart."""
    return tuple(chain.from_iterable(check(inputs) for check in CHAIN))


def _nodes(progress: IbpProgress, id_: int) -> Nodes:
    return tuple(node for node in progress.observation.nodes if node.id == id_ and Role.BROKER in node.roles)
