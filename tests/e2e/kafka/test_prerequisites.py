"""Settings without which a finalized level has no effect: a plan warns about them, and real brokers refuse requests."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.consumer_group_heartbeat.v0.request import ConsumerGroupHeartbeatRequest
from kio.schema.consumer_group_heartbeat.v0.response import ConsumerGroupHeartbeatResponse
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import FindCoordinatorResponse
from kio.schema.types import GroupId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i8, i32, i32Timedelta

from kafkafeatures.core.levels.prerequisites import PROTOCOLS, STATE_TOPIC, STATE_TOPIC_FACTOR, STATE_TOPIC_MIN_ISR
from tests.conformance.cases import UPGRADE, WORLDS
from tests.conformance.record import finalize
from tests.e2e.kafka.cli import run, write_document
from tests.e2e.rig.asking import asked
from tests.e2e.rig.cluster import Cluster, Node
from tests.e2e.rig.held import admin
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import NEWEST

COORDINATOR_NOT_AVAILABLE, UNSUPPORTED_VERSION = 15, 35
SHARE = 2  # FindCoordinatorRequest.CoordinatorType
WORLD = next(world for world in WORLDS.values() if world.version == NEWEST)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A single broker with Kafka's defaults for share groups, which offers only the classic protocol."""
    cluster = Cluster(tmp_path_factory.mktemp("alone"), NEWEST, controllers=1, brokers=1, release_version="3.9")
    cluster.nodes[1].extra[PROTOCOLS] = "classic"
    with cluster:
        yield cluster


def answer(node: Node, request: Any, response: Any) -> Any:
    body = BytesIO()
    header = request.__header_schema__(
        request_api_key=request.__api_key__, request_api_version=request.__version__, correlation_id=7, client_id="t"
    )
    entity_writer(type(header))(body, header)
    entity_writer(type(request))(body, request)
    reply = asked(node.port, body.getvalue())
    _, begin = entity_reader(response.__header_schema__)(reply, 0)
    return entity_reader(response)(reply, begin)[0]


def share_coordinator(broker: Node) -> int:
    """The error code of the request for the coordinator of a share group's state."""
    key = f"group:{base64.urlsafe_b64encode(UUID(int=99).bytes).decode().rstrip('=')}:0"
    request = FindCoordinatorRequest(key_type=i8(SHARE), coordinator_keys=(key,))
    (coordinator,) = answer(broker, request, FindCoordinatorResponse).coordinators
    return int(coordinator.error_code)


def has_state_topic(cluster: Cluster) -> bool:
    with admin(cluster) as client:
        return STATE_TOPIC in client.list_topics()


def consumer_joins(broker: Node) -> int:
    """The error code of a request to join a consumer group with the new protocol."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=GroupId("group"), member_id="m", member_epoch=i32(0), instance_id=None, rack_id=None,
        rebalance_timeout=i32Timedelta.parse(timedelta(seconds=1)), subscribed_topic_names=(TopicName("orders"),),
        server_assignor=None, topic_partitions=(),
    )  # fmt: skip
    return int(answer(broker, request, ConsumerGroupHeartbeatResponse).error_code)


def warnings(cluster: Cluster, folder: Path, **wanted: int) -> dict[str, list[str]]:
    """The warnings of `plan`, by feature."""
    levels = {name.replace("_", "."): level for name, level in wanted.items()}
    path = write_document(folder / "levels.yaml", levels, bootstrapServers=cluster.bootstrap_servers)
    done = run("plan", "-f", str(path), "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    steps = json.loads(done.stdout)["steps"]
    return {
        step["detail"].split()[0]: [line for line in step["effects"] if line.startswith("warning: ")] for step in steps
    }


def test_a_plan_warns_of_a_missing_prerequisite_that_the_broker_refuses_after_the_raise(
    alone: Cluster, tmp_path: Path
) -> None:
    before = warnings(alone, tmp_path, share_version=1, group_version=1, streams_version=1)
    (share,), (group,), (streams,) = (before[name] for name in ("share.version", "group.version", "streams.version"))
    assert share.startswith(f"warning: on broker 1, {STATE_TOPIC_FACTOR} is 3, but 1 broker is registered: ")
    assert group.startswith(f"warning: on broker 1, {PROTOCOLS} is classic: members that use group.protocol=consumer")
    assert "group.protocol=streams" in streams
    done = run("check", "--release", "4.4", "--bootstrap-server", alone.bootstrap_servers, "-o", "json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["verdict"]) == (0, "Ready")
    assert {share, group, streams} == set(found["warnings"])
    for feature in ("share.version", "group.version"):
        finalize(alone.nodes[3001], WORLD, feature, 1, UPGRADE)
    broker = alone.nodes[1]
    assert consumer_joins(broker) == UNSUPPORTED_VERSION
    for _ in range(3):
        assert share_coordinator(broker) == COORDINATOR_NOT_AVAILABLE
    assert not has_state_topic(alone)

    broker.stop()
    broker.extra.update({PROTOCOLS: "classic,consumer", STATE_TOPIC_FACTOR: "1", STATE_TOPIC_MIN_ISR: "1"})
    broker.start()
    wait_until("a coordinator is found", lambda: share_coordinator(broker) == 0)
    assert has_state_topic(alone)
    assert (
        consumer_joins(broker) != UNSUPPORTED_VERSION
    )  # it is allowed now, though the coordinator may not be known yet
