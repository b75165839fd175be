"""A Kafka on Kubernetes is migrated from ZooKeeper to KRaft: the test changes templates in Git as the operator asks,
and the operator restarts the nodes.
"""

from __future__ import annotations

from collections import Counter

from kafkafeatures.core.migration.settings import Shape
from tests.e2e.kubernetes.migrations.migrating import NAME, TOPIC, MigratingResource, of, shown_by_tools


def test_a_migration_is_finalized_though_the_operator_is_killed_after_each_eviction(
    migrating: MigratingResource,
) -> None:
    """Each node is restarted once in each roll. In every phase a topic is created, and that of the phase before is
    deleted. Everything else that Kafka copies is the same in the end, and so are all records.
    """
    kafka = migrating.pods
    before = shown_by_tools(kafka)
    brokers, controllers = kafka.pods_of("brokers"), kafka.pods_of("controllers")
    migrating.topic("in-zookeeper")
    migrating.kills = True

    migrating.wants("PreMigration")
    migrating.until_asked("start the controllers of the quorum")
    kafka.scales(3)
    migrating.until_in_sync("PreMigration")
    assert migrating.evicted == []
    migrating.topic("before-the-copy", "in-zookeeper")

    migrating.wants("DualWrite")
    migrating.until_asked(of(Shape.FLAGGED_BROKER))
    kafka.changes("brokers", Shape.FLAGGED_BROKER)
    migrating.until_asked(of(Shape.KRAFT_BROKER))
    assert Counter(migrating.evicted) == Counter(brokers)
    migrating.topic("copied", "before-the-copy")
    kafka.changes("brokers", Shape.KRAFT_BROKER)
    migrating.until_in_sync("DualWrite")
    assert Counter(migrating.evicted) == Counter([*brokers, *brokers])
    migrating.topic("in-dual-write", "copied")
    assert shown_by_tools(kafka) == before

    migrating.wants("Finalized", "zk-finalize")
    migrating.approve("Finalized", "zk-finalize")
    migrating.until_asked(of(Shape.CONTROLLER))
    leader = kafka.node_ids[kafka.leader()]
    kafka.changes("controllers", Shape.CONTROLLER)
    migrating.until_in_sync("Finalized")
    assert Counter(migrating.evicted[6:]) == Counter(controllers)  # after two rolls of three brokers
    assert migrating.evicted[-1] == leader
    restarted = [*brokers, *brokers, *controllers, *controllers]  # the controllers were started, and restarted
    assert migrating.created == Counter([*restarted, *migrating.replaced])
    assert migrating.killed == len(migrating.evicted)
    assert migrating.status(NAME)["spentConsents"] == ["zk-finalize"]
    migrating.no_client_was_harmed()
    assert shown_by_tools(kafka) == before
    assert migrating.topics() == {TOPIC, "in-dual-write"}
