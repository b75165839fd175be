"""A simulated cluster on its way from ZooKeeper, as the operator's processes reach it, and what is true of it.

The cluster is kafkasim's, and above it is production's own adapter. A process reaches it late, or not at all; servers
of the ensemble may be behind; a transaction may get lost, be answered by nothing, or arrive while its sender is gone.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any

from kafkafeatures.core.engine.steps import DryRun, NotSent, Outcome, OutcomeUnknown
from kafkafeatures.core.facts import znodes
from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.readings import EarlierMoves, Failure, FailureKind, Readings, Role
from kafkafeatures.core.facts.znodes import Read, StoreComparison, ZooKeeperReading
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.migration.copied.survey import Survey
from kafkafeatures.core.migration.delete_znodes import DeleteZnodes
from kafkafeatures.core.ports import PreparedDeletion, PreparedUpdate, Withheld
from kafkasim.migration import topics
from kafkasim.migration.cluster import Faults, MigratingCluster
from kafkasim.migration.driver import CONTROLLER, EPOCH, PROGRESS
from kafkasim.migration.ports import SimulatedEnsemble, kafka_of
from kafkasim.plan import TopicPlan
from kafkasim.settings import minimum_of
from tests.reliability.migration_networks import NETWORKS
from tests.reliability.migration_records import (
    Deleted,
    Made,
    Mode,
    Over,
    Released,
    Seen,
    Truth,
    Weighed,
)
from tests.reliability.process_connection import unreachable
from tests.reliability.recorded_world import START_MS
from tests.reliability.records import Copies

if TYPE_CHECKING:
    from tests.reliability.process import Process

LATE_MS = 9_000
"""A transaction that left is on its way for so long, at most."""


class Migrating(MigratingCluster):
    """One that is recorded, as old as everything else. `stale`: chance that a server of the ensemble is behind.
    `hidden`: nodes that the operator does not reach, and that reach each other.
    """

    def __init__(
        self, random: Random, seconds: Callable[[], float], record: Callable[[Any], None], *, epoch: int, count: int
    ) -> None:
        brokers = range(1, count + 1)
        placed = [tuple(random.sample(brokers, 3)) for _ in range(random.choice((1, 3)))]
        plan = (TopicPlan("orders", tuple(placed), random.choice((1, 2, 2))),)
        super().__init__(
            now_ms=START_MS, random=random, brokers=tuple(brokers), topics=plan, faults=Faults(epoch=epoch)
        )
        self.tree.forget()
        self._elapsed, self.record = seconds, record
        self.stale = 0.0
        self.hidden: frozenset[tuple[Role, int]] = frozenset()
        self.made = ["orders"]
        self.record(Made(0.0, "orders"))
        self.on_finalized = lambda: record(Over(self.seconds, self.truth()))

    @property
    def seconds(self) -> float:
        """Since the beginning of the history."""
        return (self.now_ms - START_MS) / 1000

    @property
    def ahead(self) -> float:
        """Seconds that a reading took which waited for an answer."""
        return max(self.seconds - self._elapsed(), 0.0)

    def catch_up(self) -> None:
        """Let happen what is due."""
        self.advance(max(START_MS + int(self._elapsed() * 1000), self.now_ms), sparse=True)

    def make(self, name: str) -> None:
        """Make a topic, by a person, at whatever is controller now."""
        if self.create_topic(TopicPlan(name, (tuple(self.random.sample(self.broker_ids, 3)),), 1)):
            self.made.append(name)
            self.record(Made(self.seconds, name))

    def end_session(self, broker_id: int) -> None:
        """End the session of a broker in ZooKeeper while its process continues: a new session follows."""
        self._session_ends(self._sessions[broker_id])
        self._follow()

    def _load_from_zookeeper(self) -> None:
        super()._load_from_zookeeper()
        there = self.tree.get(EPOCH)
        epoch = 0 if there is None else znodes.controller_epoch(there).value
        highest = max((one.controller_epoch for one in topics.states(self.tree).values()), default=0)
        self.record(Released(self.seconds, epoch, highest))

    # --- what is true ---

    def mode_of(self, id_: int) -> Mode:
        """The mode in which the process of a broker runs."""
        other = None if self.quorum is None else self.quorum.nodes[Role.BROKER, id_]
        if other is not None and other.running and not other.in_zookeeper_mode:
            return Mode.KRAFT
        node = self.zookeeper.nodes[Role.BROKER, id_]
        if not node.running:
            return Mode.GONE
        return Mode.FLAGGED if node.migrating else Mode.PLAIN

    def _flag_of(self, id_: int) -> bool | None:
        if not self.runs(Role.CONTROLLER, id_):
            return None
        return True if self.quorum is None else self.quorum.nodes[Role.CONTROLLER, id_].migrating

    def file_that_runs(self, role: Role, id_: int) -> Mapping[str, str] | None:
        """The configuration file with which the node's process was started; None if no process answers."""
        found = self.answering(role, id_)
        return None if found is None else found[1].file

    def truth(self) -> Truth:
        """The true state at this moment."""
        quorum, there, progress = self.quorum, self.tree.get(CONTROLLER), self.tree.get(PROGRESS)
        claim = None if there is None else znodes.controller(there)
        leads = quorum is not None and quorum.active is not None
        world = self.deciding
        found = () if world is None else world.partitions()
        least = {} if world is None else world.image.partitions.min_insync_replicas.topics
        default = 1 if world is None else max((minimum_of(world, one) for one in self.broker_ids), default=1)
        controllers = {one: self._flag_of(one) for one in self.controller_ids}
        voters = {
            one
            for one in self.controller_ids
            if quorum is not None and (node := quorum.nodes[Role.CONTROLLER, one]).running
            and self.now_ms >= node.caught_up_ms
        }  # fmt: skip
        return Truth(
            state=(quorum.leader_image.zk_migration_state or 0) if quorum is not None and leads else None,
            leader=-1 if quorum is None or quorum.active is None else quorum.active,
            claim=None if claim is None else claim.node_id,
            is_kraft=claim is not None and claim.is_kraft,
            offset=None if progress is None else znodes.migration(progress).offset,
            brokers={one: self.mode_of(one) for one in self.broker_ids},
            controllers=controllers,
            copies={
                f"{one.topic}-{one.number}": Copies(
                    frozenset(one.state.replicas), one.state.in_sync, least.get(one.topic, default)
                )
                for one in found
            },
            topics=tuple(sorted({one.topic for one in found})),
            voters=frozenset(voters),
            registered=self._registered(),
            is_hidden=self.hidden.issuperset((Role.CONTROLLER, one) for one in self.controller_ids),
        )  # fmt: skip

    def _registered(self) -> float | None:
        if self.quorum is None:
            return None
        epochs = [one.epoch for one in self.quorum.leader_image.brokers.values() if not one.is_migrating_zk_broker]
        last = max(epochs, default=-1)
        batches = (one for one in reversed(self.quorum.log.pieces) if one.base_offset <= last < one.end_offset)
        return next(((one.first_ms - START_MS) / 1000 for one in batches), None)

    def differing(self) -> tuple[str, ...]:
        """Paths below which ZooKeeper does not hold what the metadata log does."""
        if self.quorum is None:
            return ()
        wanted = topics.written(self.quorum.image, 0, {})
        found = {
            path
            for of_topic in wanted.values()
            for path, data in of_topic.items()
            if (there := self.tree.get(path)) is None or _said(there.data) != _said(data)
        }
        found |= {f"{topics.TOPICS}/{one}" for one in self.tree.below(topics.TOPICS) if one not in wanted}
        return tuple(sorted(found))


def _said(data: bytes) -> Any:
    """Without what has no counterpart in the log, and lists whose order says nothing."""
    found = json.loads(data)
    found.pop("controller_epoch", None)
    return found | ({"isr": sorted(found["isr"])} if "isr" in found else {})


class MigrationConnection:
    """`OpenCluster` of one resource in a process, with its ensemble."""

    workloads = None

    def __init__(self, process: Process, name: str, cluster: Migrating, controllers: str = "a") -> None:
        self.process, self._name, self.cluster = process, name, cluster
        self.weather, self.random = process.world.weather, process.world.random
        self._kafka, _ = kafka_of(cluster, through=NETWORKS[controllers])

    @property
    def uid(self) -> str:
        """The resource that it was opened for."""
        return self.process.uids.get(self._name, "")

    def record(self, kind: Callable[..., Any], *what: Any) -> None:
        """Record an action of this process for its resource."""
        self.cluster.record(kind(self.cluster.seconds, self.process.name, self.uid, *what))

    def draws(self, chance: float) -> bool:
        """True if an event with this chance happens."""
        return self.random.random() < chance

    async def reached(self) -> None:
        """A message on its way: time passes, and the process may die."""
        self.process.point()
        slow = self.draws(self.weather.roads.slow)
        await asyncio.sleep(self.cluster.ahead + 0.01 + (4.0 if slow else 0.02) * self.random.random())
        self.process.point()
        self.cluster.catch_up()

    def logged(self, step: object) -> bool:
        """True if the last entry of the effect log names this change."""
        line = self.process.logged.pop() if self.process.logged else None
        return line is not None and line.step == step and line.resource.endswith(f"/{self._name}")

    # --- `KafkaPort`, and what keeps connections ---

    async def read(self, **demands: Any) -> Readings:
        await self.reached()
        if self.draws(self.weather.roads.lost_before):
            nowhere = unreachable(self.process.world.wall())
            return Readings(nowhere, Failure(FailureKind.UNREACHABLE, "bootstrap", "connection refused"))
        self.record(Seen, self.cluster.truth(), False)
        readings = await self._kafka.read(**demands)
        self.record(Seen, self.cluster.truth(), True)
        await self.reached()
        return readings

    async def look_again(self, **demands: Any) -> Readings:
        await self.reached()
        self.record(Seen, self.cluster.truth(), False)
        readings = await self._kafka.look_again(**demands)
        self.record(Seen, self.cluster.truth(), True)
        await self.reached()
        return readings

    async def named_controllers(self) -> Mapping[int, frozenset[int] | Failure]:
        await self.reached()
        return await self._kafka.named_controllers()

    async def former_controllers(self, addresses: frozenset[str]) -> Mapping[str, Failure | None]:
        await self.reached()
        return await self._kafka.former_controllers(addresses)

    async def unchanged(self) -> bool:
        await self.reached()
        return await self._kafka.unchanged()

    def release_partitions(self, *, at_once: bool = True) -> None:
        self._kafka.release_partitions(at_once=at_once)

    async def release_idle_connections(self) -> None:
        await self._kafka.release_idle_connections()

    async def close(self) -> None:
        await self._kafka.close()

    async def moves_since(self, offset: int, epoch: int) -> EarlierMoves | Failure:
        await self.reached()
        return await self._kafka.moves_since(offset, epoch)

    async def validate(self, changes: Sequence[UpdateFeature], *, directly: bool = False) -> DryRun:
        await self.reached()
        return await self._kafka.validate(changes, directly=directly)

    @asynccontextmanager
    async def prepared(self, change: UpdateFeature) -> AsyncIterator[PreparedUpdate | NotSent]:
        number = self.process.world.sent(
            self.process.name, self.uid, self.cluster.cluster_id, change, self.logged(change)
        )
        assert number
        yield NotSent("no level is moved in this history")


class Ensemble:
    """`ZooKeeperPort` of a process. Each reading is of a server of its own, which may be behind."""

    def __init__(self, connection: MigrationConnection) -> None:
        self._to = connection
        self._there = SimulatedEnsemble(connection.cluster, self._behind)

    def _behind(self) -> int:
        return self._to.random.randrange(15_000) if self._to.draws(self._to.cluster.stale) else 0

    async def _lost(self, what: str) -> Failure | None:
        await self._to.reached()
        lost = self._to.draws(self._to.weather.roads.lost_after)
        return Failure(FailureKind.TIMED_OUT, what, "no answer in time") if lost else None

    async def read(self) -> ZooKeeperReading | Failure:
        self._to.record(Seen, self._to.cluster.truth(), False)
        return await self._lost("ZooKeeper") or await self._there.read()

    async def controller(self) -> Read[ControllerClaim]:
        return await self._lost("znode /controller") or await self._there.controller()

    async def compare(self, cluster_id: str) -> StoreComparison | Failure:
        lost = await self._lost("ZooKeeper")
        before = self._to.cluster.differing()
        found = lost or await self._there.compare(cluster_id)
        if isinstance(found, StoreComparison):
            self._to.record(Weighed, before, self._to.cluster.differing())
        return found

    async def survey(self, within: float) -> Survey | Failure:
        return await self._lost("ZooKeeper") or await self._there.survey(within)

    @asynccontextmanager
    async def prepared(self, step: DeleteZnodes) -> AsyncIterator[PreparedDeletion | NotSent]:
        if await self._lost("ZooKeeper"):
            yield NotSent("no session")
            return
        async with self._there.prepared(step) as transaction:
            yield transaction if isinstance(transaction, NotSent) else _Deletion(self._to, step, transaction)


class _Deletion:
    """`PreparedDeletion`: what becomes of it is drawn."""

    def __init__(self, connection: MigrationConnection, step: DeleteZnodes, request: PreparedDeletion) -> None:
        self._to, self._step, self._request = connection, step, request

    async def send(self, withheld: Withheld) -> Outcome:
        to, roads = self._to, self._to.weather.roads
        logged = to.logged(self._step)
        await to.reached()
        if to.draws(roads.lost_before):
            return OutcomeUnknown("the session was lost")
        if why := withheld():
            return NotSent(why)
        if to.draws(roads.late):
            to.cluster.after(to.random.randrange(LATE_MS), lambda: self._arrives(logged))
            await asyncio.sleep(to.random.random() * 10.0)
            await to.reached()
            return OutcomeUnknown("no answer")
        outcome = self._arrives(logged)
        await to.reached()
        return OutcomeUnknown("no answer") if to.draws(roads.lost_after) else outcome

    def _arrives(self, logged: bool) -> Outcome:
        cluster = self._to.cluster
        truth, progress = cluster.truth(), cluster.tree.get(PROGRESS)
        kept = "" if progress is None else progress.data.decode()
        outcome = self._transact()
        left = cluster.tree.get(PROGRESS)
        if progress is not None and (left is None or left.czxid != progress.czxid):  # a quorum that runs makes it anew
            self._to.record(Deleted, tuple(sorted(self._step.deletes)), kept, truth, logged)
        return outcome

    def _transact(self) -> Outcome:
        """Carry it out at once: the transaction of kafkasim waits for nothing."""
        sending = self._request.send(lambda: None)
        try:
            sending.send(None)
        except StopIteration as ended:
            outcome: Outcome = ended.value
            return outcome
        raise AssertionError("it waits")
