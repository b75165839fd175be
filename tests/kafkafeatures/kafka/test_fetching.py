"""The follower of the metadata log: it reads batches, uncommitted tails and snapshots, and starts anew if one is wrong.

The quorum is scripted, as in `test_metadata_log.py`. Its log has two records, so the next one has offset 2.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.kafka.base.errors import (
    KafkaError,
    Stale,
)
from kafkafeatures.kafka.log.held import OBSERVED
from kafkafeatures.kafka.wire.messages import FetchRequest, FetchSnapshotRequest, OffsetAndEpoch
from kraftlog import Section
from tests.kafkafeatures.kafka.scripted_quorum import NOW, Quorum, levels
from tests.kraftlog.build import level, no_op, snapshot


async def test_committed_records_are_read_with_offset_and_time(quorum: Quorum) -> None:
    reading = await quorum.log().catch_up()
    assert levels(reading.image) == {"metadata.version": 20, "group.version": 1}
    assert (reading.image.offset, reading.high_watermark, reading.leader_id, reading.leader_epoch) == (2, 2, 1, 5)
    assert reading.at == NOW


async def test_an_image_has_the_sections_of_an_observation_whether_from_log_or_snapshot(quorum: Quorum) -> None:
    log = quorum.log()
    from_log = (await log.catch_up()).image
    quorum.leader.snapshots = [(OffsetAndEpoch(2, 5), snapshot(level("metadata.version", 20)))]
    log.discard()
    for image in (from_log, (await log.catch_up()).image):
        assert {section for section in Section if getattr(image, section.value) is not None} == set(OBSERVED)


async def test_uncommitted_records_are_not_applied_until_the_high_watermark_covers_them(quorum: Quorum) -> None:
    quorum.leader.append(level("metadata.version", 21), committed=False)
    log = quorum.log()
    assert (await log.catch_up()).image.features["metadata.version"] == 20
    quorum.leader.high_watermark = 3
    assert (await log.catch_up()).image.features["metadata.version"] == 21
    offsets = [request.fetch_offset for request in quorum.leader.asked if isinstance(request, FetchRequest)]
    assert offsets[-1] == 3  # the record was not fetched again


async def test_truncated_uncommitted_records_are_dropped(quorum: Quorum) -> None:
    quorum.leader.append(level("metadata.version", 21), committed=False)
    log = quorum.log()
    await log.catch_up()
    quorum.leader.log.pop()
    quorum.leader.diverging = OffsetAndEpoch(2, 5)
    quorum.leader.append(level("metadata.version", 22))
    assert (await log.catch_up()).image.features["metadata.version"] == 22


async def test_a_log_truncated_below_the_applied_offset_is_read_anew(quorum: Quorum) -> None:
    """Raft never truncates committed records, so this is another log, and nothing read before counts."""
    log = quorum.log()
    await log.catch_up()
    quorum.leader.log = []
    quorum.leader.append(level("metadata.version", 7))
    quorum.leader.diverging = OffsetAndEpoch(0, 0)
    assert levels((await log.catch_up()).image) == {"metadata.version": 7}


async def test_a_log_that_never_knew_our_epoch_is_read_anew(quorum: Quorum) -> None:
    """The cluster was created anew at the same addresses. Its log is longer than ours, so only the epoch differs."""
    log = quorum.log()
    await log.catch_up()
    for controller in quorum.controllers.values():
        controller.epoch, controller.log = 3, []
    for value in (7, 8, 9, 10):
        quorum.leader.append(level("metadata.version", value))
    assert levels((await log.catch_up()).image) == {"metadata.version": 10}


@pytest.mark.parametrize("up", [True, False], ids=["the old leader names the new one", "the old leader is gone"])
async def test_uncommitted_records_of_a_leader_that_lost_are_never_applied(quorum: Quorum, up: bool) -> None:
    log, old, new = quorum.log(), quorum.leader, quorum.controllers[2]
    old.append(level("group.version", 0), level("metadata.version", 21), committed=False)
    await log.catch_up()
    for controller in quorum.controllers.values():
        controller.leader, controller.epoch = 2, 6
    old.up = up
    new.log = old.log[:2]
    new.append(level("metadata.version", 22))
    new.append(level("share.version", 1))
    reading = await log.catch_up()
    assert levels(reading.image) == {"metadata.version": 22, "group.version": 1, "share.version": 1}


async def test_uncommitted_records_are_applied_once_the_next_leader_confirms_them(quorum: Quorum) -> None:
    log, old, new = quorum.log(), quorum.leader, quorum.controllers[2]
    old.append(level("metadata.version", 21), committed=False)
    await log.catch_up()
    for controller in quorum.controllers.values():
        controller.leader, controller.epoch, controller.log = 2, 6, list(old.log)
    old.up = False
    new.append(no_op())
    assert (await log.catch_up()).image.features["metadata.version"] == 21


async def test_the_amount_of_uncommitted_records_kept_is_bounded(
    quorum: Quorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkafeatures.kafka.log.held.MAX_TAIL", 300)
    quorum.leader.per_reply = 2
    for value in range(7, 27):
        quorum.leader.append(level("metadata.version", value), committed=False)
    quorum.leader.high_watermark = 2
    quorum.leader.grows = False
    log = quorum.log()
    for _ in range(10):
        assert (await log.catch_up()).image.features["metadata.version"] == 20
    requests = [request for request in quorum.leader.asked if isinstance(request, FetchRequest)]
    # No more records are kept: later requests ask for one byte only, to learn the high watermark.
    assert requests[-1].fetch_offset == requests[-2].fetch_offset < quorum.leader.end
    assert requests[-1].max_bytes == 1
    quorum.leader.high_watermark = quorum.leader.end
    assert (await log.catch_up()).image.features["metadata.version"] == 26


async def test_a_snapshot_is_fetched_in_parts_and_again_if_it_was_deleted_meanwhile(quorum: Quorum) -> None:
    small = snapshot(level("metadata.version", 20), level("group.version", 1))
    quorum.leader.snapshots = [(OffsetAndEpoch(2, 5), small), (OffsetAndEpoch(3, 5), small)]
    quorum.leader.append(level("share.version", 1))
    quorum.leader.vanish = 1
    reading = await quorum.log(part=64).catch_up()
    assert levels(reading.image)["metadata.version"] == 20
    parts = [request for request in quorum.leader.asked if isinstance(request, FetchSnapshotRequest)]
    assert [(part.snapshot_id.offset, part.position) for part in parts[:3]] == [(2, 0), (2, 64), (3, 0)]
    assert [part.position for part in parts[2:]] == list(range(0, len(small), 64))
    assert quorum.connects == 3  # one to each controller, to find the leader


@pytest.mark.parametrize(
    "wrong", [{"snapshot_id": OffsetAndEpoch(9, 5)}, {"position": 0}, {"data": b""}], ids=["id", "position", "empty"]
)
async def test_a_wrong_part_of_a_snapshot_is_not_used(quorum: Quorum, wrong: dict[str, Any]) -> None:
    quorum.leader.snapshots = [(OffsetAndEpoch(2, 5), snapshot(level("metadata.version", 20)))]
    quorum.leader.spoil = lambda response: replace(response, **wrong)
    assert levels((await quorum.log(part=64).catch_up()).image) == {"metadata.version": 20}
    parts = [request for request in quorum.leader.asked if isinstance(request, FetchSnapshotRequest)]
    assert [part.position for part in parts].count(0) == 2  # it was fetched again from the start


async def test_a_snapshot_replaces_uncommitted_records_that_were_kept(quorum: Quorum) -> None:
    leader, log = quorum.leader, quorum.log()
    leader.append(level("metadata.version", 21), committed=False)
    await log.catch_up()
    for _ in range(5):
        leader.append(no_op())
    leader.snapshots = [(OffsetAndEpoch(leader.end, 5), snapshot(level("metadata.version", 21)))]
    reading = await log.catch_up()
    assert (levels(reading.image), reading.image.offset) == ({"metadata.version": 21}, leader.end)


async def test_a_damaged_batch_is_not_applied_and_the_log_is_read_anew(quorum: Quorum) -> None:
    log = quorum.log()
    await log.catch_up()
    quorum.leader.append(level("metadata.version", 21))
    last, data = quorum.leader.log[-1]
    quorum.leader.log[-1] = (last, data[:-3] + b"\xff" + data[-2:])
    with pytest.raises(KafkaError, match="the log does not read"):
        await log.catch_up()
    quorum.leader.asked.clear()
    quorum.leader.log[-1] = (last, data)
    assert (await log.catch_up()).image.features["metadata.version"] == 21
    requests = [request for request in quorum.leader.asked if isinstance(request, FetchRequest)]
    assert 0 in [request.fetch_offset for request in requests if request.max_bytes > 1]


async def test_a_log_is_read_anew_if_the_fetch_offset_is_out_of_range(quorum: Quorum) -> None:
    log = quorum.log()
    await log.catch_up()
    quorum.leader.log = []
    quorum.leader.append(level("metadata.version", 7))
    quorum.leader.append(no_op())
    quorum.leader.out_of_range = True
    assert levels((await log.catch_up()).image) == {"metadata.version": 7}


async def test_a_high_watermark_beyond_the_served_records_makes_the_reading_stale(quorum: Quorum) -> None:
    quorum.leader.high_watermark = 99
    with pytest.raises(Stale):
        await quorum.log().catch_up()


async def test_a_growing_log_is_read_until_no_majority_follows_the_leader(quorum: Quorum) -> None:
    quorum.leader.grows = True
    log = quorum.log()
    seen = [(await log.catch_up()).image.offset for _ in range(5)]
    quorum.leader.grows = False
    quorum.leader.fetched = {1: 0, 2: 5000, 3: 5000}  # voters 2 and 3 fetched 5 s ago
    with pytest.raises(Stale):
        await log.catch_up()
    assert seen == sorted(set(seen))


async def test_a_log_that_is_read_anew_is_never_shown_in_part(quorum: Quorum) -> None:
    log = quorum.log()
    quorum.leader.per_reply = 1
    before = await log.catch_up()
    quorum.leader.log = []
    for value in (7, 8, 9):
        quorum.leader.append(level("metadata.version", value))
    quorum.leader.diverging = OffsetAndEpoch(0, 0)
    after = await log.catch_up()
    assert all(reading.image.offset == reading.high_watermark for reading in (before, after))
    assert levels(before.image) == {"metadata.version": 20, "group.version": 1}
    assert levels(after.image) == {"metadata.version": 9}
