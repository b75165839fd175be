"""A simulated cluster: nodes, quorum, registrations and finalized levels, as its metadata log says.

What it decides: who leads, who may register, what is written to the log and when it is committed. There is no second
copy of the state: what the controllers know is the replay of the log they wrote, what brokers and standbys know is the
replay up to the high watermark. No I/O; time comes in through `advance` and requests, chance through the given
`Random`, so the same plan, seed and calls give the same bytes. Called by the wire server and by tests.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from msgspec import Struct

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.releases import CONTROLLER_UNREGISTRATION
from kafkasim import registrations, replicas, snapshots
from kafkasim.brokers import RETRY_MS, Brokers
from kafkasim.log import MetadataLog, Position, Snapshot, Write
from kafkasim.node import Key, Node
from kafkasim.plan import NodePlan, Plan, TopicPlan
from kafkasim.releases import KRAFT_VERSION, Release
from kafkasim.replicas import Found
from kafkasim.rules import CONTROLLER_REGISTRATION, NOT_CONTROLLER, FeatureUpdate, Verdict, View, finalized, judge
from kraftlog import Image, Replay, Section
from kraftlog.image import SMALL
from kraftlog.records import kafka_uuid
from kraftlog.schema import table

if TYPE_CHECKING:  # numpy, which a world without topics does without
    from kraftlog.partitions import Partitions

FIRST_PORT = 10_000  # of nodes whose plan names no addresses
COMMIT_MS = 5  # a round of the followers
ELECTION_MS = 1_000  # controller.quorum.election.timeout.ms
UPDATE_VOTER_MS = 2_000  # controller.quorum.fetch.timeout.ms: so long a follower fetches before it sends UpdateVoter
RESTART_MS = 800  # a stopped node that is started again with other binaries
REGISTER_MS = 50  # a controller that finds itself unregistered
CATCH_UP_MS = 500  # a controller that was started reads what it missed of the metadata log
MIGRATION = 8  # metadata.version 3.4-IV0: the log of a 3.x cluster says how far it is from ZooKeeper, KIP-866
TRANSACTIONS = 13  # metadata.version 3.6-IV1: bootstrap records are one metadata transaction, KIP-868

UNSUPPORTED_VERSION = 35
INVALID_REQUEST = 42
BROKER_ID_NOT_REGISTERED = 102
CONTROLLER_ID_NOT_REGISTERED = 136


class ControllerAnswer(Struct, frozen=True):
    """An answer of the active controller, to be sent when the log is committed up to `offset`."""

    verdict: Verdict
    offset: int = 0


class NoActiveControllerError(Exception):
    """A broker keeps the request until a controller is active: no answer now."""


class World:
    """See the module. `advance` moves time; everything else happens at the time of the last call of it. `partitions`:
    topics will be created, though the plan has none.
    """

    def __init__(self, plan: Plan, *, now_ms: int, random: Random, partitions: bool = False) -> None:
        self.now_ms = self.began_ms = now_ms
        self.log = MetadataLog()
        self.random = random
        self.cluster_id = plan.cluster_id or kafka_uuid(self._uuid())
        self.ips: dict[Key, str] = {}  # of the pods that nodes run in, where they run in pods
        self.hidden_topics: frozenset[str] = frozenset()  # that clients have no right to see
        self.grants_cluster_action = True  # without it clients may ask nodes, and not read the log
        self.active: int | None = None
        self.epoch = 0
        self.timing = plan.timing
        self.min_insync_replicas = plan.min_insync_replicas
        self._sections = frozenset(Section) if plan.topics or partitions else SMALL
        self._snapshot_ms = now_ms  # up to when the checkpoint goes that readers are sent to
        self._replay = Replay(sections=self._sections)  # everything appended
        self._leader_image = self._image = self._replay.image()
        self._uncommitted: deque[Image] = deque()  # what each batch above the high watermark made of it
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._last_append = now_ms
        self.nodes: Mapping[Key, Node] = {(node.role, node.id): self._node(plan, node) for node in plan.nodes}
        self.voters = tuple(sorted(n.id for n in plan.nodes if n.role is Role.CONTROLLER and not n.ghost))
        self._told = set(self.voters)  # who has sent UpdateVoter to this leader, and itself
        self._kept: list[tuple[Node, UUID, Callable[[], object]]] = []
        self._brokers = Brokers(self)
        self._found: tuple[Partitions, list[Found]] | None = None  # of the last state that was looked at
        self._begin(plan)

    # --- what nodes know ---

    @property
    def image(self) -> Image:
        """The committed state: what brokers and standby controllers know."""
        return self._image

    @property
    def leader_image(self) -> Image:
        """The state with what is not committed yet: what the active controller judges by."""
        return self._leader_image

    @property
    def active_node(self) -> Node | None:
        """The active controller."""
        return None if self.active is None else self.nodes[Role.CONTROLLER, self.active]

    def of_role(self, role: Role) -> list[Node]:
        """All nodes of a role, ghosts too, by id."""
        return [node for _, node in sorted(self.nodes.items()) if node.role is role]

    def voting(self) -> list[Node]:
        """The voters of the quorum, running or not."""
        return [self.nodes[Role.CONTROLLER, voter] for voter in self.voters]

    def finalized(self, node: Node) -> tuple[dict[str, int], int]:
        """Levels and FinalizedFeaturesEpoch as this node reports them."""
        return dict(finalized(self.image, node.release)), self.features_epoch(node)

    def features_epoch(self, node: Node) -> int:
        """What a node reports as epoch of its features: a controller where a level moved last, a broker the newest
        offset it holds.
        """
        return node.features_epoch if node.role is Role.CONTROLLER else self._image.offset - 1

    def progress(self, node: Node) -> tuple[int, int, int]:
        """How far it has the metadata log: its end, when it fetched last, when it had everything; -1 unknown."""
        if not node.running:
            return -1, -1, -1
        if self.now_ms < node.caught_up_ms:
            return max(self.log.high_watermark - 1, 0), self.now_ms, -1
        return self.log.high_watermark, self.now_ms, self.now_ms

    @property
    def metadata_version(self) -> int:
        """The level by which records are written."""
        return self._level(METADATA_VERSION)

    def partitions(self) -> list[Found]:
        """All of them, by topic and number, with what is not committed yet; none in a world that has no topics."""
        there = self._leader_image.partitioned
        if not there:
            return []
        if self._found is None or self._found[0] is not there:
            self._found = there, list(replicas.found_in(self._leader_image))
        return self._found[1]

    # --- time ---

    def next_due(self) -> int | None:
        """When something happens by itself next, in ms; None if never."""
        due = self._due[0][0] if self._due else None
        if self.active is None:
            return due
        idle = self._last_append + self.timing.idle
        return idle if due is None else min(due, idle)

    def advance(self, now_ms: int, *, sparse: bool = False) -> None:
        """Let happen what is due until then. `sparse`: of NoOps that are not read in between, the last one will do."""
        while (due := self.next_due()) is not None and due <= now_ms:
            if sparse and self.active is not None:
                until = min(now_ms, self._due[0][0]) if self._due else now_ms
                idle = self.timing.idle
                self._last_append += max((until - self._last_append) // idle - 1, 0) * idle
                due = min(until, self._last_append + idle)
            self.now_ms = max(self.now_ms, due)
            if self._due and self._due[0][0] <= due:
                heapq.heappop(self._due)[2]()
            else:
                self.append([Write(table.NO_OP, {})])
        self.now_ms = max(self.now_ms, now_ms)

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now_ms + delay_ms, next(self._order), action))

    # --- requests ---

    def update_features(self, at: Node, updates: Sequence[FeatureUpdate], *, validate_only: bool) -> ControllerAnswer:
        """UpdateFeatures as sent to this node. Raises NoActiveControllerError where a broker would keep it."""
        leader, refused = self._route(at)
        if leader is None:
            return refused
        told = self._told.issuperset(self.voters)
        verdict = judge(View(leader.id, leader.release, self.leader_image, self._static_voters(), told), updates)
        if validate_only:
            return ControllerAnswer(verdict)
        if verdict.kraft_version is not None:
            self.append(registrations.quorum_records(self.voting(), verdict.kraft_version))
            self.append([Write(table.NO_OP, {})])  # gives the request an offset to wait for
        if verdict.levels:
            levels = [registrations.level(*each) for each in verdict.levels]
            before = self.leader_image.features.get(METADATA_VERSION, 0)
            self.append(levels)
            if before < CONTROLLER_REGISTRATION <= self.leader_image.features.get(METADATA_VERSION, 0):
                self._register_controllers()
        return ControllerAnswer(verdict, self.log.end_offset)

    def keep(self, at: Node, request: Callable[[], object]) -> None:
        """What a broker does with a request while no controller is active, also when its client has given up."""
        self._kept.append((at, at.incarnation, request))

    def unregister_broker(self, at: Node, broker_id: int) -> ControllerAnswer:
        """UnregisterBroker as sent to this node."""
        leader, refused = self._route(at)
        if leader is None:
            return refused
        if broker_id not in self.leader_image.brokers:
            text = f"Broker ID {broker_id} is not currently registered"
            return ControllerAnswer(Verdict(BROKER_ID_NOT_REGISTERED, text))
        self._brokers.unregister(broker_id)
        return ControllerAnswer(Verdict(error_message=""), self.log.end_offset)

    def unregister_controller(self, at: Node, controller_id: int) -> ControllerAnswer:
        """UnregisterController as sent to this node (KIP-1312, Kafka 4.4). Voters and running ones go as well."""
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
        if node is not None and node.running:  # it sees the record, and registers itself again at once
            self.after(REGISTER_MS, lambda: self._register_controller(node))
        return ControllerAnswer(Verdict(error_message=""), offset)

    def _register_controller(self, node: Node) -> None:
        if node.running and self.active is not None and node.id not in self.leader_image.controllers:
            self.append([registrations.controller(node)])

    def _register_again(self, node: Node, incarnation: UUID) -> None:
        """A new process of a controller; it tries until there is a leader."""
        if not node.running or node.incarnation != incarnation:
            return
        if self.active is None:
            self.after(RETRY_MS, lambda: self._register_again(node, incarnation))
        elif self._level(METADATA_VERSION) >= CONTROLLER_REGISTRATION:
            self.append([registrations.controller(node)])

    def _route(self, at: Node) -> tuple[Node | None, ControllerAnswer]:
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

    # --- things done to nodes ---

    def stop(self, role: Role, node_id: int, *, kill: bool = False) -> None:
        """End a process. A broker that hosts partitions hands them over first; killed, it is fenced only when its
        session ends. KeyError for a node there is not.
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

    def start(self, role: Role, node_id: int, release: Release | None = None) -> None:
        """Begin a process of this node, maybe with other binaries. KeyError for a node there is not.

        A controller that finds a level it does not support in the log behind its snapshot ends at once.
        """
        node = self.nodes[role, node_id]
        if node.running:
            return
        node.release = release or node.release
        if role is Role.CONTROLLER and self.replayed_in_vain(node, node.release):
            return
        node.running, node.refused, node.started_ms = True, False, self.now_ms
        node.incarnation = self._uuid()
        if role is Role.BROKER:
            self._brokers.register(node)
            return
        node.caught_up_ms = self.now_ms + CATCH_UP_MS
        node.features_epoch = self._image.offset - 1
        self._quorum_changed()
        self._tell_soon(node.id)
        self._register_again(node, node.incarnation)

    def upgrade(self, role: Role, node_id: int, release: Release) -> None:
        """Stop, and start with other binaries a moment after it ended. KeyError for a node there is not."""
        node = self.nodes[role, node_id]
        self.stop(role, node_id)

        def again() -> None:
            if node.stopping:
                self.after(RESTART_MS, again)
            else:
                self.start(role, node_id, release)

        self.after(RESTART_MS, again)

    # --- done to partitions, by people and by leaders ---

    def create_topic(self, topic: TopicPlan, *, commit: bool = False) -> None:
        """A topic whose replicas are in sync at once."""
        self.append(replicas.created(topic, self._uuid(), self._directories(), self.metadata_version), commit=commit)

    def configure(self, value: int | None, *, topic: str | None = None, broker_id: int | None = None) -> None:
        """min.insync.replicas of a topic, of a broker or (neither given) of all of them; None deletes it."""
        self.append(
            [replicas.broker_config(broker_id, value) if topic is None else replicas.topic_config(topic, value)]
        )

    def fall_behind(self, broker_id: int, *, for_ms: int) -> None:
        """Its replicas are too slow for their leaders: out of the ISRs, and after a while back."""
        hosted = self._brokers.hosted(broker_id)
        if self.active is not None and (dropped := replicas.fallen_behind(hosted, broker_id, self.metadata_version)):
            self.append(dropped)
        node = self.nodes[Role.BROKER, broker_id]
        self.after(for_ms, lambda: self._brokers.catch_up(node))

    def reassign(self, topic: str, number: int, target: Sequence[int]) -> None:
        """Move a partition: who is new fetches everything first."""
        (found,) = (one for one in self.partitions() if (one.topic, one.number) == (topic, number))
        self.append([replicas.moving(found, target, self._directories(), self.metadata_version)])
        for broker_id in target:
            self._brokers.catch_up(self.nodes[Role.BROKER, broker_id])
        self.finish_moves()

    def finish_moves(self) -> None:
        """What is being reassigned, and has all its new replicas in sync."""
        alive, directories = self._brokers.alive(), self._directories()
        for found in self.partitions():
            if found.state.adding or found.state.removing:
                done = replicas.moved(found, alive, directories, self.metadata_version)
                if done:
                    self.append(done)

    def take_snapshot(self) -> None:
        """Write the committed state to a checkpoint; readers from offset 0 are sent to it from then on."""
        self._write_snapshot(self.image, self.now_ms)

    def snapshot_of(self, node: Node) -> Snapshot | None:
        """The checkpoint that a controller sends readers from offset 0 to: the newest one that it wrote by itself, or
        that was taken; None while there is none.
        """
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
        """Up to when the newest snapshot goes that a controller wrote by itself."""
        return snapshots.newest_ms(node, self.now_ms, self.timing.snapshot)

    def replayed_in_vain(self, node: Node, release: Release) -> str:
        """The level at which a controller would end, started now with this release; empty where it would not."""
        return snapshots.unsupported(self.image, self.newest_snapshot_ms(node), release)

    # --- inside ---

    def _node(self, plan: Plan, node: NodePlan) -> Node:
        alone = "127.0.0.1", FIRST_PORT + plan.nodes.index(node)  # by it a connection finds the node
        host, port = plan.addresses.get((node.role, node.id), alone)
        ids, now = (self._uuid(), self._uuid()), self.now_ms
        return Node(
            node.role, node.id, node.release, host, port, *ids, running=not node.ghost, started_ms=now, snapshot_ms=now,
            migrating=node.migrating,
        )  # fmt: skip

    def _uuid(self) -> UUID:
        return UUID(int=self.random.getrandbits(128), version=4)

    def _directories(self) -> dict[int, UUID]:
        return {node.id: node.directory for node in self.of_role(Role.BROKER)}

    def _level(self, feature: str) -> int:
        return self._leader_image.features.get(feature, 0)

    def _begin(self, plan: Plan) -> None:
        """The life of the cluster so far: first leader, bootstrap records, registrations. All of it is committed."""
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
                self.append([registrations.controller(node)], commit=True)
        for node in self.of_role(Role.BROKER):
            self._brokers.register(node, commit=True)
        for topic in plan.topics:
            self.create_topic(topic, commit=True)
        for node in self.of_role(Role.BROKER):
            if not node.running:
                self._brokers.fence(node, node.incarnation, commit=True)

    def append(self, writes: Sequence[Write], *, commit: bool = False) -> None:
        data = self.log.append(writes, epoch=self.epoch, timestamp_ms=self.now_ms)
        self._last_append = self.now_ms
        offset = self.log.end_offset
        self._replay.append(data, below=offset)
        self._leader_image = self._replay.image()
        self._uncommitted.append(self._leader_image)
        if commit:
            self._commit(offset)
        else:
            self.after(COMMIT_MS, lambda: self._commit(offset))

    def _commit(self, offset: int) -> None:
        if self.active is None:
            return  # the next leader commits it with its first batch
        before = self._level_records()
        self.log.commit(offset)
        while self._uncommitted and self._uncommitted[0].offset <= self.log.high_watermark:
            self._image = self._uncommitted.popleft()
        if self._level_records() > before:  # an unchanged level moves it too, the quorum's own records do not
            for node in self.of_role(Role.CONTROLLER):
                node.features_epoch = self._image.offset - 1

    def _level_records(self) -> int:
        return self.image.counts.get(table.FEATURE_LEVEL.key, 0)

    def _quorum_changed(self) -> None:
        running = [v for v in self.voters if self.nodes[Role.CONTROLLER, v].running]
        majority = len(running) * 2 > len(self.voters)
        if self.active is not None and self.active in running and majority:
            return
        self.active = None
        if majority:
            self.after(ELECTION_MS, self._elect)

    def _elect(self) -> None:
        running = [node for node in self.voting() if node.running]
        if self.active is not None or len(running) * 2 <= len(self.voters):
            return
        self.epoch += 1
        self.active = self.random.choice(running).id
        dynamic = self._leader_image.kraft_version > 0
        self.append([registrations.leader_change(self.active, self.voting(), running, dynamic=dynamic)])
        self._told = {self.active}
        for voter in running:
            self._tell_soon(voter.id)
        kept, self._kept = self._kept, []
        for broker, incarnation, request in kept:
            if broker.running and broker.incarnation == incarnation:
                request()

    def _tell_soon(self, voter: int) -> None:
        epoch, node = self.epoch, self.nodes[Role.CONTROLLER, voter]

        def tell() -> None:
            if self.epoch == epoch and node.running:
                self._told.add(voter)

        self.after(UPDATE_VOTER_MS, tell)

    def _register_controllers(self) -> None:
        for node in self.of_role(Role.CONTROLLER):
            if node.running:
                self.append([registrations.controller(node)])
