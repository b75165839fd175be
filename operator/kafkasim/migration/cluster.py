"""A simulated cluster that can go from ZooKeeper to KRaft and back: processes, two controllers, one ensemble.

It consists of two worlds with a common time: in one the broker that ZooKeeper elected is controller, in the other the
quorum. A broker process is in the first, in both, or in the second, depending on the properties file that it was
started with. After metadata was copied the quorum's world decides about partitions, and after the transaction that goes
back the other one again. Its callers start and stop processes and change files, like people.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from random import Random

from msgspec import Struct

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import Role, majority_of
from kafkasim.migration.driver import Driver
from kafkasim.migration.elections import ZK_CONTROLLER, Elections
from kafkasim.migration.files import Form, file_of, has_flag, is_in_zookeeper_mode
from kafkasim.migration.tree import Operation
from kafkasim.node import Key, Node
from kafkasim.plan import NodePlan, Plan, Timing, TopicPlan
from kafkasim.releases import release_named
from kafkasim.world import World

NEVER_MS = 10**15
"""Interval of NoOps in the world of ZooKeeper, which has no metadata log in reality."""
BOOT_MS = 4_000
"""Time in ms from the start of a process until it begins to work."""
FIRST_PORT = 20_000  # the port of a node is this and its id
RELEASE = release_named("3.9")
"""Release of all nodes: the last one that can migrate."""


class Faults(Struct, frozen=True):
    """Faults of a migration.

    lost_writes: probability that a change of a topic is not written to ZooKeeper.
    stalls: the quorum does not reach ZooKeeper; it writes there later.
    epoch: epoch of the quorum when it is formed; above 1 as if there had been elections before.
    """

    lost_writes: float = 0.0
    stalls: bool = False
    epoch: int = 1


class MigratingCluster(Elections):
    """Processes of brokers and controllers, and the worlds in which they are.

    zookeeper: the world in which a broker is controller (see `Elections`).
    quorum: the world of the controllers; None until a majority of them runs for the first time.
    driver: the migration driver of the quorum.
    files: properties of each node, which take effect with its next start.
    faults: faults of the migration; tests change them.
    on_copied, on_finalized: called once the quorum decides, and when the migration is over.
    """

    def __init__(
        self,
        *,
        now_ms: int,
        random: Random,
        brokers: Sequence[int] = (1, 2, 3),
        controllers: Sequence[int] = (3001, 3002, 3003),
        topics: Sequence[TopicPlan] = (),
        timing: Timing | None = None,
        faults: Faults | None = None,
    ) -> None:
        self.faults = faults or Faults()
        self.controller_ids = tuple(controllers)
        self.ips: Mapping[Key, str] = {}
        self.files: dict[Key, Mapping[str, str]] = {
            **{(Role.BROKER, id_): file_of(Form.PLAIN_BROKER, id_) for id_ in brokers},
            **{(Role.CONTROLLER, id_): file_of(Form.MIGRATING_CONTROLLER, id_) for id_ in controllers},
        }
        self._addresses = {key: ("127.0.0.1", FIRST_PORT + key[1]) for key in self.files}
        self._timing = timing or Timing()
        keys = [(Role.CONTROLLER, ZK_CONTROLLER), *((Role.BROKER, id_) for id_ in brokers)]
        nodes = [NodePlan(role, id_, RELEASE) for role, id_ in keys]
        plan = Plan(
            tuple(nodes), {METADATA_VERSION: RELEASE.bootstrap_level}, addresses=self._addresses, topics=tuple(topics),
            timing=replace(self._timing, idle=NEVER_MS),
        )  # fmt: skip
        super().__init__(World(plan, now_ms=now_ms, random=random, partitions=True))
        self.cluster_id = self.zookeeper.cluster_id
        self.quorum: World | None = None
        self.driver: Driver | None = None
        self._formatted: dict[int, Mapping[str, str]] = {}  # controllers that run before there is a quorum
        self._stopping: dict[int, bool] = {}  # brokers that are ending, and whether they were killed
        self.on_finalized: Callable[[], None] = lambda: None
        self.on_copied: Callable[[], None] = lambda: None
        for id_ in self.broker_ids:
            self.zookeeper.nodes[Role.BROKER, id_].file = self.files[Role.BROKER, id_]

    # --- time ---

    def next_due(self) -> int | None:
        """The time of the next event."""
        return self._first([world.next_due() for world in self._worlds()])

    def advance(self, now_ms: int, *, sparse: bool = False) -> None:
        """Run all events that are due until then, in both worlds and here, in the order of time. `sparse`: see
        `Ledger.advance`.
        """
        while (due := self._next_event(sparse=sparse)) is not None and due <= now_ms:
            self._reach(max(due, self.now_ms), sparse=sparse)
        self._reach(max(now_ms, self.now_ms), sparse=sparse)

    def _next_event(self, *, sparse: bool) -> int | None:
        if not sparse:
            return self.next_due()
        return self._first([world.next_event() for world in self._worlds()])

    def _first(self, moments: Sequence[int | None]) -> int | None:
        """The earliest of these moments of the worlds, and of what is due here."""
        next_due = self._due[0][0] if self._due else None
        driven = self.driver.due_ms() if self.driver is not None else None
        return min((moment for moment in (*moments, next_due, driven) if moment is not None), default=None)

    def _reach(self, at_ms: int, *, sparse: bool) -> None:
        """Set the time, run what is due here and in the worlds, and let everything react to it."""
        self.now_ms = at_ms
        while self._due and self._due[0][0] <= at_ms:
            heapq.heappop(self._due)[2]()
        for world in self._worlds():
            world.advance(at_ms, sparse=sparse)
        self._follow()

    def _worlds(self) -> tuple[World, ...]:
        return (self.zookeeper,) if self.quorum is None else (self.zookeeper, self.quorum)

    # --- what people do ---

    def change(self, role: Role, node_id: int, form: Form) -> None:
        """Change the properties file of a node; a running process is not affected."""
        self.files[role, node_id] = file_of(form, node_id)

    def stop(self, role: Role, node_id: int, *, kill: bool = False) -> None:
        """End a process."""
        if role is Role.CONTROLLER:
            self._formatted.pop(node_id, None)
            if self.quorum is not None:
                self.quorum.stop(role, node_id, kill=kill)
        else:
            self._stopping[node_id] = kill
            deciding, _ = self._place_of(node_id)
            deciding.stop(role, node_id, kill=kill)
        self._follow()

    def start(self, role: Role, node_id: int) -> None:
        """Start a process with the current file of the node."""
        self.after(BOOT_MS, lambda: self._boot(role, node_id))

    def restart(self, role: Role, node_id: int) -> None:
        """Stop it, and start it once it has ended."""
        self.stop(role, node_id)

        def start_once_ended() -> None:
            if self.runs(role, node_id):
                self.after(500, start_once_ended)
            else:
                self.start(role, node_id)

        self.after(500, start_once_ended)

    def runs(self, role: Role, node_id: int) -> bool:
        """True if the node has a process, even if that is not ready yet."""
        if role is Role.CONTROLLER:
            formed = self.quorum is not None and self.quorum.nodes[role, node_id].running
            return formed or node_id in self._formatted
        return any(world.nodes[role, node_id].running for world in self._worlds())

    def is_ending(self, role: Role, node_id: int) -> bool:
        """True if it was asked to end and has not yet: a broker that knows no controller hangs."""
        if role is Role.CONTROLLER:
            return False
        return node_id in self._stopping or any(world.nodes[role, node_id].stopping for world in self._worlds())

    def wipe(self) -> None:
        """Wipe and format the disks of the controllers, which must all be stopped."""
        if any(self.runs(Role.CONTROLLER, id_) for id_ in self.controller_ids):
            raise ValueError("a controller runs")
        self.quorum = self.driver = None

    def create_topic(self, topic: TopicPlan) -> bool:
        """Create a topic at the current controller; False if there is none."""
        world = self.deciding
        if world is None or world.active is None:
            return False
        world.create_topic(topic)
        return True

    def transact(self, *operations: Operation) -> None:
        """Apply a transaction of a client (`Tree.transact`), and let brokers react to it."""
        self.tree.transact(operations)
        self._follow()

    # --- who decides, and which node answers ---

    def address(self, key: Key) -> tuple[str, int]:
        """Host and port of a node."""
        return self._addresses[key]

    @property
    def deciding(self) -> World | None:
        """The world whose partitions count."""
        return self.quorum if self.is_led_by_quorum else self.zookeeper

    def answering(self, role: Role, node_id: int) -> tuple[World, Node] | None:
        """The world and the node that answer at the address of this node; None if nothing listens there."""
        if role is Role.CONTROLLER:
            node = self.quorum.nodes[role, node_id] if self.quorum is not None else None
            return (self.quorum, node) if self.quorum is not None and node is not None and node.listening else None
        world, node = self._place_of(node_id)
        if node.in_zookeeper_mode and not self.zookeeper.nodes[role, node_id].listening:
            return None
        return (world, node) if node.listening else None

    def _place_of(self, broker_id: int) -> tuple[World, Node]:
        """The world in which a process of a broker counts, and its node there: the quorum's world while that decides,
        or if the process is in no other.
        """
        key = (Role.BROKER, broker_id)
        zookeeper_node = self.zookeeper.nodes[key]
        if self.quorum is not None and (self.is_led_by_quorum or not zookeeper_node.running):
            node = self.quorum.nodes[key]
            if node.running:
                return self.quorum, node
        return self.zookeeper, zookeeper_node

    # --- processes ---

    def _boot(self, role: Role, node_id: int) -> None:
        if self.runs(role, node_id):
            return
        file = self.files[role, node_id]
        if role is Role.CONTROLLER:
            self._boot_controller(node_id, file)
        elif is_in_zookeeper_mode(file):
            node = self.zookeeper.nodes[role, node_id]
            node.file, node.migrating, node.in_zookeeper_mode = file, has_flag(file), True
            self.zookeeper.start(role, node_id)
        elif self.quorum is not None:
            self._join(node_id, file)

    def _boot_controller(self, node_id: int, file: Mapping[str, str]) -> None:
        if self.quorum is None:
            self._formatted[node_id] = file
            if len(self._formatted) >= majority_of(len(self.controller_ids)):
                self.after(1_000, self._form)
            return
        node = self.quorum.nodes[Role.CONTROLLER, node_id]
        node.file, node.migrating = file, has_flag(file)
        self.quorum.start(Role.CONTROLLER, node_id)

    def _form(self) -> None:
        """A majority of new controllers elects its first leader, which writes the state of the migration."""
        if self.quorum is not None or len(self._formatted) < majority_of(len(self.controller_ids)):
            return
        leader = self.random.choice(sorted(self._formatted))
        nodes = [
            NodePlan(Role.CONTROLLER, id_, RELEASE, migrating=has_flag(self._formatted.get(id_, {})),
                     later=id_ not in self._formatted)
            for id_ in self.controller_ids
        ]  # fmt: skip
        nodes += [NodePlan(Role.BROKER, id_, RELEASE, later=True) for id_ in self.broker_ids]
        plan = Plan(
            tuple(nodes), {METADATA_VERSION: RELEASE.bootstrap_level}, leader=leader, cluster_id=self.cluster_id,
            addresses=self._addresses, timing=self._timing,
            zk_migration_state=2 if has_flag(self._formatted[leader]) else 0,
        )  # fmt: skip
        self.quorum = World(plan, now_ms=self.now_ms, random=self.random, partitions=True)
        self.quorum.epoch = max(self.quorum.epoch, self.faults.epoch)
        for id_ in self.controller_ids:
            self.quorum.nodes[Role.CONTROLLER, id_].file = self._formatted.get(id_, self.files[Role.CONTROLLER, id_])
        self._formatted = {}
        self.driver = Driver(self, self.quorum)

    def _join(self, broker_id: int, file: Mapping[str, str]) -> None:
        """A process of a broker registers with the quorum."""
        if self.quorum is None:
            return
        node = self.quorum.nodes[Role.BROKER, broker_id]
        node.file, node.migrating = file, has_flag(file)
        node.in_zookeeper_mode = is_in_zookeeper_mode(file)
        self.quorum.start(Role.BROKER, broker_id)

    # --- what follows from what has happened ---

    def _follow(self) -> None:
        """Let processes, sessions, the controller in ZooKeeper and the driver react to what has happened."""
        for id_ in self.broker_ids:
            self._follow_process(id_)
        self._follow_claim()
        if self.driver is not None:
            self.driver.step()
        if not self.is_led_by_quorum and self.zookeeper.leader_image.partitioned is not self._written:
            self._save()

    def _follow_process(self, broker_id: int) -> None:
        """Keep a process the same in both worlds: it registers with the quorum too, or ends in both. Its session in
        ZooKeeper ends with it.
        """
        key = (Role.BROKER, broker_id)
        node = self.zookeeper.nodes[key]
        other = self.quorum.nodes[key] if self.quorum is not None else None
        if broker_id in self._stopping:
            # It does not run in one world; in the quorum's this counts only if the node there is the same process: with
            # the same file object.
            ended = not node.running or (other is not None and other.file is node.file and not other.running)
            if ended or not any(world.nodes[key].running for world in self._worlds()):
                killed = self._stopping.pop(broker_id)
                for world in self._worlds():
                    self._end(world, world.nodes[key], killed=killed)
        elif other is not None and not other.running and node.file is not None and _registers(node):
            self._join(broker_id, node.file)
        self._follow_session(node)

    def _end(self, world: World, node: Node, *, killed: bool) -> None:
        if not node.running:
            return
        if killed:
            world.stop(node.role, node.id, kill=True)
        elif world is self.deciding or not node.in_zookeeper_mode:
            world.stop(node.role, node.id)
        else:  # its partitions are decided in the other world
            world.vanish(node.id)

    # --- what the driver does here ---

    def led_by_quorum(self) -> None:
        """Note that from now on the quorum decides about partitions."""
        self.is_led_by_quorum = True
        self._let_catch_up(self.quorum)
        self.on_copied()

    def finalized(self) -> None:
        """Note that the migration is over."""
        self.on_finalized()

    def stalls(self) -> bool:
        """True if nothing is written to ZooKeeper now."""
        return self.faults.stalls

    def loses_a_write(self) -> bool:
        """True if the next write to ZooKeeper does not arrive."""
        return bool(self.faults.lost_writes) and self.random.random() < self.faults.lost_writes


def _registers(node: Node) -> bool:
    """True if a process in ZooKeeper mode registers with the quorum: it has the flag, and is not ending."""
    return node.running and node.migrating and not node.stopping
