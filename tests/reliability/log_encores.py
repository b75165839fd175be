"""Encores about the metadata log and the quorum: a voter without a registration, a restored log."""

from __future__ import annotations

from kafkafeatures.api.names import ACCEPT_RESTORED_LOG
from kafkafeatures.core.facts.readings import Role
from kafkasim import registrations
from kafkasim.log import Write
from kafkasim.releases import release_named
from kraftlog.schema import table
from tests.reliability.hands import GROUP, METADATA, TRANSACTION, Hands
from tests.reliability.recorded_world import RecordedWorld

# --- Kafka itself ---


async def a_migration_is_open(it: Hands) -> None:
    """The log says that the cluster comes from ZooKeeper, and that the migration was never ended."""
    await it.begin({})
    it.world.append([registrations.migration(it.random.choice((1, 2)))])
    it.move(transaction=0)
    await it.wait(1.0)
    it.ask({TRANSACTION: 1})
    await it.wait(15.0)
    it.world.append([registrations.migration(3)])
    await it.wait(5.0)


async def a_voter_is_not_registered(it: Hands) -> None:
    """In a dynamic quorum Kafka checks only registrations, and this voter of an older release has none."""
    world = it.world
    follower = next((one for one in world.voting() if one.id != world.active), None)
    new = next((one for one in ("share.version", "streams.version") if not it.level(one)), "")
    asked = {METADATA: 29} if it.level(METADATA) < 29 else {new: 1}
    if follower is None or "" in asked:
        return
    it.move(kraft=1)
    await it.wait(1.0)
    world.stop(Role.CONTROLLER, follower.id, kill=True)
    await it.wait(2.0)
    if it.random.random() < 0.5:
        world.start(Role.CONTROLLER, follower.id, release_named("4.1"))
        await it.wait(2.0)
    else:
        follower.release = release_named("4.1")
    world.append([Write(table.UNREGISTER_CONTROLLER, {"controllerId": follower.id})])
    await it.wait(1.0)
    await it.begin({})
    it.ask(asked)
    await it.wait(15.0)


def _grow(world: RecordedWorld, end: int) -> None:
    """Beyond this offset, by records that say nothing."""
    while world.log.end_offset <= end:
        world.append([Write(table.NO_OP, {})])


async def the_log_is_restored(it: Hands) -> None:
    """Restore the log from a backup, with or without a running operator, with or without a change on its way. It may
    grow past its former end. Later a person accepts it, with the right words or with other ones.
    """
    world, away = it.world, it.random.choice(("", "dead", "deaf"))
    raised = {METADATA: 25} if it.level(METADATA) < 23 else {TRANSACTION: 1}
    it.move(transaction=0, group=0)
    drift = {"onDrift": it.random.choice(("Report", "Correct", "Correct")), "checkEvery": "30s"}
    await it.begin({}, drift=drift)
    backup = world.log.high_watermark
    if it.random.random() < 0.6:  # nothing that a status tells of
        _grow(world, backup + 60)
    for _ in range(it.random.choice((0, 1, 2)) if away != "dead" else 0):
        await it.elect()
    it.ask(raised)
    if away == "dead":
        it.scene.weather.roads.lost_before = 1.0 if it.random.random() < 0.5 else 0.0
        await it.sent()
        await it.leave()
        it.scene.weather.roads.lost_before = 0.0
    else:
        await it.until(lambda: it.ready.get("status") == "True", within=20.0)
        if it.random.random() < 0.7:  # what was written is in the backup, and what was read is not
            backup = world.log.high_watermark
            await it.wait(35.0)
            it.move(group=1)
            await it.wait(35.0)
    await it.wait(1.0)
    if away == "deaf":
        it.scene.weather.lost_before = 1.0
        await it.wait(1.0)
    before = world.log.end_offset
    world.restore(min(backup, world.log.end_offset))
    await it.wait(8.0)
    if away and it.random.random() < 0.7:
        _grow(world, before + 5)
        await it.wait(1.0)
    it.scene.weather.lost_before = 0.0
    if away == "dead":
        it.scene.begin()
    await it.wait(35.0)
    it.ask({**raised, GROUP: 1})
    await it.wait(15.0)
    right = f"{world.cluster_id}@{world.image.epoch}"
    it.annotate(ACCEPT_RESTORED_LOG, it.random.choice((right, right, "yes", f"{world.cluster_id}@99")))
    await it.wait(25.0)
