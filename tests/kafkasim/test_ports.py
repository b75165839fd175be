"""Reconciliations on a simulated cluster, with crashes of the process and accidents of nodes, in simulated time."""

from __future__ import annotations

import asyncio
import contextlib
import json
from random import Random
from typing import Any

import pytest

from kafkafeatures.api.status import Status, Via, read_status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Done, Wait
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState, OnDrift
from kafkafeatures.core.engine.route import route_to_controller
from kafkafeatures.core.engine.steps import Applied, DryRunAccepted, DryRunUnavailable, NotSent, OutcomeUnknown
from kafkafeatures.core.facts.readings import LogReading, PartitionsReading, Role
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.reconcile.act import reconcile
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.context import ReconcileContext
from kafkafeatures.reconcile.ports import Resource
from kafkasim.connection import Access
from kafkasim.plan import TopicPlan
from kafkasim.ports import SimulatedCluster
from tests.amounts import SOAK
from tests.kafkasim.clusters import plan, world

CUT_OFF = Access(controllers=False, reaches_controllers=False)
"""Only brokers can be reached."""
ACCESSES = (Access(), Access(controllers=False), Access(cluster_action=False))
SEEDS = 1000 if SOAK else 60
FEATURE_LEVEL = 12
"""The key of this type of record."""


class Crash(BaseException):
    """The end of the process, which no handler of errors catches."""


class Store:
    """A store of the status that survives a crash of the process."""

    def __init__(self, wanted: DesiredState) -> None:
        self.wanted, self.status = wanted, dict[str, Any]()

    async def read(self) -> Resource:
        return Resource("ns/x", 1, self.wanted, read_status(self.status)[0])

    async def read_again(self) -> Resource:
        return await self.read()

    async def write_status(self, status: Status) -> None:
        self.status = json.loads(json.dumps(status.as_json()))


class Mortal:
    """A port whose process crashes at point `dies_in`; there is a point before and after each call."""

    def __init__(self, inner: Any, dies_in: int) -> None:
        self._inner, self._left = inner, dies_in

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def call(*words: Any, **named: Any) -> Any:
            self._point()
            answer = await found(*words, **named)
            self._point()
            return answer

        return call

    def _point(self) -> None:
        if self._left == 0:
            raise Crash
        self._left -= 1


def context_of(kafka: Any, store: Any, sim: SimulatedCluster) -> ReconcileContext:
    return ReconcileContext(
        store=store,
        kafka=kafka,
        environment=Environment(clock=sim.now, sleep=sim.sleep),
        ages=Ages(SYSTEM.monotonic),
    )


async def live(kafka: Any, store: Any, sim: SimulatedCluster, *, most: int = 60) -> Any:
    """Reconcile until no requeue is requested, at most `most` times. Returns the last result."""
    context = context_of(kafka, store, sim)
    for _ in range(most):
        last = await reconcile(context, await context.store.read())
        if last.requeue_after is None:
            return last
        await sim.sleep(last.requeue_after)
    raise AssertionError(f"not settled: {last}")


def written(sim: SimulatedCluster) -> int:
    """The number of levels that were written to the log."""
    return sim.world.image.counts.get(FEATURE_LEVEL, 0)


WANTED = DesiredState({"metadata.version": 29, "share.version": 1, "group.version": 1})


@pytest.mark.parametrize("point", range(40))
async def test_a_reconciliation_killed_at_any_point_ends_the_same_when_run_again(point: int) -> None:
    sim, store = SimulatedCluster(world(plan(metadata_version=25))), Store(WANTED)
    before = written(sim)
    mortal = Mortal(sim, point)
    with contextlib.suppress(Crash):
        await live(mortal, Mortal(store, point), sim)
    last = await live(sim, store, sim)
    assert isinstance(last.decision, Done)
    assert written(sim) == before + 3
    assert not store.status.get("intents")


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_cluster_with_random_failures_reaches_the_desired_levels(seed: int) -> None:
    """Leaders die, brokers stop, the process dies, another client changes levels; afterwards everything is in sync."""
    chance = Random(seed)
    sim = SimulatedCluster(world(plan(metadata_version=25), seed), chance.choice(ACCESSES))
    wanted = replace(WANTED, on_drift=OnDrift.CORRECT, policy=ApprovalPolicy.NEVER)
    store = Store(wanted)
    for _ in range(chance.randrange(1, 6)):
        with contextlib.suppress(Crash, AssertionError):
            await live(Mortal(sim, chance.randrange(0, 30)), store, sim, most=8)
        accident(sim, chance)
        assert len(json.dumps(store.status)) < 32 * 1024
    for role in (Role.CONTROLLER, Role.BROKER):
        for one in sim.world.of_role(role):
            if not one.running:
                sim.world.start(role, one.id)
    await sim.sleep(20)
    last = await live(sim, store, sim)
    assert isinstance(last.decision, Done), last
    assert {**sim.world.image.features, **wanted.levels} == dict(sim.world.image.features)


def accident(sim: SimulatedCluster, chance: Random) -> None:
    """Kill the leader, stop a broker, or start the controllers or brokers that do not run; then let time pass."""
    running = [one for one in sim.world.of_role(Role.CONTROLLER) if one.running]
    match chance.randrange(4):
        case 0 if sim.world.active is not None and len(running) > 2:
            sim.world.stop(Role.CONTROLLER, sim.world.active, kill=True)
        case 1:
            sim.world.stop(Role.BROKER, chance.choice((1, 2, 3)), kill=chance.random() < 0.5)
        case 2:
            for one in sim.world.of_role(Role.CONTROLLER):
                if not one.running:
                    sim.world.start(Role.CONTROLLER, one.id)
        case _:
            for one in sim.world.of_role(Role.BROKER):
                if not one.running:
                    sim.world.start(Role.BROKER, one.id)
    sim.world.advance(sim.world.now_ms + chance.randrange(1, 15_000))


# --- through a broker ---

RAISE = UpdateFeature("metadata.version", 25, 27)


async def via(sim: SimulatedCluster) -> Via:
    async with sim.prepared(RAISE) as request:
        assert not isinstance(request, NotSent)
        return request.via


async def through_a_broker(kraft_version: int = 0) -> SimulatedCluster:
    sim = SimulatedCluster(world(plan(metadata_version=25, kraft_version=kraft_version)), CUT_OFF)
    await sim.read()
    assert await via(sim) is Via.BROKER
    return sim


def level(sim: SimulatedCluster) -> int:
    return sim.world.image.features["metadata.version"]


async def test_a_change_goes_through_a_broker_where_no_controller_can_be_reached() -> None:
    sim = await through_a_broker()
    assert isinstance(await sim.validate([RAISE]), DryRunAccepted)
    assert level(sim) == 25
    assert isinstance(await sim.update(RAISE), Applied)
    assert level(sim) == 27


async def test_a_dry_run_asks_three_brokers_as_in_production_however_many_listen() -> None:
    for dead, found in ((2, DryRunAccepted), (3, DryRunUnavailable)):  # of five brokers, three are on the route
        sim = SimulatedCluster(world(plan(dict.fromkeys(range(1, 6), "4.2"), metadata_version=25)), CUT_OFF)
        for broker in route_to_controller((await sim.read()).probe).brokers[:dead]:
            assert broker.id is not None
            sim.world.stop(Role.BROKER, broker.id, kill=True)
        assert isinstance(await sim.validate([RAISE]), found)


@pytest.mark.parametrize("kraft_version", [0, 1])
async def test_while_no_controller_can_be_read_a_level_is_changed_only_if_the_quorum_is_static(
    kraft_version: int,
) -> None:
    """A controller of a static quorum checks each voter itself, so the dry run through a broker is enough."""
    sim, store = await through_a_broker(kraft_version), Store(WANTED)
    before = written(sim)
    context = context_of(sim, store, sim)
    for _ in range(8):
        last = await reconcile(context, await store.read())
        assert kraft_version == 0 or isinstance(last.decision, Wait)
    assert (written(sim) == before) is (kraft_version == 1)
    assert level(sim) == (25 if kraft_version else WANTED.levels["metadata.version"])


async def test_without_a_readable_controller_no_level_is_changed_if_a_voter_never_registered() -> None:
    sim, store = SimulatedCluster(world(plan(metadata_version=14))), Store(DesiredState({"metadata.version": 20}))
    sim.world.stop(Role.CONTROLLER, 3003, kill=True)
    await sim.read()
    assert isinstance(await sim.update(UpdateFeature("metadata.version", 14, 15)), Applied)
    sim.reach(CUT_OFF)
    context = context_of(sim, store, sim)
    for _ in range(8):
        last = await reconcile(context, await store.read())
        assert not isinstance(last.decision, Done)
    assert level(sim) == 15


async def test_a_broker_forwards_a_request_to_the_newly_elected_leader() -> None:
    sim = await through_a_broker()
    sim.world.stop(Role.CONTROLLER, 3001, kill=True)
    assert isinstance(await sim.update(RAISE), Applied)


async def test_a_request_kept_by_a_broker_is_carried_out_after_its_sender_timed_out() -> None:
    sim = await through_a_broker()
    for one in (3001, 3002):
        sim.world.stop(Role.CONTROLLER, one, kill=True)
    assert isinstance(await sim.update(RAISE), OutcomeUnknown)
    await sim.sleep(60)  # longer than the time-out of the request
    assert level(sim) == 25
    sim.world.start(Role.CONTROLLER, 3002)
    await sim.sleep(5)
    assert level(sim) == 27


async def test_a_request_that_a_broker_holds_is_lost_with_the_broker() -> None:
    sim = await through_a_broker()
    for one in (3001, 3002):
        sim.world.stop(Role.CONTROLLER, one, kill=True)
    await sim.update(RAISE)
    for one in (1, 2, 3):
        sim.world.stop(Role.BROKER, one, kill=True)
    sim.world.start(Role.CONTROLLER, 3002)
    await sim.sleep(5)
    assert level(sim) == 25


async def test_the_outcome_is_unknown_where_the_leader_resigned_after_the_reading() -> None:
    sim = SimulatedCluster(world(plan(metadata_version=25)))
    await sim.read()
    assert await via(sim) is Via.CONTROLLER
    for one in (3002, 3003):
        sim.world.stop(Role.CONTROLLER, one, kill=True)
    assert isinstance(await sim.update(RAISE), OutcomeUnknown)
    assert isinstance(await sim.validate([RAISE]), DryRunUnavailable)
    await sim.read()
    assert isinstance(await sim.update(RAISE), NotSent)


async def test_the_second_reading_reads_the_log_to_its_end_and_probes_no_node() -> None:
    made = replace(plan(metadata_version=25), topics=(TopicPlan("orders", ((1, 2, 3),), 2),))
    sim = SimulatedCluster(world(made))
    first = await sim.read(partitions=True)
    sim.world.stop(Role.BROKER, 2)
    sim.world.advance(sim.world.now_ms + 15_000)
    second = await sim.look_again()
    assert isinstance(first.log, LogReading)
    assert isinstance(second.log, LogReading)
    assert [first.log.image.brokers[2].fenced, second.log.image.brokers[2].fenced] == [False, True]
    assert second.probe.nodes == first.probe.nodes
    assert isinstance(second.partitions, PartitionsReading)
    assert second.partitions.offset == second.log.image.offset
    assert first.probe.quorum != second.probe.quorum
