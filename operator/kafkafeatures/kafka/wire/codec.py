"""Translates between our messages and bytes, by the library kio, which no other module of the operator uses (except
`api_versions_5.py` and `unregister_controller.py`, which add schemas to it).

Called by `connection.py` and the codec of the simulator. `APIS`, at the end, and the tables of the other `*_codec.py`
modules have an entry for each API: the versions that we speak, a function that encodes and one that decodes. The
connection picks the highest version that both sides have. Schemas of kio are imported when a version is first used, so
that the command line starts fast.

Error codes become plain integers. kio refuses a response with an error code that it does not know; this raises
`ServerError`, not `NotKafka`, and the outcome of the request is unknown.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Mapping
from datetime import timedelta
from functools import cache, lru_cache
from io import BytesIO
from types import ModuleType
from typing import Any

from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.readings import Host
from kafkafeatures.kafka.base.errors import NotKafka, ServerError, UnsupportedApi
from kafkafeatures.kafka.wire import messages as m
from kafkafeatures.kafka.wire.api import Api, operations, plain
from kafkafeatures.kafka.wire.frame import MAX_FETCH_FRAME, MAX_SHORT_FRAME, MAX_TOPICS_FRAME
from kafkafeatures.kafka.wire.lengths import MAX_ITEMS, judge

MAX_CACHED_RESPONSES = 16
"""Most different ApiVersions responses in the cache; each has some kilobytes."""


def encode_request(message: m.Request[Any], *, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Header and body, without the length in front."""
    body = api_of(message.api_key).encode(_schema(message.api_key, version, "Request"), message)
    header_type = body.__header_schema__
    header = header_type(
        request_api_key=message.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    buffer = BytesIO()
    writer = _serial().entity_writer
    writer(header_type)(buffer, header)
    writer(type(body))(buffer, body)
    return buffer.getvalue()


def version_for(message: m.Request[Any], offered: Mapping[int, VersionRange]) -> int:
    """The highest version of a request that both sides have. `offered`: the node's versions by API key. Raises
    UnsupportedApi.
    """
    api = api_of(message.api_key)
    ours, theirs = api.versions, offered.get(message.api_key)
    if theirs is None:
        raise UnsupportedApi(f"the node does not offer {api.name}")
    version = min(ours.max, theirs.max)
    if version < max(ours.min, theirs.min):
        raise UnsupportedApi(f"the node offers {api.name} {theirs}, we speak {ours}")
    return version


def limits(message: m.Request[Any]) -> tuple[int, int]:
    """The bytes that the answer to this request may have, and the elements of all its arrays together."""
    most = api_of(message.api_key).most_bytes
    if most == MAX_TOPICS_FRAME or getattr(message, "all_topics", False):
        return MAX_TOPICS_FRAME, MAX_TOPICS_FRAME  # as many elements as fit into the frame
    return most, MAX_ITEMS


def decode_response(api_key: int, version: int, payload: bytes, *, most_items: int = MAX_ITEMS) -> tuple[int, Any]:
    """(correlation id, message). Raises NotKafka for bytes that do not decode, ServerError for an unknown code.

    kio sees only what `lengths` accepted: it would reserve memory for any length, and abort the process.
    An ApiVersions reply to a version the node does not have comes in the layout of v0 with error 35 (KIP-511).
    """
    correlation_id = int.from_bytes(payload[:4], "big", signed=True)
    if api_key == m.ApiVersionsRequest.api_key:  # a response of version 5 has the layout of version 4
        return correlation_id, _api_versions_of(min(version, 4), payload[4:], most_items)
    return correlation_id, _decoded(api_key, version, payload, most_items)


@lru_cache(maxsize=MAX_CACHED_RESPONSES)
def _api_versions_of(version: int, payload: bytes, most_items: int) -> m.ApiVersionsResponse:
    """The response; equal bytes give the same object, since most nodes of a cluster send equal responses."""
    if payload[:2] == b"\x00\x23":  # error 35, UNSUPPORTED_VERSION
        version = 0
    # Zeros in place of the correlation id, which is left out of the key of the cache.
    answer: m.ApiVersionsResponse = _decoded(m.ApiVersionsRequest.api_key, version, b"\0\0\0\0" + payload, most_items)
    return answer


def _decoded(api_key: int, version: int, payload: bytes, most_items: int) -> Any:
    """Our message from the bytes of a response with its header. Raises what `decode_response` raises."""
    body_type = entity(api_key, version, "Response")
    begin = judge(body_type.__header_schema__, payload)
    end = judge(body_type, payload, begin, most_items=most_items)
    try:
        body, _ = _serial().entity_reader(body_type)(payload, begin)
        message = api_of(api_key).decode(body, version)
    except Exception as error:
        raise _undecodable(error) from None
    if end < len(payload) and api_key != m.ApiVersionsRequest.api_key:
        raise NotKafka(f"{len(payload) - end} bytes too many in an answer", sent=True)
    return message


def _undecodable(error: Exception) -> Exception:
    """The KafkaError for an error of kio, which is mostly its own, ValueError or EOFError. Other errors are bugs, and
    are returned unchanged.
    """
    if "ErrorCode" in str(error):
        return ServerError(-1, f"an error code this version does not know: {error}")
    # TypeError: kio reads null where the schema has none.
    if type(error).__module__.startswith("kio") or isinstance(error, ValueError | IndexError | EOFError | TypeError):
        return NotKafka(f"an answer that does not decode ({type(error).__name__})", sent=True)
    return error


@cache
def _serial() -> ModuleType:
    return importlib.import_module("kio.serial")


@cache
def _schema(api_key: int, version: int, kind: str) -> ModuleType:
    """The module with the classes of a message: kio's, or ours for versions that kio does not have."""
    api = api_of(api_key)
    folder = re.sub(r"\B([A-Z])", r"_\1", api.name).lower()
    is_ours = api.module and version >= api.module_from
    return importlib.import_module(api.module if is_ours else f"kio.schema.{folder}.v{version}.{kind.lower()}")


def entity(api_key: int, version: int, kind: str) -> Any:
    """The class of a message as kio reads and writes it. `kind`: Request or Response."""
    return getattr(_schema(api_key, version, kind), api_of(api_key).name + kind)


# --- requests ---


def _api_versions(schema: ModuleType, message: m.ApiVersionsRequest) -> Any:
    names = (field.name for field in dataclasses.fields(schema.ApiVersionsRequest))
    return schema.ApiVersionsRequest(**{name: getattr(message, name) for name in names})


def _fetch(schema: ModuleType, message: m.FetchRequest) -> Any:
    partition = schema.FetchPartition(
        partition=0,
        current_leader_epoch=message.current_leader_epoch,
        fetch_offset=message.fetch_offset,
        last_fetched_epoch=message.last_fetched_epoch,
        partition_max_bytes=message.max_bytes,
    )
    return schema.FetchRequest(
        cluster_id=message.cluster_id,
        max_wait=timedelta(milliseconds=message.max_wait_ms),
        min_bytes=message.min_bytes,
        max_bytes=message.max_bytes,
        topics=(schema.FetchTopic(topic_id=m.METADATA_TOPIC_ID, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


def _fetch_snapshot(schema: ModuleType, message: m.FetchSnapshotRequest) -> Any:
    partition = schema.PartitionSnapshot(
        partition=0,
        current_leader_epoch=message.current_leader_epoch,
        snapshot_id=schema.SnapshotId(end_offset=message.snapshot_id.offset, epoch=message.snapshot_id.epoch),
        position=message.position,
    )
    return schema.FetchSnapshotRequest(
        cluster_id=message.cluster_id,
        max_bytes=message.max_bytes,
        topics=(schema.TopicSnapshot(name=m.METADATA_TOPIC, partitions=(partition,)),),
    )


def _describe_cluster(schema: ModuleType, message: m.DescribeClusterRequest) -> Any:
    version = int(schema.__name__.split(".")[-2][1:])  # such as kio.schema.describe_cluster.v1.request
    fields: dict[str, Any] = {"include_cluster_authorized_operations": message.authorized_operations}
    if version >= 1:
        fields["endpoint_type"] = message.endpoint_type
    if version >= 2:
        # Brokers only: a controller refuses the flag it has no use for.
        fields["include_fenced_brokers"] = message.include_fenced_brokers and message.endpoint_type == 1
    return schema.DescribeClusterRequest(**fields)


def _describe_quorum(schema: ModuleType, message: m.DescribeQuorumRequest) -> Any:
    topic = schema.TopicData(topic_name=m.METADATA_TOPIC, partitions=(schema.PartitionData(partition_index=0),))
    return schema.DescribeQuorumRequest(topics=(topic,))


def _update_features(schema: ModuleType, message: m.UpdateFeaturesRequest) -> Any:
    return schema.UpdateFeaturesRequest(
        timeout=timedelta(milliseconds=message.timeout_ms),
        feature_updates=tuple(
            schema.FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=upgrade_type)
            for feature, level, upgrade_type in message.updates
        ),
        validate_only=message.validate_only,
    )


# --- responses ---


def _read_api_versions(body: Any, version: int) -> m.ApiVersionsResponse:
    keys = {int(k.api_key): VersionRange(int(k.min_version), int(k.max_version)) for k in body.api_keys}
    if version < 3:
        return m.ApiVersionsResponse(int(body.error_code), keys, version=version)
    return m.ApiVersionsResponse(
        error_code=int(body.error_code),
        api_keys=keys,
        supported_features={
            f.name: VersionRange(int(f.min_version), int(f.max_version)) for f in body.supported_features
        },
        finalized_features_epoch=int(body.finalized_features_epoch),
        finalized_features={f.name: int(f.max_version_level) for f in body.finalized_features},
        zk_migration_ready=bool(body.zk_migration_ready),
        version=version,
    )


def _read_describe_cluster(body: Any, version: int) -> m.DescribeClusterResponse:
    return m.DescribeClusterResponse(
        error_code=int(body.error_code),
        error_message=plain(body.error_message),
        endpoint_type=int(body.endpoint_type) if version >= 1 else 1,
        cluster_id=body.cluster_id,
        controller_id=int(body.controller_id),
        nodes=tuple(
            Host(int(b.broker_id), b.host, int(b.port), is_fenced=bool(b.is_fenced) if version >= 2 else False)
            for b in body.brokers
        ),
        version=version,
        operations=operations(body.cluster_authorized_operations),
    )


def _read_describe_quorum(body: Any, version: int) -> m.DescribeQuorumResponse:
    partition = body.topics[0].partitions[0] if body.topics and body.topics[0].partitions else None

    def replicas(states: Any) -> tuple[m.ReplicaState, ...]:
        return tuple(
            m.ReplicaState(
                id=int(s.replica_id),
                directory_id=s.replica_directory_id if version >= 2 else None,
                log_end_offset=int(s.log_end_offset),
                last_fetch_timestamp=int(s.last_fetch_timestamp) if version >= 1 else -1,
                last_caught_up_timestamp=int(s.last_caught_up_timestamp) if version >= 1 else -1,
            )
            for s in states
        )

    return m.DescribeQuorumResponse(
        error_code=int(body.error_code),
        error_message=plain(body.error_message) if version >= 2 else None,
        partition_error_code=int(partition.error_code) if partition else int(body.error_code),
        partition_error_message=plain(partition.error_message) if partition and version >= 2 else None,
        leader_id=int(partition.leader_id) if partition else -1,
        leader_epoch=int(partition.leader_epoch) if partition else -1,
        high_watermark=int(partition.high_watermark) if partition else -1,
        voters=replicas(partition.current_voters) if partition else (),
        observers=replicas(partition.observers) if partition else (),
        nodes=tuple(
            Host(int(n.node_id), n.listeners[0].host, int(n.listeners[0].port)) for n in body.nodes if n.listeners
        )
        if version >= 2
        else (),
        version=version,
    )


def _read_update_features(body: Any, version: int) -> m.UpdateFeaturesResponse:
    results = {r.feature: (int(r.error_code), plain(r.error_message)) for r in body.results} if version < 2 else {}
    return m.UpdateFeaturesResponse(int(body.error_code), plain(body.error_message), results)


def _leader(value: Any) -> m.LeaderAndEpoch | None:
    leader = m.LeaderAndEpoch(int(value.leader_id), int(value.leader_epoch))
    return leader if leader.epoch >= 0 or leader.leader_id >= 0 else None


def _position(offset: Any, epoch: Any) -> m.OffsetAndEpoch | None:
    return m.OffsetAndEpoch(int(offset), int(epoch)) if int(offset) >= 0 or int(epoch) >= 0 else None


def _read_fetch(body: Any, version: int) -> m.FetchResponse:
    partition = body.responses[0].partitions[0] if body.responses and body.responses[0].partitions else None
    nodes = tuple(Host(int(n.node_id), n.host, int(n.port)) for n in body.node_endpoints)
    if partition is None:
        return m.FetchResponse(int(body.error_code), int(body.error_code), -1, -1, None, None, None, b"", nodes)
    return m.FetchResponse(
        error_code=int(body.error_code),
        partition_error_code=int(partition.error_code),
        high_watermark=int(partition.high_watermark),
        log_start_offset=int(partition.log_start_offset),
        current_leader=_leader(partition.current_leader),
        diverging=_position(partition.diverging_epoch.end_offset, partition.diverging_epoch.epoch),
        snapshot_id=_position(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        records=partition.records or b"",
        nodes=nodes,
    )


def _read_fetch_snapshot(body: Any, version: int) -> m.FetchSnapshotResponse:
    partition = body.topics[0].partitions[0] if body.topics and body.topics[0].partitions else None
    if partition is None:
        return m.FetchSnapshotResponse(int(body.error_code), int(body.error_code), None, None, 0, 0, b"")
    return m.FetchSnapshotResponse(
        error_code=int(body.error_code),
        partition_error_code=int(partition.error_code),
        current_leader=_leader(partition.current_leader),
        snapshot_id=_position(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        size=int(partition.size),
        position=int(partition.position),
        data=partition.unaligned_records or b"",
    )


APIS: dict[int, Api] = {
    api.request.api_key: api
    for api in (
        # v17: by topic id and without replica id, as an ordinary client; Kafka 3.9+
        Api(m.FetchRequest, VersionRange(17, 17), _fetch, _read_fetch, MAX_FETCH_FRAME),
        Api(
            m.ApiVersionsRequest,
            VersionRange(0, 5),
            _api_versions,
            _read_api_versions,
            MAX_SHORT_FRAME,
            module="kafkafeatures.kafka.wire.api_versions_5",
            module_from=5,
        ),
        Api(m.DescribeQuorumRequest, VersionRange(0, 2), _describe_quorum, _read_describe_quorum),
        # v0 has no validateOnly, and KRaft ignores its downgrade flag
        Api(m.UpdateFeaturesRequest, VersionRange(1, 2), _update_features, _read_update_features, MAX_SHORT_FRAME),
        # v1 names the leader's address
        Api(m.FetchSnapshotRequest, VersionRange(1, 1), _fetch_snapshot, _read_fetch_snapshot, MAX_FETCH_FRAME),
        Api(m.DescribeClusterRequest, VersionRange(0, 2), _describe_cluster, _read_describe_cluster),
    )
}
"""By API key: the APIs that most commands use."""


def api_of(api_key: int) -> Api:
    """The entry of an API, in `APIS` or one of the tables that are imported when needed."""
    return APIS[api_key] if api_key in APIS else every_api()[api_key]


@cache
def every_api() -> Mapping[int, Api]:
    """Every API that we speak. Those that most commands never use are imported here, with the first request."""
    from kafkafeatures.kafka.wire import logger_codec, partition_codec, sasl_codec, unregister_codec

    return APIS | partition_codec.APIS | sasl_codec.APIS | unregister_codec.APIS | logger_codec.APIS
