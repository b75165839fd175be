"""A real cluster goes from ZooKeeper to KRaft: three brokers and three controllers, a person restarts them as asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkafeatures.core.migration.settings import Shape
from tests.amounts import only_in_soak
from tests.e2e.kafka.cli import run
from tests.e2e.kafka.migration_person import Person, migrating
from tests.e2e.rig.process import wait_until


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with migrating(tmp_path) as person_at_work:
        yield person_at_work


def test_a_migration_by_hand_is_finalized_and_each_node_is_restarted_once_in_each_phase(person: Person) -> None:
    cluster = person.cluster
    person.wants("PreMigration")
    first = person.plan()
    assert "start the controllers of the quorum" in first
    assert "way back to ZooKeeper: stop the controllers, let KafkaFeatures delete /migration; nothing is lost" in first
    assert "Plan: Changes" in first
    person.start_controllers()
    person.apply()
    assert person.status["migration"]["phase"] == "PreMigration"
    assert person.restarted == []

    person.wants("Finalized", "zk-finalize")
    assert "only from DualWrite" in person.plan()

    person.wants("DualWrite")
    killed: list[int] = []

    def kill_a_standby() -> None:
        killed.append(a_standby(person))
        cluster.nodes[killed[0]].kill()

    accidents: dict[int, Callable[[], object]] = {4: kill_a_standby}
    person.apply(accidents=accidents)
    cluster.run(killed[0], Shape.MIGRATING_CONTROLLER)
    assert person.status["migration"]["phase"] == "DualWrite"
    brokers = [id_ for id_, shape in person.restarted if shape is Shape.FLAGGED_BROKER]
    assert sorted(brokers) == list(cluster.brokers)
    assert sorted(id_ for id_, shape in person.restarted if shape is Shape.KRAFT_BROKER) == list(cluster.brokers)
    assert len(person.restarted) == 6
    migration, way_back = person.status["migration"], person.status["wayBack"]["how"]
    assert (migration["restartsLeft"], migration["equality"]["state"]) == (0, "Equal")
    assert migration["nodeSeconds"] > 0
    assert way_back.startswith("to ZooKeeper mode: set spec.migration.desired to RolledBack")
    assert "nothing is lost: ZooKeeper and the metadata log held the same metadata" in way_back
    assert run("migration", "compare", "-f", str(person.file)).returncode == 0
    assert "have all of it" in run("migration", "settings", "-f", str(person.file)).stdout

    check_that_a_standby_without_its_flag_changes_nothing(person)
    check_that_the_advice_restores_deleted_znodes(person)

    person.wants("Finalized", "zk-finalize")
    plan = person.plan()
    assert "irreversible" in plan
    assert (
        "no way back: the migration ends when a controller without zookeeper.metadata.migration.enable becomes" in plan
    )
    assert "3 restarts of nodes left, about" in plan
    (plan_hash,) = set(re.findall(r"sha256:[0-9a-f]{12}", plan))
    person.apply("--approve", plan_hash)
    assert person.status["migration"]["phase"] == "Finalized"
    assert len(person.restarted) == 9
    assert person.status["spentConsents"] == ["zk-finalize"]
    assert "wayBack" not in person.status


def a_standby(person: Person) -> int:
    return next(id_ for id_ in person.cluster.controllers if id_ != person.at("/controller")["brokerid"])


def check_that_the_advice_restores_deleted_znodes(person: Person) -> None:
    """Both znodes are deleted in dual write. Then Kafka writes nothing to ZooKeeper until another controller is
    elected.
    """
    advice = "restart the active controller"
    person.deletes("/controller", "/migration")
    wait_until("the plan has the advice", lambda: advice in person.plan())
    person.follows(person.plan())
    wait_until("it is dual write as before", lambda: advice not in person.plan())
    wait_until("all is equal", lambda: run("migration", "compare", "-f", str(person.file)).returncode == 0)
    person.apply()
    assert person.status["migration"]["phase"] == "DualWrite"


def check_that_a_standby_without_its_flag_changes_nothing(person: Person) -> None:
    """A standby was restarted without its flag. Whatever phase is desired, the only remedy is to restore the flag."""
    cluster, before, standby = person.cluster, len(person.restarted), a_standby(person)
    cluster.run(standby, Shape.CONTROLLER)
    remedy = f"put the flag back on controller {standby} and restart it"
    for desired in ("DualWrite", "RolledBack", "Finalized"):
        person.wants(desired, "zk-finalize")
        wait_until("the plan has the remedy", lambda: remedy in person.plan())
        done = run("apply", "-f", str(person.file), "--yes", "--timeout", "5s")
        assert done.returncode != 0
        assert remedy in " ".join((done.stdout + done.stderr).split())
        assert (person.status["migration"]["position"], len(person.restarted)) == ("DualWrite", before)
    cluster.run(standby, Shape.MIGRATING_CONTROLLER)
    wait_until("it is dual write as before", lambda: remedy not in person.plan())
    person.wants("DualWrite")
    person.apply()
    assert person.status["migration"]["phase"] == "DualWrite"
    assert len(person.restarted) == before


def test_a_migration_by_hand_is_rolled_back_from_half_way_after_apply_was_killed(person: Person) -> None:
    """Three brokers have the flag, and one of them already runs in KRaft mode. The controllers are stopped while its
    restart back is in flight. So no node knows any more which partitions it has.
    """
    cluster = person.cluster
    person.start_controllers()
    person.wants("DualWrite")
    person.apply(killed_after=4)  # restarts
    in_kraft, shape = person.restarted[-1]
    assert shape is Shape.KRAFT_BROKER

    person.wants("RolledBack")
    person.apply(killed_after=1)
    assert person.restarted[4] == (in_kraft, Shape.FLAGGED_BROKER)
    wait_until("the broker is back", lambda: person.at(f"/brokers/ids/{in_kraft}") is not None)
    for id_ in cluster.controllers:
        cluster.nodes[id_].stop()
    assert [one["kind"] for one in person.status["intents"]] == ["RestartNode"]
    person.apply()
    assert sorted(person.restarted[5:]) == [(id_, Shape.PLAIN_BROKER) for id_ in cluster.brokers]
    migration = person.status["migration"]
    assert (migration["phase"], migration["brokers"]) == ("RolledBack", {"zooKeeper": 3})
    assert "kraft_metadata_offset" in migration["keptMigrationNode"]
    (deleted,) = [one for one in person.status["history"] if one["kind"] == "DeleteZnodes"]
    assert deleted["result"] == "Applied"


@only_in_soak
def test_a_migration_by_hand_is_abandoned_before_the_quorum_has_taken_over(person: Person) -> None:
    """A migration is abandoned while brokers get the flag, and another one before any has it. No znode of the
    controllers remains.

    Nothing is deleted while the controllers may still run. If only one of them still runs, the plan says to stop it.
    """
    cluster = person.cluster
    person.start_controllers()
    person.wants("DualWrite")
    person.apply(killed_after=1)
    flagged, shape = person.restarted[-1]
    assert shape is Shape.FLAGGED_BROKER
    person.wants("RolledBack")
    wait_until("the broker is back, and the plan begins with it", lambda: "delete /migration" in person.plan())
    person.apply()
    assert person.restarted[1:] == [(flagged, Shape.PLAIN_BROKER)]
    assert person.status["migration"]["brokers"] == {"zooKeeper": 3}
    assert person.at("/migration") is None

    person.start_controllers()
    person.wants("PreMigration")
    person.apply()
    assert person.at("/migration")["kraft_metadata_offset"] == -1
    for where, says in (
        ({"zookeeper": {"connect": person.ensemble_of_another_cluster()}}, "it is the ensemble of cluster another,"),
        ({"bootstrapControllers": "127.0.0.1:1"}, "a controller answers at"),
    ):
        person.wants("RolledBack")
        person.finds(**where)
        done = run("apply", "-f", str(person.file), "--yes", "--timeout", "30s")
        assert done.returncode != 0
        assert says in done.stdout + done.stderr
    assert person.at("/migration", "/another")["kraft_metadata_offset"] == 5
    assert person.at("/migration")["kraft_metadata_offset"] == -1
    person.wants("RolledBack")
    for id_ in cluster.controllers:
        cluster.nodes[id_].freeze()
    silent = run("apply", "-f", str(person.file), "--yes", "--timeout", "40s")
    assert silent.returncode != 0
    assert "controllers may still run" in silent.stdout + silent.stderr
    assert person.at("/migration")["kraft_metadata_offset"] == -1
    for id_ in cluster.controllers:
        cluster.nodes[id_].thaw()
    for id_ in (3002, 3003):
        cluster.nodes[id_].stop()
    alone = "if you stopped controllers 3002, 3003 for a rollback, stop controller 3001 too"
    wait_until("the active controller has missed the others", lambda: alone in person.plan())
    cluster.nodes[3001].stop()
    person.apply()
    assert len(person.restarted) == 2
    assert person.at("/migration") is None
    assert person.at("/controller")["brokerid"] in cluster.brokers
    deleted = [one for one in person.status["history"] if one["kind"] == "DeleteZnodes"]
    assert [(one["target"], one["result"]) for one in deleted] == [("/migration", "Applied")] * 2
