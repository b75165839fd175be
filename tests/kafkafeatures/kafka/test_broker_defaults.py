"""The default of `min.insync.replicas`: the highest value that any broker applies to topics without a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.settings import SettingSource
from kafkafeatures.kafka.base.errors import Unreachable
from kafkafeatures.kafka.base.settings import ClusterSettings
from kafkafeatures.kafka.probe.broker_defaults import BrokerDefaults
from kafkafeatures.kafka.wire.topic_messages import (
    BROKER_RESOURCE,
    ConfigAnswer,
    ConfigEntry,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from kraftlog import Image, Replay, Section
from tests.kafkafeatures.kafka.scripted import Cluster, Node, at
from tests.kraftlog.build import batch, broker
from tests.kraftlog.partitions import config

APIS = {18: VersionRange(0, 4), 32: VersionRange(4, 4)}
CONFIG_OF_BROKER = 4
"""The type of the resource in a record of a broker's config; the name of the resource is "" for all brokers."""
MIN = "min.insync.replicas"


class Brokers:
    """Brokers, each at the port of its id. `layers`: by broker ("b1" for broker 1), the values of the config by their
    source.
    """

    def __init__(self, **layers: Mapping[int, str]) -> None:
        self.layers = {int(name.removeprefix("b")): dict(of_one) for name, of_one in layers.items()}
        nodes = {at(id_): Node(APIS, {DescribeConfigsRequest: self.answer(id_)}) for id_ in self.layers}
        self.cluster = Cluster(nodes)
        self.defaults = BrokerDefaults(self.cluster.pool(ClusterSettings()))
        self.addresses = {id_: at(id_) for id_ in self.layers}

    def answer(self, id_: int) -> Any:
        def of_request(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
            assert (request.resource, request.names, request.keys) == (
                BROKER_RESOURCE, (str(id_),), (MIN,),
            )  # fmt: skip
            layers = self.layers[id_]
            source = min(layers, default=0)
            entry = ConfigEntry(layers.get(source), source, layers)
            return DescribeConfigsResponse({str(id_): ConfigAnswer(0, None, {MIN: entry})})

        return of_request

    def requests(self) -> int:
        """How many requests the brokers have answered."""
        return sum(len(node.asked) for node in self.cluster.nodes.values())

    async def by_log(self, *values: bytes) -> int | Failure:
        return await self.defaults.by_log(image(*values), self.addresses)


def image(*values: bytes) -> Image:
    replay = Replay(sections=Section)
    for offset, value in enumerate(values):
        replay.append(batch(offset, value), below=1 << 62)
    made = replay.image()
    assert made.unreadable == 0
    return made


def running(id_: int, life: int = 1) -> bytes:
    return broker(id_, life, fenced=False)


async def test_the_default_of_min_isr_is_the_highest_of_all_brokers() -> None:
    brokers = Brokers(
        b1={SettingSource.DEFAULT: "1"},
        b2={SettingSource.FILE: "3", SettingSource.DEFAULT: "1"},
        b3={SettingSource.FILE: "2", SettingSource.DEFAULT: "1"},
    )
    assert await brokers.by_log(*map(running, (1, 2, 3))) == 3
    assert await brokers.defaults.by_asking(brokers.addresses) == 3


async def test_a_config_of_a_broker_wins_over_the_cluster_default_and_that_over_the_file() -> None:
    """The value in the file stays known, as it applies again once the other values are removed."""
    brokers = Brokers(
        b1={SettingSource.ALL_BROKERS: "2", SettingSource.FILE: "4", SettingSource.DEFAULT: "1"},
        b2={SettingSource.DEFAULT: "1"},
    )
    nodes = running(1), running(2)
    assert await brokers.by_log(*nodes, config(CONFIG_OF_BROKER, "", "2")) == 2
    assert await brokers.by_log(*nodes, config(CONFIG_OF_BROKER, "", "2"), config(CONFIG_OF_BROKER, "2", "3")) == 3
    assert await brokers.by_log(*nodes) == 4
    assert brokers.requests() == 2


async def test_defaults_read_from_brokers_are_the_values_in_effect() -> None:
    brokers = Brokers(b1={SettingSource.NODE: "2", SettingSource.FILE: "4"}, b2={SettingSource.DEFAULT: "1"})
    assert await brokers.defaults.by_asking(brokers.addresses) == 2


async def test_a_broker_is_asked_once_per_process() -> None:
    brokers = Brokers(b1={SettingSource.FILE: "1"}, b2={SettingSource.FILE: "2"})
    for _ in range(3):
        assert await brokers.by_log(running(1), running(2)) == 2
    assert brokers.requests() == 2
    brokers.layers[2] = {SettingSource.FILE: "1"}
    assert await brokers.by_log(running(1), running(2, life=2)) == 1
    assert brokers.requests() == 3


async def test_a_broker_with_known_defaults_need_not_answer_and_a_fenced_broker_does_not_count() -> None:
    brokers = Brokers(b1={SettingSource.FILE: "1"}, b2={SettingSource.FILE: "2"})
    assert await brokers.by_log(running(1), running(2)) == 2
    brokers.cluster.nodes[at(2)].refuses = Unreachable
    assert await brokers.by_log(running(1), running(2)) == 2
    assert await brokers.by_log(running(1), broker(2, 2)) == 1


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (Unreachable, FailureKind.UNREACHABLE, "gone"),
        (
            DescribeConfigsResponse({"2": ConfigAnswer(31, None, {})}),
            FailureKind.AUTHORIZATION,
            "reading min.insync.replicas of broker 2 needs DESCRIBE_CONFIGS on the cluster",
        ),
        (
            DescribeConfigsResponse({"2": ConfigAnswer(42, "Unexpected broker id", {})}),
            FailureKind.REJECTED,
            "DescribeConfigs of broker 2: Unexpected broker id",
        ),
        (DescribeConfigsResponse({}), FailureKind.REJECTED, "does not tell the configs of broker 2"),
        (
            DescribeConfigsResponse({"2": ConfigAnswer(0, None, {MIN: ConfigEntry(None, 0)})}),
            FailureKind.REJECTED,
            "min.insync.replicas is not a number",
        ),
    ],
    ids=["it is gone", "CLUSTER_AUTHORIZATION_FAILED", "INVALID_REQUEST", "no answer about it", "no value"],
)
async def test_a_broker_that_cannot_be_asked_makes_the_default_unknown(
    answer: Any, kind: FailureKind, words: str
) -> None:
    brokers = Brokers(b1={SettingSource.FILE: "1"}, b2={SettingSource.FILE: "2"})
    brokers.cluster.nodes[at(2)].answers = {DescribeConfigsRequest: answer}
    for default in (await brokers.by_log(running(1), running(2)), await brokers.defaults.by_asking(brokers.addresses)):
        assert isinstance(default, Failure)
        assert default.kind is kind
        assert words in default.message


async def test_the_default_is_unknown_if_a_broker_has_no_address_or_there_is_no_broker() -> None:
    brokers = Brokers(b1={SettingSource.FILE: "1"})
    default = await brokers.by_log(running(1), running(2))
    assert isinstance(default, Failure)
    assert default.kind is FailureKind.NOT_ASKED
    assert isinstance(await brokers.by_log(), Failure)
