"""Follows the metadata log of a live quorum like a broker, but as an ordinary client.

Called by `kafka/cluster.py` and `kafka/log/whole.py`. It keeps an image of the committed records, and changes nothing
in the cluster. The algorithm of one reading (`catch_up`):

 1. Connect to the leader; if controllers name several, that of the newest epoch: `Leaders.find`.
 2. Fetch from the end of the records that are held: `_fetch`. If the leader has removed that part of its log, it names
    a snapshot, which is applied as it arrives: `take_snapshot`.
 3. Apply the records below the high watermark of the leader's reply, and keep the rest aside: `HeldLog.append`.
 4. If the leader has truncated applied records, read everything anew: Raft forbids it, but the leader's log counts:
    `HeldLog.truncate`.
 5. Continue up to the high watermark of the first reply: what was committed when the reading began.
 6. Return only with evidence of a majority that is younger than `MAX_AGE`, since a leader that was cut off still
    answers: the high watermark moved while we watched, by an idle controller's NoOp every 500 ms
    (`metadata.max.idle.interval.ms`) at least; or DescribeQuorum of the leader itself shows that a majority of the
    voters fetched from it within the last two seconds of its own clock: `_ask_majority`. Each such fetch was made in
    this leader's epoch, so until then no majority had voted for another; it costs one round trip.
 7. Without either evidence, ask every controller for the leader, once; after that the reading is `Stale`.
 8. If the connection to the leader is lost, search for the leader again, while there is time, and a controller listens:
    `_retrying`.

A single voter is its own majority. Sources: KIP-595, KIP-630, KIP-835; tested with 3.9, 4.2 and 4.3.
"""

from __future__ import annotations

import functools
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

from kafkafeatures.core.facts.readings import Host, LogReading
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.base.errors import (
    ErrorCode,
    KafkaError,
    NoLeader,
    NotAuthorized,
    ResponseTooLarge,
    Stale,
    TimedOut,
    UnsupportedApi,
    WrongCluster,
)
from kafkafeatures.kafka.base.memory_budget import MemoryBudget, Share
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.log.held import OBSERVED, HeldLog
from kafkafeatures.kafka.log.leaders import ATTEMPT, MOVED, Connect, Leaders, raise_for_code
from kafkafeatures.kafka.log.source import PART, snapshot_parts
from kafkafeatures.kafka.probe.quorum import quorum_of
from kafkafeatures.kafka.wire.connection import Connection
from kafkafeatures.kafka.wire.messages import (
    DescribeQuorumRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotResponse,
    LeaderAndEpoch,
    OffsetAndEpoch,
)
from kraftlog import Section

MAX_AGE = 3.0
"""Seconds without evidence of a majority until a reading is stale: six NoOps of a healthy controller."""

POLL_MS = 500
"""Milliseconds for which the leader waits for new records before it answers a Fetch: the interval of the NoOps."""

SNAPSHOT_WITHIN = 1.8
"""Request timeouts that a snapshot may take; fewer than `LOG_TIMEOUTS` of `kafka/cluster.py`, so that the error can say
that it was the snapshot.
"""

BETWEEN_ROUNDS, SLOWEST_ROUND = 0.1, 1.0
"""Seconds between two searches for the leader: the first pause, doubled each time, and the longest pause."""

NOBODY_WITHIN = 1.0
"""Seconds after which the search ends if no controller accepts connections: one that restarts is away for longer, so
waiting a little more would not help.
"""

_FINAL = (NotAuthorized, UnsupportedApi, WrongCluster, ResponseTooLarge)
"""Errors that would be the same with another attempt, or another controller."""


class MetadataLog:
    """One follower of one cluster. Keeps image, position and one connection between calls.

    `controllers`: addresses to start from; `add_controllers` adds what is learned. `request_timeout`: seconds for which
    a call of `catch_up` keeps searching for a leader after errors; a snapshot may take `SNAPSHOT_WITHIN` times as
    long. `part`, in bytes, is the most that is asked for at once. `share` counts its memory; the owner of the share
    calls `discard` to get that back. `sections`: those of the log that the image has.
    """

    def __init__(
        self,
        *,
        connect: Connect,
        controllers: Sequence[Address],
        request_timeout: float,
        environment: Environment,
        part: int = PART,
        share: Share | None = None,
        sections: frozenset[Section] = OBSERVED,
    ) -> None:
        self._leaders = Leaders(connect, controllers, request_timeout)
        self._part = part
        self._timeout = request_timeout
        self._environment, self._monotonic = environment, environment.monotonic
        self._held = HeldLog(share or Share(MemoryBudget(), self.discard), sections)
        self._link: Connection | None = None  # to the leader
        self._leader = LeaderAndEpoch(-1, 0)
        self._evidence_at: float | None = None  # monotonic time of the last evidence of a majority in this call
        self.heard_at = -math.inf  # monotonic time at which the leader of `_leader.epoch` last served us
        self._ask_all = False  # True: the next search for the leader asks all controllers (step 7)

    def add_controllers(self, hosts: Iterable[Host]) -> None:
        """Learn where controllers listen."""
        self._leaders.add(hosts)

    def hold_partitions(self, hold: bool) -> None:
        """Keep partitions in the image from now on, for which the log is read anew; or drop them."""
        self._held.hold_partitions(hold)

    @property
    def leaders(self) -> Leaders:
        """The controllers of the cluster, which know the leader."""
        return self._leaders

    async def of_cluster(self, cluster_id: str, reading: LogReading) -> LogReading:
        """The reading, if its leader belongs to this cluster; else a new one from controllers that do. From now on all
        requests carry the cluster id. Without that, a DNS name or an IP address that now belongs to another cluster
        would show us foreign nodes. Raises what `catch_up` raises; WrongCluster where none of the controllers is of the
        cluster.
        """
        if self._leaders.cluster_id == cluster_id:
            return reading
        self._leaders.cluster_id = cluster_id
        try:
            if self._link is not None and not self._link.closed:
                await self._fetch(0)
                return reading
        except WrongCluster:
            self._held.drop()
            self._leader = LeaderAndEpoch(-1, 0)
        except KafkaError:
            pass  # the leader moved meanwhile: the new one is asked
        await self.close()
        return await self.catch_up()

    async def catch_up(self) -> LogReading:
        """Read everything that is committed by now, with evidence of a majority.

        Raises KafkaError: NoLeader, NotAuthorized (CLUSTER_ACTION), Stale, Unreachable, UnsupportedApi and what a
        connection raises. The position is kept, so that the next call continues from here.
        """
        self._evidence_at, self._held.high_watermark = None, -1  # what was seen in an earlier call proves nothing now
        self._held.begin()
        deadline = self._monotonic() + self._timeout  # for finding a leader again after errors
        stale_at, wait_ms = self._monotonic() + MAX_AGE, 0  # then it is Stale, unless there was progress before
        goal: int | None = None  # the first high watermark of the current leader
        leader, asked_all = self._leader, False
        while True:
            offset = self._held.offset
            await self._retrying(functools.partial(self._fetch, wait_ms), deadline)
            moved = self._held.offset != offset
            wait_ms = 0 if moved else POLL_MS
            if leader != self._leader:  # the previous leader's high watermark may be outdated
                leader, goal, stale_at = self._leader, None, self._monotonic() + MAX_AGE
            if goal is None and self._held.high_watermark >= 0:
                goal = self._held.high_watermark
            if goal is not None and self._held.offset >= goal:
                if self._evidence_age() > MAX_AGE:  # reading a long log took longer than the evidence is valid
                    await self._retrying(self._ask_majority, deadline)
                is_read = self._held.high_watermark >= 0  # else another leader was found just now
                if is_read and self._evidence_age() <= MAX_AGE:
                    return self._reading()
                if is_read and not asked_all:
                    asked_all = self._ask_all = True
                    stale_at = self._monotonic() + MAX_AGE
                    await self.close()
            elif moved:
                stale_at = self._monotonic() + MAX_AGE  # progress, though the goal is not reached yet
            if self._monotonic() >= stale_at:
                raise _stale()

    def leader(self) -> tuple[Connection, LeaderAndEpoch] | None:
        """The connection to the leader of the last reading, as long as it is there."""
        return None if self._link is None or self._link.closed else (self._link, self._leader)

    async def close(self) -> None:
        """Close the connection. The position is kept."""
        if self._link is not None:
            link, self._link = self._link, None
            await link.close()

    def discard(self) -> None:
        """Release all that was read, and its memory. A call that is under way raises ResponseTooLarge, the next one
        begins anew.
        """
        self._held.give_up()

    def _evidence_age(self) -> float:
        return math.inf if self._evidence_at is None else self._monotonic() - self._evidence_at

    def _reading(self) -> LogReading:
        return LogReading(
            self._held.image(),
            self._held.high_watermark,
            self._leader.leader_id,
            self._leader.epoch,
            self._environment.clock(),
        )

    # --- the leader ---

    async def _retrying(self, step: Callable[[], Awaitable[None]], deadline: float) -> None:
        """Run `step` with a connection to the leader; after an error search for the leader again, until the
        deadline.
        """
        self._leaders.begin()
        pause, early_deadline = BETWEEN_ROUNDS, min(deadline, self._monotonic() + NOBODY_WITHIN)
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
                if final or self._monotonic() >= (early_deadline if self._leaders.nobody_listens else deadline):
                    raise
            await self._environment.sleep(pause)
            pause = min(2 * pause, SLOWEST_ROUND)

    async def _find_leader(self) -> None:
        self._held.high_watermark = -1  # a higher value from another leader would be no evidence
        ask_all, self._ask_all = self._ask_all, False
        try:
            self._link, self._leader = await self._leaders.find(at_least=self._leader.epoch, ask_all=ask_all)
        except KafkaError:
            # A cluster that was formatted anew begins with epoch 0, so lower epochs must be accepted again, but not at
            # once: an old leader, which lost to the one that we followed, still shows a majority for
            # MAJORITY_WITHIN_MS.
            if self._monotonic() - self.heard_at > MAX_AGE:
                self._leader = LeaderAndEpoch(-1, 0)
            raise

    async def _ask_majority(self) -> None:
        """Ask the leader for evidence of a majority by DescribeQuorum (step 6); without it `_evidence_at` stays as it
        is.
        """
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
        """Take in one reply of the leader: records, the name of a snapshot, or that it truncated its log."""
        assert self._link is not None  # noqa: S101 - `_retrying` has just found it
        end = self._held.end
        # the cluster was restored or formatted anew: a leader refuses epochs above its own
        if end.epoch > self._leader.epoch:
            self._held.drop()
            end = OffsetAndEpoch(0, 0)
        full = self._held.is_full  # then only the high watermark of the reply is wanted
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
            self._held.truncate(response.diverging.offset)
            return
        if response.snapshot_id is not None:
            await self._held.take_snapshot(response.snapshot_id, self._parts(response.snapshot_id))
            return
        if 0 <= self._held.high_watermark < response.high_watermark:
            self._evidence_at = self._monotonic()
        await self._held.append(b"" if full else response.records, response.high_watermark)

    async def _parts(self, snapshot: OffsetAndEpoch) -> AsyncIterator[FetchSnapshotResponse]:
        """The parts of a snapshot. They end early if the leader deletes it: its next reply to a Fetch names another
        one. Raises TimedOut if they take longer than `SNAPSHOT_WITHIN`.
        """
        assert self._link is not None  # noqa: S101 - `_retrying` has just found it
        until = self._monotonic() + SNAPSHOT_WITHIN * self._timeout
        async for part in snapshot_parts(
            self._link,
            snapshot,
            cluster_id=self._leaders.cluster_id,
            leader_epoch=self._leader.epoch,
            timeout=self._timeout,
            most=self._part,
        ):
            yield part
            end = part.position + len(part.data)
            if end < part.size and self._monotonic() >= until:
                raise TimedOut(
                    f"{end} of the {part.size} bytes of a snapshot came within {SNAPSHOT_WITHIN * self._timeout:g} s",
                    remedy="allow a longer request timeout",
                )

    def _judge(self, response: FetchResponse) -> None:
        """Raise KafkaError for an error code, after noting what the reply says about the leader and its log."""
        raise_for_code(response.error_code)
        code = response.partition_error_code
        if code in MOVED:
            leader = response.current_leader
            if leader is not None and leader.epoch >= self._leader.epoch:
                self._leader = leader
            self._leaders.add(response.nodes)
            raise NoLeader(code, "the leader has changed")
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._held.truncate(0)
        raise_for_code(code)


def _stale() -> Stale:
    return Stale(
        f"the leader answers, but shows no sign of a majority of controllers for {MAX_AGE:g} s",
        remedy="restore a majority of the controllers",
    )
