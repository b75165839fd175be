"""Frames and bodies: every type of the table there and back, and what is kept as bytes or refused."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kraftlog.records import (
    Decoded,
    Raw,
    RawReason,
    Unreadable,
    control,
    decode,
    decode_control,
    encode,
    frame,
    kafka_uuid,
    parse_kafka_uuid,
    to_json,
)
from kraftlog.schema import NAMES, RecordType, table
from kraftlog.schema.types import UNKNOWN_TAGS, Layout
from kraftlog.varints import unsigned
from tests.amounts import share
from tests.kraftlog.build import broker, change, level, no_op
from tests.kraftlog.strategies import TYPES_AND_VERSIONS, body, label

EVERY = pytest.mark.parametrize(
    ("kind", "version", "layout"), TYPES_AND_VERSIONS, ids=[label(k, v, lay.name) for k, v, lay in TYPES_AND_VERSIONS]
)


def read(kind: RecordType, value: bytes) -> Decoded | Raw | Unreadable:
    return decode_control(control_key(kind), value) if kind.control else decode(value)


def control_key(kind: RecordType) -> bytes:
    return b"\0\0" + kind.key.to_bytes(2, "big")


@EVERY
@settings(max_examples=share(25))
@given(data=st.data())
def test_every_type_and_version_encodes_and_decodes_with_unknown_tags(
    kind: RecordType, version: int, layout: Layout, data: st.DataObject
) -> None:
    content = data.draw(body(layout.fields, version))
    if kind.control:
        content["version"] = version
    original = Decoded(kind, version, content, layout.name)
    value = encode(original)
    decoded = read(kind, value)
    # A level range whose maximum is beyond 255 can look like a level with a tag; Kafka's never were.
    assume(isinstance(decoded, Decoded) and decoded.layout == layout.name)
    assert decoded == original
    assert encode(decoded) == value


@EVERY
@settings(max_examples=5)
@given(data=st.data())
def test_a_body_that_is_too_short_or_too_long_is_unreadable_and_kept(
    kind: RecordType, version: int, layout: Layout, data: st.DataObject
) -> None:
    content = data.draw(body(layout.fields, version, unknown_tags=False))
    if kind.control:
        content["version"] = version
    value = encode(Decoded(kind, version, content, layout.name))
    head = 2 if kind.control else 3  # bytes: the version of a control record, or the frame
    for wrong in [value[:end] for end in range(head, len(value))] + [value + b"\0"]:
        decoded = read(kind, wrong)
        if isinstance(decoded, Decoded):  # a level range without its last bytes, see above
            assert kind is table.FEATURE_LEVEL
            continue
        assert isinstance(decoded, Unreadable)
        assert (decoded.key, decoded.version) == (kind.key, version)
        assert encode(decoded) == wrong


@given(st.binary(max_size=80))
def test_any_value_is_decoded_or_kept_bit_for_bit(value: bytes) -> None:
    decoded = decode(value)
    if not isinstance(decoded, Decoded):
        assert encode(decoded) == value


@given(st.binary(max_size=6), st.binary(max_size=60))
def test_any_control_record_is_decoded_or_kept_bit_for_bit(key: bytes, value: bytes) -> None:
    decoded = decode_control(key, value)
    if not isinstance(decoded, Decoded):
        assert (encode(decoded), decoded.control_key) == (value, key)


@pytest.mark.parametrize(
    ("value", "key", "version", "reason", "name"),
    [  # a value begins with the frame version, the api key and the version of the record
        (bytes((1, 13, 0)) + b"body", 13, 0, RawReason.TYPE, None),
        (bytes((1, 14, 1)) + b"body", 14, 1, RawReason.VERSION, "CLIENT_QUOTA_RECORD"),
        (bytes((1, 30, 0)), 30, 0, RawReason.TYPE, None),
        (b"\1" + unsigned(0x7FFF) + b"\0", 0x7FFF, 0, RawReason.TYPE, None),
        (bytes((1, 0, 5)) + b"body", 0, 5, RawReason.VERSION, "REGISTER_BROKER_RECORD"),
        (bytes((0, 12, 0)) + b"body", -1, -1, RawReason.FRAME, None),
        (bytes((2, 12, 0)) + b"body", -1, -1, RawReason.FRAME, None),
    ],
)
def test_records_of_an_unknown_type_version_or_frame_are_kept(
    value: bytes, key: int, version: int, reason: RawReason, name: str | None
) -> None:
    decoded = decode(value)
    assert decoded == Raw(key, version, value, reason)
    assert isinstance(decoded, Raw)
    assert decoded.name == name
    assert encode(decoded) == value


@pytest.mark.parametrize(
    ("key", "value", "number", "version", "reason"),
    [  # the last two bytes of a key are the type, the first two bytes of a value its version
        (b"\0\0\0\1", b"\0\0", 1, 0, RawReason.TYPE),
        (b"\0\0\0\7", b"\0\1more", 7, 1, RawReason.TYPE),
        (b"\0\0\0\5", b"\0\1\0\1\0", 5, 1, RawReason.VERSION),
        (b"\0\0\0\5", b"\xff\xff\0\1\0", 5, -1, RawReason.VERSION),
    ],
)
def test_control_records_of_an_unknown_type_or_version_are_kept(
    key: bytes, value: bytes, number: int, version: int, reason: RawReason
) -> None:
    decoded = decode_control(key, value)
    assert decoded == Raw(number, version, value, reason, control=True, control_key=key)
    assert isinstance(decoded, Raw)
    assert decoded.name is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "without a value"),
        (b"", "cut"),
        (b"\1\x0c", "cut"),
        (b"\1" + unsigned(0x8000) + b"\0", "16 bits"),
        (no_op() + b"\0", "1 bytes behind the body"),
        (bytes((1, 12, 0, 0, 0, 1, 0)), "null for name"),
        (bytes((1, 12, 0, 2, 0xFF, 0, 1, 0)), "UTF-8"),
        (bytes((1, 20, 0, 2, 7, 0, 7, 0)), "tag 7 after tag 7"),
        (bytes((1, 20, 0, 2, 8, 0, 7, 0)), "tag 7 after tag 8"),
        (bytes((1, 20, 0, 1, 7, 9)), "9 bytes wanted"),
        (change(1, 1, fenced=1)[:-2] + bytes((2, 1, 0)), "behind the value of fenced"),
        (broker(1, 1)[:-4] + bytes((0, 7, 0, 0)), "7 for a boolean"),
        (bytes((1, 27, 0)) + bytes(21) + unsigned(1 << 30), "items of endPoints"),
        (bytes((1, 27, 0)) + bytes(21) + unsigned(0), "null for endPoints"),
    ],
)
def test_an_unreadable_value_has_a_reason_without_its_content(value: bytes | None, words: str) -> None:
    decoded = decode(value)
    assert isinstance(decoded, Unreadable)
    assert words in decoded.detail


@pytest.mark.parametrize(
    ("key", "value"), [(None, b"\0\0"), (b"\0\0\0\5", None), (b"\0\0", b"\0\0"), (b"\0\0\0\5", b"")]
)
def test_a_control_record_without_type_or_version_is_unreadable(key: bytes | None, value: bytes | None) -> None:
    assert isinstance(decode_control(key, value), Unreadable)


@pytest.mark.parametrize(
    ("content", "layout", "data"),
    [
        ("0366 6f 0015 00", "", {"name": "fo", "featureLevel": 21}),
        ("0366 6f 0001 0003 00", "3.0-3.2", {"name": "fo", "minFeatureLevel": 1, "maxFeatureLevel": 3}),
    ],
)
def test_the_two_layouts_of_a_feature_level_are_distinguished_and_remembered(
    content: str, layout: str, data: dict[str, Any]
) -> None:
    value = bytes((1, 12, 0)) + bytes.fromhex(content)
    decoded = decode(value)
    assert decoded == Decoded(table.FEATURE_LEVEL, 0, data, layout)
    assert encode(decoded) == value


@pytest.mark.parametrize(("value", "shortest"), [("0114008000", "01140000"), ("011580000300", "0115000300")])
def test_an_overlong_varint_is_encoded_as_kafka_writes_it(value: str, shortest: str) -> None:
    """A longer form, such as 8000 for 0, is valid for Kafka, which is not known to write one."""
    assert encode(decode(bytes.fromhex(value))).hex() == shortest


def test_an_absent_tagged_field_differs_from_a_field_with_the_default_value() -> None:
    absent, default = decode(change(1, 1)), decode(change(1, 1, fenced=0))
    assert isinstance(absent, Decoded)
    assert isinstance(default, Decoded)
    assert "fenced" not in absent.data
    assert default.data["fenced"] == 0
    assert encode(absent) != encode(default)


def test_a_known_tag_of_a_later_version_is_an_unknown_tag_of_an_earlier_one() -> None:
    later = change(1, 1, version=1, inControlledShutdown=1)
    decoded = decode(later[:2] + b"\0" + later[3:])
    assert isinstance(decoded, Decoded)
    assert decoded.data[UNKNOWN_TAGS] == ((1, b"\1"),)
    assert encode(decoded) == later[:2] + b"\0" + later[3:]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"name": "x"}, "featureLevel"),
        ({"name": "x", "featureLevel": 1, "other": 1}, "featureLevel"),
        ({"name": None, "featureLevel": 1}, "name cannot be null"),
        ({"name": 1, "featureLevel": 1}, "name: 1 is no str"),
        ({"name": "x", "featureLevel": 1 << 15}, "featureLevel: 32768 is no int16"),
        ({"name": "x", "featureLevel": 1, UNKNOWN_TAGS: ((7, b""), (7, b""))}, "tag 7 is given twice"),
    ],
)
def test_data_that_does_not_fit_its_schema_is_not_encoded(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        frame(table.FEATURE_LEVEL, data)


def test_a_field_of_a_later_version_is_not_encoded_at_an_earlier_version() -> None:
    with pytest.raises(ValueError, match="version 0 takes the fields"):
        change(1, 1, version=0, inControlledShutdown=1)


def test_a_control_record_is_encoded_with_its_type_and_version() -> None:
    key, value = control(table.KRAFT_VERSION, {"kRaftVersion": 1})
    assert (key, value) == (b"\0\0\0\5", b"\0\0\0\1\0")


@given(st.uuids())
def test_a_uuid_is_printed_as_kafka_prints_it(value: uuid.UUID) -> None:
    assert parse_kafka_uuid(kafka_uuid(value)) == value
    assert len(kafka_uuid(value)) == 22


def test_decoded_data_is_printed_as_by_the_dump_tool() -> None:
    data = {"id": uuid.UUID(int=0), "list": ({"a": None, UNKNOWN_TAGS: ((1, b""),)},)}
    assert to_json(data) == {"id": "A" * 22, "list": [{"a": None}]}


def test_each_record_type_has_its_own_number_and_a_name() -> None:
    assert len(NAMES) == len(set(NAMES.values()))
    assert len(table.BY_KEY) == len(table.METADATA_TYPES + table.CONTROL_TYPES)
    assert decode(level("x", 1)).version == 0
