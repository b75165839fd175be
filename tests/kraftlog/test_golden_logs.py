"""Logs of real controllers, compared with the dump tool of Kafka and with the known history of their clusters."""

from __future__ import annotations

import dataclasses
import gzip
import itertools
import json
from pathlib import Path

import pytest

from kraftlog import Image, Quorum, Replay
from kraftlog.records import Decoded, decode, decode_control, encode, to_json
from tests.kraftlog.build import reencode
from tests.kraftlog.dump import compare, parse_dump
from tests.kraftlog.golden import (
    CHANGES,
    FILES,
    GOLDEN,
    KRAFT,
    MIGRATION,
    SEGMENTS,
    SNAPSHOTS,
    batches_of,
    dump_of,
    name,
    snapshot_id,
)

WRITTEN = [
    (path.name.removesuffix(".jsonl.gz"), *json.loads(line).values())
    for path in sorted(GOLDEN.glob("records/*.jsonl.gz"))
    for line in gzip.decompress(path.read_bytes()).decode().splitlines()
]
OLDER = {
    "FeatureLevelRecord": ("3.0-3.2", {"3.0.2", "3.2.3"}),
    "UserScramCredentialRecord": ("3.0-3.4", {"3.0.2", "3.2.3"}),
    "DelegationTokenRecord": ("3.0-3.5", {"3.0.2", "3.2.3", "3.5.2"}),
}
"""Types with two layouts under version 0: the name of the older one, and who wrote it."""
RENAMED = {"producerIdsEnd": "nextProducerId"}
CONTROL_NAMES = {
    "LeaderChangeMessage": b"\0\0\0\2",
    "SnapshotHeaderRecord": b"\0\0\0\3",
    "SnapshotFooterRecord": b"\0\0\0\4",
    "KRaftVersionRecord": b"\0\0\0\5",
    "VotersRecord": b"\0\0\0\6",
}


def at(path: Path, offset: int) -> Image:
    """The image of a segment below an offset."""
    replay = Replay()
    assert replay.append(path.read_bytes(), below=offset) == offset
    return replay.image()


@pytest.mark.parametrize("path", FILES, ids=name)
def test_every_batch_and_record_agrees_with_the_dump_tool(path: Path) -> None:
    assert compare(path.read_bytes(), dump_of(path)) == []


def test_the_comparison_notices_a_difference() -> None:
    text = dump_of(KRAFT)
    assert compare(KRAFT.read_bytes(), text.replace('"featureLevel":19', '"featureLevel":18')) != []
    assert compare(KRAFT.read_bytes(), text[: text.rindex("\n|")]) != []
    assert compare(KRAFT.read_bytes()[:-1], text) != []
    assert (2, "FEATURE_LEVEL_RECORD", {"name": "metadata.version", "featureLevel": 19}) in parse_dump(text)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_every_batch_and_record_encodes_to_its_original_bytes(path: Path) -> None:
    batches = batches_of(path)
    assert b"".join(map(reencode, batches)) == path.read_bytes()
    for batch in batches:
        for record in batch.records():
            decoded = decode_control(record.key, record.value) if batch.is_control else decode(record.value)
            assert encode(decoded) == record.value


@pytest.mark.parametrize("release", sorted({release for release, *_ in WRITTEN}))
def test_records_serialized_by_kafka_decode_and_encode_as_kafka_does(release: str) -> None:
    for _, kind, version, data, hexadecimal in (case for case in WRITTEN if case[0] == release):
        value = bytes.fromhex(hexadecimal)
        decoded = decode_control(CONTROL_NAMES[kind], value) if kind in CONTROL_NAMES else decode(value)
        assert isinstance(decoded, Decoded), kind
        assert decoded.version == version, kind
        assert to_json(decoded.data) == {RENAMED.get(name, name): each for name, each in data.items()}, (kind, version)
        layout, releases = OLDER.get(kind, ("", set()))
        assert decoded.layout == (layout if release in releases else ""), (kind, version)
        assert encode(decoded) == value, (kind, version)


@pytest.mark.parametrize(
    ("path", "below", "expected"),
    [
        (MIGRATION, 1, {"zk_migration_state": None, "features": {}, "epoch": 3, "leader_id": 3003}),
        # The bootstrap records take effect at the end of their transaction, at offset 4.
        (MIGRATION, 5, {"zk_migration_state": 2, "features": {"metadata.version": 21}}),
        (MIGRATION, 408, {"zk_migration_state": 2}),
        (MIGRATION, 410, {"zk_migration_state": 1}),
        (MIGRATION, 837, {"zk_migration_state": 1, "epoch": 4}),
        (MIGRATION, 838, {"zk_migration_state": 3, "leader_id": 3001}),
        (MIGRATION, 914, {"feature_record_kraft_version": None}),
        (MIGRATION, 915, {"feature_record_kraft_version": 1, "kraft_version": 0, "features": {"metadata.version": 21}}),
        (MIGRATION, 1045, {"zk_migration_state": 3, "unreadable": 0, "in_transaction": False, "voters": None}),
        (KRAFT, 77, {"zk_migration_state": 0, "feature_record_kraft_version": None, "epoch": 1}),
        (CHANGES, 187, {"kraft_version": 0, "voters": None}),
        (CHANGES, 495, {"kraft_version": 1, "feature_record_kraft_version": None, "epoch": 9, "leader_id": 3001}),
    ],
    ids=lambda value: name(value) if isinstance(value, Path) else None,
)
def test_the_image_at_an_offset_has_the_state_of_the_cluster_at_that_offset(
    path: Path, below: int, expected: dict[str, object]
) -> None:
    image = at(path, below)
    assert {field: getattr(image, field) for field in expected} == expected


def test_an_image_can_only_stand_between_batches() -> None:
    replay = Replay()
    assert replay.append(CHANGES.read_bytes(), below=188) == 187  # 187 and 188 are one batch
    assert replay.append(CHANGES.read_bytes(), below=189) == 189
    image = replay.image()
    assert image.kraft_version == 1
    assert [(v.id, v.kraft_version) for v in image.voters or ()] == [(3001, (0, 1)), (3002, (0, 1)), (3003, (0, 1))]
    assert [e.security_protocol for v in image.voters or () for e in v.endpoints] == [-1, -1, -1]


def test_brokers_are_flagged_as_migrating_until_they_register_in_kraft_mode() -> None:
    flags = {
        offset: {b.id: b.is_migrating_zk_broker for b in at(MIGRATION, offset).brokers.values()}
        for offset in (240, 241, 410, 580, 1045)
    }
    assert flags == {
        240: {},
        241: {1: True},
        410: {1: True, 2: True, 3: True},
        580: {1: False, 2: True, 3: True},
        1045: {1: False, 2: False, 3: False},
    }


def test_a_fenced_and_an_unregistered_broker_are_distinguished() -> None:
    replay = Replay()
    states: list[tuple[int, bool]] = []
    for batch in batches_of(CHANGES):
        replay.append(batch.data, below=1 << 40)
        four = replay.image().brokers.get(4)
        states.append((-1, False) if four is None else (four.epoch, four.fenced))
    changes = [states[0], *(now for before, now in itertools.pairwise(states) if now != before)]
    assert changes == [(-1, False), (110, True), (110, False), (110, True), (-1, False)]


def led_by(leader: int | None, image: Image, other: Image) -> Image:
    """The image with this leader, and with the counts of the other image."""
    return dataclasses.replace(image, counts=other.counts, quorum=Quorum(image.voters, leader))


@pytest.mark.parametrize("path", SNAPSHOTS, ids=name)
def test_the_image_of_a_snapshot_is_that_of_the_log_at_its_offset(path: Path) -> None:
    (segment,) = (each for each in SEGMENTS if each.parent == path.parent)
    end, epoch = snapshot_id(path)
    replay = Replay()
    replay.load_snapshot(path.read_bytes(), end_offset=end, epoch=epoch)
    from_log = at(segment, end)
    # The counts and the leader are of the log alone.
    assert replay.image() == led_by(None, from_log, replay.image())


@pytest.mark.parametrize("path", SNAPSHOTS, ids=name)
def test_a_replay_continues_with_the_log_after_a_snapshot(path: Path) -> None:
    (segment,) = (each for each in SEGMENTS if each.parent == path.parent)
    end, epoch = snapshot_id(path)
    replay = Replay()
    replay.load_snapshot(path.read_bytes(), end_offset=end, epoch=epoch)
    last = replay.append(segment.read_bytes(), below=1 << 40)
    whole = at(segment, last)
    image = replay.image()
    leader = whole.leader_id if image.leader_id is not None else None
    assert image == led_by(leader, whole, image)
