"""Metadata that Kafka keeps in ZooKeeper, as `describe --zookeeper` shows it: as a document, and in lines for people.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkafeatures.core.facts.observation import Node, Observation
from kafkafeatures.core.facts.readings import Failure, Role
from kafkafeatures.core.facts.znodes import FeatureStatus, MigrationProgress, ZooKeeperReading
from kafkafeatures.core.migration.contradictions import position_of
from kafkafeatures.core.migration.positions import Misplaced, Position, facts_of, why_uncertain
from kafkafeatures.core.words import counted

if TYPE_CHECKING:
    from kafkafeatures.api.records import Json


def zookeeper_document(seen: ZooKeeperReading, observation: Observation | None = None) -> Json:
    """Reading of ZooKeeper as a document: what is absent, or could not be read, is null; `notRead` says why. `phase`
    only with an observation.
    """
    phase = _phase(seen, observation)
    controller, migration, epoch = seen.controller, seen.migration, seen.controller_epoch
    brokers = {} if isinstance(seen.brokers, Failure) else seen.brokers
    return {
        "ensemble": seen.ensemble,
        **({"phase": phase.value if isinstance(phase, Position) else None} if phase is not None else {}),
        "clusterId": None if isinstance(seen.cluster_id, Failure) else seen.cluster_id,
        "controller": None
        if controller is None or isinstance(controller, Failure)
        else {"id": controller.node_id, "kraft": controller.is_kraft, "kraftEpoch": controller.kraft_epoch},
        "controllerEpoch": None if epoch is None or isinstance(epoch, Failure) else epoch.value,
        "migration": None if migration is None or isinstance(migration, Failure) else _migration(migration),
        "brokers": [
            {"id": id_, "epoch": broker.epoch, "endpoints": list(broker.endpoints)}
            for id_, broker in brokers.items()
            if not isinstance(broker, Failure)
        ],
        "notRead": [
            {"what": failure.where, "why": failure.message, "remedy": failure.remedy} for failure in seen.failures
        ],
    }


def _migration(one: MigrationProgress) -> Json:
    return {
        "controller": one.controller_id,
        "controllerEpoch": one.controller_epoch,
        "offset": one.offset,
        "epoch": one.epoch,
    }


def _phase(seen: ZooKeeperReading, observation: Observation | None) -> Position | Misplaced | Failure | None:
    if observation is None:
        return None
    facts = facts_of(observation, seen)
    position = facts if isinstance(facts, Failure) else position_of(facts)
    return (why_uncertain(position, observation) or position) if isinstance(position, Position) else position


def zookeeper_lines(seen: ZooKeeperReading, observation: Observation | None = None) -> Iterator[tuple[str, str]]:
    """A title and what is to be said under it; what could not be read is left to `failures`."""
    phase = _phase(seen, observation)
    if phase is not None:
        yield "Phase", phase.value if isinstance(phase, Position) else f"unknown: {phase}"
    yield "ZooKeeper", seen.ensemble
    if isinstance(seen.cluster_id, str):
        yield "Cluster id", seen.cluster_id
    if not isinstance(seen.controller, Failure):
        yield "Controller", _controller(seen)
    if not isinstance(seen.migration, Failure):
        yield "Migration", _progress(seen.migration)
    if not isinstance(seen.feature, Failure):
        yield "Finalized", _levels(seen)
    if not isinstance(seen.brokers, Failure):
        ids = ", ".join(map(str, seen.brokers))
        yield "Registered", f"{counted(len(seen.brokers), 'broker')} in ZooKeeper mode" + (f": {ids}" if ids else "")
    in_kraft = [node.id for node in observation.nodes if _is_kraft_broker(node)] if observation is not None else []
    if in_kraft:
        yield "KRaft mode", f"{counted(len(in_kraft), 'broker')}: {', '.join(map(str, in_kraft))}"
    if not isinstance(seen.deletions, Failure) and seen.deletions:
        yield "Deletions", f"{counted(len(seen.deletions), 'topic')} to be deleted: {', '.join(seen.deletions[:5])}"
    if seen.reassigning is True:
        yield "Reassignment", "requested in /admin/reassign_partitions"


def _is_kraft_broker(node: Node) -> bool:
    return Role.BROKER in node.roles and node.runs_in_kraft_mode is True


def _controller(seen: ZooKeeperReading) -> str:
    claim, epoch = seen.controller, seen.controller_epoch
    if claim is None or isinstance(claim, Failure):
        return "none is elected"
    number = "" if epoch is None or isinstance(epoch, Failure) else f", epoch {epoch.value}"
    if claim.is_kraft:
        return f"node {claim.node_id} of the KRaft quorum, KRaft epoch {claim.kraft_epoch}{number}"
    return f"broker {claim.node_id}, elected in ZooKeeper{number}"


def _progress(found: MigrationProgress | Failure | None) -> str:
    if found is None or isinstance(found, Failure):
        return "not begun: /migration does not exist"
    if found.offset < 0:
        return "nothing was copied: /migration has offset -1"
    by = f"controller {found.controller_id} at epoch {found.controller_epoch}"
    return f"written back up to offset {found.offset} by {by}"


def _levels(seen: ZooKeeperReading) -> str:
    features = seen.feature
    if features is None or isinstance(features, Failure):
        return "none: /feature does not exist"
    if features.status is FeatureStatus.DISABLED:
        return "none: features are disabled by the inter.broker.protocol.version"
    return ", ".join(f"{name} {level}" for name, level in sorted(features.levels.items())) or "none"
