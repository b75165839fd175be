"""The decision to give a cluster back to ZooKeeper: which znodes one transaction deletes, and with which versions.

Pure. Called by `core/migration/state.py` once all checks pass. There are two such transactions: `release` deletes
`/controller` and `/migration` after a quorum that had taken over; `withdraw` deletes only `/migration`, after a quorum
that had not. Both are made from znodes that were read a moment ago, and name their versions. A znode that could not be
read, or that cannot be there before such a transaction, is a `Failure`.
"""

from __future__ import annotations

from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.engine.decisions import Act, Stalled
from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.observation import Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.znodes import ControllerEpoch, MigrationZnode, ZooKeeperReading
from kafkafeatures.core.migration.copied.survey import Survey
from kafkafeatures.core.migration.delete_znodes import CONTROLLER, EPOCH, MIGRATION, DeleteZnodes, ZnodeLife
from kafkafeatures.core.migration.edges import RELEASE, WITHDRAW
from kafkafeatures.core.migration.progress import MigrationProgress

MOST_KEPT = 512
"""Most bytes of `/migration` that a status keeps. Kafka writes about 130."""

HIGHEST_EPOCH = 2**31 - 2
"""Highest epoch that is written: the next controller adds one, and Kafka reads an int."""


def deletion(progress: MigrationProgress) -> Act | Stalled | None:
    """The step, or the reason why it cannot be made; None if the next way deletes nothing."""
    if progress.way is WITHDRAW:
        return _act_on(withdraw(progress.znodes))
    if progress.way is not RELEASE:
        return None
    reading = progress.observation.surveyed
    survey = reading.failure if isinstance(reading, Unknown) else reading.value
    if isinstance(survey, Survey) and not survey.failures:
        return _act_on(release(progress.znodes, partition_epoch=survey.controller_epoch))
    reason = survey if isinstance(survey, Failure) else next(iter(getattr(survey, "failures", ())), "not read")
    return Stalled(
        Reason.MIGRATION_BLOCKED,
        f"the controller epochs of partitions could not be read: {reason}",
        subject=reason.subject if isinstance(reason, Failure) else "znodes of partitions",
        remedy=reason.action if isinstance(reason, Failure) else "make ZooKeeper reachable",
    )


def _act_on(step: DeleteZnodes | Failure) -> Act | Stalled:
    if isinstance(step, Failure):
        return Stalled(Reason.MIGRATION_FAILED, str(step), subject=step.subject, remedy=step.action)
    return Act(step)


def release(zookeeper_reading: ZooKeeperReading, *, partition_epoch: int) -> DeleteZnodes | Failure:
    """Step that deletes `/controller`, the claim of a quorum that is gone, and `/migration`, so that a broker becomes
    the controller. A Failure if the znodes are not as they must be before that.

    `partition_epoch`: the highest `controller_epoch` in the states of partitions in ZooKeeper. A KRaft controller
    writes its own epoch there, and a broker that becomes the controller at a lower epoch leaves such partitions offline
    (KAFKA-20488). So `/controller_epoch` is raised above the epochs of all partitions and of the quorum, if it is not
    higher already. All must be read after the last controller has stopped, as each election of the quorum raises them.
    """
    required = _required_znodes(zookeeper_reading)
    if isinstance(required, Failure):
        return required
    cluster_id, epoch, migration, claim = required
    if claim is None or not claim.is_kraft:
        state = "names a broker in ZooKeeper mode" if claim is not None else "is absent"
        return _unfit(CONTROLLER, f"{state}: there is nothing to release")
    highest = max(partition_epoch, claim.kraft_epoch, migration.controller_epoch if migration is not None else -1)
    if max(highest + 1, epoch.value) > HIGHEST_EPOCH:
        return _unfit(EPOCH, f"it cannot be raised above {highest}: Kafka knows no higher epoch")
    return DeleteZnodes(
        cluster_id, epoch, _life(migration), _life(claim), highest + 1 if epoch.value <= highest else None,
        migration.text if migration is not None else "",
    )  # fmt: skip


def withdraw(zookeeper_reading: ZooKeeperReading) -> DeleteZnodes | Failure:
    """Step that deletes `/migration` alone, if the quorum has not claimed `/controller`. `/controller_epoch` is not
    changed: a broker that is the controller and finds it changed by another process takes itself for deposed.
    """
    required = _required_znodes(zookeeper_reading)
    if isinstance(required, Failure):
        return required
    cluster_id, epoch, migration, claim = required
    if claim is not None and claim.is_kraft:
        return _unfit(CONTROLLER, f"it names controller {claim.node_id} of a quorum, which is to be released with it")
    if migration is None:
        return _unfit(MIGRATION, "is absent: there is nothing to delete")
    return DeleteZnodes(cluster_id, epoch, _life(migration), znode_content=migration.text)


def _required_znodes(
    zookeeper_reading: ZooKeeperReading,
) -> tuple[str, ControllerEpoch, MigrationZnode | None, ControllerClaim | None] | Failure:
    """Cluster id, `/controller_epoch`, `/migration` and `/controller`, which each transaction needs; a Failure if one
    could not be read, or must not be absent and is.
    """
    id_, epoch, migration = (
        zookeeper_reading.cluster_id,
        zookeeper_reading.controller_epoch,
        zookeeper_reading.migration,
    )
    for reading in (id_, epoch, migration):
        if isinstance(reading, Failure):
            return reading
    if not isinstance(id_, str):
        return _unfit("/cluster/id", "is absent")
    if not isinstance(epoch, ControllerEpoch):
        return _unfit(EPOCH, "is absent, and no broker is elected without it")
    if not isinstance(migration, MigrationZnode | None):
        return migration
    if migration is not None and len(migration.text.encode()) > MOST_KEPT:
        return _unfit(MIGRATION, f"holds more than {MOST_KEPT} bytes, which Kafka never writes, and is not deleted")
    claim = zookeeper_reading.controller
    return claim if isinstance(claim, Failure) else (id_, epoch, migration, claim)


def _life(znode: ControllerClaim | MigrationZnode | None) -> ZnodeLife | None:
    return ZnodeLife(znode.czxid, znode.version) if znode is not None else None


def _unfit(path: str, message: str) -> Failure:
    return Failure(
        FailureKind.REJECTED, f"znode {path}", message, f"look at it: zookeeper-shell.sh HOST:PORT get {path}"
    )
