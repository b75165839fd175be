"""What Kafka takes back, as recorded of real nodes, against our `undo` and against the simulator."""

from __future__ import annotations

import struct

import pytest

from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.releases import Undo, floor_of
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkasim.releases import release_named
from tests.conformance.cases import UPGRADE, WORLDS, World, request_of
from tests.conformance.downgrades import KRAFT, LOWEST_LEVEL, METADATA, Row, in_order, recorded
from tests.conformance.test_conformance import errors_in
from tests.kafkasim.clusters import exchange, plan, served

EVERY = pytest.mark.parametrize("world", WORLDS.values(), ids=lambda world: world.version)
RAISES_NOTHING = {"3.9"}
"""Releases in which kraft.version is a record that changes nothing; our preflight refuses to write it."""


@EVERY
def test_every_downgrade_from_every_level_was_recorded(world: World) -> None:
    supported = release_named(world.release).features
    wanted = [(feature, level, lower) for feature, level, below in in_order(supported) for lower in below]
    assert [(row.feature, row.finalized, row.level) for row in recorded(world)] == wanted
    assert len(wanted) > 100


@EVERY
def test_the_undo_of_a_raise_is_impossible_exactly_where_kafka_refuses_the_downgrade(world: World) -> None:
    """For every raise, also over many levels, undoing it is called impossible where Kafka refuses, and only there."""
    for row in recorded(world):
        undo = UpdateFeature(row.feature, row.level, row.finalized).undo
        if row.feature == KRAFT and world.release in RAISES_NOTHING:
            assert (undo, row.allowed(world)) == (Undo.IMPOSSIBLE, True)
        else:
            assert (undo is not Undo.IMPOSSIBLE) == row.allowed(world), (row, undo)
        assert undo is not Undo.SAFE or row.feature == METADATA, "only metadata.version has lossless downgrades"


@EVERY
def test_metadata_version_can_be_downgraded_to_its_floor_and_no_further(world: World) -> None:
    rows = [row for row in recorded(world) if row.feature == METADATA]
    for level in {row.finalized for row in rows}:
        allowed = [row.level for row in rows if row.finalized == level and row.allowed(world)]
        assert min(allowed, default=level) == floor_of(level)


@EVERY
async def test_the_simulator_accepts_the_downgrades_that_the_real_node_accepted(world: World) -> None:
    controllers = {3001: world.release}
    async with served(plan({1: world.release}, controllers, metadata_version=LOWEST_LEVEL)) as server:

        async def ask(request: bytes) -> bytes:
            return (await exchange(server, Role.CONTROLLER, 3001, struct.pack(">i", len(request)) + request))[4:]

        before: Row | None = None
        for row in recorded(world):
            if before is None or (before.feature, before.finalized) != (row.feature, row.finalized):
                up = ((row.feature, row.finalized, UPGRADE),)
                errors = errors_in(world, await ask(request_of(world, up, validate_only=False)))
                assert {code for code, _ in errors.values()} == {0}, (row, errors)
            before = row
            reply = await ask(request_of(world, row.updates))
            assert reply == row.reply, (row, errors_in(world, reply), errors_in(world, row.reply))
