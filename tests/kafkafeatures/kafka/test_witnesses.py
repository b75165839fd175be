"""Rights of a user by answers of nodes: each right is granted, missing, unknown or not needed, with its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.readings import Failure, FailureKind, ProbedNode, Role
from kafkafeatures.kafka.base.errors import Disconnected
from kafkafeatures.kafka.base.needs import KafkaResource, Purpose
from kafkafeatures.kafka.base.rights import ClusterRight
from kafkafeatures.kafka.base.settings import ClusterSettings, Sasl, Security
from kafkafeatures.kafka.probe.granted import RightsQuestion, RightsReading, RightState
from kafkafeatures.kafka.probe.prober import node_answer
from kafkafeatures.kafka.probe.witnesses import BITS, ask_for_rights
from kafkafeatures.kafka.wire.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeQuorumRequest,
    FetchRequest,
    FetchResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kafkafeatures.kafka.wire.topic_messages import (
    ConfigAnswer,
    ConfigEntry,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDir,
    MetadataRequest,
    MetadataResponse,
    TopicAnswer,
)
from tests.kafkafeatures.kafka.scripted import Cluster, Node, at, hosts, quorum
from tests.kafkafeatures.worlds import NOW

REFUSED, NOT_CONTROLLER, FENCED_EPOCH = 31, 41, 74
ALL = sum(BITS.values())
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
# Fetch, Metadata, ApiVersions, DescribeConfigs, DescribeLogDirs, DescribeQuorum, UpdateFeatures, DescribeCluster
APIS = {key: VersionRange(0, 20) for key in (1, 3, 18, 32, 35, 55, 57, 60)}
ALICE = Security(sasl=Sasl("SCRAM-SHA-512", "alice", "secret"))


def fetched(code: int) -> FetchResponse:
    return FetchResponse(code, code, -1, -1, None, None, None, b"")


def configs(id_: int, authorizer: str, code: int = 0) -> DescribeConfigsResponse:
    entries = {} if code else {"authorizer.class.name": ConfigEntry(authorizer, 4)}
    return DescribeConfigsResponse({str(id_): ConfigAnswer(code, None, entries)})


def node(
    id_: int, role: Role, bits: int | None = ALL, *, refuses: frozenset[type] = frozenset(), authorizer: str = STANDARD
) -> Node:
    """A node. `bits`: the authorized operations in its answer; None: a controller that needs ALTER to show them.
    `refuses`: requests whose right is missing.
    """
    code = REFUSED if bits is None else 0
    listed = DescribeClusterResponse(code, None, 1, "C1", 1, hosts(id_), 2, bits)
    standing = quorum(id_, hosts(id_))
    answers: dict[type, Any] = {
        DescribeClusterRequest: listed,
        DescribeQuorumRequest: standing,
        FetchRequest: fetched(FENCED_EPOCH),
        UpdateFeaturesRequest: UpdateFeaturesResponse(NOT_CONTROLLER, None, {}),
        DescribeConfigsRequest: configs(id_, authorizer),
    }
    if DescribeQuorumRequest in refuses:
        answers[DescribeQuorumRequest] = as_refused(standing)
    if FetchRequest in refuses:
        answers[FetchRequest] = fetched(REFUSED)
    if UpdateFeaturesRequest in refuses:
        answers[UpdateFeaturesRequest] = UpdateFeaturesResponse(REFUSED, None, {})
    if DescribeConfigsRequest in refuses:
        answers[DescribeConfigsRequest] = configs(id_, "", REFUSED)
    return Node({key: apis for key, apis in APIS.items() if role is Role.BROKER or key != 3}, answers)  # no Metadata


def as_refused(answer: Any) -> Any:
    return replace(answer, error_code=REFUSED)


def broker(id_: int = 1, bits: int | None = ALL, **more: Any) -> Node:
    return node(id_, Role.BROKER, bits, **more)


def controller(id_: int = 3001, bits: int | None = ALL, **more: Any) -> Node:
    return node(id_, Role.CONTROLLER, bits, **more)


async def rights(
    brokers: Mapping[int, Node | Failure],
    controllers: Mapping[int, Node | Failure],
    *purposes: Purpose,
    controllers_as: Security = ALICE,
    **question: Any,
) -> RightsReading:
    nodes = {(Role.BROKER, id_): each for id_, each in brokers.items()}
    nodes |= {(Role.CONTROLLER, id_): each for id_, each in controllers.items()}
    cluster = Cluster({at(id_): each for (_, id_), each in nodes.items() if isinstance(each, Node)})
    settings = ClusterSettings(bootstrap_servers=(at(1),), brokers=ALICE, controllers=controllers_as)
    probed = [
        ProbedNode(
            id_, role, "node", id_, each if isinstance(each, Failure) else node_answer(each.api_versions), NOW
        )
        for (role, id_), each in nodes.items()
    ]  # fmt: skip
    async with cluster.pool(settings) as pool:
        asked = RightsQuestion(frozenset(purposes or (Purpose.LEVELS,)), **{"reads_log": True, **question})
        return await ask_for_rights(pool, probed, asked)


def states(reading: RightsReading, resource: KafkaResource = KafkaResource.CLUSTER) -> dict[ClusterRight, RightState]:
    return {finding.right: finding.state for finding in reading.findings if finding.resource is resource}


def message(reading: RightsReading, right: ClusterRight, resource: KafkaResource = KafkaResource.CLUSTER) -> str:
    return next(it.message for it in reading.findings if (it.right, it.resource) == (right, resource))


async def test_two_requests_to_each_node_show_all_rights_on_the_cluster() -> None:
    """DescribeCluster lists all rights but DESCRIBE_CONFIGS, for which DescribeConfigs is tried."""
    nodes = {1: broker(), 3001: controller()}
    reading = await rights({1: nodes[1]}, {3001: nodes[3001]})
    assert set(states(reading).values()) == {RightState.GRANTED}
    assert reading.commands == ()
    assert reading.authorizer == STANDARD
    for each in nodes.values():
        assert [type(request) for request in each.asked] == [DescribeClusterRequest, DescribeConfigsRequest]


async def test_missing_rights_are_granted_by_one_command_that_names_the_user() -> None:
    left = ALL & ~BITS[ClusterRight.ALTER] & ~BITS[ClusterRight.DESCRIBE_CONFIGS]
    refuses = frozenset((UpdateFeaturesRequest,))
    reading = await rights({1: broker(1, left)}, {3001: controller(3001, None, refuses=refuses)})
    assert states(reading)[ClusterRight.ALTER] is RightState.MISSING
    assert states(reading)[ClusterRight.CLUSTER_ACTION] is RightState.GRANTED  # a Fetch of an old epoch shows it
    assert message(reading, ClusterRight.DESCRIBE_CONFIGS) == "missing on broker 1, granted on controller 3001"
    assert reading.commands == (
        "kafka-acls.sh --bootstrap-server node:1 --command-config admin.properties --add --allow-principal User:alice "
        "--operation Alter --operation DescribeConfigs --cluster",
    )


async def test_an_answer_without_authorized_operations_proves_only_that_describe_is_missing() -> None:
    reading = await rights({1: broker(1, 0)}, {3001: controller()})
    assert states(reading) == {
        ClusterRight.DESCRIBE: RightState.MISSING,
        ClusterRight.CLUSTER_ACTION: RightState.GRANTED,
        ClusterRight.ALTER: RightState.GRANTED,
        ClusterRight.DESCRIBE_CONFIGS: RightState.GRANTED,  # the broker answered a request that needs it
    }
    assert message(reading, ClusterRight.DESCRIBE) == "missing on broker 1, granted on controller 3001"


async def test_other_rights_of_a_controller_are_tried_if_describe_is_denied() -> None:
    """With DENY Describe and ALLOW Alter, a controller answers without authorized operations."""
    strange = controller(3001, 0, refuses=frozenset((FetchRequest,)))
    reading = await rights({1: broker()}, {3001: strange})
    assert states(reading)[ClusterRight.DESCRIBE] is RightState.MISSING
    assert states(reading)[ClusterRight.ALTER] is RightState.GRANTED
    assert states(reading)[ClusterRight.CLUSTER_ACTION] is RightState.MISSING
    assert not any(isinstance(request, UpdateFeaturesRequest) for request in strange.asked)


async def test_two_users_of_two_listeners_get_one_command_each() -> None:
    bob = Security(sasl=Sasl("PLAIN", "bob", "secret"))
    every = frozenset((DescribeQuorumRequest, FetchRequest, UpdateFeaturesRequest, DescribeConfigsRequest))
    left = ALL & ~BITS[ClusterRight.DESCRIBE_CONFIGS]
    nodes = {1: broker(1, left)}, {3001: controller(3001, None, refuses=every)}
    reading = await rights(*nodes, controllers_as=bob)
    alice, of_bob = sorted(reading.commands)
    assert alice.endswith("User:alice --operation DescribeConfigs --cluster")
    operations = " ".join(f"--operation {right}" for right in BITS)
    assert of_bob.endswith(f"User:bob {operations} --cluster")
    assert reading.users == ("User:alice", "User:bob")


async def test_a_right_that_no_broker_can_be_asked_about_is_unknown() -> None:
    reading = await rights({}, {3001: controller()})
    assert states(reading)[ClusterRight.DESCRIBE] is RightState.UNKNOWN
    assert message(reading, ClusterRight.DESCRIBE) == "no broker could be asked; granted on controller 3001"


async def test_a_right_that_one_of_two_controllers_refuses_is_missing() -> None:
    """Controllers can differ: super.users is in the file of each node."""
    every = frozenset((DescribeQuorumRequest, FetchRequest, UpdateFeaturesRequest, DescribeConfigsRequest))
    reading = await rights({1: broker()}, {3001: controller(), 3002: controller(3002, None, refuses=every)})
    assert set(states(reading).values()) == {RightState.MISSING}
    assert message(reading, ClusterRight.CLUSTER_ACTION) == "missing on controller 3002, granted on controller 3001"


async def test_a_silent_broker_makes_a_right_unknown_and_a_ghost_registration_does_not() -> None:
    away = Failure(FailureKind.NOT_LISTENING, "node:2", "connection refused")
    reading = await rights({1: broker(), 2: away}, {3001: controller()})
    assert states(reading)[ClusterRight.DESCRIBE] is RightState.UNKNOWN
    assert message(reading, ClusterRight.DESCRIBE) == "not known on broker 2: connection refused"
    assert states(reading)[ClusterRight.ALTER] is RightState.GRANTED  # which controllers judge
    assert reading.commands == ()
    ghosts = frozenset(((Role.BROKER, 2),))
    reading = await rights({1: broker(), 2: away}, {3001: controller()}, ghosts=ghosts)
    assert states(reading)[ClusterRight.DESCRIBE] is RightState.GRANTED


async def test_an_answer_that_is_neither_success_nor_refusal_proves_no_right() -> None:
    for answer in (fetched(-1), fetched(42), Disconnected):  # UNKNOWN_SERVER_ERROR, INVALID_REQUEST
        strange = controller(3001, None)
        strange.answers[FetchRequest] = answer
        reading = await rights({1: broker()}, {3001: strange})
        assert states(reading)[ClusterRight.CLUSTER_ACTION] is RightState.UNKNOWN


async def test_brokers_are_no_evidence_of_rights_that_controllers_authorize() -> None:
    """If no controller answers, a broker forwards UpdateFeatures to the active one. Rights for requests that brokers do
    not forward stay unknown, whatever operations the brokers show.
    """
    reading = await rights({1: broker()}, {})
    assert states(reading)[ClusterRight.ALTER] is RightState.GRANTED
    assert states(reading)[ClusterRight.DESCRIBE] is RightState.GRANTED
    assert states(reading)[ClusterRight.CLUSTER_ACTION] is RightState.UNKNOWN
    refused = broker()
    refused.answers[UpdateFeaturesRequest] = UpdateFeaturesResponse(REFUSED, None, {})
    reading = await rights({1: refused}, {})
    assert states(reading)[ClusterRight.ALTER] is RightState.MISSING
    assert message(reading, ClusterRight.ALTER) == "missing on the active controller (through broker 1)"


async def test_the_request_that_tries_the_right_to_alter_cannot_change_the_cluster() -> None:
    """If no controller answers, UpdateFeatures is sent to a broker."""
    forwarding = broker()
    await rights({1: forwarding}, {})
    updates = [request for request in forwarding.asked if isinstance(request, UpdateFeaturesRequest)]
    assert updates
    assert all(request.validate_only and not request.updates for request in updates)


async def test_a_user_without_describe_gets_one_command_for_all_unknown_rights() -> None:
    refuses = frozenset((DescribeConfigsRequest,))
    without = broker(1, 0, refuses=refuses)
    for request in (UpdateFeaturesRequest, DescribeQuorumRequest):
        without.answers[request] = (
            UpdateFeaturesResponse(REFUSED, None, {})
            if request is UpdateFeaturesRequest
            else as_refused(without.answers[request])
        )
    reading = await rights({1: without}, {})
    assert states(reading)[ClusterRight.CLUSTER_ACTION] is RightState.UNKNOWN
    assert len(reading.commands) == 1
    assert all(f"--operation {right}" in reading.commands[0] for right in BITS)


async def test_the_remedy_before_the_copy_of_a_migration_is_super_users_of_the_controllers() -> None:
    every = frozenset((DescribeQuorumRequest, FetchRequest, UpdateFeaturesRequest, DescribeConfigsRequest))
    refusing = controller(3001, None, refuses=every)
    reading = await rights({1: broker()}, {3001: refusing}, Purpose.MIGRATE, before_copy=True)
    assert len(reading.commands) == 1
    assert "add this user (User:alice) to super.users of each controller" in reading.commands[0]


async def test_nodes_without_an_authorizer_are_reported_as_allowing_everything() -> None:
    reading = await rights({1: broker(authorizer="")}, {3001: controller(authorizer="")})
    assert reading.authorizer == "none: every user may do everything"
    reading = await rights({1: broker(authorizer="")}, {3001: controller()})
    assert reading.authorizer == "none on broker 1, where every user may do everything"


# --- topics ---

SEES, DESCRIBES_CONFIGS = BITS[ClusterRight.DESCRIBE], BITS[ClusterRight.DESCRIBE_CONFIGS]


def with_topics(each: Node, shown: Mapping[str, int], *hosted: str, code: int = 0) -> Node:
    topics = tuple(TopicAnswer(0, name, None, (), bits) for name, bits in shown.items())
    each.answers[MetadataRequest] = MetadataResponse("C1", 1, hosts(1), topics)
    disk = LogDir(0, "/data", {name: frozenset((0,)) for name in hosted})
    each.answers[DescribeLogDirsRequest] = DescribeLogDirsResponse(code, () if code else (disk,))
    return each


async def of_topics(*brokers: Node) -> RightsReading:
    nodes = dict(enumerate(brokers, 1))
    return await rights(nodes, {3001: controller()}, Purpose.RESTARTS, reads_log=False)


async def test_topics_that_only_log_dirs_list_are_reported_as_hidden_from_the_user() -> None:
    both = SEES | DESCRIBES_CONFIGS
    second = with_topics(broker(2), {}, "orders", "secret")
    reading = await of_topics(with_topics(broker(), {"orders": both}, "orders"), second)
    assert states(reading, KafkaResource.TOPICS)[ClusterRight.DESCRIBE] is RightState.MISSING
    assert message(reading, ClusterRight.DESCRIBE, KafkaResource.TOPICS) == "missing on 1 topic: secret"
    assert reading.commands[0].endswith("--operation Describe --operation DescribeConfigs --topic '*'")


async def test_the_right_to_describe_configs_is_missing_if_a_topic_does_not_show_its_configs() -> None:
    reading = await of_topics(with_topics(broker(), {"orders": SEES}, "orders"))
    assert states(reading, KafkaResource.TOPICS) == {
        ClusterRight.DESCRIBE: RightState.GRANTED,
        ClusterRight.DESCRIBE_CONFIGS: RightState.MISSING,
    }
    assert reading.commands[0].endswith("User:alice --operation DescribeConfigs --topic '*'")


async def test_rights_on_topics_are_unknown_if_log_dirs_could_not_be_read() -> None:
    reading = await of_topics(with_topics(broker(), {"orders": SEES | DESCRIBES_CONFIGS}, code=REFUSED))
    assert set(states(reading, KafkaResource.TOPICS).values()) == {RightState.UNKNOWN}


async def test_a_topic_deleted_during_the_check_is_not_reported_as_hidden() -> None:
    first = with_topics(broker(), {"orders": SEES | DESCRIBES_CONFIGS}, "orders", "gone")
    there, left = first.answers[DescribeLogDirsRequest], DescribeLogDirsResponse(0, ())
    answers = iter((there, left))
    first.answers[DescribeLogDirsRequest] = lambda request: next(answers)
    reading = await of_topics(first)
    assert states(reading, KafkaResource.TOPICS)[ClusterRight.DESCRIBE] is RightState.GRANTED


async def test_rights_on_topics_are_unknown_without_any_topic_unless_there_is_no_authorizer() -> None:
    reading = await of_topics(with_topics(broker(), {}))
    assert set(states(reading, KafkaResource.TOPICS).values()) == {RightState.UNKNOWN}
    reading = await of_topics(with_topics(broker(authorizer=""), {}))
    assert set(states(reading, KafkaResource.TOPICS).values()) == {RightState.GRANTED}


async def test_no_right_on_topics_is_needed_with_the_metadata_log() -> None:
    reading = await rights({1: broker()}, {3001: controller()}, Purpose.RESTARTS)
    assert set(states(reading, KafkaResource.TOPICS).values()) == {RightState.NOT_NEEDED}


async def test_rights_on_controllers_are_not_needed_in_zookeeper_mode() -> None:
    both = with_topics(broker(), {"orders": SEES | DESCRIBES_CONFIGS}, "orders")
    roles = frozenset((Role.BROKER,))
    reading = await rights({1: both}, {}, Purpose.IBP, reads_log=False, roles=roles)
    assert set(states(reading).values()) == {RightState.GRANTED}
    reading = await rights({1: both}, {}, Purpose.LEVELS, reads_log=False, roles=roles)
    assert states(reading)[ClusterRight.ALTER] is RightState.NOT_NEEDED
    assert "ZooKeeper mode" in message(reading, ClusterRight.ALTER)


async def test_a_migration_needs_controllers_that_answer_before_a_right_is_known() -> None:
    in_zookeeper_mode = with_topics(broker(), {"orders": SEES | DESCRIBES_CONFIGS}, "orders")
    in_zookeeper_mode.apis = {
        key: apis for key, apis in in_zookeeper_mode.apis.items() if key != 55
    }  # no DescribeQuorum
    reading = await rights({1: in_zookeeper_mode}, {}, Purpose.MIGRATE, reads_log=False)
    assert set(states(reading).values()) == {RightState.UNKNOWN}
    assert message(reading, ClusterRight.DESCRIBE) == "no controller could be asked; granted on broker 1"
    assert reading.commands == ()
