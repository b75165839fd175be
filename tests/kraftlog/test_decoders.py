"""The compiled decoders, compared with a plain reader of their schemas and with records that Kafka wrote."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.decoders.parts import Reader
from kraftlog.errors import MalformedError
from kraftlog.records import Decoded, Unreadable, decode, decode_control, encode, readers_of
from kraftlog.schema import RecordType, table
from kraftlog.schema.others import OTHER_TYPES
from kraftlog.schema.types import Layout
from tests.amounts import share
from tests.kraftlog.plain_reader import reader as plain_reader
from tests.kraftlog.strategies import TYPES_AND_VERSIONS, body, label
from tests.kraftlog.test_golden_logs import CONTROL_NAMES, WRITTEN

EVERY = pytest.mark.parametrize(
    ("kind", "version", "layout"), TYPES_AND_VERSIONS, ids=[label(k, v, lay.name) for k, v, lay in TYPES_AND_VERSIONS]
)


def compiled(kind: RecordType, version: int, layout: Layout) -> Reader:
    readers = readers_of(kind.control, kind.key)
    assert readers is not None
    return {name: reader for reader, name in readers[1][version]}[layout.name]


def outcome(reader: Reader, data: bytes) -> object:
    """The result of a decoder, or its refusal."""
    try:
        return reader(data, 0)
    except (MalformedError, IndexError, struct.error, UnicodeDecodeError):
        return "refused"


@EVERY
@settings(max_examples=share(25))
@given(data=st.data())
def test_a_decoder_reads_the_same_as_a_plain_reader_of_its_schema(
    kind: RecordType, version: int, layout: Layout, data: st.DataObject
) -> None:
    content = encode(Decoded(kind, version, data.draw(body(layout.fields, version)), layout.name))
    value = bytearray(content if kind.control else content[3:])
    ours, plain = compiled(kind, version, layout), plain_reader(layout, version)
    assert ours(bytes(value), 0) == plain(bytes(value), 0)
    for _ in range(data.draw(st.integers(0, 3))):  # and it refuses what that refuses
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(value[: data.draw(st.integers(0, len(value)))])
    for damaged in (bytes(value), cut):
        assert repr(outcome(ours, damaged)) == repr(outcome(plain, damaged))  # NaN is not equal to itself


def test_the_samples_have_a_record_by_kafka_of_every_type_version_and_layout_of_the_tables() -> None:
    read = set()
    for _, kind, _, _, hexadecimal in WRITTEN:
        value = bytes.fromhex(hexadecimal)
        decoded = decode_control(CONTROL_NAMES[kind], value) if kind in CONTROL_NAMES else decode(value)
        assert isinstance(decoded, Decoded)
        read.add((decoded.type.name, decoded.version, decoded.layout))
    assert read == {(kind.name, version, layout.name) for kind, version, layout in TYPES_AND_VERSIONS}


def test_the_names_of_records_that_are_not_decoded_are_those_of_their_table() -> None:
    assert {kind.key: kind.name for kind in OTHER_TYPES} == table.OTHER_NAMES


@pytest.mark.parametrize(
    ("key", "before"),
    [(3, bytes(20)), (10, b"\1\1"), (14, b""), (27, bytes(21))],
    ids=["int32", "string", "struct", "struct of a controller"],
)
def test_a_length_is_checked_before_memory_is_allocated_for_the_items(key: int, before: bytes) -> None:
    """`before`: bytes of the fields before the array, whose length claims 2**28 - 2 items."""
    decoded = decode(bytes((1, key, 0)) + before + b"\xff\xff\xff\x7f" + bytes(100))
    assert isinstance(decoded, Unreadable)
    assert "268435454" in decoded.detail


@pytest.mark.parametrize(
    ("key", "name", "body", "data"),
    [
        # KIP-746 gave 15 to the change of a registration and 16 to the removal of a level; Kafka moved the first.
        (15, "PRODUCER_IDS_RECORD", "00000001 0000000000000002 0000000000000003",
         {"brokerId": 1, "brokerEpoch": 2, "nextProducerId": 3}),
        (16, "REMOVE_FEATURE_LEVEL_RECORD", "0361 62", {"name": "ab"}),
        (17, "BROKER_REGISTRATION_CHANGE_RECORD", "00000001 0000000000000002", {"brokerId": 1, "brokerEpoch": 2}),
        # Kafka 3.5 let 1 and 2 change places: the number stays, its name depends on the metadata.version.
        (21, "ZK_MIGRATION_STATE_RECORD", "01", {"zkMigrationState": 1}),
        (21, "ZK_MIGRATION_STATE_RECORD", "02", {"zkMigrationState": 2}),
        # 29 was proposed for another record as well.
        (29, "UNREGISTER_CONTROLLER_RECORD", "00000bb9", {"controllerId": 3001}),
    ],
)  # fmt: skip
def test_a_renumbered_record_key_decodes_as_kafka_released_it(
    key: int, name: str, body: str, data: dict[str, object]
) -> None:
    decoded = decode(bytes((1, key, 0)) + bytes.fromhex(body) + b"\0")
    assert isinstance(decoded, Decoded)
    assert (decoded.type.name, dict(decoded.data), decoded.layout) == (name, data, "")
