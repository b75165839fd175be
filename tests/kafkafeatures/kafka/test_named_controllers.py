"""The node that each broker takes for the controller: all ids that it names, or the failure to learn them.

A broker in KRaft mode names a random broker, so it is asked `TIMES` times.
"""

from __future__ import annotations

from itertools import cycle

from kafkafeatures.core.facts.readings import Failure, FailureKind, ProbedNode, Role
from kafkafeatures.kafka.probe.named_controllers import TIMES, named_controllers
from kafkafeatures.kafka.wire.topic_messages import MetadataRequest, MetadataResponse
from tests.kafkafeatures.kafka.scripted import BROKER_APIS, HANG, Cluster, Node, at
from tests.kafkafeatures.kafka.test_directory import settings
from tests.kafkafeatures.worlds import NOW, SILENT, answer


def names(*ids: int) -> Node:
    """A broker that names these ids as the controller, in turn."""
    following = cycle(ids)
    return Node(BROKER_APIS, {MetadataRequest: lambda _: MetadataResponse("C1", next(following), ())})


def probed(id_: int, said: Failure | None = None, role: Role = Role.BROKER) -> ProbedNode:
    return ProbedNode(id_, role, "node", id_, answer(keys=(3, 18)) if said is None else said, NOW)


async def named(cluster: Cluster, *nodes: ProbedNode) -> dict[int, frozenset[int] | Failure]:
    async with cluster.pool(settings(servers=(1,))) as pool:
        return dict(await named_controllers(pool, nodes))


async def test_each_broker_is_asked_which_controller_it_knows() -> None:
    cluster = Cluster({at(1): names(2), at(2): names(-1)})
    found = await named(cluster, probed(1), probed(2), probed(3001, role=Role.CONTROLLER))
    assert found == {1: frozenset({2}), 2: frozenset({-1})}


async def test_a_randomly_chosen_controller_of_a_broker_is_detected_by_repeated_requests() -> None:
    cluster = Cluster({at(1): names(*[2] * (TIMES - 1), 3)})
    assert await named(cluster, probed(1)) == {1: frozenset({2, 3})}


async def test_the_known_controller_of_a_silent_broker_is_unknown() -> None:
    hangs = Node(BROKER_APIS, {MetadataRequest: HANG})
    found = await named(Cluster({at(1): hangs, at(2): names(2)}), probed(1), probed(2), probed(3, SILENT))
    assert isinstance(found[1], Failure)
    assert (found[1].kind, found[1].location) == (FailureKind.TIMED_OUT, str(at(1)))
    assert found[2] == frozenset({2})
    assert found[3] == SILENT
