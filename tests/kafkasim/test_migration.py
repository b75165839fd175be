"""A whole migration on the simulator, driven by production's reconciliation, and what Kafka does when it goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkafeatures.api.names import SINGLE_REPLICA_TOPICS
from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.facts import znodes
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.migration.delete_znodes import DeleteZnodes
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.kafka.base.settings import Address
from kafkasim.migration.cluster import Faults, MigratingCluster
from kafkasim.migration.driver import CONTROLLER, EPOCH, PROGRESS, Driving
from kafkasim.migration.files import Form
from kafkasim.migration.ports import MigrationNetwork, SimulatedEnsemble
from kafkasim.migration.topics import states
from kafkasim.plan import TopicPlan
from kraftlog.image import ZkMigrationState
from tests.amounts import some_combinations
from tests.kafkasim.migrating import ORDERS, Migration, migrating

SINGLE = TopicPlan("single", ((2,),))


@pytest.fixture
def migration(tmp_path: Path) -> Migration:
    return Migration(tmp_path / "status.yaml")


def state_of(cluster: MigratingCluster) -> ZkMigrationState | None:
    assert cluster.quorum is not None
    return ZkMigrationState.of(cluster.quorum.image.zk_migration_state or 0)


def epoch_of(cluster: MigratingCluster) -> int:
    found = cluster.tree.get(EPOCH)
    assert found is not None
    return znodes.controller_epoch(found).value


async def test_a_finalized_migration_keeps_all_topics(migration: Migration) -> None:
    await migration.to("DualWrite")
    await migration.to("Finalized", "zk-finalize")

    cluster = migration.cluster
    assert state_of(cluster) is ZkMigrationState.POST_MIGRATION
    assert {one.topic for one in cluster.quorum.partitions()} == {"orders"}  # type: ignore[union-attr]
    assert all(len(one.state.in_sync) == 3 for one in cluster.quorum.partitions())  # type: ignore[union-attr]
    targets = [effect.step.target for effect in migration.effects]
    assert sorted(targets) == sorted(
        [f"broker {one}" for one in (1, 2, 3)] * 2 + [f"controller {n}" for n in (3001, 3002, 3003)]
    )


async def test_a_rollback_from_dual_write_keeps_a_topic_created_during_dual_write(migration: Migration) -> None:
    await migration.to("DualWrite")
    cluster = migration.cluster
    assert cluster.create_topic(TopicPlan("new", ((1, 2, 3),)))
    migration.passes(2.0)

    await migration.to("RolledBack")

    assert cluster.tree.get(PROGRESS) is None
    claim = cluster.tree.get(CONTROLLER)
    assert claim is not None
    assert not znodes.controller(claim).is_kraft
    assert {one.topic for one in cluster.zookeeper.partitions()} == {"new", "orders"}
    assert [effect.step for effect in migration.effects if isinstance(effect.step, DeleteZnodes)]


async def test_each_roll_of_a_migration_begins_once_and_never_counts_fewer_restarted_nodes(
    migration: Migration,
) -> None:
    """While one of three controllers restarts, the position of the migration is unknown."""
    restarted: dict[str, int] = {}

    def fewer_than_before() -> bool:
        rollout = migration.status.rollout
        if rollout is None:
            return bool(restarted)
        before, restarted[rollout.id] = restarted.get(rollout.id, 0), rollout.done
        return not 0 <= before <= rollout.done <= rollout.total

    for desired, consents in (("DualWrite", ()), ("Finalized", ("zk-finalize",))):
        migration.ask(desired, *consents)
        await migration.until(lambda: fewer_than_before() or migration.reason == Reason.IN_SYNC)
        assert migration.reason == Reason.IN_SYNC, migration.status.rollout
    assert migration.events.count("RolloutStarted") == 3
    assert migration.events.count("NodeRestarted") == 9


async def test_a_second_attempt_copies_everything_once_the_disks_were_wiped(migration: Migration) -> None:
    await migration.to("DualWrite")
    await migration.to("RolledBack")
    migration.cluster.wipe()

    await migration.to("DualWrite")

    assert state_of(migration.cluster) is ZkMigrationState.MIGRATION
    assert {one.topic for one in migration.cluster.quorum.partitions()} == {"orders"}  # type: ignore[union-attr]


async def test_the_controller_epoch_is_raised_where_the_quorum_had_many_elections(tmp_path: Path) -> None:
    """KAFKA-20488: partitions of a higher epoch would stay offline."""
    migration = Migration(tmp_path / "status.yaml", migrating(faults=Faults(epoch=40)))
    await migration.to("DualWrite")
    await migration.to("RolledBack")

    assert max(one.controller_epoch for one in states(migration.cluster.tree).values()) <= epoch_of(migration.cluster)
    assert epoch_of(migration.cluster) > 40


async def test_one_consent_for_single_replica_topics_covers_both_rolls_of_a_migration(tmp_path: Path) -> None:
    migration = Migration(tmp_path / "status.yaml", migrating(topics=(ORDERS, SINGLE)))
    migration.ask("DualWrite")
    await migration.until(lambda: migration.reason == Reason.CONSENT_REQUIRED)
    assert "topics: single" in migration.message
    assert migration.effects == []

    await migration.to("DualWrite", SINGLE_REPLICA_TOPICS)

    assert sorted(one.step.target for one in migration.effects) == sorted(f"broker {n}" for n in (1, 1, 2, 2, 3, 3))
    assert migration.status.spent_consents == (SINGLE_REPLICA_TOPICS,)
    await migration.to("Finalized", SINGLE_REPLICA_TOPICS, "zk-finalize")


async def test_a_new_single_replica_topic_holds_the_next_roll_until_the_consent_is_renewed(tmp_path: Path) -> None:
    migration = Migration(tmp_path / "status.yaml", migrating(topics=(ORDERS, SINGLE)))
    migration.ask("DualWrite", SINGLE_REPLICA_TOPICS)
    await migration.until(lambda: migration.position == Position.COPIED)
    assert migration.cluster.create_topic(TopicPlan("later", ((1,),)))
    await migration.until(lambda: migration.reason == Reason.CONSENT_REQUIRED)
    assert "the consent was given for other topics: 1 partition of 1 topic (single)" in migration.message

    migration.ask("DualWrite")
    await migration.look()
    assert migration.status.spent_consents == ()
    await migration.to("DualWrite", SINGLE_REPLICA_TOPICS)


async def test_no_broker_loses_the_flag_while_a_broker_does_not_know_the_controller(tmp_path: Path) -> None:
    migration = Migration(tmp_path / "status.yaml")
    await migration.to("DualWrite")
    cluster = migration.cluster
    cluster.zookeeper.uninformed = {3}
    migration.ask("RolledBack")
    await migration.until(lambda: "broker 3 does not know yet" in migration.message)
    assert migration.reason == Reason.WAITING_FOR_NODES
    before = [one.step.target for one in migration.effects]

    migration.passes(60.0)
    await migration.look()
    assert [one.step.target for one in migration.effects] == before
    assert isinstance(migration.effects[-1].step, DeleteZnodes)

    cluster.zookeeper.uninformed = set()
    await migration.to("RolledBack")
    assert [one.step.target for one in migration.effects][len(before) :].count("broker 3") == 1


# --- what Kafka does when people are wrong ---


def _flagged(cluster: MigratingCluster) -> None:
    for one in cluster.broker_ids:
        cluster.change(Role.BROKER, one, Form.FLAGGED_BROKER)
        cluster.restart(Role.BROKER, one)


def _started(cluster: MigratingCluster, form: Form = Form.MIGRATING_CONTROLLER) -> None:
    for one in cluster.controller_ids:
        cluster.change(Role.CONTROLLER, one, form)
        cluster.start(Role.CONTROLLER, one)


def _passes(cluster: MigratingCluster, seconds: float) -> None:
    cluster.advance(cluster.now_ms + int(seconds * 1000), sparse=True)


def _started_and_flagged(cluster: MigratingCluster) -> None:
    """Controllers run, then brokers have the flag, and all that follows from it has happened."""
    _started(cluster)
    _passes(cluster, 30)
    _flagged(cluster)
    _passes(cluster, 60)


def test_with_a_stale_migration_znode_every_topic_is_deleted() -> None:
    cluster = migrating()
    cluster.tree.create(PROGRESS, b'{"version":0,"kraft_metadata_offset":409,"kraft_controller_id":3003,'
                                  b'"kraft_metadata_epoch":3,"kraft_controller_epoch":3}')  # fmt: skip
    _started_and_flagged(cluster)

    assert state_of(cluster) is ZkMigrationState.PRE_MIGRATION
    assert list(cluster.tree.below("/brokers/topics")) == []


def test_controllers_with_the_disks_of_an_earlier_attempt_never_take_over() -> None:
    cluster = migrating()
    _started_and_flagged(cluster)
    for one in cluster.controller_ids:
        cluster.stop(Role.CONTROLLER, one)
    cluster.tree.delete(PROGRESS)
    cluster.tree.delete(CONTROLLER)
    _passes(cluster, 10)

    _started(cluster)
    _passes(cluster, 60)

    assert cluster.driver is not None
    assert cluster.driver.driving is Driving.INACTIVE
    assert state_of(cluster) is ZkMigrationState.MIGRATION


def test_the_first_leader_without_the_flag_ends_the_migration_with_brokers_in_zookeeper_mode() -> None:
    cluster = migrating()
    _started_and_flagged(cluster)
    for one in cluster.controller_ids:
        cluster.change(Role.CONTROLLER, one, Form.CONTROLLER)
        cluster.restart(Role.CONTROLLER, one)
        _passes(cluster, 30)

    assert state_of(cluster) is ZkMigrationState.POST_MIGRATION
    assert all(cluster.zookeeper.nodes[Role.BROKER, one].running for one in cluster.broker_ids)


async def test_a_write_lost_in_zookeeper_blocks_the_irreversible_step(tmp_path: Path) -> None:
    migration = Migration(tmp_path / "status.yaml")
    await migration.to("DualWrite")
    migration.cluster.faults = Faults(lost_writes=1.0)
    assert migration.cluster.create_topic(TopicPlan("lost", ((1, 2, 3),)))
    migration.passes(2.0)
    migration.cluster.faults = Faults()
    migration._document["spec"]["migration"]["desired"] = "RolledBack"

    await migration.until(lambda: migration.reason == Reason.METADATA_DIFFERS)

    assert "topic" in migration.message
    assert ORDERS.name not in migration.cluster.driver.lost  # type: ignore[union-attr]


@pytest.mark.parametrize("position", ["PreMigration", "Flagging", "Copied"])
async def test_a_rollback_deletes_nothing_while_unreachable_controllers_still_lead(
    migration: Migration, position: str
) -> None:
    """Only the operator cannot reach the controllers, which continue to lead; and they write nothing to ZooKeeper."""
    cluster = migration.cluster
    await migration.until(lambda: migration.position == position)
    migration.ask("RolledBack")
    await migration.look()
    migration.loses_controllers()
    cluster.faults = Faults(stalls=True)  # so /migration stands still
    for _ in range(60):
        await migration.look()
        migration.passes(5.0)
    assert not [one for one in migration.effects if isinstance(one.step, DeleteZnodes)]
    assert "controllers may still run" in str(migration.status.blockers)


@pytest.mark.parametrize("position", ["ZooKeeper", "PreMigration", "Copied"])
async def test_the_ensemble_of_another_cluster_causes_no_step(migration: Migration, position: str) -> None:
    """The chroot in the document is edited, so that it leads to another cluster, which is in PreMigration."""
    if position == Position.ZOOKEEPER:
        migration.ask("PreMigration")
        await migration.look()
    else:
        await migration.until(lambda: migration.position == position)
    other = migrating(seed=2)
    _started(other)
    other.advance(migration.cluster.now_ms + 60_000, sparse=True)
    before = len(migration.effects)
    migration._zookeeper = SimulatedEnsemble(other)
    for desired in ("RolledBack", "DualWrite"):
        migration.ask(desired, "zk-rollback-lossy", "zk-controllers-stopped")
        for _ in range(8):
            await migration.look()
            migration.passes(10.0)
        assert migration.reason == Reason.CLUSTER_ID_MISMATCH
        assert f"it is the ensemble of cluster {other.cluster_id}" in migration.message
    assert migration.effects[before:] == []
    assert other.tree.get(PROGRESS) is not None


async def test_the_transaction_itself_is_not_sent_to_the_ensemble_of_another_cluster(migration: Migration) -> None:
    """The names of one connect string may lead to two ensembles, of which each session picks one."""
    await migration.until(lambda: migration.position == "PreMigration")
    migration.ask("RolledBack")
    await migration.look()
    migration.person.stops_controllers()
    other = migrating(seed=2)
    _started(other)
    other.advance(migration.cluster.now_ms + 60_000, sparse=True)

    class Mixed(SimulatedEnsemble):
        prepared = SimulatedEnsemble(other).prepared

    migration._zookeeper = Mixed(migration.cluster)
    await migration.until(lambda: any("ensemble of cluster" in one.message for one in migration.status.history))
    assert not [one for one in migration.effects if isinstance(one.step, DeleteZnodes)]
    assert other.tree.get(PROGRESS) is not None


class OtherAddresses(MigrationNetwork):
    """A document that names only the controllers `named`; or, if `wrong`, a port at which nothing listens."""

    named: tuple[int, ...] = ()
    wrong = False

    def addresses(self, role: Role) -> tuple[Address, ...]:
        found = super().addresses(role)
        if role is not Role.CONTROLLER:
            return found
        return (
            (Address("127.0.0.1", 1),) if self.wrong else tuple(at for at in found if self._keys[at][1] in self.named)
        )


class NamesOne(OtherAddresses):
    named = (3001,)


class NamesNone(OtherAddresses):
    pass


class NamesAWrongPort(OtherAddresses):
    wrong = True


@pytest.mark.parametrize(
    ("position", "names", "remembers"),
    some_combinations(["PreMigration", "Flagging", "Copied"], [NamesOne, NamesNone, NamesAWrongPort], [True, False]),
)
async def test_znodes_are_not_deleted_while_controllers_run_that_the_document_does_not_name(
    migration: Migration, position: str, names: type[OtherAddresses], remembers: bool
) -> None:
    """Controllers that it names refuse the connection. The others lead, but write nothing to ZooKeeper."""
    await migration.until(lambda: migration.position == position)
    migration.ask("RolledBack")
    await migration.look()
    if names is NamesOne:
        migration.cluster.stop(Role.CONTROLLER, 3001)
        migration.passes(10.0)
    migration.cluster.faults = Faults(stalls=True)
    migration.starts_anew(through=names, remembers=remembers)
    for _ in range(20):
        await migration.look()
        migration.passes(5.0)
    assert not [one for one in migration.effects if isinstance(one.step, DeleteZnodes)]
    running = [one for one in (3001, 3002, 3003) if migration.cluster.runs(Role.CONTROLLER, one)]
    assert len(running) == (2 if names is NamesOne else 3)


@pytest.mark.parametrize("names", [NamesOne, NamesNone])
@pytest.mark.parametrize("position", ["PreMigration", "Flagging"])
async def test_voters_seen_before_count_in_a_rollback_whatever_the_document_names_later(
    migration: Migration, position: str, names: type[OtherAddresses]
) -> None:
    await migration.until(lambda: migration.position == position)
    migration.ask("RolledBack")
    await migration.look()
    migration.person.stops_controllers()
    migration.starts_anew(through=names)
    await migration.until(lambda: any(isinstance(one.step, DeleteZnodes) for one in migration.effects))
    assert migration.cluster.tree.get(PROGRESS) is None


async def test_a_standby_controller_that_lost_the_flag_does_not_finalize_and_gets_the_flag_back(
    migration: Migration,
) -> None:
    """The file was changed too early, and the controller restarted by itself. The position stays DualWrite."""
    await migration.to("DualWrite")
    cluster, before = migration.cluster, len(migration.effects)
    assert cluster.quorum is not None
    standby = next(one for one in cluster.controller_ids if one != cluster.quorum.active)
    cluster.change(Role.CONTROLLER, standby, Form.CONTROLLER)
    cluster.restart(Role.CONTROLLER, standby)
    migration.passes(10.0)
    for desired in ("DualWrite", "Finalized", "RolledBack"):
        migration.ask(desired)
        for _ in range(30):
            await migration.look()
            migration._help()  # approves the plan in the status
            migration.passes(5.0)
        assert f"put the flag back on controller {standby} and restart it" in str(migration.status.blockers)
        assert migration.status.way_back is not None
        assert (migration.position, len(migration.effects)) == ("DualWrite", before)
    assert state_of(cluster) is ZkMigrationState.MIGRATION

    cluster.change(Role.CONTROLLER, standby, Form.MIGRATING_CONTROLLER)
    cluster.restart(Role.CONTROLLER, standby)
    await migration.to("DualWrite")
