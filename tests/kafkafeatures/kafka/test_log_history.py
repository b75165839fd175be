"""The history of a log is read from the oldest snapshot or record that its leader has; the leader here is scripted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.kafka.base.errors import (
    ErrorCode,
    KafkaError,
    NoLeader,
    NotAuthorized,
    ResponseTooLarge,
    ServerError,
    TimedOut,
)
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.log.history import LogHistory
from kafkafeatures.kafka.log.leaders import Leaders
from kafkafeatures.kafka.wire.messages import (
    FetchRequest,
    FetchSnapshotRequest,
    OffsetAndEpoch,
)
from kraftlog.rolls import RollHistory, RollReader
from kraftlog.schema import table
from kraftlog.strips import Moment
from tests.kafkafeatures.kafka.scripted_leader import LATER, SNAPSHOTS, Leader
from tests.kraftlog.build import NOW, batch, broker, change, control_batch, no_op


async def read(leader: Leader, until: int = 105, clock: Callable[[], float] = lambda: 0.0) -> RollHistory:
    """The history in the log of this leader up to `until`. The default is the log `LATER`, with offsets 100 to 104."""

    async def connect(_: Address) -> Leader:
        return leader

    reader = RollReader(since_ms=0)
    leaders = Leaders(connect, [leader.address], 5.0)  # type: ignore[arg-type]  # a leader that is its own connection
    await LogHistory(leaders, reader, timeout=5.0, monotonic=clock).read(until=until, epoch=9)
    assert leader.closed
    assert reader.offset == until
    return reader.finish(50)


async def test_a_complete_log_is_read_from_its_beginning() -> None:
    leader = Leader(start=0, data=batch(0, broker(1, 1, fenced=False), epoch=3), high_watermark=1, snapshots={})
    found = await read(leader, 1)
    assert (found.known_from, found.end.offset) == (None, 0)


@pytest.mark.parametrize("prefers_snapshots", [True, False])
async def test_a_complete_log_is_read_from_its_beginning_although_a_snapshot_exists(prefers_snapshots: bool) -> None:
    """The oldest snapshot has a higher epoch than the first records. No snapshot is requested."""
    first = control_batch(0, (table.LEADER_CHANGE, {"version": 0, "leaderId": 1, "voters": (), "grantingVoters": ()}))
    data = (
        first
        + batch(1, broker(1, 1, fenced=False), epoch=3)
        + batch(2, change(1, 1, fenced=1), epoch=3)
        + batch(3, no_op(), epoch=9)
    )
    snapshots = {OffsetAndEpoch(2, 5): b"", OffsetAndEpoch(3, 9): b""}
    leader = Leader(0, data, 4, snapshots, prefers_snapshots=prefers_snapshots, per_reply=len(first) + 150)
    found = await read(leader, 4)
    assert (found.known_from, found.unreadable) == (None, 0)
    assert [one.first.offset for one in found.absences] == [2]
    assert not any(isinstance(one, FetchSnapshotRequest) for one in leader.asked)


async def test_a_log_without_its_beginning_is_read_from_the_oldest_snapshot() -> None:
    found = await read(Leader())
    assert found.known_from == Moment(NOW - 5, 100)
    (absence,) = (
        found.absences
    )  # controlled shutdown at 100, fenced at 101, registered at 102, unfenced at 103 (`LATER`)
    assert [one and one.offset for one in absence.moments] == [100, 101, 102, 103, 103]
    assert found.end.offset == 104


@pytest.mark.parametrize("epoch", [0, 1, 5, 8])
async def test_the_epoch_of_the_oldest_snapshot_is_found_wherever_it_lies_by_halving_the_epochs(epoch: int) -> None:
    """No request returns that epoch, but FetchSnapshot needs it: it is searched for by Fetch at the next offset
    (`LogSource.oldest_snapshot`). Of the epochs 0 to 9, four halvings leave one.
    """
    oldest = OffsetAndEpoch(100, epoch)
    leader = Leader(snapshots={oldest: SNAPSHOTS[OffsetAndEpoch(100, 5)], OffsetAndEpoch(104, 9): b""})
    await read(leader)
    assert {one.snapshot_id for one in leader.asked if isinstance(one, FetchSnapshotRequest)} == {oldest}
    assert 3 <= sum(isinstance(one, FetchRequest) and one.fetch_offset == 101 for one in leader.asked) <= 4


async def test_a_log_is_read_from_the_newest_snapshot_if_the_oldest_was_deleted() -> None:
    leader = Leader()
    leader.snapshots.pop(OffsetAndEpoch(100, 5))
    found = await read(leader)
    assert found.known_from == Moment(NOW - 5, 104)


async def test_only_records_committed_at_the_start_of_a_reading_are_read() -> None:
    assert (await read(Leader(), 103)).end.offset == 102
    with pytest.raises(NoLeader, match="run it again"):  # fewer records are committed than at the start of the reading
        await read(Leader(high_watermark=103))


async def test_batches_that_come_cut_are_asked_for_again() -> None:
    leader = Leader(per_reply=400)  # bytes: less than the log has, and not at the end of a batch
    assert (await read(leader)).end.offset == 104
    assert sum(isinstance(one, FetchRequest) for one in leader.asked) > 3


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED}, NotAuthorized),
        ({"data": LATER[:-1] + b"\1"}, ServerError),
        ({"spoil": lambda reply: replace(reply, position=7)}, ServerError),
        ({"spoil": lambda reply: replace(reply, data=b"")}, ServerError),
        ({"spoil": lambda reply: replace(reply, size=1 << 40)}, ResponseTooLarge),
        ({"spoil": lambda reply: replace(reply, partition_error_code=ErrorCode.FENCED_LEADER_EPOCH)}, NoLeader),
        ({"snapshots": {OffsetAndEpoch(104, 9): SNAPSHOTS[OffsetAndEpoch(100, 5)][:-5]}}, ServerError),
    ],
    ids=[
        "not authorized", "a wrong checksum of the last batch", "a part of the snapshot at another position",
        "an empty part of the snapshot", "a snapshot of a terabyte", "another leader", "a truncated snapshot",
    ],
)  # fmt: skip
async def test_an_unreadable_history_is_an_error_and_closes_the_connection(
    change: dict[str, Any], error: type[KafkaError]
) -> None:
    leader = replace(Leader(), **change)
    with pytest.raises(error):
        await read(leader)
    assert leader.closed


async def test_reading_a_history_times_out_with_its_progress() -> None:
    times = iter(range(0, 1000, 50))
    with pytest.raises(TimedOut, match="of 105 records were read within 60 s"):
        await read(Leader(per_reply=200), clock=lambda: float(next(times)))
