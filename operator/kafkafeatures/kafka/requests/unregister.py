"""Removes the registration of a node that no longer exists (UnregisterBroker, KIP-500; UnregisterController, KIP-1312).

Called through `kafka/cluster.py` by the command `unregister`. Kafka makes no checks: it also unregisters a node that
runs, or a broker that still hosts replicas. So `hosted_by` lists the topics on the broker first. The list counts only
if Metadata shows as many topics as the metadata log has records of: a user without DESCRIBE on a topic does not see it.
`core/levels/unregistration.py` decides whether the node may be unregistered.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.words import printable
from kafkafeatures.kafka.base.errors import ErrorCode, KafkaError, code_name, to_failure
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.rights import GRANT, ClusterRight, missing
from kafkafeatures.kafka.requests.features import AddressRoute
from kafkafeatures.kafka.wire.topic_messages import MetadataRequest, MetadataResponse
from kafkafeatures.kafka.wire.unregister_codec import (
    UnregisterBrokerRequest,
    UnregisterControllerRequest,
    UnregisterResponse,
)

TOPIC_RECORD, REMOVE_TOPIC_RECORD = 2, 9  # types of records in the metadata log


class HostedTopics(Struct, frozen=True):
    """Names of all topics with a replica on the broker. `moves`: a proposal for a reassignment, with (topic, partition,
    new replicas without that broker) for each partition with a replica there.
    """

    topics: tuple[str, ...]
    moves: tuple[tuple[str, int, tuple[int, ...]], ...] = ()


async def hosted_by(pool: Pool, route: AddressRoute, broker: int, counts: Mapping[int, int]) -> HostedTopics | Failure:
    """The topics with replicas on the broker. `counts`: number of records in the metadata log by record type."""
    last = Failure(FailureKind.NOT_ASKED, "Metadata", "no live broker is known", "name a live broker")
    for address in route.brokers:
        try:
            answer: MetadataResponse = await pool.ask(address, Role.BROKER, MetadataRequest(all_topics=True))
        except KafkaError as error:
            last = to_failure(error, str(address))
            continue
        topic_count = counts.get(TOPIC_RECORD, 0) - counts.get(REMOVE_TOPIC_RECORD, 0)
        if len(answer.replicas) < topic_count:
            text = (
                f"shows {len(answer.replicas)} of {topic_count} topics, so the replicas on broker {broker} are unknown"
            )
            failure = Failure(
                FailureKind.AUTHORIZATION, str(address), text, f"{GRANT} --operation Describe --topic '*'"
            )
            return pool.requester.named(failure, Role.BROKER)
        topics = tuple(sorted(name for name, brokers in answer.replicas.items() if broker in brokers))
        return HostedTopics(topics, moved_from(answer, broker))
    return last


def moved_from(answer: MetadataResponse, broker: int) -> tuple[tuple[str, int, tuple[int, ...]], ...]:
    """(topic, partition, new replicas): in each partition the broker is replaced by the live broker with the fewest
    replicas, or left out if there is none. A partition whose only replica is on this broker is left out: an empty
    replica elsewhere would hide that its data is lost.
    """
    load = {host.id: 0 for host in answer.brokers if host.id != broker}
    partitions = [(topic.name, partition) for topic in answer.topics for partition in topic.partitions]
    for id_ in (id_ for _, partition in partitions for id_ in partition.replicas if id_ in load):
        load[id_] += 1
    moves = []
    for name, partition in sorted(partitions, key=lambda each: (each[0], each[1].partition)):
        if broker not in partition.replicas or set(partition.replicas) == {broker}:
            continue
        free = sorted((count, id_) for id_, count in load.items() if id_ not in partition.replicas)
        substitutes = [free[0][1]] if free else []
        for id_ in substitutes:
            load[id_] += 1
        at = partition.replicas.index(broker)
        moves.append(
            (name, partition.partition, (*partition.replicas[:at], *substitutes, *partition.replicas[at + 1 :]))
        )
    return tuple(moves)


_DONE = (ErrorCode.NONE, ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.CONTROLLER_ID_NOT_REGISTERED)
"""Codes with which the node is not registered, or no longer is."""


async def unregister(pool: Pool, route: AddressRoute, role: Role, node_id: int) -> Failure | None:
    """Send the request, to the first node on the route that accepts it. None: done, or the node was not registered any
    more.
    """
    request_name = f"Unregister{role.value}"
    request = UnregisterBrokerRequest(node_id) if role is Role.BROKER else UnregisterControllerRequest(node_id)
    last = route.closed or Failure(FailureKind.NOT_ASKED, request_name, "no node to send it to")
    for address, listener in route.stops():
        try:
            answer: UnregisterResponse = await pool.ask(address, listener, request)
        except KafkaError as error:
            last = to_failure(error, str(address))
            continue  # it may have arrived; to send it twice does no harm
        if answer.error_code in _DONE:
            return None
        if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            words = missing(request_name, ClusterRight.ALTER, answer.error_message)
            return pool.requester.named(Failure(FailureKind.AUTHORIZATION, str(address), *words), listener)
        text = printable(answer.error_message or "") or code_name(answer.error_code)
        last = Failure(FailureKind.REJECTED, str(address), f"{request_name}: {text}")
    return last
