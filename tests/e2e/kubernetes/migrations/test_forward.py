"""A Kafka on Kubernetes goes from ZooKeeper to KRaft: Git changes templates as it is asked, the operator restarts."""

from __future__ import annotations

from collections import Counter

from kafkafeatures.core.migration.settings import Shape
from tests.e2e.kubernetes.migrations.migrating import NAME, MigratingResource, of, told


def test_a_cluster_goes_all_the_way_and_each_node_is_restarted_once_in_each_roll(migrating: MigratingResource) -> None:
    kafka = migrating.pods
    before = told(kafka)
    brokers, controllers = kafka.pods_of("brokers"), kafka.pods_of("controllers")

    migrating.wants("PreMigration")
    migrating.until_asked("start the controllers of the quorum")
    kafka.scales(3)
    migrating.until_in_sync("PreMigration")
    assert migrating.evicted == []

    migrating.wants("DualWrite")
    migrating.until_asked(of(Shape.FLAGGED_BROKER))
    kafka.changes("brokers", Shape.FLAGGED_BROKER)
    migrating.until_asked(of(Shape.KRAFT_BROKER))
    assert Counter(migrating.evicted) == Counter(brokers)
    kafka.changes("brokers", Shape.KRAFT_BROKER)
    migrating.until_in_sync("DualWrite")
    assert Counter(migrating.evicted) == Counter([*brokers, *brokers])
    assert told(kafka) == before

    migrating.wants("Finalized", "zk-finalize")
    migrating.until(NAME, "ApprovalRequired", "MigrationFinalize")
    plan = migrating.status(NAME)["plan"]["hash"]
    migrating.wants("Finalized", "zk-finalize", approval={"planHash": plan})
    migrating.until_asked(of(Shape.CONTROLLER))
    leader = kafka.node_ids[kafka.leader()]
    kafka.changes("controllers", Shape.CONTROLLER)
    migrating.until_in_sync("Finalized")
    assert Counter(migrating.evicted[6:]) == Counter(controllers)
    assert migrating.evicted[-1] == leader
    assert migrating.created == Counter([*brokers, *brokers, *controllers, *controllers])  # started, and restarted
    migrating.no_client_was_harmed()
    assert told(kafka) == before
