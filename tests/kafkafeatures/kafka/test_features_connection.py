"""The connection over which a change is sent: its node is asked for the level first, and some changes are not sent."""

from typing import Any

import pytest

from kafkafeatures.api.status import Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.steps import (
    Applied,
    NotSent,
)
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.kafka.base.errors import Disconnected, ErrorCode
from kafkafeatures.kafka.probe.prober import probe_cluster
from kafkafeatures.kafka.requests.features import AddressRoute, prepared, route, validate
from kafkafeatures.kafka.wire.messages import (
    UPGRADE,
    ApiVersionsRequest,
    ApiVersionsResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.kafkafeatures.kafka.scripted import HANG, Cluster, at
from tests.kafkafeatures.kafka.test_directory import settings
from tests.kafkafeatures.kafka.test_features import DIRECT, OK, RAISE, REFUSED, answering, send, update_feature, updates

# --- the connection comes first ---


def set_level(cluster: Cluster, level: int | None, *, epoch: int = 5, feature: str = "metadata.version") -> None:
    """Make all nodes report this level from now on. `level`: None where they report no level of any feature; `epoch`:
    -1 if they do not know the levels.
    """
    for node in cluster.nodes.values():
        node.finalized, node.epoch = {} if level is None else {feature: level}, epoch


async def test_connecting_and_authentication_are_done_before_a_change_is_sent() -> None:
    cluster = answering(OK)
    async with cluster.pool(settings()) as pool, prepared(pool, DIRECT, RAISE) as request:
        assert cluster.connects == [at(3002)]
        assert updates(cluster) == {}
        assert not isinstance(request, NotSent)
        assert request.via is Via.CONTROLLER
        assert await request.send(lambda: None) == Applied()
        assert cluster.connects == [at(3002)]
    assert updates(cluster).keys() == {3002}


async def test_a_prepared_change_says_whether_it_goes_through_a_broker() -> None:
    cluster = answering(OK)
    async with cluster.pool(settings()) as pool, prepared(pool, AddressRoute(None, (at(1),)), RAISE) as request:
        assert not isinstance(request, NotSent)
        assert request.via is Via.BROKER


async def test_a_connection_that_carries_a_change_ends_by_a_reset() -> None:
    cluster = answering(OK)
    async with cluster.pool(settings()) as pool:
        async with prepared(pool, DIRECT, RAISE):
            assert [link.ends_by_reset for link in cluster.links] == [True]
        await validate(pool, AddressRoute(at(3001)), (RAISE,))
    assert [link.ends_by_reset for link in cluster.links] == [True, False]


async def test_a_change_withheld_at_the_last_moment_is_not_sent() -> None:
    cluster = answering(OK)
    async with cluster.pool(settings()) as pool, prepared(pool, DIRECT, RAISE) as request:
        assert not isinstance(request, NotSent)
        outcome = await request.send(lambda: "the window has closed")
    assert isinstance(outcome, NotSent)
    assert "the window has closed" in outcome.reason
    assert updates(cluster) == {}


LOWER = UpdateFeature("share.version", 1, 0)


@pytest.mark.parametrize("way", [DIRECT, AddressRoute(None, (at(1),))], ids=["controller", "broker"])
async def test_a_change_that_starts_from_another_level_than_its_connection_says_is_not_sent(way: AddressRoute) -> None:
    """Otherwise a downgrade 2 -> 0 would be sent with the consent to 1 -> 0."""
    cluster = answering(OK)
    set_level(cluster, 2, feature="share.version")
    outcome = await send(cluster, way, LOWER)
    assert isinstance(outcome, NotSent)
    assert "share.version is at 2 by now, not at 1" in outcome.reason
    assert updates(cluster) == {}


async def test_a_change_is_not_sent_if_the_level_moved_while_the_intent_was_written() -> None:
    cluster = answering(OK)
    set_level(cluster, 1, feature="share.version")
    async with cluster.pool(settings()) as pool, prepared(pool, DIRECT, LOWER) as request:
        assert not isinstance(request, NotSent)
        set_level(cluster, 2, feature="share.version")
        assert isinstance(await request.send(lambda: None), NotSent)
    assert updates(cluster) == {}


async def test_a_downgrade_is_not_sent_if_the_level_was_raised_but_its_node_does_not_report_it_yet() -> None:
    """The controller reports a new level a moment after it has written it. A dry run that raises the feature to the
    former level shows it: the controller refuses this at once.
    """
    cluster = answering(lambda request: REFUSED if request.validate_only else OK)
    set_level(cluster, 1, feature="share.version")
    outcome = await send(cluster, change=LOWER)
    assert isinstance(outcome, NotSent)
    assert "share.version may not be at 1 any more" in outcome.reason
    (request,) = updates(cluster)[3002]
    assert request == UpdateFeaturesRequest((("share.version", 1, UPGRADE),), validate_only=True)


@pytest.mark.parametrize(
    "reply",
    [HANG, Disconnected, UpdateFeaturesResponse(41, "moved", {})],
    ids=["no reply", "disconnected", "NOT_CONTROLLER"],
)
async def test_a_downgrade_is_not_sent_if_the_current_level_is_unknown(reply: Any) -> None:
    cluster = answering(lambda request: reply)
    set_level(cluster, 1, feature="share.version")
    async with cluster.pool(settings(request_timeout=0.1)) as pool:
        assert isinstance(await update_feature(pool, DIRECT, LOWER), NotSent)
    assert all(request.validate_only for request in updates(cluster)[3002])


async def test_a_feature_that_the_node_does_not_list_is_at_level_0() -> None:
    cluster = answering(OK)
    set_level(cluster, None)
    assert isinstance(await send(cluster, change=LOWER), NotSent)
    assert await send(cluster, change=UpdateFeature("share.version", 0, 1)) == Applied()


@pytest.mark.parametrize(
    ("way", "change", "epoch"),
    [
        (DIRECT, LOWER, -1),
        (AddressRoute(None, (at(1),)), UpdateFeature("kraft.version", 0, 1), 5),
    ],
    ids=["a node that knows no levels yet", "kraft.version, of which brokers may report another level"],
)
async def test_a_change_is_sent_if_the_node_of_its_connection_cannot_tell_the_level(
    way: AddressRoute, change: UpdateFeature, epoch: int
) -> None:
    """The level 3 that the node reports does not count: the change starts from the level of the last reading."""
    cluster = answering(OK)
    set_level(cluster, 3, epoch=epoch, feature=change.feature)
    assert await send(cluster, way, change) == Applied()


@pytest.mark.parametrize("role", Role)
async def test_no_change_is_sent_to_an_address_that_now_belongs_to_another_node(role: Role) -> None:
    """The request for the level names the expected node, so this check needs no request of its own."""
    cluster = answering(OK)
    async with cluster.pool(settings(servers=(1,), controllers=(3002,))) as pool:
        way = route(await probe_cluster(pool))
        port = 3002 if role is Role.CONTROLLER else way.brokers[0].port
        way = way if role is Role.CONTROLLER else replace(way, controller=None)
        node = cluster.nodes[at(port)]
        node.apis = {**node.apis, 18: VersionRange(0, 5)}
        async with prepared(pool, way, RAISE) as request:
            assert not isinstance(request, NotSent)
            refusal = ApiVersionsResponse(ErrorCode.REBOOTSTRAP_REQUIRED, {})
            node.answers[ApiVersionsRequest] = lambda asked: (
                refusal if (asked.cluster_id, asked.node_id) == ("C1", port) else node.api_versions
            )
            outcome = await request.send(lambda: None)
    assert isinstance(outcome, NotSent)
    assert (
        outcome.reason == f"node:{port}: another node answers there by now: it refuses to be node {port} of cluster C1"
    )
    assert updates(cluster) == {}


async def test_a_connection_that_ended_before_the_request_has_sent_nothing() -> None:
    cluster = answering(OK)
    async with cluster.pool(settings()) as pool, prepared(pool, DIRECT, RAISE) as request:
        assert not isinstance(request, NotSent)
        cluster.nodes[at(3002)].answers[ApiVersionsRequest] = Disconnected
        assert isinstance(await request.send(lambda: None), NotSent)
    assert updates(cluster) == {}
