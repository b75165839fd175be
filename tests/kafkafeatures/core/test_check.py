"""The check of a cluster's health, and of its readiness for a release."""

from __future__ import annotations

from kafkafeatures.api.reasons import BlockerKind
from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import MetadataMode, NodeState, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.replication import Replication
from kafkafeatures.core.report.check import CheckVerdict, check
from tests.kafkafeatures.core.replicas import reading, row
from tests.kafkafeatures.worlds import OLD, SILENT, answer, node, observation

LEVELS = {"metadata.version": 27}


def test_a_cluster_in_zookeeper_mode_is_not_ready_for_the_levels_of_a_release() -> None:
    observed = observation(node(1), mode=MetadataMode.ZOOKEEPER, levels={})
    health = check(observed, LEVELS, "")
    assert health.verdict is CheckVerdict.BLOCKED
    assert BlockerKind.ZOOKEEPER_MODE in {blocker.kind for blocker in health.blockers}
    assert BlockerKind.QUORUM not in {blocker.kind for blocker in check(observed, {}, "").blockers}


def test_without_an_active_controller_nothing_is_ready() -> None:
    observed = observation(node(1), voting=SILENT)
    for levels in ({}, LEVELS):
        health = check(observed, levels, "")
        assert health.verdict is CheckVerdict.BLOCKED
        assert BlockerKind.QUORUM in {blocker.kind for blocker in health.blockers}


IN_ZOOKEEPER_MODE = answer({}, {}, keys=(18,), epoch=-1)


def test_before_the_copy_brokers_in_zookeeper_mode_are_healthy_and_a_raise_waits_for_the_migration_alone() -> None:
    brokers = [node(id_, said=IN_ZOOKEEPER_MODE, written=None) for id_ in (1, 2)]
    flagged = replace(node(3, said=IN_ZOOKEEPER_MODE, written=OLD), migrating_from_zookeeper=True)
    observed = observation(node(3001), *brokers, flagged, mode=MetadataMode.MIGRATING)
    assert check(observed, {}, "").verdict is CheckVerdict.READY
    assert [blocker.kind for blocker in check(observed, LEVELS, "").blockers] == [BlockerKind.MIGRATION]


def test_a_broker_in_zookeeper_mode_that_is_not_registered_has_another_remedy_than_one_whose_kafka_is_too_old() -> None:
    refused = NodeState.REFUSED
    observed = observation(
        node(3001),
        node(1),
        node(4, state=refused, said=IN_ZOOKEEPER_MODE, written=None),
        node(5, state=refused, written=None),
        mode=MetadataMode.MIGRATING,
    )
    for levels in ({}, LEVELS):
        blocker_of = {blocker.nodes[0].id: blocker for blocker in check(observed, levels, "").blockers if blocker.nodes}
        assert sorted(blocker_of) == [4, 5]
        assert "runs in ZooKeeper mode, and is not registered with the controllers" in blocker_of[4].message
        assert blocker_of[4].remedy.startswith(
            "restart broker 4 as the other brokers are: kafkafeatures migration settings"
        )
        assert "upgrade Kafka on broker 5" in blocker_of[5].remedy


def test_partitions_at_or_below_min_isr_and_without_a_leader_are_reported_with_the_broker_that_is_behind() -> None:
    rows = (
        row("at", 1, 2, 3, isr=(1, 2)),
        row("below", 1, 2, 3, isr=(1,)),
        row("gone", 1, 2, 3, isr=()),
        row("fine", 1, 2, 3),
        row("single", 4),
        row("to-spare", 1, 2, 3, 4, isr=(1, 2, 4)),
    )
    observed = observation(node(3001), *map(node, (1, 2, 3, 4)))
    health = check(observed, {}, "", Replication(reading(*rows)))
    assert health.verdict is CheckVerdict.BLOCKED
    assert [blocker.message for blocker in health.blockers] == [
        "1 partition (gone-0) has no leader; 3 brokers (1-3) are not in sync with what they host",
        "2 partitions (below-0, gone-0) are below min.insync.replicas; "
        "3 brokers (1-3) are not in sync with what they host",
        "1 partition (at-0) is at min.insync.replicas, and lacks a replica; "
        "3 brokers (1-3) are not in sync with what they host",
    ]
    assert all("see the log of" in blocker.remedy for blocker in health.blockers)
    well = check(observed, {}, "", Replication(reading(row("fine", 1, 2, 3), row("single", 4))))
    assert (well.verdict, well.blockers) == (CheckVerdict.READY, ())


def test_partitions_that_could_not_be_read_leave_the_verdict_unknown() -> None:
    observed = replace(observation(node(3001), node(1)), partitions=Unknown(SILENT))
    health = check(observed, {}, "")
    assert health.verdict is CheckVerdict.UNKNOWN


NO_RIGHT = Failure(FailureKind.AUTHORIZATION, "h:1", "DescribeQuorum needs DESCRIBE", "kafka-acls.sh --add")


def test_a_missing_right_leaves_the_verdict_unknown_and_is_no_missing_controller() -> None:
    observed = observation(node(3001), node(1), voting=NO_RIGHT, gaps=(NO_RIGHT,))
    for levels in ({}, LEVELS):
        health = check(observed, levels, "")
        assert health.verdict is CheckVerdict.UNKNOWN
        assert health.blockers[0].message == "the active controller is unknown: h:1: DescribeQuorum needs DESCRIBE"
        assert health.blockers[0].remedy == "kafka-acls.sh --add"


def test_a_missing_right_does_not_hide_other_blockers() -> None:
    observed = observation(node(3001), node(1, state=NodeState.UNREACHABLE, said=SILENT), voting=NO_RIGHT)
    assert check(observed, {}, "").verdict is CheckVerdict.BLOCKED


def test_a_controller_whose_listener_wants_other_credentials_leaves_the_verdict_unknown() -> None:
    for kind in (FailureKind.AUTHENTICATION, FailureKind.TLS, FailureKind.NOT_KAFKA):
        refused = Failure(kind, "h:3001", "the handshake failed", "check it")
        observed = observation(node(3001, state=NodeState.UNREACHABLE, said=refused), node(1))
        assert check(observed, {}, "").verdict is CheckVerdict.UNKNOWN
