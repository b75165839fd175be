"""The limits of recordings: which recorded files are removed, and when; the files of a recording that ends."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from kafkafeatures.api.status import Status
from kafkafeatures.kafka.recorder import recordings
from kafkafeatures.kafka.wire.messages import OffsetAndEpoch
from kraftlog import files
from tests.kafkafeatures.kafka.recording import ID, ORDERS, Cluster, recording, settled, whole
from tests.kafkafeatures.kafka.scripted_leader import LATER, Leader
from tests.kafkafeatures.kafka.test_recorder import hanging
from tests.kraftlog.build import batch, broker, no_op, snapshot


def large(start: int, count: int, size: int) -> bytes:
    """Batches whose records are large."""
    return b"".join(batch(start + one, broker(1, 1, rack="r" * size), epoch=9) for one in range(count))


def contradicting(epoch: int) -> Leader:
    """Leader of a log of four records, which contradicts one of any other epoch."""
    data = b"".join(batch(offset, no_op(), epoch=epoch) for offset in range(4))
    return Leader(start=0, data=data, high_watermark=4, snapshots={}, epochs=(epoch,))


async def test_a_resource_at_its_limit_loses_its_oldest_segments_once_a_snapshot_lies_behind_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with recording(tmp_path, per_cluster=40_000) as rig:
        leader = Leader(start=0, data=large(0, 60, 2_000), high_watermark=60, snapshots={}, per_reply=2_300)
        await rig.look(leader, 60)
        assert rig.heard.failures == ["limit"]
        assert "the limit of one cluster" in caplog.text
        stopped = rig.heard.held
        assert 30_000 < stopped <= 35_000  # an eighth is left for a snapshot
        await rig.look(leader, 60)
        assert (rig.heard.held, len(caplog.records)) == (stopped, 1)
        for offset in (10, 40):  # segments before a snapshot can be removed
            leader.snapshots = {OffsetAndEpoch(offset, 9): snapshot(epoch=9)}
            await rig.look(leader, 60)
        leader.snapshots = {OffsetAndEpoch(59, 9): snapshot(epoch=9)}
        await rig.look(leader, 60)
    assert rig.heard.complete == [ORDERS]
    assert rig.heard.failures[1:] == ["limit"] * (len(rig.heard.failures) - 1)
    assert rig.heard.freed > 0
    assert sum(one.stat().st_size for one in rig.found("*.*") if one.is_file()) <= 40_000
    assert [one for one in rig.names() if one.endswith(".checkpoint")] == [f"{59:020}-{9:010}.checkpoint"]
    assert rig.log() in leader.data
    assert leader.data.endswith(rig.log())


async def test_above_the_common_limit_the_largest_recording_loses_segments(tmp_path: Path) -> None:
    async with recording(tmp_path, per_cluster=80_000, all_clusters=90_000) as rig:
        big = Leader(start=0, data=large(0, 30, 2_000), high_watermark=30, snapshots={}, per_reply=2_300)
        big.snapshots = {OffsetAndEpoch(25, 9): snapshot(epoch=9)}
        await rig.look(big, 30, ("greedy", "big"))
        before = rig.heard.held
        for number in range(20):
            await rig.look(whole(30), 30, ("kafka", f"c{number}"))
    assert before > 60_000
    assert rig.heard.failures == []
    assert rig.heard.held <= 90_000
    assert rig.heard.freed > 0
    assert rig.heard.held == sum(one.stat().st_size for one in rig.found(f"{files.DIRECTORY}/*"))
    assert all(rig.log(f"recorder-kafka_c{number}") == whole(30).data for number in range(20))


async def test_the_remaining_room_is_that_of_the_limit_reached_first(tmp_path: Path) -> None:
    async with recording(tmp_path, per_cluster=40_000, all_clusters=48_000) as rig:
        await rig.look(whole(3), 3)
        bills = ("kafka", "bills")
        leader = Leader(start=0, data=large(0, 60, 2_000), high_watermark=60, snapshots={}, per_reply=2_300)
        await rig.look(leader, 10, bills)
        # An eighth of each limit is reserved for snapshots: 35,000 of 40,000 bytes, and 42,000 of 48,000, can be used.
        assert rig.heard.room[ORDERS] == 35_000 - len(whole(3).data)
        assert rig.heard.room[bills] == 35_000 - len(rig.log("recorder-kafka_bills"))
        await rig.look(whole(6), 6)
    assert rig.heard.room[ORDERS] == 42_000 - rig.heard.held


async def test_a_resource_with_ever_new_cluster_ids_keeps_a_bounded_number_of_recordings(tmp_path: Path) -> None:
    async with recording(tmp_path) as rig:
        await rig.look(whole(2), 2, ("kafka", "bills"))
        for number in range(20):
            await rig.look(whole(2), 2, cluster_id=f"id-{number}")
    assert len(rig.found("recorder-kafka_orders")) == recordings.MAX_RECORDINGS
    assert (tmp_path / "id-19").is_dir()
    assert rig.log("recorder-kafka_bills") == whole(2).data


async def test_a_cluster_that_keeps_contradicting_itself_is_no_longer_recorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with recording(tmp_path) as rig:
        first = whole(4)
        await rig.look(first, 4)
        for number in range(2 * recordings.MAX_RECORDINGS):
            await rig.look(contradicting(10 + number), 4)
    assert rig.log() == first.data
    assert len(rig.found("recorder-kafka_orders*")) == recordings.MAX_RECORDINGS
    assert rig.heard.gaps == recordings.MAX_RECORDINGS - 1
    assert rig.heard.failures == ["limit"] * (recordings.MAX_RECORDINGS + 1)
    assert caplog.text.count("contradicted what was recorded 8 times") == 1


async def test_a_new_recording_of_a_contradicting_log_removes_one_of_another_cluster_id(tmp_path: Path) -> None:
    async with recording(tmp_path) as rig:
        for number in range(5):
            await rig.look(contradicting(10 + number), 4)
        for number in range(3):
            await rig.look(contradicting(10 + number), 4, cluster_id="other")
        assert len(rig.found("recorder-kafka_orders*")) == recordings.MAX_RECORDINGS
        await rig.look(contradicting(20), 4)  # the oldest recording of all has the same cluster id
    names = [path.name for path in sorted((tmp_path / ID).iterdir())]
    assert names == ["recorder-kafka_orders", *(f"recorder-kafka_orders_{number}" for number in range(1, 6))]
    assert len(rig.found("recorder-kafka_orders*")) == recordings.MAX_RECORDINGS


async def test_recordings_begin_anew_after_their_files_were_removed(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    async with recording(folder) as rig:
        await rig.look(whole(3), 3)
        shutil.rmtree(folder)
        await rig.look(whole(5), 5)
        await rig.look(whole(5), 5)
        assert rig.heard.failures == ["disk"]
        assert rig.log() == whole(5).data


async def test_deleting_a_resource_while_its_snapshot_is_recorded_leaves_no_lock(tmp_path: Path) -> None:
    async with recording(tmp_path) as rig:
        leader = Leader()
        rig.recorder.saw(ORDERS, Cluster(leader, 105), Status(cluster_id=ID))
        while not rig.found("*.part"):  # noqa: ASYNC110 - a file sets no event
            await asyncio.sleep(0)
        rig.recorder.forgot(ORDERS)
        await settled()
        await rig.look(Leader())
    assert rig.heard.failures == []
    assert rig.log() == LATER


async def test_a_recording_that_no_longer_continues_is_closed_so_that_it_can_be_read(tmp_path: Path) -> None:
    async with recording(tmp_path) as rig:
        await rig.look(whole(2), 2, ("kafka", "gone"))
        (name,) = rig.names("recorder-kafka_gone")
        assert name.startswith(f"{0:020}{files.OPEN}")  # readers do not look for such names
        rig.recorder.forgot(("kafka", "gone"))
        rig.seconds += recordings.CLOSE_AFTER
        await rig.look(whole(2), 2)
    assert rig.names("recorder-kafka_gone") == [f"{0:020}.log"]


async def test_when_a_segment_is_closed_the_newest_snapshot_of_the_leader_is_recorded(tmp_path: Path) -> None:
    """Segments before the snapshot can be removed from then on."""
    async with recording(tmp_path) as rig:
        leader = whole(5)
        await rig.look(leader, 5)
        rig.seconds += recordings.CLOSE_AFTER
        leader = whole(8)
        leader.snapshots = {OffsetAndEpoch(6, 3): snapshot(epoch=3)}
        await rig.look(leader, 8)
    # What follows the offset in the names: a closed segment, the open one, and the epoch of the snapshot.
    assert [one[20:31] for one in rig.names()] == [".log", ".log.open-1", "-0000000003"]


async def test_the_segment_of_an_idle_recording_is_closed(tmp_path: Path) -> None:
    async with recording(tmp_path) as rig:
        await rig.look(whole(5), 5)
        rig.seconds += recordings.CLOSE_AFTER
        await rig.look(whole(5), 5)
    assert rig.names() == [f"{0:020}.log"]


async def test_a_resource_deleted_during_its_turn_is_no_longer_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with recording(tmp_path) as rig:
        with hanging(monkeypatch):
            rig.recorder.saw(ORDERS, Cluster(whole(3), 3), Status(cluster_id=ID))
            for _ in range(5):
                await asyncio.sleep(0)
            rig.recorder.forgot(ORDERS)
            await settled()
        assert (rig.heard.complete, rig.heard.failures) == ([], [])
    assert caplog.records == []
