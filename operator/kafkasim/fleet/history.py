"""Simulates weeks of a cluster's life by its plan, and keeps the resulting log.

Called by `fleet` for each cluster. It does what people do to a cluster (upgrade, finalize, restart, remove, kill) at
the times of the plan; `world` decides which records follow. NoOps in between become runs (`idle`) in the log, so that
months are simulated fast. It also records what was done (`written`, `changes`, `snapshots`), for tests that compare a
reader of the log with it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from msgspec import Struct

from kafkafeatures.core.facts.readings import Role
from kafkasim import registrations
from kafkasim.fleet.idle import IdleRun
from kafkasim.fleet.plan import DAY_MS, ClusterPlan, Scale, Story, levels_of
from kafkasim.log import Snapshot, Write
from kafkasim.plan import NodePlan, Plan, Timing, TopicPlan
from kafkasim.releases import KRAFT_VERSION, Release
from kafkasim.replicas import broker_config
from kafkasim.rules import FeatureUpdate, UpgradeType
from kafkasim.world import World
from kraftlog.batches import Record
from kraftlog.encoding import encode_batch
from kraftlog.image import ZkMigrationState
from kraftlog.records import frame
from kraftlog.schema import table

SHARE_VERSION = "share.version"
SNAPSHOT_EVERY_MS = DAY_MS  # metadata.log.max.snapshot.interval.ms of these clusters
_LIMIT_MS = 900_000  # if a node takes longer to be back, the plan is wrong
_SLOW_TIMES = 12  # how often a broker falls behind, towards the end
_KILLS = 24  # how often the broker of `Story.FLAPPING` is killed
_RECORDED_TYPES = frozenset(
    {
        table.FEATURE_LEVEL, table.REGISTER_BROKER, table.BROKER_REGISTRATION_CHANGE, table.UNREGISTER_BROKER,
        table.REGISTER_CONTROLLER, table.UNREGISTER_CONTROLLER, table.ZK_MIGRATION_STATE, table.LEADER_CHANGE,
    }
)  # fmt: skip


class Written(Struct, frozen=True):
    """A record about nodes, levels, leaders or the migration, and where it is in the log."""

    offset: int
    at_ms: int
    write: Write


class Change(Struct, frozen=True):
    """A change of a finalized level. `by_operator`: the document of the cluster asked for it, and its status has it."""

    at_ms: int
    feature: str
    before: int
    after: int
    by_operator: bool


class NodeSnapshot(Struct, frozen=True):
    """A snapshot of a node, with the time of the last record that it contains."""

    node_id: int
    last_ms: int
    snapshot: Snapshot


class History(World):
    """One cluster of a fleet, made by `live`.

    written, changes, snapshots: what was done, for tests.
    until_ms: time at which the history ends.
    """

    def __init__(self, plan: ClusterPlan, scale: Scale, *, until_ms: int) -> None:
        self.plan = plan
        self.written: list[Written] = []
        self.changes: list[Change] = []
        self.snapshots: list[NodeSnapshot] = []
        self.until_ms = until_ms
        began_ms = until_ms - scale.days * DAY_MS
        random = Random(plan.seed)  # noqa: S311 - a simulation
        super().__init__(_world_plan(plan), now_ms=began_ms, random=random, partitions=True)
        nodes = [*plan.controllers, *plan.brokers][: scale.copies]
        for number, node_id in enumerate(nodes):
            for day in range(max(scale.days - scale.kept_days - 1, 0), scale.days):
                at = began_ms + day * DAY_MS + (number + 1) * self.random.randint(600_000, 3_600_000)
                self.after(at - self.now_ms, partial(self._keep_snapshot, node_id))

    # --- time ---

    def pass_until(self, now_ms: int) -> None:
        """Let time pass until `now_ms`, with the NoOps in between as runs."""
        while True:
            due = self._due[0][0] if self._due else now_ms
            self._idle_until(min(due, now_ms))
            if not self._due or due > now_ms:
                break
            self.now_ms = max(self.now_ms, due)
            heapq.heappop(self._due)[2]()
        self.now_ms = max(self.now_ms, now_ms)

    def wait(self, ms: int) -> None:
        """Let so much time pass."""
        self.pass_until(self.now_ms + ms)

    def until_day(self, day: float) -> None:
        """Let time pass until this day, counted from the beginning; none if the day was reached already."""
        self.pass_until(max(self.began_ms + int(day * DAY_MS), self.now_ms))

    def wait_for(self, is_so: Callable[[], bool], goal: str) -> None:
        """Let time pass until the condition is true. Raises RuntimeError if that takes longer than `_LIMIT_MS`."""
        until = self.now_ms + _LIMIT_MS
        while not is_so():
            if self.now_ms >= until:
                raise RuntimeError(f"{self.plan.name}: {goal} after {_LIMIT_MS // 1000} s still not")
            self.wait(1_000)

    def _idle_until(self, until_ms: int) -> None:
        """Append the NoOps that are due before this time, as one run, and commit it."""
        interval_ms = self.timing.idle
        count = (until_ms - self._last_append - 1) // interval_ms
        if self.active is None or count <= 0:
            return
        run = IdleRun(self.log.end_offset, count, self.epoch, self._last_append + interval_ms, interval_ms)
        self.log.append_piece(run)
        # The replay gets a single batch that spans all of these offsets: it only needs the end.
        record = Record(run.base_offset, run.first_ms, frame(table.NO_OP, {}))
        data = encode_batch([record], leader_epoch=self.epoch, last_offset_delta=count - 1, max_timestamp=run.last_ms)
        self._last_append = self.now_ms = run.last_ms
        self._replay.append(data, below=run.end_offset)
        self._leader_image = self._replay.image()
        self._uncommitted.append(self._leader_image)
        self._commit(run.end_offset)

    def append(self, writes: Sequence[Write], *, commit: bool = False) -> None:
        base = self.log.end_offset
        self.written += [
            Written(offset, self.now_ms, write)
            for offset, write in enumerate(writes, base)
            if write.type in _RECORDED_TYPES
        ]
        super().append(writes, commit=commit)

    def _keep_snapshot(self, node_id: int) -> None:
        """Write a snapshot, and record it as one of this node."""
        self.take_snapshot()
        snapshot = self.log.snapshot
        if snapshot is not None:
            self.snapshots.append(NodeSnapshot(node_id, self.image.timestamp_ms, snapshot))

    # --- what people do ---

    def restart(self, role: Role, node_id: int, release: Release | None = None, *, kill: bool = False) -> None:
        """Restart a node, maybe with another release, and wait until it is back in every ISR."""
        node = self.nodes[role, node_id]
        self.stop(role, node_id, kill=kill)
        self.wait_for(lambda: not node.running, f"{role.value.lower()} {node_id} stopped")
        self.wait(self.random.randint(6_000, 25_000))
        self.start(role, node_id, release)
        self.wait_for(lambda: self._is_back(role, node_id), f"{role.value.lower()} {node_id} came back")

    def roll(self, release: Release | None = None, *, brokers: Sequence[int] | None = None) -> None:
        """Restart controllers, the active one last, and then brokers, one after the other."""
        for controller in sorted(self.voters, key=lambda each: (each == self.active, each)):
            self.restart(Role.CONTROLLER, controller, release)
            self.wait(self.random.randint(10_000, 40_000))
        for broker in self.plan.brokers if brokers is None else brokers:
            if self.nodes[Role.BROKER, broker].running:
                self.restart(Role.BROKER, broker, release)
                self.wait(self.random.randint(10_000, 60_000))

    def set_levels(self, desired: dict[str, int], *, by_operator: bool) -> None:
        """Finalize these levels one by one, like the operator. Raises RuntimeError if the controller refuses one."""
        for feature, level in desired.items():
            current = self.image.features.get(feature, 0)
            if feature == KRAFT_VERSION or current == level:
                continue
            leader = self.active_node
            kind = UpgradeType.UPGRADE if level > current else UpgradeType.SAFE_DOWNGRADE
            if leader is None:
                raise RuntimeError(f"{self.plan.name}: no controller is active")
            answer = self.update_features(leader, [FeatureUpdate(feature, level, kind)], validate_only=False)
            if answer.verdict.error_code:
                raise RuntimeError(f"{self.plan.name}: {answer.verdict.error_message}")
            self.changes.append(Change(self.now_ms, feature, current, level, by_operator))
            self.wait(self.random.randint(500, 3_000))

    def remove_broker(self, broker_id: int) -> None:
        """Move the partitions of a broker to others and stop it, without unregistering it."""
        remaining_brokers = [each for each in self.plan.brokers if each != broker_id]
        for partition in list(self.partitions()):
            replicas = partition.state.replicas
            if broker_id in replicas:
                spare = next(each for each in remaining_brokers if each not in replicas)
                self.reassign(
                    partition.topic, partition.number, [spare if each == broker_id else each for each in replicas]
                )
                self.wait(5_000)
        self.wait_for(lambda: not self._brokers.hosted(broker_id), f"broker {broker_id} is empty")
        self.wait(3_600_000)
        self.stop(Role.BROKER, broker_id)
        self.wait(60_000)

    def _is_back(self, role: Role, node_id: int) -> bool:
        node = self.nodes[role, node_id]
        if role is Role.CONTROLLER:
            return node.running and self.active is not None and self.now_ms >= node.caught_up_ms
        registration = self.image.brokers.get(node_id)
        return (
            registration is not None
            and registration.incarnation == node.incarnation
            and not registration.fenced
            and all(node_id in partition.state.in_sync for partition in self._brokers.hosted(node_id))
        )


def live(plan: ClusterPlan, scale: Scale, *, until_ms: int) -> History:
    """Simulate the whole history of a cluster. Raises RuntimeError if the plan takes longer than the time there is."""
    history = History(plan, scale, until_ms=until_ms)
    _begin(history)
    for day, act in sorted(_acts(history, scale), key=lambda each: each[0]):
        history.until_day(day)
        act()
    if history.now_ms >= until_ms:
        raise RuntimeError(f"{plan.name}: what the plan says takes longer than there is time")
    history.pass_until(until_ms)
    return history


def _world_plan(plan: ClusterPlan) -> Plan:
    migrating = plan.story is Story.STUCK_MIGRATION
    nodes = [NodePlan(Role.CONTROLLER, each, plan.before, migrating=migrating) for each in plan.controllers]
    nodes += [NodePlan(Role.BROKER, each, plan.before, migrating=migrating) for each in plan.brokers]
    if plan.story is Story.GHOST_CONTROLLER and plan.ghost is not None:
        nodes.append(NodePlan(Role.CONTROLLER, plan.ghost, plan.before, ghost=True))
    addresses = {
        (node.role, node.id): (f"{node.role.value.lower()}-{node.id}.{plan.name}.example", port)
        for node in nodes
        for port in ((9092 if node.role is Role.BROKER else 9093),)
    }
    return Plan(
        nodes=tuple(nodes),
        levels=levels_of(plan.before, dynamic=plan.dynamic),
        addresses=addresses,
        topics=() if migrating else _topics(plan)[:1],
        zk_migration_state=ZkMigrationState.PRE_MIGRATION if migrating else ZkMigrationState.NONE,
        timing=Timing(snapshot=SNAPSHOT_EVERY_MS, idle=plan.idle_ms),
    )


def _topics(plan: ClusterPlan) -> tuple[TopicPlan, ...]:
    return tuple(
        TopicPlan(name, replicas, 2 if number % 2 else None)
        for number, (name, replicas) in enumerate(plan.topics.items())
    )


def _begin(history: History) -> None:
    """Make the first hours: the minimum of in-sync replicas for all brokers, then topics; in a migration, the copy."""
    history.wait(600_000)
    history.append([broker_config(None, 2)])  # otherwise the log does not show whether ELR can be raised
    if history.plan.story is Story.STUCK_MIGRATION:
        history.append([Write(table.BEGIN_TRANSACTION, {"name": "ZK Migration"})])
        for topic in _topics(history.plan):
            history.create_topic(topic)
        history.append([registrations.migration(ZkMigrationState.MIGRATION), Write(table.END_TRANSACTION, {})])
        history.wait(1_000)
        return
    for topic in _topics(history.plan)[1:]:
        history.wait(history.random.randint(1_000, 600_000))
        history.create_topic(topic)


def _acts(history: History, scale: Scale) -> list[tuple[float, Callable[[], None]]]:
    """Acts of the story, each with its day. An act whose day is over when its turn comes is done at once."""
    plan, days = history.plan, scale.days
    acts: list[tuple[float, Callable[[], None]]] = []
    if plan.upgraded is not None:
        upgraded_brokers = plan.brokers[: len(plan.brokers) // 2] if plan.story is Story.HALFWAY else None  # None: all
        acts.append((plan.upgraded, lambda: history.roll(plan.after, brokers=upgraded_brokers)))
    if plan.finalized is not None:
        desired = levels_of(plan.after, dynamic=plan.dynamic)
        acts.append((plan.finalized, lambda: history.set_levels(desired, by_operator=plan.documented)))
    if plan.restarted is not None:
        acts.append((plan.restarted, history.roll))
    acts += [(history.random.uniform(0.7, 0.95) * days, lambda: _let_fall_behind(history)) for _ in range(_SLOW_TIMES)]
    kept_days, last = scale.kept_days, plan.brokers[-1]
    acts_of_story: dict[Story, list[tuple[float, Callable[[], None]]]] = {
        Story.GHOST_BROKER: [(0.1 * days, lambda: history.remove_broker(last))],
        Story.NEW_GHOST_BROKER: [
            (days - 0.5 * kept_days, lambda: history.restart(Role.BROKER, last)),
            (days - 0.4 * kept_days, lambda: history.remove_broker(last)),
        ],
        Story.CHANGED_BY_HAND: [(days - 0.2, lambda: history.set_levels({SHARE_VERSION: 0}, by_operator=False))],
        Story.STUCK_MIGRATION: [(0.3 * days, lambda: _leave_zookeeper(history))],
        Story.FLAPPING: [
            (days - 0.2 * kept_days, lambda: _kill_again_and_again(history, int(0.15 * kept_days * DAY_MS) // _KILLS))
        ],
    }
    return acts + acts_of_story.get(plan.story, [])


def _let_fall_behind(history: History) -> None:
    """Take the replicas of one broker out of the ISRs for a while."""
    history.fall_behind(history.random.choice(history.plan.brokers[:3]), for_ms=45_000)


def _leave_zookeeper(history: History) -> None:
    """Restart all brokers but the last one in KRaft mode; the migration goes no further."""
    for broker in history.plan.brokers[:-1]:
        history.nodes[Role.BROKER, broker].migrating = False
        history.restart(Role.BROKER, broker)
        history.wait(30_000)


def _kill_again_and_again(history: History, every_ms: int) -> None:
    for _ in range(_KILLS):
        history.restart(Role.BROKER, history.plan.brokers[-1], kill=True)
        history.wait(every_ms)
