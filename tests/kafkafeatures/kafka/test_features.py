"""UpdateFeatures: its route, its dry run, the request that changes a level, and what each reply to it means."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkafeatures.core.engine.steps import (
    Applied,
    DryRunAccepted,
    DryRunRejected,
    DryRunUnavailable,
    NotSent,
    Outcome,
    OutcomeUnknown,
    Rejected,
)
from kafkafeatures.core.facts.readings import Failure, FailureKind, NodeAnswer, Role
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.kafka.base.errors import AuthenticationFailed, Disconnected, ErrorCode, ServerError, to_failure
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.rights import ClusterRight, missing
from kafkafeatures.kafka.probe.prober import probe_cluster, probe_node
from kafkafeatures.kafka.probe.quorum import refused
from kafkafeatures.kafka.requests.features import AddressRoute, outcome, prepared, request_for, route, validate
from kafkafeatures.kafka.wire.messages import (
    SAFE_DOWNGRADE,
    UPGRADE,
    DescribeQuorumRequest,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.kafkafeatures.kafka.scripted import CONTROLLER_APIS, HANG, Cluster, Node, at, broker, quorum, standby
from tests.kafkafeatures.kafka.test_directory import BROKERS, CONTROLLERS, settings, whole

RAISE = UpdateFeature("metadata.version", 25, 27)
OK = UpdateFeaturesResponse(0, None, {})
REFUSED = UpdateFeaturesResponse(
    95,
    "The update failed for all features since the following feature had an error: "
    "Invalid update version 27 for feature metadata.version. Broker 4 only supports versions 7-25",
    {},
)
DIRECT = AddressRoute(at(3002), (at(1),))
"""The active controller, and a broker for dry runs that it does not answer."""


def answering(reply: Any, through_broker: Any = OK) -> Cluster:
    """A cluster whose controllers answer UpdateFeatures with `reply`, and its brokers with `through_broker`."""
    cluster = whole()
    for host in CONTROLLERS:
        cluster.nodes[at(host.id)].answers[UpdateFeaturesRequest] = reply
    for host in BROKERS:
        cluster.nodes[at(host.id)].answers[UpdateFeaturesRequest] = through_broker
    return cluster


def updates(cluster: Cluster) -> dict[int, list[UpdateFeaturesRequest]]:
    """The UpdateFeatures requests that were sent, dry runs too, by the port of the node."""
    sent = {a.port: [m for m in n.asked if isinstance(m, UpdateFeaturesRequest)] for a, n in cluster.nodes.items()}
    return {port: messages for port, messages in sent.items() if messages}


async def update_feature(pool: Pool, way: AddressRoute, change: UpdateFeature) -> Outcome:
    async with prepared(pool, way, change) as request:
        return request if isinstance(request, NotSent) else await request.send(lambda: None)


async def send(cluster: Cluster, way: AddressRoute = DIRECT, change: UpdateFeature = RAISE) -> Any:
    async with cluster.pool(settings()) as pool:
        return await update_feature(pool, way, change)


async def dry_run(cluster: Cluster, way: AddressRoute = DIRECT, changes: tuple[UpdateFeature, ...] = (RAISE,)) -> Any:
    async with cluster.pool(settings()) as pool:
        return await validate(pool, way, changes)


# --- what a reply means ---


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(OK, id="no text"),
        pytest.param(UpdateFeaturesResponse(0, "", {}), id="empty text, as of Kafka 3.9"),
        pytest.param(
            UpdateFeaturesResponse(0, None, {"metadata.version": (0, "NONE")}), id="response version 1 of Kafka 4"
        ),
        pytest.param(UpdateFeaturesResponse(0, "", {"metadata.version": (0, None)}), id="response version 1 of 3.9"),
    ],
)
def test_success_is_code_0_whatever_the_text_says(reply: UpdateFeaturesResponse) -> None:
    assert outcome(reply, RAISE, at(1)) == Applied()


def test_code_0_of_a_whole_response_of_kafka_3_9_does_not_hide_the_code_of_a_feature() -> None:
    text = "Invalid update version 27 for feature metadata.version. Local controller 1 only supports versions 1-21"
    reply = UpdateFeaturesResponse(0, "", {"metadata.version": (95, text)})
    assert outcome(reply, RAISE, at(1)) == Rejected(95, text)


def test_a_reply_about_other_features_leaves_the_outcome_unknown() -> None:
    reply = UpdateFeaturesResponse(0, None, {"group.version": (0, None)})
    assert isinstance(outcome(reply, RAISE, at(1)), OutcomeUnknown)


def test_a_missing_right_is_reported_without_the_controllers_request_object() -> None:
    message = "Request Request(processor=1, session=Session@32f440ed, envelope=None) needs ALTER permission."
    result = outcome(UpdateFeaturesResponse(31, message, {}), RAISE, at(1))
    assert isinstance(result, Rejected)
    assert result.message == (
        "UpdateFeatures needs ALTER on the cluster, which this user does not have; "
        "kafka-acls.sh --add --allow-principal User:NAME --operation Alter --cluster"
    )


@pytest.mark.parametrize("code", [35, 42, 95])
def test_a_change_that_the_controller_refused_is_rejected(code: int) -> None:
    assert outcome(UpdateFeaturesResponse(code, "no", {}), RAISE, at(1)) == Rejected(code, "no")


@pytest.mark.parametrize("code", [41, 7, -1, 96, 13, 999])
@pytest.mark.parametrize("code_of", ["response", "feature"])
def test_any_other_error_code_leaves_the_outcome_unknown(code: int, code_of: str) -> None:
    reply = (
        UpdateFeaturesResponse(code, "text", {})
        if code_of == "response"
        else UpdateFeaturesResponse(0, None, {"metadata.version": (code, "text")})
    )
    result = outcome(reply, RAISE, at(1))
    assert isinstance(result, OutcomeUnknown)
    assert "text" in result.reason
    assert str(code) in result.reason


def test_a_refusal_without_a_message_is_named_by_its_error_code() -> None:
    assert outcome(UpdateFeaturesResponse(95, None, {}), RAISE, at(1)) == Rejected(95, "INVALID_UPDATE_VERSION (95)")


@pytest.mark.parametrize("code", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.REQUEST_TIMED_OUT])
async def test_terminal_control_sequences_are_removed_from_messages_of_the_server(code: int) -> None:
    sent, shown = "no\x1b]52;c;cm0=\x07\x9b2J\u202e\nall is well", "no�]52;c;cm0=��2J� all is well"
    reply = UpdateFeaturesResponse(code, sent, {})
    ended = outcome(reply, RAISE, at(1))
    assert isinstance(ended, Rejected | OutcomeUnknown)
    assert (ended.message if isinstance(ended, Rejected) else ended.reason).endswith(shown)
    verdict = await dry_run(answering(reply, through_broker=reply))
    assert shown in (verdict.message if isinstance(verdict, DryRunRejected) else verdict.reason)
    for code_of_quorum in (code, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        assert shown in refused("DescribeQuorum", at(1), code_of_quorum, sent).message
    for error in (ServerError(code, sent), AuthenticationFailed(f"PLAIN: {sent}")):
        assert shown in to_failure(error, "h:1").message


# --- what is sent ---


@pytest.mark.parametrize(("after", "kind"), [(27, UPGRADE), (24, SAFE_DOWNGRADE), (0, SAFE_DOWNGRADE)])
def test_a_raise_is_sent_as_upgrade_and_a_lower_level_as_safe_downgrade(after: int, kind: int) -> None:
    request = request_for((UpdateFeature("f", 25, after),), validate_only=False)
    assert request.updates == (("f", after, kind),)


@pytest.mark.parametrize(
    ("changes", "validate_only"),
    [
        ((), True),
        ((UpdateFeature(" ", 0, 1),), True),
        ((UpdateFeature("f", 0, -1),), True),
        ((UpdateFeature("f", 0, 1), UpdateFeature("f", 0, 2)), True),
        ((UpdateFeature("kraft.version", 0, 1), RAISE), True),
        ((UpdateFeature("group.version", 0, 1), RAISE), False),
    ],
    ids=[
        "no change", "a feature without a name", "a negative level", "one feature twice",
        "kraft.version beside another feature, whose failure would not stop it", "two changes that are no dry run",
    ],
)  # fmt: skip
def test_a_request_that_must_not_be_sent_cannot_be_built(
    changes: tuple[UpdateFeature, ...], validate_only: bool
) -> None:
    with pytest.raises(ValueError, match=r"."):
        request_for(changes, validate_only=validate_only)


async def test_a_change_goes_to_the_active_controller() -> None:
    cluster = answering(OK)
    assert await send(cluster) == Applied()
    assert updates(cluster) == {
        3002: [UpdateFeaturesRequest((("metadata.version", 27, UPGRADE),), validate_only=False)]
    }


async def test_a_change_that_failed_at_the_active_controller_is_not_sent_through_a_broker() -> None:
    """The route is recorded before a change is sent, as an unknown outcome is settled in another way for each route."""
    cluster = answering(OK)
    cluster.nodes[at(3002)].refuses = Disconnected
    assert isinstance(await send(cluster), NotSent)
    assert list(updates(cluster)) == []


@pytest.mark.parametrize(
    "reply",
    [HANG, Disconnected, UpdateFeaturesResponse(41, "No controller appears to be active.", {})],
    ids=["no reply", "disconnected", "NOT_CONTROLLER"],
)
async def test_a_change_that_may_have_been_sent_is_never_sent_again(reply: Any) -> None:
    cluster = answering(reply)
    assert isinstance(await send(cluster), OutcomeUnknown)
    assert {port: len(messages) for port, messages in updates(cluster).items()} == {3002: 1}


async def test_no_change_is_sent_to_a_node_without_the_api_update_features() -> None:
    cluster = answering(OK)
    for node in cluster.nodes.values():
        node.apis = {key: versions for key, versions in CONTROLLER_APIS.items() if key != 57}
    result = await send(cluster)
    assert isinstance(result, NotSent)
    assert "node:3002" in result.reason


async def test_no_change_is_sent_if_no_node_can_be_reached_or_no_address_is_known() -> None:
    result = await send(Cluster({}))
    assert isinstance(result, NotSent)
    assert isinstance(await dry_run(Cluster({})), DryRunUnavailable)
    assert isinstance(await send(whole(), AddressRoute(None)), NotSent)


async def test_no_change_is_sent_through_a_broker_while_no_controller_is_active() -> None:
    cluster = whole(leader=-1)
    for host in BROKERS:
        cluster.nodes[at(host.id)].answers[UpdateFeaturesRequest] = OK
    async with cluster.pool(settings(servers=(1,), controllers=(3001,))) as pool:
        way = route(await probe_cluster(pool))
        result = await update_feature(pool, way, RAISE)
        assert isinstance(result, NotSent)
        assert "no controller is active" in result.reason
        assert isinstance(await validate(pool, way, (RAISE,)), DryRunUnavailable)
    assert updates(cluster) == {}


# --- the route ---


async def test_the_route_has_the_leader_and_the_brokers_that_answer() -> None:
    cluster = whole()
    del cluster.nodes[at(1)]
    async with cluster.pool(settings(servers=(2,))) as pool:
        way = route(await probe_cluster(pool))
    assert (way.controller, way.brokers, way.closed) == (at(3002), (at(2), at(3)), None)
    assert {address: (name.cluster_id, name.node_id) for address, name in way.names.items()} == {
        at(id_): ("C1", id_) for id_ in (3002, 2, 3)
    }
    assert way.stops() == ((at(3002), Role.CONTROLLER), (at(2), Role.BROKER), (at(3), Role.BROKER))


async def test_a_leader_that_does_not_answer_is_not_in_the_route() -> None:
    cluster = whole()
    cluster.nodes[at(3002)].refuses = HANG
    async with cluster.pool(settings(servers=(1,))) as pool:
        way = route(await probe_cluster(pool))
    assert way.controller is None
    assert way.brokers


async def test_there_is_no_route_while_a_dead_leader_is_still_named() -> None:
    cluster = whole()
    del cluster.nodes[at(3002)]
    for host in BROKERS:
        cluster.nodes[at(host.id)].answers[DescribeQuorumRequest] = HANG
    async with cluster.pool(settings(servers=(1,), controllers=(3001,))) as pool:
        way = route(await probe_cluster(pool))
        assert isinstance(await update_feature(pool, way, RAISE), NotSent)
    assert way.closed is not None
    assert way.stops() == ()


async def test_the_route_goes_through_brokers_if_controllers_cannot_be_reached() -> None:
    cluster = Cluster({at(h.id): broker(BROKERS, quorum(3002, CONTROLLERS, named=False)) for h in BROKERS})
    async with cluster.pool(settings(servers=(1,))) as pool:
        way = route(await probe_cluster(pool))
    assert (way.controller, way.brokers) == (None, tuple(at(h.id) for h in BROKERS))


# --- the verdict ---


async def test_a_dry_run_for_which_the_user_lacks_a_right_names_the_user_and_a_complete_command() -> None:
    lacks = Failure(FailureKind.AUTHORIZATION, "h1:1", *missing("DescribeQuorum", ClusterRight.DESCRIBE))
    async with whole().pool(settings(servers=(1,))) as pool:
        verdict = await validate(pool, AddressRoute(None, closed=lacks), [RAISE])
        change = await update_feature(pool, AddressRoute(None, closed=lacks), RAISE)
    assert isinstance(verdict, DryRunUnavailable)
    assert isinstance(change, NotSent)
    assert verdict.reason == change.reason
    assert "needs DESCRIBE on the cluster, which User:ANONYMOUS does not have" in verdict.reason
    assert " --add --allow-principal User:ANONYMOUS --operation Describe --cluster" in verdict.reason


async def test_one_dry_run_asks_about_all_changes_together() -> None:
    cluster = answering(OK)
    both = (RAISE, UpdateFeature("group.version", 0, 1))
    assert await dry_run(cluster, changes=both) == DryRunAccepted()
    (request,) = updates(cluster)[3002]
    assert request.validate_only
    assert len(request.updates) == 2


async def test_a_refusal_is_a_verdict_in_the_controllers_words() -> None:
    assert await dry_run(answering(REFUSED)) == DryRunRejected(95, str(REFUSED.error_message))


async def test_a_dry_run_on_3_9_reports_every_refused_feature() -> None:
    reply = UpdateFeaturesResponse(0, "", {"a": (95, "first"), "b": (0, None), "c": (95, "second")})
    assert await dry_run(answering(reply)) == DryRunRejected(95, "first; second")


async def test_a_missing_right_is_no_verdict() -> None:
    verdict = await dry_run(answering(UpdateFeaturesResponse(31, "Cluster authorization failed.", {})))
    assert isinstance(verdict, DryRunUnavailable)
    assert verdict.rights
    assert "ALTER" in verdict.reason


NO_VERDICTS = pytest.mark.parametrize(
    "reply",
    [UpdateFeaturesResponse(41, "moved", {}), HANG, Disconnected],
    ids=["NOT_CONTROLLER", "no reply", "disconnected"],
)


@NO_VERDICTS
async def test_a_dry_run_without_a_verdict_is_repeated_at_a_broker(reply: Any) -> None:
    cluster = answering(reply)
    assert await dry_run(cluster) == DryRunAccepted()
    assert set(updates(cluster)) == {3002, 1}


@NO_VERDICTS
async def test_a_direct_dry_run_without_a_verdict_is_not_repeated_at_a_broker(reply: Any) -> None:
    """A broker may forward to a former controller, which does not have the latest records."""
    cluster = answering(reply)
    async with cluster.pool(settings()) as pool:
        assert isinstance(await validate(pool, DIRECT, (RAISE,), directly=True), DryRunUnavailable)
    assert set(updates(cluster)) == {3002}


async def test_even_a_direct_dry_run_asks_a_broker_if_no_address_of_the_active_controller_is_known() -> None:
    cluster = answering(HANG)
    only_a_broker = AddressRoute(None, (at(1),))
    async with cluster.pool(settings()) as pool:
        assert await validate(pool, only_a_broker, (RAISE,), directly=True) == DryRunAccepted()


async def test_an_unavailable_dry_run_has_the_reason_of_each_node() -> None:
    verdict = await dry_run(answering(UpdateFeaturesResponse(41, "moved", {}), Disconnected))
    assert isinstance(verdict, DryRunUnavailable)
    assert not verdict.rights
    assert "NOT_CONTROLLER (41): moved" in verdict.reason
    assert "node:1" in verdict.reason


async def test_brokers_that_do_not_answer_a_dry_run_delay_no_reconciliation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a quorum each broker holds the request until its timeout, so all get `QUORUM_TIMEOUT` seconds only."""
    monkeypatch.setattr("kafkafeatures.kafka.probe.quorum.QUORUM_TIMEOUT", 0.02)
    cluster = answering(UpdateFeaturesResponse(41, "moved", {}), HANG)
    async with cluster.pool(settings(request_timeout=300)) as pool, asyncio.timeout(10):
        way = AddressRoute(at(3002), tuple(at(host.id) for host in BROKERS))
        assert isinstance(await validate(pool, way, (RAISE,)), DryRunUnavailable)


async def test_a_dry_run_uses_an_open_connection_and_a_change_a_new_one() -> None:
    cluster = answering(OK)
    async with cluster.pool(settings(servers=(1,), controllers=(3002,))) as pool:
        way = route(await probe_cluster(pool))
        before = len(cluster.connects)
        assert await validate(pool, way, (RAISE,)) == DryRunAccepted()
        assert len(cluster.connects) == before
        await update_feature(pool, way, RAISE)
        assert len(cluster.connects) == before + 1


# --- levels after a change ---


async def test_levels_are_read_again_also_on_a_connection_that_stayed_open() -> None:
    cluster = Cluster({at(1): Node(CONTROLLER_APIS, {DescribeQuorumRequest: standby()})})
    async with cluster.pool(settings()) as pool:
        for _ in range(3):
            answer = await probe_node(pool, at(1), Role.CONTROLLER)
            assert isinstance(answer, NodeAnswer)
            assert answer.finalized == {"metadata.version": 25}
        assert len(cluster.connects) == 1
        assert len(cluster.nodes[at(1)].asked) == 2  # ApiVersions is sent again in the second and third reading
        gone = await probe_node(pool, at(2), Role.CONTROLLER)
    assert isinstance(gone, Failure)
    assert gone.kind is FailureKind.UNREACHABLE
