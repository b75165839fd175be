"""The wire server: the log as Fetch serves it, waiting and forwarded requests, and ports that close."""

import asyncio
import contextlib
import io
import socket
import struct
import uuid
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest
from kio.index import load_payload_module, load_response_schema
from kio.schema.request_header.v2.header import RequestHeader
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.kafka.base.errors import ErrorCode
from kafkasim.control import RefusedError, perform
from kafkasim.plan import Timing
from kafkasim.wire.server import SimulatorServer
from kraftlog import Replay
from tests.kafkasim.clusters import batches, exchange, plan, served

BROKER, CONTROLLER = Role.BROKER, Role.CONTROLLER
LOG = uuid.UUID(int=1)


def kio(api_key: int, version: int) -> ModuleType:
    return load_payload_module(api_key, version, EntityType.request)


async def ask(server: SimulatorServer, role: Role, node: int, version: int, request: Any) -> Any:
    """Send a request of kio to a node. Returns the decoded response."""
    api_key = request.__api_key__
    out = io.BytesIO()
    header = RequestHeader(
        request_api_key=api_key, request_api_version=i16(version), correlation_id=i32(7), client_id="test"
    )
    entity_writer(RequestHeader)(out, header)
    entity_writer(type(request))(out, request)
    frame = struct.pack(">i", len(out.getvalue())) + out.getvalue()
    answer = await exchange(server, role, node, frame)
    schema: Any = load_response_schema(api_key, version)
    _, size = entity_reader(schema.__header_schema__)(answer, 4)
    return entity_reader(schema)(answer, 4 + size)[0]


async def fetch(
    server: SimulatorServer, offset: int, *, last_epoch: int | None = None, wait_ms: int = 0, **more: Any
) -> Any:
    """The only partition in the answer of the active controller; the whole answer if it is an error without any."""
    messages = kio(1, 17)
    world = server.world
    assert world.active is not None
    partition = messages.FetchPartition(
        partition=0,
        current_leader_epoch=more.pop("epoch", world.epoch),
        fetch_offset=offset,
        last_fetched_epoch=world.log.epoch_before(offset) if last_epoch is None else last_epoch,
        partition_max_bytes=more.pop("max_bytes", 1 << 20),
        replica_directory_id=None,
    )
    request = messages.FetchRequest(
        max_wait=timedelta(milliseconds=wait_ms),
        min_bytes=1,
        topics=(messages.FetchTopic(topic_id=LOG, partitions=(partition,)),),
        forgotten_topics_data=(),
        **more,
    )
    answer = await ask(server, CONTROLLER, world.active, 17, request)
    return answer.responses[0].partitions[0] if answer.responses else answer


async def test_fetch_serves_the_log_of_the_world() -> None:
    async with served(plan()) as server:
        received, offset = b"", 0
        while offset < server.world.log.high_watermark:
            part = await fetch(server, offset, max_bytes=500)
            received += part.records
            offset = max(batch.last_offset + 1 for batch in batches(part.records))
        assert received == server.world.log.read(0, max_bytes=1 << 40)[: len(received)]
        replay = Replay()
        replay.append(received, below=offset)
        assert replay.image().brokers == server.world.image.brokers


async def test_a_long_poll_ends_with_an_uncommitted_record_and_the_next_one_with_its_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # So slow that on a busy machine, too, the second request comes before the commit, and that before the next record.
    monkeypatch.setattr("kafkasim.ledger.COMMIT_MS", 800)
    async with served(replace(plan(), timing=Timing(idle=2000))) as server:
        end = server.world.log.end_offset
        first = await fetch(server, end, wait_ms=5000)
        assert [batch.base_offset for batch in batches(first.records)] == [end]
        assert first.high_watermark == end
        second = await fetch(server, end + 1, wait_ms=5000)
        assert (second.high_watermark, second.records) == (end + 1, b"")


async def test_a_fetch_from_offset_0_is_sent_to_the_snapshot_which_arrives_in_parts() -> None:
    async with served(plan()) as server:
        await perform(server, "snapshot")
        snapshot = server.world.log.snapshot
        assert snapshot is not None
        sent = await fetch(server, 0)
        assert (sent.snapshot_id.end_offset, sent.snapshot_id.epoch) == (snapshot.id.offset, snapshot.id.epoch)
        assert sent.records == b""
        data = b""
        while len(data) < len(snapshot.data):
            part = (await fetch_snapshot(server, snapshot.id.offset, len(data))).topics[0].partitions[0]
            assert (part.size, part.position) == (len(snapshot.data), len(data))
            data += part.unaligned_records
        assert data == snapshot.data
        assert int((await fetch_snapshot(server, 1, 0)).error_code) == -1  # there is no snapshot that ends at offset 1


async def fetch_snapshot(server: SimulatorServer, end_offset: int, position: int) -> Any:
    messages = kio(59, 1)
    world = server.world
    assert world.active is not None
    partition = messages.PartitionSnapshot(
        partition=0,
        current_leader_epoch=world.epoch,
        snapshot_id=messages.SnapshotId(end_offset=end_offset, epoch=1),
        position=position,
        replica_directory_id=None,
    )
    topic = messages.TopicSnapshot(name="__cluster_metadata", partitions=(partition,))
    return await ask(server, CONTROLLER, world.active, 1, messages.FetchSnapshotRequest(max_bytes=400, topics=(topic,)))


async def test_a_fetch_beyond_the_end_of_the_log_gets_the_diverging_epoch() -> None:
    async with served(plan()) as server:
        diverging = (await fetch(server, 10_000, last_epoch=1)).diverging_epoch
        assert diverging.epoch == 1
        assert diverging.end_offset <= server.world.log.end_offset


async def test_a_fetch_with_a_newer_epoch_or_another_cluster_id_is_refused() -> None:
    async with served(plan()) as server:
        assert int((await fetch(server, 0, epoch=9)).error_code) == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert int((await fetch(server, 0, cluster_id="another")).error_code) == ErrorCode.INCONSISTENT_CLUSTER_ID


async def test_a_standby_checks_the_epoch_of_a_fetch_before_it_refuses_as_follower() -> None:
    async with served(plan(leader=3002)) as server:
        messages = kio(1, 17)
        codes = []
        for epoch in (0, 1, 2):
            partition = messages.FetchPartition(
                partition=0, current_leader_epoch=epoch, fetch_offset=0, last_fetched_epoch=0,
                partition_max_bytes=1000, replica_directory_id=None,
            )  # fmt: skip
            topics = (messages.FetchTopic(topic_id=LOG, partitions=(partition,)),)
            request = messages.FetchRequest(max_wait=timedelta(0), min_bytes=1, topics=topics, forgotten_topics_data=())
            answer = (await ask(server, CONTROLLER, 3001, 17, request)).responses[0].partitions[0]
            codes.append(int(answer.error_code))
            assert answer.current_leader.leader_id == 3002
        assert codes == [
            ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH,
        ]  # fmt: skip


def update(*features: tuple[str, int]) -> Any:
    messages = kio(57, 2)
    return messages.UpdateFeaturesRequest(
        timeout=timedelta(seconds=10),
        feature_updates=tuple(messages.FeatureUpdateKey(feature=f, max_version_level=v) for f, v in features),
    )


async def test_an_update_of_features_is_answered_once_it_is_committed() -> None:
    async with served(plan()) as server:
        answer = await ask(server, BROKER, 1, 2, update(("metadata.version", 25)))
        assert int(answer.error_code) == 0
        assert server.world.image.features == {"metadata.version": 25}


async def test_a_broker_holds_an_update_until_a_controller_is_active() -> None:
    async with served(plan()) as server:
        for voter in (3001, 3002):
            await perform(server, f"stop controller {voter}")
        pending = asyncio.create_task(ask(server, BROKER, 1, 2, update(("metadata.version", 25))))
        answer = await ask(server, CONTROLLER, 3003, 2, update(("metadata.version", 25)))
        assert answer.error_message == "No controller appears to be active."
        assert not pending.done()
        await perform(server, "start controller 3001")
        assert int((await pending).error_code) == 0
        assert server.world.image.features == {"metadata.version": 25}


@pytest.mark.parametrize("turns", range(8))
async def test_a_node_that_stops_closes_a_connection_it_is_just_accepting(turns: int) -> None:
    """asyncio accepts in several turns of its loop: the node stops after each of them."""
    loop = asyncio.get_running_loop()
    async with served(plan()) as server:
        node = server.world.nodes[BROKER, 1]
        with socket.create_connection((node.host, node.port)) as client:
            client.setblocking(False)
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.act(lambda world: world.stop(BROKER, 1, kill=True))
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(loop.sock_recv(client, 1), 10) == b""


async def test_a_stopped_node_refuses_connections_and_an_upgraded_node_listens_on_its_port_again() -> None:
    async with served(plan({1: "4.2", 2: "4.0"})) as server:
        port = server.world.nodes[BROKER, 2].port
        await perform(server, "stop broker 2")
        with pytest.raises(ConnectionRefusedError):
            await ask(server, BROKER, 2, 4, api_versions())
        await perform(server, "start broker 2 4.2")
        answer = await ask(server, BROKER, 2, 4, api_versions())
        supported = {f.name: (f.min_version, f.max_version) for f in answer.supported_features}
        assert supported["metadata.version"] == (7, 29)
        assert server.world.nodes[BROKER, 2].port == port


def api_versions() -> Any:
    return kio(18, 4).ApiVersionsRequest(client_software_name="test", client_software_version="1")


@pytest.mark.parametrize(
    "frame",
    [b"GET / HTTP/1.1\r\n\r\n", struct.pack(">i", -1), struct.pack(">i", 1 << 30), b"\x00\x00\x00\x02\x00\x12"],
    ids=["http", "negative", "huge", "half a head"],
)
async def test_bytes_that_are_no_request_close_the_connection(frame: bytes) -> None:
    async with served(plan({1: "4.2"}, {3001: "4.2"})) as server:
        with pytest.raises((EOFError, ConnectionResetError)):
            await exchange(server, BROKER, 1, frame)


@pytest.mark.parametrize(
    ("request_line", "words"),
    [
        ("dance", "invalid request 'dance'"),
        ("stop broker 9", "broker 9 does not exist"),
        ("stop zookeeper 1", "zookeeper 1 does not exist"),
        ("upgrade broker 1 2.8", "Kafka 2.8 is not simulated"),
        ("start broker 1", "broker 1 is already running"),
    ],
)
async def test_an_unknown_control_request_is_refused(request_line: str, words: str) -> None:
    async with served(plan({1: "4.2"}, {3001: "4.2"})) as server:
        with pytest.raises(RefusedError) as refused:
            await perform(server, request_line)
        assert words in str(refused.value)
