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
    with migrating(tmp_path) as one:
        yield one


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

    def a_standby_dies() -> None:
        killed.append(a_standby(person))
        cluster.nodes[killed[0]].kill()

    accidents: dict[int, Callable[[], object]] = {4: a_standby_dies}
    person.apply(accidents=accidents)
    cluster.run(killed[0], Shape.MIGRATING_CONTROLLER)
    assert person.status["migration"]["phase"] == "DualWrite"
    brokers = [id_ for id_, shape in person.restarted if shape is Shape.FLAGGED_BROKER]
    assert sorted(brokers) == list(cluster.brokers)
    assert sorted(id_ for id_, shape in person.restarted if shape is Shape.KRAFT_BROKER) == list(cluster.brokers)
    assert len(person.restarted) == 6
    there, back = person.status["migration"], person.status["wayBack"]["how"]
    assert (there["restartsLeft"], there["equality"]["state"]) == (0, "Equal")
    assert there["nodeSeconds"] > 0
    assert back.startswith("to ZooKeeper mode: set spec.migration.desired to RolledBack")
    assert "nothing is lost: ZooKeeper and the metadata log held the same metadata" in back
    assert run("migration", "compare", "-f", str(person.file)).returncode == 0
    assert "have all of it" in run("migration", "settings", "-f", str(person.file)).stdout

    a_standby_that_lost_its_flag_ends_nothing(person)
    znodes_that_were_deleted_are_there_again_if_the_advice_is_followed(person)

    person.wants("Finalized", "zk-finalize")
    waits = person.plan()
    assert "irreversible" in waits
    assert (
        "no way back: the migration ends when a controller without zookeeper.metadata.migration.enable becomes" in waits
    )
    assert "3 restarts of nodes left, about" in waits
    (plan_hash,) = set(re.findall(r"sha256:[0-9a-f]{12}", waits))
    person.apply("--approve", plan_hash)
    assert person.status["migration"]["phase"] == "Finalized"
    assert len(person.restarted) == 9
    assert person.status["spentConsents"] == ["zk-finalize"]
    assert "wayBack" not in person.status


def a_standby(person: Person) -> int:
    return next(id_ for id_ in person.cluster.controllers if id_ != person.at("/controller")["brokerid"])


def znodes_that_were_deleted_are_there_again_if_the_advice_is_followed(person: Person) -> None:
    """Both at once in dual write: nothing is written to ZooKeeper, until an elected controller writes all of it."""
    advice = "restart the active controller"
    person.deletes("/controller", "/migration")
    wait_until("it is named", lambda: advice in person.plan())
    person.follows(person.plan())
    wait_until("it is dual write as before", lambda: advice not in person.plan())
    wait_until("all is equal", lambda: run("migration", "compare", "-f", str(person.file)).returncode == 0)
    person.apply()
    assert person.status["migration"]["phase"] == "DualWrite"


def a_standby_that_lost_its_flag_ends_nothing(person: Person) -> None:
    """A changed file and a restart too early: whatever is wanted, nothing else is, and it gets it back."""
    cluster, before, standby = person.cluster, len(person.restarted), a_standby(person)
    cluster.run(standby, Shape.CONTROLLER)
    remedy = f"put the flag back on controller {standby} and restart it"
    for desired in ("DualWrite", "RolledBack", "Finalized"):
        person.wants(desired, "zk-finalize")
        wait_until("it is named", lambda: remedy in person.plan())
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
    """Three brokers got the flag, and one of them runs in KRaft mode already. The controllers are stopped while its
    restart back is in flight, so that nothing tells any more which partitions it has.
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
    wait_until("it is back", lambda: person.at(f"/brokers/ids/{in_kraft}") is not None)
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
    """First while brokers get the flag, then before any has it: nothing of the controllers stays in ZooKeeper. While
    they are only silent, nothing is deleted. One that is left without the others says nothing, and is named.
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
