"""The nodes of a simulated cluster, and the quorum of its controllers: elections and registrations of controllers.

Base class of `world`, which adds what clients and people do. It decides when which leader is elected, when voters
report to the leader, and when controllers register. Brokers keep requests while no controller is active; these are
carried out after the next election.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from random import Random
from uuid import UUID

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.core.facts.readings import Role, majority_of
from kafkasim import registrations
from kafkasim.brokers import RETRY_MS
from kafkasim.ledger import Ledger
from kafkasim.node import Key, Node
from kafkasim.plan import NodePlan, Plan
from kafkasim.rules import CONTROLLER_REGISTRATION
from kraftlog import Section
from kraftlog.records import kafka_uuid
from kraftlog.schema import table

FIRST_PORT = 10_000  # of nodes whose plan names no addresses
ELECTION_MS = 1_000  # controller.quorum.election.timeout.ms
UPDATE_VOTER_MS = 2_000  # controller.quorum.fetch.timeout.ms: so long a follower fetches before it sends UpdateVoter


class Quorum(Ledger):
    """All nodes of a plan, ghosts too, and the voters among them."""

    def __init__(self, plan: Plan, *, now_ms: int, random: Random, sections: Collection[Section]) -> None:
        super().__init__(plan.timing, now_ms=now_ms, sections=sections)
        self.random = random
        self.cluster_id = plan.cluster_id or kafka_uuid(self._uuid())
        self.nodes: Mapping[Key, Node] = {(node.role, node.id): self._node(plan, node) for node in plan.nodes}
        self._ghosts = frozenset((node.role, node.id) for node in plan.nodes if node.ghost)
        self.voters = tuple(sorted(n.id for n in plan.nodes if n.role is Role.CONTROLLER and not n.ghost))
        self._reported_voters = set(self.voters)  # voters that have sent UpdateVoter to this leader, and the leader
        # Of brokers, while no controller is active: (broker, its incarnation, request).
        self._pending_requests: list[tuple[Node, UUID, Callable[[], object]]] = []

    # --- who there is ---

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

    def _node(self, plan: Plan, node: NodePlan) -> Node:
        default = "127.0.0.1", FIRST_PORT + plan.nodes.index(node)  # a port of its own, by which connections find it
        host, port = plan.addresses.get((node.role, node.id), default)
        ids, now_ms = (self._uuid(), self._uuid()), self.now_ms
        return Node(
            node.role, node.id, node.release, host, port, *ids, running=not (node.ghost or node.later),
            started_ms=now_ms, snapshot_ms=now_ms, migrating=node.migrating,
        )  # fmt: skip

    def _uuid(self) -> UUID:
        return UUID(int=self.random.getrandbits(128), version=4)

    def has_role(self, id_: int, role: Role) -> bool:
        """True if the process with this id is configured with the role; False if only a registration is left."""
        node = self.nodes.get((role, id_))
        return node is not None and (node.running or (role, id_) not in self._ghosts)

    # --- elections ---

    def keep(self, at: Node, request: Callable[[], object]) -> None:
        """Keep a request that a broker must forward when a controller is active again, even if its client has given up
        by then. The request is dropped if the broker's process ends before.
        """
        self._pending_requests.append((at, at.incarnation, request))

    def _quorum_changed(self) -> None:
        running = [v for v in self.voters if self.nodes[Role.CONTROLLER, v].running]
        majority = len(running) >= majority_of(len(self.voters))
        if self.active is not None and self.active in running and majority:
            return
        self.active = None
        if majority:
            self.after(ELECTION_MS, self._elect)

    def _elect(self) -> None:
        """Elect one of the running voters at random, if there is no leader and a majority runs. Then pending requests
        of brokers are carried out.
        """
        running = [node for node in self.voting() if node.running]
        if self.active is not None or len(running) < majority_of(len(self.voters)):
            return
        self.epoch += 1
        self.active = self.random.choice(running).id
        dynamic = self._leader_image.kraft_version > 0
        self.append([registrations.leader_change(self.active, self.voting(), running, dynamic=dynamic)])
        self._reported_voters = {self.active}
        for voter in running:
            self._report_soon(voter.id)
        requests, self._pending_requests = self._pending_requests, []
        for broker, incarnation, request in requests:
            if broker.running and broker.incarnation == incarnation:
                request()

    def _report_soon(self, voter: int) -> None:
        """Have a voter report to the leader of this epoch in a while, if its process still runs then."""
        epoch, node = self.epoch, self.nodes[Role.CONTROLLER, voter]

        def report() -> None:
            if self.epoch == epoch and node.running:
                self._reported_voters.add(voter)

        self.after(UPDATE_VOTER_MS, report)

    # --- registrations of controllers ---

    def _register_controllers(self) -> None:
        for node in self.of_role(Role.CONTROLLER):
            if node.running:
                self.append([registrations.controller(node)])

    def _register_controller(self, node: Node) -> None:
        if node.running and self.active is not None and node.id not in self.leader_image.controllers:
            self.append([registrations.controller(node)])

    def _register_again(self, node: Node, incarnation: UUID) -> None:
        """Register a new process of a controller; it tries again until there is a leader."""
        if not node.running or node.incarnation != incarnation:
            return
        if self.active is None:
            self.after(RETRY_MS, lambda: self._register_again(node, incarnation))
        elif self._level(METADATA_VERSION) >= CONTROLLER_REGISTRATION:
            self.append([registrations.controller(node)])

    # --- what controllers report ---

    def _commit(self, offset: int) -> None:
        old_count = self._level_records()
        super()._commit(offset)
        # a record with an unchanged level counts as well, control records do not
        if self._level_records() > old_count:
            for node in self.of_role(Role.CONTROLLER):
                node.features_epoch = self._image.offset - 1

    def _level_records(self) -> int:
        """Number of committed records about levels."""
        return self.image.counts.get(table.FEATURE_LEVEL.key, 0)
