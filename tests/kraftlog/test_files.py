"""Files of a log directory: their names, and the files that the newest image is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftlog import Image, Replay, files
from tests.kraftlog.golden import SEGMENTS, SNAPSHOTS

LOG, NEXT, LAST = (files.Segment(f"{n:020}.log", n) for n in (0, 500, 900))
OLD, NEW = (files.Snapshot(f"{n:020}-{e:010}.checkpoint", n, e) for n, e in ((442, 9), (700, 11)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("00000000000000000500.log", NEXT),
        ("00000000000000000442-0000000009.checkpoint", OLD),
        ("00000000000000000442-0000000009.checkpoint.part", None),
        ("00000000000000000442-0000000009.checkpoint.deleted", None),
        ("00000000000000000500.log.deleted", None),
        ("00000000000000000500.index", None),
        ("00000000000000000500.timeindex", None),
        ("500.log", None),
        ("bootstrap.checkpoint", None),
        ("quorum-state", None),
        ("leader-epoch-checkpoint", None),
        ("partition.metadata", None),
    ],
)
def test_the_name_of_a_file_is_parsed_to_segment_or_snapshot(text: str, found: object) -> None:
    assert files.parse(text) == found


def test_a_compressed_file_belongs_to_the_log_unless_its_original_is_there() -> None:
    names = [f"{LOG.name}.gz", f"{NEXT.name}.zst", NEXT.name, f"{OLD.name}.gz", "500.log.gz", f"{LOG.name}.dump.txt.gz"]
    assert files.compressed(names) == {f"{LOG.name}.gz": "gunzip -k", f"{OLD.name}.gz": "gunzip -k"}


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        ([], (None, ())),
        ([LOG, NEXT], (None, (LOG, NEXT))),
        ([NEXT, OLD, LOG], (OLD, (LOG, NEXT))),
        ([NEW, LAST, NEXT, OLD, LOG], (NEW, (NEXT, LAST))),
        ([NEW], (NEW, ())),
        ([LAST, OLD], (OLD, (LAST,))),
    ],
    ids=["nothing", "no snapshot", "a snapshot", "two snapshots", "a snapshot alone", "a gap, which a replay refuses"],
)
def test_the_newest_image_is_made_of_the_last_snapshot_and_the_segments_from_its_end_on(
    there: list[files.Segment | files.Snapshot], wanted: object
) -> None:
    assert files.newest([one.name for one in there] + ["quorum-state"]) == wanted


@pytest.mark.parametrize("folder", [path.parent for path in SNAPSHOTS], ids=lambda path: path.name)
def test_the_newest_image_of_a_real_directory_equals_the_image_of_its_whole_log(folder: Path) -> None:
    snapshot, segments = files.newest(path.name for path in folder.iterdir())
    assert snapshot is not None
    replay = Replay()
    replay.load_snapshot((folder / snapshot.name).read_bytes(), end_offset=snapshot.end_offset, epoch=snapshot.epoch)
    for segment in segments:
        replay.append((folder / segment.name).read_bytes(), below=1 << 40)
    whole = Replay()
    whole.append((folder / SEGMENTS[0].name).read_bytes(), below=1 << 40)

    def content(image: Image) -> object:
        return image.offset, image.registrations, image.finalized, image.voters, image.migration

    assert content(replay.image()) == content(whole.image())
