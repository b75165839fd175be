"""Preflight of ZooKeeper: znodes that would make the controllers wait or stop during the copy, or lose topics.

Pure. Called through the table of `core/migration/preflight.py`; each public function is a check that yields blockers.
Rules: `KRaftMigrationDriver`, `KafkaZkClient` and `ZkTopicMigrationClient` of Kafka 3.9; observations on real nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.observation import Known, Observation, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.znodes import of_another_cluster
from kafkafeatures.core.migration.copied.survey import copy_findings
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.preflight_input import PreflightInput, unread
from kafkafeatures.core.words import counted, first_of, format_span, printable

CREATED_WITHIN = timedelta(minutes=1)
"""Time within which a controller with the flag has surely created /migration; it does so when it starts."""

_SHELL = "zookeeper-shell.sh HOST:PORT"


def the_ensemble_can_be_read(preflight: PreflightInput) -> Iterator[Blocker]:
    """A majority of the ZooKeeper ensemble answers, and each znode that a decision needs can be read."""
    if isinstance(preflight.znodes, Failure):
        yield unread(preflight.znodes, BlockerKind.ZOOKEEPER, "check that a majority of the ensemble runs")
        return
    for failure in preflight.znodes.failures:
        damaged = failure.location == "znode /migration" and failure.kind is FailureKind.REJECTED
        blocker = unread(failure, BlockerKind.ZOOKEEPER, f"look at it: {_SHELL} get {failure.location.split()[-1]}")
        if damaged:
            yield Blocker(
                blocker.kind,
                f"{blocker.message}; the controllers would wait forever",
                f"stop the controllers, then delete it: {_SHELL} delete /migration",
                failure_kind=failure.kind,
            )
        else:
            yield blocker


def it_is_the_ensemble_of_this_cluster(preflight: PreflightInput) -> Iterator[Blocker]:
    """`/cluster/id` is the cluster id that the nodes report."""
    cluster_id = preflight.observation.cluster_id
    if isinstance(cluster_id, Unknown):
        of_another = cluster_id.failure.kind is FailureKind.WRONG_CLUSTER
        remedy = "format the controllers with the id in /cluster/id" if of_another else "make the nodes reachable"
        yield unread(cluster_id.failure, BlockerKind.SETTING if of_another else BlockerKind.NODE_UNKNOWN, remedy)
        return
    if isinstance(preflight.znodes, Failure) or isinstance(preflight.znodes.cluster_id, Failure):
        return
    other = of_another_cluster(preflight.znodes.cluster_id, preflight.znodes.ensemble, cluster_id.value)
    if other is not None:
        yield unread(other, BlockerKind.ZOOKEEPER)


def a_broker_is_controller(preflight: PreflightInput) -> Iterator[Blocker]:
    """`/controller` names a broker, or the active controller, and `/controller_epoch` exists. A KRaft controller takes
    `/controller` over from a broker, but not if another KRaft controller claimed it at the same or a later epoch, and
    not without `/controller_epoch`.
    """
    if isinstance(preflight.znodes, Failure):
        return
    claim = preflight.znodes.controller
    if claim is None:
        yield _blocker("/controller is absent: no broker is controller", "check the log of the brokers")
    elif isinstance(claim, ControllerClaim) and claim.is_kraft and not _is_leader(claim, preflight.observation):
        yield _blocker(
            f"/controller names the KRaft controller {claim.node_id} at epoch {claim.kraft_epoch}, which is left from "
            "an earlier migration",
            "go back to ZooKeeper mode first: stop the controllers, delete /controller, and delete /migration",
        )
    if preflight.znodes.controller_epoch is None:
        yield _blocker("/controller_epoch is absent", "restart one broker, so that a broker becomes controller once")


def _is_leader(claim: ControllerClaim, observation: Observation) -> bool:
    active = observation.active_controller
    return isinstance(active, Known) and (active.value, observation.source.epoch) == (claim.node_id, claim.kraft_epoch)


def nothing_was_copied_yet(preflight: PreflightInput) -> Iterator[Blocker]:
    """No `/migration` has survived a rollback: new controllers would skip the copy, and delete every topic."""
    if isinstance(preflight.znodes, Failure):
        return
    progress = preflight.znodes.migration
    if progress is not None and not isinstance(progress, Failure) and progress.offset != -1:
        yield _blocker(
            f"/migration is left from an earlier migration (offset {progress.offset}): controllers would skip the "
            "copy, and delete every topic",
            f"start no controller; delete it: {_SHELL} delete /migration",
        )


def controllers_reached_zookeeper(preflight: PreflightInput) -> Iterator[Blocker]:
    """Controllers have created `/migration`, so they reach ZooKeeper."""
    if isinstance(preflight.znodes, Failure) or preflight.znodes.migration is not None:
        return
    if preflight.controllers_for < CREATED_WITHIN:
        text = "the controllers have not created /migration yet"
        yield Blocker(BlockerKind.MIGRATION, text, f"it takes them up to {format_span(CREATED_WITHIN)}")
    else:
        yield _blocker(
            f"the controllers run for {format_span(CREATED_WITHIN)} and more, and have not created /migration: they "
            "cannot use ZooKeeper",
            "look for NoAuth and for connections that fail in their log; they need the brokers' zookeeper.* settings "
            "and credentials",
        )


def no_feature_is_finalized_there(preflight: PreflightInput) -> Iterator[Blocker]:
    """No feature is finalized in ZooKeeper: Kafka has shipped none for ZooKeeper mode, and copies none."""
    if isinstance(preflight.znodes, Failure):
        return
    feature = preflight.znodes.feature
    if feature is not None and not isinstance(feature, Failure) and feature.levels:
        names = first_of(sorted(map(printable, feature.levels)))
        yield _blocker(
            f"/feature has finalized features, which Kafka does not copy: {names}",
            "remove the entries; Kafka itself never wrote one in ZooKeeper mode",
        )


def nothing_is_deleted_or_moved(preflight: PreflightInput) -> Iterator[Blocker]:
    """No topic is being deleted, and no partition reassigned by way of ZooKeeper. A pending deletion is not copied, so
    the topic would stay; a reassignment in `/admin` would be lost.
    """
    if isinstance(preflight.znodes, Failure):
        return
    deletions, reassigning = preflight.znodes.deletions, preflight.znodes.reassigning
    if not isinstance(deletions, Failure) and deletions:
        topics = f"{counted(len(deletions), 'topic')} in /admin/delete_topics: {first_of([*map(printable, deletions)])}"
        yield _blocker(
            f"{topics}; the deletion would not be copied",
            "wait until it is complete; it cannot complete while a broker with a replica is away",
        )
    if reassigning is True:
        yield _blocker(
            "/admin/reassign_partitions has a reassignment that is not complete",
            "wait until it is complete, or cancel it: kafka-reassign-partitions.sh --cancel",
        )


def every_replica_has_its_broker(preflight: PreflightInput) -> Iterator[Blocker]:
    """Every broker that has a replica is registered: the controllers wait for each, even if it is gone for ever."""
    if isinstance(preflight.survey, Failure):
        return  # `the_copy_works` has a blocker for it
    if isinstance(preflight.znodes, Failure) or isinstance(preflight.znodes.brokers, Failure):
        return
    registered_ids = preflight.flying | preflight.znodes.brokers.keys()
    if isinstance(preflight.observation.registered_brokers, Known) and preflight.end is not Position.PRE_MIGRATION:
        registered_ids |= preflight.observation.registered_brokers.value
    for id_ in sorted(preflight.survey.assigned.keys() - registered_ids):
        partition = printable(preflight.survey.assigned[id_])
        text = f"broker {id_} has replicas, of {partition} for example, but is not registered"
        remedy = f"start broker {id_}; if it no longer exists, move its replicas: kafka-reassign-partitions.sh"
        # Without a reason that needs a person, as the broker is most often just restarting.
        yield Blocker(BlockerKind.NODE_UNKNOWN, text, remedy)


def the_copy_works(preflight: PreflightInput) -> Iterator[Blocker]:
    """The dry run of the copy over all znodes found no problem, and could read all of them."""
    if isinstance(preflight.survey, Failure):
        yield unread(preflight.survey, BlockerKind.ZOOKEEPER, "check that a majority of the ensemble runs")
        return
    for failure in preflight.survey.failures:
        yield unread(failure, BlockerKind.ZOOKEEPER, f"look at it: {_SHELL} get {failure.location.split()[-1]}")
    for copy_finding in copy_findings(preflight.survey):
        yield _blocker(f"znode {printable(copy_finding.path)}: {copy_finding.message}", copy_finding.remedy)


def _blocker(message: str, remedy: str) -> Blocker:
    return Blocker(BlockerKind.ZOOKEEPER, message, remedy, reason=Reason.MIGRATION_BLOCKED)
