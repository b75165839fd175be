"""Our messages against the bytes of real nodes: every recorded exchange, in both directions."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.readings import Host
from kafkafeatures.kafka.base.errors import NotKafka, ServerError
from kafkafeatures.kafka.wire.codec import decode_response, encode_request, every_api
from kafkafeatures.kafka.wire.logger_codec import IncrementalAlterConfigsRequest
from kafkafeatures.kafka.wire.messages import (
    SAFE_DOWNGRADE,
    UPGRADE,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    FetchRequest,
    FetchSnapshotRequest,
    OffsetAndEpoch,
    Request,
    UpdateFeaturesRequest,
)
from kafkafeatures.kafka.wire.sasl_codec import SaslAuthenticateRequest, SaslHandshakeRequest
from kafkafeatures.kafka.wire.topic_messages import (
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
)
from kafkafeatures.kafka.wire.unregister_codec import UnregisterBrokerRequest, UnregisterControllerRequest

APIS = every_api()

TRANSCRIPTS = Path(__file__).parents[3] / "golden" / "transcripts"
UNKNOWN_TO_KIO = {(18, 9)}  # asked on purpose with a version that no release has


def recorded(value: Any) -> Iterator[dict[str, Any]]:
    """The requests and answers in a line of a transcript, at any depth."""
    if isinstance(value, dict):
        if "req_hex" in value:
            yield value
        for each in value.values():
            yield from recorded(each)
    elif isinstance(value, list):
        for each in value:
            yield from recorded(each)


def exchanges() -> Iterator[tuple[int, int, bytes, bytes | None]]:
    """(api key, version, request, response) of all transcripts, without the length in front."""
    for path in sorted(TRANSCRIPTS.glob("*.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            for line in lines:
                for one in recorded(json.loads(line)):
                    request, reply = bytes.fromhex(one["req_hex"])[4:], one.get("resp_hex")
                    api_key, version = int.from_bytes(request[:2], "big"), int.from_bytes(request[2:4], "big")
                    yield api_key, version, request, bytes.fromhex(reply)[4:] if reply else None


ALL = list(exchanges())
REPLIES = [(api_key, version, reply) for api_key, version, _, reply in ALL if reply]


def rewritten(schema: Any, data: bytes) -> bytes:
    """Decode header and body with kio and write both again."""
    header, at = entity_reader(schema.__header_schema__)(data, 0)
    body, _ = entity_reader(schema)(data, at)
    buffer = BytesIO()
    entity_writer(schema.__header_schema__)(buffer, header)
    entity_writer(schema)(buffer, body)
    return buffer.getvalue()


def test_every_recorded_request_and_reply_is_encoded_again_bit_for_bit() -> None:
    checked = 0
    for api_key, version, request, reply in ALL:
        if (api_key, version) in UNKNOWN_TO_KIO:
            continue
        assert rewritten(load_request_schema(api_key, version), request) == request
        if reply:
            assert rewritten(load_response_schema(api_key, version), reply) == reply
        checked += 1
    assert checked == len(ALL) - 1 > 800  # all but the one of `UNKNOWN_TO_KIO`


def test_every_recorded_reply_of_a_supported_version_is_decoded() -> None:
    seen = set()
    for api_key, version, reply in REPLIES:
        if version in range(APIS[api_key].versions.min, APIS[api_key].versions.max + 1):
            correlation_id, message = decode_response(api_key, version, reply)
            assert correlation_id == int.from_bytes(reply[:4], "big")
            assert type(message).__name__.endswith("Response")
            seen.add((api_key, version))
    assert {key for key, _ in seen} == {1, 3, 18, 55, 57, 59, 60, 64}


OURS = [
    (ApiVersionsRequest(), 0),
    (ApiVersionsRequest("probe", "1"), 3),
    (ApiVersionsRequest("probe", "1"), 4),
    (MetadataRequest(), 12),
    (DescribeQuorumRequest(), 1),
    (DescribeQuorumRequest(), 2),
    (DescribeClusterRequest(endpoint_type=1), 1),
    (DescribeClusterRequest(endpoint_type=2), 1),
    (UpdateFeaturesRequest((("metadata.version", 20, UPGRADE),), validate_only=False, timeout_ms=10_000), 1),
    (UpdateFeaturesRequest((("metadata.version", 20, SAFE_DOWNGRADE),), validate_only=False, timeout_ms=10_000), 1),
    (UpdateFeaturesRequest((("metadata.version", 22, UPGRADE),), validate_only=False, timeout_ms=10_000), 2),
    (UnregisterBrokerRequest(4), 0),
    (
        FetchRequest(fetch_offset=0, current_leader_epoch=3, last_fetched_epoch=0, max_wait_ms=100, max_bytes=1 << 20),
        17,
    ),
    (FetchSnapshotRequest(snapshot_id=OffsetAndEpoch(59, 1), current_leader_epoch=5, max_bytes=1 << 20), 1),
]


@pytest.mark.parametrize(("message", "version"), OURS, ids=lambda v: type(v).__name__ if not isinstance(v, int) else v)
def test_encoded_requests_equal_recorded_requests(message: Any, version: int) -> None:
    """Byte for byte but for the correlation id, and for fields we leave at their defaults."""
    recorded_requests = {request[8:] for key, v, request, _ in ALL if (key, v) == (message.api_key, version)}
    # The first 8 bytes are API key, version and correlation id.
    ours = encode_request(message, version=version, correlation_id=7, client_id="probe")
    assert ours[:8] == message.api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\7"
    assert ours[8:] in recorded_requests


OF_JAVA = (
    "001200050000000700176b61666b612d66656174757265732d6f70657261746f7200186b61666b612d66656174757265732d6f7065726174"
    "6f72023017354c3667336e5368542d654d43744b2d2d58383673770000000200"
)
"""Written by `ApiVersionsRequestData`, `RequestHeader` and `RequestUtils.serialize` of kafka-clients 4.4.0."""


def test_an_api_versions_request_with_an_identity_equals_the_bytes_of_kafka() -> None:
    named = ApiVersionsRequest(client_software_version="0", cluster_id="5L6g3nShT-eMCtK--X86sw", node_id=2)
    sent = encode_request(named, version=5, correlation_id=7, client_id="kafka-features-operator")
    assert sent == bytes.fromhex(OF_JAVA)
    nobody = encode_request(replace(named, cluster_id=None, node_id=-1), version=5, correlation_id=7, client_id="c")
    assert nobody.endswith(bytes.fromhex("00ffffffff00"))


@pytest.mark.parametrize("key", APIS)
def test_every_offered_version_can_be_encoded(key: int) -> None:
    messages: dict[int, Request[Any]] = {
        1: FetchRequest(),
        3: MetadataRequest(),
        17: SaslHandshakeRequest("PLAIN"),
        18: ApiVersionsRequest(),
        32: DescribeConfigsRequest(names=("orders",), keys=("min.insync.replicas",)),
        35: DescribeLogDirsRequest(),
        36: SaslAuthenticateRequest(b"x"),
        44: IncrementalAlterConfigsRequest(1, "kafka.request.logger", "DEBUG"),
        46: ListPartitionReassignmentsRequest(),
        55: DescribeQuorumRequest(),
        57: UpdateFeaturesRequest((("f", 1, UPGRADE),), validate_only=True),
        59: FetchSnapshotRequest(),
        60: DescribeClusterRequest(),
        64: UnregisterBrokerRequest(1),
        75: DescribeTopicPartitionsRequest(("orders", 3)),
        94: UnregisterControllerRequest(1),
    }
    for version in range(APIS[key].versions.min, APIS[key].versions.max + 1):
        sent = encode_request(messages[key], version=version, correlation_id=1, client_id="c")
        if (key, version) == (18, 5):  # kio does not have it; the test before this one compares it with Kafka's bytes
            continue
        if key == 94:  # kio does not have it; the layout is that of UnregisterBroker, the key apart
            assert sent == b"\0\x5e" + encode_request(messages[64], version=0, correlation_id=1, client_id="c")[2:]
        else:
            assert rewritten(load_request_schema(key, version), sent) == sent


# --- what the messages say, against the recording's own reading ---


def reply_of(api_key: int, version: int, pick: bytes) -> Any:
    """The first recorded reply of a kind that holds these bytes, decoded by us."""
    return next(decode_response(k, v, r)[1] for k, v, r in REPLIES if (k, v) == (api_key, version) and pick in r)


def test_features_and_finalized_levels_are_read_with_their_epoch() -> None:
    answer: ApiVersionsResponse = reply_of(18, 4, b"kraft.version")
    assert answer.error_code == 0
    assert answer.supported_features["kraft.version"] == VersionRange(0, 1)
    assert answer.finalized_features["metadata.version"] >= 1
    assert answer.finalized_features_epoch >= 0


def test_an_answer_to_an_unknown_api_versions_version_is_decoded_as_version_0() -> None:
    """KIP-511: error 35 comes as version 0, whatever was asked."""
    ((_, _, reply),) = [one for one in REPLIES if one[:2] == (18, 9)]
    answer = decode_response(18, 4, reply)[1]
    assert answer.error_code == 35
    assert answer.api_keys[18].max == 4


def test_a_failed_describe_quorum_has_its_error_and_leader_id_0() -> None:
    """No node has the id 0, so a leader id counts only without an error."""
    failed = [
        answer
        for key, version, reply in REPLIES
        if key == 55 and isinstance(answer := decode_response(key, version, reply)[1], DescribeQuorumResponse)
        and (answer.error_code or answer.partition_error_code)
    ]  # fmt: skip
    assert failed
    assert {answer.partition_error_code for answer in failed} >= {6}  # NOT_LEADER_OR_FOLLOWER
    assert {answer.leader_id for answer in failed} == {0}


def test_describe_quorum_answers_have_addresses_of_voters_from_version_2() -> None:
    answer: DescribeQuorumResponse = reply_of(55, 2, b"CONTROLLER")
    assert {type(node) for node in answer.nodes} == {Host}
    assert all(node.port > 0 for node in answer.nodes)
    assert {node.id for node in answer.nodes} >= {voter.id for voter in answer.voters}


# --- bytes that cannot be right ---


@given(data=st.data())
def test_a_damaged_reply_is_refused_or_decoded_without_a_crash(data: st.DataObject) -> None:
    key, version, reply = data.draw(st.sampled_from([one for one in REPLIES if one[1] <= APIS[one[0]].versions.max]))
    at = data.draw(st.integers(4, len(reply) - 1))
    damaged = reply[:at] + data.draw(st.binary(max_size=6)) + reply[at + data.draw(st.integers(0, 6)) :]
    with contextlib.suppress(NotKafka, ServerError):  # anything else that is raised fails the test
        decode_response(key, max(version, APIS[key].versions.min), damaged)


def test_an_unknown_error_code_is_an_error_of_the_server() -> None:
    reply = next(r for k, v, r in REPLIES if (k, v) == (57, 2) and r[9:11] == b"\0\0")
    # Bytes 9 and 10 are the error code: after the correlation id, no tagged fields, and the throttle time.
    unknown = reply[:9] + (999).to_bytes(2, "big") + reply[11:]
    with pytest.raises(ServerError) as caught:
        decode_response(57, 2, unknown)
    assert caught.value.sent


def test_surplus_bytes_of_a_reply_are_refused() -> None:
    reply = next(r for k, v, r in REPLIES if (k, v) == (60, 1))
    with pytest.raises(NotKafka, match="2 bytes too many"):
        decode_response(60, 1, reply + b"\0\0")


def test_equal_answers_of_several_nodes_share_one_value() -> None:
    reply = next(reply for key, version, reply in REPLIES if (key, version) == (18, 4))
    one, two = (decode_response(18, 4, number.to_bytes(4, "big") + reply[4:]) for number in (7, 8))
    assert (one[0], two[0]) == (7, 8)
    assert one[1] is two[1]
