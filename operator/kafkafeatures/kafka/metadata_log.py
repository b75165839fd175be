"""Follow the metadata log of a live quorum, the way a broker does, as an ordinary client.

Called by `reconcile/cluster.py`. It finds the leader, fetches what is new (a snapshot first where the log no longer
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

With neither within `PATIENCE` seconds the reading is `Stale`, however recent the connection; who follows hears it
within `SAID_WITHIN`, also when the leader hangs. A voter that is alone is its own majority. (KIP-595, KIP-630, KIP-835;
seen on 3.9, 4.2 and 4.3.)

The controller that answers first is believed about who leads, since nearly always all say the same. Where the one it
named shows no majority, all are asked and the newest epoch wins: an old leader that was cut off names itself.
"""

from __future__ import annotations

import asyncio
import functools
import math
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kafkafeatures.core.survey import Host
from kafkafeatures.kafka.errors import (
    ErrorCode,
    KafkaError,
    NoLeader,
    NotAuthorized,
    ServerError,
    Stale,
    Unreachable,
    UnsupportedApi,
    code_name,
)
from kafkafeatures.kafka.rights import Right, missing
from kafkafeatures.kafka.settings import Address
from kafkafeatures.kafka.wire.connection import Connection
from kafkafeatures.kafka.wire.messages import (
    DescribeQuorumRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    LeaderAndEpoch,
    OffsetAndEpoch,
)
from kraftlog import Image, KraftLogError, Replay

PATIENCE = 3.0
"""Seconds without evidence of a majority until a reading is stale: six NoOps of a healthy controller."""

SAID_WITHIN = 4.5
"""Seconds after the last evidence within which a follower is told that there is none, whatever hangs."""

MAJORITY_WITHIN_MS = 2_000
"""`controller.quorum.fetch.timeout.ms`: a voter that has not fetched for longer begins an election itself."""

POLL_MS = 500
PART = 8 * 1024 * 1024
MAX_TAIL = 32 * 1024 * 1024
"""Bytes of uncommitted records kept aside; past that nothing new is fetched until they are committed."""

ATTEMPT = 5.0
"""Seconds for a single request within the deadline of the whole, so that a frozen node does not use it all up."""

ALL_WITHIN = 1.0
"""Seconds to hear from all controllers, where the first that answered was not enough."""

BETWEEN_ROUNDS = 0.1

_BATCH = struct.Struct(">qii")  # base offset, length, leader epoch: the head of a record batch (magic 2)
_LAST_DELTA = struct.Struct(">i")
_MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH})
_VANISHED = frozenset({ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE})
_DENIED = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED})

Connect = Callable[[Address], Awaitable[Connection]]


@dataclass(frozen=True, slots=True)
class LogReading:
    """An image of everything committed, with evidence of a majority behind it. `at`: when the last reply came."""

    image: Image
    high_watermark: int
    leader_id: int
    leader_epoch: int
    at: datetime


def utc_now() -> datetime:
    """The wall clock, with its time zone."""
    return datetime.now(UTC)


class MetadataLog:
    """One follower of one cluster. Keeps image, position and one connection between calls.

    `controllers`: addresses to start from; `add_controllers` adds what is learned. `request_timeout` in seconds bounds
    each call of `catch_up` together with the time that a snapshot takes to transfer. `part`, in bytes, is the most that
    is asked for at once.
    """

    def __init__(
        self,
        *,
        connect: Connect,
        controllers: Sequence[Address],
        request_timeout: float,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        part: int = PART,
    ) -> None:
        self._connect = connect
        self._part = part
        self._addresses = list(dict.fromkeys(controllers))
        self._by_id: dict[int, Address] = {}
        self._timeout = request_timeout
        self._clock, self._now, self._sleep = clock, now, sleep
        self._replay = Replay()
        self._tail = b""
        self._link: Connection | None = None
        self._leader = LeaderAndEpoch(-1, 0)
        self._high_watermark = -1
        self._evidence_at: float | None = None
        self._ask_all = False

    def add_controllers(self, hosts: Iterable[Host]) -> None:
        """Learn where controllers listen."""
        for host in hosts:
            address = Address(host.host, host.port)
            self._by_id[host.id] = address
            if address not in self._addresses:
                self._addresses.append(address)

    async def catch_up(self) -> LogReading:
        """Read everything that is committed by now, with evidence of a majority.

        Raises KafkaError: NoLeader, NotAuthorized (CLUSTER_ACTION), Stale, Unreachable, UnsupportedApi and what a
        connection raises. The position is kept, so that the next call goes on from here.
        """
        self._evidence_at, self._high_watermark = None, -1  # what was seen in an earlier call proves nothing now
        deadline = self._clock() + self._timeout
        until = self._clock() + PATIENCE
        goal: int | None = None
        wait_ms = 0
        asked_all = False
        while True:
            await self._retrying(functools.partial(self._fetch, wait_ms), deadline)
            if goal is None and self._high_watermark >= 0:
                goal = self._high_watermark
            if goal is not None and self._replay.offset < goal:
                continue  # more parts of what was committed when we began
            if goal is not None:
                if self._evidence_at is None:
                    await self._retrying(self._ask_majority, deadline)
                if self._evidence_at is not None:
                    return self._reading()
                wait_ms = POLL_MS
                if not asked_all:
                    asked_all = self._ask_all = True
                    await self.close()
            if self._clock() >= until:
                raise _stale(PATIENCE)

    async def follow(self) -> AsyncIterator[LogReading]:
        """A reading for every reply that moved the image, by long poll, until the caller stops or it gets Stale.

        Raises what `catch_up` raises. After Stale the caller may begin again: nothing that was applied is lost.
        """
        yield await self.catch_up()
        while True:
            before = self._replay.offset
            left = SAID_WITHIN - self._evidence_age()
            try:
                async with asyncio.timeout(left):
                    deadline = self._clock() + left
                    await self._retrying(functools.partial(self._fetch, POLL_MS), deadline)
                    if self._evidence_age() > PATIENCE:
                        await self._retrying(self._ask_majority, deadline)
            except (TimeoutError, KafkaError) as error:
                await self.close()
                if isinstance(error, NotAuthorized | UnsupportedApi):
                    raise
                raise _stale(SAID_WITHIN) from None
            if self._evidence_age() > PATIENCE:
                raise _stale(PATIENCE)
            if self._replay.offset != before:
                yield self._reading()

    async def close(self) -> None:
        """Close the connection. The position is kept."""
        if self._link is not None:
            link, self._link = self._link, None
            await link.close()

    def _evidence_age(self) -> float:
        return math.inf if self._evidence_at is None else self._clock() - self._evidence_at

    def _reading(self) -> LogReading:
        return LogReading(
            self._replay.image(), self._high_watermark, self._leader.leader_id, self._leader.epoch, self._now()
        )

    # --- the leader ---

    async def _retrying(self, step: Callable[[], Awaitable[None]], deadline: float) -> None:
        """Take a step with the leader; look for it anew as often as there is time, when it is gone or another."""
        while True:
            try:
                if self._link is None or self._link.closed:
                    await self._find_leader()
                await step()
                return
            except KafkaError as error:
                await self.close()
                if isinstance(error, NotAuthorized | UnsupportedApi) or self._clock() >= deadline:
                    raise
            await self._sleep(BETWEEN_ROUNDS)

    async def _find_leader(self) -> None:
        """Ask all controllers at once; go to the one that is named first, or with the newest epoch (`_ask_all`)."""
        if not self._addresses:
            raise Unreachable("no address of a controller is known", remedy="name the controllers")
        tasks = [asyncio.create_task(self._who_leads(address)) for address in self._addresses]
        errors: list[KafkaError] = []
        self._high_watermark = -1  # of another leader, maybe: that it is higher now would prove nothing
        try:
            answers: Iterable[Awaitable[tuple[Connection, LeaderAndEpoch]]] = asyncio.as_completed(tasks)
            if self._ask_all:
                done, _ = await asyncio.wait(tasks, timeout=min(ALL_WITHIN, self._timeout))
                newest_first = sorted(done, key=_epoch_named, reverse=True)
                answers, self._ask_all = newest_first, False
            for finished in answers:
                try:
                    link, named = await finished
                except KafkaError as error:
                    errors.append(error)
                    continue
                if named.epoch < self._leader.epoch or named.leader_id < 0:
                    errors.append(NoLeader(ErrorCode.NOT_LEADER_OR_FOLLOWER, "no active controller is known"))
                    await link.close()
                    continue
                leads = self._by_id.get(named.leader_id) == link.address
                self._leader = named
                if leads:
                    self._link = link
                    return
                await link.close()
                address = self._by_id.get(named.leader_id)
                if address is None:
                    continue  # one of the others is it, or names its address
                try:
                    async with asyncio.timeout(min(ATTEMPT, self._timeout)):
                        self._link = await self._connect(address)
                    return
                except KafkaError as error:
                    errors.append(error)
                except TimeoutError:
                    errors.append(NoLeader(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the leader {address} does not answer"))
        finally:
            await _abandon(tasks, keep=self._link)
        self._leader = LeaderAndEpoch(-1, 0)  # a cluster that was made anew counts its epochs from the beginning
        raise _most_telling(errors)

    async def _who_leads(self, address: Address) -> tuple[Connection, LeaderAndEpoch]:
        """Any controller names the leader when it refuses a Fetch with an old epoch.

        A standby refuses it as fenced just as the leader does (Kafka compares epochs before it looks who leads), so
        the code proves nothing. Where the reply does not say where the leader listens, the node is asked again with
        the epoch it named: only the leader serves that.
        """
        link = await self._connect(address)
        try:
            response = await self._peek(link, 0)
            leader = response.current_leader or LeaderAndEpoch(-1, -1)
            if leader.leader_id >= 0 and leader.leader_id not in self._by_id:
                again = await self._peek(link, leader.epoch)
                if again.partition_error_code == ErrorCode.NONE:
                    self._by_id[leader.leader_id] = address
            return link, leader
        except BaseException:
            await link.close()
            raise

    async def _peek(self, link: Connection, epoch: int) -> FetchResponse:
        response: FetchResponse = await link.request(
            FetchRequest(current_leader_epoch=epoch, max_wait_ms=0, max_bytes=1),
            timeout=min(ATTEMPT, self._timeout),
        )
        _refused(response.error_code)
        self.add_controllers(response.nodes)
        if response.partition_error_code not in (*_MOVED, ErrorCode.NONE):
            _refused(response.partition_error_code)
        return response

    async def _ask_majority(self) -> None:
        """Evidence of the second kind; leaves `_evidence_at` as it is where the leader shows none."""
        assert self._link is not None  # noqa: S101 - `_retrying` has just found it
        if self._link.api_versions.api_keys.get(DescribeQuorumRequest.api_key) is None:
            return
        response = await self._link.request(DescribeQuorumRequest(), timeout=min(ATTEMPT, self._timeout))
        if response.error_code or response.partition_error_code or response.leader_epoch != self._leader.epoch:
            return
        # The leader's own time stamp is its clock (KIP-836); without one nobody but itself is known to follow it.
        now = next((v.last_fetch_timestamp for v in response.voters if v.id == response.leader_id), -1)
        current = [
            voter
            for voter in response.voters
            if voter.id == response.leader_id
            or (now >= 0 and voter.last_fetch_timestamp >= now - MAJORITY_WITHIN_MS and voter.last_fetch_timestamp >= 0)
        ]
        if len(current) > len(response.voters) // 2:
            self._evidence_at = self._clock()

    # --- records ---

    async def _fetch(self, max_wait_ms: int) -> None:
        assert self._link is not None  # noqa: S101 - `_retrying` has just found it
        end = _end_of(self._tail) or OffsetAndEpoch(self._replay.offset, max(self._replay.epoch, 0))
        full = len(self._tail) >= MAX_TAIL
        response: FetchResponse = await self._link.request(
            FetchRequest(
                fetch_offset=end.offset,
                last_fetched_epoch=end.epoch if end.offset else 0,
                current_leader_epoch=self._leader.epoch,
                max_wait_ms=max_wait_ms,
                max_bytes=1 if full else self._part,
            ),
            timeout=min(ATTEMPT, self._timeout) + max_wait_ms / 1000,
        )
        self._judge(response)
        if response.diverging is not None:
            self._forget_from(response.diverging.offset)
            return
        if response.snapshot_id is not None:
            await self._fetch_snapshot(response.snapshot_id)
            return
        if self._high_watermark >= 0 and response.high_watermark > self._high_watermark:
            self._evidence_at = self._clock()
        self._high_watermark = response.high_watermark
        data = self._tail + (b"" if full else response.records)
        try:
            self._replay.append(data, below=response.high_watermark)
        except KraftLogError as error:
            self._forget_from(0)
            raise ServerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the log does not read: {error}") from None
        self._tail = _from_offset(data, self._replay.offset)

    def _judge(self, response: FetchResponse) -> None:
        _refused(response.error_code)
        code = response.partition_error_code
        if code in _MOVED:
            leader = response.current_leader
            if leader is not None and leader.epoch >= self._leader.epoch:
                self._leader = leader
            self.add_controllers(response.nodes)
            self._tail = b""  # what the old leader had not committed may never have been
            raise NoLeader(code, "the leader has changed")
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._forget_from(0)
        _refused(code)

    def _forget_from(self, offset: int) -> None:
        """The log was truncated at `offset`: drop what is not committed, and all where even that is not enough."""
        self._tail = b""
        if offset < self._replay.offset:
            self._replay = Replay()
            self._high_watermark = -1

    async def _fetch_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Part after part. A snapshot that is deleted under the reader is no error: the next Fetch names another."""
        assert self._link is not None  # noqa: S101 - `_retrying` has just found it
        data = bytearray()
        while True:
            response = await self._link.request(
                FetchSnapshotRequest(
                    snapshot_id=snapshot,
                    current_leader_epoch=self._leader.epoch,
                    position=len(data),
                    max_bytes=self._part,
                ),
                timeout=self._timeout,
            )
            _refused(response.error_code)
            if response.partition_error_code in _VANISHED:
                return
            if response.partition_error_code in _MOVED:
                raise NoLeader(response.partition_error_code, "the leader has changed")
            _refused(response.partition_error_code)
            if response.snapshot_id != snapshot or response.position != len(data) or not response.data:
                raise ServerError(ErrorCode.UNKNOWN_SERVER_ERROR, "a part of the snapshot is not the one asked for")
            data += response.data
            if len(data) >= response.size:
                break
        replay = Replay()
        try:
            replay.load_snapshot(bytes(data), end_offset=snapshot.offset, epoch=snapshot.epoch)
        except KraftLogError as error:
            raise ServerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the snapshot does not read: {error}") from None
        self._replay, self._tail = replay, b""


def _refused(code: int) -> None:
    if code == ErrorCode.NONE:
        return
    if code in _DENIED:
        text, remedy = missing("reading it", Right.CLUSTER_ACTION)
        raise NotAuthorized(code, text, remedy=remedy)
    if code == ErrorCode.UNKNOWN_TOPIC_ID:
        raise UnsupportedApi("this node does not serve the metadata log: it is a broker", remedy="name the controllers")
    raise ServerError(code, f"reading the metadata log: {code_name(code)}")


def _stale(patience: float) -> Stale:
    return Stale(
        f"the leader answers, but shows no sign of a majority of controllers for {patience:g} s",
        remedy="bring a majority of the controllers back",
    )


def _most_telling(errors: list[KafkaError]) -> KafkaError:
    """A missing right before anything else; then that nobody leads; then what the last one said."""
    for kind in (NotAuthorized, UnsupportedApi, NoLeader):
        for error in errors:
            if isinstance(error, kind):
                return error
    return errors[-1] if errors else NoLeader(ErrorCode.NOT_LEADER_OR_FOLLOWER, "no active controller is known")


def _epoch_named(task: asyncio.Task[tuple[Connection, LeaderAndEpoch]]) -> int:
    return -1 if task.cancelled() or task.exception() else task.result()[1].epoch


async def _abandon(
    tasks: Sequence[asyncio.Task[tuple[Connection, LeaderAndEpoch]]], *, keep: Connection | None
) -> None:
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, tuple) and result[0] is not keep:
            await result[0].close()


def _heads(data: bytes) -> Iterable[tuple[int, int, int, int]]:
    """(position, size, last offset, epoch) of every whole batch."""
    position = 0
    while position + 61 <= len(data):
        base, length, epoch = _BATCH.unpack_from(data, position)
        size = length + 12
        if size < 61 or position + size > len(data):
            return
        (delta,) = _LAST_DELTA.unpack_from(data, position + 23)
        yield position, size, base + delta, epoch
        position += size


def _from_offset(data: bytes, offset: int) -> bytes:
    """The whole batches that hold `offset` and what follows it."""
    begin = end = None
    for position, size, last, _ in _heads(data):
        if last >= offset and begin is None:
            begin = position
        end = position + size
    return b"" if begin is None else data[begin:end]


def _end_of(data: bytes) -> OffsetAndEpoch | None:
    last: OffsetAndEpoch | None = None
    for _, _, offset, epoch in _heads(data):
        last = OffsetAndEpoch(offset + 1, epoch)
    return last
