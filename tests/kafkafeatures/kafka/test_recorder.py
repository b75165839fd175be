"""The recorder: it writes the logs that leaders serve, reports gaps, and disturbs no reconciliation."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkafeatures.api.status import Status
from kafkafeatures.kafka.recorder import recorder
from kafkafeatures.kafka.wire.messages import OffsetAndEpoch
from kraftlog import files
from tests.kafkafeatures.kafka.recording import ID, ORDERS, START, Cluster, Heard, recording, settled, whole
from tests.kafkafeatures.kafka.scripted_leader import LATER, SNAPSHOTS, Leader
from tests.kraftlog.build import batch, broker, no_op, snapshot


async def test_a_recording_continues_with_each_reconciliation_and_each_process(tmp_path: Path) -> None:
    async with recording(tmp_path) as rig:
        for until in (3, 3, 5, 9):
            await rig.look(whole(until), until)
            assert rig.log() == whole(until).data
        await rig.recorder.close()
        rig.begin()
        await rig.look(whole(12), 12)
    assert rig.log() == whole(12).data
    size = len(whole(12).data)
    assert rig.heard == Heard(complete=[ORDERS] * 5, failures=[], written=size, freed=0, gaps=0, held=size)
    properties = tmp_path / ID / "recorder-kafka_orders" / files.PROPERTIES
    assert f"\ncluster.id={ID}\n" in properties.read_text()


async def test_a_reply_of_a_few_bytes_at_a_time_is_enough(tmp_path: Path) -> None:
    async with recording(tmp_path) as rig:
        leader = whole(20)
        leader.per_reply = 100
        await rig.look(leader, 20)
    assert rig.log() == leader.data


async def test_only_committed_records_are_recorded(tmp_path: Path) -> None:
    async with recording(tmp_path) as rig:
        leader = whole(9)
        await rig.look(leader, 5)
        leader.high_watermark = 7
        await rig.look(leader, 9)
    assert rig.log() == whole(7).data
    assert rig.heard.complete == [ORDERS]


async def test_a_log_without_its_beginning_is_recorded_from_its_oldest_snapshot(tmp_path: Path) -> None:
    async with recording(tmp_path) as rig:
        await rig.look(Leader())
    oldest = f"{100:020}-{5:010}.checkpoint"
    assert rig.names() == [oldest, f"{100:020}.log.open-{int(START.timestamp())}"]
    (path,) = rig.found(oldest)
    assert path.read_bytes() == SNAPSHOTS[OffsetAndEpoch(100, 5)]
    assert rig.log() == LATER
    assert rig.heard.gaps == 0


async def test_a_complete_log_is_recorded_with_its_newest_snapshot(tmp_path: Path) -> None:
    async with recording(tmp_path) as rig:
        leader = whole(20)
        leader.snapshots = {OffsetAndEpoch(9, 3): snapshot(broker(1, 1), epoch=3)}
        await rig.look(leader, 20)
    # A leader that has a snapshot serves no records from offset 0 on, so the recording begins at offset 1.
    assert rig.names()[0] == f"{1:020}.log.open-{int(START.timestamp())}"
    assert rig.names()[1] == f"{9:020}-{3:010}.checkpoint"
    assert rig.log() == leader.data[len(batch(0, no_op())) :]


async def test_records_deleted_by_kafka_before_they_were_recorded_leave_a_visible_gap(tmp_path: Path) -> None:
    async with recording(tmp_path) as rig:
        await rig.look(whole(4), 4)
        await rig.look(Leader())
    assert [one[:20] for one in rig.names()] == [f"{0:020}", f"{100:020}", f"{100:020}"]
    assert rig.names()[0].endswith(".log")
    assert rig.log() == whole(4).data + LATER
    assert (rig.heard.gaps, rig.heard.failures) == (1, [])


async def test_a_log_that_contradicts_its_recording_gets_a_new_recording(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An unclean election, or a cluster that was made anew under its id: never glued together."""
    other = b"".join(batch(one, no_op(), no_op(), epoch=9) for one in range(0, 10, 2))
    async with recording(tmp_path) as rig:
        leader = whole(8)
        await rig.look(leader, 8)
        again = Leader(start=0, data=other, high_watermark=10, snapshots={}, epochs=(9,))
        await rig.look(again, 10)
        await rig.look(again, 10)
    assert rig.names() == [f"{0:020}.log"]
    assert rig.log() == leader.data
    assert rig.log("recorder-kafka_orders_1") == other
    assert rig.heard.gaps == 1
    assert "contradicts what was recorded" in caplog.text


async def test_reconciliations_in_short_order_are_not_recorded_separately(tmp_path: Path) -> None:
    async with recording(tmp_path) as rig:
        leader = whole(8)
        await rig.look(leader, 4)
        rig.seconds -= 30  # `look` moves the clock by a minute
        await rig.look(leader, 8)
        assert rig.log() == whole(4).data
        await rig.look(leader, 8)
    assert rig.log() == leader.data


async def test_a_cluster_without_a_followed_log_logs_once_that_nothing_is_recorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with recording(tmp_path) as rig:
        for _ in range(3):
            rig.recorder.saw(ORDERS, Cluster(whole(1), 1), Status(cluster_id="of-another-cluster"))
            rig.recorder.saw(("kafka", "bills"), object(), Status(cluster_id=ID))
            rig.recorder.saw(("kafka", "new"), object(), Status())  # it was never read
    assert rig.found() == []
    assert caplog.text.count("is not followed") == 2


@pytest.mark.parametrize("cluster_id", ["../../etc", "..", ".", "a/b", "a" * 65, "a\0", "a\n", "ä"])
async def test_an_invalid_cluster_id_creates_no_folder(
    tmp_path: Path, cluster_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    async with recording(inside) as rig:
        await rig.look(whole(1), 1, cluster_id=cluster_id)
    rig.folder = tmp_path
    assert [one.name for one in rig.found()] == ["a", "b"]
    assert rig.heard.failures == ["refused"]
    assert "not of the form of Kafka's" in caplog.text


async def test_resources_with_the_same_cluster_id_have_separate_recordings(tmp_path: Path) -> None:
    """A cluster that only claims the id of another one must not damage the recording of that one."""
    forged = b"".join(batch(one, no_op(), epoch=9) for one in range(4))
    long = ("n" * 63, "r" * 253)
    async with recording(tmp_path) as rig:
        await rig.look(whole(4), 4)
        await rig.look(Leader(start=0, data=forged, high_watermark=4, snapshots={}), 4, ("kafka", "5"))
        await rig.look(whole(4), 4, long)
    assert rig.log() == whole(4).data
    assert rig.log("recorder-kafka_5") == forged
    assert len(list((tmp_path / ID).iterdir())) == 3
    assert rig.heard.gaps == 0


async def test_an_unusable_volume_is_logged_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with recording(tmp_path / "volume" / "logs") as rig:
        await rig.look(whole(2), 2)
        await rig.look(whole(2), 2)
        assert rig.heard.failures == ["disk"] * 2
        assert caplog.text.count("volume/logs: No such file or directory") == 1
        (tmp_path / "volume").mkdir()
        await rig.look(whole(4), 4)

        def read_only(*_: object) -> int:
            raise OSError(30, "Read-only file system")

        with monkeypatch.context() as patched:
            patched.setattr(os, "write", read_only)
            await rig.look(whole(5), 5)
            await rig.look(whole(6), 6)
        assert rig.heard.failures == ["disk"] * 4
        assert caplog.text.count("Read-only file system") == 1
        await rig.look(whole(7), 7)
    assert rig.log() == whole(7).data
    assert rig.heard.complete == [ORDERS] * 2


@contextmanager
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A volume that answers no more, as one over a network may."""
    over = threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr(os, "statvfs", lambda _: over.wait(30) and None)
        try:
            yield over
        finally:
            over.set()


async def test_a_hanging_volume_does_not_delay_other_recordings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with recording(tmp_path) as rig:
        with hanging(monkeypatch):
            leaders = [whole(3) for _ in range(50)]
            for _ in range(3):
                for number, leader in enumerate(leaders):
                    rig.recorder.saw(("kafka", f"c{number}"), Cluster(leader, 3), Status(cluster_id=ID))
                for _ in range(20):
                    await asyncio.sleep(0)
                rig.seconds += 60
            assert sum(bool(one.asked) for one in leaders) <= recorder.AT_ONCE
            async with asyncio.timeout(5):
                await rig.recorder.close()


async def test_a_hanging_volume_is_logged_once_per_resource_and_when_it_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    resources = [("kafka", f"c{number}") for number in range(recorder.AT_ONCE + 2)]  # two wait for their turn
    async with recording(tmp_path) as rig:
        with hanging(monkeypatch):
            for _ in range(10):
                for resource in resources:
                    rig.recorder.saw(resource, Cluster(whole(3), 3), Status(cluster_id=ID))
                for _ in range(20):
                    await asyncio.sleep(0)
                assert (rig.seconds > recorder.HANGS) is bool(caplog.records)
                rig.seconds += 60
            assert caplog.text.count("is not recorded (hangs): a turn has not ended for 300 s") == len(resources)
            assert len(caplog.records) == len(resources)
        await settled()
        await rig.look(whole(3), 3, resources[0])
        assert caplog.records[-1].getMessage().startswith("the metadata log is recorded in ")


async def test_a_cluster_in_zookeeper_mode_is_not_reported_as_unrecorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with recording(tmp_path) as rig:
        rig.recorder.saw(ORDERS, object(), Status(cluster_id=ID, metadata_mode="ZooKeeper"))
    assert (rig.heard.complete, rig.found(), caplog.text) == ([ORDERS], [], "")


async def test_a_failing_leader_is_counted_and_asked_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with recording(tmp_path) as rig:
        leader = whole(3)
        leader.code = 29  # TOPIC_AUTHORIZATION_FAILED
        await rig.look(leader, 3)
        leader.code, leader.data = 0, leader.data[:-1] + b"\x01"
        await rig.look(leader, 3)
        leader.data = b"no batch of Kafka's, but as long as one could be: " * 9
        await rig.look(leader, 3)
        assert rig.heard.failures == ["kafka", "log", "log"]
        await rig.look(whole(3), 3)
    assert rig.log() == whole(3).data
    assert len(caplog.records) == 2  # the second and the third are of one kind
