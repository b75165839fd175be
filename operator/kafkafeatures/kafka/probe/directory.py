"""Discovery of brokers, controllers and the quorum's leader, from either kind of bootstrap address.

Called by other modules of this package and `kafka/cluster.py`. It decides whom to ask, and which answers count:

    configured     brokers from                    controllers from                leader from
    brokers        DescribeCluster, else Metadata  DescribeQuorum v2 (Kafka 3.9+)  DescribeQuorum, passed on
    controllers    the metadata log only           DescribeCluster, endpoint 2     the same, then DescribeQuorum

Traps (all seen on real nodes): a request that the node does not advertise closes the connection, so ApiVersions comes
first; an error of DescribeQuorum has leader id 0, which is no node; a broker does not answer DescribeQuorum while there
is no leader, so its deadline is short; DescribeCluster of a broker names a random broker as the controller.

It raises nothing for the behaviour of nodes: problems are a `Failure` in the `Directory`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Set
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import (
    METADATA,
    NO_CONNECTION,
    BrokerList,
    ControllerList,
    Failure,
    FailureKind,
    Host,
    QuorumAnswer,
    Role,
)
from kafkafeatures.kafka.base.bootstrap import Race, Unusable, combined
from kafkafeatures.kafka.base.errors import ErrorCode
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.probe.quorum import NO_LEADER, describe_quorum, refused, short_timeout
from kafkafeatures.kafka.wire.messages import (
    ApiVersionsResponse,
    DescribeClusterRequest,
    DescribeQuorumRequest,
)

if TYPE_CHECKING:  # asking works without the library that reads logs, and starts faster
    from kraftlog import BrokerRegistration, ControllerRegistration, Image

LONGEST_CLUSTER_ID = 64
"""The limit of the resource's field; Kafka's own ids have 22 characters. It is kept in statuses and in memory, so it
has a bound.
"""

_BROKERS_TRIED = 2  # to ask for the quorum, besides the broker that gave the list
_GONE = frozenset({*NO_CONNECTION, FailureKind.DISCONNECTED})  # failures of the connection, not of the request
_LEADER_MOVED = 3  # most searches while the named leader denies that it leads
_NODE_KIND = {Role.BROKER: ("a broker", "bootstrapServers"), Role.CONTROLLER: ("a controller", "bootstrapControllers")}
_FLAG = {Role.BROKER: "--bootstrap-server", Role.CONTROLLER: "--bootstrap-controller"}

ReportNodes = Callable[[Role, tuple[Host, ...]], None]
"""Callback for nodes of a role, as soon as they are known; it may be called several times."""


class Contact(Struct, frozen=True):
    """A bootstrap address that answered, and is of the role that it was configured for."""

    role: Role
    address: Address
    api_versions: ApiVersionsResponse


class Directory(Struct, frozen=True):
    """The lists and the quorum. `voters`: by DescribeQuorum v2; known even if `controllers` is a Failure."""

    cluster_id: str | Failure
    brokers: BrokerList | Failure
    controllers: ControllerList | Failure
    quorum: QuorumAnswer | Failure
    voters: tuple[Host, ...] = ()

    def controller_hosts(self) -> tuple[Host, ...]:
        """Every controller with a known address."""
        listed = self.controllers.controllers if isinstance(self.controllers, ControllerList) else ()
        return tuple({host.id: host for host in (*self.voters, *listed)}.values())


def address_of(host: Host) -> Address:
    """The address to connect to."""
    return Address(host.host, host.port)


def hosts_from_registrations(image: Image, role: Role, protocol: str) -> tuple[Host, ...]:
    """Listeners of registered nodes of `role`, as the metadata log has it.

    The first listener with the security protocol `protocol` (`Security.protocol`) counts; a node without one is left
    out. If only controllers are configured, this is the only way to find the brokers.
    """
    security_protocol = _PROTOCOLS[protocol]
    nodes: dict[int, BrokerRegistration | ControllerRegistration] = {}
    nodes.update(image.brokers if role is Role.BROKER else image.controllers)
    fenced = {id_ for id_, broker in image.brokers.items() if broker.fenced} if role is Role.BROKER else set()
    hosts = []
    for id_, node in sorted(nodes.items()):
        endpoint = next((e for e in node.endpoints if e.security_protocol == security_protocol), None)
        if endpoint is not None:
            hosts.append(Host(id_, endpoint.host, endpoint.port, is_fenced=id_ in fenced))
    return tuple(hosts)


_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}  # SecurityProtocol.java


class Discovery:
    """A single search, which `run` makes. `report_nodes` is called with nodes once they are known. `contacts` (by role
    and address) and `cluster_ids` (by the role of the nodes that named them) grow meanwhile.
    """

    def __init__(self, pool: Pool, report_nodes: ReportNodes = lambda role, hosts: None) -> None:
        self._pool = pool
        self._report_nodes = report_nodes
        self._broker_race = Race(pool.settings.bootstrap_servers, self._contact_broker)
        self._controller_race = Race(pool.settings.bootstrap_controllers, self._contact_controller)
        self._answered: list[Race[Any]] = []  # races with a winner
        self.cluster_ids: dict[Role, set[str]] = {}
        self._short_timeout = short_timeout(pool)
        self.contacts: dict[tuple[Role, Address], Contact] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._broker_race.close()
        await self._controller_race.close()

    async def run(self) -> Directory:
        """Search. Bounded by the request timeout for the lists and `QUORUM_TIMEOUT` for each way to the leader."""
        async with asyncio.TaskGroup() as group:
            broker_side = group.create_task(self._from_brokers())
            controller_side = group.create_task(self._from_controllers())
        brokers, listed_by, broker_apis = broker_side.result()
        controllers, quorum, voters = controller_side.result()
        leaderless = isinstance(controllers, ControllerList) and controllers.active is None
        if isinstance(quorum, Failure) and isinstance(brokers, BrokerList) and not leaderless:
            forwarded, named_voters = await self._quorum_through_brokers(brokers, listed_by, broker_apis)
            if isinstance(forwarded, QuorumAnswer) or not self._pool.settings.bootstrap_controllers:
                quorum, voters = forwarded, named_voters or voters
            if voters:
                self._report_nodes(Role.CONTROLLER, voters)
                if isinstance(controllers, Failure):
                    controllers = await self._list_from_voters(voters)
        return Directory(self._cluster_id(controllers), brokers, controllers, quorum, voters)

    def bootstrap_failures(self) -> Mapping[Address, Failure]:
        """Addresses that failed, or have not answered until now, although another address of the same role did."""
        return {address: failure for race in self._answered for address, failure in race.failures().items()}

    def answer_of(self, role: Role, address: Address) -> ApiVersionsResponse | None:
        """The ApiVersions response with which this contact began; None if it is no contact."""
        contact = self.contacts.get((role, address))
        return contact.api_versions if contact else None

    # --- brokers ---

    async def _from_brokers(self) -> tuple[BrokerList | Failure, Address | None, Mapping[int, object]]:
        """(brokers, address of the broker that listed them, APIs of that broker by key)."""
        first = await self._broker_race.winner()
        if first is None:
            return _no_winner(Role.BROKER, self._broker_race), None, {}
        self._answered.append(self._broker_race)
        contact, brokers = first
        self._report_nodes(Role.BROKER, brokers.brokers)
        return brokers, contact.address, contact.api_versions.api_keys

    async def _contact_broker(self, address: Address) -> tuple[Contact, BrokerList]:
        contact = await self._contact(address, Role.BROKER)
        if DescribeClusterRequest.api_key in contact.api_versions.api_keys:
            answer = await self._pool.ask(address, Role.BROKER, DescribeClusterRequest())
            if answer.error_code:
                raise Unusable(refused("DescribeCluster", address, answer.error_code, answer.error_message))
            cluster_id, hosts, lists_fenced = answer.cluster_id, answer.nodes, answer.version >= 2
        else:  # before Kafka 2.8
            from kafkafeatures.kafka.wire.topic_messages import MetadataRequest  # most brokers have the other

            metadata = await self._pool.ask(address, Role.BROKER, MetadataRequest())
            cluster_id, hosts, lists_fenced = metadata.cluster_id or "", metadata.brokers, False
        if not hosts:  # for a quarter of a second after its start a broker does not even list itself
            raise Unusable(Failure(FailureKind.REJECTED, str(address), "lists no brokers yet: it has just started"))
        if cluster_id:
            self._note_cluster(Role.BROKER, address, cluster_id)
        return contact, BrokerList(hosts, lists_fenced)

    async def _quorum_through_brokers(
        self, brokers: BrokerList, listed_by: Address | None, apis: Mapping[int, object]
    ) -> tuple[QuorumAnswer | Failure, tuple[Host, ...]]:
        if DescribeQuorumRequest.api_key not in apis:
            return (
                Failure(
                    FailureKind.UNSUPPORTED,
                    "DescribeQuorum",
                    "not supported by these brokers: they run in ZooKeeper mode or are older than Kafka 3.0",
                ),
                (),
            )
        answer: tuple[QuorumAnswer | Failure, tuple[Host, ...]] = (NO_LEADER, ())
        # First the broker that gave the list, since it works; others only if the connection to it fails.
        addresses = [address_of(host) for host in brokers.brokers][:_BROKERS_TRIED]
        for address in dict.fromkeys((*((listed_by,) if listed_by else ()), *addresses)):
            answer = await describe_quorum(self._pool, address, Role.BROKER)
            if isinstance(answer[0], QuorumAnswer) or answer[0].kind not in _GONE:
                break
        return answer

    # --- controllers ---

    async def _from_controllers(
        self,
    ) -> tuple[ControllerList | Failure, QuorumAnswer | Failure, tuple[Host, ...]]:
        first = await self._controller_race.winner()
        if first is None:
            failure = _no_winner(Role.CONTROLLER, self._controller_race)
            return failure, failure, ()
        self._answered.append(self._controller_race)
        contact, listed = first
        if isinstance(listed, ControllerList):
            self._report_nodes(Role.CONTROLLER, listed.controllers)
            return await self._quorum_from_leader(listed, contact)
        quorum, voters = await self._quorum_from_current_leader()
        if voters:
            self._report_nodes(Role.CONTROLLER, voters)
        return listed, quorum, voters

    async def _contact_controller(self, address: Address) -> tuple[Contact, ControllerList | Failure]:
        contact = await self._contact(address, Role.CONTROLLER)
        return contact, await self._list_controllers(contact)

    async def _list_controllers(self, contact: Contact, timeout: float | None = None) -> ControllerList | Failure:
        """A Failure if no controller can list them. Raises KafkaError or Unusable if only this one cannot."""
        address, offered = contact.address, contact.api_versions.api_keys.get(DescribeClusterRequest.api_key)
        if offered is None or offered.max < 1:
            return _no_list(address, "it is older than Kafka 3.7")
        answer = await self._pool.ask(
            address, Role.CONTROLLER, DescribeClusterRequest(endpoint_type=2), timeout=timeout
        )
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:  # metadata.version below 3.7-IV0
            return _no_list(address, answer.error_message or "its metadata.version is below 3.7-IV0")
        if answer.error_code:
            raise Unusable(refused("DescribeCluster", address, answer.error_code, answer.error_message))
        if not answer.nodes:
            raise Unusable(Failure(FailureKind.REJECTED, str(address), "lists no controllers yet: it has just started"))
        self._note_cluster(Role.CONTROLLER, address, answer.cluster_id)
        return ControllerList(answer.nodes, None if answer.controller_id < 0 else answer.controller_id)

    async def _list_from_voters(self, voters: tuple[Host, ...]) -> ControllerList | Failure:
        """The registered controllers with their addresses, from the first voter that answers."""

        async def attempt(address: Address) -> ControllerList:
            api_versions = await self._pool.api_versions(address, Role.CONTROLLER, timeout=self._short_timeout)
            contact = self.contacts[Role.CONTROLLER, address] = Contact(Role.CONTROLLER, address, api_versions)
            listed = await self._list_controllers(contact, self._short_timeout)
            if isinstance(listed, Failure):
                raise Unusable(listed)
            return listed

        race = Race([address_of(voter) for voter in voters], attempt)
        try:
            listed = await race.winner()
            if listed is None:
                return combined("controllers, as DescribeQuorum names them", list(race.failures().values()))
        finally:
            await race.close()
        self._report_nodes(Role.CONTROLLER, listed.controllers)
        return listed

    async def _quorum_from_leader(
        self, listed: ControllerList, source: Contact
    ) -> tuple[ControllerList | Failure, QuorumAnswer | Failure, tuple[Host, ...]]:
        if listed.active is None:  # this controller may be cut off while the others have a leader
            listed = await self._who_leads_now(listed, source) or listed
        quorum: QuorumAnswer | Failure = NO_LEADER
        voters: tuple[Host, ...] = ()
        for attempt in range(_LEADER_MOVED):
            if listed.active is None:
                return listed, NO_LEADER, voters
            leader = next((h for h in listed.controllers if h.id == listed.active), None)
            if leader is None:
                message = f"controller {listed.active} leads the quorum, but its address is not listed"
                return listed, Failure(FailureKind.NOT_ASKED, "DescribeQuorum", message), voters
            quorum, voters = await describe_quorum(self._pool, address_of(leader), Role.CONTROLLER)
            if isinstance(quorum, QuorumAnswer) or quorum.kind is not FailureKind.NO_LEADER:
                return listed, quorum, voters
            # It led a moment ago: another controller will know who does now.
            await self._pool.environment.sleep(0.1 * (attempt + 1))
            newer_list = await self._who_leads_now(listed, source)
            if newer_list is None:
                return listed, quorum, voters
            listed = newer_list
        return listed, quorum, voters

    async def _who_leads_now(self, listed: ControllerList, source: Contact) -> ControllerList | None:
        """Ask every listed controller, until one names another leader than `listed` does; None if none does."""

        async def attempt(address: Address) -> ControllerList:
            answer = await self._list_controllers(replace(source, address=address), self._short_timeout)
            if isinstance(answer, Failure):
                raise Unusable(answer)
            if answer.active in (None, listed.active):
                raise Unusable(NO_LEADER)
            return answer

        race = Race([address_of(host) for host in listed.controllers], attempt)
        try:
            return await race.winner()
        finally:
            await race.close()

    async def _quorum_from_current_leader(self) -> tuple[QuorumAnswer | Failure, tuple[Host, ...]]:
        """Below metadata.version 3.7-IV0 no controller names the leader: all are asked, only the leader answers."""
        addresses = self._pool.settings.bootstrap_controllers
        answers = await asyncio.gather(*(describe_quorum(self._pool, a, Role.CONTROLLER) for a in addresses))
        for address, (quorum, voters) in zip(addresses, answers, strict=True):
            if isinstance(quorum, QuorumAnswer):
                return quorum, voters or (Host(quorum.leader_id, address.host, address.port),)
        return combined("DescribeQuorum", [quorum for quorum, _ in answers if isinstance(quorum, Failure)]), ()

    # --- either ---

    async def _contact(self, address: Address, role: Role) -> Contact:
        api_versions = await self._pool.api_versions(address, role)
        # The reliable mark: a controller's listener never offers Metadata, a broker's always does.
        actual = Role.BROKER if METADATA in api_versions.api_keys else Role.CONTROLLER
        if actual is not role:
            noun, setting = _NODE_KIND[actual]
            remedy = f"put it under {setting} ({_FLAG[actual]})"
            raise Unusable(Failure(FailureKind.UNSUPPORTED, str(address), f"is {noun}", remedy))
        contact = Contact(role, address, api_versions)
        self.contacts[role, address] = contact
        return contact

    def _note_cluster(self, role: Role, address: Address, cluster_id: str) -> None:
        if len(cluster_id) > LONGEST_CLUSTER_ID or not cluster_id.isprintable():
            problem = f"names a cluster id of {len(cluster_id)} characters, which no Kafka makes"
            raise Unusable(Failure(FailureKind.REJECTED, str(address), problem))
        self.cluster_ids.setdefault(role, set()).add(cluster_id)

    def _cluster_id(self, controllers: ControllerList | Failure) -> str | Failure:
        ids = self.cluster_ids
        cluster_ids = sorted(set().union(*ids.values()))
        if len(cluster_ids) > 1:
            return Failure(
                FailureKind.WRONG_CLUSTER,
                " and ".join(_NODE_KIND[role][1] for role in ids),
                f"they lead to {len(cluster_ids)} clusters: {_by_role(ids)}",
                "use addresses of one cluster; if new controllers were formatted with another --cluster-id than that "
                "of the brokers, empty their disks and format them again",
            )
        if cluster_ids:
            return cluster_ids[0]
        if self._answered and isinstance(controllers, Failure):  # no right to read the id from controllers
            return controllers
        failures = [*self._broker_race.failures().values(), *self._controller_race.failures().values()]
        return combined("bootstrap", failures) if failures else _NO_ADDRESS


def _by_role(ids: Mapping[Role, Set[str]]) -> str:
    return "; ".join(f"{role.value.lower()}s: {', '.join(sorted(values))}" for role, values in sorted(ids.items()))


_WITHOUT = {
    Role.BROKER: "without one the brokers are found only in the metadata log",
    Role.CONTROLLER: "without one the controllers are found only through brokers of Kafka 3.9 or newer",
}
_NO_ADDRESS = Failure(FailureKind.NOT_ASKED, "bootstrap", "no address is given", "name a broker or a controller")


def _no_winner(role: Role, race: Race[Any]) -> Failure:
    setting = _NODE_KIND[role][1]
    if failures := list(race.failures().values()):
        return combined(setting, failures)
    return Failure(FailureKind.NOT_ASKED, setting, "no address is given", _WITHOUT[role])


def _no_list(address: Address, reason: str) -> Failure:
    return Failure(
        FailureKind.UNSUPPORTED,
        str(address),
        f"does not list the controllers: {reason}",
        "name every controller under bootstrapControllers",
    )
