"""Requests to real nodes are sent to a simulated cluster of the same shape, byte for byte. The recorded answers and the
simulated ones are compared as decoded messages, without what depends on addresses, offsets and time.
"""

import dataclasses
import gzip
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_response_schema
from kio.serial import entity_reader

from kafkafeatures.core.facts.readings import Role
from kafkasim.control import RefusedError, perform
from kafkasim.world import World
from tests.kafkasim.clusters import exchange, plan, served

TRANSCRIPTS = Path(__file__).parents[1] / "golden" / "transcripts"
# Depends on ports, on chance, on the clock or on how long the cluster has lived.
VARIES = {
    "port", "controller_id", "high_watermark", "log_end_offset", "last_fetch_timestamp", "last_caught_up_timestamp",
    "replica_directory_id", "finalized_features_epoch", "correlation_id", "leader_epoch",
}  # fmt: skip


def transcript(name: str) -> list[dict[str, Any]]:
    with gzip.open(TRANSCRIPTS / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def decoded(frame: bytes, api_key: int, version: int) -> Any:
    schema: Any = load_response_schema(api_key, version)
    _, size = entity_reader(schema.__header_schema__)(frame, 4)
    return plain(entity_reader(schema)(frame, 4 + size)[0])


def plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.name not in VARIES}
        return {name: each for name, each in fields.items() if name != "records"}
    if isinstance(value, tuple):
        items = [plain(item) for item in value]
        return sorted(items, key=order_of) if items and isinstance(items[0], dict) else items
    return value // timedelta(milliseconds=1) if isinstance(value, timedelta) else value


def order_of(item: dict[str, Any]) -> Any:
    """Observers come in the order of a hash map, finalized features too; other lists keep theirs."""
    if "max_version_level" in item and "name" in item:
        return item["name"]
    return item.get("replica_id", 0)


def api_of(request: bytes) -> tuple[int, int]:
    return int.from_bytes(request[4:6], "big"), int.from_bytes(request[6:8], "big")


async def compare(server: Any, line: dict[str, Any], role: Role, node: int) -> None:
    request = bytes.fromhex(line["req_hex"])
    label = f"{line.get('case')} {line.get('what', '')} at {node}"
    if line.get("error", "").startswith("EOF"):
        with pytest.raises(EOFError):
            await exchange(server, role, node, request)
        return
    answer = await exchange(server, role, node, request)
    real = bytes.fromhex(line["resp_hex"])
    api_key, version = api_of(request)
    if (api_key, version) == (18, 9):
        assert answer == real, label
        return
    assert decoded(answer, api_key, version) == decoded(real, api_key, version), label


def leader_of(world: World) -> int:
    assert world.active is not None
    return world.active


def start_all(world: World) -> None:
    for voter in world.voters:
        world.start(Role.CONTROLLER, voter)


def role_of(node: int) -> Role:
    return Role.CONTROLLER if node > 3000 else Role.BROKER


SHAPE_OF_420 = plan({1: "4.2", 2: "4.2", 3: "4.2", 4: "4.1"}, {3001: "4.2", 3002: "4.2", 3003: "4.1"}, leader=3002)


async def test_a_simulated_4_2_cluster_answers_as_a_recorded_real_cluster() -> None:
    lines = transcript("update_features_4.2.0")
    compared = 0
    async with served(SHAPE_OF_420) as server:
        await perform(server, "stop broker 4")
        await server.act(lambda world: world.unregister_broker(world.nodes[Role.CONTROLLER, leader_of(world)], 4))
        for line in lines[:140]:  # in the lines behind these, processes were killed or connections closed
            case = line.get("case")
            if case == "describe_cluster v2 fenced ghost":
                await perform(server, "stop broker 4")
            if case == "old broker alive":
                await perform(server, "upgrade controller 3003 4.2")
                await perform(server, "start broker 4")
            if case == "describe_quorum after kraft.version 1":  # the old broker was started, and could not register
                with pytest.raises(RefusedError, match="broker 4 runs, but its registration is refused"):
                    await perform(server, "start broker 4")
            await compare(server, line, role_of(line["node"]), line["node"])
            compared += 1
        assert compared == 140
        assert server.world.image.kraft_version == 1


ASKED_AT_CONTROLLER = {*range(8, 16), 33}  # lines of the transcript


async def test_a_simulated_3_9_node_answers_as_a_recorded_real_node() -> None:
    lines = transcript("update_features_3.9.1_kraft")
    async with served(plan({1: "3.9"}, {1: "3.9"}, metadata_version=19)) as server:
        for index, line in enumerate(lines):
            await compare(server, line, Role.CONTROLLER if index in ASKED_AT_CONTROLLER else Role.BROKER, 1)
        assert server.world.image.feature_record_kraft_version is None


FETCHES = {1: 3003, 2: 3003, 3: 3003, 4: 3001, 5: 1}  # line -> node: epoch -1 twice, an old epoch, a standby, a broker


async def test_a_fetch_that_cannot_be_served_gets_the_recorded_error() -> None:
    lines = transcript("fetch_metadata")
    made = plan({1: "3.9"}, {3001: "3.9", 3002: "3.9", 3003: "3.9"}, leader=3003)
    async with served(made) as server:
        for _ in range(2):  # the recorded quorum was in epoch 3
            await server.act(lambda world: world.stop(Role.CONTROLLER, leader_of(world)))
            await server.until(lambda world: world.active is not None)
            await server.act(start_all)
        assert server.world.epoch == 3
        active = leader_of(server.world)
        nodes = {3003: active, 3001: next(v for v in server.world.voters if v != active), 1: 1}
        for index, node in FETCHES.items():
            request = bytes.fromhex(lines[index]["req_hex"])
            answer = decoded(await exchange(server, role_of(nodes[node]), nodes[node], request), 1, 17)
            real = decoded(bytes.fromhex(lines[index]["resp_hex"]), 1, 17)
            for each in (answer, real):
                for endpoint in each["node_endpoints"]:
                    endpoint.pop("node_id")
                each["responses"][0]["partitions"][0]["current_leader"].pop("leader_id")
            assert answer == real
