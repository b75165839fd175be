"""Responses to Fetch of the metadata log, which may wait for records, and to FetchSnapshot.

Called by `answers.node`. A controller that does not lead answers with an error, and with the leader and
epoch; a broker does not know the topic.
"""

from __future__ import annotations

from typing import Any, Protocol

from kafkafeatures.core.facts.readings import Host, Role
from kafkafeatures.kafka.wire.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderAndEpoch,
    OffsetAndEpoch,
)
from kafkasim.log import Position
from kafkasim.node import Node
from kafkasim.world import World

NONE = 0
UNKNOWN_SERVER_ERROR = -1
NOT_LEADER_OR_FOLLOWER = 6
CLUSTER_AUTHORIZATION_FAILED = 31
INVALID_REQUEST = 42
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75
UNKNOWN_TOPIC_ID = 100
INCONSISTENT_CLUSTER_ID = 104


class Clock(Protocol):
    """Time of a world, and waiting for its next change."""

    async def moved(self, until_ms: int | None = None) -> None:
        """Return after the next change, or at `until_ms`."""

    def now_ms(self) -> int:
        """The world's time now."""

    def changed(self) -> None:
        """Note that the world was changed, so that waiting responses check again."""


async def fetch(world: World, node: Node, clock: Clock, request: FetchRequest) -> FetchResponse:
    """The response to Fetch: records, a snapshot id, a diverging epoch, or an error."""
    if request.cluster_id not in (None, world.cluster_id):
        return nothing(INCONSISTENT_CLUSTER_ID)
    if node.role is Role.BROKER:
        return FetchResponse(NONE, UNKNOWN_TOPIC_ID, -1, -1, None, None, None, b"")
    numbers = (request.fetch_offset, request.last_fetched_epoch, request.current_leader_epoch, request.max_wait_ms)
    if error := INVALID_REQUEST if min(numbers) < 0 else _leader_error(world, node, request.current_leader_epoch):
        return _fetched(world, partition_error_code=error, high_watermark=-1)
    log, offset, epoch = world.log, request.fetch_offset, request.last_fetched_epoch
    # A reader that has nothing gets the snapshot first, as its node has removed the log before that.
    if Position(offset, epoch) == Position(0, 0) and (snapshot := world.snapshot_of(node)) is not None:
        return _fetched(world, snapshot_id=OffsetAndEpoch(snapshot.id.offset, snapshot.id.epoch))
    if (parting := log.diverging(offset, epoch)) is not None:
        return _fetched(world, diverging=OffsetAndEpoch(parting.offset, parting.epoch))
    deadline, high_watermark = clock.now_ms() + request.max_wait_ms, log.high_watermark
    # A long poll ends with new records, or when records that the reader has are committed.
    while (
        request.min_bytes > 0
        and log.end_offset <= offset
        and log.high_watermark == high_watermark
        and clock.now_ms() < deadline
    ):
        await clock.moved(deadline)
        if world.active_node is not node:
            return _fetched(world, partition_error_code=NOT_LEADER_OR_FOLLOWER, high_watermark=-1)
    return _fetched(world, records=log.read(offset, max_bytes=request.max_bytes))


def nothing(code: int) -> FetchResponse:
    """A response with an error code and nothing else."""
    return FetchResponse(code, code, -1, -1, None, None, None, b"")


def _leader_error(world: World, node: Node, epoch: int) -> int:
    if epoch < world.epoch:
        return FENCED_LEADER_EPOCH
    if epoch > world.epoch:
        return UNKNOWN_LEADER_EPOCH
    return NONE if world.active_node is node else NOT_LEADER_OR_FOLLOWER


def _leader_of(world: World) -> LeaderAndEpoch:
    return LeaderAndEpoch(-1 if world.active is None else world.active, world.epoch)


def _endpoints(world: World) -> tuple[Host, ...]:
    leader = world.active_node
    return () if leader is None else (Host(leader.id, leader.host, leader.port),)


def _fetched(world: World, **changed_fields: Any) -> FetchResponse:
    """A response to Fetch with these fields, and otherwise no records, no error, and the leader of `world`."""
    fields: dict[str, Any] = {
        "error_code": NONE,
        "partition_error_code": NONE,
        "high_watermark": world.log.high_watermark,
        "log_start_offset": 0,
        "current_leader": _leader_of(world),
        "diverging": None,
        "snapshot_id": None,
        "records": b"",
        "nodes": _endpoints(world),
    }
    return FetchResponse(**(fields | changed_fields))


def fetch_snapshot(world: World, node: Node, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    """A part of the snapshot. For another snapshot id the top-level error code is -1, as observed on real nodes."""
    if request.cluster_id not in (None, world.cluster_id):
        return _no_part(INCONSISTENT_CLUSTER_ID)
    snapshot_id, leader = request.snapshot_id, _leader_of(world)
    if error := _leader_error(world, node, request.current_leader_epoch):
        return FetchSnapshotResponse(NONE, error, leader, snapshot_id, 0, 0, b"")
    snapshot = world.log.snapshot
    if snapshot is None or snapshot.id != Position(snapshot_id.offset, snapshot_id.epoch):
        return _no_part(UNKNOWN_SERVER_ERROR)
    data = snapshot.data[request.position : request.position + request.max_bytes]
    return FetchSnapshotResponse(NONE, NONE, leader, snapshot_id, len(snapshot.data), request.position, data)


def _no_part(code: int) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(code, code, None, None, 0, 0, b"")
