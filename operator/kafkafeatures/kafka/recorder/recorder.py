"""Records the metadata logs that the operator follows. Kafka itself keeps about a week of them.

Called by the operator after each reconciliation (`saw`). Then it fetches the records that its files do not have yet,
over the open connection to the leader, up to the offset that this reconciliation knows to be committed. Kafka itself is
the queue: nothing waits in memory, and a recorder that did not run for an hour, or had no disk, continues at the end of
its files. If the leader has removed records meanwhile, there is a gap, after which the recording begins again with a
snapshot. If the leader's log contradicts the files, it is another log, and is recorded in a new folder.

It must not slow down a reconciliation: `saw` returns at once; each cluster is recorded in short turns, at most
`AT_ONCE` clusters at a time; all work with files is done in one separate thread; and a failure is counted, logged once
and tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

from kafkafeatures.api.status import Status
from kafkafeatures.core.facts.observation import MetadataMode
from kafkafeatures.core.words import printable
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.base.errors import ErrorCode, KafkaError, ServerError
from kafkafeatures.kafka.log.source import LogSource
from kafkafeatures.kafka.recorder.new_snapshot import NewSnapshot
from kafkafeatures.kafka.recorder.recorded_log import Appended, Busy, Contradicts, RecordedLog
from kafkafeatures.kafka.recorder.recordings import NoRoom, NotRecorded, RecorderSettings, Recordings, Resource
from kafkafeatures.kafka.recorder.whole_batches import NotWhole
from kafkafeatures.kafka.wire.messages import FetchResponse, OffsetAndEpoch
from kraftlog import KraftLogError

EVERY = 60.0
"""Seconds between two turns of one cluster, at least."""
AT_ONCE = 4
"""Clusters that have a turn at once. Each holds one reply, which is counted as memory of the cluster (`Share`)."""
TURN = 15.0
"""Seconds of a turn, after which other clusters have theirs. A snapshot in progress is completed first."""
SNAPSHOT_WITHIN = 60.0
"""Seconds for a snapshot."""

HANGS = 300.0
"""Seconds after which a turn is reported to hang. Even with several snapshots it takes less."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


@runtime_checkable
class FollowsLog(Protocol):
    """A cluster whose log can be recorded: `kafka/cluster.py`. A protocol, since tests and simulations have other
    clusters.
    """

    def followed(self, cluster_id: str) -> LogSource | None:
        """The log of the last reading; None if it is that of another cluster, or not followed."""


class RecordingListener(Protocol):
    """Callbacks for what happens to recordings, which become metrics."""

    def recorded(self, resource: Resource) -> None:
        """Called once everything that was committed is on disk."""

    def forgot(self, resource: Resource) -> None:
        """Called when the log of a resource is no longer recorded."""

    def failed(self, reason: str) -> None:
        """A turn failed; `reason` is one of `REASONS`."""

    def wrote(self, size: int) -> None:
        """Called with the number of bytes that were written."""

    def removed(self, size: int) -> None:
        """Called with the number of bytes that were removed to make room."""

    def gap(self, resource: Resource) -> None:
        """Records are missing in a recording, or it was begun anew because the log contradicts it."""

    def note_size(self, size: int) -> None:
        """Called with the size of all recordings in bytes."""

    def note_room(self, resource: Resource, size: int) -> None:
        """Called with the bytes that can be recorded before the oldest segments are removed."""


@dataclass(slots=True)
class _Recording:
    """State of a resource between its turns. `log`: None until the first turn, and after an error of the disk.
    `next_at`: the monotonic time before which no turn begins. `turn`: the one in progress. `logged`: the reason that
    was logged last, "recorded" for a success.
    """

    resource: Resource
    cluster_id: str = ""
    log: RecordedLog | None = None
    next_at: float = 0.0
    turn: asyncio.Task[None] | None = None
    logged: str = ""

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its lines in the log."""
        return {"namespace": self.resource[0], "resource": self.resource[1]}


class LogRecorder:
    """Records the logs of all clusters of this process."""

    def __init__(self, settings: RecorderSettings, listener: RecordingListener, environment: Environment) -> None:
        self._listener, self._environment, self._monotonic = listener, environment, environment.monotonic
        self._recordings = Recordings(
            settings,
            clock=lambda: environment.clock().timestamp(),
            monotonic=environment.monotonic,
            removed=listener.removed,
        )
        self._known: dict[Resource, _Recording] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._begun: dict[Resource, float] = {}
        """Monotonic seconds at which each turn in progress began."""
        self._thread = ThreadPoolExecutor(1, "recorder")

    def saw(self, resource: Resource, cluster: object, status: Status) -> None:
        """Take in that a reconciliation has read the cluster of a resource. Returns at once."""
        cluster_id = status.cluster_id
        if not cluster_id:
            return  # the cluster was never read
        if status.metadata_mode == MetadataMode.ZOOKEEPER:
            self._listener.recorded(resource)  # there is no metadata log, so nothing of it is missing
            return
        recording = self._known.setdefault(resource, _Recording(resource))
        monotonic_time = self._monotonic()
        if recording.turn is not None:
            # The oldest turn of any cluster: if the volume does not answer, it holds the one thread of all.
            if monotonic_time - min(self._begun.values(), default=monotonic_time) > HANGS:
                self._say(recording, "hangs", f"a turn has not ended for {HANGS:g} s: the volume does not answer")
            return
        if monotonic_time < recording.next_at:
            return
        source = cluster.followed(cluster_id) if isinstance(cluster, FollowsLog) else None
        if source is None:
            self._say(recording, "unread", "its metadata log is not followed: see the status of the resource")
            return
        recording.next_at = self._monotonic() + self._environment.jittered(EVERY)
        if recording.cluster_id != cluster_id:
            recording.cluster_id, recording.log = cluster_id, None
        recording.turn = asyncio.create_task(self._turn(recording, source), name=f"record {resource}")

    def forgot(self, resource: Resource) -> None:
        """Called when a resource is deleted. What was recorded stays."""
        recording = self._known.pop(resource, None)
        if recording is not None and recording.turn is not None:
            recording.turn.cancel()
        self._listener.forgot(resource)

    async def close(self) -> None:
        """End all turns. What is on disk is whole, and the next process continues with it."""
        turns = [recording.turn for recording in self._known.values() if recording.turn is not None]
        for turn in turns:
            turn.cancel()
        await asyncio.gather(*turns, return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)

    # --- a turn ---

    async def _turn(self, recording: _Recording, source: LogSource) -> None:
        try:
            async with self._turns:
                self._begun[recording.resource] = self._monotonic()
                complete = await self._record(recording, source)
                if recording.log is not None:
                    room = await self._with_files(partial(self._recordings.room, recording.log))
                    self._listener.note_room(recording.resource, room)
                if complete:
                    self._listener.recorded(recording.resource)
            self._say(recording, "", "")
        except Exception as error:  # no failure of the recording may end the operator
            reason, text = _reason_of(error)
            if isinstance(error, OSError):
                recording.log = None  # the folder may be gone: look for it again next time, or create it
            self._listener.failed(reason)
            self._say(recording, reason, text)
        finally:
            recording.turn = None
            self._begun.pop(recording.resource, None)
            self._listener.note_size(self._recordings.held)

    async def _record(self, recording: _Recording, source: LogSource) -> bool:
        if recording.log is None:
            recording.log = await self._with_files(
                partial(self._recordings.of, recording.resource, recording.cluster_id)
            )
        try:
            return await self._write_committed(recording.resource, recording.log, source)
        except Contradicts as error:
            recording.log = await self._with_files(partial(self._recordings.successor_of, recording.log))
            self._listener.gap(recording.resource)
            text = "the metadata log contradicts what was recorded, and is recorded anew beside it: %s"
            logger.warning(text, error, extra=recording.labels)
            return await self._write_committed(recording.resource, recording.log, source)

    async def _write_committed(self, resource: Resource, log: RecordedLog, source: LogSource) -> bool:
        """Write the committed records, as far as there is time in this turn. True: all of them were written."""
        turn_ends = self._monotonic() + TURN
        position = await self._with_files(log.position) or await self._begin(log, source)
        began_anew = relieved = False  # each at most once in a turn
        while True:
            reply = await _fetched(source, position)
            if reply.diverging is not None:
                raise Contradicts(f"it ends at offset {reply.diverging.offset} of epoch {reply.diverging.epoch}, "
                                  f"and was recorded up to {position.offset} of epoch {position.epoch}")  # fmt: skip
            if reply.snapshot_id is not None:
                if reply.log_start_offset < 0:
                    raise NotWhole("the leader does not say where its log begins")
                # If its log still has the offset, the leader names a snapshot only because the epoch there is another.
                if reply.log_start_offset <= position.offset or began_anew:
                    raise Contradicts(f"offset {position.offset} of epoch {position.epoch} is not in it")
                began_anew, position = True, await self._begin(log, source)  # the records there are removed: a gap
                continue
            below = min(source.until, reply.high_watermark)
            try:
                done = await self._with_files(partial(self._append, log, reply.records, position.offset, below))
            except NoRoom:
                if relieved or not await self._record_newest_snapshot(log, source):
                    raise
                relieved = True  # with a new snapshot, older segments can be removed
                continue
            self._listener.wrote(done.size)
            if done.gap:
                self._listener.gap(resource)
            if done.began and await self._with_files(log.wants_snapshot):
                await self._record_newest_snapshot(log, source)
            if not done.size or done.end.offset >= source.until or self._monotonic() >= turn_ends:
                return done.end.offset >= source.until
            position = done.end

    async def _begin(self, log: RecordedLog, source: LogSource) -> OffsetAndEpoch:
        """The first position to record from. If the log does not begin there with offset 0 or 1, its snapshot is
        recorded first, so that a reader can begin with it.
        """
        first = await source.fetch(0, 0)
        newest, start = first.snapshot_id, first.log_start_offset
        if newest is None:
            return OffsetAndEpoch(0, 0)
        if start == 0:  # the log is whole, but the leader serves it from offset 1 on (`source.py`)
            await self._record_snapshot(log, source, newest)
            return OffsetAndEpoch(1, source.leader_epoch)
        for snapshot in (await source.oldest_snapshot(newest, start), newest):  # the oldest one may just be deleted
            if await self._record_snapshot(log, source, snapshot):
                return snapshot
        raise NotWhole("the snapshots of the leader were replaced while they were read")

    async def _record_newest_snapshot(self, log: RecordedLog, source: LogSource) -> bool:
        """Record the leader's newest snapshot; False: there is no newer one. With it, older segments can be removed."""
        newest = (await source.fetch(0, 0)).snapshot_id
        snapshots = await self._with_files(log.snapshots)
        if newest is None or (snapshots and newest.offset <= snapshots[-1].end_offset):
            return False
        return await self._record_snapshot(log, source, newest)

    async def _record_snapshot(self, log: RecordedLog, source: LogSource, snapshot: OffsetAndEpoch) -> bool:
        """Record a snapshot. True: it is recorded now, or was before; False: the leader no longer has it."""
        snapshots = await self._with_files(log.snapshots)
        if any((recorded.end_offset, recorded.epoch) == (snapshot.offset, snapshot.epoch) for recorded in snapshots):
            return True
        until, size, received = self._monotonic() + SNAPSHOT_WITHIN, -1, 0
        new_snapshots: list[NewSnapshot] = []  # at most one, made in the thread with the first part

        def make() -> None:
            self._recordings.make_room(log, size, snapshot=True)
            new_snapshots.append(log.new_snapshot(snapshot))

        def abandon() -> None:
            for new_snapshot in new_snapshots:
                new_snapshot.abandon()

        try:
            async for part in source.snapshot(snapshot):
                if not received:
                    size = part.size
                    await self._with_files(make)
                if part.size != size or self._monotonic() >= until:
                    raise NotWhole(f"{received} of {size} bytes of a snapshot came within {SNAPSHOT_WITHIN:g} s")
                await self._with_files(partial(new_snapshots[0].feed, part.data))
                received += len(part.data)
            if received != size:
                return False
            await self._with_files(new_snapshots[0].finish)
            await self._with_files(partial(self._recordings.wrote, log, size))
            self._listener.wrote(size)
            return True
        finally:
            # Not awaited, since the task may be cancelled. `make` has ended by then: both run in the same single
            # thread.
            self._thread.submit(abandon)

    def _append(self, log: RecordedLog, data: bytes, at: int, below: int) -> Appended:
        """Make room, and append. Runs in the thread, so that no other cluster takes the room in between."""
        self._recordings.make_room(log, len(data))
        done = log.append(data, at=at, below=below)
        self._recordings.wrote(log, done.size)
        return done

    async def _with_files(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _say(self, recording: _Recording, reason: str, text: str) -> None:
        """Log a failure, unless the last one of this recording had the same reason."""
        if recording.logged == (reason or "recorded"):
            return
        recording.logged = reason or "recorded"
        if reason:
            logger.warning("the metadata log is not recorded (%s): %s", reason, printable(text), extra=recording.labels)
        elif recording.log is not None:
            logger.info("the metadata log is recorded in %s", recording.log.folder, extra=recording.labels)


async def _fetched(source: LogSource, position: OffsetAndEpoch) -> FetchResponse:
    try:
        return await source.fetch(position.offset, position.epoch)
    except ServerError as error:
        if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise Contradicts(f"it does not reach offset {position.offset}") from None
        raise


def _reason_of(error: Exception) -> tuple[str, str]:
    """The reason, as the metric has it, and a text for people."""
    for kinds, reason in _REASONS:
        if isinstance(error, kinds):
            text = str(error)
            if isinstance(error, OSError):
                text = f"{error.filename or 'the volume'}: {error.strerror or error}"
            return reason, text
    return _BUG, f"{type(error).__name__}: {error}"


_REASONS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
    (NoRoom, "limit"),
    (NotRecorded, "refused"),
    (Busy, "busy"),
    ((NotWhole, Contradicts, KraftLogError), "log"),
    (KafkaError, "kafka"),
    (OSError, "disk"),
)
"""Exceptions with the reason of each; the first match counts."""
_BUG = "bug"
REASONS = (*(reason for _, reason in _REASONS), _BUG)
"""Reasons of failed turns, as metrics and the log have them."""
