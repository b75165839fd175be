"""A raise of kraft.version: the voter addresses that it writes, its refusal with Strimzi, and voters that are left in
configuration files.
"""

from __future__ import annotations

import pytest

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.status import EMPTY, PlannedStage
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import lacks_access
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState
from kafkafeatures.core.engine.kind import ReadContext
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.facts.observation import Node, Observation, Unknown
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind, LogReading
from kafkafeatures.core.facts.settings import QUORUM_SERVERS, QUORUM_VOTERS, Setting, SettingSource
from kafkafeatures.core.levels.dynamic_quorum import left_in_files, voters_to_freeze
from kafkafeatures.core.levels.proposal import levels_to_move
from kafkafeatures.core.levels.read_back import read_back
from kafkafeatures.core.levels.stage import Levels
from kafkafeatures.core.levels.update_feature import UpdateFeature
from tests.kafkafeatures.deciding import decide, propose
from tests.kafkafeatures.worlds import NEW, NOW, answer, asked, image, node, observation, probe, quorum

WANTED = DesiredState({"kraft.version": 1}, consents=frozenset({"dynamic-quorum"}))
DYNAMIC, STATIC = {"metadata.version": 27, "kraft.version": 1}, {"metadata.version": 27}


def controller_at(id_: int, *addresses: tuple[str, int], names: tuple[str, ...] = ("CONTROLLER",)) -> Node:
    return replace(node(id_), controller_listeners=addresses, listener_names=frozenset(names))


def cluster(*hosts: str, levels: dict[str, int] = STATIC) -> Observation:
    voters = (controller_at(3001 + number, (host, 9093)) for number, host in enumerate(hosts))
    return observation(*voters, node(1), levels=levels)


def lines_of(observation: Observation) -> list[str]:
    plan = propose(WANTED, observation, Memory()).plan
    return [line for work in plan.work for step in work.steps for line in step.effects]


def test_the_step_shows_the_voter_addresses_that_the_metadata_log_will_hold() -> None:
    observation = cluster("controller-1.a", "controller-2.a")
    shown = [line for line in lines_of(observation) if line.startswith("the metadata log will hold voter ")]
    assert [line.rpartition(" ")[2] for line in shown] == ["3001@controller-1.a:9093", "3002@controller-2.a:9093"]
    assert not [line for line in lines_of(observation) if line.startswith("warning")]


def test_the_voter_addresses_are_those_of_the_controller_registrations() -> None:
    observation = observe(
        probe(asked(3001, answer(NEW, STATIC)), asked(1, answer(NEW, STATIC)), quorum=quorum(voters=(3001, 3002))),
        LogReading(image({1: (NEW, False)}, {3001: NEW, 3002: NEW}, STATIC), 100, 3001, 4, NOW),
    )
    registered = image({1: (NEW, False)}, {3001: NEW, 3002: NEW}, STATIC).controllers
    assert voters_to_freeze(observation) == tuple(
        f"{id_}@{node.endpoints[0].host}:{node.endpoints[0].port}" for id_, node in registered.items()
    )


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("127.0.0.1", "leads each node to itself"),
        ("LOCALHOST", "leads each node to itself"),
        ("localhost.localdomain", "leads each node to itself"),
        ("controller-2", "a name without a domain"),
        ("[::1]", "leads each node to itself"),
        ("localhost", "leads each node to itself"),
        ("10.4.0.7", "is lost with its pod or machine"),
        ("kafka-0.kafka.prod.svc.cluster.local", "does not resolve with another namespace"),
        ("kafka-0.kafka.prod.svc", "does not resolve with another namespace"),
        ("kafka-0.kafka.prod.svc.example.org", "does not resolve with another namespace"),
    ],
)
def test_a_voter_address_that_is_known_to_break_has_a_warning(host: str, words: str) -> None:
    (warning,) = [line for line in lines_of(cluster("controller-1.a", host)) if line.startswith("warning")]
    assert warning.startswith("warning: voters 3002: ")
    assert words in warning


def test_other_voter_addresses_make_another_plan_hash() -> None:
    first = propose(WANTED, cluster("a", "b"), Memory()).plan
    assert propose(WANTED, cluster("a", "b"), Memory()).plan.hash == first.hash
    assert propose(WANTED, cluster("a", "c"), Memory()).plan.hash != first.hash


def test_steps_of_other_features_show_no_voter_addresses() -> None:
    plan = propose(
        DesiredState({"metadata.version": 27}), cluster("a", "b", levels={"metadata.version": 25}), Memory()
    ).plan
    assert [stage.voters for stage in plan.stages] == [()]


@pytest.mark.parametrize("name", ["CONTROLPLANE-9090", "REPLICATION-9091"])
def test_a_raise_of_kraft_version_is_refused_where_strimzi_writes_the_files(name: str) -> None:
    observed = observation(
        controller_at(3001, ("a", 9090), names=(name,)), controller_at(3002, ("b", 9090)), node(1), levels=STATIC
    )
    decision = decide(WANTED, observed)
    (blocker,) = decision.blockers
    assert (blocker.kind, blocker.feature) == (BlockerKind.SETTING, "kraft.version")
    assert "Strimzi" in blocker.message
    assert "remove kraft.version" in blocker.remedy
    assert not decide(DesiredState({"metadata.version": 27}), observed).blockers


def with_files(levels: dict[str, int] = DYNAMIC, **settings: str) -> Observation:
    """Build controller 3001 with the right files; controller 3002 and broker 1 have these settings in their files."""
    right = {QUORUM_VOTERS: file(""), QUORUM_SERVERS: file("a:9093")}
    own = {QUORUM_VOTERS: file(settings.get("voters", "")), QUORUM_SERVERS: file(settings.get("servers", ""))}
    nodes = ((3001, right), (3002, own), (1, own))
    node_answer = answer(NEW, levels)
    return observation(
        *(
            replace(node(id_, said=node_answer), proved_at="198.18.0.1", settings=node_settings)
            for id_, node_settings in nodes
        ),
        levels=levels,
    )


def file(value: str) -> Setting:
    """Build a setting that only a file sets; Kafka's default is none."""
    if not value:
        return Setting(SettingSource.DEFAULT, "", layers={SettingSource.DEFAULT: ""})
    return Setting(SettingSource.FILE, value, layers={SettingSource.FILE: value, SettingSource.DEFAULT: ""})


def test_after_the_raise_the_message_names_nodes_whose_files_still_list_voters() -> None:
    done = read_back(DYNAMIC, with_files(voters="3001@a:9093"))
    assert done.message.endswith(
        "the quorum is dynamic: remove controller.quorum.voters from the files of nodes 1, 3002 and set "
        "controller.quorum.bootstrap.servers in the files of nodes 1, 3002"
    )


def test_no_node_is_named_if_its_files_are_right_or_unread_or_the_quorum_is_static() -> None:
    assert not left_in_files(with_files(servers="a:9093"))
    assert not left_in_files(cluster("a", levels=DYNAMIC))
    assert not left_in_files(with_files(STATIC, voters="3001@a:9093"))


def test_configuration_files_are_read_only_if_the_document_wants_a_dynamic_quorum() -> None:
    def demanded(wanted: DesiredState, levels: dict[str, int]) -> frozenset[str]:
        return Levels().demands(ReadContext(wanted, EMPTY, NOT_ASKED, NOW, cluster("a", levels=levels))).settings

    assert demanded(WANTED, DYNAMIC) == demanded(WANTED, STATIC) == {QUORUM_VOTERS, QUORUM_SERVERS}
    assert not demanded(DesiredState({"metadata.version": 27}), DYNAMIC)


@pytest.mark.parametrize(
    ("observation", "remedy"),
    [
        (
            observation(controller_at(3001, ("a.b", 9093)), controller_at(3002), node(1), levels=STATIC),
            "add bootstrapControllers",
        ),
        (
            observation(controller_at(3001), node(1), levels={"metadata.version": 14}),
            "raise metadata.version to 15 (3.7-IV0)",
        ),
        (
            observation(replace(controller_at(3001, ("a.b", 9093)), is_voter=False), node(1), levels=STATIC),
            "CLUSTER_ACTION",
        ),
    ],
    ids=["one voter did not register", "controllers do not register yet", "the voters could not be read"],
)
def test_a_voter_address_that_could_not_be_shown_blocks_the_raise(observation: Observation, remedy: str) -> None:
    """Seen on Kafka 4.4.0 at metadata.version 14: the raise wrote another address than the one that
    we were connected to.
    """
    (remaining,) = [
        blocker for blocker in decide(WANTED, observation).blockers if "the addresses of" in blocker.message
    ]
    assert remaining.kind is BlockerKind.NODE_UNKNOWN
    assert remedy in remaining.remedy
    assert "the addresses of the voters that the metadata log will hold are not known" in lines_of(observation)


def test_without_the_right_to_read_the_log_it_is_unknown_whether_the_quorum_can_be_made_dynamic() -> None:
    denied = Unknown(Failure(FailureKind.AUTHORIZATION, "metadata log", "needs CLUSTER_ACTION", "grant it"))
    of_voters = controller_at(3001, ("a.b", 9093)), controller_at(3002), node(1)
    unread = replace(observation(*of_voters, levels=STATIC), registered_controllers=denied)
    assert lacks_access(decide(WANTED, unread))


def test_an_observation_without_the_voter_addresses_does_not_void_the_plan() -> None:
    part = levels_to_move(WANTED, cluster("a.b", "c.d"), Memory())
    hidden = observation(controller_at(3001, ("a.b", 9093)), controller_at(3002), node(1), levels=STATIC)
    assert levels_to_move(WANTED, hidden, Memory()).work_of(part.stages) is not None
    assert levels_to_move(WANTED, cluster("a.b", "e.f"), Memory()).work_of(part.stages) is None


def test_a_stage_of_other_levels_covers_no_voter_addresses() -> None:
    part = levels_to_move(WANTED, cluster("a.b"), Memory())
    (dynamic,) = part.stages
    other = PlannedStage(kind="Roll", start={}, target={"brokers": "2"})
    assert part.work_of((other, dynamic)) is not None
    assert replace(part, voters=()).work_of((other, dynamic)) is None


@pytest.mark.parametrize(("policy", "waits"), [("IrreversibleOnly", True), ("Always", True), ("Never", False)])
def test_voter_addresses_need_an_approval_of_the_plan_even_if_the_level_is_named(policy: str, waits: bool) -> None:
    decision = decide(replace(WANTED, policy=ApprovalPolicy(policy)), cluster("a.b", "c.d"))
    assert (decision.reason is Reason.APPROVAL_REQUIRED) is waits


@pytest.mark.parametrize("count", [1, 5, 64])
def test_the_lines_of_many_voters_with_long_host_names_fit_into_a_status(count: int) -> None:
    host = ".".join(["kafka-controller-headless"] * 9)
    listeners = ((f"{host}.svc", 9093), ("10.0.0.1", 9093), ("localhost", 9093))
    voters = (controller_at(3001 + number, *listeners) for number in range(count))
    lines = lines_of(observation(*voters, node(1), levels=STATIC))
    assert len(lines) <= 16
    assert all(len(line.encode()) <= 512 for line in lines)


def test_a_new_leader_that_has_not_heard_from_all_voters_is_waited_for() -> None:
    """Kafka 4.4.0 refuses the raise with this text in the first seconds after an election, so it is only repeated."""
    words = "Invalid upgrade of kraft.version to KRAFT_VERSION_1 because not all of the voters support it"
    early = UpdateFeature("kraft.version", 0, 1).rejection(95, words)
    assert not early.needs_action
    assert not early.recorded
    assert UpdateFeature("kraft.version", 0, 1).rejection(95, "another reason").needs_action
