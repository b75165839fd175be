"""What real nodes were asked is asked of a simulated cluster of the same shape, byte for byte; the answers are compared
as decoded messages, without what depends on addresses, offsets and time.
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

from kafkafeatures.core.survey import Role
from kafkasim.control import perform
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
        by_id = all(isinstance(item, dict) and "replica_id" in item for item in items)
        return sorted(items, key=lambda item: item["replica_id"]) if by_id else items
    return value // timedelta(milliseconds=1) if isinstance(value, timedelta) else value


def api_of(request: bytes) -> tuple[int, int]:
    return int.from_bytes(request[4:6], "big"), int.from_bytes(request[6:8], "big")


async def compare(face: Any, line: dict[str, Any], role: Role, node: int) -> None:
    request = bytes.fromhex(line["req_hex"])
    told = f"{line.get('case')} {line.get('what', '')} at {node}"
    if line.get("error", "").startswith("EOF"):
        with pytest.raises(EOFError):
            await exchange(face, role, node, request)
        return
    answer = await exchange(face, role, node, request)
    real = bytes.fromhex(line["resp_hex"])
    api_key, version = api_of(request)
    if (api_key, version) == (18, 9):
        assert answer == real, told
        return
    assert decoded(answer, api_key, version) == decoded(real, api_key, version), told


def role_of(node: int) -> Role:
    return Role.CONTROLLER if node > 3000 else Role.BROKER


LEVELS_OF_420 = {
    "controllers": {3001: "4.2", 3002: "4.2", 3003: "4.1"},
    "leader": 3002,
}


async def test_a_4_2_cluster_answers_as_the_recorded_one_did() -> None:
    lines = transcript("update_features_4.2.0")
    brokers = {1: "4.2", 2: "4.2", 3: "4.2", 4: "4.1"}
    async with served(plan(brokers, **LEVELS_OF_420)) as face:
        await perform(face, "stop broker 4")
        await face.act(lambda world: world.unregister_broker(world.active_node, 4))
        for line in lines[:127]:
            case = line.get("case")
            if case == "describe_cluster v2 fenced ghost":
                await perform(face, "stop broker 4")
            if case == "old broker alive":
                await perform(face, "upgrade controller 3003 4.2")
                await perform(face, "start broker 4")
            if "req_hex" not in line:
                continue
            node = line["node"]
            await compare(face, line, role_of(node), node)
        assert face.world.image.kraft_version == 1
