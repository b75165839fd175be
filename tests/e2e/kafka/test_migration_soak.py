"""Migrations and rollbacks during which nodes are killed, sessions are lost and topics change. Only with SOAK=1."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError
from kazoo.client import KazooClient

from kafkafeatures.core.migration.settings import Shape
from tests.e2e.kafka.cli import run
from tests.e2e.kafka.migration_person import Person, migrating
from tests.e2e.rig.asking import listed_brokers
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import MIDDLE

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""kafka-python leaves a socket open if a broker is killed while it connects."""

TOPIC, RECORDS = "payments", 300
QUICK = {"zookeeper.session.timeout.ms": "4000"}
KINDS: dict[str, dict[str, Any]] = {"static": {}, "dynamic": {"dynamic": True}, "two disks": {"disks": 2}}


@contextmanager
def admin(person: Person) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=person.cluster.bootstrap_servers)
    try:
        yield client
    finally:
        client.close()


def write(person: Person) -> None:
    """Write records, and wait until all replicas have them."""
    with admin(person) as client:
        client.create_topics([NewTopic(TOPIC, 6, 3)])
    producer = KafkaProducer(bootstrap_servers=person.cluster.bootstrap_servers, acks="all")
    sent = [producer.send(TOPIC, str(n).encode()) for n in range(RECORDS)]
    for future in sent:
        future.get(timeout=60)
    producer.close()


def assert_that_no_record_is_lost(person: Person) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=person.cluster.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=15_000
    )
    consumer.assign([TopicPartition(TOPIC, n) for n in range(6)])
    values: set[bytes] = set()
    for record in consumer:
        values.add(record.value)
        if len(values) == RECORDS:
            break
    consumer.close()
    assert len(values) == RECORDS


class Accidents:
    """Accidents of nodes that are not being restarted at that moment. Each node runs again at once, as before."""

    def __init__(self, person: Person) -> None:
        self.person, self.cluster = person, person.cluster

    def broker_killed(self) -> None:
        killed = self._one_not_asked_for()
        self.cluster.nodes[killed].kill()
        # In ZooKeeper mode, Kafka exits if it is started before its last session has ended.
        wait_until("its session is over", lambda: self.person.at(f"/brokers/ids/{killed}") is None)
        self.cluster.run(killed, self.cluster.shapes[killed])

    def _one_not_asked_for(self) -> int:
        asked = self.person.asked_in(self.person.says())
        return next(id_ for id_ in self.cluster.brokers if asked is None or id_ != asked[0])

    def active_killed(self) -> None:
        wait_until("a controller is active", lambda: self.cluster.leader() in self.cluster.controllers)
        self.cluster.kill_and_run(self.cluster.leader())

    def standby_killed(self) -> None:
        leader = self.cluster.leader()
        self.cluster.kill_and_run(next(id_ for id_ in self.cluster.controllers if id_ != leader))

    def session_lost(self) -> None:
        """Freeze a broker until its session has ended."""
        frozen = self._one_not_asked_for()
        if self.cluster.shapes[frozen] is Shape.KRAFT_BROKER:
            return  # it has no session
        self.cluster.nodes[frozen].freeze()
        try:
            wait_until("its session is over", lambda: self.person.at(f"/brokers/ids/{frozen}") is None)
        finally:
            self.cluster.nodes[frozen].thaw()

    def topics_moved_and_deleted(self) -> None:
        """Create, move and delete a topic, as soon as the brokers answer a client."""
        names = (f"short-lived-{number}" for number in count())
        wait_until("a topic is made, moved and deleted", lambda: self._short_lived(next(names)), step=0.5)

    def _short_lived(self, name: str) -> bool:
        with suppress(KafkaError), admin(self.person) as client:
            client.create_topics([NewTopic(name, 3, 2)])
            client.alter_partition_reassignments({TopicPartition(name, 0): [3, 1]})
            client.delete_topics([name])
            return True
        return False


def until_done(person: Person, *flags: str, accidents: dict[int, Callable[[], object]]) -> None:
    """Run `apply`, and run it again if it ended because a broker was away for a moment."""
    while person.apply(*flags, accidents=accidents, codes=(0, 4)):
        assert person.ready["reason"] == "MigrationBlocked", person.ready
        wait_until("all brokers are back", lambda: all_are_listed(person), step=0.5)
    assert not accidents


@pytest.mark.parametrize("kind", KINDS)
def test_a_migration_is_finalized_though_nodes_are_killed_and_sessions_lost_in_each_phase(
    kind: str, tmp_path: Path
) -> None:
    with migrating(tmp_path, extra=QUICK, **KINDS[kind]) as person:
        cluster, accidents = person.cluster, Accidents(person)
        write(person)
        person.start_controllers()
        person.wants("PreMigration")
        person.apply()
        person.wants("DualWrite")
        until_done(
            person,
            accidents={
                0: accidents.standby_killed,
                1: accidents.session_lost,
                2: accidents.broker_killed,
                3: accidents.active_killed,
                4: accidents.topics_moved_and_deleted,
                5: accidents.standby_killed,
                6: accidents.broker_killed,
            },
        )
        assert person.status["migration"]["phase"] == "DualWrite"
        assert run("migration", "compare", "-f", str(person.file)).returncode == 0
        person.wants("Finalized", "zk-finalize")
        (plan_hash,) = set(re.findall(r"sha256:[0-9a-f]{12}", person.plan()))
        until_done(person, "--approve", plan_hash, accidents={7: accidents.broker_killed, 8: accidents.standby_killed})
        assert person.status["migration"]["phase"] == "Finalized"
        assert sorted(person.restarted) == sorted(
            (id_, shape)
            for shape, ids in (
                (Shape.FLAGGED_BROKER, cluster.brokers),
                (Shape.KRAFT_BROKER, cluster.brokers),
                (Shape.CONTROLLER, cluster.controllers),
            )
            for id_ in ids
        )
        assert_that_no_record_is_lost(person)
        if kind == "static":
            upgrade(person)


def upgrade(person: Person) -> None:
    """Upgrade the migrated cluster to Kafka 4.1 and its levels, like any other cluster."""
    cluster = person.cluster
    cluster.version = MIDDLE
    for id_ in (*cluster.controllers, *cluster.brokers):
        cluster.run(id_, cluster.shapes[id_])
        wait_until(f"node {id_} is back", lambda: all_are_listed(person), step=0.2)
    addresses = (
        *("--bootstrap-server", cluster.bootstrap_servers),
        *("--bootstrap-controller", cluster.bootstrap_controllers),
    )
    dry = run("upgrade", "--release", "4.1", "--dry-run", "-o", "json", *addresses)
    assert dry.returncode == 3, dry.stderr  # irreversible
    done = run("upgrade", "--release", "4.1", "--approve", json.loads(dry.stdout)["hash"], *addresses)
    assert done.returncode == 0, done.stderr
    assert_that_no_record_is_lost(person)


def all_are_listed(person: Person) -> bool:
    cluster = person.cluster
    with suppress(OSError, ValueError):
        return all(listed_brokers(cluster.ports[id_]) == set(cluster.brokers) for id_ in cluster.brokers)
    return False


@pytest.mark.parametrize("restarted", [3, 5, 6])
def test_a_migration_is_rolled_back_with_some_or_all_brokers_in_kraft_mode(restarted: int, tmp_path: Path) -> None:
    """After 3 restarts all brokers have the flag and ZooKeeper is copied; after 6, all run in KRaft mode."""
    with migrating(tmp_path, extra=QUICK) as person:
        accidents = Accidents(person)
        write(person)
        person.start_controllers()
        person.wants("DualWrite")
        person.apply(killed_after=restarted)
        person.wants("RolledBack")
        until_done(person, accidents={restarted + 1: accidents.broker_killed})
        migration = person.status["migration"]
        assert (migration["phase"], migration["brokers"]) == ("RolledBack", {"zooKeeper": 3})
        assert person.at("/controller")["brokerid"] in person.cluster.brokers
        assert_that_no_record_is_lost(person)


def test_a_write_that_zookeeper_lost_blocks_the_migration_until_another_controller_repeats_it(tmp_path: Path) -> None:
    with migrating(tmp_path) as person:
        write(person)
        person.start_controllers()
        person.wants("DualWrite")
        person.apply()
        client = KazooClient(person.cluster.ensemble)
        client.start()
        try:
            # As if a write of the controller had been lost: the log does not have this setting of the topic.
            path = f"/config/topics/{TOPIC}"
            client.set(path, json.dumps({"version": 1, "config": {"retention.ms": "1"}}).encode())
        finally:
            client.stop()
            client.close()
        person.wants("Finalized", "zk-finalize")
        (plan_hash,) = set(re.findall(r"sha256:[0-9a-f]{12}", person.plan()))
        done = run("apply", "-f", str(person.file), "--yes", "--timeout", "20s", "--approve", plan_hash)
        # It waits for approval, is blocked, or was cut off by --timeout: the status shows what counts.
        assert done.returncode in (3, 4, 5), done
        assert person.ready["reason"] == "MetadataDiffers", person.ready
        assert person.status["migration"]["phase"] == "DualWrite"
        Accidents(person).active_killed()
        wait_until("the other controller has written it again", is_equal(person), step=0.5)
        (plan_hash,) = set(re.findall(r"sha256:[0-9a-f]{12}", person.plan()))
        person.apply("--approve", plan_hash)
        assert person.status["migration"]["phase"] == "Finalized"
        assert_that_no_record_is_lost(person)


def is_equal(person: Person) -> Callable[[], bool]:
    return lambda: run("migration", "compare", "-f", str(person.file)).returncode == 0


def test_two_active_controllers_at_once_end_by_the_remedy_of_the_message_and_no_record_is_lost(tmp_path: Path) -> None:
    """One broker runs in KRaft mode. When `/controller` is deleted, a broker in ZooKeeper mode becomes controller as
    well. It takes the one in KRaft mode for dead and elects leaders, while the quorum does so too.
    """
    with migrating(tmp_path, extra=QUICK) as person:
        cluster = person.cluster
        write(person)
        person.start_controllers()
        person.wants("DualWrite")
        person.apply(killed_after=4)  # restarts: three brokers got the flag, and one of them runs in KRaft mode
        wait_until("all brokers are back", lambda: all_are_listed(person), step=0.5)
        person.deletes("/controller")
        wait_until("the plan names the problem", lambda: "two controllers at once" in person.plan())
        advice = person.plan()
        assert "then restart each broker in ZooKeeper mode, one after the other" in advice
        person.follows(advice)
        wait_until("one controller is left", lambda: "two controllers at once" not in person.plan())
        for id_ in [id_ for id_ in cluster.brokers if cluster.shapes[id_] is Shape.FLAGGED_BROKER]:
            cluster.run(id_, Shape.FLAGGED_BROKER)
            wait_until("the broker is back", lambda: all_are_listed(person), step=0.5)
        until_done(person, accidents={})
        assert person.status["migration"]["phase"] == "DualWrite"
        assert run("migration", "compare", "-f", str(person.file)).returncode == 0
        assert_that_no_record_is_lost(person)
