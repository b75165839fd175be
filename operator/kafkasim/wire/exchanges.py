"""Translates, for each API, a request of kio (a library that has Kafka's messages as Python classes) to a typed one of
the product, and the typed response to the fields of kio's response.

Called by `server` for each request whose key and version the node offers. `kafkasim.answers` makes the responses;
`topics` translates requests about topics. Only requests that the product never sends, and its types do not have, are
answered here: for topics other than the metadata log, and for several resources at once.

Layouts were checked against recorded answers of real nodes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import asdict

from kafkafeatures.core.facts.readings import Host, Role
from kafkafeatures.kafka.wire import messages as m
from kafkafeatures.kafka.wire.unregister_codec import UnregisterBrokerRequest, UnregisterControllerRequest
from kafkasim.answers.log import NONE, UNKNOWN_TOPIC_ID
from kafkasim.answers.node import HANDLERS, NodeAnswers
from kafkasim.answers.topics import UNKNOWN_TOPIC_OR_PARTITION
from kafkasim.registrations import LISTENER
from kafkasim.wire import topics
from kafkasim.wire.topics import Answer

_UNKNOWN_TOPIC = "This server does not host this topic-partition."


async def exchange(node: NodeAnswers, api_key: int, version: int, request: Any) -> Answer | None:
    """The fields of the response; None for an API that is offered but not simulated: the connection is closed."""
    return await EXCHANGES[api_key](node, version, request) if (node.node.role, api_key) in HANDLERS else None


async def _answer_to(node: NodeAnswers, request: m.Request[m.R], version: int) -> m.R:
    answer = await node.answer(request, version)
    assert answer is not None  # noqa: S101 - `exchange` has checked that the API is simulated
    return answer


async def _api_versions(node: NodeAnswers, version: int, request: Any) -> Answer:
    name = m.ApiVersionsRequest(cluster_id=request.cluster_id, node_id=int(request.node_id)) if version >= 5 else None
    response = await _answer_to(node, name or m.ApiVersionsRequest(), version)
    return asdict(response) | {
        "api_keys": [
            {"api_key": key, "min_version": offered.min, "max_version": offered.max}
            for key, offered in response.api_keys.items()
        ],
        "supported_features": [
            {"name": name, "min_version": levels.min, "max_version": levels.max}
            for name, levels in response.supported_features.items()
        ],
        "finalized_features": [
            {"name": name, "max_version_level": level, "min_version_level": level}
            for name, level in response.finalized_features.items()
        ],
    }


async def _describe_cluster(node: NodeAnswers, version: int, request: Any) -> Answer:
    question = m.DescribeClusterRequest(
        endpoint_type=request.endpoint_type if version >= 1 else 1,
        include_fenced_brokers=version >= 2 and request.include_fenced_brokers,
        authorized_operations=request.include_cluster_authorized_operations,
    )
    response = await _answer_to(node, question, version)
    return asdict(response) | {
        "brokers": [
            {"broker_id": host.id, "host": host.host, "port": host.port, "rack": None, "is_fenced": host.is_fenced}
            for host in response.nodes
        ],
        "cluster_authorized_operations": m.NO_OPERATIONS if response.operations is None else response.operations,
    }


# --- the quorum ---


async def _describe_quorum(node: NodeAnswers, version: int, request: Any) -> Answer:
    response = await _answer_to(node, m.DescribeQuorumRequest(), version)
    listener = LISTENER[Role.CONTROLLER]
    return asdict(response) | {
        "topics": [
            {
                "topic_name": topic.topic_name,
                "partitions": [
                    _quorum(topic.topic_name, partition.partition_index, response) for partition in topic.partitions
                ],
            }
            for topic in request.topics
        ],
        "nodes": [
            {"node_id": host.id, "listeners": [{"name": listener, "host": host.host, "port": host.port}]}
            for host in response.nodes
        ],
    }


def _quorum(topic: str, index: int, response: m.DescribeQuorumResponse) -> Answer:
    if topic != m.METADATA_TOPIC or index != 0:
        error = {"error_code": UNKNOWN_TOPIC_OR_PARTITION, "error_message": _UNKNOWN_TOPIC}
        zeros = dict.fromkeys(("leader_id", "leader_epoch", "high_watermark"), 0)
        return {"partition_index": index, **error, **zeros, "current_voters": [], "observers": []}
    return asdict(response) | {
        "partition_index": index,
        "error_code": response.partition_error_code,
        "error_message": response.partition_error_message,
        "current_voters": _replicas(response.voters),
        "observers": _replicas(response.observers),
    }


def _replicas(states: Iterable[m.ReplicaState]) -> list[Answer]:
    return [asdict(state) | {"replica_id": state.id, "replica_directory_id": state.directory_id} for state in states]


# --- changes ---


async def _update_features(node: NodeAnswers, version: int, request: Any) -> Answer:
    """UpdateFeatures. In KRaft mode v0 has neither a type nor validateOnly; v2 has no results."""
    updates = tuple(
        (update.feature, update.max_version_level, update.upgrade_type if version >= 1 else m.UPGRADE)
        for update in request.feature_updates
    )
    question = m.UpdateFeaturesRequest(updates, validate_only=version >= 1 and request.validate_only)
    verdict = await node.updated(question)
    return asdict(verdict) | {"results": [asdict(result) for result in verdict.results] if version < 2 else []}


def _unregister(question: type[UnregisterBrokerRequest] | type[UnregisterControllerRequest]) -> Exchange:
    """The exchange of one of these requests. The id of a controller is in `broker_id`, too: kio has no request for
    controllers, so that of the same layout is used.
    """

    async def unregister(node: NodeAnswers, version: int, request: Any) -> Answer:
        response = await _answer_to(node, question(request.broker_id), version)
        return asdict(response)

    return unregister


# --- the metadata log ---


async def _fetch(node: NodeAnswers, version: int, request: Any) -> Answer:
    """Fetch v13 and later: topics by id. Only the metadata topic is simulated."""
    responses: list[Answer] = []
    leader: tuple[Host, ...] = ()
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            response = await _answer_to(node, _fetch_request(partition, request), version)
            if response.error_code:
                return {"error_code": response.error_code, "responses": []}
            is_log = topic.topic_id == m.METADATA_TOPIC_ID and response.partition_error_code != UNKNOWN_TOPIC_ID
            leader = response.nodes if is_log else leader
            partitions.append(
                _fetched(partition.partition, response) if is_log else _unknown_topic(partition.partition)
            )
        responses.append({"topic_id": topic.topic_id, "partitions": partitions})
    return {"error_code": NONE, "responses": responses, "node_endpoints": _endpoints(leader)}


def _fetch_request(partition: Any, request: Any) -> m.FetchRequest:
    return m.FetchRequest(
        cluster_id=request.cluster_id,
        fetch_offset=partition.fetch_offset,
        current_leader_epoch=partition.current_leader_epoch,
        last_fetched_epoch=partition.last_fetched_epoch,
        max_wait_ms=int(request.max_wait.total_seconds() * 1000),
        min_bytes=request.min_bytes,
        max_bytes=min(request.max_bytes, partition.partition_max_bytes),
    )


def _fetched(index: int, response: m.FetchResponse) -> Answer:
    answer = {
        "partition_index": index,
        "error_code": response.partition_error_code,
        "high_watermark": response.high_watermark,
        "log_start_offset": response.log_start_offset,
        "current_leader": _leader(response.current_leader),
        "aborted_transactions": [],
        "records": response.records,
    }
    if response.snapshot_id is not None:
        answer["snapshot_id"] = _position(response.snapshot_id)
    if response.diverging is not None:
        answer["diverging_epoch"] = _position(response.diverging)
    return answer


def _unknown_topic(index: int) -> Answer:
    return {
        "partition_index": index,
        "error_code": UNKNOWN_TOPIC_ID,
        "high_watermark": -1,
        "log_start_offset": -1,
        "aborted_transactions": [],
        "records": b"",
    }


async def _fetch_snapshot(node: NodeAnswers, version: int, request: Any) -> Answer:
    answers = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            snapshot_id = m.OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
            question = m.FetchSnapshotRequest(
                request.cluster_id, snapshot_id, partition.current_leader_epoch, partition.position, request.max_bytes
            )
            response = await _answer_to(node, question, version)
            is_log = topic.name == m.METADATA_TOPIC and partition.partition == 0
            if response.error_code and is_log:
                return {"error_code": response.error_code, "topics": []}
            partitions.append(_part(partition.partition, snapshot_id, response, is_log=is_log))
        answers.append({"name": topic.name, "partitions": partitions})
    leader = node.world.active_node
    hosts = () if leader is None else (Host(leader.id, leader.host, leader.port),)
    return {"error_code": NONE, "topics": answers, "node_endpoints": _endpoints(hosts)}


def _part(index: int, snapshot_id: m.OffsetAndEpoch, response: m.FetchSnapshotResponse, *, is_log: bool) -> Answer:
    return {
        "index": index,
        "error_code": response.partition_error_code if is_log else UNKNOWN_TOPIC_OR_PARTITION,
        "snapshot_id": _position(snapshot_id),
        "current_leader": _leader(response.current_leader),
        "size": response.size if is_log else 0,
        "position": response.position if is_log else 0,
        "unaligned_records": response.data if is_log else b"",
    }


def _position(at: m.OffsetAndEpoch) -> Answer:
    return {"end_offset": at.offset, "epoch": at.epoch}


def _leader(leader: m.LeaderAndEpoch | None) -> Answer:
    return {"leader_id": -1, "leader_epoch": -1} if leader is None else {
        "leader_id": leader.leader_id, "leader_epoch": leader.epoch
    }  # fmt: skip


def _endpoints(hosts: Iterable[Host]) -> list[Answer]:
    return [{"node_id": host.id, "host": host.host, "port": host.port} for host in hosts]


Exchange = Callable[[NodeAnswers, int, Any], Awaitable[Answer]]
EXCHANGES: Mapping[int, Exchange] = {
    1: _fetch,
    3: topics.metadata,
    18: _api_versions,
    32: topics.describe_configs,
    35: topics.describe_log_dirs,
    44: topics.set_logger_levels,
    46: topics.list_reassignments,
    55: _describe_quorum,
    57: _update_features,
    59: _fetch_snapshot,
    60: _describe_cluster,
    64: _unregister(UnregisterBrokerRequest),
    75: topics.describe_topic_partitions,
    94: _unregister(UnregisterControllerRequest),
}
SIMULATED_FROM = {1: 13, 3: 9, 59: 1}  # lowest version that is simulated, where it is not 0
