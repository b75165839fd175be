"""Encores of rolls: one more roll at the end of a history, with exactly one thing in its way (`encores.py`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import Role
from kafkasim import registrations
from kafkasim.plan import TopicPlan
from kafkasim.statefulsets import BudgetPlan
from tests.reliability.hands import Hands
from tests.reliability.pods import BROKERS, CONTROLLERS, RecordedPods
from tests.reliability.records import Asked, Stopped
from tests.reliability.rolls import BROKEN
from tests.reliability.scene import NAMESPACE

BASE, NEW = "kafka:4.4.0", "kafka:4.4.0-debug"
BOTH = (CONTROLLERS, BROKERS)


def _pods(it: Hands) -> RecordedPods:
    pods = it.cluster.pods
    assert isinstance(pods, RecordedPods)
    return pods


def _of_brokers(it: Hands) -> list[str]:
    """The pods of brokers that are nothing else."""
    return [name for name in _pods(it).names() if name.startswith(BROKERS)]


async def _begin(it: Hands, *, needed: int = 1, levels: dict[str, int] | None = None, **rollout: Any) -> None:
    """Start with all pods on one image and all nodes present."""
    pods, world = _pods(it), it.world
    pods.budgets = []
    for one in BOTH:
        pods.set_image(one, BASE)
    await it.wait(1.0)
    for name in _of_brokers(it):
        pods.delete(name)
    await it.wait(12.0)
    for name in [one for one in pods.names() if one.startswith(CONTROLLERS)]:
        pods.delete(name)
        await it.wait(8.0)
    await it.until(lambda: world.active is not None and not world.away(), within=120.0, every=2.0)
    for topic in ("orders", "stock"):
        world.configure(needed, topic=topic)
    await it.wait(1.0)
    fields = {"availability": "RespectMinISR", "stableFor": "1s", "nodeTimeout": "20s", "maxParallel": 3, **rollout}
    await it.begin(levels or {}, workload=pods.workload, rollout=fields)


async def _roll(it: Hands, *sets: str, image: str = NEW) -> None:
    """Give these StatefulSets another image, and touch the document, so that the operator looks at once."""
    for one in sets:
        _pods(it).set_image(one, image)
    await it.wait(0.4)
    it.edit(drift={"onDrift": "Report", "checkEvery": it.random.choice(("30s", "31s", "32s"))})


async def _asked(it: Hands) -> str:
    """Wait until the operator requests an eviction, and return the pod, if any."""
    records, before = it.scene.history.records, len(it.scene.history.records)
    await it.until(lambda: any(isinstance(one, Asked) for one in records[before:]), within=30.0, every=0.1)
    return next((one.pod for one in records[before:] if isinstance(one, Asked)), "")


async def _stopped(it: Hands) -> str:
    """Wait until a pod begins to stop, and return it, if any."""
    records, before = it.scene.history.records, len(it.scene.history.records)
    await it.until(lambda: any(isinstance(one, Stopped) for one in records[before:]), within=30.0, every=0.1)
    return next((one.pod for one in records[before:] if isinstance(one, Stopped)), "")


async def controllers_come_later(it: Hands) -> None:
    """Brokers are being restarted when the controllers get another image too."""
    await _begin(it, stableFor="10s")
    await _roll(it, BROKERS)
    await _stopped(it)
    await _roll(it, CONTROLLERS)
    await it.wait(40.0)


async def an_eviction_is_lost(it: Hands) -> None:
    """An eviction that was lost is asked for again only if nothing forbids it by then; nothing else is asked for
    meanwhile.
    """
    await _begin(it)
    world, roads = it.world, it.scene.weather.roads
    how = it.random.choice(("turn", "turn", "moved", "moved", "alone"))
    roads.eviction_lost = True
    await _roll(it, BROKERS)
    await _asked(it)
    if how == "turn":
        await _roll(it, CONTROLLERS)
    elif how == "moved":
        _reassign(it)
    await it.wait(8.0)
    roads.eviction_lost = False
    await it.wait(20.0)
    world.timing = replace(world.timing, catch_up=(200, 1_000))


def _reassign(it: Hands) -> None:
    """Reassign one partition slowly."""
    world = it.world
    world.timing = replace(world.timing, catch_up=(25_000, 25_000))
    brokers = [one.id for one in world.of_role(Role.BROKER)]
    for found in world.partitions():
        others = [one for one in brokers if one not in found.state.replicas]
        if others:
            world.reassign(found.topic, found.number, (*found.state.replicas[1:], others[0]))
            return
    found = world.partitions()[0]
    world.reassign(found.topic, found.number, found.state.replicas[1:])


async def partitions_are_moved(it: Hands) -> None:
    """While it rolls."""
    await _begin(it)
    _reassign(it)
    await it.wait(1.0)
    await _roll(it, BROKERS)
    await it.wait(20.0)
    it.world.timing = replace(it.world.timing, catch_up=(200, 1_000))
    await it.wait(10.0)


async def a_broker_is_away(it: Hands) -> None:
    """The process of a broker has died, and is not started again; or its Kubernetes node is about to be drained."""
    how = it.random.choice(("died", "died", "drained"))
    await _begin(it, needed=it.random.choice((1, 2)), maxParallel=1 if how == "drained" else it.random.choice((1, 3)))
    pods, world = _pods(it), it.world
    name = it.random.choice(_of_brokers(it))
    if how == "died":
        world.stop(Role.BROKER, pods.node_of(name), kill=True)
    else:
        pods.drain(name)
    await _roll(it, BROKERS)
    await it.wait(30.0)
    if how == "died":
        world.start(Role.BROKER, pods.node_of(name))
    else:
        pods.uncordon(name)
    await it.wait(10.0)


async def another_one_dies_at_the_end(it: Hands) -> None:
    """A restart is announced, and before it is asked for another broker dies."""
    await _begin(it, needed=2, maxParallel=1)
    names = _of_brokers(it)

    def happens() -> None:
        intents = it.status.get("intents") or ()
        name = next((one for one in names if one not in {each.get("target") for each in intents}), "")
        if name:
            it.world.stop(Role.BROKER, _pods(it).node_of(name), kill=True)

    await _roll(it, BROKERS)
    await it.announced(happens)
    await it.wait(30.0)
    for node in it.world.of_role(Role.BROKER):
        if not node.running:
            it.world.start(Role.BROKER, node.id)
    await it.wait(10.0)


async def a_broker_is_late(it: Hands) -> None:
    """The pod of a broker finds no place, or its replicas do not come back."""
    await _begin(it, stableFor="20s", maxParallel=2)
    pods, world = _pods(it), it.world
    await _roll(it, BROKERS)
    name = await _stopped(it)
    if not name:
        return
    node = world.nodes[Role.BROKER, pods.node_of(name)]
    if it.random.random() < 0.5:
        pods.drain(name)
    else:
        await it.until(lambda: not node.running, within=20.0)
        await it.until(lambda: node.running and node.id not in world.away(), within=30.0)
        world.fall_behind(node.id, for_ms=90_000)
    await it.wait(75.0)
    pods.uncordon(name)
    await it.wait(5.0)


async def a_controller_is_slow(it: Hands) -> None:
    """A controller reads for a while what it missed; a level is to be raised after the last of them."""
    it.move(transaction=0)
    await _begin(it)
    it.world.behind_for_ms = 20_000
    await _roll(it, CONTROLLERS)
    it.ask({"transaction.version": 1})
    await it.wait(100.0)
    it.world.behind_for_ms = 0


async def a_node_is_what_it_was(it: Hands) -> None:
    """While no operator runs, a person brings a node back to the image that the roll took it from."""
    await _begin(it, stableFor="5s", maxParallel=1)
    pods = _pods(it)
    await _roll(it, BROKERS)
    await it.until(lambda: bool((it.status.get("rollout") or {}).get("nodes")), within=60.0)
    done = (it.status.get("rollout") or {}).get("nodes", "")
    name = next((one for one in _of_brokers(it) if str(pods.node_of(one)) == done), "")
    await it.leave()
    if name:
        await _roll(it, BROKERS, image=BASE)
        await it.wait(1.0)
        pods.delete(name)
        await it.wait(15.0)
        await _roll(it, BROKERS)
    await it.wait(1.0)
    it.scene.begin()
    await it.wait(45.0)


async def a_stuck_node_waits_for_its_window(it: Hands) -> None:
    """An image that cannot run goes to one node; outside of the windows there is a better one."""
    windows = [{"schedule": "*/2 * * * *", "duration": "1m"}]
    await _begin(it, maxParallel=1, windows=windows)
    await _roll(it, BROKERS, image=BROKEN)
    name = await _until_it_stops(it)
    if name:
        await it.wait(75.0)
        await it.until(lambda: it.scene.loop.time() % 120.0 > 65.0, within=120.0)
    await _roll(it, BROKERS)
    await it.wait(30.0)


async def _until_it_stops(it: Hands) -> str:
    name = await _stopped(it)
    return name or await _stopped(it) or await _stopped(it)


async def a_budget_lets_one_go(it: Hands) -> None:
    """The budget allows one eviction at a time, the document several."""
    await _begin(it, stableFor="10s")
    _pods(it).budgets = [BudgetPlan("kafka", (BROKERS,), 1)]
    await _roll(it, BROKERS)
    await it.wait(30.0)
    _pods(it).budgets = []


async def nodes_wait_for_a_migration(it: Hands) -> None:
    """The log says that a migration from ZooKeeper is open, so no node is restarted."""
    await _begin(it)
    it.world.append([registrations.migration(1)])
    await it.wait(1.0)
    await _roll(it, *BOTH)
    await it.wait(10.0)
    it.world.append([registrations.migration(3)])
    await it.wait(5.0)


async def something_else_changes_while_it_is_halted(it: Hands) -> None:
    """A broker has ended by itself on the new image. Then the template of the controllers changes, or their StatefulSet
    is away for a while, or the status is, or the operator; and after that an old broker cannot run any more.
    """
    await _begin(it, maxParallel=1)
    pods, world = _pods(it), it.world
    await _roll(it, BROKERS)
    name = await _stopped(it)
    if not name:
        return
    await it.until(lambda: pods.node_of(name) not in world.away() | pods.nodes().behind, within=40.0)
    await it.wait(it.random.choice((2.0, 8.0)))
    pods.kill(name)
    await it.wait(15.0)
    how = it.random.choice(("template", "template", "away", "status", "operator"))
    if how == "template":
        pods.set_image(CONTROLLERS, "kafka:4.4.0-label")
    elif how == "status":
        it.scene.server.edit_status(NAMESPACE, it.name, lambda one: one.pop("status", None))
    await _are_away(it, (CONTROLLERS,) if how == "away" else (), seconds=20.0)
    if how == "operator":
        await it.leave()
        await it.wait(120.0)
        it.scene.begin()
    await it.wait(10.0)
    left = [one for one in _of_brokers(it) if pods.node_of(one) in pods.nodes().behind]
    if left:
        pods.crash_loop(it.random.choice(left))
    await it.wait(45.0)


async def _are_away(it: Hands, sets: tuple[str, ...], *, seconds: float) -> None:
    """These StatefulSets are not found for a while, as where one is deleted without its pods and made again."""
    _pods(it).gone.update(sets)
    await it.wait(seconds)
    _pods(it).gone.clear()


async def a_stateful_set_is_away(it: Hands) -> None:
    """A broker was restarted, and came back as it was. Then a StatefulSet is away for a moment, more than once."""
    await _begin(it, maxParallel=1, stableFor="1s")
    pods = _pods(it)
    name = it.random.choice(_of_brokers(it))
    pods.sticky.add(name)
    await _roll(it, BROKERS)
    for _ in range(6):
        if await _stopped(it) in (name, ""):
            break
    for _ in range(2):
        await it.wait(15.0)
        how = it.random.choice(((CONTROLLERS,), (CONTROLLERS,), (BROKERS,), BOTH))
        await _are_away(it, how, seconds=it.random.choice((5.0, 20.0)))
    await it.wait(20.0)
    pods.sticky.clear()


async def disks_are_lost(it: Hands) -> None:
    """The template mounts another volume: each broker that starts from now on is empty. A person sees to the first."""
    await _begin(it, maxParallel=it.random.choice((1, 1, 2)))
    it.world.loses_disks = True
    await _roll(it, *it.random.choice(((BROKERS,), BOTH)))
    await it.wait(60.0)
    it.world.loses_disks = False


async def a_drained_broker_loses_its_disk(it: Hands) -> None:
    """In the middle of a roll a pod that the operator did not restart comes back on another volume."""
    await _begin(it, maxParallel=it.random.choice((1, 1, 2)))
    await _roll(it, BROKERS)
    await it.until(lambda: bool((it.status.get("rollout") or {}).get("disks")), within=40.0)  # before, none is known
    await it.wait(it.random.choice((0.0, 2.0, 8.0)))
    if _pods(it).nodes().behind:  # what is lost once the roll is over is no matter of the next one
        it.world.loses_disks = True
        _pods(it).delete(it.random.choice(_of_brokers(it)))
        await it.wait(15.0)
        it.world.loses_disks = False
    await it.wait(45.0)


async def the_status_is_lost_in_a_roll(it: Hands) -> None:
    """The status is lost while it says that a consent to unavailable topics was used, or which node just came back."""
    takes_away = it.random.random() < 0.5
    await _begin(it, maxParallel=1, stableFor="1s" if takes_away else "40s")
    if takes_away:
        brokers = sorted(_pods(it).node_of(one) for one in _of_brokers(it))
        it.world.create_topic(TopicPlan("alone", tuple((one,) for one in brokers), 1))
        await it.wait(1.0)
        it.edit(consents=["single-replica-topics"])
        await it.wait(1.0)
    await _roll(it, BROKERS)
    await _stopped(it)
    await it.wait(it.random.choice((1.0, 6.0)))
    it.scene.server.edit_status(NAMESPACE, it.name, lambda one: one.pop("status", None))
    await it.wait(45.0)


ROLL_ENCORES: tuple[Callable[[Hands], Awaitable[None]], ...] = (
    controllers_come_later,
    an_eviction_is_lost,
    an_eviction_is_lost,
    partitions_are_moved,
    a_broker_is_away,
    a_broker_is_away,
    another_one_dies_at_the_end,
    a_broker_is_late,
    a_controller_is_slow,
    a_node_is_what_it_was,
    a_stuck_node_waits_for_its_window,
    a_budget_lets_one_go,
    nodes_wait_for_a_migration,
    something_else_changes_while_it_is_halted,
    something_else_changes_while_it_is_halted,
    something_else_changes_while_it_is_halted,
    a_stateful_set_is_away,
    a_stateful_set_is_away,
    disks_are_lost,
    a_drained_broker_loses_its_disk,
    the_status_is_lost_in_a_roll,
)
