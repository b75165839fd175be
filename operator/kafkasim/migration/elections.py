"""ZooKeeper mode of a simulated cluster: sessions of brokers, elections of the controller, and its writes to ZooKeeper.

Base class of `cluster`, which adds a quorum. The controller decides about partitions in a world of its own, in which
the node `ZK_CONTROLLER` represents it. Each change is written to znodes, from which the state is loaded again after a
quorum has given up `/controller`.

Source: `KafkaController.scala`, `KafkaZkClient.scala`.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable
from itertools import count
from uuid import UUID

from kafkafeatures.core.facts import znodes
from kafkafeatures.core.facts.readings import Role
from kafkasim.log import Write
from kafkasim.migration import topics
from kafkasim.migration.driver import BROKERS, CONTROLLER, EPOCH
from kafkasim.migration.tree import Tree
from kafkasim.node import Node
from kafkasim.world import World
from kraftlog.schema import table

ZK_CONTROLLER = 0
"""Id of the node that represents the controller in the world of ZooKeeper."""
ELECTION_MS = 200
"""Time in ms from the end of a claim to the next one."""
TOLD_MS = 300
"""Time in ms from a claim until the brokers know it."""
SESSION_MS = 18_000
"""Time in ms after which the session of a killed process ends: zookeeper.session.timeout.ms."""


class Elections:
    """A cluster in ZooKeeper mode, and the time of its sessions and elections.

    `zookeeper`: the world in which a broker is controller. `is_led_by_quorum`: the quorum's world decides now.

    A broker claims `/controller` `ELECTION_MS` after this znode was found absent, and the brokers know it `TOLD_MS`
    later. From then on `zookeeper.elected` is that broker and `zookeeper.active` is `ZK_CONTROLLER`, so that requests
    are decided. Without a claim both are None. Once a quorum has claimed `/controller`, only `elected` is None (see
    `deposed`).
    """

    def __init__(self, zookeeper: World) -> None:
        self.now_ms, self.random = zookeeper.now_ms, zookeeper.random
        self.zookeeper, self.tree = zookeeper, Tree(lambda: self.now_ms)
        self.broker_ids = tuple(node.id for node in zookeeper.of_role(Role.BROKER))
        self.is_led_by_quorum = False
        self._due: list[tuple[int, int, Callable[[], object]]] = []
        self._order = count()
        self._electing = False
        self._sessions: dict[int, tuple[int, UUID]] = {}  # by broker: its id and the incarnation that holds the session
        self._written: object = None  # partitions as ZooKeeper has them; `cluster` compares them
        self.tree.create("/cluster/id", json.dumps({"version": "1", "id": zookeeper.cluster_id}).encode())
        self.tree.create(EPOCH, b"1")
        self.tree.create("/feature", b'{"features":{},"version":2,"status":1}')
        for id_ in self.broker_ids:
            node = zookeeper.nodes[Role.BROKER, id_]
            node.in_zookeeper_mode = True
            self._open_session(node)
        self._claim(self.random.choice(self.broker_ids))
        self._inform_brokers()
        self._save()

    def after(self, delay_ms: int, action: Callable[[], object]) -> None:
        """Run the action after this delay."""
        heapq.heappush(self._due, (self.now_ms + delay_ms, next(self._order), action))

    # --- sessions ---

    def _follow_session(self, node: Node) -> None:
        """Open the session of a broker's new process, or end that of a process that has ended: after a kill, only when
        it times out.
        """
        path = f"{BROKERS}/{node.id}"
        znode = self.tree.get(path)
        life = (node.id, node.incarnation)
        if node.running and znode is None:
            self._open_session(node)
        elif znode is not None and not (node.running and self._sessions.get(node.id) == life):
            owner = self._sessions.get(node.id)
            if node.unclean:
                self.after(SESSION_MS, lambda: self._session_ends(owner))
            else:
                self._session_ends(owner)

    def _open_session(self, node: Node) -> None:
        document = {
            "features": {}, "endpoints": [f"PLAINTEXT://{node.host}:{node.port}"], "jmx_port": -1, "version": 5,
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"}, "host": node.host, "port": node.port,
            "timestamp": "0",
        }  # fmt: skip
        life = (node.id, node.incarnation)
        node.has_joined = True  # a broker in ZooKeeper mode opens its port with its znode, whoever is controller
        self._sessions[node.id] = life
        self.tree.create(f"{BROKERS}/{node.id}", json.dumps(document).encode(), owner=life)

    def _session_ends(self, owner: object) -> None:
        self.tree.end(owner)

    # --- the controller in ZooKeeper ---

    def _follow_claim(self) -> None:
        """Begin an election if nobody claims `/controller`."""
        claim = self.tree.get(CONTROLLER)
        if claim is None:
            if self.is_led_by_quorum:
                self._load_from_zookeeper()
            self.zookeeper.elected = self.zookeeper.active = None
            if not self._electing:
                self._electing = True
                self.after(ELECTION_MS, self._elect)

    def _elect(self) -> None:
        self._electing = False
        if self.tree.get(CONTROLLER) is not None:
            return
        registered = [int(id_) for id_ in self.tree.below(BROKERS)]
        alive = [id_ for id_ in registered if self.zookeeper.nodes[Role.BROKER, id_].running]
        if alive:
            self._claim(self.random.choice(alive))
            self.after(TOLD_MS, self._inform_brokers)

    def _claim(self, broker_id: int) -> None:
        document = {"version": 2, "brokerid": broker_id, "timestamp": "0", "kraftControllerEpoch": -1}
        owner = self._sessions[broker_id]
        self.tree.create(CONTROLLER, json.dumps(document).encode(), owner=owner)
        self.raise_epoch()

    def _inform_brokers(self) -> None:
        """Let the brokers learn which of them is controller."""
        znode = self.tree.get(CONTROLLER)
        claim = None if znode is None else znodes.controller(znode)
        if claim is not None and not claim.is_kraft:
            world = self.zookeeper
            world.elected, world.active = claim.node_id, ZK_CONTROLLER
            world.append([Write(table.NO_OP, {})], commit=True)

    def _load_from_zookeeper(self) -> None:
        """Load the state from ZooKeeper again, after the quorum has given up `/controller`."""
        self.is_led_by_quorum = False
        world = self.zookeeper
        world.active = ZK_CONTROLLER
        directories = {broker.id: broker.directory for broker in world.of_role(Role.BROKER)}
        restored = topics.records(self.tree, world.leader_image, directories, world.metadata_version)
        if restored:
            world.append(restored, commit=True)
        self._let_catch_up(world)
        self._written = world.leader_image.partitioned

    def _save(self) -> None:
        """Write to ZooKeeper what the controller has decided."""
        image = self.zookeeper.leader_image
        self._written = image.partitioned
        znode = self.tree.get(EPOCH)
        epoch = znodes.controller_epoch(znode).value if znode is not None else 0
        for znodes_of in topics.written(image, epoch, topics.states(self.tree)).values():
            for path, data in znodes_of.items():
                self.tree.write(path, data)

    # --- what a quorum does here ---

    def raise_epoch(self) -> None:
        """Raise the epoch of the controller, as each claim of `/controller` does."""
        znode = self.tree.get(EPOCH)
        value = znodes.controller_epoch(znode).value if znode is not None else 0
        self.tree.write(EPOCH, str(value + 1).encode())

    def deposed(self) -> None:
        """Note that the broker which was the controller has lost `/controller` to the quorum. `active` stays, as
        processes still come and go in ZooKeeper.
        """
        self.zookeeper.elected = None

    def _let_catch_up(self, world: World | None) -> None:
        """Let the replicas on running brokers catch up with their leaders; None: nothing to do."""
        for id_ in self.broker_ids if world is not None else ():
            if world is not None and world.nodes[Role.BROKER, id_].running:
                world.catch_up(id_)
