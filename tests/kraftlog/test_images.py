"""Images: each equals the log below its offset, does not change with later records, and can be pickled."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog import Image, Replay
from kraftlog.batches import Batch
from tests.kraftlog.build import abort, begin, broker, change, controller, end, level, log, no_op
from tests.kraftlog.golden import SEGMENTS, SNAPSHOTS, batches_of, name, snapshot_id

ALL = 1 << 40
RECORDS = st.sampled_from(
    [level("a", 1), level("a", 0), level("b", 1), no_op(), begin(), end(), abort()]
    + [broker(n, n) for n in range(9)]
    + [change(n, n, fenced=-1) for n in range(9)]
    + [controller(3001), controller(3002, 2)]
)


def of(batches: list[Batch]) -> Image:
    replay = Replay()
    for batch in batches:
        replay.append(batch.data, below=ALL)
    return replay.image()


@pytest.mark.parametrize("full", [1, 1024], ids=["many buckets", "one bucket"])
def test_an_image_is_that_of_a_replay_of_all_earlier_batches(full: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraftlog.maps.FULL", full)

    @given(st.lists(st.lists(RECORDS, min_size=1, max_size=5), max_size=8))
    def check(groups: list[list[bytes]]) -> None:
        replay = Replay()
        images = []
        offset = 0
        for number, values in enumerate(groups):
            replay.append(log(values, start=offset), below=ALL)
            offset += len(values)
            images.append((log(*groups[: number + 1]), replay.image()))
        for prefix, image in images:
            alone = Replay()
            alone.append(prefix, below=ALL)
            assert image == alone.image()
            assert pickle.loads(pickle.dumps(image)) == image

    check()


@pytest.mark.parametrize("path", SEGMENTS, ids=name)
def test_an_image_of_a_real_log_is_that_of_a_replay_of_all_earlier_batches(path: Path) -> None:
    batches = batches_of(path)
    replay = Replay()
    images = []
    for batch in batches:
        replay.append(batch.data, below=ALL)
        images.append(replay.image())
    for at in range(0, len(batches), 97):
        assert images[at] == of(batches[: at + 1])


@pytest.mark.parametrize("path", [*SEGMENTS, *SNAPSHOTS], ids=name)
def test_a_pickled_image_of_a_real_log_is_equal_to_the_original(path: Path) -> None:
    replay = Replay()
    if path in SNAPSHOTS:
        end_offset, epoch = snapshot_id(path)
        replay.load_snapshot(path.read_bytes(), end_offset=end_offset, epoch=epoch)
    else:
        replay.append(path.read_bytes(), below=ALL)
    image = replay.image()
    unpickled = pickle.loads(pickle.dumps(image))
    assert unpickled == image
    assert (unpickled.features_offset, unpickled.unregistered) == (image.features_offset, image.unregistered)
    assert repr(unpickled) == repr(image)
    replay.append(log([level("metadata.version", 1), broker(1, 99)], start=image.offset), below=ALL)
    assert unpickled == image != replay.image()


def test_the_images_of_an_idle_log_share_their_content_and_differ_only_in_the_offset() -> None:
    replay = Replay()
    replay.append(log([level("a", 1)]), below=1)
    first = replay.image()
    replay.append(log([no_op()], start=1), below=2)
    idle = replay.image()
    replay.append(log([level("a", 2)], start=2), below=3)
    assert (idle.offset, idle.finalized) == (2, first.finalized)
    assert idle.finalized is first.finalized
    assert replay.image().features == {"a": 2}


def test_a_changed_registration_of_a_large_image_is_copied_and_all_others_are_shared() -> None:
    replay = Replay()
    replay.append(log(*([broker(n, 1) for n in range(at, at + 1000)] for at in range(0, 5000, 1000))), below=ALL)
    earlier = replay.image()
    replay.append(log([change(77, 1, fenced=-1)], start=5000), below=ALL)
    later = replay.image()
    assert (earlier.brokers[77].fenced, later.brokers[77].fenced) == (True, False)
    assert all(later.brokers[n] is earlier.brokers[n] for n in range(5000) if n != 77)
