"""One live Kafka cluster, as the rest of the program sees it: implements `KafkaPort` (`core/ports.py`).

Called by the reconciliation and the command line. `read` asks all nodes and follows the metadata log at the same time;
only `prepared` and `unregister` change the cluster. The position in the log is kept between readings, so that a cluster
in which nothing happens costs one short fetch. `core/facts/observe.py` judges what is read here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Self

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.identity import in_doubt
from kafkafeatures.core.facts.readings import (
    NO_CONNECTION,
    NOT_ASKED,
    ClusterProbe,
    EarlierMoves,
    Failure,
    FailureKind,
    Host,
    LogReading,
    Readings,
    Role,
)
from kafkafeatures.core.facts.settings import SNAPSHOT_INTERVAL
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.base.errors import KafkaError, to_failure
from kafkafeatures.kafka.base.memory_budget import MemoryBudget, Share
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address, ClusterSettings
from kafkafeatures.kafka.base.threads import run_in_thread
from kafkafeatures.kafka.log.follower import MetadataLog
from kafkafeatures.kafka.log.level_history import LevelHistory, moves_between
from kafkafeatures.kafka.log.outcome import NO_CONTROLLER, reading_of, result_of, says_the_same
from kafkafeatures.kafka.log.source import LogSource
from kafkafeatures.kafka.partitions.images import PartitionImages
from kafkafeatures.kafka.probe import former_controllers
from kafkafeatures.kafka.probe.directory import hosts_from_registrations
from kafkafeatures.kafka.probe.prober import probe_cluster, probe_more
from kafkafeatures.kafka.probe.quorum import quorum_again
from kafkafeatures.kafka.wire.connection import Connection, Recorder, connect

if TYPE_CHECKING:  # what changes a cluster is imported by who changes it: `describe` starts faster
    from kafkafeatures.core.engine.steps import DryRun, NotSent
    from kafkafeatures.core.facts.claims import ControllerClaim
    from kafkafeatures.core.facts.settings import NodeSettings
    from kafkafeatures.core.facts.znodes import Read
    from kafkafeatures.core.levels.update_feature import UpdateFeature
    from kafkafeatures.core.ports import PreparedUpdate
    from kafkafeatures.kafka.log.history import LogReader
    from kafkafeatures.kafka.log.whole import WholeLog
    from kafkafeatures.kafka.partitions.partitions import PartitionReader
    from kafkafeatures.kafka.probe.identities import Identities
    from kafkafeatures.kafka.requests.unregister import HostedTopics

_MAY_BE_PARTITIONS = (FailureKind.TOO_LARGE, FailureKind.UNSUPPORTED)
"""Failures of the log that may be due to its partitions alone: without them it may be readable."""

AT_ONCE = 0.5
"""Seconds that nodes may take after the log was read; if they took longer, the end of the log is read again."""

LOG_TIMEOUTS = 2
"""Request timeouts that a reading waits for the metadata log: a large snapshot comes in several parts."""


class Cluster:
    """An async context manager for one cluster. It keeps connections and the metadata log until it is closed.

    `recorder` gets the bytes of every exchange. `memory`, `images`: limits that all clusters of the process share.
    `connect`: replaces TCP, for simulations.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        *,
        recorder: Recorder | None = None,
        memory: MemoryBudget | None = None,
        images: PartitionImages | None = None,
        environment: Environment,
        connect: Callable[..., Awaitable[Connection]] = connect,
    ) -> None:
        self._settings, self._environment, self._recorder = settings, environment, recorder
        self._images = images or PartitionImages(monotonic=environment.monotonic)
        self._share = Share(memory or MemoryBudget(), self._discard)
        self._connect = partial(connect, meter=self._share, environment=environment)
        self._pool = Pool(settings, recorder=recorder, connect=self._connect, environment=environment)
        self._log = MetadataLog(
            connect=self._connect_controller,
            controllers=settings.bootstrap_controllers,
            request_timeout=settings.request_timeout,
            environment=environment,
            share=self._share,
        )
        self._identities: Identities | None = None  # made when it is first needed
        self._levels = LevelHistory()
        self._earlier: tuple[tuple[object, ...], EarlierMoves] | None = None  # (key, moves) of `moves_since`
        self._last: ClusterProbe | None = None
        self._as_read: LogReading | None = None  # of the last reading, with secrets; None if it was not read
        self._committed = -1  # the offset of the end of the log when it was last read
        self._partitions: PartitionReader | None = None  # while they are read

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Give up all connections. The next reading opens them again."""
        await self._log.close()
        await self._pool.close()
        self._discard()

    async def read(
        self,
        *,
        partitions: bool = False,
        settings: frozenset[str] = frozenset(),
        claim: Read[ControllerClaim] = NOT_ASKED,
    ) -> Readings:
        """Read nodes and metadata log; the log as soon as the address of a controller is known."""
        if partitions and self._partitions is None and self._last is not None and self._as_read is not None:
            log = await self._bounded(self._log.catch_up)  # reading it anew, with partitions, would lose the history
            if isinstance(log, LogReading):
                self._levels.complete(log, self._last.cluster_id)
        reader, refused = self._partition_reader() if partitions else (None, NOT_ASKED)
        if reader is None:
            self._without_partitions(waits=partitions)
        controllers_known = asyncio.Event()
        if self._settings.bootstrap_controllers:
            controllers_known.set()

        def on_found(role: Role, hosts: tuple[Host, ...]) -> None:
            if role is Role.CONTROLLER and hosts:
                self._log.add_controllers(hosts)
                controllers_known.set()

        reading = asyncio.create_task(self._read_log(controllers_known))
        try:
            probe = await probe_cluster(self._pool, report_nodes=on_found)
            if not controllers_known.is_set() or not probe.may_have_a_log:
                reading.cancel()  # no controller is known, so waiting longer would not help
            outcome = await result_of(reading)
            if isinstance(outcome, Failure) and outcome.kind in NO_CONNECTION and self._log.leaders.has_unasked:
                outcome = await self._bounded(self._log.catch_up)  # the brokers took their time to name the controllers
            log = await self._of_this_cluster(probe, outcome)
            as_read = None
            if isinstance(log, LogReading):
                self._committed = log.image.offset
                as_read, log = log, await self._without_secrets(self._levels.complete(log, probe.cluster_id))
                probe = await self._ask_registered(probe, log)
            names = settings | ({SNAPSHOT_INTERVAL} if partitions else set())  # also while partitions have to wait
            doubtful = in_doubt(probe, log)
            if names or doubtful:
                probe = await self._prover().prove(probe, log, names, doubtful)
        finally:
            reading.cancel()
        self._last, self._as_read = probe, as_read
        if reader is None:
            return self._pool.requester.of_readings(Readings(probe, log, refused))
        if isinstance(log, LogReading):
            await reader.prepare(probe, log)  # before the log's age is checked: a silent broker takes long
            if self._environment.monotonic() - self._log.heard_at > AT_ONCE:
                return await self._read_last(reader, probe, claim)
        return self._pool.requester.of_readings(Readings(probe, log, await reader.read(probe, log, claim)))

    async def look_again(self, *, claim: Read[ControllerClaim] = NOT_ASKED) -> Readings:
        """Read quorum, metadata log and partitions once more, and keep what nodes answered to the last `read`."""
        if self._last is None or self._partitions is None:
            return await self.read(partitions=True, claim=claim)
        return await self._read_last(self._partitions, replace(self._last, at=self._environment.clock()), claim)

    async def unchanged(self) -> bool:
        """True if the log shows, over one connection, that nothing happened since the last reading."""
        if self._as_read is None:
            return False
        log = await self._bounded(self._log.catch_up)
        if not isinstance(log, LogReading):
            return False
        self._committed = log.image.offset
        return says_the_same(self._as_read.image, log.image)

    def followed(self, cluster_id: str) -> LogSource | None:
        """The log of the last reading, for recording; None if it is of another cluster, or not followed."""
        leader = self._log.leader()
        if self._as_read is None or self._last is None or self._last.cluster_id != cluster_id or leader is None:
            return None
        link, leader_and_epoch = leader
        timeout = self._settings.request_timeout
        return LogSource(link, leader_and_epoch.epoch, cluster_id=cluster_id, timeout=timeout, until=self._committed)

    def release_partitions(self, *, at_once: bool = True) -> None:
        """Give up what is kept of partitions: at once, or else only if its turn is over and other clusters wait."""
        if at_once or self._images.is_due(self):
            self._without_partitions()

    async def release_idle_connections(self) -> None:
        """Keep no connection but the one to the active controller."""
        await self._pool.close()

    async def validate(self, changes: Sequence[UpdateFeature], *, directly: bool = False) -> DryRun:
        """Ask for a dry run of the changes, on the route that the last reading found."""
        from kafkafeatures.core.engine.steps import DryRunUnavailable
        from kafkafeatures.kafka.requests import features

        if self._last is None:
            return DryRunUnavailable("the cluster was not read yet")
        return await features.validate(self._pool, features.route(self._last), changes, directly=directly)

    @asynccontextmanager
    async def prepared(self, change: UpdateFeature) -> AsyncIterator[PreparedUpdate | NotSent]:
        """Connect for one change, on the route that the last reading found."""
        from kafkafeatures.core.engine.steps import NotSent
        from kafkafeatures.kafka.requests import features

        if self._last is None:
            yield NotSent("the cluster was not read yet")
            return
        async with features.prepared(self._pool, features.route(self._last), change) as request:
            yield request

    async def read_history(self, reader: LogReader) -> Failure | None:
        """Feed `reader` the metadata log from its oldest record up to the last reading. None: all of it was read."""
        from kafkafeatures.kafka.log.history import LogHistory

        if self._as_read is None:
            return Failure(FailureKind.NOT_ASKED, "metadata log", "it was not read yet")
        timeout, monotonic = self._settings.request_timeout, self._environment.monotonic
        history = LogHistory(self._log.leaders, reader, timeout=timeout, monotonic=monotonic)
        try:
            await history.read(until=self._as_read.image.offset, epoch=self._as_read.leader_epoch)
        except KafkaError as error:
            return to_failure(error, "metadata log")
        return None

    async def moves_since(self, offset: int, epoch: int) -> EarlierMoves | Failure:
        """The changes of finalized levels since this position of the log. Recent ones are in each reading; older ones
        are fetched once and kept until another node leads, since the log may have been restored then.
        """
        leader, until = self._log.leader(), self._levels.since_offset
        if self._as_read is None or self._last is None or leader is None or until is None:
            return Failure(FailureKind.NOT_ASKED, "metadata log", "it was not read yet with a known cluster id")
        key = self._last.cluster_id, leader[1], offset, epoch
        if self._earlier is None or self._earlier[0] != key:
            of, timeout = self._log.leaders.cluster_id, self._settings.request_timeout
            source = LogSource(leader[0], leader[1].epoch, cluster_id=of, timeout=timeout, until=until)
            moves = await moves_between(source, offset, epoch, monotonic=self._environment.monotonic)
            if isinstance(moves, KafkaError):
                return to_failure(moves, "metadata log")
            self._earlier = key, moves
        return self._earlier[1]

    def whole_log(self) -> WholeLog:
        """A second reader of the metadata log, which keeps every section, to compare the log with ZooKeeper."""
        from kafkafeatures.kafka.log.whole import WholeLog

        leader, settings = self._log.leader(), self._settings
        return WholeLog(
            self._connect_controller,
            (*([leader[0].address] if leader is not None else []), *settings.bootstrap_controllers),
            secrets=settings.controllers.secrets,
            memory=self._share.memory,
            timeout=settings.request_timeout,
            timeouts=LOG_TIMEOUTS,
            environment=self._environment,
        )

    async def default_min_insync_replicas(self) -> int | Failure:
        """The default of `min.insync.replicas`: the highest of the brokers that answered in the last reading."""
        from kafkafeatures.kafka.probe.broker_defaults import BrokerDefaults, answering

        return await BrokerDefaults(self._pool).by_asking(answering(self._last.nodes if self._last is not None else ()))

    async def settings_of(self, names: frozenset[str]) -> Mapping[tuple[Role, int], NodeSettings | Failure]:
        """These settings of each node of the last reading, by (role, node id); a Failure where they are unknown."""
        from kafkafeatures.kafka.probe.node_settings import settings_of_all

        return await settings_of_all(self._pool, self._last.nodes if self._last is not None else (), names)

    async def named_controllers(self) -> Mapping[int, frozenset[int] | Failure]:
        """By broker id: the ids of the nodes that it takes for the controller (`named_controllers.py`)."""
        from kafkafeatures.kafka.probe import named_controllers

        return await named_controllers.named_controllers(self._pool, self._last.nodes if self._last is not None else ())

    async def former_controllers(self, addresses: frozenset[str]) -> Mapping[str, Failure | None]:
        """By address ("host:port"): the reason why no controller answers there now; None where one answers."""
        return await former_controllers.former_controllers(self._pool, addresses)

    async def topics_on(self, broker: int) -> HostedTopics | Failure:
        """The topics that a broker hosts, as of the last reading. A Failure where that cannot be known for certain."""
        from kafkafeatures.kafka.requests import features
        from kafkafeatures.kafka.requests.unregister import hosted_by

        if self._last is None or self._as_read is None:
            text = f"it was not read, so the replicas on broker {broker} are unknown"
            return Failure(FailureKind.NOT_ASKED, "metadata log", text, "see the section Not read of `describe`")
        return await hosted_by(self._pool, features.route(self._last), broker, self._as_read.image.counts)

    async def unregister(self, role: Role, node_id: int) -> Failure | None:
        """Remove the registration of a node in this role. None: it is removed, or there was none."""
        from kafkafeatures.kafka.requests import features
        from kafkafeatures.kafka.requests.unregister import unregister

        if self._last is None:
            return Failure(FailureKind.NOT_ASKED, f"Unregister{role.value}", "the cluster was not read yet")
        return await unregister(self._pool, features.route(self._last), role, node_id)

    def _partition_reader(self) -> tuple[PartitionReader | None, Failure]:
        """The reader of partitions from now on; None, and the reason, where too many clusters have theirs in memory."""
        if (waits := self._images.take(self)) is not None:
            return None, waits
        if self._partitions is None:
            from kafkafeatures.kafka.partitions.partitions import PartitionReader  # numpy, which most do without

            self._partitions = PartitionReader(self._pool, self._share)
        self._log.hold_partitions(True)
        return self._partitions, NOT_ASKED

    def _prover(self) -> Identities:
        if self._identities is None:
            from kafkafeatures.kafka.probe.identities import Identities

            self._identities = Identities(self._pool)
        return self._identities

    def _without_partitions(self, *, waits: bool = False) -> None:
        """Release the partitions. `waits`: the cluster keeps its place in the queue for memory."""
        self._log.hold_partitions(False)
        self._partitions = None
        if not waits:
            self._images.give_back(self)

    def _discard(self) -> None:
        """Give up the memory that the metadata log takes. It is read anew by the next reading."""
        self._as_read = None
        self._log.discard()
        self._images.give_back(self)

    async def _read_last(self, reader: PartitionReader, probe: ClusterProbe, claim: Read[ControllerClaim]) -> Readings:
        """Read last, and thus newest, what changes at any moment: the quorum, then the log to its end."""
        self._last = probe = replace(probe, quorum=await quorum_again(self._pool, probe))
        outcome = await self._bounded(self._log.catch_up) if probe.may_have_a_log else NO_CONTROLLER
        log = await self._of_this_cluster(probe, outcome)
        self._as_read = log if isinstance(log, LogReading) else None
        if isinstance(log, LogReading):
            self._committed = log.image.offset
            log = await self._without_secrets(self._levels.complete(log, probe.cluster_id))
        return self._pool.requester.of_readings(Readings(probe, log, await reader.read(probe, log, claim)))

    async def _of_this_cluster(self, probe: ClusterProbe, log: LogReading | Failure) -> LogReading | Failure:
        """The log, after its leader confirmed that it belongs to the cluster whose id the nodes gave."""
        cluster_id = probe.cluster_id
        if isinstance(cluster_id, Failure):
            return cluster_id if cluster_id.kind is FailureKind.WRONG_CLUSTER else log
        if isinstance(log, Failure):
            return log
        return await self._bounded(lambda: self._log.of_cluster(cluster_id, log))

    async def _read_log(self, controllers_known: asyncio.Event) -> LogReading | Failure:
        await controllers_known.wait()
        return await self._bounded(self._log.catch_up)

    async def _bounded(self, reader: Callable[[], Awaitable[LogReading]]) -> LogReading | Failure:
        """A reading of the log; without partitions if these take too much memory, or cannot be decoded."""
        log = await reading_of(reader, timeout := LOG_TIMEOUTS * self._settings.request_timeout)
        if self._partitions is not None and isinstance(log, Failure) and log.kind in _MAY_BE_PARTITIONS:
            self._partitions.not_held = log
            self._log.hold_partitions(False)
            log = await reading_of(self._log.catch_up, timeout)
        return log

    async def _without_secrets(self, log: LogReading) -> LogReading:
        """The reading without our own passwords and tokens, which a hostile or careless node may repeat to us."""
        secrets, reader = self._settings.controllers.secrets, self._partitions
        if not secrets.has_any:
            return log
        if reader is not None:
            return replace(log, image=await run_in_thread(lambda: reader.without_secrets(log.image, secrets)))
        return replace(log, image=await run_in_thread(lambda: secrets.removed_from(log.image)))

    async def _ask_registered(self, probe: ClusterProbe, log: LogReading) -> ClusterProbe:
        """The probe, with nodes that only the log names: above all brokers, if only controllers were configured."""
        for role, security in ((Role.BROKER, self._settings.brokers), (Role.CONTROLLER, self._settings.controllers)):
            hosts = hosts_from_registrations(log.image, role, security.protocol)
            probe = await probe_more(self._pool, probe, role, hosts)
        return probe

    async def _connect_controller(self, address: Address) -> Connection:
        settings = self._settings
        timeout, client_id = settings.request_timeout, settings.client_id
        return await self._connect(
            address, settings.controllers, timeout=timeout, client_id=client_id, recorder=self._recorder
        )
