"""Members of the cluster, and the state of each node in it.

Pure. Called by `core/facts/observe.py` with the readings; `by_id` also by modules of `core/levels/` and `core/roll/`.
If a state is not certain, the one that promises least is used.

State of a node in the cluster (KIP-631, KIP-853; `ClusterControlManager.java`):

    registered   answers us   the cluster counts on it            state
    broker       yes          not fenced                          Live
    broker       yes          fenced                              Fenced
    broker       no           not fenced (heartbeats arrive)      Unreachable
    broker       no           fenced, but it fetches the log      Fenced (starting, or refused)
    broker       no           fenced                              Ghost
    controller   yes          -                                   Live
    controller   no           a voter, or it fetches the log      Unreachable
    controller   no           neither                             Ghost
    no           no           it fetches the log                  Refused
    not known    no           it fetches the log                  Unreachable, without a role
    no           yes          -                                   Refused; Live if registrations are not known

`core/facts/identity.py` decides which node an answer belongs to. Each id has one node, and a second one, a Ghost, for a
role in which it is still registered although its process no longer has it. A node that fetches without any registration
has no role: it may be a controller, as these register only from metadata.version 15 on, and some seconds after their
start. A node that was unregistered after its last fetch is left out, as it was stopped.

If it is not known whether a broker is fenced, one that does not answer is Unreachable.

While a broker in ZooKeeper mode is the controller, brokers are registered in `/brokers/ids`, where that was read:

    a znode      answers us   the cluster counts on it            state
    yes          yes          -                                   Live
    yes          no           its session is alive                Unreachable
    no           yes          no session; or a new one by now     Fenced
    no           no           -                                   as in the log; Unreachable if it is not there
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.identity import only_in_the_other_role, role_given_up, voters_of
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.observation import Known, Node, NodeState, SourceKind, Unknown
from kafkafeatures.core.facts.readings import (
    BrokerList,
    ClusterProbe,
    ControllerList,
    Failure,
    FailureKind,
    Host,
    LogReading,
    NodeAnswer,
    ProbedNode,
    QuorumAnswer,
    ReplicaProgress,
    Role,
)

if TYPE_CHECKING:  # the types alone: core runs without the library that reads logs
    from kafkafeatures.core.facts.znodes import RegisteredBroker, ZooKeeperReading
    from kraftlog.image import BrokerRegistration, ControllerRegistration, Image

T = TypeVar("T")

FETCHING_WITHIN_MS = 10_000
"""Age of the last fetch, by the leader's clock, up to which an observer is taken to run. DescribeQuorum lists observers
for about five minutes after they stop, so being listed proves nothing.
"""

PENDING_FETCH_MS = 1_000
"""Error of the time of a last fetch: one that waits at the leader when its node dies is dated up to 500 ms later
(`KafkaRaftClient.java`).
"""

FENCED_UNSEEN = Failure(
    FailureKind.UNSUPPORTED,
    "DescribeCluster",
    "these brokers do not list fenced brokers, so a stopped but registered one cannot be seen",
    "grant access to the metadata log (CLUSTER_ACTION, bootstrapControllers), or use Kafka 4.0+",
)

_range = lru_cache(maxsize=4096)(VersionRange)  # the nodes of a cluster share a few ranges, so each is made once


class Membership:
    """Readings, indexed by node. `log`, `zookeeper`: None where they were not read.

    by_znodes: brokers are registered in `/brokers/ids`, so the second table above applies to them.
    """

    def __init__(self, probe: ClusterProbe, log: LogReading | None, zookeeper: ZooKeeperReading | None = None) -> None:
        self.probe = probe
        self.image = log.image if log else None
        self._zookeeper = zookeeper
        znodes = {} if zookeeper is None or isinstance(zookeeper.brokers, Failure) else zookeeper.brokers
        self._znodes: Mapping[int, RegisteredBroker | Failure] = znodes
        self.by_znodes = zookeeper is not None and _counts_by_znodes(zookeeper, self.image)
        self._log_at = log.at if log else probe.at
        self._log_origin = f"metadata log at offset {log.image.offset}" if log else ""
        self.probed: dict[int, list[ProbedNode]] = {}
        for node in probe.nodes:
            if node.id is not None:
                self.probed.setdefault(node.id, []).append(node)
        quorum = probe.quorum if isinstance(probe.quorum, QuorumAnswer) else None
        self._voters = voters_of(probe, self.image)
        self._fetching = _fetching(quorum) if quorum else {}
        self._fetching_twice = _fetching_twice(quorum) if quorum else frozenset()
        self._metadata_dirs = _metadata_dirs(quorum) if quorum else {}
        brokers, controllers = probe.brokers, probe.controllers
        self._brokers = {host.id: host for host in (brokers.brokers if isinstance(brokers, BrokerList) else ())}
        listed = controllers.controllers if isinstance(controllers, ControllerList) else ()
        self._controllers = {host.id: host for host in listed}

    def from_log(self, value: T) -> Known[T]:
        """A value of the metadata log as a fact."""
        return Known(value, SourceKind.METADATA_LOG, self._log_origin, self._log_at)

    def registered_brokers(self) -> Known[frozenset[int]] | Unknown:
        """Ids of the registered brokers, also of fenced ones."""
        if self.image is not None:  # registered with the quorum: brokers in ZooKeeper mode may not be
            return self.from_log(frozenset(self.image.brokers))
        if self.by_znodes and self._zookeeper is not None:
            return Known(frozenset(self._znodes), SourceKind.ZOOKEEPER, self._zookeeper.ensemble, self._zookeeper.at)
        if isinstance(self.probe.brokers, Failure):
            return Unknown(self.probe.brokers)
        if not self.probe.brokers.lists_fenced:
            return Unknown(FENCED_UNSEEN)
        return Known(frozenset(self._brokers), SourceKind.API_REQUESTS, "DescribeCluster", self.probe.at)

    def registered_controllers(self) -> Known[frozenset[int]] | Unknown:
        """Ids of the registered controllers, live or not: DescribeCluster with endpoint type 2 (KIP-919)."""
        if self.image is not None:
            return self.from_log(frozenset(self.image.controllers))
        if isinstance(self.probe.controllers, Failure):
            return Unknown(self.probe.controllers)
        return Known(frozenset(self._controllers), SourceKind.API_REQUESTS, "DescribeCluster", self.probe.at)

    def nodes(self) -> tuple[Node, ...]:
        """Every node that is listed, registered, a voter, probed, or fetching: controllers, then brokers, by id."""
        brokers, controllers = set(self._brokers), set(self._controllers) | self._voters
        if self.by_znodes:
            brokers |= set(self._znodes)
        if self.image is not None:
            brokers |= set(self.image.brokers)
            controllers |= set(self.image.controllers)
        for id_, probed in self.probed.items():
            for probed_node in probed:
                (brokers if probed_node.role is Role.BROKER else controllers).add(id_)
        unregistered = self._unregistered_observers() - brokers - controllers
        given_up = {id_: role for id_ in brokers & controllers if (role := self._given_up(id_)) is not None}
        for id_, role in given_up.items():
            (brokers if role is Role.BROKER else controllers).discard(id_)
        nodes = [
            self._node(id_, is_broker=id_ in brokers, is_controller=id_ in controllers)
            for id_ in brokers | controllers | unregistered
        ]
        nodes += [self._ghost_of(id_, role) for id_, role in given_up.items()]
        return tuple(sorted(nodes, key=lambda node: (Role.CONTROLLER not in node.roles, node.id)))

    def brokers_in_zookeeper_mode(self) -> tuple[int, ...]:
        """Ids of the brokers that run in ZooKeeper mode by their own answer or their last registration."""
        brokers = self.image.brokers if self.image is not None else {}
        registered = {id_ for id_, broker in brokers.items() if broker.is_migrating_zk_broker}
        answering = {
            node.id
            for node in self.probe.nodes
            if node.id is not None
            and node.role is Role.BROKER
            and isinstance(node.answer, NodeAnswer)
            and not node.answer.runs_in_kraft_mode
        }
        return tuple(sorted(registered | answering))

    @property
    def is_claimed(self) -> bool:
        """Tell whether the leader of a KRaft quorum is the controller according to the znode `/controller`."""
        claim = self._zookeeper.controller if self._zookeeper is not None else None
        return claim is not None and not isinstance(claim, Failure) and claim.is_kraft

    def _unregistered_observers(self) -> set[int]:
        """Ids that fetch the metadata log and are not registered, without those that were unregistered after their last
        fetch: these were stopped. Both times are by the leader's clock.
        """
        if self.image is None and not isinstance(self.probe.brokers, BrokerList):
            return set()  # without any list of brokers an observer may well be a registered one
        gone = self.image.unregistered if self.image else {}  # times in ms, by id
        return {
            id_ for id_, last in self._fetching.items() if last > gone.get(id_, -PENDING_FETCH_MS) + PENDING_FETCH_MS
        }

    def _is_left_to_zookeeper(self, id_: int) -> bool:
        """Tell whether this broker is registered in ZooKeeper alone, so that the log proves nothing about it: while a
        quorum waits for the migration, its log has only brokers with `zookeeper.metadata.migration.enable`.
        """
        if self.image is None or self.is_claimed or (self.image.zk_migration_state or 0) not in _NOTHING_COPIED:
            return False
        answers = [
            probed_node.answer for probed_node in self.probed.get(id_, ()) if isinstance(probed_node.answer, NodeAnswer)
        ]
        if answers:
            return not any(answer.runs_in_kraft_mode for answer in answers)
        return self.image.zk_migration_state == _WAITS and id_ not in self.image.brokers and id_ in self._brokers

    def _given_up(self, id_: int) -> Role | None:
        """Role in which this id is still registered although its process no longer has it; None for none."""
        if self.by_znodes or self._is_left_to_zookeeper(id_) or id_ in self._fetching_twice:
            return None
        is_registered, is_fenced = self._broker_registration(id_)
        is_ghost = is_registered is True and is_fenced is True
        may_vote = not self._voters or id_ in self._voters  # empty: the voters could not be read
        return role_given_up(self.probed.get(id_, ()), is_fenced=is_ghost, is_voter=may_vote)

    def _ghost_of(self, id_: int, role: Role) -> Node:
        """The Ghost for a role that the process with this id no longer has."""
        node = self._node(id_, is_broker=role is Role.BROKER, is_controller=role is Role.CONTROLLER)
        failure = only_in_the_other_role(id_, role, f"{node.host}:{node.port}")
        return replace(node, state=NodeState.GHOST, answer=Unknown(failure), is_voter=False, metadata_dir="")

    def _node(self, id_: int, *, is_broker: bool, is_controller: bool) -> Node:
        roles = ((Role.CONTROLLER,) if is_controller else ()) + ((Role.BROKER,) if is_broker else ())
        probed = [probed_node for probed_node in self.probed.get(id_, ()) if probed_node.role in roles]
        best = next((each for each in probed if isinstance(each.answer, NodeAnswer)), probed[0] if probed else None)
        broker = self.image.brokers.get(id_) if self.image and is_broker else None
        controller = self.image.controllers.get(id_) if self.image and is_controller else None
        registered: dict[Role, Known[Mapping[str, VersionRange]]] = {}
        for role, registration in ((Role.BROKER, broker), (Role.CONTROLLER, controller)):
            if registration is not None:
                ranges = {name: _range(*pair) for name, pair in registration.features.items()}
                registered[role] = self.from_log(MappingProxyType(ranges))
        znode = self._znodes.get(id_) if is_broker else None
        in_zookeeper = None if isinstance(znode, Failure) else znode
        addresses = in_zookeeper.addresses if in_zookeeper is not None and broker is None else ()
        listed = (self._controllers.get(id_) if is_controller else None) or (
            self._brokers.get(id_) if is_broker else None
        )
        of_controller = controller.endpoints if controller else ()
        endpoints = (*(broker.endpoints if broker else ()), *of_controller)
        host, port = _address(best or listed, broker if broker and broker.endpoints else controller, addresses)
        answers = best is not None and isinstance(best.answer, NodeAnswer)
        return Node(
            id=id_,
            roles=roles,
            state=self._state(id_, answers, is_broker=is_broker, is_controller=is_controller),
            host=host,
            port=port,
            answer=_answer(id_, best),
            registered=registered,
            is_voter=is_controller and id_ in self._voters,
            migrating_from_zookeeper=bool(broker and broker.is_migrating_zk_broker),
            registered_flag=controller.zk_migration_ready if controller else None,
            broker_epoch=broker.epoch if broker else in_zookeeper.epoch if in_zookeeper else -1,
            czxid=in_zookeeper.epoch if in_zookeeper else -1,
            incarnation=str(current.incarnation) if (current := broker or controller) else "",
            listeners=addresses + tuple((endpoint.host, endpoint.port) for endpoint in endpoints),
            controller_listeners=tuple((endpoint.host, endpoint.port) for endpoint in of_controller),
            listener_names=frozenset(endpoint.name for endpoint in endpoints),
            proved_at=next((probed_node.proved_at for probed_node in probed if probed_node.proved_at), ""),
            unproved=next((probed_node.unproved for probed_node in probed if probed_node.unproved), None),
            settings=next((probed_node.settings for probed_node in probed if probed_node.proved_at), {}),
            log_dirs=frozenset(map(str, broker.log_dirs)) if broker else frozenset(),
            metadata_dir=self._metadata_dirs.get(id_, ""),
        )

    def _state(self, id_: int, answers: bool, *, is_broker: bool, is_controller: bool) -> NodeState:
        """State of a node by the tables above. A combined node that does not answer is judged as a controller."""
        registered_broker, fenced = self._broker_registration(id_)
        if not is_broker and not is_controller:
            is_known = self.image is not None or isinstance(self.probe.controllers, ControllerList)
            is_known = is_known and not self.by_znodes and not self._is_left_to_zookeeper(id_)
            return NodeState.REFUSED if is_known else NodeState.UNREACHABLE
        if is_broker and not is_controller:
            if self.by_znodes:
                if id_ in self._znodes:
                    return NodeState.LIVE if answers else NodeState.UNREACHABLE
                if answers:
                    return NodeState.FENCED
                registered_broker = registered_broker or None  # never False: no KRaft controller can refuse it yet
            if registered_broker is False:
                return NodeState.REFUSED
            if fenced is None or registered_broker is None:
                return NodeState.LIVE if answers else NodeState.UNREACHABLE
            if answers or not fenced:
                return _BROKER_STATES[answers, fenced]
            # A broker that recovers its log is fenced and fetches, which only DescribeQuorum shows.
            unsure = id_ in self._fetching or isinstance(self.probe.quorum, Failure) or self._answers_ambiguously(id_)
            return NodeState.FENCED if unsure else NodeState.GHOST
        if answers:
            return NodeState.FENCED if is_broker and fenced else NodeState.LIVE
        counted_on = id_ in self._voters or id_ in self._fetching or isinstance(self.probe.quorum, Failure)
        return NodeState.UNREACHABLE if counted_on else NodeState.GHOST

    def _answers_ambiguously(self, id_: int) -> bool:
        """Tell whether a process answers at the node's address that may be this node or another one."""
        answers = (probed_node.answer for probed_node in self.probed.get(id_, ()))
        return any(isinstance(answer, Failure) and answer.kind is FailureKind.STALE for answer in answers)

    def _broker_registration(self, id_: int) -> tuple[bool | None, bool | None]:
        """Two facts on a broker: whether it is registered, and whether it is fenced; each None if it is not known."""
        if self.image is not None and not self._is_left_to_zookeeper(id_):
            registration = self.image.brokers.get(id_)
            return registration is not None, registration.fenced if registration else None
        if isinstance(self.probe.brokers, BrokerList):
            listed = self._brokers.get(id_)
            if self.probe.brokers.lists_fenced:
                return listed is not None, listed.is_fenced if listed else None
            # Up to Kafka 3.9 only unfenced brokers are listed: absence may mean fenced or not registered.
            return (True, False) if listed else (None, None)
        return None, None


def by_id(nodes: Iterable[Node]) -> dict[int, Node]:
    """Nodes by id; a ghost only where no other node has its id."""
    node_by_id: dict[int, Node] = {}
    for node in nodes:
        if node.id not in node_by_id or node_by_id[node.id].state is NodeState.GHOST:
            node_by_id[node.id] = node
    return node_by_id


def _counts_by_znodes(zookeeper: ZooKeeperReading, image: Image | None) -> bool:
    """Tell whether a broker in ZooKeeper mode is the controller, or will be, as nothing was copied to a log yet."""
    claim = zookeeper.controller
    if isinstance(claim, Failure) or isinstance(zookeeper.brokers, Failure):
        return False
    if claim is not None:
        return not claim.is_kraft
    return image is None or (image.zk_migration_state or 0) in _NOTHING_COPIED


_WAITS = 2
_NOTHING_COPIED = (0, _WAITS)
"""States of the metadata log: `ZkMigrationState.NONE`, and `PRE_MIGRATION`, in which a quorum waits to begin."""


_BROKER_STATES = {  # by (it answers, it is fenced)
    (True, False): NodeState.LIVE,
    (True, True): NodeState.FENCED,
    (False, False): NodeState.UNREACHABLE,
}


def _address(
    node: ProbedNode | Host | None,
    registration: BrokerRegistration | ControllerRegistration | None,
    in_zookeeper: tuple[tuple[str, int], ...],
) -> tuple[str, int]:
    if node is None and registration is not None and registration.endpoints:  # not asked, nor listed by another node
        return registration.endpoints[0].host, registration.endpoints[0].port
    return (node.host, node.port) if node else next(iter(in_zookeeper), ("", -1))


def _answer(id_: int, probed: ProbedNode | None) -> Known[NodeAnswer] | Unknown:
    if probed is None:
        return Unknown(
            Failure(
                FailureKind.NOT_ASKED,
                f"node {id_}",
                "no known address answers as this node",
                "add its address to bootstrapControllers or bootstrapServers; if it is there, see the node's log",
            )
        )
    if isinstance(probed.answer, Failure):
        return Unknown(probed.answer)
    return Known(probed.answer, SourceKind.API_REQUESTS, f"{probed.host}:{probed.port}", probed.at)


def _fetching(quorum: QuorumAnswer) -> dict[int, int]:
    """Time of the last fetch, by the leader's clock, of each node that fetched recently, by id."""
    return {replica.id: replica.last_fetch_timestamp for replica in _recent(quorum)}


def _fetching_twice(quorum: QuorumAnswer) -> frozenset[int]:
    """Ids with which two processes fetch: a controller and a broker that have the same id."""
    counts = Counter(replica.id for replica in _recent(quorum))
    return frozenset(id_ for id_, count in counts.items() if count > 1)


def _recent(quorum: QuorumAnswer) -> list[ReplicaProgress]:
    replicas = sorted(quorum.voters + quorum.observers, key=lambda r: r.last_fetch_timestamp)
    latest = replicas[-1].last_fetch_timestamp if replicas else -1  # -1: no time is known, so none is recent
    return [
        replica
        for replica in replicas  # ids below 0 are those of tools that only read the log
        if latest >= 0 <= replica.id and latest - replica.last_fetch_timestamp <= FETCHING_WITHIN_MS
    ]


def _metadata_dirs(quorum: QuorumAnswer) -> dict[int, str]:
    """Directory of the replica of each id that fetched last. A replica whose process was stopped stays listed for
    minutes; one that is a voter, for ever.
    """
    replicas = sorted(quorum.voters + quorum.observers, key=lambda r: r.last_fetch_timestamp)
    return {r.id: r.directory for r in replicas if r.last_fetch_timestamp >= 0}
