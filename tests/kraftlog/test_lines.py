"""Lines that are written directly from the bytes of many records equal those of each record by itself; so do accounts.

The escapes of JSON are tested with the rows of Arrow (`test_arrow_columns.compare`).
"""

from __future__ import annotations

import base64
import random
import struct
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog import lines as module
from kraftlog.batches import HEADER_SIZE, Damage, Record
from kraftlog.encoding import encode_batch
from kraftlog.lines import lines
from kraftlog.reading import Reading
from kraftlog.records import MAX_RECORD, Decoded, encode, frame
from kraftlog.redaction import SECRET_FIELDS, has_secrets
from kraftlog.schema import RecordType, table
from kraftlog.schema.others import CLIENT_QUOTA, USER_SCRAM_CREDENTIAL
from kraftlog.schema.types import UNKNOWN_TAGS, Layout
from tests.amounts import share
from tests.bench.segments import segment
from tests.fuzz.decoders import resealed
from tests.kraftlog.build import batch, no_op
from tests.kraftlog.golden import FILES
from tests.kraftlog.one_by_one import assert_same, compare_lines
from tests.kraftlog.strategies import TYPES_AND_VERSIONS, body, label, usual
from tests.kraftlog.test_reading import damaged_files

METADATA = [each for each in TYPES_AND_VERSIONS if not each[0].control]
OPEN = [(kind, version) for kind, version, layout in METADATA if not has_secrets(kind) and layout is kind.layouts[0]]
BUSY = segment(1500, (1, 2, 39))
IDLE = b"".join(batch(at, no_op(), epoch=3) for at in range(60))


@pytest.mark.parametrize(("kind", "version"), OPEN, ids=[label(kind, version, "") for kind, version in OPEN])
def test_usual_records_of_a_type_without_secrets_are_written_directly(kind: RecordType, version: int) -> None:
    chance = random.Random(f"{kind.name} {version}")
    values = [frame(kind, usual(kind.layouts[0].fields, version, chance), version) for _ in range(200)]
    _, single_entries = compare_lines(batch(0, no_op()) + batch(1, *values), lines)
    assert [entry.offset for entry in single_entries] == [0]  # the first record of a file is always written by itself


@pytest.mark.parametrize(
    ("kind", "version", "layout"), METADATA, ids=[label(kind, version, each.name) for kind, version, each in METADATA]
)
@settings(max_examples=share(25), deadline=None)
@given(data=st.data())
def test_lines_of_whole_and_damaged_records_equal_those_of_single_records(
    kind: RecordType, version: int, layout: Layout, data: st.DataObject
) -> None:
    bodies = data.draw(st.lists(body(layout.fields, version), min_size=1, max_size=3))
    chance = data.draw(st.randoms(use_true_random=False))
    values = [encode(Decoded(kind, version, each, layout.name)) for each in bodies]
    values.append(frame(kind, usual(kind.layouts[0].fields, version, chance), version))
    for value in list(values):
        changed = bytearray(value)
        for _ in range(chance.randrange(4)):
            changed[chance.randrange(len(changed))] = chance.choice((0, 1, 2, 127, 128, 255, chance.randrange(256)))
        values += [bytes(changed), value[: chance.randrange(len(value) + 1)], value + b"\0"]
    chance.shuffle(values)
    compare_lines(batch(0, no_op()) + batch(1, *values), lines, redact=chance.random() < 0.5)


def test_the_types_with_secrets_are_derived_from_the_tables() -> None:
    assert {kind.name for kind, *_ in METADATA if has_secrets(kind)} == {table.CONFIG.name, USER_SCRAM_CREDENTIAL.name}


def test_no_line_has_a_secret_unless_secrets_are_requested() -> None:
    secret = b"hunter2-93fc"
    scram = {"name": "u", "mechanism": 1, "iterations": 4096, **dict.fromkeys(sorted(SECRET_FIELDS), secret)}
    names = {field.name for field in USER_SCRAM_CREDENTIAL.layouts[0].fields.fields}
    values = [
        frame(USER_SCRAM_CREDENTIAL, {name: value for name, value in scram.items() if name in names}),
        frame(table.CONFIG, {"resourceType": 4, "resourceName": "1", "name": "own", "value": secret.decode()}),
        frame(table.FENCE_BROKER, {"id": 1, "epoch": 2, UNKNOWN_TAGS: ((77, secret),)}),
    ]
    data = batch(0, no_op()) + batch(1, *values)
    hidden, shown = (str(compare_lines(data, lines, redact)[0]) for redact in (True, False))
    counts = [text.count(secret.decode()) + text.count(base64.b64encode(secret).decode()) for text in (hidden, shown)]
    assert counts == [0, 2 + len(SECRET_FIELDS & names)]  # the config, the unknown tag, and the credential's fields


@pytest.mark.parametrize("at_once", [1, 100, 5000, 1 << 30])
def test_lines_are_the_same_for_any_number_of_lines_at_once(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    items, _ = compare_lines(BUSY, lines)
    texts = [len(item) for item in items if isinstance(item, str)]
    assert (len(texts) > 1000) == (at_once == 1)  # then each text has one line; BUSY has 1,500 records
    for path in FILES:
        compare_lines(path.read_bytes(), lines)


def test_the_text_in_memory_does_not_grow_with_the_batch() -> None:
    entity = tuple({"entityType": "", "entityName": None} for _ in range(20_000))
    quota = frame(CLIENT_QUOTA, {"entity": entity, "key": "", "value": 1.0, "remove": False})
    texts, single_entries = compare_lines(batch(0, no_op()) + batch(1, *[quota] * 30), lines)
    assert len(single_entries) == 1  # the other records are written directly from their bytes
    # A pair of `entity` takes 36 characters of JSON. Two records have more bytes than a text is made of (`_AT_ONCE`),
    # so no text has three of the 30.
    assert max(len(str(text)) for text in texts) < 3 * 36 * len(entity)


def test_lines_of_unusually_framed_records_equal_those_of_single_records() -> None:
    far, large = 1 << 62, frame(table.TOPIC, {"name": "a" * (MAX_RECORD + 1), "topicId": uuid.UUID(int=1)})
    for records in (
        [Record(1, 1, no_op()), Record(2, 1, no_op(), b"key"), Record(3, 1, no_op())],
        [Record(1, 1, no_op()), Record(2, 1, None), Record(3, 1, no_op())],
        [Record(1, far, no_op()), Record(2, -far, no_op())],
        [Record(1, 5, no_op()), Record(6, 1 << 40, no_op()), Record(4, 2, no_op())],
        [Record(1, 1, no_op()), Record(2, 1, large), Record(3, 1, no_op())],
        [Record(1 + at, 1, bytes((1, at % 256, at // 256))) for at in range(600)],
    ):
        compare_lines(batch(0, no_op()) + encode_batch(records, leader_epoch=1), lines)
    for claimed in (0, 1, 3, 1 << 30):
        data = bytearray(batch(1, no_op(), no_op()))
        struct.pack_into(">i", data, HEADER_SIZE - 4, claimed)
        compare_lines(batch(0, no_op()) + resealed(bytes(data)), lines)
        compare_lines(batch(0, no_op()) + resealed(bytes(data)) + BUSY, lines)


@settings(max_examples=share(200), deadline=None)
@given(damaged_files(BUSY[:6_000], IDLE, BUSY[:3_000] + IDLE))
def test_lines_and_damage_of_a_damaged_file_equal_those_of_single_records(data: bytes) -> None:
    compare_lines(data, lines)
    fast, slow = Reading(data), Reading(data)
    assert list(fast.damages()) == [item for item in slow if isinstance(item, Damage)]
    assert_same(fast, slow)


def test_a_no_op_batch_with_a_wrong_checksum_among_thousands_is_damage() -> None:
    data = bytearray(b"".join(batch(at, no_op()) for at in range(3000)))
    size = len(data) // 3000
    data[2000 * size + 30] ^= 1
    reading = Reading(bytes(data))
    damage, gap = reading.damages()
    assert (damage.position, damage.size) == (2000 * size, size)
    assert gap.detail == "base offset 2001, expected 2000"
    assert (reading.account.batches, reading.account.is_balanced, reading.account.is_sound) == (2999, True, False)


@pytest.mark.parametrize("records", [0, 2])
def test_a_no_op_batch_that_claims_other_than_one_record_is_damage(records: int) -> None:
    claims = bytearray(batch(1, no_op()))
    struct.pack_into(">i", claims, HEADER_SIZE - 4, records)
    data = batch(0, no_op()) + resealed(bytes(claims))
    fast, slow = Reading(data), Reading(data)
    assert list(fast.damages()) == [item for item in slow if isinstance(item, Damage)] != []
    assert_same(fast, slow)


def test_a_gap_and_an_older_epoch_among_idle_batches_are_reported() -> None:
    data = IDLE + batch(70, no_op(), epoch=3) + batch(71, no_op(), epoch=2)
    reading = Reading(data)
    assert [damage.detail for damage in reading.damages()] == ["base offset 70, expected 60", "leader epoch 2 after 3"]
    assert reading.account.breaks == 2
