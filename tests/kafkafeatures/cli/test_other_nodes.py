"""Readings go on at other nodes of the cluster while the node of the typed address is away."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.cli.cluster.other_nodes import OtherNodes
from kafkafeatures.core.facts.observation import Known, NodeState, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.observe import ClusterUnreachable
from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.kafka.base.settings import ClusterSettings, parse_addresses
from tests.kafkafeatures.worlds import NOW, node, observation

AWAY = ClusterUnreachable(Failure(FailureKind.NOT_LISTENING, "first:9092", "connection refused"))
SETTINGS = ClusterSettings(parse_addresses("first:9092", ""))
BROKER = replace(node(1), host="first", port=9092)
OTHER = replace(node(2), host="second", port=9092)
GHOST = replace(node(3), host="third", port=9092, state=NodeState.GHOST)
COMBINED = replace(
    node(4),
    host="fourth",
    port=9093,
    roles=(Role.CONTROLLER, Role.BROKER),
    listeners=(("fourth", 9092), ("fourth", 9093)),
    controller_listeners=(("fourth", 9093),),
)


def read_elsewhere(cluster_id: str) -> Observation:
    """A reading at another node, which told the cluster id at another time."""
    id_ = Known(cluster_id, SourceKind.API_REQUESTS, "second:9092", NOW + timedelta(seconds=5))
    return replace(observation(BROKER, OTHER), cluster_id=id_)


class Reads:
    """A cluster that is read at the typed address once, and then at others alone."""

    def __init__(self, *answers: Observation | ClusterUnreachable) -> None:
        self._answers = list(answers)
        self.addresses: list[str] = []

    async def __call__(self, settings: ClusterSettings) -> Observation:
        self.addresses.append(",".join(map(str, (*settings.bootstrap_servers, *settings.bootstrap_controllers))))
        answer = AWAY if len(self.addresses) > 1 and settings == SETTINGS else self._answers.pop(0)
        if isinstance(answer, ClusterUnreachable):
            raise answer
        return answer


async def test_the_nodes_of_the_last_reading_are_asked_once_the_typed_address_is_away() -> None:
    before, after = observation(BROKER, OTHER, GHOST, COMBINED), read_elsewhere("cluster-1")
    reads, nodes = Reads(before, after, after), OtherNodes(SETTINGS)
    assert await nodes.observed(reads) is before
    assert nodes.current == SETTINGS
    assert await nodes.observed(reads) is after
    assert reads.addresses == ["first:9092", "first:9092", "first:9092,second:9092,fourth:9092"]
    assert nodes.current.bootstrap_servers == parse_addresses("first:9092,second:9092,fourth:9092", "")
    assert await nodes.observed(reads) is after
    assert reads.addresses[3:] == ["first:9092", "first:9092,second:9092"]


async def test_controllers_are_asked_if_controllers_were_typed() -> None:
    settings = ClusterSettings(bootstrap_controllers=parse_addresses("first:9093", ""))
    reads, nodes = Reads(observation(BROKER, COMBINED)), OtherNodes(settings)
    await nodes.observed(reads)

    async def away(current: ClusterSettings) -> Observation:
        if current == settings:
            raise AWAY
        return await Reads(observation(COMBINED))(current)

    await nodes.observed(away)
    assert nodes.current == ClusterSettings(bootstrap_controllers=parse_addresses("fourth:9093", ""))


@pytest.mark.parametrize(
    "answer",
    [
        ClusterUnreachable(Failure(FailureKind.NOT_LISTENING, "second:9092", "timed out")),
        read_elsewhere("another-cluster"),
    ],
)
async def test_the_failure_is_that_of_the_typed_address_if_no_node_of_this_cluster_answers(
    answer: Observation | ClusterUnreachable,
) -> None:
    reads, nodes = Reads(observation(BROKER, OTHER), answer), OtherNodes(SETTINGS)
    await nodes.observed(reads)
    with pytest.raises(ClusterUnreachable, match="first:9092: connection refused"):
        await nodes.observed(reads)
    assert nodes.current == SETTINGS


async def test_a_reading_without_the_cluster_id_as_of_a_node_that_is_stopping_does_not_replace_the_nodes() -> None:
    after = read_elsewhere("cluster-1")
    stopping = replace(observation(BROKER), cluster_id=Unknown(AWAY.failure))
    answers: list[Observation | ClusterUnreachable] = [observation(BROKER, OTHER), stopping, AWAY, after]
    nodes = OtherNodes(SETTINGS)

    async def read(settings: ClusterSettings) -> Observation:
        answer = answers.pop(0)
        if isinstance(answer, ClusterUnreachable):
            raise answer
        return answer

    assert [await nodes.observed(read) for _ in range(2)][1] is stopping
    assert await nodes.observed(read) is after


@pytest.mark.parametrize("kind", [FailureKind.AUTHENTICATION, FailureKind.AUTHORIZATION])
async def test_a_login_that_the_typed_address_refuses_is_not_sent_to_all_other_nodes(kind: FailureKind) -> None:
    nodes, addresses = OtherNodes(SETTINGS), list[str]()
    await nodes.observed(Reads(observation(BROKER, OTHER)))

    async def refuse(settings: ClusterSettings) -> Observation:
        addresses.append(",".join(map(str, settings.bootstrap_servers)))
        raise ClusterUnreachable(Failure(kind, "first:9092", "refused"))

    with pytest.raises(ClusterUnreachable, match="first:9092: refused"):
        await nodes.observed(refuse)
    assert addresses == ["first:9092"]


async def test_a_first_reading_that_fails_is_not_tried_elsewhere() -> None:
    with pytest.raises(ClusterUnreachable, match="first:9092"):
        await OtherNodes(SETTINGS).observed(Reads(AWAY))
