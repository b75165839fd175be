"""What real nodes of four releases answered, against the simulator (by wire, in-process) and our own preflight."""

from __future__ import annotations

import struct

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.steps import DryRunAccepted
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.releases import bundle
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.kafka.wire.codec import decode_response
from kafkasim.plan import Plan
from kafkasim.releases import release_named
from kafkasim.rules import FeatureUpdate, UpgradeType
from tests.conformance.cases import SAFE, UPGRADE, WORLDS, Updates, World, cases, recorded, request_of
from tests.kafkafeatures.deciding import decide
from tests.kafkafeatures.worlds import answer, node, observation, telling
from tests.kafkasim.clusters import exchange, plan, served, settle
from tests.kafkasim.clusters import world as simulated

EVERY = pytest.mark.parametrize("world", WORLDS.values(), ids=lambda world: world.version)


def planned(world: World) -> Plan:
    return replace(plan({1: world.release}, {3001: world.release}), levels=bundle(world.format) or {})


def errors_in(world: World, reply: bytes) -> dict[str, tuple[int, str]]:
    """The error code and message of each feature; under an empty name, those of the whole response.

    Nodes of 4.0 and newer answer only for the whole response.
    """
    message = decode_response(57, world.request, reply)[1]
    errors = {"": (message.error_code, message.error_message or "")}
    errors |= {feature: (code, text or "") for feature, (code, text) in message.results.items()}
    return errors


def test_there_are_more_than_a_hundred_cases_for_each_release() -> None:
    for world in WORLDS.values():
        assert set(recorded(world)) == set(cases(world))
        assert len(recorded(world)) > 100


@EVERY
async def test_the_simulator_answers_on_the_wire_as_the_real_node_did(world: World) -> None:
    async with served(planned(world)) as server:
        for updates, real in recorded(world).items():
            request = request_of(world, updates)
            frame = await exchange(server, Role.CONTROLLER, 3001, struct.pack(">i", len(request)) + request)
            assert frame[4:] == real, (updates, errors_in(world, frame[4:]), errors_in(world, real))


@EVERY
def test_the_simulated_world_judges_as_the_real_node_did(world: World) -> None:
    made = settle(simulated(planned(world)))
    active = made.active_node
    assert active is not None
    for updates, real in recorded(world).items():
        requested = [FeatureUpdate(feature, level, UpgradeType.of(kind)) for feature, level, kind in updates]
        verdict = made.update_features(active, requested, validate_only=True).verdict
        errors = {"": (verdict.error_code, verdict.error_message or "")}
        if world.request < 2:
            errors |= {result.feature: (result.error_code, result.error_message or "") for result in verdict.results}
        expected = errors_in(world, real)
        assert {name: code for name, (code, _) in errors.items()} == {
            name: code for name, (code, _) in expected.items()
        }
        assert {text for _, text in errors.values() if text} == {text for _, text in expected.values() if text}


def is_sent_by_us(world: World, updates: Updates) -> bool:
    """True if the operator could send these updates: a raise as an upgrade, a downgrade as a safe one, and no level
    that the cluster already has.
    """
    levels = bundle(world.format) or {}
    moves = [(level - levels.get(feature, 0), kind) for feature, level, kind in updates]
    return all((by > 0 and kind == UPGRADE) or (by < 0 and kind == SAFE) for by, kind in moves)


@EVERY
def test_the_preflight_allows_exactly_the_changes_that_kafka_accepts(world: World) -> None:
    """Every consent is given, so the preflight can refuse only for reasons that Kafka itself has."""
    levels = bundle(world.format) or {}
    ranges = {name: (r.min, r.max) for name, r in release_named(world.release).features.items()}
    nodes = [node(i, said=answer(ranges, levels), written=ranges) for i in (3001, 1)]
    seen = observation(*(telling(each, min__insync__replicas="1") for each in nodes), levels=levels)
    judged = 0
    for updates, real in recorded(world).items():
        if not is_sent_by_us(world, updates):
            continue
        wanted = {feature: level for feature, level, _ in updates}
        consents = {UpdateFeature(f, levels.get(f, 0), v).consent for f, v in wanted.items()} - {""}
        decision = decide(DesiredState(wanted, consents=frozenset(consents)), seen, verdict=DryRunAccepted())
        accepted = all(code == 0 for code, _ in errors_in(world, real).values())
        assert isinstance(decision, Act) == accepted, (updates, decision, errors_in(world, real))
        judged += 1
    assert judged > 15
