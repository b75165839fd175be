"""Control requests: parses lines of text, and applies them to the world of a server.

Called by `__main__` with lines from standard input. It decides when a request is complete. An invalid line raises
`RefusedError` and changes nothing.
"""

from __future__ import annotations

from kafkafeatures.core.facts.readings import Role
from kafkasim.node import Node
from kafkasim.releases import Release, release_named
from kafkasim.rules import FeatureUpdate, UpgradeType
from kafkasim.wire.server import SimulatorServer
from kafkasim.world import World

FORMS = {
    "upgrade ROLE ID RELEASE": "stop a node, and start it with this Kafka: upgrade broker 2 4.2",
    "start ROLE ID [RELEASE]": "start a node that is stopped: start controller 3001",
    "stop|kill ROLE ID": "an orderly end; kill ends it at once",
    "set FEATURE LEVEL": "change a level from outside: set metadata.version 27",
    "snapshot": "write a checkpoint of the metadata log",
}
"""Explanation of each form of a request."""
_ROLES = {"broker": Role.BROKER, "controller": Role.CONTROLLER}
ROLES = f"ROLE is {' or '.join(_ROLES)}"


class RefusedError(ValueError):
    """A request that cannot be carried out; the text is for people."""


async def perform(server: SimulatorServer, request: str) -> None:
    """Carry out a request, and return when clients can see its effect. Raises RefusedError."""
    match request.split():
        case ["snapshot"]:
            await server.act(lambda world: world.take_snapshot())
        case ["set", feature, level] if level.isdecimal():
            await server.act(lambda world: _set(world, feature, int(level)))
            await server.until(lambda world: world.log.high_watermark == world.log.end_offset)
        case ["stop" | "kill" as how, role, node_id]:
            node = _node(server.world, role, node_id)
            await server.act(lambda world: world.stop(node.role, node.id, kill=how == "kill"))
            await server.until(lambda world: world.active is None or world.log.high_watermark == world.log.end_offset)
        case ["start", role, node_id]:
            await _start(server, _node(server.world, role, node_id), None)
        case ["start", role, node_id, release]:
            await _start(server, _node(server.world, role, node_id), _release(release))
        case ["upgrade", role, node_id, release]:
            node, target = _node(server.world, role, node_id), _release(release)
            await server.act(lambda world: world.upgrade(node.role, node.id, target))
            await _wait_until_back(server, node)
        case _:
            raise RefusedError(f"invalid request {request!r}: expected {', '.join(FORMS)}; {ROLES}")


def _set(world: World, feature: str, level: int) -> None:
    """Change a level from outside, as a person with `kafka-features.sh` would."""
    active = world.active_node
    if active is None:
        raise RefusedError("no controller is active")
    is_lower = level < world.image.features.get(feature, 0)
    update = FeatureUpdate(feature, level, UpgradeType.SAFE_DOWNGRADE if is_lower else UpgradeType.UPGRADE)
    verdict = world.update_features(active, [update], validate_only=False).verdict
    codes = [
        (verdict.error_code, verdict.error_message),
        *((result.error_code, result.error_message) for result in verdict.results),
    ]
    if failed := [message for code, message in codes if code]:
        raise RefusedError(str(failed[0]))


async def _start(server: SimulatorServer, node: Node, release: Release | None) -> None:
    """Start a node that is stopped, and wait until it is back. `release`: None: that of its last process."""
    if node.running:
        raise RefusedError(f"{node.role.value.lower()} {node.id} is already running")
    await server.act(lambda world: world.start(node.role, node.id, release))
    await _wait_until_back(server, node)


async def _wait_until_back(server: SimulatorServer, node: Node) -> None:
    """Wait until a node is back: a broker registered and unfenced (or refused), a controller running while one
    leads.
    """

    def is_back(world: World) -> bool:
        if not node.running or world.active is None:
            return False
        if node.role is Role.CONTROLLER or node.refused:
            return True
        registration = world.image.brokers.get(node.id)
        return registration is not None and registration.incarnation == node.incarnation and not registration.fenced

    await server.until(is_back)
    if node.refused:
        raise RefusedError(
            f"broker {node.id} runs, but its registration is refused: a finalized level is out of its range"
        )


def _node(world: World, role: str, node_id: str) -> Node:
    node = world.nodes.get((_ROLES[role], int(node_id))) if role in _ROLES and node_id.isdecimal() else None
    if node is None:
        raise RefusedError(f"{role} {node_id} does not exist")
    return node


def _release(name: str) -> Release:
    try:
        return release_named(name)
    except ValueError as error:
        raise RefusedError(str(error)) from None
