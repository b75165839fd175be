"""What changing requests did to real clusters of four releases, over the wire and in-process."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import pytest

from kafkafeatures.core.engine.steps import Applied, Rejected
from kafkafeatures.core.facts.observation import Known
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.kafka.wire.codec import decode_response
from kafkasim.plan import Plan
from kafkasim.ports import SimulatedCluster
from kafkasim.rules import FeatureUpdate, UpgradeType
from kafkasim.wire.server import SimulatorServer
from tests.conformance.cases import SAFE, UPGRADE, WORLDS, World
from tests.conformance.changes import ACTIVE, BROKER, FORMAT, STANDBY, WHICH_LEVELS, Row, levels_in, node_of, steps
from tests.conformance.changes import recorded as recorded_of
from tests.kafkasim.clusters import exchange, plan, served, settle
from tests.kafkasim.clusters import world as simulated

EVERY = pytest.mark.parametrize("world", WORLDS.values(), ids=lambda world: world.version)
NOT_CONTROLLER = 41


def planned(world: World, leader: int) -> Plan:
    controllers = dict.fromkeys((3001, 3002, 3003), world.release)
    return plan({1: world.release}, controllers, metadata_version=FORMAT[world.version][1], leader=leader)


def receiver_of(row: Row) -> tuple[Role, int]:
    """The node that the request of this row was sent to."""
    return (Role.BROKER if row.step.to == BROKER else Role.CONTROLLER), node_of(row.step, row.leader)


def errors_of(row: Row) -> tuple[tuple[int, str | None], Mapping[str, tuple[int, str | None]]]:
    """The error code and message of the whole response, and those of each feature."""
    message = decode_response(57, row.step.version, row.reply)[1]
    return (message.error_code, message.error_message), message.results


@EVERY
def test_the_recording_has_all_steps_and_all_kinds_of_receivers(world: World) -> None:
    rows = recorded_of(world)
    assert [row.step for row in rows] == list(steps(world))
    assert {row.step.to for row in rows} == {ACTIVE, STANDBY, BROKER}
    assert sum(row.step.to == ACTIVE for row in rows) > 20
    assert all(errors_of(row)[0][0] == NOT_CONTROLLER for row in rows if row.step.to == STANDBY)


@EVERY
async def test_the_simulator_changes_on_the_wire_as_the_real_cluster_did(world: World) -> None:
    rows = recorded_of(world)
    async with served(planned(world, rows[0].leader)) as server:
        before = (await levels_and_epoch(server, Role.CONTROLLER, rows[0].leader))[1]
        for row in rows:
            reply = await reply_to(server, *receiver_of(row), row.step.request)
            assert reply == row.reply, (row.step, decode_response(57, row.step.version, reply), errors_of(row))
            levels, epoch = await levels_and_epoch(server, Role.CONTROLLER, row.leader)
            assert (levels, epoch > before) == (row.levels, row.moved), row.step
            assert (await levels_and_epoch(server, Role.BROKER, 1))[0] == row.levels, row.step
            before = epoch


async def reply_to(server: SimulatorServer, role: Role, node: int, request: bytes) -> bytes:
    return (await exchange(server, role, node, struct.pack(">i", len(request)) + request))[4:]


async def levels_and_epoch(server: SimulatorServer, role: Role, node: int) -> tuple[Mapping[str, int], int]:
    return levels_in(await reply_to(server, role, node, WHICH_LEVELS))


@EVERY
def test_the_simulated_world_changes_as_the_real_cluster_did(world: World) -> None:
    rows = recorded_of(world)
    made = settle(simulated(planned(world, rows[0].leader)))
    for row in rows:
        updates = [FeatureUpdate(feature, level, UpgradeType.of(kind)) for feature, level, kind in row.step.updates]
        verdict = made.update_features(made.nodes[receiver_of(row)], updates, validate_only=False).verdict
        settle(made)
        results = {result.feature: (result.error_code, result.error_message) for result in verdict.results}
        expected, each = errors_of(row)
        assert (verdict.error_code, verdict.error_message) == expected, row.step
        # From version 2 on, a response has no error of a single feature.
        assert row.step.version > 1 or results == each, row.step
        assert all(made.finalized(node)[0] == row.levels for node in made.nodes.values()), row.step


@EVERY
async def test_the_ports_report_a_change_and_show_its_levels_as_the_real_cluster_did(world: World) -> None:
    """A change that a reconciliation can send goes through the port; every other change is made in the simulated
    world directly.
    """
    rows = recorded_of(world)
    made = simulated(planned(world, rows[0].leader))
    cluster = SimulatedCluster(made)
    sent_through_the_port = 0
    for row in rows:
        levels = known((observe(*await cluster.read())).finalized)
        change = change_of(row, levels)
        if change is None:
            updates = [FeatureUpdate(feature, level, UpgradeType.of(kind)) for feature, level, kind in row.step.updates]
            made.update_features(made.nodes[receiver_of(row)], updates, validate_only=False)
        else:
            expected, each = errors_of(row)
            refused = [Rejected(code, text or "") for code, text in (expected, *each.values()) if code]
            assert await cluster.update(change) == (refused[0] if refused else Applied()), row.step
            sent_through_the_port += 1
        seen = observe(*await cluster.read())
        assert known(seen.finalized) == row.levels, row.step
        assert all(known(node.answer).finalized == row.levels for node in seen.nodes), row.step
    assert sent_through_the_port > 10


def change_of(row: Row, levels: Mapping[str, int]) -> UpdateFeature | None:
    """The change that a reconciliation would send as the request of this row; None if it would send no such request.

    It changes one feature at a time, never sends to a standby controller, and lowers a level only by a safe downgrade.
    """
    if row.step.to == STANDBY or len(row.step.updates) != 1:
        return None
    ((feature, level, kind),) = row.step.updates
    before = levels.get(feature, 0)
    return UpdateFeature(feature, before, level) if kind == (SAFE if level < before else UPGRADE) else None


def known(fact: Any) -> Any:
    assert isinstance(fact, Known)
    return fact.value
