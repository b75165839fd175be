"""Detects another node at the address of a broker, by naming the expected node in ApiVersions (KIP-1242).

Called by `prober.py` for brokers that check names, or may. A "name" is here the cluster id together with the node id.
ApiVersions needs no right. Brokers of Kafka 4.4 refuse a request that names another node; controllers do not check the
name, and no listener does before SASL is complete (`KafkaApis`, `ControllerApis`, `SaslServerAuthenticator`). So a
refusal proves that another node answers, but acceptance proves nothing: the node may not check names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.readings import Failure, FailureKind, Host, Role
from kafkafeatures.core.words import printable
from kafkafeatures.kafka.base.errors import ErrorCode, KafkaError, ServerError, code_name
from kafkafeatures.kafka.base.pool import Lease, Pool
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.wire.connection import Connection
from kafkafeatures.kafka.wire.messages import ApiVersionsRequest, ApiVersionsResponse, DescribeClusterRequest

MOST_NAMES = 20
"""Ids that are tried to find out which broker answers instead. Limited: a cluster may have a thousand brokers, and a
load balancer may lead every address to the same one.
"""


def looks_at_names(apis: Mapping[int, VersionRange]) -> bool:
    """True if a node with these APIs checks the name in ApiVersions."""
    offered = apis.get(ApiVersionsRequest.api_key)
    return offered is not None and offered.max >= ApiVersionsRequest.names_node_from


async def answer_by_name(
    pool: Pool, broker: Host, cluster_id: str, listed: Callable[[], Iterable[int]]
) -> ApiVersionsResponse | Failure:
    """The broker's ApiVersions response; a Failure if another node answers at its address. Raises KafkaError.

    `listed`: the ids of the brokers of the cluster. If the node of the previous connection checks names, the first
    request of a new connection carries one, so the check costs no extra request, unless this broker is older or uses
    SASL.
    """
    address, name = Address(broker.host, broker.port), _name(cluster_id, broker.id)

    async def conversation(lease: Lease) -> ApiVersionsResponse | Failure:
        link = lease.connection
        answer, is_refused = link.api_versions, link.refuses_name
        # The connection may be an old one, or a new one that began without a name: then the name is sent now.
        if lease.reused or (is_refused is None and looks_at_names(answer.api_keys)):
            answer = await link.request(name)
            is_refused = answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED
        if is_refused:
            return await _who_answers(link, broker.id, cluster_id, listed())
        if answer.error_code:
            raise ServerError(answer.error_code, f"ApiVersions: {code_name(answer.error_code)}", sent=False)
        return answer

    return await pool.converse(
        address, Role.BROKER, conversation, request=name if looks_at_names(pool.offered_last) else None
    )


def _name(cluster_id: str, node_id: int) -> ApiVersionsRequest:
    return ApiVersionsRequest(cluster_id=cluster_id, node_id=node_id)


async def _who_answers(link: Connection, refused: int, cluster_id: str, listed: Iterable[int]) -> Failure:
    """A Failure that says which node answers. It is asked on the same connection: another one may lead to another
    node.
    """
    peer = str(link.address)
    remedy = (
        f"if broker {refused} runs, make {peer} lead to it: see its advertised.listeners, the DNS record and any load "
        "balancer or proxy in between"
    )
    text = f"another node answers at its address {peer}: it refuses to be broker {refused}"
    try:
        described = await link.request(DescribeClusterRequest())
        if described.error_code == 0 and described.cluster_id != cluster_id:
            text = f"its address {peer} leads to cluster {printable(described.cluster_id)[:64]}, expected {cluster_id}"
            return Failure(FailureKind.WRONG_CLUSTER, peer, text, remedy)
        for other in islice((id_ for id_ in listed if id_ != refused), MOST_NAMES):
            if (await link.request(_name(cluster_id, other))).error_code == 0:
                text = f"its address {peer} is that of broker {other} now"
                break
    except KafkaError:  # which node it is stays unknown; that it is another one is proved already
        pass
    return Failure(FailureKind.ANOTHER_NODE, peer, text, remedy)
