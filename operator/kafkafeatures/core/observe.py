"""From answers and a metadata log to one `Observation`.

Pure but for its inputs: `observe` is given what the adapters read and judges it. Called once per pass, and by
`describe`. It never asks anybody.

The metadata log, where it could be read, is the source of registrations, finalized levels and the migration state;
what living processes say of themselves stands beside it. Where both speak of the same thing and differ, the fact is
Unknown. What a node is to the cluster is told so (KIP-631, KIP-853; `ClusterControlManager.java`):

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

What fetches and is registered as nothing is taken for a broker: a controller registers itself, at once and again, from
metadata.version 15 on. But a last fetch from before the registration was taken back is that of a node that was stopped.

Where a broker's fencing cannot be known, a broker that does not answer is Unreachable: the word that promises least.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.core.levels import VersionRange
from kafkafeatures.core.observation import (
    Known,
    MetadataMode,
    Node,
    NodeState,
    Observation,
    Source,
    SourceKind,
    Unknown,
)
from kafkafeatures.core.readings import (
    BrokerList,
    ClusterProbe,
    ControllerList,
    Failure,
    FailureKind,
    LogReading,
    NodeAnswer,
    ProbedNode,
    QuorumAnswer,
    Role,
)

if TYPE_CHECKING:  # the types alone: core runs without the library that reads logs
    from kraftlog.image import BrokerRegistration, ControllerRegistration, Image

T = TypeVar("T")

FETCHING_WITHIN_MS = 10_000
"""An observer that fetched within this time of the leader's own clock runs now. Observers linger in DescribeQuorum
for about five minutes after they are gone, so their mere presence says nothing."""

PENDING_FETCH_MS = 1_000
"""A fetch that waited when its node died is answered, and counted as new, within 500 ms (KafkaRaftClient.java)."""

DESCRIBE_QUORUM = 55
_OPEN_MIGRATION = {1, 2}  # ZkMigrationState as of Kafka 3.5: MIGRATION, PRE_MIGRATION


class Unreachable(Exception):
    """Not a single node of the cluster answered."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


def observe(probe: ClusterProbe, log: LogReading | Failure) -> Observation:
    """Make the picture of what a port read. Raises `Unreachable` where there is nothing to make one of."""
    if isinstance(log, Failure) and not any(isinstance(node.answer, NodeAnswer) for node in probe.nodes):
        raise Unreachable(_why_unreachable(probe, log))
    image = log.image if isinstance(log, LogReading) else None
    facts = _Facts(probe, log if isinstance(log, LogReading) else None)
    mode = _mode(probe, image, facts)
    gaps = list(probe.bootstrap_failures)
    if isinstance(log, Failure) and not (isinstance(mode, Known) and mode.value is MetadataMode.ZOOKEEPER):
        gaps.append(log)
    gaps.extend(_gaps_of_asking(probe, image))
    nodes = facts.nodes()
    gaps.extend(_contradictions(nodes))
    return Observation(
        at=probe.at,
        cluster_id=_known(probe.cluster_id, facts),
        mode=mode,
        source=Source(SourceKind.METADATA_LOG, image.offset, image.epoch, facts.log_at, image.features_offset)
        if image
        else Source(SourceKind.API_REQUESTS, at=probe.at),
        nodes=nodes,
        finalized=_finalized(facts, image),
        active_controller=facts.active,
        quorum=_known(probe.quorum, facts),
        registered_controllers=_registered_controllers(facts, image),
        registered_brokers=_registered_brokers(facts, image),
        zk_migration_state=facts.from_log(image.zk_migration_state or 0) if image else _unread(log),
        gaps=tuple(dict.fromkeys(gaps)),
    )


class _Facts:
    """The inputs, indexed by node."""

    def __init__(self, probe: ClusterProbe, reading: LogReading | None) -> None:
        self.probe = probe
        self.image = reading.image if reading else None
        self.log_at = reading.at if reading else probe.at
        self.active = self._active(probe, reading)
        self.asked: dict[int, list[ProbedNode]] = {}
        for node in probe.nodes:
            if node.id is not None:
                self.asked.setdefault(node.id, []).append(node)
        quorum = probe.quorum if isinstance(probe.quorum, QuorumAnswer) else None
        self.voters = {v.id for v in quorum.voters} if quorum else set()
        if self.image and self.image.voters:
            self.voters |= {v.id for v in self.image.voters}
        self.observers = {o.id for o in quorum.observers} if quorum else set()
        self.fetching = _fetching(quorum) if quorum else {}
        self.listed_brokers = {h.id: h for h in probe.brokers.brokers} if isinstance(probe.brokers, BrokerList) else {}
        self.listed_controllers = (
            {h.id: h for h in probe.controllers.controllers} if isinstance(probe.controllers, ControllerList) else {}
        )

    @staticmethod
    def _active(probe: ClusterProbe, reading: LogReading | None) -> Known[int] | Unknown:
        if isinstance(probe.quorum, QuorumAnswer):
            if reading is not None and reading.leader_id != probe.quorum.leader_id:
                told = f"the metadata log comes from {reading.leader_id}, DescribeQuorum names {probe.quorum.leader_id}"
                return Unknown(Failure(FailureKind.STALE, "", told, "an election is under way; look again in a moment"))
            return Known(probe.quorum.leader_id, SourceKind.API_REQUESTS, "DescribeQuorum", probe.at)
        if reading is not None:
            return Known(reading.leader_id, SourceKind.METADATA_LOG, "Fetch", reading.at)
        return Unknown(probe.quorum)

    def from_log(self, value: T) -> Known[T]:
        offset = self.image.offset if self.image else -1
        return Known(value, SourceKind.METADATA_LOG, f"metadata log at offset {offset}", self.log_at)

    def nodes(self) -> tuple[Node, ...]:
        brokers = set(self.listed_brokers) | (set(self.image.brokers) if self.image else set())
        controllers = (
            set(self.listed_controllers) | self.voters | (set(self.image.controllers) if self.image else set())
        )
        for id_, asked in self.asked.items():
            for one in asked:
                (brokers if one.role is Role.BROKER else controllers).add(id_)
        unregistered = self._unregistered_observers() - brokers - controllers
        if self.image is not None or isinstance(self.probe.controllers, ControllerList):
            brokers |= unregistered
        both = sorted(brokers | controllers | unregistered, key=lambda i: (i not in controllers, i))
        return tuple(self._node(i, is_broker=i in brokers, is_controller=i in controllers) for i in both)

    def _unregistered_observers(self) -> set[int]:
        """Who fetches, and was not stopped before its registration was taken back. Both are times of the leader."""
        if self.image is None and not isinstance(self.probe.brokers, BrokerList):
            return set()  # without any list of brokers an observer may well be a registered one
        gone = self.image.unregistered if self.image else {}
        return {
            id_ for id_, last in self.fetching.items() if last > gone.get(id_, -PENDING_FETCH_MS) + PENDING_FETCH_MS
        }

    def _node(self, id_: int, *, is_broker: bool, is_controller: bool) -> Node:
        asked = self.asked.get(id_, [])
        answered = [a for a in asked if isinstance(a.answer, NodeAnswer)]
        broker = self.image.brokers.get(id_) if self.image else None
        controller = self.image.controllers.get(id_) if self.image else None
        registered: dict[Role, Known[Mapping[str, VersionRange]]] = {}
        for role, registration in ((Role.BROKER, broker), (Role.CONTROLLER, controller)):
            if registration is not None:
                ranges = {name: VersionRange(*pair) for name, pair in registration.features.items()}
                registered[role] = self.from_log(MappingProxyType(ranges))
        host, port = self._address(id_, answered or asked, broker, controller)
        return Node(
            id=id_,
            roles=((Role.CONTROLLER,) if is_controller else ()) + ((Role.BROKER,) if is_broker else ()),
            state=self._state(id_, bool(answered), is_broker=is_broker, is_controller=is_controller),
            host=host,
            port=port,
            answer=self._answer(id_, asked, answered),
            registered=registered,
            is_voter=id_ in self.voters,
            migrating_from_zookeeper=bool(broker and broker.is_migrating_zk_broker),
        )

    def _answer(self, id_: int, asked: list[ProbedNode], answered: list[ProbedNode]) -> Known[NodeAnswer] | Unknown:
        if answered:
            one = answered[0]
            assert isinstance(one.answer, NodeAnswer)  # noqa: S101 - `answered` holds only these; tells mypy so
            return Known(one.answer, SourceKind.API_REQUESTS, f"{one.host}:{one.port}", one.at)
        if asked and isinstance(asked[0].answer, Failure):
            return Unknown(asked[0].answer)
        return Unknown(
            Failure(
                FailureKind.NOT_ASKED,
                f"node {id_}",
                "its address is not known",
                "add it to bootstrapControllers or bootstrapServers",
            )
        )

    def _address(
        self,
        id_: int,
        asked: list[ProbedNode],
        broker: BrokerRegistration | None,
        controller: ControllerRegistration | None,
    ) -> tuple[str, int]:
        if asked:
            return asked[0].host, asked[0].port
        listed = self.listed_controllers.get(id_) or self.listed_brokers.get(id_)
        if listed:
            return listed.host, listed.port
        endpoints = (broker.endpoints if broker else ()) or (controller.endpoints if controller else ())
        return (endpoints[0].host, endpoints[0].port) if endpoints else ("", -1)

    def _state(self, id_: int, answers: bool, *, is_broker: bool, is_controller: bool) -> NodeState:
        registered_broker, fenced = self._broker_registration(id_)
        if is_broker and not is_controller:
            if registered_broker is False:
                return NodeState.REFUSED
            if fenced is None or registered_broker is None:
                return NodeState.LIVE if answers else NodeState.UNREACHABLE
            if answers or not fenced:
                return _BROKER_STATES[answers, fenced]
            # Without DescribeQuorum nobody knows whether it still fetches, as one that recovers its log does.
            unsure = id_ in self.fetching or isinstance(self.probe.quorum, Failure)
            return NodeState.FENCED if unsure else NodeState.GHOST
        if answers:
            return NodeState.FENCED if is_broker and fenced else NodeState.LIVE
        counted_on = id_ in self.voters or id_ in self.fetching or isinstance(self.probe.quorum, Failure)
        return NodeState.UNREACHABLE if counted_on else NodeState.GHOST

    def _broker_registration(self, id_: int) -> tuple[bool | None, bool | None]:
        """(is it registered, is it fenced), each None where that cannot be known."""
        if self.image is not None:
            registration = self.image.brokers.get(id_)
            return registration is not None, registration.fenced if registration else None
        if isinstance(self.probe.brokers, BrokerList):
            listed = self.listed_brokers.get(id_)
            if self.probe.brokers.lists_fenced:
                return listed is not None, listed.is_fenced if listed else None
            # Up to Kafka 3.9 only unfenced brokers are listed: absence may mean fenced or not registered.
            return (True, False) if listed else (None, None)
        return None, None


_BROKER_STATES = {
    (True, False): NodeState.LIVE,
    (True, True): NodeState.FENCED,
    (False, False): NodeState.UNREACHABLE,
}


def _fetching(quorum: QuorumAnswer) -> dict[int, int]:
    """Nodes whose last fetch is recent by the clock of the leader, and when it was."""
    replicas = sorted(quorum.voters + quorum.observers, key=lambda r: r.last_fetch_timestamp)
    now = replicas[-1].last_fetch_timestamp if replicas else -1
    return {
        r.id: r.last_fetch_timestamp
        for r in replicas
        if now >= 0 <= r.id and now - r.last_fetch_timestamp <= FETCHING_WITHIN_MS
    }


def _mode(probe: ClusterProbe, image: Image | None, facts: _Facts) -> Known[MetadataMode] | Unknown:
    """KRaft where a quorum exists; ZooKeeper where brokers answer without DescribeQuorum (key 55)."""
    if image is not None:
        open_ = image.zk_migration_state in _OPEN_MIGRATION
        return facts.from_log(MetadataMode.MIGRATING if open_ else MetadataMode.KRAFT)
    answers = [n for n in probe.nodes if isinstance(n.answer, NodeAnswer)]
    brokers = [n.answer for n in answers if n.role is Role.BROKER and isinstance(n.answer, NodeAnswer)]
    if any(n.role is Role.CONTROLLER for n in answers) and any(DESCRIBE_QUORUM not in b.apis for b in brokers):
        return Known(MetadataMode.MIGRATING, SourceKind.API_REQUESTS, "ApiVersions of brokers", probe.at)
    if brokers and all(DESCRIBE_QUORUM not in b.apis for b in brokers):
        return Known(MetadataMode.ZOOKEEPER, SourceKind.API_REQUESTS, "ApiVersions of brokers", probe.at)
    if any(b.zk_migration_ready for b in brokers) or any(
        isinstance(n.answer, NodeAnswer) and n.answer.zk_migration_ready for n in answers
    ):
        return Known(MetadataMode.MIGRATING, SourceKind.API_REQUESTS, "ZkMigrationReady", probe.at)
    if answers:
        return Known(MetadataMode.KRAFT, SourceKind.API_REQUESTS, "ApiVersions", probe.at)
    return Unknown(Failure(FailureKind.UNREACHABLE, "", "no node answered"))


def _finalized(facts: _Facts, image: Image | None) -> Known[Mapping[str, int]] | Unknown:
    """The finalized levels: from the log, held against the active controller; else the active controller's own.

    kraft.version is the one feature that is not a FeatureLevelRecord: the active controller's answer wins, because
    Kafka 3.9 reports a record that its Raft layer never followed (KAFKA-18979), and people compare us with Kafka.
    """
    active = facts.active.value if isinstance(facts.active, Known) else None
    said = None
    for asked in facts.asked.get(active, []) if active is not None else []:
        if isinstance(asked.answer, NodeAnswer) and asked.answer.finalized_epoch >= 0:
            said = Known(asked.answer.finalized, SourceKind.API_REQUESTS, f"{asked.host}:{asked.port}", asked.at)
    if image is None:
        return said or _finalized_by_all(facts)
    levels = dict(image.features)
    if said is not None:
        differing = {
            name
            for name in set(levels) | set(said.value)
            if name != KRAFT_VERSION and levels.get(name, 0) != said.value.get(name, 0)
        }
        if differing:
            told = ", ".join(
                f"{n} {levels.get(n, 0)} in the log, {said.value.get(n, 0)} on the controller"
                for n in sorted(differing)
            )
            return Unknown(
                Failure(FailureKind.STALE, said.where, told, "a change is probably under way; look again in a moment")
            )
        kraft = said.value.get(KRAFT_VERSION, 0)
    else:
        kraft = image.kraft_version
    if kraft:
        levels[KRAFT_VERSION] = kraft
    return facts.from_log(MappingProxyType(levels))


def _finalized_by_all(facts: _Facts) -> Known[Mapping[str, int]] | Unknown:
    """Without the active controller: what the living nodes say, if all of them say the same."""
    answers = [
        asked
        for nodes in facts.asked.values()
        for asked in nodes
        if isinstance(asked.answer, NodeAnswer) and asked.answer.finalized_epoch >= 0
    ]
    levels = [a.answer.finalized for a in answers if isinstance(a.answer, NodeAnswer)]
    if not levels:
        return Unknown(Failure(FailureKind.NO_LEADER, "", "no node reported finalized levels"))
    if any(one != levels[0] for one in levels):
        return Unknown(Failure(FailureKind.STALE, "", "the nodes disagree, and the active controller was not asked"))
    return Known(levels[0], SourceKind.API_REQUESTS, f"{len(levels)} nodes, all the same", facts.probe.at)


_FENCED_UNSEEN = Failure(
    FailureKind.UNSUPPORTED,
    "DescribeCluster",
    "these brokers do not list fenced brokers, so a stopped but registered one cannot be seen",
    "grant access to the metadata log (CLUSTER_ACTION, bootstrapControllers), or use Kafka 4.0+",
)


def _gaps_of_asking(probe: ClusterProbe, image: Image | None) -> list[Failure]:
    """What asking alone cannot show. With the log read there is no such gap."""
    if image is not None:
        return []
    gaps = [part for part in (probe.brokers, probe.controllers, probe.quorum) if isinstance(part, Failure)]
    gaps += [_nameless(node, node.answer) for node in probe.nodes if node.id is None]
    if isinstance(probe.brokers, BrokerList) and not probe.brokers.lists_fenced:
        gaps.append(_FENCED_UNSEEN)
    return gaps


def _contradictions(nodes: Iterable[Node]) -> list[Failure]:
    """Nodes whose process and whose registration differ, one line each: a `?` in a picture needs its reason."""
    found = []
    for node in nodes:
        names = node.answer.value.supported if isinstance(node.answer, Known) else {}
        ranges = (node.range_of(name) for name in names)
        stale = [one.why for one in ranges if isinstance(one, Unknown) and one.why.kind is FailureKind.STALE]
        found += stale[:1]
    return found


def _nameless(node: ProbedNode, answer: NodeAnswer | Failure) -> Failure:
    """A bootstrap controller that no list names, so that nobody knows its id: ApiVersions does not tell it."""
    if isinstance(answer, Failure):
        return answer
    found = answer.supported.get(METADATA_VERSION)
    return Failure(
        FailureKind.NOT_ASKED,
        f"{node.host}:{node.port}",
        f"a {node.role.value.lower()} that supports metadata.version {found}, but its node id is not known",
        "grant the access that the other lines name",
    )


def _registered_controllers(facts: _Facts, image: Image | None) -> Known[frozenset[int]] | Unknown:
    """KIP-919: DescribeCluster with endpoint type 2 lists the registered controllers, living or not."""
    if image is not None:
        return facts.from_log(frozenset(image.controllers))
    if isinstance(facts.probe.controllers, Failure):
        return Unknown(facts.probe.controllers)
    return Known(frozenset(facts.listed_controllers), SourceKind.API_REQUESTS, "DescribeCluster", facts.probe.at)


def _registered_brokers(facts: _Facts, image: Image | None) -> Known[frozenset[int]] | Unknown:
    if image is not None:
        return facts.from_log(frozenset(image.brokers))
    if isinstance(facts.probe.brokers, Failure):
        return Unknown(facts.probe.brokers)
    if not facts.probe.brokers.lists_fenced:
        return Unknown(_FENCED_UNSEEN)
    return Known(frozenset(facts.listed_brokers), SourceKind.API_REQUESTS, "DescribeCluster", facts.probe.at)


def _known(part: T | Failure, facts: _Facts) -> Known[T] | Unknown:
    if isinstance(part, Failure):
        return Unknown(part)
    return Known(part, SourceKind.API_REQUESTS, "", facts.probe.at)


def _unread(log: LogReading | Failure) -> Unknown:
    assert isinstance(log, Failure)  # noqa: S101 - only called where there is no image
    return Unknown(log)


def _why_unreachable(probe: ClusterProbe, log: Failure) -> Failure:
    """The most telling of the failures: what the bootstrap addresses said."""
    for part in (probe.brokers, probe.controllers, probe.cluster_id):
        if isinstance(part, Failure) and part.kind is not FailureKind.NOT_ASKED:
            return part
    return log
