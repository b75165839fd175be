"""Rows of metadata_records: every record and every damage of a file, with nothing secret and nothing lost."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from kraftlog.arrow import DAMAGED, DECODED, KEPT, LOG, RECORDS, SNAPSHOT, record_batches
from kraftlog.arrow.runs import BYTES, ROWS
from kraftlog.batches import HEADER_SIZE, DamageReason, Record
from kraftlog.encoding import encode_batch
from kraftlog.reading import UNREADABLE, Account, Reading
from kraftlog.records import Decoded, RawReason, decode, frame, to_json
from kraftlog.redaction import REDACTED, SECRET_FIELDS, redacted
from kraftlog.schema import table
from kraftlog.schema.others import USER_SCRAM_CREDENTIAL
from kraftlog.schema.types import UNKNOWN_TAGS
from tests.amounts import share
from tests.kraftlog.build import NOW, batch, broker, change, controller, level, no_op
from tests.kraftlog.dump import parse_dump
from tests.kraftlog.golden import CHANGES, FILES, dump_of, name
from tests.kraftlog.test_golden_logs import CONTROL_NAMES, RENAMED, WRITTEN
from tests.kraftlog.test_reading import PLAIN, SMALL, damaged_files

TYPED = RECORDS.names[RECORDS.get_field_index("node_id") :]
"""The columns of fields that several types of records have."""


def read(data: bytes, **given: Any) -> tuple[list[dict[str, Any]], Account]:
    reading = Reading(data)
    found = pa.Table.from_batches(list(record_batches(reading, **given)), RECORDS)
    found.validate(full=True)
    return found.to_pylist(), reading.account


def row(value: bytes, **given: Any) -> dict[str, Any]:
    """The row of one record."""
    (found,), _ = read(batch(0, value), **given)
    return found


def known(one: dict[str, Any]) -> dict[str, Any]:
    """The body without tags that no table knows, which Kafka does not print."""
    body: dict[str, Any] = json.loads(one["body"])
    body.pop(UNKNOWN_TAGS, None)
    return body


def typed(value: bytes) -> dict[str, Any]:
    """The columns in TYPED that a record has."""
    found = row(value)
    return {column: found[column] for column in TYPED if found[column] is not None}


@pytest.mark.parametrize("path", FILES, ids=name)
def test_every_row_of_a_real_file_equals_the_output_of_the_dump_tool(path: Path) -> None:
    rows, account = read(path.read_bytes(), redact=False)
    ours = [(entry["offset"], entry["record_type"], json.loads(entry["body"])) for entry in rows]
    dumped = parse_dump(dump_of(path))
    assert [entry[:2] for entry in ours] == [entry[:2] for entry in dumped]
    assert all(data is None or mine == data for (_, _, mine), (_, _, data) in zip(ours, dumped, strict=True))
    assert {(entry["status"], entry["reason"], entry["detail"], entry["raw"]) for entry in rows} == {
        (DECODED, None, None, None)
    }
    assert sum(entry["size"] for entry in rows) + account.headers == len(path.read_bytes())


def test_unredacted_bodies_of_records_equal_the_output_of_kafka() -> None:
    control: list[tuple[bytes, bytes]] = []
    values, expected = [], []
    for _, kind, _, data, hexadecimal in WRITTEN:
        value, ours = bytes.fromhex(hexadecimal), {RENAMED.get(name, name): each for name, each in data.items()}
        if kind in CONTROL_NAMES:
            control.append((CONTROL_NAMES[kind], value))
            (found,) = read(encode_batch([Record(0, 1, value, CONTROL_NAMES[kind])], leader_epoch=1, control=True))[0]
            assert known(found) == ours
        else:
            values.append(value)
            expected.append(ours)
    rows, account = read(batch(0, *values), redact=False)
    assert [known(entry) for entry in rows] == expected
    assert account.is_balanced
    shown, _ = read(batch(0, *values))
    for value, entry in zip(values, shown, strict=True):
        whole = decode(value)
        assert isinstance(whole, Decoded)
        assert known(entry) == to_json(redacted(whole).data)
    assert len(control) > 5


@settings(max_examples=share(150), deadline=None)
@given(damaged_files(*PLAIN))
def test_rows_and_headers_of_a_damaged_file_account_for_all_its_bytes(
    data: bytes,
) -> None:
    rows, account = read(data)
    plain = Reading(data)
    items = list(plain)
    assert account == plain.account
    assert len(rows) == len(items)
    assert sum(entry["size"] for entry in rows) + account.headers == account.size + account.inflated
    counted = {
        reason: sum(entry["size"] for entry in rows if entry["reason"] == reason and entry["status"] == DAMAGED)
        for reason in account.damaged
    }
    assert counted == {reason: share.bytes for reason, share in account.damaged.items()}


def test_damage_is_a_row_at_its_position() -> None:
    data = bytearray(batch(0, no_op()) + batch(1, no_op()) + batch(7, level("a.version", 1)))
    data[len(batch(0, no_op())) + HEADER_SIZE] ^= 1
    rows, _ = read(bytes(data), begins_at=1000)
    assert [(entry["offset"], entry["batch_position"], entry["status"], entry["reason"]) for entry in rows] == [
        (0, 1000, DECODED, None),
        (None, 1000 + len(batch(0, no_op())), DAMAGED, DamageReason.CRC.value),
        (None, 1000 + 2 * len(batch(0, no_op())), DAMAGED, DamageReason.OFFSET_ORDER.value),
        (7, 1000 + 2 * len(batch(0, no_op())), DECODED, None),
    ]
    assert rows[1]["size"] == len(batch(1, no_op()))
    assert rows[2]["size"] == 0


def test_undecoded_records_have_a_reason_and_their_bytes_only_without_redaction() -> None:
    unknown, newer, other, wrong = bytes((1, 99, 0)), bytes((1, 11, 5, 7)), bytes((0, 1, 1)), no_op() + b"\0"
    rows, _ = read(batch(0, unknown, newer, other, wrong))
    assert [
        (entry["status"], entry["reason"], entry["api_key"], entry["version"], entry["record_type"]) for entry in rows
    ] == [
        (KEPT, RawReason.TYPE.value, 99, 0, None),
        (KEPT, RawReason.VERSION.value, 11, 5, "USER_SCRAM_CREDENTIAL_RECORD"),
        (KEPT, RawReason.FRAME.value, None, None, None),
        (DAMAGED, UNREADABLE, 20, 0, "NO_OP_RECORD"),
    ]
    assert [entry["raw"] for entry in rows] == [None] * 4
    assert [entry["body"] for entry in rows] == [None] * 4
    rows, _ = read(batch(0, unknown, newer, other, wrong), redact=False)
    assert [entry["raw"] for entry in rows] == [unknown, newer, other, wrong]


def test_no_secret_is_in_any_column() -> None:
    credential = {
        "name": "a", "mechanism": 1, "iterations": 4096, UNKNOWN_TAGS: ((99, b"hunter2!"),),
        "salt": b"hunter2!", "storedKey": b"hunter2!", "serverKey": b"hunter2!",
    }  # fmt: skip
    config = {"resourceType": 4, "resourceName": "1", "name": "sasl.jaas.config", "value": "hunter2!"}
    cut = frame(USER_SCRAM_CREDENTIAL, credential)[:-1]
    values = [
        frame(USER_SCRAM_CREDENTIAL, credential),
        frame(table.CONFIG, config),
        cut,
        bytes((1, 99, 0)) + b"hunter2!",
    ]
    reading = Reading(batch(0, *values))
    found = list(record_batches(reading))
    assert not any(
        b"hunter2!" in bytes(each) for entry in found for column in entry.columns for each in column.buffers() if each
    )
    bodies = [json.loads(entry["body"]) for entry in pa.Table.from_batches(found).to_pylist()[:2]]
    assert {bodies[0][field] for field in SECRET_FIELDS & bodies[0].keys()} == {REDACTED}
    assert bodies[0][UNKNOWN_TAGS] == [{"tag": 99, "bytes": 8}]
    assert bodies[1]["value"] == REDACTED
    shown = row(frame(table.CONFIG, config), redact=False)
    assert json.loads(shown["body"])["value"] == "hunter2!"


ID = "AAAAAAAAAAAAAAAAAAAABw"
TOPIC = decode(bytes((1, 9, 0)) + bytes(15) + b"\7\0")  # RemoveTopic, with the topic id 7, whose text is ID
assert isinstance(TOPIC, Decoded)
UUID = TOPIC.data["topicId"]


def test_fields_that_many_record_types_have_are_columns() -> None:
    replicas = {"replicas": (1, 2), "removingReplicas": (), "addingReplicas": (), "leaderEpoch": 0, "partitionEpoch": 0}
    partition = {"partitionId": 3, "topicId": UUID, "isr": (1, 2), "leader": 1, **replicas}
    here = {"topic_id": ID, "partition": 3}
    changed = {"partitionId": 3, "topicId": UUID}
    registered = {"node_id": 4, "node_epoch": 7, "incarnation": ID}
    assert typed(broker(4, 7)) == {**registered, "fenced": True, "controlled_shutdown": False}
    assert typed(broker(4, 7, version=0, fenced=False)) == {**registered, "fenced": False}
    assert typed(controller(3001, 7)) == {"node_id": 3001, "incarnation": ID}
    assert typed(change(4, 7, fenced=-1, inControlledShutdown=1)) == {
        "node_id": 4, "node_epoch": 7, "fenced": False, "controlled_shutdown": True,
    }  # fmt: skip
    assert typed(change(4, 7, fenced=0)) == {"node_id": 4, "node_epoch": 7}
    assert typed(frame(table.FENCE_BROKER, {"id": 4, "epoch": 7})) == {"node_id": 4, "node_epoch": 7, "fenced": True}
    assert typed(frame(table.UNFENCE_BROKER, {"id": 4, "epoch": 7})) == {"node_id": 4, "node_epoch": 7, "fenced": False}
    assert typed(level("group.version", 1)) == {"feature": "group.version", "level": 1}
    assert typed(frame(table.REMOVE_FEATURE_LEVEL, {"name": "a"})) == {"feature": "a", "level": 0}
    assert typed(frame(table.TOPIC, {"name": "a", "topicId": UUID})) == {"topic_id": ID}
    assert typed(frame(table.REMOVE_TOPIC, {"topicId": UUID})) == {"topic_id": ID}
    assert typed(frame(table.PARTITION, partition)) == {**here, "leader": 1, "isr": [1, 2]}
    assert typed(frame(table.PARTITION_CHANGE, {**changed, "leader": -1, "isr": ()})) == {
        **here,
        "leader": -1,
        "isr": [],
    }
    assert typed(frame(table.PARTITION_CHANGE, {**changed, "leader": -2, "isr": None})) == here
    assert typed(frame(table.PARTITION_CHANGE, changed)) == here
    assert typed(no_op()) == {}


def test_a_level_that_is_a_range_is_its_maximum() -> None:
    # FeatureLevel in the layout of Kafka 3.0 to 3.2: levels 1 to 5 of the feature "a".
    assert typed(bytes((1, 12, 0, 2)) + b"a" + struct.pack(">hh", 1, 5) + b"\0") == {"feature": "a", "level": 5}


def test_kraft_version_has_a_row_like_any_other_level() -> None:
    rows, _ = read(CHANGES.read_bytes())
    found = [(entry["feature"], entry["level"]) for entry in rows if entry["record_type"] == table.KRAFT_VERSION.name]
    assert found[-1] == ("kraft.version", 1)


def test_rows_of_a_snapshot_have_the_origin_snapshot() -> None:
    assert {entry["origin"] for entry in read(SMALL, origin=SNAPSHOT)[0]} == {SNAPSHOT}
    assert {entry["origin"] for entry in read(SMALL)[0]} == {LOG}


def test_a_time_or_offset_beyond_int64_is_none() -> None:
    last = (1 << 63) - 1
    records = [Record(last, NOW, no_op()), Record(last + 5, last + 9, no_op())]
    data = encode_batch(records, leader_epoch=1, base_timestamp=last, max_timestamp=last)
    rows, account = read(data)
    assert [(entry["offset"], entry["timestamp_ms"]) for entry in rows] == [(last, NOW), (None, None)]
    assert account.is_balanced


def test_record_batches_are_bounded_in_rows_and_bytes() -> None:
    many = b"".join(batch(start, *[no_op()] * 1000) for start in range(0, 300_000, 1000))
    sizes = [batch.num_rows for batch in record_batches(Reading(many))]
    assert sum(sizes) == 300_000
    assert max(sizes) <= ROWS
    large = frame(table.CONFIG, {"resourceType": 2, "resourceName": "\0" * 30_000, "name": "a", "value": None})
    text = b"".join(batch(at, *[large] * 100) for at in range(0, 1000, 100))
    # JSON has six bytes for each zero, and the name has a column of its own. All of it would take 200 MB.
    assert max(batch.nbytes for batch in record_batches(Reading(text))) < 8 * BYTES


def test_an_empty_file_has_no_rows() -> None:
    assert list(record_batches(Reading(b""))) == []


def test_the_readers_of_files_can_be_imported_without_pyarrow() -> None:
    code = "import sys; sys.modules['pyarrow'] = None; import kraftlog.reading, kraftlog.as_json"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_control_record_is_kept_as_bytes() -> None:
    key, value = b"\0\0\0\x63", b"\0\0"
    ((entry,), _) = read(encode_batch([Record(0, 1, value, key)], leader_epoch=1, control=True))
    assert (entry["is_control"], entry["api_key"], entry["status"], entry["record_type"]) == (True, 99, KEPT, None)


def test_an_api_key_beyond_its_column_is_none() -> None:
    (found,), _ = read(batch(0, b"\1\xff\xff\x7f\xff"))  # the key is a varint of three bytes
    assert (found["api_key"], found["version"], found["status"]) == (None, None, DAMAGED)
