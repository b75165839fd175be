"""Probes every node of the cluster once, in parallel, within time limits: which APIs and features does it support?

Called by `kafka/cluster.py` and `former_controllers.py`. It decides which listener of each node is asked. A node that
does not answer is a `Failure`, never an exception or a default value. It judges nothing; `core/facts/observe.py` does.

Nodes are asked as soon as a list names them, while other lists are still being requested. A combined node is asked on
both its listeners if both are known, and counts as two answers. Equal answers share their maps, so that a thousand
equal nodes take little more memory than one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, TypeVar

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import ClusterProbe, Failure, FailureKind, Host, NodeAnswer, ProbedNode, Role
from kafkafeatures.kafka.base.errors import KafkaError, to_failure
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.probe.directory import Discovery, ReportNodes, address_of
from kafkafeatures.kafka.probe.misrouted import answer_by_name, looks_at_names
from kafkafeatures.kafka.probe.one_quorum import of_another_quorum
from kafkafeatures.kafka.wire.messages import ApiVersionsResponse

K = TypeVar("K")
V = TypeVar("V")


async def probe_cluster(pool: Pool, *, report_nodes: ReportNodes | None = None) -> ClusterProbe:
    """The lists, the quorum, and the answer of every node whose address is known.

    `report_nodes` is called with nodes as soon as they are known, so that following the log can begin meanwhile.
    Bounded by three request timeouts: lists, nodes, and nodes that had to wait for others; a healthy cluster takes
    milliseconds.
    """
    started = pool.environment.clock()
    prober = NodeProber(pool)

    def on_found(role: Role, hosts: tuple[Host, ...]) -> None:
        if report_nodes is not None:
            report_nodes(role, hosts)
        prober.begin(role, hosts)

    try:
        async with Discovery(pool, on_found) as discovery:
            prober.known, prober.cluster_ids = discovery.answer_of, discovery.cluster_ids
            directory = await discovery.run()
            prober.discovered.set()
            nodes = await prober.finish()
            probed_addresses = {(node.role, Address(node.host, node.port)) for node in nodes}
            if isinstance(directory.controllers, Failure):
                nodes += _unidentified_controllers(discovery, probed_addresses, prober)
            two_quorums = await of_another_quorum(pool, directory, nodes)
            addresses = {address for _, address in probed_addresses}
            # The address of a node that was probed is left out: its answer says more.
            silent = tuple(f for a, f in discovery.bootstrap_failures().items() if a not in addresses)
    finally:
        await prober.cancel()
    return ClusterProbe(
        at=started,
        cluster_id=two_quorums or directory.cluster_id,  # two quorums: a Failure in place of the id
        brokers=directory.brokers,
        controllers=directory.controllers,
        quorum=directory.quorum,
        nodes=nodes,
        bootstrap_failures=silent,
        named_apart=bool(pool.settings.bootstrap_servers and pool.settings.bootstrap_controllers),
    )


async def probe_more(pool: Pool, done: ClusterProbe, role: Role, hosts: Sequence[Host]) -> ClusterProbe:
    """Ask nodes that only the metadata log named (`hosts_from_registrations`), unless they were asked already."""
    probed_ids = {node.id for node in done.nodes if node.role is role}
    prober = NodeProber(pool)
    if isinstance(done.cluster_id, str):
        prober.cluster_ids = {role: {done.cluster_id}}
    try:
        prober.begin(role, [host for host in hosts if host.id not in probed_ids])
        return replace(done, nodes=done.nodes + await prober.finish())
    finally:
        await prober.cancel()


async def probe_node(pool: Pool, address: Address, role: Role) -> NodeAnswer | Failure:
    """The APIs and features that the process at this address supports now."""
    try:
        return node_answer(await pool.api_versions(address, role))
    except KafkaError as error:
        return to_failure(error, str(address))


def node_answer(response: ApiVersionsResponse) -> NodeAnswer:
    """The answer without its protocol version. `complete` is False below ApiVersions v4, where nodes leave out features
    with a minimum level of 0 (KAFKA-17492).
    """
    return NodeAnswer(
        supported=response.supported_features,
        finalized=response.finalized_features,
        finalized_epoch=response.finalized_features_epoch,
        apis=response.api_keys,
        zk_migration_ready=response.zk_migration_ready,
        complete=response.version >= 4,
    )


class NodeProber:
    """The tasks that ask nodes, one for each listener. They are started by a callback, so this object owns them."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._tasks: dict[tuple[Role, int], asyncio.Task[ProbedNode]] = {}
        self._hosts: dict[tuple[Role, int], Host] = {}
        self._by_content: dict[object, Mapping[Any, Any]] = {}
        # By `id` of a mapping: (that mapping, so that its id stays in use; the equal mapping that nodes share).
        self._by_identity: dict[int, tuple[Mapping[Any, Any], Mapping[Any, Any]]] = {}
        # The response of an address that `Discovery` has connected to: it need not be asked again.
        self.known: Callable[[Role, Address], ApiVersionsResponse | None] = lambda role, address: None
        self.cluster_ids: Mapping[Role, Set[str]] = {}  # by the role of the nodes that gave them
        self.discovered = asyncio.Event()  # set once `Discovery` is done, and its connections are idle

    def begin(self, role: Role, hosts: Sequence[Host]) -> None:
        """Start asking the hosts that are not being asked yet."""
        for host in hosts:
            key = (role, host.id)
            if key not in self._tasks:
                self._hosts[key] = host
                self._tasks[key] = asyncio.create_task(self._ask(role, host))

    async def finish(self) -> tuple[ProbedNode, ...]:
        """All answers, brokers first, by id. Nodes that have not answered after two request timeouts are given up."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=2 * self._pool.settings.request_timeout)
        return tuple(self._outcome(key) for key in sorted(self._tasks))

    async def cancel(self) -> None:
        """Cancel the tasks that still run."""
        running = [task for task in self._tasks.values() if not task.done()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def record_answer(
        self, role: Role, host: Host | None, address: Address, answer: NodeAnswer | Failure
    ) -> ProbedNode:
        """Return the answer as a `ProbedNode`, with equal maps shared between nodes."""
        if isinstance(answer, NodeAnswer):
            answer = replace(
                answer,
                supported=self._shared_map(answer.supported),
                finalized=self._shared_map(answer.finalized),
                apis=self._shared_map(answer.apis),
            )
        return ProbedNode(
            host.id if host else None, role, address.host, address.port, answer, self._pool.environment.clock()
        )

    async def _ask(self, role: Role, host: Host) -> ProbedNode:
        address = address_of(host)
        api_versions, cluster_ids = self.known(role, address), self.cluster_ids.get(role, ())
        # A broker that checks names, or may do so, is asked by its name: cluster id and node id (KIP-1242). So another
        # node at its address is noticed. It needs a cluster id that is certain.
        if (
            role is Role.BROKER
            and len(cluster_ids) == 1
            and (api_versions is None or looks_at_names(api_versions.api_keys))
        ):
            if api_versions is not None:  # its connection is in use until then
                await self.discovered.wait()
            answer = await self._ask_by_name(host, *cluster_ids)
        else:
            answer = node_answer(api_versions) if api_versions else await probe_node(self._pool, address, role)
        return self.record_answer(role, host, address, answer)

    async def _ask_by_name(self, broker: Host, cluster_id: str) -> NodeAnswer | Failure:
        try:
            response = await answer_by_name(self._pool, broker, cluster_id, self._brokers)
        except KafkaError as error:
            return to_failure(error, str(address_of(broker)))
        return response if isinstance(response, Failure) else node_answer(response)

    def _brokers(self) -> list[int]:
        return [id_ for role, id_ in self._hosts if role is Role.BROKER]

    def _outcome(self, key: tuple[Role, int]) -> ProbedNode:
        task, host = self._tasks[key], self._hosts[key]
        if task.done():
            return task.result()
        address = address_of(host)
        late = Failure(FailureKind.TIMED_OUT, str(address), "no answer while the other nodes were asked")
        return self.record_answer(key[0], host, address, late)

    def _shared_map(self, mapping: Mapping[K, V]) -> Mapping[K, V]:
        """The first mapping that was equal to this one. Looked up by identity first, since most nodes' responses come
        from a cache (`codec.py`), and comparing contents takes longer.
        """
        entry = self._by_identity.get(id(mapping))
        if entry is None:
            entry = mapping, self._by_content.setdefault(frozenset(mapping.items()), mapping)
            self._by_identity[id(mapping)] = entry
        return entry[1]


def _unidentified_controllers(
    discovery: Discovery, requested: set[tuple[Role, Address]], prober: NodeProber
) -> tuple[ProbedNode, ...]:
    """Bootstrap controllers that no list names: without the list (old metadata.version) their ids are unknown.

    There are no such brokers, as every broker answers with a list of brokers. A bootstrap address that is not in it is
    another address of a broker that is.
    """
    return tuple(
        prober.record_answer(role, None, address, node_answer(contact.api_versions))
        for (role, address), contact in discovery.contacts.items()
        if role is Role.CONTROLLER and (role, address) not in requested
    )
