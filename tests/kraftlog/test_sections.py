"""Images of selected sections: these equal those of the whole image, and other sections are not read and not stored."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable
from pathlib import Path

import pytest

from kraftlog import Batch, Image, Replay, Section, SectionNotRead, SnapshotReader, walk
from kraftlog.batches import Codec, Record
from kraftlog.encoding import encode_batch
from kraftlog.records import MAX_RECORD, frame
from kraftlog.schema import table
from tests.kraftlog.build import NOW, abort, batch, begin, broker, change, controller, end, level, log, snapshot
from tests.kraftlog.golden import SEGMENTS, SNAPSHOTS, name, snapshot_id

ALL = 1 << 40
CHOICES = [chosen for size in range(5) for chosen in itertools.combinations(Section, size)]
FIELDS = {
    Section.REGISTRATIONS: ("brokers", "controllers", "registered", "returned", "unregistered"),
    Section.FEATURES: ("features", "features_offset", "former_levels", "kraft_version", "feature_record_kraft_version"),
    Section.QUORUM: ("voters", "leader_id"),
    Section.MIGRATION: ("zk_migration_state", "is_migrating"),
    Section.PARTITIONS: ("partitions",),
    Section.CLIENTS: ("clients",),
    Section.CONFIGS: ("configs",),
}


def image_of(data: bytes, sections: Iterable[Section] = Section) -> Image:
    replay = Replay(sections=sections)
    replay.append(data, below=ALL)
    return replay.image()


def batches(data: bytes) -> list[Batch]:
    return [each for each in walk(data) if isinstance(each, Batch)]


def agree(part: Image, whole: Image, sections: Iterable[Section]) -> None:
    """Compare an image of these sections with the whole one; other sections of it raise an error."""
    for field in ("offset", "epoch", "timestamp_ms", "in_transaction", "counts", "unreadable"):
        assert getattr(part, field) == getattr(whole, field)
    for section, fields in FIELDS.items():
        for field in fields:
            if section in sections:
                assert getattr(part, field) == getattr(whole, field)
            else:
                with pytest.raises(SectionNotRead, match=section.name):
                    getattr(part, field)


@pytest.mark.parametrize("path", SEGMENTS, ids=name)
def test_selected_sections_of_a_real_log_equal_those_of_the_whole_image(path: Path) -> None:
    data = path.read_bytes()
    complete = image_of(data)
    for sections in CHOICES:
        part = image_of(data, sections)
        agree(part, complete, sections)
        assert pickle.loads(pickle.dumps(part)) == part, sections


@pytest.mark.parametrize("path", SNAPSHOTS, ids=name)
@pytest.mark.parametrize("sections", [(), (Section.FEATURES,), (Section.QUORUM, Section.REGISTRATIONS)])
def test_selected_sections_of_a_real_snapshot_equal_those_of_the_whole_image(
    path: Path, sections: tuple[Section, ...]
) -> None:
    end_offset, epoch = snapshot_id(path)
    part, whole = Replay(sections=sections), Replay(sections=Section)
    for replay in (part, whole):
        replay.load_snapshot(path.read_bytes(), end_offset=end_offset, epoch=epoch)
    agree(part.image(), whole.image(), sections)


def test_the_tested_fields_are_those_of_the_sections() -> None:
    assert FIELDS.keys() == set(Section)
    properties = {field for field, value in vars(Image).items() if isinstance(value, property)}
    assert properties == {field for fields in FIELDS.values() for field in fields}


@pytest.mark.parametrize(
    "data",
    [
        batch(0, bytes((1, 0, 3)) + b"\xff", level("a", 1)),
        batch(0, bytes((1, 0, 9)) + b"a later release", level("a", 1)),
        batch(0, broker(1, 5, rack="x" * MAX_RECORD), level("a", 1)),
        batch(0, change(7, 7, fenced=1), level("a", 1)),
    ],
    ids=["damaged", "newer", "large", "contradicts"],
)
@pytest.mark.parametrize("slow", [False, True], ids=["plain", "with keys, in gzip"])
def test_records_of_sections_that_are_not_selected_are_not_decoded(data: bytes, slow: bool) -> None:
    if slow:
        (found,) = batches(data)
        records = [Record(at, NOW + at, record.value, b"k") for at, record in enumerate(found.records())]
        data = encode_batch(records, leader_epoch=1, attributes=Codec.GZIP if len(data) < MAX_RECORD else 0)
    image = image_of(data, [Section.FEATURES])
    assert (image.features, image.unreadable, image.counts[12]) == ({"a": 1}, 0, 1)
    assert sum(image.counts.values()) == 2


@pytest.mark.parametrize("close", [end(), abort()], ids=["End", "Abort"])
def test_a_transaction_keeps_only_records_of_selected_sections(close: bytes) -> None:
    data = log([level("a", 1)], [begin(), broker(1, 5), level("a", 2)], [controller(3001), close])
    agree(image_of(data, [Section.FEATURES]), image_of(data), [Section.FEATURES])
    open_ = Replay(sections=[Section.FEATURES])
    open_.append(log([begin(), *(broker(n, 5) for n in range(100))]), below=ALL)
    assert open_.weight < 1000


def test_records_of_sections_that_are_not_selected_have_no_weight() -> None:
    values = [level("a", 1), *(broker(n, 5) for n in range(1000))]
    replay, reader = (
        Replay(sections=[Section.FEATURES], limit=10_000),
        SnapshotReader(end_offset=9, epoch=1, sections=[Section.FEATURES], limit=10_000),
    )
    replay.append(batch(0, *values), below=ALL)
    reader.feed(snapshot(*values))
    assert replay.image().features == reader.finish().image().features == {"a": 1}
    assert replay.weight < 1500


def test_a_replay_keeps_the_selected_sections_after_a_snapshot() -> None:
    replay = Replay(sections=[Section.MIGRATION])
    value = frame(table.ZK_MIGRATION_STATE, {"zkMigrationState": 2})
    replay.load_snapshot(snapshot(value, broker(1, 5)), end_offset=9, epoch=1)
    assert replay.image().zk_migration_state == 2
    with pytest.raises(SectionNotRead):
        len(replay.image().brokers)
