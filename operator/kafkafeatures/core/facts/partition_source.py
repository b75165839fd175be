"""Source from which the partitions of a cluster can be read: that of its present controller, which changes during a
migration from ZooKeeper.

Pure. Called by `kafka/partitions/` once ZooKeeper, nodes and metadata log were read, and by `reconcile/look.py` after
the partitions were read. Two mistakes must never happen: to treat a log that has no partitions yet as a cluster without
partitions, and to treat a broker in ZooKeeper mode as one that follows the log.

    migration state     znode `/controller` names     partitions are read from

    finalized           (does not matter)             the log
    none                no broker in ZooKeeper mode   the log
    migration           the leader, at its epoch      the log
    not finalized       a broker in ZooKeeper mode    the answers of that broker
    no log              a broker in ZooKeeper mode    the answers of that broker
    no log              (nothing is in ZooKeeper)     the answers of brokers that follow the quorum

Anything else is a Failure. The states are those of `ZkMigrationState` in the log. Where the source depends on the znode
`/controller` (a claim to be the controller), the partitions count only if the same znode is still there afterwards:
`while_claimed`.
"""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.readings import (
    ClusterProbe,
    Failure,
    FailureKind,
    LogReading,
    NodeAnswer,
    PartitionsReading,
    Role,
)
from kafkafeatures.core.facts.znodes import Read
from kraftlog.image import ZkMigrationState

NAME_THE_ENSEMBLE = "name the ensemble in cluster.zookeeper of the document"
"""Remedy where ZooKeeper was not read."""


class Holder(Enum):
    """Holders of the partitions, from which they can be read."""

    LOG = auto()  # the metadata log
    FOLLOWERS = auto()  # brokers that follow the quorum, where the log itself could not be read
    ELECTED = auto()  # the broker that was elected as the controller in ZooKeeper


class PartitionSource(Struct, frozen=True):
    """Source of the partitions.

    claim: `/controller` as it was read before the partitions; it has to be the same afterwards. None where the source
        does not depend on it.
    """

    holder: Holder
    claim: ControllerClaim | None = None


def partition_source(
    probe: ClusterProbe, log: LogReading | Failure, claim: Read[ControllerClaim]
) -> PartitionSource | Failure:
    """Source of the partitions, by the table above; Failure where no source is certain. `claim`: content of
    `/controller`, which must have been read before the nodes (`probe`) and the log.
    """
    if isinstance(log, Failure):
        return _without_log(probe, log, claim)
    state = ZkMigrationState.of(log.image.zk_migration_state or 0)
    if state is None:
        text = f"the migration from ZooKeeper is in a state that is not known ({log.image.zk_migration_state})"
        return Failure(FailureKind.UNSUPPORTED, "metadata log", text, "use a newer version of KafkaFeatures")
    if state is ZkMigrationState.POST_MIGRATION:
        return PartitionSource(Holder.LOG)
    if isinstance(claim, ControllerClaim) and not claim.is_kraft:
        return _of_elected(probe, claim)
    if state is ZkMigrationState.NONE:
        return PartitionSource(Holder.LOG)
    claimed = _claimed(claim)
    if isinstance(claimed, Failure):
        return claimed
    if state is ZkMigrationState.PRE_MIGRATION:
        return momentary_failure("the metadata log does not have all of them: they are being copied from ZooKeeper")
    if (claimed.node_id, claimed.kraft_epoch) != (log.leader_id, log.leader_epoch):
        return momentary_failure(
            f"/controller names controller {claimed.node_id} at epoch {claimed.kraft_epoch}, and {log.leader_id} leads "
            f"the quorum at epoch {log.leader_epoch}"
        )
    return PartitionSource(Holder.LOG, claimed)


def while_claimed(reading: PartitionsReading | Failure, later: Read[ControllerClaim]) -> PartitionsReading | Failure:
    """The partitions, if `/controller` is the same as before they were read, or their source does not depend on it;
    else a Failure.
    """
    if isinstance(reading, Failure) or reading.claim is None:
        return reading
    if isinstance(later, Failure):
        return later
    if not same_claim(reading.claim, later):
        return momentary_failure("the controller changed while they were read")
    return reading


def same_claim(earlier: ControllerClaim, later: ControllerClaim | None) -> bool:
    """Tell whether both are the same claim, so that no other node was the controller in between: each claim creates the
    znode anew, with another `czxid`.
    """
    if later is None:
        return False
    return (earlier.czxid, earlier.node_id, earlier.kraft_epoch) == (later.czxid, later.node_id, later.kraft_epoch)


def _without_log(probe: ClusterProbe, log: Failure, claim: Read[ControllerClaim]) -> PartitionSource | Failure:
    if isinstance(claim, ControllerClaim) and not claim.is_kraft:
        return _of_elected(probe, claim)
    if not _knows_zookeeper(probe):
        return PartitionSource(Holder.FOLLOWERS)
    claimed = _claimed(claim)
    if isinstance(claimed, Failure):
        return claimed
    text = f"they are in the metadata log while a migration from ZooKeeper is open, and it was not read: {log.message}"
    return Failure(log.kind, log.location, text, log.remedy)


def _of_elected(probe: ClusterProbe, claim: ControllerClaim) -> PartitionSource | Failure:
    """The elected broker as the source; Failure where another broker runs in KRaft mode. That one follows the quorum
    instead of the elected broker, so neither controller has everything.
    """
    followers = [node.id for node in probe.nodes if node.role is Role.BROKER and _is_kraft(node.answer) is True]
    if followers:
        return momentary_failure(
            f"/controller names broker {claim.node_id}, and broker {followers[0]} runs in KRaft mode"
        )
    return PartitionSource(Holder.ELECTED, claim)


def _claimed(claim: Read[ControllerClaim]) -> ControllerClaim | Failure:
    """The claim, for a source that depends on it; Failure where there is none, or ZooKeeper was not read."""
    if claim is None:
        return Failure(
            FailureKind.NO_LEADER, "znode /controller", "no controller is elected", "look at brokers and controllers"
        )
    if isinstance(claim, Failure) and claim.kind is FailureKind.NOT_ASKED:
        text = "ZooKeeper, which alone shows what the controller is, was not read"
        return Failure(FailureKind.NOT_ASKED, "partitions", text, NAME_THE_ENSEMBLE)
    return claim


def _knows_zookeeper(probe: ClusterProbe) -> bool:
    """Tell whether a node shows that metadata is in ZooKeeper, or that a migration is open."""
    for node in probe.nodes:
        if isinstance(node.answer, NodeAnswer) and node.answer.zk_migration_ready:
            return True
        if node.role is Role.BROKER and _is_kraft(node.answer) is False:
            return True
    return False


def _is_kraft(answer: NodeAnswer | Failure) -> bool | None:
    """Tell whether a broker with this answer runs in KRaft mode; None where it did not answer."""
    return answer.runs_in_kraft_mode if isinstance(answer, NodeAnswer) else None


def momentary_failure(words: str) -> Failure:
    """Failure of a kind that passes by itself, for partitions whose source is not certain at the moment."""
    return Failure(FailureKind.STALE, "partitions", words, "look again in a moment")
