"""A Kafka on Kubernetes is rolled back to ZooKeeper in the middle of its migration, and is then migrated to KRaft."""

from __future__ import annotations

from threading import Event
from typing import Any

from kazoo.client import KazooClient

from kafkafeatures.core.migration.delete_znodes import DeleteZnodes
from kafkafeatures.core.migration.edges import PersonAction
from kafkafeatures.core.migration.settings import Shape
from tests.e2e.kubernetes.migrations.migrating import NAME, MigratingResource, of, shown_by_tools
from tests.e2e.rig.kubernetes.migrating import CHROOT
from tests.e2e.rig.kubernetes.operator import USER
from tests.e2e.rig.kubernetes.webhook import webhook
from tests.e2e.rig.process import wait_until


def test_a_half_done_migration_is_rolled_back_though_the_operator_is_killed_and_then_repeated(
    migrating: MigratingResource, zookeeper: KazooClient
) -> None:
    kafka = migrating.pods
    before = shown_by_tools(kafka)
    flag_all_brokers(migrating)
    kafka.changes("brokers", Shape.KRAFT_BROKER)
    migrating.until_evicted(4)  # three brokers for the flag, and the first one for KRaft mode
    in_kraft = migrating.evicted[3]

    migrating.wants("RolledBack")
    migrating.until_said(Shape.FLAGGED_BROKER.value)
    kafka.changes("brokers", Shape.FLAGGED_BROKER)
    migrating.until_asked(PersonAction.NO_CONTROLLERS.value)
    assert migrating.evicted[4:] == [in_kraft]
    migrating.topic("on-the-way-back")

    kill_operator_around_the_transaction(migrating, zookeeper)
    migrating.until_asked(of(Shape.PLAIN_BROKER), PersonAction.WIPE.value)
    kafka.format_controllers()
    kafka.changes("brokers", Shape.PLAIN_BROKER)
    migrating.until_in_sync("RolledBack")
    assert sorted(migrating.evicted[5:]) == kafka.pods_of("brokers")  # before that: 3 + 1 on the way, 1 back
    migration = migrating.status(NAME)["migration"]
    assert migration["brokers"] == {"zooKeeper": 3}
    assert "kraft_metadata_offset" in migration["keptMigrationNode"]
    ended = [one["result"] for one in migrating.status(NAME)["history"] if one["kind"] == DeleteZnodes.kind]
    assert ended == ["NotApplied", "Applied"]  # the first was not sent before the operator was killed
    assert shown_by_tools(kafka) == before

    flag_all_brokers(migrating)
    kafka.changes("brokers", Shape.KRAFT_BROKER)
    migrating.until_in_sync("DualWrite")
    migrating.wants("Finalized", "zk-finalize")
    migrating.approve("Finalized", "zk-finalize")
    migrating.until_asked(of(Shape.CONTROLLER))
    kafka.changes("controllers", Shape.CONTROLLER)
    migrating.until_in_sync("Finalized")
    migrating.no_client_was_harmed()
    assert shown_by_tools(kafka) == before
    assert "on-the-way-back" in migrating.topics()


def flag_all_brokers(migrating: MigratingResource) -> None:
    """Go from ZooKeeper mode to the state in which all brokers have the flag and the metadata is copied. Then the
    operator asks for KRaft mode in Git.
    """
    migrating.wants("PreMigration")
    migrating.until_asked("start the controllers of the quorum")
    migrating.pods.scales(3)
    migrating.until_in_sync("PreMigration")
    migrating.wants("DualWrite")
    migrating.until_asked(of(Shape.FLAGGED_BROKER))
    migrating.pods.changes("brokers", Shape.FLAGGED_BROKER)
    migrating.until_asked(of(Shape.KRAFT_BROKER))


def kill_operator_around_the_transaction(migrating: MigratingResource, zookeeper: KazooClient) -> None:
    """Stop the controllers, after which the operator deletes znodes. Kill it when the intent is in the status, but the
    transaction was not sent; and once more as soon as the znodes are gone.
    """
    held, migration = Event(), f"{CHROOT}/migration"

    def look(request: dict[str, Any]) -> None:
        intents = request["object"]["status"].get("intents", ())
        if not held.is_set() and any(one["kind"] == DeleteZnodes.kind for one in intents):
            migrating.operator.freeze()
            held.set()

    with webhook(migrating.plane, look, user=USER, resources=("kafkafeatures/status",)):
        migrating.pods.scales(0)
        assert held.wait(120)
        wait_until("the intent is there", lambda: migrating.status(NAME).get("intents"), step=0.1)
    assert zookeeper.exists(migration)
    migrating.restarts_operator()
    wait_until("the znodes are gone", lambda: not zookeeper.exists(migration), 180, step=0.02)
    migrating.restarts_operator()
