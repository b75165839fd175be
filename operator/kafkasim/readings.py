"""What production's adapter would read of a world, made of the world itself, in half the time.

Called by `ports` where many histories are run. It decides what a client with these addresses and rights is answered, in
the order in which the adapter asks: lists from the bootstrap addresses, the leader, every node that a list names, the
log, and nodes that only the log names. It judges nothing (`core/facts/observe.py` does), and knows of the world no more
than its nodes say: a test compares its readings with the adapter's. The words of failures are its own, their kinds are
those of the adapter.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import UUID

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.partition_source import Holder, PartitionSource, partition_source
from kafkafeatures.core.facts.readings import (
    NOT_ASKED,
    BrokerList,
    ClusterProbe,
    ControllerList,
    EarlierMoves,
    Failure,
    FailureKind,
    Host,
    LogReading,
    NodeAnswer,
    PartitionsReading,
    ProbedNode,
    QuorumAnswer,
    Readings,
    ReplicaProgress,
    Role,
)
from kafkafeatures.core.facts.settings import SNAPSHOT_INTERVAL
from kafkasim.connection import Access
from kafkasim.node import Key, Node
from kafkasim.rules import CONTROLLER_REGISTRATION
from kafkasim.settings import minimum_of, setting_of
from kafkasim.world import Replica, World
from kraftlog import BrokerRegistration, ControllerRegistration, FormerLevels, Image, Registrations

if TYPE_CHECKING:
    from kafkafeatures.core.facts.claims import ControllerClaim
    from kafkafeatures.core.facts.znodes import Read
    from kraftlog.partitions import Partitions

DESCRIBE_CLUSTER = 60
_NO_LEADER = Failure(FailureKind.NO_LEADER, "controllers", "no controller is active", "look at the controllers")
_NOT_GIVEN = Failure(FailureKind.NOT_ASKED, "bootstrap", "no address is given")
_NO_LOG = Failure(FailureKind.NOT_ASKED, "metadata log", "no address of a controller is known")
_DENIED = Failure(FailureKind.AUTHORIZATION, "metadata log", "reading it needs CLUSTER_ACTION", "grant it")
_KEPT = Failure(FailureKind.TIMED_OUT, "DescribeQuorum", "no answer while no controller is active")
_TOO_OLD = Failure(FailureKind.UNSUPPORTED, "DescribeCluster", "metadata.version is below 3.7-IV0")
_HIDDEN = Failure(FailureKind.AUTHORIZATION, "partitions", "some topics are hidden", "grant DESCRIBE on all topics")
_NOT_ELECTED = Failure(FailureKind.STALE, "partitions", "no broker is controller", "look again in a moment")
_EMPTY = Failure(FailureKind.REJECTED, "DescribeCluster", "lists no nodes yet")


class Client:
    """One client of a world. Its bootstrap addresses are those of the nodes that run when it is made."""

    def __init__(self, world: World, access: Access) -> None:
        self._world = world
        self._access = access
        self._began_ms: int | None = None  # the time of the snapshot with which it began to read the log
        self._files: dict[int, UUID] = {}  # brokers of which it is known what their own files say
        self._answers: dict[tuple[Role, tuple[int, int], int], NodeAnswer] = {}
        given = {Role.BROKER: access.brokers, Role.CONTROLLER: access.controllers}
        self._bootstrap = {role: [n for n in world.of_role(role) if n.running and given[role]] for role in Role}

    def reached(self, role: Role, node_id: int | None) -> Node | None:
        """The process that a request to this node reaches now; None where there is none, or no way to it."""
        node = None if node_id is None else self._world.nodes.get((role, node_id))
        reaches = self._access.reaches_brokers if role is Role.BROKER else self._access.reaches_controllers
        if node is None or not node.listening or not reaches:
            return None
        return node

    def read(
        self,
        *,
        partitions: bool = False,
        settings: frozenset[str] = frozenset(),
        claim: Read[ControllerClaim] = NOT_ASKED,
    ) -> Readings:
        """Everything, as the adapter does. Time passes in the world where a real client would wait for an answer."""
        readings = self._read()
        if isinstance(readings.log, LogReading) and readings.log.image.partitioned is not None and not partitions:
            image = replace(readings.log.image, partitioned=None)
            readings = readings._replace(log=replace(readings.log, image=image))
        if names := settings | ({SNAPSHOT_INTERVAL} if partitions else set()):
            nodes = tuple(self._proved(one, names) for one in readings.probe.nodes)
            readings = readings._replace(probe=replace(readings.probe, nodes=nodes))
        if not partitions:
            return readings
        source = partition_source(readings.probe, readings.log, claim)
        found = source if isinstance(source, Failure) else self._partitions(readings.log, source)
        return readings._replace(partitions=found)

    def moves_since(self, offset: int, epoch: int) -> EarlierMoves:
        """Moves of levels behind that position, in the whole of the log."""
        if self._world.log.diverging(offset, epoch) is not None:
            return EarlierMoves(restored=True)
        moves = self._world.image.former_levels.moves.items()
        return EarlierMoves({name: tuple(one for one in of if one[0] > offset) for name, of in moves})

    def _proved(self, one: ProbedNode, names: Iterable[str]) -> ProbedNode:
        """The node with the settings that it gives of itself, and where it gave them."""
        if one.id is None or isinstance(one.answer, Failure):
            return one
        node = self._world.nodes[one.role, one.id]
        settings = {name: said for name in names if (said := setting_of(self._world, node, name)) is not None}
        return replace(one, proved_at=self._world.ips.get((one.role, one.id), one.host), settings=settings)

    def _read(self) -> Readings:
        self._answers.clear()
        until_ms = self._world.now_ms + self._access.request_timeout_ms
        probe = self._probe()
        log = self._read_log(probe, until_ms)
        if isinstance(log, Failure):
            return Readings(probe, log)
        asked = {(node.role, node.id) for node in probe.nodes}
        brokers = [_host(one) for id_, one in log.image.brokers.items() if (Role.BROKER, id_) not in asked]
        controllers = [_host(one) for id_, one in log.image.controllers.items() if (Role.CONTROLLER, id_) not in asked]
        if brokers or controllers:  # whom only the log names
            more = self._ask(Role.BROKER, brokers) | self._ask(Role.CONTROLLER, controllers)
            probe = replace(probe, nodes=probe.nodes + tuple(more.values()))
        return Readings(probe, log)

    def _probe(self) -> ClusterProbe:
        world, started = self._world, self._now()
        brokers, silent = self._list_brokers()
        controllers, contacts, more_silent = self._list_controllers(self._bootstrap[Role.CONTROLLER])
        nodes = self._ask(Role.BROKER, brokers.brokers) if isinstance(brokers, BrokerList) else {}
        quorum, voters = self._quorum_from_controllers(controllers)
        leaderless = isinstance(controllers, ControllerList) and controllers.active is None
        if isinstance(quorum, Failure) and isinstance(brokers, BrokerList) and not leaderless:
            self.wait_for_leader(world.now_ms + self._access.short_timeout_ms)
            if world.active is not None:
                quorum, voters = self._quorum(world.active), self._voters()
                if isinstance(controllers, Failure):
                    controllers, _, silent_voters = self._list_controllers(world.voting())
                    if isinstance(controllers, Failure):  # each was asked: the kind is that of the first
                        controllers = next(iter(silent_voters.values()), controllers)
            elif not self._access.controllers:
                quorum = _KEPT
        listed = controllers.controllers if isinstance(controllers, ControllerList) else ()
        nodes |= self._ask(Role.CONTROLLER, {host.id: host for host in (*voters, *listed)}.values())
        everybody = tuple(nodes.values())
        if isinstance(controllers, Failure):
            everybody += tuple(self._answer(None, one) for one in contacts if (one.role, one.id) not in nodes)
        if isinstance(brokers, BrokerList) or isinstance(controllers, ControllerList):
            cluster_id: str | Failure = world.cluster_id
        else:
            cluster_id = brokers if self._access.brokers and not contacts else controllers
        failures = tuple(failure for key, failure in (silent | more_silent).items() if key not in nodes)
        apart = self._access.brokers and self._access.controllers
        return ClusterProbe(started, cluster_id, brokers, controllers, quorum, everybody, failures, apart)

    # --- lists ---

    def _list_brokers(self) -> tuple[BrokerList | Failure, dict[Key, Failure]]:
        """What the first broker that answers lists, and the addresses before it that gave nothing."""
        silent: dict[Key, Failure] = {}
        for node in self._bootstrap[Role.BROKER]:
            if self.reached(node.role, node.id) is None:
                silent[node.role, node.id] = _refused(node.host, node.port)
                continue
            lists_fenced = node.release.broker_apis[DESCRIBE_CLUSTER].max >= 2
            registered = sorted(self._world.image.brokers.items())
            hosts = tuple(_host(one) for _, one in registered if lists_fenced or not one.fenced)
            if hosts:
                return BrokerList(hosts, lists_fenced), silent
            silent[node.role, node.id] = _EMPTY
        return next(iter(silent.values()), _NOT_GIVEN), {}

    def _list_controllers(
        self, candidates: Iterable[Node]
    ) -> tuple[ControllerList | Failure, list[Node], dict[Key, Failure]]:
        """What the first controller that answers lists, and who answered at all."""
        silent: dict[Key, Failure] = {}
        contacts = []
        for node in candidates:
            if self.reached(node.role, node.id) is None:
                silent[node.role, node.id] = _refused(node.host, node.port)
                continue
            contacts.append(node)
            image = self._world.image
            if image.features.get(METADATA_VERSION, 0) < CONTROLLER_REGISTRATION:
                return _TOO_OLD, contacts, silent
            if image.controllers:
                hosts = tuple(_host(one) for _, one in sorted(image.controllers.items()))
                return ControllerList(hosts, self._world.active), contacts, silent
            silent[node.role, node.id] = _EMPTY
        told = (one for one in silent.values() if one.kind is not FailureKind.NOT_LISTENING)
        return next(told, next(iter(silent.values()), _NOT_GIVEN)), contacts, {}

    # --- the leader ---

    def _quorum_from_controllers(
        self, controllers: ControllerList | Failure
    ) -> tuple[QuorumAnswer | Failure, tuple[Host, ...]]:
        active = self._world.active
        if isinstance(controllers, ControllerList):
            if active is None:
                return _NO_LEADER, ()
            if all(host.id != active for host in controllers.controllers):
                return Failure(FailureKind.NOT_ASKED, "DescribeQuorum", f"controller {active} is not listed"), ()
        elif controllers is not _TOO_OLD:
            return controllers, ()
        elif all(node.id != active for node in self._bootstrap[Role.CONTROLLER]):
            first, *_ = given = self._bootstrap[Role.CONTROLLER]
            answers = any(self.reached(one.role, one.id) for one in given)
            return _NO_LEADER if answers else _refused(first.host, first.port), ()
        assert active is not None  # noqa: S101 - it is one of those that were just named
        return self._quorum(active), self._voters()

    def _quorum(self, leader: int) -> QuorumAnswer:
        world = self._world
        watermark = world.log.high_watermark
        voters, observers = world.quorum_replicas()
        return QuorumAnswer(
            leader, world.epoch, watermark, tuple(map(_progress, voters)), tuple(map(_progress, observers))
        )

    def _voters(self) -> tuple[Host, ...]:
        return tuple(Host(node.id, node.host, node.port) for node in self._world.voting())

    def wait_for_leader(self, until_ms: int) -> None:
        """Let time pass until a controller is active."""
        world = self._world
        while world.active is None and world.now_ms < until_ms:
            due = world.next_due()
            world.advance(until_ms if due is None else min(until_ms, max(due, world.now_ms)))

    # --- nodes ---

    def _ask(self, role: Role, hosts: Iterable[Host]) -> dict[Key, ProbedNode]:
        found = {}
        for host in sorted(hosts, key=lambda one: one.id):
            node = self.reached(role, host.id)
            found[role, host.id] = (
                ProbedNode(host.id, role, host.host, host.port, _refused(host.host, host.port), self._now())
                if node is None
                else self._answer(host.id, node)
            )
        return found

    def _answer(self, node_id: int | None, node: Node) -> ProbedNode:
        release, epoch = node.release, self._world.features_epoch(node)
        key = (node.role, release.number, epoch)
        answer = self._answers.get(key)
        if answer is None:
            apis = release.broker_apis if node.role is Role.BROKER else release.controller_apis
            answer = self._answers[key] = NodeAnswer(release.features, self._world.finalized(node)[0], epoch, apis)
        return ProbedNode(node_id, node.role, node.host, node.port, answer, self._now())

    # --- the metadata log ---

    def _read_log(self, probe: ClusterProbe, until_ms: int) -> LogReading | Failure:
        """What a follower has that began with the log. It looks for the leader as long as a request may take."""
        if not self._bootstrap[Role.CONTROLLER] and all(node.role is Role.BROKER for node in probe.nodes):
            return _NO_LOG
        world, controllers = self._world, self._world.of_role(Role.CONTROLLER)
        if not any(self.reached(one.role, one.id) for one in controllers):
            self.wait_for_leader(until_ms if self._access.reaches_controllers else 0)
        reached = [one for one in controllers if self.reached(one.role, one.id)]
        if not reached:
            return _refused("metadata log", -1)
        if not (world.grants_cluster_action and self._access.cluster_action):
            return _DENIED
        self.wait_for_leader(until_ms)
        if world.active is None:
            return _NO_LEADER
        image = self._with_past(world.nodes[Role.CONTROLLER, world.active])
        return LogReading(image, world.log.high_watermark, world.active, world.epoch, self._now())

    def _with_past(self, leader: Node) -> Image:
        """A follower begins with the newest snapshot of the leader, where there is one, and knows nothing of before."""
        image = self._world.image
        if self._began_ms is None:
            newest = self._world.newest_snapshot_ms(leader)
            self._began_ms = newest if newest > self._world.began_ms else -1
        if image.finalized is None or self._began_ms < 0:
            return image
        known, since = image.former_levels, self._began_ms
        left = {key: at for key, at in known.dropped.items() if at > since}
        behind = (piece.base_offset for piece in self._world.log.pieces if piece.first_ms > since)
        offset = next(behind, image.offset)
        moves = {name: tuple(one for one in of if one[0] > offset) for name, of in known.moves.items()}
        former = FormerLevels(left, offset, since, {name: of for name, of in moves.items() if of})
        finalized = replace(image.finalized, former=former)
        return replace(image, finalized=finalized, registrations=_as_of(since, image))

    # --- partitions ---

    def _partitions(self, log: LogReading | Failure, source: PartitionSource) -> PartitionsReading | Failure:
        """The partitions of the log, or those that a broker lists, where an ACL may hide topics. No broker is elected
        in ZooKeeper here.

        What a broker applies to a topic that sets nothing is asked of each that is not fenced; without the log each
        time, with it once in its life.
        """
        if source.holder is Holder.ELECTED:
            return _NOT_ELECTED
        world, asked = self._world, isinstance(log, Failure)
        lives = {one.id: one.incarnation for one in world.image.brokers.values() if not one.fenced}
        for broker_id, incarnation in sorted(lives.items()):
            if asked or self._files.get(broker_id) != incarnation:
                if self.reached(Role.BROKER, broker_id) is None:
                    node = world.nodes[Role.BROKER, broker_id]
                    return _refused(node.host, node.port)
                self._files[broker_id] = incarnation
        if not lives:
            return _EMPTY
        if asked and world.hidden_topics:
            return _HIDDEN
        found = world.image.partitioned if isinstance(log, Failure) else log.image.partitioned
        default = max(minimum_of(world, one) for one in lives)
        offset = -1 if isinstance(log, Failure) else log.image.offset
        return PartitionsReading(found or _nothing(), default, offset, source.claim)

    def _now(self) -> datetime:
        return moment(self._world)


def _as_of(since_ms: int, image: Image) -> Registrations | None:
    """Registrations as a snapshot of that time and the log behind it have them: it does not say when what it contains
    was written.
    """
    read, then_ms = image.registrations, image.elapsed_ms - (image.timestamp_ms - since_ms)
    if read is None:
        return None
    registered, returned = (
        {id_: max(at, then_ms) for id_, at in times.items()} for times in (read.registered, read.returned)
    )
    return replace(read, registered=registered, returned=returned)


def moment(world: World) -> datetime:
    """The time of the world."""
    return datetime.fromtimestamp(world.now_ms / 1000, UTC)


def _nothing() -> Partitions:
    """The partitions of a world without topics."""
    from kraftlog.partitions import MinInsyncReplicas, Partitions

    return Partitions({}, (), MinInsyncReplicas({}, {}, None))


def _progress(replica: Replica) -> ReplicaProgress:
    node, directory, progress = replica
    return ReplicaProgress(node.id, *progress, directory=str(directory) if directory else "")


def _host(registered: BrokerRegistration | ControllerRegistration) -> Host:
    at = registered.endpoints[0]
    fenced = isinstance(registered, BrokerRegistration) and registered.fenced
    return Host(registered.id, at.host, at.port, fenced)


def _refused(host: str, port: int) -> Failure:
    return Failure(FailureKind.NOT_LISTENING, f"{host}:{port}", "connection refused", "check that the node runs")
