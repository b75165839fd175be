"""Follow the metadata log of a live quorum, the way a broker does, as an ordinary client.

Called by `kafka/cluster.py`. It finds the leader, fetches what is new (a snapshot first where the log no longer
begins at the start), and keeps an image of what is committed. It judges nothing and changes nothing.

**Committed.** The leader also serves records that are not committed yet and may be truncated. Only what lies below the
high watermark of a reply of this leader is applied; the rest is kept aside until a later reply covers it. A leader that
truncated below what was applied contradicts Raft itself: then everything is read anew, since the log is the truth.

**Fresh.** A leader that was cut off still answers. So a reading counts only with evidence of a majority, of one kind:

- the high watermark moved while we watched: an idle controller appends a NoOp every 500 ms
  (`metadata.max.idle.interval.ms`), and it moves only when a majority has fetched;
- or DescribeQuorum of the leader itself shows that a majority of the voters fetched from it within the last two
  seconds of its own clock. Each such fetch was made in this leader's epoch, so up to that moment no majority had voted
  for another. It is as good as the first, also where NoOps are switched off, and costs one round trip.

With neither within `MAX_AGE` seconds the reading is `Stale`, however recent the connection; who follows hears it
within `STALE_AFTER`, also when the leader hangs. A voter that is alone is its own majority. (KIP-595, KIP-630, KIP-835;
seen on 3.9, 4.2 and 4.3.)

**Bounded.** Whoever answers may send without an end. A snapshot is read as it arrives, and only the image is kept of
it. What is kept is counted (`memory.py`), the time of a snapshot is bounded, and what is large is applied in slices.
"""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

from kafkafeatures.core.facts.readings import Host, LogReading
from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.kafka.base.aside import aside
from kafkafeatures.kafka.base.errors import (
    ErrorCode,
    KafkaError,
    NoLeader,
    NotAuthorized,
    ServerError,
    Stale,
    TimedOut,
    TooLarge,
    UnsupportedApi,
    WrongCluster,
)
from kafkafeatures.kafka.base.memory_budget import CHECK, MemoryBudget, Share
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.log.batch_heads import SLICE, end_of, from_offset, pieces
from kafkafeatures.kafka.log.leaders import ATTEMPT, MOVED, VANISHED, Connect, Leaders, refused
from kafkafeatures.kafka.probe.quorum import quorum_of
from kafkafeatures.kafka.wire.connection import Connection
from kafkafeatures.kafka.wire.messages import (
    DescribeQuorumRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderAndEpoch,
    OffsetAndEpoch,
)
from kraftlog import ImageTooLargeError, KraftLogError, Replay, Section, SnapshotReader, TooLargeError

MAX_AGE = 3.0
"""Seconds without evidence of a majority until a reading is stale: six NoOps of a healthy controller."""

STALE_AFTER = 4.5
"""Seconds after the last evidence within which a follower is told that there is none, whatever hangs."""

POLL_MS = 500
PART = 2 * 1024 * 1024
"""Bytes that are asked for at once. A batch that is larger (up to 8 MiB) comes whole, and alone."""

MAX_TAIL = 8 * 1024 * 1024
"""Bytes of uncommitted records kept aside; past that nothing new is fetched until they are committed."""

MAX_SNAPSHOT = 4 * 1024 * 1024 * 1024
"""Bytes: some thirty million partitions, and more than there is time for."""

SNAPSHOT_WITHIN = 1.8
"""Request timeouts; fewer than a look waits (`kafka/cluster.py`), so that it can be said."""

BETWEEN_ROUNDS, SLOWEST_ROUND = 0.1, 1.0
"""Seconds until the leader is looked for again: twice as long each time, up to the second one."""

OBSERVED = frozenset({Section.REGISTRATIONS, Section.FEATURES, Section.QUORUM, Section.MIGRATION})
"""Sections that an observation is made of. Whatever else the log holds is skipped: it takes neither time nor memory."""

_FINAL = (NotAuthorized, UnsupportedApi, WrongCluster, TooLarge)
"""What another try, or another controller, would not mend."""


class MetadataLog:
    """One follower of one cluster. Keeps image, position and one connection between calls.

    `controllers`: addresses to start from; `add_controllers` adds what is learned. `request_timeout` in seconds bounds
    each call of `catch_up` together with the time that a snapshot takes to transfer. `part`, in bytes, is the most that
    is asked for at once. `share`: of the memory; its owner calls `forget` when it has to go.
    """

    def __init__(
        self,
        *,
        connect: Connect,
        controllers: Sequence[Address],
        request_timeout: float,
        environment: Environment = SYSTEM,
        part: int = PART,
        share: Share | None = None,
    ) -> None:
        self._leaders = Leaders(connect, controllers, request_timeout)
        self._part = part
        self._timeout = request_timeout
        self._environment, self._monotonic = environment, environment.monotonic
        self._share = share or Share(MemoryBudget(), self.forget)
        self._sections = OBSERVED
        self._replay = self._nothing()
        self._tail = b""
        self._forgotten = False
        self._link: Connection | None = None
        self._leader = LeaderAndEpoch(-1, 0)
        self._high_watermark = -1
        self._evidence_at: float | None = None
        self.heard_at = -math.inf  # when the leader of `_leader.epoch` last served us
        self._ask_all = False

    def add_controllers(self, hosts: Iterable[Host]) -> None:
        """Learn where controllers listen."""
        self._leaders.add(hosts)

    def hold_partitions(self, wanted: bool) -> None:
        """Hold the partitions too from now on, for which all is read anew; or no more."""
        if wanted == (Section.PARTITIONS in self._sections):
            return
        self._sections = OBSERVED | {Section.PARTITIONS} if wanted else OBSERVED
        if wanted:
            self._reset()
        else:
            self._replay.leave_out(Section.PARTITIONS)
            self._share.keep(self._replay.weight + len(self._tail))

    @property
    def leaders(self) -> Leaders:
        """Whom it asks who leads."""
        return self._leaders

    async def of_cluster(self, cluster_id: str, reading: LogReading) -> LogReading:
        """The reading, if it is of this cluster; else one of the controllers that are. From now on all requests say so.

        A name that leads to another cluster, or an address that was given to one, would else show us foreign nodes.
        Raises what `catch_up` raises; WrongCluster where none of the controllers is of the cluster.
        """
        if self._leaders.cluster_id == cluster_id:
            return reading
        self._leaders.cluster_id = cluster_id
        try:
            if self._link is not None and not self._link.closed:
                await self._fetch(0)
                return reading
        except WrongCluster:
            self._reset()
            self._leader = LeaderAndEpoch(-1, 0)
        except KafkaError:
            pass  # the leader moved meanwhile: whoever leads now is asked
        await self.close()
        return await self.catch_up()

    async def catch_up(self) -> LogReading:
        """Read everything that is committed by now, with evidence of a majority.

        Raises KafkaError: NoLeader, NotAuthorized (CLUSTER_ACTION), Stale, Unreachable, UnsupportedApi and what a
        connection raises. The position is kept, so that the next call continues from here.
        """
        self._evidence_at, self._high_watermark = None, -1  # what was seen in an earlier call proves nothing now
        self._forgotten = False
        deadline = self._monotonic() + self._timeout
        until, wait_ms = self._monotonic() + MAX_AGE, 0
        goal: int | None = None
        asked_all = False
        while True:
            before = self._replay.offset
            await self._retrying(functools.partial(self._fetch, wait_ms), deadline)
            moved = self._replay.offset != before
            wait_ms = 0 if moved else POLL_MS
            if goal is None and self._high_watermark >= 0:
                goal = self._high_watermark
            if goal is not None and self._replay.offset >= goal:
                if self._evidence_age() > MAX_AGE:  # what was seen at the beginning of a long log is no longer good
                    await self._retrying(self._ask_majority, deadline)
                if self._evidence_age() <= MAX_AGE:
                    return self._reading()
                if not asked_all:
                    asked_all = self._ask_all = True
                    until = self._monotonic() + MAX_AGE
                    await self.close()
            elif moved:
                until = self._monotonic() + MAX_AGE  # a part of what was committed when we began; there is more
            if self._monotonic() >= until:
                raise _stale(MAX_AGE)

    async def follow(self) -> AsyncIterator[LogReading]:
        """A reading for every reply that moved the image, by long poll, until the caller stops or it gets Stale.

        A log or a snapshot that comes in parts is shown when all of it is there, so no reading goes back on another
        unless the cluster itself did.

        Raises what `catch_up` raises. After Stale the caller may begin again: nothing that was applied is lost.
        """
        reading = await self.catch_up()
        yield reading
        shown = reading.image.offset
        while True:
            left = STALE_AFTER - self._evidence_age()
            try:
                async with asyncio.timeout(left):
                    deadline = self._monotonic() + left
                    await self._retrying(functools.partial(self._fetch, POLL_MS), deadline)
                    if self._evidence_age() > MAX_AGE:
                        await self._retrying(self._ask_majority, deadline)
            except (TimeoutError, KafkaError) as error:
                await self.close()
                if isinstance(error, _FINAL):
                    raise
                raise _stale(STALE_AFTER, answered=False) from error
            if self._evidence_age() > MAX_AGE:
                raise _stale(MAX_AGE)
            if self._replay.offset != shown and self._replay.offset >= self._high_watermark >= 0:
                shown = self._replay.offset
                yield self._reading()

    def leader(self) -> tuple[Connection, LeaderAndEpoch] | None:
        """The connection to the leader of the last reading, as long as it is there."""
        return None if self._link is None or self._link.closed else (self._link, self._leader)

    async def close(self) -> None:
        """Close the connection. The position is kept."""
        if self._link is not None:
            link, self._link = self._link, None
            await link.close()

    def forget(self) -> None:
        """Give up all that was read, and its memory. A call that is under way gets TooLarge, the next begins anew."""
        self._reset()
        self._forgotten = True

    def _evidence_age(self) -> float:
        return math.inf if self._evidence_at is None else self._monotonic() - self._evidence_at

    def _reading(self) -> LogReading:
        return LogReading(
            self._replay.image(),
            self._high_watermark,
            self._leader.leader_id,
            self._leader.epoch,
            self._environment.clock(),
        )

    # --- the leader ---

    async def _retrying(self, step: Callable[[], Awaitable[None]], deadline: float) -> None:
        """Take a step with the leader; look for it anew when it is gone, while there is time and a controller."""
        self._leaders.begin()
        pause = BETWEEN_ROUNDS
        while True:
            try:
                if self._link is None or self._link.closed:
                    await self._find_leader()
                await step()
                return
            except KafkaError as error:
                if self._link is not None:
                    self._leaders.strike(self._link.address, error)
                await self.close()
                final = isinstance(error, _FINAL) or self._leaders.given_up
                if final or self._monotonic() >= deadline:
                    raise
            await self._environment.sleep(pause)
            pause = min(2 * pause, SLOWEST_ROUND)

    async def _find_leader(self) -> None:
        self._high_watermark = -1  # of another leader, maybe: that it is higher now would prove nothing
        ask_all, self._ask_all = self._ask_all, False
        try:
            self._link, self._leader = await self._leaders.find(at_least=self._leader.epoch, ask_all=ask_all)
        except KafkaError:
            # A cluster that was made anew counts its epochs from the beginning. But not at once: a leader that lost to
            # the one we heard looks as if it had a majority for MAJORITY_WITHIN_MS, and would turn the image back.
            if self._monotonic() - self.heard_at > MAX_AGE:
                self._leader = LeaderAndEpoch(-1, 0)
            raise

    async def _ask_majority(self) -> None:
        """Evidence of the second kind; leaves `_evidence_at` as it is where the leader shows none."""
        assert self._link is not None  # noqa: S101 - `_retrying` has just found it
        if self._link.api_versions.api_keys.get(DescribeQuorumRequest.api_key) is None:
            return
        response = await self._link.request(DescribeQuorumRequest(), timeout=min(ATTEMPT, self._timeout))
        if response.error_code or response.partition_error_code or response.leader_epoch != self._leader.epoch:
            return
        if quorum_of(response).has_majority:
            self._evidence_at = self._monotonic()

    # --- records ---

    async def _fetch(self, max_wait_ms: int) -> None:
        assert self._link is not None  # noqa: S101 - `_retrying` has just found it
        end = end_of(self._tail) or OffsetAndEpoch(self._replay.offset, max(self._replay.epoch, 0))
        if end.epoch > self._leader.epoch:  # restored, or made anew: a leader refuses a position of its own future
            self._reset()
            end = OffsetAndEpoch(0, 0)
        full = len(self._tail) >= MAX_TAIL
        response: FetchResponse = await self._link.request(
            FetchRequest(
                cluster_id=self._leaders.cluster_id,
                fetch_offset=end.offset,
                last_fetched_epoch=end.epoch if end.offset else 0,
                current_leader_epoch=self._leader.epoch,
                max_wait_ms=max_wait_ms,
                max_bytes=1 if full else self._part,
            ),
            timeout=min(ATTEMPT, self._timeout) + max_wait_ms / 1000,
        )
        self._judge(response)
        self.heard_at = self._monotonic()
        if response.diverging is not None:
            self._forget_from(response.diverging.offset if self._tail else 0)
            return
        if response.snapshot_id is not None:
            await self._fetch_snapshot(response.snapshot_id)
            return
        if self._high_watermark >= 0 and response.high_watermark > self._high_watermark:
            self._evidence_at = self._monotonic()
        self._high_watermark = response.high_watermark
        data = self._tail + (b"" if full else response.records)
        try:
            self._keep(2 * len(data))
            for piece in pieces(data):
                await self._digest(functools.partial(self._replay.append, below=response.high_watermark), piece)
                self._keep(2 * len(data))
        except KraftLogError as error:
            self._reset()
            raise self._unreadable("log", error) from None
        self._tail = from_offset(data, self._replay.offset)
        self._keep(len(self._tail))

    def _judge(self, response: FetchResponse) -> None:
        refused(response.error_code)
        code = response.partition_error_code
        if code in MOVED:
            leader = response.current_leader
            if leader is not None and leader.epoch >= self._leader.epoch:
                self._leader = leader
            self._leaders.add(response.nodes)
            raise NoLeader(code, "the leader has changed")
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._forget_from(0)
        refused(code)

    def _forget_from(self, offset: int) -> None:
        """The log was truncated at `offset`: drop what is not committed, and all where even that is not enough.

        Without a tail it is never enough: what the leader does not know is what was applied, wherever its log ends.
        """
        self._tail = b""
        if offset < self._replay.offset:
            self._reset()

    def _reset(self) -> None:
        self._replay, self._tail, self._high_watermark = self._nothing(), b"", -1
        self._share.keep(0)

    def _nothing(self) -> Replay:
        return Replay(sections=self._sections, limit=self._share.memory.limits.per_cluster)

    async def _fetch_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Part after part. A snapshot that is deleted under the reader is no error: the next Fetch names another."""
        try:
            replay = await self._read_snapshot(snapshot)
        except KraftLogError as error:
            raise self._unreadable("snapshot", error) from None
        finally:
            if not self._forgotten:
                self._share.keep(self._replay.weight + len(self._tail))
        if replay is not None:
            self._replay, self._tail = replay, b""
            self._keep(0)

    async def _read_snapshot(self, snapshot: OffsetAndEpoch) -> Replay | None:
        assert self._link is not None  # noqa: S101 - `_retrying` has just found it
        limit = self._share.memory.limits.per_cluster
        reader = SnapshotReader(end_offset=snapshot.offset, epoch=snapshot.epoch, sections=self._sections, limit=limit)
        position, size = 0, -1
        until = self._monotonic() + SNAPSHOT_WITHIN * self._timeout
        while True:
            response = await self._link.request(
                FetchSnapshotRequest(
                    cluster_id=self._leaders.cluster_id,
                    snapshot_id=snapshot,
                    current_leader_epoch=self._leader.epoch,
                    position=position,
                    max_bytes=self._part,
                ),
                timeout=self._timeout,
            )
            refused(response.error_code)
            if response.partition_error_code in VANISHED:
                return None
            if response.partition_error_code in MOVED:
                raise NoLeader(response.partition_error_code, "the leader has changed")
            refused(response.partition_error_code)
            size = response.size if size < 0 else size
            if response.snapshot_id != snapshot or not follows(response, position, size, self._part):
                raise ServerError(ErrorCode.UNKNOWN_SERVER_ERROR, "a part of the snapshot is not the one asked for")
            if size > MAX_SNAPSHOT:
                raise TooLarge(f"a snapshot of {size} bytes; at most {MAX_SNAPSHOT} are read", remedy=CHECK)
            view = memoryview(response.data)
            step = len(view) if Section.PARTITIONS in self._sections else SLICE
            for start in range(0, len(view), step):
                await self._digest(reader.feed, view[start : start + step])
                self._keep(reader.weight + len(self._tail) + 2 * len(response.data))
            position += len(response.data)
            if position == size:
                replay = reader.finish()
                if Section.PARTITIONS in self._sections:
                    await aside(replay.image)  # sorts them, once
                return replay
            if self._monotonic() >= until:
                raise TimedOut(
                    f"{position} of the {size} bytes of a snapshot came within {SNAPSHOT_WITHIN * self._timeout:g} s",
                    remedy="allow a longer request timeout",
                )

    # --- what it takes ---

    async def _digest(self, take: Callable[[memoryview], object], piece: memoryview) -> None:
        """Apply a piece. Of many clusters only one applies a large one, and then everything else has its turn.

        Beside the event loop where partitions are held: then a batch of some megabytes is read at once.
        """
        if len(piece) < SLICE // 2:
            take(piece)
            return
        async with self._share.memory.turn:
            if self._forgotten:
                return
            if Section.PARTITIONS not in self._sections:
                take(piece)
                await asyncio.sleep(0)
                return
            try:
                await aside(lambda: take(piece))
            except asyncio.CancelledError:
                self._reset()  # the thread continues with what was held so far
                raise

    def _keep(self, more: int) -> None:
        """Count what is kept: the image, and so many bytes more. Raises TooLarge, and then nothing is kept.

        So it does where all had to go while the leader was waited for.
        """
        if self._forgotten:
            raise self._share.lost()
        try:
            self._share.keep(self._replay.weight + more)
        except TooLarge:
            self._reset()
            raise

    def _unreadable(self, what: str, error: KraftLogError) -> KafkaError:
        if isinstance(error, ImageTooLargeError):
            return self._share.too_large()
        if isinstance(error, TooLargeError):
            return TooLarge(f"the {what} holds {error}", remedy=CHECK)
        return ServerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the {what} does not read: {error}")


def follows(part: FetchSnapshotResponse, position: int, size: int, asked: int) -> bool:
    """Whether it is the next part, of a file of that size, and not more than was asked for."""
    taken = len(part.data)
    return (part.position, part.size) == (position, size) and 0 < taken <= min(asked, size - position)


def _stale(patience: float, *, answered: bool = True) -> Stale:
    what = "the leader answers, but shows" if answered else "no leader answers, and there was"
    return Stale(
        f"{what} no sign of a majority of controllers for {patience:g} s",
        remedy="restore a majority of the controllers",
    )
