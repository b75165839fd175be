"""Rows by columns, which read many records at once, equal rows of records decoded one by one, also of damaged files."""

from __future__ import annotations

import random
import struct
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraftlog import arrow
from kraftlog.arrow import RECORDS, columns, fields, plain, record_batches, runs
from kraftlog.arrow.framing import Records
from kraftlog.arrow.lines import lines
from kraftlog.batches import HEADER_SIZE, Record
from kraftlog.edges import Positions
from kraftlog.encoding import encode_batch
from kraftlog.lines import lines as lines_alone
from kraftlog.reading import Entry, Reading
from kraftlog.records import MAX_RECORD, Decoded, encode, frame
from kraftlog.schema import RecordType, table
from kraftlog.schema.types import Layout
from tests.amounts import share
from tests.bench.segments import segment
from tests.fuzz.decoders import resealed
from tests.kraftlog.build import batch, change, control_batch, level, no_op
from tests.kraftlog.golden import FILES
from tests.kraftlog.one_by_one import assert_same, compare_lines
from tests.kraftlog.strategies import TYPES_AND_VERSIONS, body, label, usual
from tests.kraftlog.test_golden_logs import CONTROL_NAMES, WRITTEN
from tests.kraftlog.test_reading import damaged_files

METADATA = [each for each in TYPES_AND_VERSIONS if not each[0].control]
READ = [(kind, version) for kind, version, layout in METADATA if fields.is_read(kind) and layout is kind.layouts[0]]
WRITTEN_VALUES = [bytes.fromhex(text) for _, kind, _, _, text in WRITTEN if kind not in CONTROL_NAMES]
BUSY = segment(1500, (1, 2, 39))  # 1,500 records, in batches of 1, 2 or 39


@pytest.fixture(autouse=True, scope="module")
def _few_are_enough() -> Iterator[None]:
    """Lower the limit, so that small inputs are read many at once too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "_FEW", 1)
        patch.setattr(runs, "_FEW", 1)
        yield


@pytest.fixture
def read_alone(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Indices of the records that `columns` gives up and decodes one by one; it grows while a test reads."""
    alone: list[int] = []
    one_by_one = columns._one_by_one

    def noted(reading: Reading, found: Records, which: Positions) -> Iterator[tuple[int, Entry]]:
        alone.extend(which.tolist())
        return one_by_one(reading, found, which)

    monkeypatch.setattr(columns, "_one_by_one", noted)
    return alone


def compare(data: bytes, redact: bool = True) -> list[dict[str, Any]]:
    """Compare rows, lines and account of both ways to read a file. Returns the rows."""
    compare_lines(data, lines_alone, redact)
    fast, slow = Reading(data), Reading(data)
    together = pa.Table.from_batches(list(record_batches(fast, begins_at=5, redact=redact)), RECORDS)
    together.validate(full=True)
    rows = [plain.row(item, arrow.LOG, 5, redact) for item in slow]
    assert together.to_pylist() == (plain.record_batch(rows).to_pylist() if rows else [])
    assert_same(fast, slow)
    found: list[dict[str, Any]] = together.to_pylist()
    return found


@pytest.mark.parametrize(("kind", "version"), READ, ids=[label(kind, version, "") for kind, version in READ])
def test_columns_of_many_usual_records_equal_those_decoded_one_by_one(
    kind: RecordType, version: int, read_alone: list[int]
) -> None:
    chance = random.Random(f"{kind.name} {version}")
    values = [frame(kind, usual(kind.layouts[0].fields, version, chance), version) for _ in range(300)]
    rows = compare(batch(0, *values))
    assert len(rows) == 300
    assert read_alone == []
    assert {row["record_type"] for row in rows} == {kind.name}


@pytest.mark.parametrize(
    ("kind", "version", "layout"), METADATA, ids=[label(kind, version, each.name) for kind, version, each in METADATA]
)
@settings(max_examples=share(8), suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_columns_of_whole_and_damaged_records_equal_those_decoded_one_by_one(
    kind: RecordType, version: int, layout: Layout, data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(body(layout.fields, version), min_size=1, max_size=4))
    values = [encode(Decoded(kind, version, each, layout.name)) for each in drawn]
    chance = data.draw(st.randoms(use_true_random=False))
    values += [frame(kind, usual(kind.layouts[0].fields, version, chance), version) for _ in range(3)]
    for value in list(values):
        changed = bytearray(value)
        for _ in range(chance.randrange(4)):
            changed[chance.randrange(len(changed))] = chance.choice((0, 1, 2, 127, 128, 255, chance.randrange(256)))
        values.append(bytes(changed))
        values.append(value[: chance.randrange(len(value) + 1)])
    chance.shuffle(values)
    compare(batch(0, *values), redact=chance.random() < 0.5)


def test_columns_of_files_written_by_kafka_equal_those_decoded_one_by_one() -> None:
    for path in FILES:
        compare(path.read_bytes())
    assert len(compare(b"".join(batch(start * len(WRITTEN_VALUES), *WRITTEN_VALUES) for start in range(3)))) > 100
    compare(batch(0, *WRITTEN_VALUES), redact=False)


@settings(max_examples=share(40))
@given(damaged_files(BUSY[:6_000], most=6))
def test_columns_of_a_damaged_file_equal_those_decoded_one_by_one(data: bytes) -> None:
    compare(data)


@pytest.mark.parametrize("records", [1, 64, 65, 500])
def test_columns_of_small_and_large_batches_equal_those_decoded_one_by_one(records: int) -> None:
    assert len(compare(segment(1200, (records,)))) == 1200


def test_unusual_batches_between_usual_ones_stay_in_order() -> None:
    parts = [
        batch(0, no_op(), level("a.version", 1)),
        control_batch(2, (table.SNAPSHOT_FOOTER, {})),
        batch(3, no_op(), attributes=1),
        batch(9, change(1, 2, fenced=1), no_op(), bytes((1, 99, 0))),
        batch(12, no_op(), epoch=0),
        bytes(100),
        batch(13, no_op()),
    ]
    rows = compare(b"".join(parts))
    assert [row["offset"] for row in rows] == [0, 1, 2, 3, None, 9, 10, 11, None, 12, None, 13]


def test_columns_of_unusually_framed_records_equal_those_decoded_one_by_one() -> None:
    long = frame(table.CONFIG, {"resourceType": 2, "resourceName": "a" * 9000, "name": "b", "value": None})
    far = 1 << 62
    for data in (
        encode_batch([Record(0, 1, no_op(), b"key"), Record(1, 1, no_op())], leader_epoch=1),
        encode_batch([Record(0, 1, None), Record(1, 1, no_op())], leader_epoch=1),
        encode_batch([Record(0, far, no_op()), Record(1, -far, no_op())], leader_epoch=1),
        encode_batch([Record(far, 5, no_op()), Record(far + 1, 6, no_op())], leader_epoch=1),
        encode_batch([Record(0, 5, no_op()), Record(5, 1 << 40, no_op()), Record(3, 2, no_op())], leader_epoch=1),
        batch(0, no_op(), long, no_op()),
        batch(0, b"", no_op(), b"\1", b"\1\x14", b"\1\x14\0", b"\1\xff\xff\3\0\0"),
        batch(0, *[no_op()] * 70, long, *[no_op()] * 70),
        batch(0, no_op(), frame(table.TOPIC, {"name": "a" * (MAX_RECORD + 1), "topicId": uuid.UUID(int=1)}), no_op()),
        encode_batch([Record(0, 1, no_op())], leader_epoch=1)[:-1] + b"\2",
    ):
        compare(data)
        compare(resealed(data))


def test_columns_of_a_batch_with_a_wrong_record_count_equal_those_decoded_one_by_one() -> None:
    for claimed in (0, 1, 3, 1 << 30):
        data = bytearray(batch(0, no_op(), no_op()))
        struct.pack_into(">i", data, HEADER_SIZE - 4, claimed)
        compare(batch(0, no_op()) + resealed(bytes(data)))


def test_records_with_very_many_items_in_an_array_are_read_one_by_one(read_alone: list[int]) -> None:
    # A count of two bytes ends at 16,383, and at most 32 structs (`fields._ITEMS`) are read together.
    many = {"topicId": uuid.UUID(int=1), "partitionId": 1, "isr": tuple(range(20_000))}
    ranges = tuple({"name": "a", "minSupportedVersion": 1, "maxSupportedVersion": 2} for _ in range(500))
    registered = {"controllerId": 1, "incarnationId": uuid.UUID(int=1), "zkMigrationReady": False, "endPoints": ()}
    registration = frame(table.REGISTER_CONTROLLER, {**registered, "features": ranges})
    # More than 64 records, as in a smaller batch the long record would make the whole batch unusual.
    compare(batch(0, frame(table.PARTITION_CHANGE, many, 2), no_op(), registration, *[no_op()] * 64))
    assert sorted(read_alone) == [0, 2]


def test_columns_of_names_that_json_escapes_equal_those_decoded_one_by_one() -> None:
    names = ('quo"te', "back\\slash", "tab\t", "del\x7f", "nul\0", "ünïcode", "\u2028", "𝔘", "", "plain", "</script>")
    values = [frame(table.TOPIC, {"name": name, "topicId": uuid.UUID(int=7)}) for name in names]
    values += [
        frame(table.CONFIG, {"resourceType": kind, "resourceName": name, "name": config, "value": value})
        for name in names
        for config in (*names, "retention.ms", "sasl.jaas.config")
        for kind in (-1, 2, 4)
        for value in (None, "1", "ü")
    ]
    assert len(compare(batch(0, *values))) == len(values)
    compare(batch(0, *values), redact=False)


def test_columns_of_a_config_name_that_is_no_utf_8_equal_those_decoded_one_by_one() -> None:
    whole = frame(table.CONFIG, {"resourceType": 2, "resourceName": "a", "name": "retention.ms", "value": "1"})
    rows = compare(batch(0, whole, whole.replace(b"retention", b"ret\xffntion"), whole))
    assert [row["status"] for row in rows] == [arrow.DECODED, arrow.DAMAGED, arrow.DECODED]


@pytest.mark.parametrize("unusual", [False, True])
def test_lines_of_many_records_equal_the_lines_of_each_record(unusual: bool) -> None:
    data = BUSY
    if unusual:
        older = bytes((1, 12, 0, 2)) + b"a\0\1\0\5\0"
        names = ("ünïcode", 'quo"te', "")
        topics = [frame(table.TOPIC, {"name": name, "topicId": uuid.UUID(int=7)}) for name in names]
        more = batch(1500, *WRITTEN_VALUES, older, *topics, bytes((1, 99, 0)), no_op() + b"\0")
        data = BUSY + more + batch(9999, no_op()) + b"\2\2"
    found, _ = compare_lines(data, lines)
    assert len(found) < 1500  # a text has the lines of many records
