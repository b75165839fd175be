"""Encores of migrations: before a history is let to settle, once more into dual write, and one fault in what follows.
All other faults have stopped by then, and a person does what the status asks for. Drawn and played by `migrations.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from kafkafeatures.core.facts.readings import Role
from kafkasim.migration.cluster import Faults
from tests.reliability.migration_facts import modes
from tests.reliability.migration_records import FINALIZED, MIGRATION, Mode
from tests.reliability.migration_scene import CHROOT, NAME, SERVERS
from tests.reliability.records import Jumped

if TYPE_CHECKING:
    from tests.reliability.migrations import MigrationHistory

SHARE = 0.6
"""The share of histories of migrations that have one."""
LONG = 400.0
"""Seconds that such a fault lasts, at most."""
HELD = 80.0
"""Seconds until `holdDualWriteFor` of 1m is over, and what was read since then."""

Encore = Callable[["MigrationHistory"], Awaitable[None]]


async def a_flag_is_lost_out_of_turn(it: MigrationHistory) -> None:
    """A standby controller restarts without the flag, just before the document asks for something else."""
    await it.wait(HELD)
    it.a_controller_loses_the_flag()
    await it.wait(5.0 + 20.0 * it.random.random())
    desired = it.random.choice(("RolledBack", "Finalized"))
    it.aim_at(desired, ["zk-finalize"] if desired == "Finalized" else [])
    await it.wait(LONG)


async def the_consent_is_taken_back_midway(it: MigrationHistory) -> None:
    """A person removes the consent after the first controller has lost the flag as it was asked to."""
    it.aim_at("Finalized", ["zk-finalize"])
    if await it.until(lambda: False in it.cluster.truth().controllers.values()):
        it.set(consents=[])
        await it.wait(LONG)


async def a_controller_runs_that_is_not_named(it: MigrationHistory) -> None:
    """The document names one controller, which has stopped; others, which were overlooked, run for long."""
    await _back_to_the_controllers(it)
    it.names_for(LONG, bootstrapControllers=f"{NAME}.first:9093")
    ids = list(it.cluster.controller_ids)
    for id_ in ids[: it.random.choice((1, len(ids) - 1))]:
        it.stopped.add((Role.CONTROLLER, id_))
        it.cluster.stop(Role.CONTROLLER, id_)
    await it.wait(LONG)


async def a_claim_stood_there_before(it: MigrationHistory) -> None:
    """The document has said since long that the controllers have stopped. They run, the operator alone does not reach
    them, and what they write does not arrive.
    """
    it.set(consents=["zk-controllers-stopped"])
    await _back_to_the_controllers(it, consents=["zk-controllers-stopped"])
    it.cluster.hidden = frozenset((Role.CONTROLLER, id_) for id_ in it.cluster.controller_ids)
    it.fails(Faults(stalls=True, epoch=it.cluster.faults.epoch), LONG)
    await it.wait(LONG)
    it.cluster.hidden = frozenset()


async def more_is_lost_than_was_shown(it: MigrationHistory) -> None:
    """A person consents to the metadata that ZooKeeper lacks; then ZooKeeper lacks more."""
    it.a_write_is_lost()
    await it.wait(30.0)
    it.aim_at("RolledBack", [])
    if await it.until(lambda: "zk-rollback-lossy" in (it.stored["spec"].get("consents") or ())):
        for _ in range(6):
            it.a_write_is_lost()
            await it.wait(40.0)
    await it.wait(LONG)


async def a_broker_dies_with_the_controllers(it: MigrationHistory) -> None:
    """While no operator runs, and after a person consented to lose metadata."""
    it.a_write_is_lost()
    await it.wait(30.0)
    await _back_to_the_controllers(it)
    it.nobody_looks()
    it.stops_controllers()
    lost = it.random.choice(it.cluster.broker_ids)
    it.cluster.stop(Role.BROKER, lost, kill=True)
    await it.wait(60.0)
    it.asleep_until = 0.0
    it.begin()
    await it.wait(LONG)
    it.comes_back(Role.BROKER, lost)


async def the_chroot_is_another_clusters(it: MigrationHistory) -> None:
    """The chroot belongs to another cluster from before the controllers are to be stopped until after they have
    stopped.
    """
    await _back_to_the_controllers(it)
    it.names_for(LONG, zookeeper={"connect": f"{SERVERS}{CHROOT}2"})
    await it.wait(60.0)
    it.stops_controllers()
    await it.wait(LONG)


async def a_clock_is_set_forward(it: MigrationHistory) -> None:
    """A clock is set forward by a day while no process of the operator runs; then the document asks to finalize."""
    it.nobody_looks()
    broker = it.random.choice(it.cluster.broker_ids)
    it.cluster.restart(Role.BROKER, broker)
    await it.wait(20.0)
    it.skew, it.asleep_until = timedelta(days=1), 0.0
    it.history.records.append(Jumped(it.loop.time()))
    it.begin()
    it.aim_at("Finalized", ["zk-finalize"])
    await it.wait(LONG)
    it.skew = timedelta(0)
    it.history.records.append(Jumped(it.loop.time()))


async def the_controllers_stop_too_early(it: MigrationHistory) -> None:
    """On the way back, while the last broker was restarted and has to be stable yet, for long."""
    it.set(rollout={"stableFor": "5m", "nodeTimeout": "2m"})
    it.aim_at("RolledBack", [])
    if await it.until(lambda: Mode.KRAFT not in modes(it.cluster.truth())):
        it.stops_controllers()
        await it.wait(2 * LONG)
    it.set(rollout={"stableFor": "1s", "nodeTimeout": "2m"})


async def the_document_forgets_it(it: MigrationHistory) -> None:
    """The controllers have stopped, as they were asked to, when `spec.migration` is away for a few looks."""
    await _back_to_the_controllers(it)
    it.stops_controllers()
    await it.wait(1.0)
    it.the_migration_is_taken_out()
    await it.wait(LONG)


async def _back_to_the_controllers(it: MigrationHistory, consents: list[str] | None = None) -> None:
    """All brokers are back in ZooKeeper mode, and a person who was asked to stop the controllers is late."""
    it.git_is_late, it.late = 1.0, 2 * LONG
    it.aim_at("RolledBack", consents or [])
    await it.until(lambda: "needed: stop the controllers" in str(it.ready.get("message")))


ENCORES: tuple[Encore, ...] = (
    a_flag_is_lost_out_of_turn,
    the_consent_is_taken_back_midway,
    a_controller_runs_that_is_not_named,
    a_claim_stood_there_before,
    more_is_lost_than_was_shown,
    a_broker_dies_with_the_controllers,
    the_chroot_is_another_clusters,
    a_clock_is_set_forward,
    the_controllers_stop_too_early,
    the_document_forgets_it,
)


def encore_of(it: MigrationHistory) -> Encore | None:
    """Return the encore of a history, if it has one: drawn apart, so that what was before is as it was."""
    drawn = Random(f"{it.history.seed} encore")
    truth = it.cluster.truth()
    is_over = truth.state == FINALIZED or (truth.state == MIGRATION and False in truth.controllers.values())
    return None if is_over or drawn.random() >= SHARE else drawn.choice(ENCORES)
