"""Encores: one more story at the end of a history, after everything was healed, and before it is let to settle.

Each brings about exactly what one promise is about, where chance alone would take many thousands of histories. What is
drawn for it comes from a generator of its own, so everything before it is as it was for its seed. Played by
`simulation.py`; those of rolls are in `roll_encores.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import Role
from tests.reliability.hands import GROUP, KRAFT, METADATA, TRANSACTION, WHOLE, Hands
from tests.reliability.log_encores import a_migration_is_open, a_voter_is_not_registered, the_log_is_restored
from tests.reliability.roll_encores import ROLL_ENCORES
from tests.reliability.scene import NAMESPACE, ROLL, ROLLS, Scene

SHARE = 0.5
"""The share of histories that have an encore; of those of rolls, all have one."""
ALWAYS = {"policy": "Always"}
MOVES_VOTERS = {"kind": "MoveVoters", "at": "2027-01-15T08:00:00Z", "voter": 3004}


# --- approvals ---


async def a_prefix_approves(it: Hands) -> None:
    """A plan is approved by so many digits of its hash; eight are enough, and fewer are none."""
    it.move(transaction=0)
    policy = it.random.choice(("Always", "Never"))
    await it.begin({TRANSACTION: 1}, approval={"policy": policy}, suspend=True)
    it.approve(it.random.choice((1, 4, 7, 7, 8, 12, WHOLE)))
    await it.wait(2.0)
    it.edit(suspend=False)
    await it.wait(15.0)


async def a_plan_is_withdrawn(it: Hands) -> None:
    """A plan was approved, and nothing of it done. Later the same is asked for again; the log can be read, or not.
    Maybe another client has done the first step by then: what is left is no part of what was approved before.
    """
    it.scene.weather.roads.no_log = it.random.choice((0.0, 1.0))
    it.move(group=0, transaction=0)
    both = {GROUP: 1, TRANSACTION: 1}
    await it.begin(both, approval=ALWAYS, suspend=True)
    it.approve()
    await it.wait(2.0)
    it.ask({})
    await it.until(it.is_observed)
    await it.wait(2.0)
    it.ask(both)
    await it.until(it.is_observed)
    await it.wait(2.0)
    if it.random.random() < 0.6:
        it.move(group=1)
        await it.wait(32.0)
    it.edit(suspend=False)
    await it.wait(15.0)


async def others_do_a_part_of_it(it: Hands) -> None:
    """A plan of two levels is approved. While no operator runs, another client moves the first, or moves it back
    and forth after the operator has.
    """
    it.move(group=0, transaction=0)
    is_suspended = it.random.random() < 0.5
    await it.begin({GROUP: 1, TRANSACTION: 1}, approval=ALWAYS, suspend=is_suspended)
    it.approve()
    if is_suspended:
        await it.wait(2.0)
        await it.leave()
        it.move(group=1)
    else:
        await it.sent()
        await it.until(lambda: it.level(GROUP) == 1, within=2.0, every=0.005)
        await it.leave()
        it.move(group=0)
        await it.wait(0.5)
        it.move(group=1)
    await it.wait(3.0)
    it.scene.begin()
    it.edit(suspend=False)
    await it.wait(50.0)


# --- order ---


async def many_levels_at_once(it: Hands) -> None:
    """Some go up and some down, with what they depend on, and maybe the quorum becomes a dynamic one."""
    there = it.level(METADATA)
    it.move(transaction=2, group=it.random.choice((0, 1)))
    before = it.level(GROUP)
    asked = {METADATA: 25 if there > 25 else 29, TRANSACTION: it.random.choice((0, 1)), GROUP: 1 - before}
    consents = [f"{TRANSACTION}:2->{asked[TRANSACTION]}", f"{METADATA}:{there}->25", f"{GROUP}:1->0"]
    if it.random.random() < 0.5:
        asked[KRAFT] = 1
        consents.append("dynamic-quorum")
    await it.begin({}, consents=[])
    it.ask(asked, consents=consents)
    await it.wait(30.0)


# --- consents ---


async def a_consent_of_before(it: Hands) -> None:
    """A new resource has a consent from the first moment on: whether it was used before is unknown."""
    it.move(transaction=2)
    await it.begin({TRANSACTION: 1}, consents=[f"{TRANSACTION}:2->1"])
    await it.wait(15.0)


async def others_use_a_consent(it: Hands) -> None:
    """While no operator runs, another client makes the very change that a consent is for, and takes it back. The first
    record of that may be the next one of the log; and the operator may begin with a snapshot that was made afterwards.
    """
    if it.random.random() < 0.5:
        it.world.timing = replace(it.world.timing, snapshot=20_000)
    it.move(transaction=2)
    await it.begin({TRANSACTION: 2}, consents=[])
    await it.wait(3.0)
    it.edit(consents=[f"{TRANSACTION}:2->1"])
    await it.until(it.is_observed, every=0.02)
    await it.leave()
    it.move(transaction=1)
    await it.wait(1.0)
    it.move(transaction=2)
    await it.wait(25.0)
    it.scene.begin()
    await it.wait(it.random.choice((0.0, 10.0)))
    it.ask({TRANSACTION: 1})
    await it.wait(15.0)


# --- soaks ---


async def a_soak_is_disturbed(it: Hands) -> None:
    """Another target while it soaks, no look for a while, or something that another release has begun."""
    there = it.level(METADATA)
    if there >= 25 and it.level(KRAFT):
        return
    asked, consents = ({METADATA: 25}, []) if there < 25 else ({KRAFT: 1}, ["dynamic-quorum"])
    how = it.random.choice(("target", "gap", "begun") if there < 25 else ("gap", "begun"))
    lasts = "90s" if how == "gap" else "40s"
    await it.begin({}, consents=consents, features={"finalizeAfter": lasts})
    if how == "begun":
        begun = [MOVES_VOTERS]
        it.scene.server.edit_status(NAMESPACE, it.name, lambda one: one["status"].update(intents=begun))
    it.ask(asked)
    await it.wait(15.0)
    if how == "target":
        it.ask({METADATA: 27})
    elif how == "gap":
        it.scene.weather.lost_before = 1.0
        await it.wait(70.0)
        it.scene.weather.lost_before = 0.0
    else:
        await it.wait(20.0)
        it.scene.server.edit_status(NAMESPACE, it.name, lambda one: one["status"].update(intents=[]))
    await it.wait(60.0)


# --- the last second ---


async def it_is_withdrawn_at_the_end(it: Hands) -> None:
    """While the operator reads it once more, after its intent was stored, the document becomes another one; or to read
    it takes longer than anything may be sent after that.
    """
    how, weather = it.random.choice(("suspend", "target", "late")), it.scene.weather
    it.move(transaction=0)
    await it.begin({})

    def happens() -> None:
        weather.slow = 10.5 if how == "late" else 3.0
        if how == "suspend":
            it.scene.loop.call_soon(lambda: it.edit(suspend=True))
        elif how == "target":
            it.scene.loop.call_soon(lambda: it.ask({}))

    it.ask({TRANSACTION: it.random.choice((1, 2))})
    await it.announced(happens)
    await it.wait(0.3)
    weather.slow = 0.0
    await it.wait(20.0)


# --- what became of it ---


async def a_broker_keeps_it(it: Hands) -> None:
    """The quorum is lost as it arrives. Its process dies, and the next one has another wall clock."""
    roads, world = it.scene.weather.roads, it.world
    it.move(transaction=0)
    await it.begin({})
    roads.mute_leader = roads.quorum_lost = 1.0
    it.ask({TRANSACTION: it.random.choice((1, 2))})
    await it.sent()
    await it.wait(1.0)
    roads.mute_leader = roads.quorum_lost = 0.0
    await it.leave()
    it.scene.set_clock(it.random.choice((400.0, 90_000.0)))
    it.scene.begin()
    await it.wait(it.random.choice((2.0, 20.0)))
    for node in world.of_role(Role.CONTROLLER):
        if not node.running:
            world.start(Role.CONTROLLER, node.id)
    await it.wait(90.0)


async def it_arrives_late(it: Hands) -> None:
    """A change is on its way when its process dies; the next one looks before it arrives."""
    it.move(transaction=0)
    await it.begin({})
    it.scene.weather.roads.late = 1.0
    it.ask({TRANSACTION: it.random.choice((1, 2))})
    await it.sent()
    await it.wait(0.1)
    await it.leave()
    it.scene.begin()
    await it.wait(20.0)


async def it_waits_in_a_queue(it: Hands) -> None:
    """The controller has it, and answers dry runs before they come into its queue."""
    roads = it.scene.weather.roads
    it.move(transaction=0)
    await it.begin({})
    roads.queued = 1.0
    it.ask({TRANSACTION: it.random.choice((1, 2))})
    await it.sent()
    roads.unread = True
    await it.wait(25.0)
    roads.unread = False
    await it.wait(10.0)


async def nothing_is_committed(it: Hands) -> None:
    """When it arrives the followers fall silent for less than two seconds, in which it is looked twice."""
    it.move(transaction=0)
    await it.begin({})
    it.ask({TRANSACTION: it.random.choice((1, 2))})
    await it.sent()
    it.world.stand_still(1_900)
    it.edit(drift={"onDrift": "Report", "checkEvery": "1m"})
    await it.wait(10.0)


async def it_is_reverted_at_once(it: Hands) -> None:
    """Before the operator could read it back, another client has set the level to what it was."""
    it.move(transaction=0)
    await it.begin({})
    it.scene.weather.roads.reverted = True
    it.ask({TRANSACTION: it.random.choice((1, 2))})
    await it.sent()
    await it.wait(0.1)
    it.scene.weather.roads.reverted = False
    await it.wait(40.0)


async def the_controller_says_no(it: Hands) -> None:
    """While the dry run is judged the level is another one."""
    it.move(transaction=it.random.choice((0, 2)))
    await it.begin({}, consents=[])
    it.scene.weather.roads.flipped = True
    it.ask({TRANSACTION: 1}, consents=[f"{TRANSACTION}:2->1"])
    await it.wait(8.0)
    it.scene.weather.roads.flipped = False
    await it.wait(10.0)


Encore = Callable[[Hands], Awaitable[None]]
ENCORES: tuple[Encore, ...] = (
    a_prefix_approves,
    a_plan_is_withdrawn,
    others_do_a_part_of_it,
    many_levels_at_once,
    a_consent_of_before,
    others_use_a_consent,
    a_soak_is_disturbed,
    it_is_withdrawn_at_the_end,
    a_broker_keeps_it,
    it_arrives_late,
    it_waits_in_a_queue,
    nothing_is_committed,
    it_is_reverted_at_once,
    the_controller_says_no,
    a_migration_is_open,
    a_voter_is_not_registered,
    the_log_is_restored,
    the_log_is_restored,
)


def drawn(seed: int) -> Encore | None:
    """The encore of this seed; None for none."""
    random = Random(f"{seed} which encore")
    if seed % ROLLS == ROLLS - 1:
        return random.choice(ROLL_ENCORES)
    return random.choice(ENCORES) if random.random() < SHARE else None


def encore_of(scene: Scene) -> Encore | None:
    """The encore of this history; none where a person restarts the nodes."""
    pods = scene.clusters["a"].pods if scene.theme == ROLL else None
    return None if pods is not None and pods.by_hand else drawn(scene.history.seed)
