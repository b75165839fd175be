"""A simulated cluster: its nodes, quorum, registrations, levels and partitions, all of it in its metadata log.

It carries out requests of clients, and what people do to nodes and partitions. `ledger` has log and time, `quorum`
elections, `brokers` the lifecycle of brokers. There is no I/O; time comes through `advance` and requests, randomness
from the given `Random`, so equal plans, seeds and calls give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from msgspec import Struct

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.releases import CONTROLLER_UNREGISTRATION
from kafkasim import registrations, replicas, snapshots
from kafkasim.brokers import Brokers
from kafkasim.log import Position, Snapshot, Write
from kafkasim.node import CONFIGURED_LEVEL, Key, Node
from kafkasim.plan import Plan, TopicPlan
from kafkasim.quorum import Quorum
from kafkasim.releases import ELR_VERSION, KRAFT_VERSION, Release
from kafkasim.replicas import TopicPartition
from kafkasim.rules import CONTROLLER_REGISTRATION, NOT_CONTROLLER, FeatureUpdate, Verdict, View, finalized, judge
from kraftlog import Image, Section
from kraftlog.image import SMALL
from kraftlog.schema import table

if TYPE_CHECKING:  # numpy, which a world without topics does without
    from kraftlog.partitions import Partitions

RESTART_MS = 800  # from the end of a node to its start with other binaries
REGISTER_MS = 50  # until a controller that was unregistered registers again
CATCH_UP_MS = 500  # until a started controller has read the metadata log
RUNS_FOR_MS = 3_600_000  # age of the cluster when a world begins
MIGRATION = 8  # metadata.version 3.4-IV0: the log of a 3.x cluster says how far it is from ZooKeeper, KIP-866
TRANSACTIONS = 13  # metadata.version 3.6-IV1: bootstrap records are one metadata transaction, KIP-868

UNSUPPORTED_VERSION = 35
INVALID_REQUEST = 42
BROKER_ID_NOT_REGISTERED = 102
CONTROLLER_ID_NOT_REGISTERED = 136


class ControllerAnswer(Struct, frozen=True):
    """A response of the active controller, to be sent once the log is committed up to `offset` (exclusive)."""

    verdict: Verdict
    offset: int = 0


class NoActiveControllerError(Exception):
    """No controller is active: a broker keeps the request, and does not answer now."""


Replica = tuple[Node, UUID | None, tuple[int, int, int]]
"""A replica of the metadata log: its node, its directory id if it is known, and `World.progress`."""


class World(Quorum):
    """A simulated cluster (see the module). `advance` sets the time; all other calls happen at that time. `partitions`:
    topics will be created, although the plan has none.
    """

    def __init__(self, plan: Plan, *, now_ms: int, random: Random, partitions: bool = False) -> None:
        sections = frozenset(Section) if plan.topics or partitions else SMALL
        super().__init__(plan, now_ms=now_ms, random=random, sections=sections)
        self.ips: dict[Key, str] = {}  # by node, the IP address of its pod
        self.hidden_topics: frozenset[str] = frozenset()  # topics that clients may not describe
        self.grants_cluster_action = True  # False: clients may not read the metadata log
        self.elected: int | None = None  # in ZooKeeper mode: the broker that is controller
        self.uninformed: set[int] = set()  # brokers that do not know that controller yet
        self.min_insync_replicas = plan.min_insync_replicas
        of_controllers = plan.controllers_min_insync_replicas
        self.controllers_min_insync_replicas = plan.min_insync_replicas if of_controllers is None else of_controllers
        self._snapshot_ms = now_ms  # time of the last record in the current snapshot
        self._brokers = Brokers(self)
        self._cached_partitions: tuple[Partitions, list[TopicPartition]] | None = None  # of the last image
        self._write_history(plan)

    # --- what nodes know ---

    def finalized(self, node: Node) -> tuple[dict[str, int], int]:
        """Levels and FinalizedFeaturesEpoch as this node reports them."""
        return dict(finalized(self.image, node.release)), self.features_epoch(node)

    def features_epoch(self, node: Node) -> int:
        """FinalizedFeaturesEpoch as this node reports it: a controller reports the newest offset at the last change of
        a level, or at its start if that was later; a broker reports the newest offset that it has.
        """
        return node.features_epoch if node.role is Role.CONTROLLER else self._image.offset - 1

    def progress(self, node: Node) -> tuple[int, int, int]:
        """Progress in the metadata log: end offset, time of the last fetch, and time of the last one that reached the
        end; -1 where it is not known.
        """
        if not node.running:
            return -1, -1, -1
        if self.now_ms < node.caught_up_ms:
            return max(self.log.high_watermark - 1, 0), self.now_ms, -1
        return self.log.high_watermark, self.now_ms, self.now_ms

    def quorum_replicas(self) -> tuple[list[Replica], list[Replica]]:
        """Voters and observers as the leader reports them. In a dynamic quorum a voter with a new disk is an observer,
        and the voter with the old directory id never fetches again.
        """
        directories = {voter.id: voter.directory_id for voter in self.image.voters or ()}
        voters: list[Replica] = []
        observers: list[Replica] = []
        for node in self.voting():
            replaced = directories.get(node.id, node.directory) != node.directory
            voters.append((node, directories.get(node.id), (-1, -1, -1) if replaced else self.progress(node)))
            if replaced and node.running:
                observers.append((node, node.directory, self.progress(node)))
        for _, node in sorted(self.nodes.items()):
            if node.running and node.id not in self.voters:
                observers.append((node, node.directory, self.progress(node)))
        return voters, observers

    def partitions(self) -> list[TopicPartition]:
        """Every partition, sorted by topic and number, as the log defines it, uncommitted records included."""
        partitions = self._leader_image.partitioned
        if not partitions:
            return []
        if self._cached_partitions is None or self._cached_partitions[0] is not partitions:
            self._cached_partitions = partitions, list(replicas.partitions_in(self._leader_image))
        return self._cached_partitions[1]

    # --- requests ---

    def update_features(self, at: Node, updates: Sequence[FeatureUpdate], *, validate_only: bool) -> ControllerAnswer:
        """UpdateFeatures as sent to this node. Raises NoActiveControllerError where a broker would keep it."""
        leader, refused = self._route(at)
        if leader is None:
            return refused
        voters_reported = self._reported_voters.issuperset(self.voters)
        verdict = judge(
            View(leader.id, leader.release, self.leader_image, self._static_voters(), voters_reported), updates
        )
        if validate_only:
            return ControllerAnswer(verdict)
        if verdict.kraft_version is not None:
            self.append(registrations.quorum_records(self.voting(), verdict.kraft_version))
            self.append([Write(table.NO_OP, {})])  # an offset for the request to wait for
        if verdict.levels:
            levels = [registrations.level(*each) for each in verdict.levels]
            old_level = self.leader_image.features.get(METADATA_VERSION, 0)
            self.append([*self._before_elr(verdict.levels), *levels])
            if old_level < CONTROLLER_REGISTRATION <= self.leader_image.features.get(METADATA_VERSION, 0):
                self._register_controllers()
        return ControllerAnswer(verdict, self.log.end_offset)

    def _before_elr(self, levels: Iterable[tuple[str, int]]) -> list[Write]:
        """Writes of min.insync.replicas where eligible.leader.replicas.version is raised from 0.

        `ConfigurationControlManager.maybeGenerateElrSafetyRecords`.
        """
        if not any(name == ELR_VERSION and level > 0 for name, level in levels) or self._level(ELR_VERSION):
            return []
        image = self._leader_image
        minimums = image.partitions.min_insync_replicas if image.partitioned is not None else None
        writes = []
        if minimums is None or minimums.cluster is None:
            writes.append(replicas.broker_config(None, self.controllers_min_insync_replicas))
        return writes + [
            replicas.broker_config(id_, None) for id_ in sorted(minimums.brokers if minimums is not None else ())
        ]

    def unregister_broker(self, at: Node, broker_id: int) -> ControllerAnswer:
        """UnregisterBroker as sent to this node. Raises NoActiveControllerError where a broker would keep it."""
        leader, refused = self._route(at)
        if leader is None:
            return refused
        if broker_id not in self.leader_image.brokers:
            text = f"Broker ID {broker_id} is not currently registered"
            return ControllerAnswer(Verdict(BROKER_ID_NOT_REGISTERED, text))
        self._brokers.unregister(broker_id)
        return ControllerAnswer(Verdict(error_message=""), self.log.end_offset)

    def unregister_controller(self, at: Node, controller_id: int) -> ControllerAnswer:
        """UnregisterController as sent to this node (KIP-1312, Kafka 4.4). Kafka unregisters voters and running
        controllers, too. Raises NoActiveControllerError where a broker would keep the request.
        """
        leader, refused = self._route(at)
        if leader is None:
            return refused
        if controller_id == leader.id:
            text = "Controller cannot unregister itself while it is active."
            return ControllerAnswer(Verdict(INVALID_REQUEST, text))
        if self._level(METADATA_VERSION) < CONTROLLER_UNREGISTRATION:
            text = "The current MetadataVersion is too old to support controller unregistration."
            return ControllerAnswer(Verdict(UNSUPPORTED_VERSION, text))
        if controller_id not in self.leader_image.controllers:
            text = f"Controller ID {controller_id} is not currently registered."
            return ControllerAnswer(Verdict(CONTROLLER_ID_NOT_REGISTERED, text))
        self.append([Write(table.UNREGISTER_CONTROLLER, {"controllerId": controller_id})])
        offset = self.log.end_offset
        node = self.nodes.get((Role.CONTROLLER, controller_id))
        if node is not None and node.running:  # it sees the record and registers again
            self.after(REGISTER_MS, lambda: self._register_controller(node))
        return ControllerAnswer(Verdict(error_message=""), offset)

    def _route(self, at: Node) -> tuple[Node | None, ControllerAnswer]:
        """The active controller, if a request to this node reaches it; else None, and the answer to the request. Raises
        NoActiveControllerError.
        """
        leader = self.active_node
        if at.role is Role.BROKER:
            if leader is None:
                raise NoActiveControllerError
        elif leader is None:
            return None, ControllerAnswer(Verdict(NOT_CONTROLLER, "No controller appears to be active."))
        elif leader is not at:
            text = f"The active controller appears to be node {leader.id}."
            return None, ControllerAnswer(Verdict(NOT_CONTROLLER, text))
        return leader, ControllerAnswer(Verdict())

    def _static_voters(self) -> tuple[int, ...]:
        # Up to 4.4 the list is that of the configuration; a dynamic quorum has none there.
        return () if self._image.voters is not None else self.voters

    # --- what people do to nodes ---

    def stop(self, role: Role, node_id: int, *, kill: bool = False) -> None:
        """End a process. A broker makes a controlled shutdown, unless it is killed: then it is fenced when its session
        expires. KeyError for an unknown node.
        """
        node = self.nodes[role, node_id]
        if not node.running:
            return
        if role is Role.CONTROLLER:
            node.snapshot_ms = self.newest_snapshot_ms(node)
            node.running = False
            self._quorum_changed()
        elif kill:
            self._brokers.kill(node)
        elif not node.stopping:
            self._brokers.stop(node)

    def vanish(self, broker_id: int) -> None:
        """End a process without a controlled shutdown and without a session: it has moved to another world."""
        node = self.nodes[Role.BROKER, broker_id]
        node.running = node.stopping = False
        self._brokers.fence(node, node.incarnation)

    def start(self, role: Role, node_id: int, release: Release | None = None) -> None:
        """Start a process of this node, maybe with another release. KeyError for an unknown node.

        A controller ends at once if the log after its snapshot has a level that it does not support.
        """
        node = self.nodes[role, node_id]
        if node.running:
            return
        node.release = release or node.release
        if role is Role.CONTROLLER and self.fatal_level(node, node.release):
            return
        node.running, node.refused, node.started_ms = True, False, self.now_ms
        node.incarnation, node.request_log_level = self._uuid(), CONFIGURED_LEVEL
        if role is Role.BROKER:
            node.has_joined = False
            self._brokers.register(node)
            return
        node.caught_up_ms = self.now_ms + CATCH_UP_MS
        node.features_epoch = self._image.offset - 1
        self._quorum_changed()
        self._report_soon(node.id)
        self._register_again(node, node.incarnation)

    def format_disk(self, node_id: int) -> None:
        """Give a stopped node a new disk, which both roles of a combined node share."""
        directory = self._uuid()
        for node in (self.nodes[role, node_id] for role in Role if (role, node_id) in self.nodes):
            if not node.running:
                node.directory = directory

    def upgrade(self, role: Role, node_id: int, release: Release) -> None:
        """Stop a node, and start it with another release a moment after it ended. KeyError for an unknown node."""
        node = self.nodes[role, node_id]
        self.stop(role, node_id)

        def again() -> None:
            if node.stopping:
                self.after(RESTART_MS, again)
            else:
                self.start(role, node_id, release)

        self.after(RESTART_MS, again)

    # --- what people and leaders do to partitions ---

    def create_topic(self, topic: TopicPlan, *, commit: bool = False) -> None:
        """Create a topic, with all replicas in sync."""
        self.append(replicas.created(topic, self._uuid(), self._directories(), self.metadata_version), commit=commit)

    def configure(self, value: int | None, *, topic: str | None = None, broker_id: int | None = None) -> None:
        """Set min.insync.replicas of a topic, of a broker, or (if neither is given) of all brokers; None deletes it."""
        self.append(
            [replicas.broker_config(broker_id, value) if topic is None else replicas.topic_config(topic, value)]
        )

    def fall_behind(self, broker_id: int, *, for_ms: int) -> None:
        """Let the replicas of a broker that are not leaders be too slow: they leave the ISRs, for `for_ms`."""
        hosted = self._brokers.hosted(broker_id)
        if self.active is not None and (dropped := replicas.fallen_behind(hosted, broker_id, self.metadata_version)):
            self.append(dropped)
        node = self.nodes[Role.BROKER, broker_id]
        self.after(for_ms, lambda: self._brokers.catch_up(node))

    def catch_up(self, broker_id: int) -> None:
        """Let the replicas of a broker that are out of sync fetch what they lack."""
        self._brokers.catch_up(self.nodes[Role.BROKER, broker_id])

    def reassign(self, topic: str, number: int, target: Sequence[int]) -> None:
        """Begin a reassignment of a partition; new replicas must catch up first."""
        (partition,) = (each for each in self.partitions() if (each.topic, each.number) == (topic, number))
        self.append([replicas.moving(partition, target, self._directories(), self.metadata_version)])
        for broker_id in target:
            self._brokers.catch_up(self.nodes[Role.BROKER, broker_id])
        self.finish_moves()

    def finish_moves(self) -> None:
        """End the reassignments that have all their new replicas in sync."""
        alive, directories = self._brokers.alive(), self._directories()
        for partition in self.partitions():
            if partition.state.adding or partition.state.removing:
                done = replicas.moved(partition, alive, directories, self.metadata_version)
                if done:
                    self.append(done)

    def take_snapshot(self) -> None:
        """Write a snapshot of the committed state; readers from offset 0 get it from then on."""
        self._write_snapshot(self.image, self.now_ms)

    def snapshot_of(self, node: Node) -> Snapshot | None:
        """The snapshot that a controller sends to readers from offset 0: the newest one; None while there is none."""
        written_ms = self.newest_snapshot_ms(node)
        if written_ms > self._snapshot_ms:
            self._write_snapshot(snapshots.image_at(self.log, written_ms, self._sections), written_ms)
        return self.log.snapshot

    def _write_snapshot(self, image: Image, at_ms: int) -> None:
        position = Position(image.offset, self.log.epoch_before(image.offset))
        topics = replicas.all_of(image, self._directories(), self.metadata_version) if image.partitioned else []
        data = registrations.snapshot(image, position, self.voting(), self.nodes, topics, timestamp_ms=at_ms)
        self.log.snapshot, self._snapshot_ms = Snapshot(position, data), at_ms

    def newest_snapshot_ms(self, node: Node) -> int:
        """Time of the last record in the newest snapshot that a controller wrote by itself."""
        return snapshots.newest_ms(node, self.now_ms, self.timing.snapshot)

    def fatal_level(self, node: Node, release: Release) -> str:
        """The feature and level because of which a controller would end if it started now with this release; empty if
        it would run.
        """
        return snapshots.unsupported_level(self.image, self.newest_snapshot_ms(node), release)

    # --- inside ---

    def _directories(self) -> dict[int, UUID]:
        return {node.id: node.directory for node in self.of_role(Role.BROKER)}

    def _write_history(self, plan: Plan) -> None:
        """Write the history of the cluster, all of it committed: the first leader, bootstrap records and registrations,
        an hour ago; and topics.
        """
        now_ms, self.now_ms = self.now_ms, self.now_ms - RUNS_FOR_MS
        later = {(node.role, node.id) for node in plan.nodes if node.later}
        self.active, self.epoch = plan.leader or self.voters[0], 1
        first = [registrations.leader_change(self.active, self.voting(), self.voting(), dynamic=plan.is_dynamic)]
        if plan.is_dynamic:
            first += registrations.quorum_records(self.voting(), plan.levels[KRAFT_VERSION])
        self.append(first, commit=True)
        levels = {METADATA_VERSION: plan.levels[METADATA_VERSION], **plan.levels}
        writes = [registrations.level(name, each) for name, each in levels.items() if each and name != KRAFT_VERSION]
        if self.nodes[Role.CONTROLLER, self.active].release.number < (4, 0) and levels[METADATA_VERSION] >= MIGRATION:
            writes.append(registrations.migration(plan.zk_migration_state))
        if levels[METADATA_VERSION] >= TRANSACTIONS:
            begin = Write(table.BEGIN_TRANSACTION, {"name": "Bootstrap records"})
            writes = [begin, *writes, Write(table.END_TRANSACTION, {})]
        self.append(writes, commit=True)
        if levels[METADATA_VERSION] >= CONTROLLER_REGISTRATION:
            for node in self.of_role(Role.CONTROLLER):
                if (node.role, node.id) not in later:
                    self.append([registrations.controller(node)], commit=True)
        for node in self.of_role(Role.BROKER):
            if (node.role, node.id) not in later:
                self._brokers.register(node, commit=True)
        self.now_ms = now_ms
        if not plan.topics:
            self.append([Write(table.NO_OP, {})], commit=True)
        for topic in plan.topics:
            self.create_topic(topic, commit=True)
        for node in self.of_role(Role.BROKER):
            if not node.running:
                self._brokers.fence(node, node.incarnation, commit=True)
