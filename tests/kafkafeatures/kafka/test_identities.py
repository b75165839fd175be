"""Identities of nodes: a process proves its id by its own answer, which counts until the process ends."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import ClusterProbe, Failure, FailureKind, LogReading, ProbedNode, Role
from kafkafeatures.core.facts.settings import MIN_INSYNC_REPLICAS, SNAPSHOT_INTERVAL, Setting, SettingSource
from kafkafeatures.core.roll.snapshots import interval_of
from kafkafeatures.kafka.base.errors import ErrorCode
from kafkafeatures.kafka.probe.identities import Identities
from kafkafeatures.kafka.wire.topic_messages import (
    ConfigAnswer,
    ConfigEntry,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from kraftlog import Registrations
from kraftlog.image import ZkMigrationState
from tests.kafkafeatures.kafka.scripted import BROKER_APIS, HANG, Cluster, Node, at
from tests.kafkafeatures.kafka.test_directory import settings
from tests.kafkafeatures.worlds import NEW, NOW, SILENT, answer, image, probe

NAMES = frozenset({SNAPSHOT_INTERVAL})
UNREAD = Failure(FailureKind.NOT_ASKED, "metadata log", "not read")
APIS = {**BROKER_APIS, 32: BROKER_APIS[18]}


def node(id_: int, code: int = 0) -> Node:
    """A process that accepts requests for this node id only. `code`: the error of all its answers."""

    def configs(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        refused = 0 if request.names == (str(id_),) else ErrorCode.INVALID_REQUEST
        return DescribeConfigsResponse({request.names[0]: ConfigAnswer(code or refused, None, {})})

    return Node(APIS, {DescribeConfigsRequest: configs})


def node_with_interval(text: str | None) -> Node:
    """A node whose file sets the interval of snapshots to this text (ms)."""

    def configs(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        entries = {
            key: ConfigEntry(text, SettingSource.FILE, {}, is_read_only=True) for key in request.keys if key in NAMES
        }
        return DescribeConfigsResponse({request.names[0]: ConfigAnswer(0, None, entries)})

    return Node(APIS, {DescribeConfigsRequest: configs})


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("3600000", timedelta(hours=1)),
        ("0", timedelta()),
        ("often", None),
        (None, None),
        ("9" * 30, None),
    ],
    ids=["an hour", "never", "not a number", "not told", "beyond any time"],
)
async def test_the_snapshot_interval_is_read_from_an_identified_node(
    text: str | None, interval: timedelta | None
) -> None:
    cluster = Cluster({at(1): node_with_interval(text)})
    async with cluster.pool(settings(servers=(1,))) as pool:
        found = await Identities(pool).prove(probed(1), UNREAD, NAMES)
    observed = next(node for node in observe(found, UNREAD).nodes if node.id == 1)
    assert (observed.proved_at, interval_of(observed)) == ("10.0.0.1", interval)


def probed(*ports: int, keys: tuple[int, ...] = (18, 32)) -> ClusterProbe:
    """Brokers that have answered; the id of each is its port. `keys`: the APIs that they know (32: DescribeConfigs)."""
    return probe(*(ProbedNode(port, Role.BROKER, "node", port, answer(keys=keys), NOW) for port in ports))


async def proved(cluster: Cluster, found: ClusterProbe) -> list[str]:
    """Where each node of the probe confirmed its id: all scripted nodes are at 10.0.0.1. Empty: it did not."""
    async with cluster.pool(settings(servers=(1,))) as pool:
        return [node.proved_at for node in (await Identities(pool).prove(found, UNREAD, NAMES)).nodes]


async def test_a_node_is_identified_by_the_node_id_in_its_own_config() -> None:
    cluster = Cluster({at(1): node(1), at(2): node(7)})
    assert await proved(cluster, probed(1, 2)) == ["10.0.0.1", ""]


async def test_a_node_that_refuses_or_does_not_answer_is_not_identified() -> None:
    """Nodes that do not know DescribeConfigs, were silent, or told no id are not asked at all."""
    denied, gone = node(1, ErrorCode.CLUSTER_AUTHORIZATION_FAILED), Node(APIS, {DescribeConfigsRequest: HANG})
    assert await proved(Cluster({at(1): denied}), probed(1)) == [""]
    assert await proved(Cluster({at(1): gone}), probed(1)) == [""]
    assert await proved(Cluster({}), probed(1)) == [""]
    cluster = Cluster({at(1): node(1)})
    assert await proved(cluster, probed(1, keys=(18,))) == [""]
    silent = probe(ProbedNode(1, Role.BROKER, "node", 1, SILENT, NOW))
    unnamed = probe(ProbedNode(None, Role.CONTROLLER, "node", 1, answer(keys=(32,)), NOW))
    assert await proved(cluster, silent) == [""]
    assert await proved(cluster, unnamed) == [""]
    assert cluster.connects == []


async def test_the_reason_why_a_node_that_answers_is_not_identified_is_kept() -> None:
    denied = Cluster({at(1): node(1, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)})
    for asked, kind in ((probed(1), FailureKind.AUTHORIZATION), (probed(1, keys=(18,)), FailureKind.UNSUPPORTED)):
        async with denied.pool(settings(servers=(1,))) as pool:
            (broker,) = (await Identities(pool).prove(asked, UNREAD, NAMES)).nodes
        assert (broker.proved_at, broker.unproved is not None and broker.unproved.kind) == ("", kind)


async def test_an_identification_is_kept_for_one_process_of_a_node() -> None:
    """The log shows a new process by its incarnation id. Without the log, each reading asks again."""
    cluster = Cluster({at(1): node(1)})
    first = LogReading(image(brokers={1: (NEW, False)}), 100, 3001, 4, NOW)
    again = replace(first.image.brokers[1], incarnation=UUID(int=99))
    second = replace(first, image=replace(first.image, registrations=Registrations({1: again}, {})))
    async with cluster.pool(settings(servers=(1,))) as pool:
        identities = Identities(pool)
        for log, expected in ((first, 1), (first, 1), (second, 2), (UNREAD, 3), (UNREAD, 4)):
            assert [node.proved_at for node in (await identities.prove(probed(1), log, NAMES)).nodes] == ["10.0.0.1"]
            assert len(cluster.nodes[at(1)].asked) == expected


@pytest.mark.parametrize(
    "state",
    [ZkMigrationState.PRE_MIGRATION, ZkMigrationState.MIGRATION, 9],
    ids=["before the copy", "in dual write", "an unknown state"],
)
async def test_every_broker_is_identified_again_in_each_reading_during_a_migration(state: int) -> None:
    cluster = Cluster({at(1): node(1)})
    log = LogReading(image(brokers={1: (NEW, True)}, zk_migration_state=state), 100, 3001, 4, NOW)
    async with cluster.pool(settings(servers=(1,))) as pool:
        identities = Identities(pool)
        for expected in (1, 2):
            await identities.prove(probed(1), log, NAMES)
            assert len(cluster.nodes[at(1)].asked) == expected


async def test_dynamic_settings_are_read_each_time_and_static_ones_once() -> None:
    entries = {MIN_INSYNC_REPLICAS: ConfigEntry("2", SettingSource.ALL_BROKERS, {SettingSource.ALL_BROKERS: "2"})}
    entries[SNAPSHOT_INTERVAL] = ConfigEntry("0", SettingSource.FILE, {SettingSource.FILE: "0"}, is_read_only=True)

    def configs(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        return DescribeConfigsResponse({"1": ConfigAnswer(0, None, {key: entries[key] for key in request.keys})})

    cluster = Cluster({at(1): Node(APIS, {DescribeConfigsRequest: configs})})
    log = LogReading(image(brokers={1: (NEW, False)}), 100, 3001, 4, NOW)
    async with cluster.pool(settings(servers=(1,))) as pool:
        identities = Identities(pool)
        for names, expected in ((NAMES | {MIN_INSYNC_REPLICAS}, 1), (NAMES, 1), (NAMES | {MIN_INSYNC_REPLICAS}, 2)):
            (found,) = (await identities.prove(probed(1), log, names)).nodes
            assert names <= found.settings.keys()
            assert len(cluster.nodes[at(1)].asked) == expected


async def test_only_the_source_of_a_secret_setting_is_kept() -> None:
    entry = ConfigEntry(
        "hunter2", SettingSource.FILE, {SettingSource.FILE: "hunter2"}, is_sensitive=True, is_read_only=True
    )

    def configs(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        return DescribeConfigsResponse({"1": ConfigAnswer(0, None, dict.fromkeys(request.keys, entry))})

    cluster = Cluster({at(1): Node(APIS, {DescribeConfigsRequest: configs})})
    async with cluster.pool(settings(servers=(1,))) as pool:
        found = await Identities(pool).prove(probed(1), UNREAD, frozenset({"ssl.key.password"}))
    (broker,) = found.nodes
    assert broker.settings == {"ssl.key.password": Setting(SettingSource.FILE, None, is_secret=True, is_read_only=True)}
    assert "hunter2" not in repr(found)
