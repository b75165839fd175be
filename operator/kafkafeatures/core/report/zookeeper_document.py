"""Output of `describe --zookeeper`: the metadata that Kafka keeps in ZooKeeper, as a document and in lines for people.

Pure. Called by the command with the values of `core/facts/znodes.py`, and with an observation if nodes were asked too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkafeatures.core.facts.observation import Node, Observation
from kafkafeatures.core.facts.readings import Failure, Role
from kafkafeatures.core.facts.znodes import FeatureZnodeStatus, MigrationZnode, ZooKeeperReading
from kafkafeatures.core.migration.contradictions import position_of
from kafkafeatures.core.migration.positions import Misplaced, Position, facts_of, quorum_uncertainty
from kafkafeatures.core.words import counted

if TYPE_CHECKING:
    from kafkafeatures.api.records import Json


def zookeeper_document(zookeeper_reading: ZooKeeperReading, observation: Observation | None = None) -> Json:
    """Reading of ZooKeeper as a document. A field is null, and `brokers` empty, if the znode is absent or could not be
    read; `notRead` has the znodes that could not be read. `phase` is there only with an observation of the nodes.
    """
    phase = _phase(zookeeper_reading, observation)
    controller, migration, epoch = (
        zookeeper_reading.controller,
        zookeeper_reading.migration,
        zookeeper_reading.controller_epoch,
    )
    brokers = {} if isinstance(zookeeper_reading.brokers, Failure) else zookeeper_reading.brokers
    return {
        "ensemble": zookeeper_reading.ensemble,
        **({"phase": phase.value if isinstance(phase, Position) else None} if phase is not None else {}),
        "clusterId": None if isinstance(zookeeper_reading.cluster_id, Failure) else zookeeper_reading.cluster_id,
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
            {"what": failure.location, "why": failure.message, "remedy": failure.remedy}
            for failure in zookeeper_reading.failures
        ],
    }


def _migration(znode: MigrationZnode) -> Json:
    return {
        "controller": znode.controller_id,
        "controllerEpoch": znode.controller_epoch,
        "offset": znode.offset,
        "epoch": znode.epoch,
    }


def _phase(
    zookeeper_reading: ZooKeeperReading, observation: Observation | None
) -> Position | Misplaced | Failure | None:
    """Position of the migration, or the reason why it is not known; None without an observation of the nodes."""
    if observation is None:
        return None
    facts = facts_of(observation, zookeeper_reading)
    position = facts if isinstance(facts, Failure) else position_of(facts)
    return (quorum_uncertainty(position, observation) or position) if isinstance(position, Position) else position


def zookeeper_lines(
    zookeeper_reading: ZooKeeperReading, observation: Observation | None = None
) -> Iterator[tuple[str, str]]:
    """Lines as pairs of a title and a text, without parts that could not be read (`ZooKeeperReading.failures`)."""
    phase = _phase(zookeeper_reading, observation)
    if phase is not None:
        yield "Phase", phase.value if isinstance(phase, Position) else f"unknown: {phase}"
    yield "ZooKeeper", zookeeper_reading.ensemble
    if isinstance(zookeeper_reading.cluster_id, str):
        yield "Cluster id", zookeeper_reading.cluster_id
    if not isinstance(zookeeper_reading.controller, Failure):
        yield "Controller", _controller(zookeeper_reading)
    if not isinstance(zookeeper_reading.migration, Failure):
        yield "Migration", _progress(zookeeper_reading.migration)
    if not isinstance(zookeeper_reading.feature, Failure):
        yield "Finalized", _levels(zookeeper_reading)
    if not isinstance(zookeeper_reading.brokers, Failure):
        ids = ", ".join(map(str, zookeeper_reading.brokers))
        yield (
            "Registered",
            f"{counted(len(zookeeper_reading.brokers), 'broker')} in ZooKeeper mode" + (f": {ids}" if ids else ""),
        )
    in_kraft = [node.id for node in observation.nodes if _is_kraft_broker(node)] if observation is not None else []
    if in_kraft:
        yield "KRaft mode", f"{counted(len(in_kraft), 'broker')}: {', '.join(map(str, in_kraft))}"
    deletions = zookeeper_reading.deletions
    if not isinstance(deletions, Failure) and deletions:
        yield "Deletions", f"{counted(len(deletions), 'topic')} to be deleted: {', '.join(deletions[:5])}"
    if zookeeper_reading.reassigning is True:
        yield "Reassignment", "requested in /admin/reassign_partitions"


def _is_kraft_broker(node: Node) -> bool:
    return Role.BROKER in node.roles and node.runs_in_kraft_mode is True


def _controller(zookeeper_reading: ZooKeeperReading) -> str:
    claim, epoch = zookeeper_reading.controller, zookeeper_reading.controller_epoch
    if claim is None or isinstance(claim, Failure):
        return "none is elected"
    number = "" if epoch is None or isinstance(epoch, Failure) else f", epoch {epoch.value}"
    if claim.is_kraft:
        return f"node {claim.node_id} of the KRaft quorum, KRaft epoch {claim.kraft_epoch}{number}"
    return f"broker {claim.node_id}, elected in ZooKeeper{number}"


def _progress(znode: MigrationZnode | Failure | None) -> str:
    if znode is None or isinstance(znode, Failure):
        return "not begun: /migration does not exist"
    if znode.offset < 0:
        return "nothing was copied: /migration has offset -1"
    by = f"controller {znode.controller_id} at epoch {znode.controller_epoch}"
    return f"written back up to offset {znode.offset} by {by}"


def _levels(zookeeper_reading: ZooKeeperReading) -> str:
    features = zookeeper_reading.feature
    if features is None or isinstance(features, Failure):
        return "none: /feature does not exist"
    if features.status is FeatureZnodeStatus.DISABLED:
        return "none: features are disabled by the inter.broker.protocol.version"
    return ", ".join(f"{name} {level}" for name, level in sorted(features.levels.items())) or "none"
