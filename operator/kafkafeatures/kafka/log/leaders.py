"""Finds the leader of the quorum and connects to it: every controller is asked by Fetch, as an ordinary client.

Called by the other modules of this package. The controller that answers first is believed, since nearly always all of
them name the same leader. If that leader shows no majority, the follower has all controllers asked, and the newest
epoch wins: an old leader that was cut off still names itself. Needs CLUSTER_ACTION, as reading the log does, and works
where DescribeQuorum is denied.

A controller that refuses our credentials, or closes `STRIKES` connections, is not asked again until the next `begin`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from kafkafeatures.core.facts.readings import Host
from kafkafeatures.kafka.base.errors import (
    AddressRefused,
    AuthenticationFailed,
    Disconnected,
    ErrorCode,
    KafkaError,
    NoLeader,
    NotAuthorized,
    NotKafka,
    ServerError,
    TlsFailed,
    Unreachable,
    UnsupportedApi,
    WrongCluster,
    code_name,
)
from kafkafeatures.kafka.base.rights import ClusterRight, missing
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.wire.connection import Connection
from kafkafeatures.kafka.wire.messages import FetchRequest, FetchResponse, LeaderAndEpoch

ATTEMPT = 5.0
"""Seconds for a single request, so that a frozen node does not use up the deadline of the whole search."""

ALL_WITHIN = 1.0
"""Seconds for the answers of all controllers, if the first answer was not enough."""

MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH})
"""Codes of a node that does not lead in the epoch that was named."""

VANISHED = frozenset({ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE})
"""Codes of a snapshot that was deleted meanwhile."""

STRIKES = 3
"""Lost connections after which a controller is given up. One is no reason: a controller that stops, or becomes leader
or follower, closes connections as well.
"""

MOST_LEARNED = 100
"""Most controllers that are remembered besides those in the settings; the latest stay. No quorum has as many."""

_REFUSALS = (AddressRefused, AuthenticationFailed, TlsFailed)
"""Errors that the next try would also end with."""

_CUTS = (Disconnected, NotKafka)
"""Errors of a lost connection, each of which is one strike."""

Connect = Callable[[Address], Awaitable[Connection]]
K = TypeVar("K")
V = TypeVar("V")
_Answer = tuple[Connection, LeaderAndEpoch]

_DENIED = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED})


class Leaders:
    """The known controllers of one cluster. `timeout` in seconds bounds each request. A controller is given up when it
    has `STRIKES` strikes.

    `cluster_id`, once it is known, goes with every request, so that a node of another cluster refuses it.
    """

    cluster_id: str | None = None
    nobody_listens = False
    """True if no controller accepted a connection in the last search for the leader."""

    def __init__(self, connect: Connect, controllers: Sequence[Address], timeout: float) -> None:
        self._connect = connect
        self._timeout = min(ATTEMPT, timeout)
        self._configured = dict.fromkeys(controllers)
        self._learned: dict[Address, None] = {}  # those that nodes named; like `_by_id`, the latest are at the end
        self._by_id: dict[int, Address] = {}
        self._strikes: Counter[Address] = Counter()
        self._last_asked: frozenset[Address] = frozenset()

    def begin(self) -> None:
        """Begin a search for the leader: controllers that were given up before are asked again."""
        self._strikes.clear()

    def strike(self, address: Address, error: KafkaError) -> None:
        """Note the error that ended a connection to this controller. A refusal gives it up at once; lost connections
        do after `STRIKES` of them; other errors do not count.
        """
        if isinstance(error, (*_REFUSALS, *_CUTS)):
            self._strikes[address] += STRIKES if isinstance(error, _REFUSALS) else 1

    @property
    def given_up(self) -> bool:
        """True if no controller is left to ask."""
        return not self._usable()

    @property
    def has_unasked(self) -> bool:
        """True if controllers became known since all of them were last asked who leads."""
        return not self._last_asked.issuperset(self._usable())

    def _usable(self) -> list[Address]:
        return [address for address in self._configured | self._learned if self._strikes[address] < STRIKES]

    def add(self, hosts: Iterable[Host]) -> None:
        """Learn where controllers listen. A node may name any number of them, so only the first are taken."""
        for host in itertools.islice(hosts, MOST_LEARNED):
            address = Address(host.host, host.port)
            _put_last(self._by_id, host.id, address)
            _put_last(self._learned, address, None)

    async def find(self, *, at_least: int, ask_all: bool) -> _Answer:
        """Connect to the leader. Returns the connection, and the leader's id and epoch, which is at least `at_least`.
        `ask_all`: wait for the answers of all controllers, and believe the newest epoch; else believe the first answer.
        Raises KafkaError if there is none.
        """
        if not self._configured and not self._learned:
            raise Unreachable(
                "no address of a controller is known",
                remedy="name the controllers: --bootstrap-controller, or spec.cluster.bootstrapControllers",
            )
        attempts = {address: asyncio.create_task(self._who_leads(address)) for address in self._usable()}
        self._last_asked = frozenset(attempts)
        tasks = [*attempts.values()]
        errors: list[KafkaError] = []
        connection: Connection | None = None
        self.nobody_listens = False
        try:
            answers: Iterable[Awaitable[_Answer]] = asyncio.as_completed(tasks)
            if ask_all:
                done, _ = await asyncio.wait(tasks, timeout=min(ALL_WITHIN, self._timeout))
                newest_first = sorted(done, key=_epoch_named, reverse=True)
                answers = newest_first
            for finished in answers:
                try:
                    link, leader = await finished
                    if leader.leader_id < 0 or leader.epoch < at_least:
                        await link.close()
                        raise NoLeader(ErrorCode.NOT_LEADER_OR_FOLLOWER, "no active controller is known")
                    connection = await self._connect_to(leader, link, attempts)
                except KafkaError as error:
                    errors.append(error)
                    continue
                if connection is not None:
                    return connection, leader
        finally:
            await _close_others(tasks, keep=connection)
        self.nobody_listens = all(isinstance(_error_of(task), Unreachable) for task in tasks)
        raise _most_telling(errors)

    async def _connect_to(
        self, leader: LeaderAndEpoch, link: Connection, requests: Mapping[Address, asyncio.Task[_Answer]]
    ) -> Connection | None:
        """Connect to the leader. `link`: the connection to the node that named it; it is returned if that node leads,
        and closed if not. `requests`: those that are under way, by address. None: the leader's address is not known.
        """
        address = self._by_id.get(leader.leader_id)
        if address == link.address:
            return link
        await link.close()
        if address is None:
            return None  # another controller is the leader, or names its address
        if self._strikes[address] >= STRIKES:
            raise NoLeader(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the leader {address} rejects or closes every connection")
        try:
            async with asyncio.timeout(self._timeout):
                return await _open_link(requests.get(address)) or await self._connect(address)
        except KafkaError as error:
            self.strike(address, error)
            raise
        except TimeoutError:
            raise NoLeader(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the leader {address} does not answer") from None

    async def _who_leads(self, address: Address) -> _Answer:
        try:
            return await self._ask_who_leads(address)
        except KafkaError as error:
            self.strike(address, error)
            raise

    async def _ask_who_leads(self, address: Address) -> _Answer:
        """Ask a controller who leads: it names the leader when it refuses a Fetch with an old epoch.

        A standby refuses it as fenced just as the leader does (Kafka compares epochs before it looks who leads), so
        the code proves nothing. Where the reply does not say where the leader listens, the node is asked again with
        the epoch it named: only the leader serves that.
        """
        link = await self._connect(address)
        try:
            response = await self._peek(link, 0)
            leader = response.current_leader or LeaderAndEpoch(-1, -1)
            if leader.leader_id >= 0 and leader.leader_id not in self._by_id:
                second_reply = await self._peek(link, leader.epoch)
                if second_reply.partition_error_code == ErrorCode.NONE:
                    self._by_id[leader.leader_id] = address
            return link, leader
        except BaseException:
            await link.close()
            raise

    async def _peek(self, link: Connection, epoch: int) -> FetchResponse:
        """Send a Fetch with this leader epoch, for the reply about the leader: next to no records are requested. Raises
        KafkaError, but not for a node that does not lead.
        """
        response: FetchResponse = await link.request(
            FetchRequest(self.cluster_id, current_leader_epoch=epoch, max_wait_ms=0, max_bytes=1), timeout=self._timeout
        )
        raise_for_code(response.error_code)
        self.add(response.nodes)
        if response.partition_error_code not in (*MOVED, ErrorCode.NONE):
            raise_for_code(response.partition_error_code)
        return response


async def _open_link(request: asyncio.Task[_Answer] | None) -> Connection | None:
    """The connection of a request that is under way, which is open sooner than a new one. None: the request failed."""
    if request is not None:
        with suppress(KafkaError):
            link, _ = await asyncio.shield(request)
            return None if link.closed else link
    return None


def _put_last(latest: dict[K, V], key: K, value: V) -> None:
    """Put an entry at the end, and remove the first one if there are more than `MOST_LEARNED`."""
    latest.pop(key, None)
    latest[key] = value
    if len(latest) > MOST_LEARNED:
        del latest[next(iter(latest))]


def raise_for_code(code: int) -> None:
    """Raise what an error code of Fetch or FetchSnapshot means; nothing for 0."""
    if code == ErrorCode.NONE:
        return
    if code in _DENIED:
        text, remedy = missing("reading it", ClusterRight.CLUSTER_ACTION)
        raise NotAuthorized(code, text, remedy=remedy)
    if code == ErrorCode.INCONSISTENT_CLUSTER_ID:
        text = "the controllers belong to another cluster than the brokers, or than the expected one"
        raise WrongCluster(code, text, remedy="use addresses of one cluster")
    if code == ErrorCode.UNKNOWN_TOPIC_ID:
        raise UnsupportedApi("this node does not serve the metadata log: it is a broker", remedy="name the controllers")
    raise ServerError(code, f"reading the metadata log: {code_name(code)}")


def _most_telling(errors: list[KafkaError]) -> KafkaError:
    """The error to report: a missing right first, then a node that does not serve the log, then a missing leader, then
    a wrong cluster, then the last error.
    """
    for kind in (NotAuthorized, UnsupportedApi, NoLeader, WrongCluster):
        for error in errors:
            if isinstance(error, kind):
                return error
    return errors[-1] if errors else NoLeader(ErrorCode.NOT_LEADER_OR_FOLLOWER, "no active controller is known")


def _error_of(task: asyncio.Task[_Answer]) -> BaseException | None:
    return None if task.cancelled() else task.exception()


def _epoch_named(task: asyncio.Task[_Answer]) -> int:
    return -1 if task.cancelled() or _error_of(task) else task.result()[1].epoch


async def _close_others(tasks: Sequence[asyncio.Task[_Answer]], *, keep: Connection | None) -> None:
    """Cancel the requests that still run, and close the connections of the others, but not `keep`."""
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, tuple) and result[0] is not keep:
            await result[0].close()
