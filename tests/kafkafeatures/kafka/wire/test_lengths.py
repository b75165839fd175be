"""Lengths inside messages: the check reads the same positions as the codec, and refuses lengths beyond the message.

`tests/fuzz` shows, in a process of its own, what a false length does to the codec without the check.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.api_versions.v4.response import ApiVersion, ApiVersionsResponse
from kio.schema.consumer_group_heartbeat.v1.response import ConsumerGroupHeartbeatResponse
from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17.response import FetchResponse
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import Records, i16, i32Timedelta

from kafkafeatures.kafka.base.errors import NotKafka
from kafkafeatures.kafka.wire import codec
from kafkafeatures.kafka.wire.codec import entity, every_api
from kafkafeatures.kafka.wire.lengths import MAX_ITEMS, judge
from kafkafeatures.kafka.wire.messages import (
    ApiVersionsRequest,
    DescribeQuorumRequest,
    FetchRequest,
    UpdateFeaturesRequest,
)
from kafkafeatures.kafka.wire.topic_messages import MetadataRequest

APIS = every_api()

st.register_type_strategy(Records, st.binary())

SPOKEN = [(key, version) for key, ours in APIS.items() for version in range(ours.versions.min, ours.versions.max + 1)]
MESSAGES: list[Any] = [entity(*one, kind) for one in SPOKEN for kind in ("Request", "Response")]
HEADERS = sorted({message.__header_schema__ for message in MESSAGES}, key=lambda header: header.__module__)


def written(value: Any) -> bytes:
    buffer = BytesIO()
    entity_writer(type(value))(buffer, value)
    return buffer.getvalue()


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@settings(max_examples=100)
@given(kind=st.sampled_from([*MESSAGES, *HEADERS, ConsumerGroupHeartbeatResponse]), data=st.data())
def test_the_length_check_accepts_an_encoded_message_to_its_last_byte(kind: Any, data: st.DataObject) -> None:
    message = written(data.draw(st.from_type(kind)))
    front = data.draw(st.binary(max_size=3))
    assert judge(kind, front + message + b"\xff", len(front)) == len(front) + len(message)
    for end in range(len(message)):
        with pytest.raises(NotKafka):
            judge(kind, message[:end])


@settings(max_examples=100)
@given(kind=st.sampled_from([message for message in MESSAGES if fields(message)]), data=st.data())
def test_the_length_check_ends_at_the_same_byte_as_the_codec(kind: Any, data: st.DataObject) -> None:
    message = bytearray(written(data.draw(st.from_type(kind))))
    for _ in range(data.draw(st.integers(1, 3))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    try:
        end = judge(kind, bytes(message))
    except NotKafka:
        return
    try:
        assert entity_reader(kind)(bytes(message), 0)[1] == end
    except Exception as error:
        assert "Underflow" not in type(error).__name__, "the codec misses bytes"  # noqa: PT017
        assert not isinstance(error, AssertionError | KeyError), error  # noqa: PT017


def test_long_texts_and_byte_fields_are_skipped() -> None:
    host, records = "h" * 20_000, bytes(3_000_000)
    answer = FetchResponse(
        throttle_time=i32Timedelta.parse(timedelta(0)),
        error_code=ErrorCode.none,
        responses=(
            _class(FetchResponse, "FetchableTopicResponse")(
                topic_id=UUID(int=1),
                partitions=(
                    _class(FetchResponse, "PartitionData")(
                        partition_index=0,
                        error_code=ErrorCode.none,
                        high_watermark=1,
                        aborted_transactions=None,
                        records=records,
                    ),
                ),
            ),
        ),
        node_endpoints=(_class(FetchResponse, "NodeEndpoint")(node_id=1, host=host, port=9092),),
    )
    message = written(answer)
    assert judge(FetchResponse, message) == len(message) > len(records) + len(host)


def _class(message: type, name: str) -> Any:
    return getattr(__import__(message.__module__, fromlist=[name]), name)


BEGIN = b"\0\0" + varint(1) + bytes(4)  # ApiVersions: no error, no api keys, no throttling; tagged fields follow


@pytest.mark.parametrize(
    ("kind", "message", "said"),
    [
        (ApiVersionsResponse, b"\0\0" + b"\xff\xff\xff\xff\x0f", "4294967294 api_keys with 0 bytes left"),
        (ApiVersionsResponse, b"\0\0" + varint(3) + bytes(13), "2 api_keys with 13 bytes left"),
        (ApiVersionsResponse, b"\0\0" + b"\x80\x80\x80\x80\x80\1", "a number of more than 5 bytes"),
        (ApiVersionsResponse, BEGIN, "it is cut"),
        (ApiVersionsResponse, BEGIN + b"\1\0\5" + varint(2**32 - 1), "supported_features with 0 bytes left"),
        (ApiVersionsResponse, BEGIN + b"\1\1\x08" + bytes(7), "it is cut"),
        (ApiVersionsResponse, BEGIN + b"\1\1\x07" + bytes(8), "tag 1 of ApiVersionsResponse is not as long as it says"),
        (ApiVersionsResponse, BEGIN + b"\1\1\xff\xff\xff\xff\x0f" + bytes(8), "not as long as it says"),
        (ApiVersionsResponse, BEGIN + b"\2\3\1\1\1\x08" + bytes(8), "tag 1 after tag 3"),
        (ApiVersionsResponse, BEGIN + b"\2\3\1\1\3\1\1", "tag 3 after tag 3"),
        (ApiVersionsResponse, BEGIN + b"\1\x09\1\1", "an unknown field .tag 9"),
        (ApiVersionsResponse, BEGIN + varint(2**32 - 1), "it is cut"),
        (SaslHandshakeResponse, b"\0\0" + b"\x7f\xff\xff\xff", "2147483647 mechanisms with 0 bytes left"),
        (SaslHandshakeResponse, b"\0\0" + b"\xff\xff\xff\xfe", "a length of -2"),
        (SaslHandshakeResponse, b"\0\0" + b"\0\0\0\1" + b"\x80\0", "a length of -32768"),
        (SaslHandshakeResponse, b"\0\0" + b"\0\0\0\1" + b"\0\5" + b"SCRA", "it is cut"),
        (SaslHandshakeResponse, b"\0\0" + b"\0\0\0", "it is cut"),
        (DescribeQuorumResponse, b"\0\0\0" + varint(2) + varint(1) + varint(2**28), "268435455 partitions"),
    ],
)  # fmt: skip
def test_a_false_length_in_a_message_is_reported(kind: type, message: bytes, said: str) -> None:
    with pytest.raises(NotKafka, match=said) as caught:
        judge(kind, message)
    assert caught.value.sent


def test_a_null_array_takes_only_the_bytes_of_its_length() -> None:
    assert judge(ApiVersionsResponse, b"\0\0" + b"\0" + bytes(4) + b"\0") == 8
    assert judge(SaslHandshakeResponse, b"\0\0" + b"\xff\xff\xff\xff") == 6


@pytest.mark.parametrize("tags", [b"\0", b"\1\x09\1\1"], ids=["without tagged fields", "with one"])
def test_the_number_of_elements_of_all_arrays_of_a_message_is_bounded(tags: bytes) -> None:
    """Each element becomes an object of a hundred bytes and more."""
    half = MAX_ITEMS // 2
    topic = varint(1) + bytes(16) + b"\0"  # a name, its id, not internal
    partition = bytes(2 + 4 + 4 + 4) + b"\1\1\1" + b"\0"
    # Two topics and MAX_ITEMS - 2 partitions are MAX_ITEMS elements.
    topics = [b"\0\0" + topic + varint(count + 1) + partition * count + bytes(4) + b"\0" for count in (half, half - 2)]
    message = bytes(4) + b"\1" + b"\0" + bytes(4) + varint(3) + b"".join(topics) + b"\0"
    assert judge(MetadataResponse, message) == len(message)
    with pytest.raises(NotKafka, match="more partitions than any cluster has"):
        judge(MetadataResponse, message, most_items=MAX_ITEMS - 1)
    one = written(ApiVersion(api_key=i16(1), min_version=i16(0), max_version=i16(1)))[:-1] + tags
    with pytest.raises(NotKafka, match="more api_keys than any cluster has"):
        judge(ApiVersionsResponse, b"\0\0" + varint(MAX_ITEMS + 2) + one * (MAX_ITEMS + 1) + bytes(5))


def test_limits_of_answers_are_small_except_for_topics_and_records() -> None:
    hello, items = codec.limits(ApiVersionsRequest())
    change, _ = codec.limits(UpdateFeaturesRequest())
    quorum, _ = codec.limits(DescribeQuorumRequest())
    brokers, _ = codec.limits(MetadataRequest())
    topics, partitions = codec.limits(MetadataRequest(all_topics=True))
    log, entries = codec.limits(FetchRequest())
    assert hello == change < quorum == brokers < topics < log
    assert items == entries == MAX_ITEMS < partitions
