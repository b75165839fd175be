"""The identity of a node: its role, its id and its process. Ghost registrations, reused addresses, combined nodes,
observers.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from kafkafeatures.api.values import replace
from kafkafeatures.cli.cluster.matrix import draw
from kafkafeatures.cli.cluster.page import cluster_page
from kafkafeatures.core.engine.blockers import grouped
from kafkafeatures.core.engine.decisions import Wait
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.remedies import observer_remedy
from kafkafeatures.core.facts.identity import in_doubt
from kafkafeatures.core.facts.observation import Known, Node, NodeState, Observation
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.quorum import observers, quorum_mode
from kafkafeatures.core.facts.readings import (
    BrokerList,
    Failure,
    FailureKind,
    Host,
    LogReading,
    ProbedNode,
    QuorumAnswer,
    ReplicaProgress,
    Role,
)
from kafkafeatures.core.facts.settings import PROCESS_ROLES, Setting, SettingSource
from kafkafeatures.core.levels.changes import changes_between
from kafkafeatures.core.levels.check_input import LevelCheckInput
from kafkafeatures.core.levels.checks import no_node_is_refused
from kafkafeatures.core.levels.unregistration import broker_objection, controller_objection
from kafkafeatures.core.report.check import check
from kafkafeatures.core.report.cluster_document import cluster_document
from kafkafeatures.core.report.reach import blockers_of
from kraftlog.image import BrokerRegistration, Endpoint, Image
from tests.kafkafeatures.core.test_waits import MINUTE, Process
from tests.kafkafeatures.deciding import decide
from tests.kafkafeatures.worlds import NEW, NOW, OLD, SILENT, answer, asked, image, probe, quorum

CONTROLLERS = (3001, 3002, 3003)
AS_BROKER, AS_CONTROLLER = answer(keys=(3, 18, 55)), answer(keys=(18, 55))
BOTH, ONLY_CONTROLLER, ONLY_BROKER = "broker,controller", "controller", "broker"


def proved_as(node: ProbedNode, roles: str) -> ProbedNode:
    """Build the node with its id confirmed and its roles known."""
    return replace(node, proved_at="10.0.0.1", settings={PROCESS_ROLES: Setting(SettingSource.FILE, roles)})


def log_reading(log: Image) -> LogReading:
    return LogReading(log, log.offset, 3001, log.epoch, NOW)


def observe_nodes(*nodes: ProbedNode, log: Image | None, **parts: Any) -> Observation:
    parts = {"quorum": quorum(voters=CONTROLLERS), **parts}
    return observe(probe(*nodes, **parts), SILENT if log is None else log_reading(log))


def registered(of: Image, addresses: Mapping[int, tuple[int, int]]) -> Image:
    """Set the epoch and the port of each broker registration."""
    brokers: dict[int, BrokerRegistration] = {}
    for id_, broker in of.brokers.items():
        epoch, port = addresses.get(id_, (1, id_))
        brokers[id_] = replace(broker, epoch=epoch, endpoints=(Endpoint("PLAINTEXT", "h", port, 0),))
    assert of.registrations is not None
    return replace(of, registrations=replace(of.registrations, brokers=brokers))


def node_in_role(observation: Observation, id_: int, role: Role) -> Node:
    (matching,) = [node for node in observation.nodes if node.id == id_ and role in node.roles]
    return matching


# --- one id, two registrations ---


# Broker 3001 is registered, fenced and of an old release; controller 3001 runs.
FORMER = image({1: (NEW, False), 3001: (OLD, True)}, dict.fromkeys(CONTROLLERS, NEW))
TWO_ROLES = (asked(1), asked(3001, SILENT, Role.BROKER), asked(3002), asked(3003))


def observe_two_roles(roles: str | None, log: Image = FORMER) -> Observation:
    controller = asked(3001, AS_CONTROLLER)
    return observe_nodes(*TWO_ROLES, controller if roles is None else proved_as(controller, roles), log=log)


@pytest.mark.parametrize("ranges", [OLD, NEW])
def test_a_node_that_is_no_longer_a_broker_is_a_controller_and_a_ghost_broker(ranges: Any) -> None:
    log = image({1: (NEW, False), 3001: (ranges, True)}, dict.fromkeys(CONTROLLERS, NEW))
    observation = observe_two_roles(ONLY_CONTROLLER, log)
    controller, ghost = node_in_role(observation, 3001, Role.CONTROLLER), node_in_role(observation, 3001, Role.BROKER)
    assert (controller.roles, controller.state, controller.is_voter) == ((Role.CONTROLLER,), NodeState.LIVE, True)
    assert isinstance(controller.range_of("metadata.version"), Known)
    assert (ghost.state, ghost.is_voter, broker_objection(ghost)) == (NodeState.GHOST, False, "")
    assert ghost.replaced_by is not None
    assert ghost.replaced_by.message == "the process with id 3001 is only a controller now"
    assert observation.node(3001) == controller
    assert not observation.gaps


def test_the_remedy_for_a_ghost_broker_with_the_id_of_a_voter_never_unregisters_the_voter() -> None:
    observation = observe_two_roles(ONLY_CONTROLLER)
    (blocker,) = grouped(blockers_of(observation, {"metadata.version": NEW["metadata.version"][1]}, "FLAGS"))
    assert blocker.remedy == "kafkafeatures unregister --broker 3001 FLAGS"
    assert "the process with id 3001 is only a controller now" in blocker.message
    assert controller_objection(observation, 3001) == "controller 3001 is the active controller"


def test_a_combined_process_is_one_node_while_its_broker_starts() -> None:
    observation = observe_two_roles(BOTH)
    node = node_in_role(observation, 3001, Role.BROKER)
    assert (node.roles, node.state) == ((Role.CONTROLLER, Role.BROKER), NodeState.FENCED)
    assert broker_objection(node)


def test_a_process_of_unknown_roles_stays_one_node_and_no_remedy_unregisters_the_voter() -> None:
    observation = observe_two_roles(None)
    node = node_in_role(observation, 3001, Role.BROKER)
    assert node.roles == (Role.CONTROLLER, Role.BROKER)
    reason = broker_objection(node)
    assert "process.roles" in reason
    assert "--controller" not in reason
    (gap,) = observation.gaps
    assert "for more than 2 minutes" in gap.remedy
    assert "unregister --broker 3001" in gap.remedy


def test_a_process_that_differs_from_its_registration_is_reported_with_start_and_remedy_after_two_minutes() -> None:
    process = Process()
    decided = decide(DesiredState({"metadata.version": NEW["metadata.version"][1]}), observe_two_roles(None))
    assert isinstance(decided, Wait)
    first = process.reconcile(decided, NOW)
    assert "node 3001 reports metadata.version" in first
    later = process.reconcile(decided, NOW + 3 * MINUTE, 3 * MINUTE)
    assert later.startswith(f"{first}; since 2026-01-02 03:04 UTC; ")
    assert later.endswith("kafkafeatures unregister --broker 3001 --bootstrap-server HOST:PORT")


def test_the_command_for_a_registration_that_differs_has_the_flags_of_the_connection() -> None:
    observation, levels = observe_two_roles(None), {"metadata.version": NEW["metadata.version"][1]}
    command = "kafkafeatures unregister --broker 3001 --bootstrap-server h:1"
    (blocker,) = blockers_of(observation, levels, "--bootstrap-server h:1")
    assert blocker.remedy.endswith(command)
    (gap,) = check(observation, levels, "--bootstrap-server h:1").unread
    assert gap.remedy.endswith(command)
    out = StringIO()
    draw(Console(width=300, file=out), observation, flags="--bootstrap-server h:1")
    assert out.getvalue().count(command) == 2
    assert "HOST:PORT" not in out.getvalue() + cluster_page(observation, "--bootstrap-server h:1")


def test_an_unfenced_broker_is_no_ghost_whatever_roles_its_process_reports() -> None:
    log = image({1: (NEW, False), 3001: (OLD, False)}, dict.fromkeys(CONTROLLERS, NEW))
    assert node_in_role(observe_two_roles(ONLY_CONTROLLER, log), 3001, Role.BROKER).roles == (
        Role.CONTROLLER,
        Role.BROKER,
    )


def test_a_node_that_is_no_longer_a_controller_is_a_broker_and_a_ghost_controller() -> None:
    log = image({1: (NEW, False), 2: (NEW, False)}, dict.fromkeys((*CONTROLLERS, 2), NEW))
    broker, nodes = proved_as(asked(2, AS_BROKER), ONLY_BROKER), (asked(1), asked(2, SILENT, Role.CONTROLLER))
    fetches = QuorumAnswer(3001, 4, 100, quorum(voters=CONTROLLERS).voters, (ReplicaProgress(2, 100, 1000, 1000),))
    observation = observe_nodes(*nodes, *map(asked, CONTROLLERS), broker, log=log, quorum=fetches)
    assert (node_in_role(observation, 2, Role.BROKER).state, node_in_role(observation, 2, Role.CONTROLLER).state) == (
        NodeState.LIVE,
        NodeState.GHOST,
    )
    assert observation.node(2) == node_in_role(observation, 2, Role.BROKER)


def test_a_voter_is_no_ghost_whatever_roles_its_process_reports() -> None:
    assert node_in_role(observe_two_roles(ONLY_BROKER), 3001, Role.CONTROLLER).state is not NodeState.GHOST


def test_several_nodes_that_are_no_longer_brokers_are_reported_in_one_sentence() -> None:
    log = image({1: (NEW, False), 3001: (OLD, True), 3002: (OLD, True)}, dict.fromkeys(CONTROLLERS, NEW))
    brokers = tuple(asked(id_, SILENT, Role.BROKER) for id_ in (3001, 3002))
    controllers = (*(proved_as(asked(id_, AS_CONTROLLER), ONLY_CONTROLLER) for id_ in (3001, 3002)), asked(3003))
    observation = observe_nodes(asked(1), *brokers, *controllers, log=log)
    (blocker,) = check(observation, {}, "FLAGS").blockers
    assert "the processes with these ids are only controllers now" in blocker.message
    assert blocker.remedy == "for each of them: kafkafeatures unregister --broker 3001 FLAGS"
    out = StringIO()
    draw(Console(width=200, file=out), observation)
    assert "2 brokers (3001, 3002): the processes with these ids are only controllers now" in out.getvalue()


# --- one address, two registrations ---


def observe_renumbered(*, is_3_fenced: bool = True, is_13_fenced: bool = False) -> Observation:
    """Observe broker 13 at the address that broker 3 had: both registrations name it, and that of 13 is newer. Brokers
    3 and 13 are the last two nodes of the observation.
    """
    log = image({3: (OLD, is_3_fenced), 13: (NEW, is_13_fenced)}, dict.fromkeys(CONTROLLERS, NEW))
    log = registered(log, {3: (5, 99), 13: (50, 99)})
    brokers = [replace(asked(id_, AS_BROKER), port=99) for id_ in (3, 13)]
    return observe_nodes(*brokers, *map(asked, CONTROLLERS), log=log)


def test_an_address_belongs_to_the_newest_registration_that_names_it() -> None:
    observation = observe_renumbered()
    ghost, successor = node_in_role(observation, 3, Role.BROKER), node_in_role(observation, 13, Role.BROKER)
    assert (ghost.state, successor.state) == (NodeState.GHOST, NodeState.LIVE)
    assert ghost.replaced_by is not None
    assert ghost.replaced_by.message == "its address h:99 is that of broker 13 now"
    assert broker_objection(ghost) == ""
    assert "is live" in broker_objection(successor)
    assert not observation.gaps
    (blocker,) = grouped(blockers_of(observation, {"metadata.version": NEW["metadata.version"][1]}, "FLAGS"))
    assert blocker.remedy == (
        "if it is permanently gone: kafkafeatures unregister --broker 3 FLAGS; otherwise start it on the new Kafka, at "
        "another address"
    )


def test_an_unfenced_registration_has_its_address_before_a_newer_one_that_is_fenced() -> None:
    observation = observe_renumbered(is_3_fenced=False, is_13_fenced=True)
    assert (observation.nodes[-2].state, observation.nodes[-1].state) == (NodeState.LIVE, NodeState.GHOST)


def test_the_newest_of_two_fenced_registrations_has_the_address() -> None:
    observation = observe_renumbered(is_13_fenced=True)
    assert (observation.nodes[-2].state, observation.nodes[-1].state) == (NodeState.GHOST, NodeState.FENCED)


def test_the_older_of_two_unfenced_registrations_does_not_have_the_address() -> None:
    observation = observe_renumbered(is_3_fenced=False)
    assert (observation.nodes[-2].state, observation.nodes[-1].state) == (NodeState.UNREACHABLE, NodeState.LIVE)


def test_without_the_log_the_unfenced_broker_has_the_address() -> None:
    listed = BrokerList((Host(3, "h", 99, is_fenced=True), Host(13, "h", 99)), lists_fenced=True)
    brokers = [replace(asked(id_, AS_BROKER), port=99) for id_ in (3, 13)]
    observation = observe_nodes(*brokers, *map(asked, CONTROLLERS), log=None, brokers=listed)
    assert (observation.nodes[-2].state, observation.nodes[-1].state) == (NodeState.GHOST, NodeState.LIVE)


def test_neither_of_two_registrations_with_one_address_is_a_ghost_while_the_owner_is_unknown() -> None:
    listed = BrokerList(tuple(Host(id_, "h", 99, is_fenced=True) for id_ in (3, 13)), lists_fenced=True)
    brokers = [replace(asked(id_, AS_BROKER), port=99) for id_ in (3, 13)]
    observation = observe_nodes(*brokers, *map(asked, CONTROLLERS), log=None, brokers=listed)
    assert (observation.nodes[-2].state, observation.nodes[-1].state) == (NodeState.FENCED, NodeState.FENCED)
    assert "it is not known which answers" in str(observation.nodes[-1].answer)
    assert broker_objection(observation.nodes[-1])


def test_a_ghost_is_reported_with_the_role_of_the_node_that_owns_its_address_now() -> None:
    denied = Failure(FailureKind.ANOTHER_NODE, "h:3001", "its address h:3001 is that of node 3001 now")
    log = registered(image({3: (OLD, True)}, dict.fromkeys(CONTROLLERS, NEW)), {3: (5, 3001)})
    observation = observe_nodes(replace(asked(3, denied), port=3001), *map(asked, CONTROLLERS), log=log)
    assert "controller 3001 now" in str(node_in_role(observation, 3, Role.BROKER).answer)


def test_a_broker_whose_address_a_controller_answers_at_is_a_ghost() -> None:
    log = registered(image({3: (OLD, True)}, dict.fromkeys(CONTROLLERS, NEW)), {3: (5, 3001)})
    observation = observe_nodes(replace(asked(3, AS_CONTROLLER), port=3001), *map(asked, CONTROLLERS), log=log)
    ghost = node_in_role(observation, 3, Role.BROKER)
    assert ghost.state is NodeState.GHOST
    assert ghost.replaced_by is not None
    assert ghost.replaced_by.message == "its address h:3001 is that of controller 3001 now"


def test_an_observer_registered_at_the_address_of_a_voter_is_a_ghost() -> None:
    log = image({1: (NEW, False)}, dict.fromkeys((*CONTROLLERS, 3009), NEW))
    observation = observe_nodes(asked(1), *map(asked, CONTROLLERS), replace(asked(3009), port=3001), log=log)
    assert node_in_role(observation, 3009, Role.CONTROLLER).state is NodeState.GHOST
    assert node_in_role(observation, 3001, Role.CONTROLLER).state is NodeState.LIVE


def test_a_broker_whose_process_denies_its_id_is_a_ghost_under_any_host_name() -> None:
    denied = Failure(FailureKind.ANOTHER_NODE, "alias:99", "its address alias:99 is that of node 13 now")
    log = registered(image({3: (OLD, True), 13: (NEW, False)}, dict.fromkeys(CONTROLLERS, NEW)), {})
    observation = observe_nodes(replace(asked(3, denied), host="alias"), asked(13), *map(asked, CONTROLLERS), log=log)
    ghost = node_in_role(observation, 3, Role.BROKER)
    assert (ghost.state, ghost.replaced_by) == (NodeState.GHOST, denied)


def test_a_process_that_proves_its_id_has_the_address() -> None:
    log = registered(
        image({3: (NEW, True), 13: (NEW, False)}, dict.fromkeys(CONTROLLERS, NEW)), {3: (5, 99), 13: (50, 99)}
    )
    proved = proved_as(replace(asked(3, AS_BROKER), port=99), ONLY_BROKER)
    denied = Failure(FailureKind.ANOTHER_NODE, "h:99", "its address h:99 is that of node 3 now")
    observation = observe_nodes(proved, replace(asked(13, denied), port=99), *map(asked, CONTROLLERS), log=log)
    assert (observation.nodes[-2].state, observation.nodes[-1].state) == (NodeState.FENCED, NodeState.UNREACHABLE)
    assert "broker 3 now" in str(observation.nodes[-1].answer)


# --- nodes that have to confirm their id ---


def test_only_nodes_of_doubtful_identity_are_asked_for_their_id() -> None:
    log = image({1: (NEW, False), 2: (NEW, True), 3001: (OLD, True)}, dict.fromkeys((*CONTROLLERS, 3009), NEW))
    nodes = (asked(1), asked(2), *map(asked, (*CONTROLLERS, 3009)), asked(3001, SILENT, Role.BROKER))
    made = probe(*nodes, quorum=quorum(voters=CONTROLLERS))
    assert in_doubt(made, log_reading(log)) == {(Role.BROKER, 2), (Role.CONTROLLER, 3001), (Role.CONTROLLER, 3009)}
    healthy = image({1: (NEW, False)}, dict.fromkeys(CONTROLLERS, NEW))
    assert not in_doubt(probe(asked(1), *map(asked, CONTROLLERS)), log_reading(healthy))
    assert not in_doubt(made, log_reading(image({2: (NEW, True)}, zk_migration_state=1)))


# --- voters and observers ---


def observe_four_controllers(level: int = 1, **parts: Any) -> Observation:
    """Observe three voters and controller 3009, which only fetches."""
    log = image(
        {1: (NEW, False)}, dict.fromkeys((*CONTROLLERS, 3009), NEW), {"metadata.version": 21}, kraft_version=level
    )
    kraft = answer(levels={"metadata.version": 21, "kraft.version": level})
    return observe_nodes(asked(1), *(asked(id_, kraft) for id_ in (*CONTROLLERS, 3009)), log=log, **parts)


@pytest.mark.parametrize(("level", "mode"), [(0, "Static"), (1, "Dynamic")])
def test_a_controller_that_is_no_voter_is_an_observer(level: int, mode: str) -> None:
    observation = observe_four_controllers(level)
    assert [node.id for node in observers(observation)] == [3009]
    document = cluster_document(observation)
    assert document["quorumMode"] == mode
    assert {node["id"]: node.get("voter") for node in document["nodes"]} == {
        1: None, 3001: True, 3002: True, 3003: True, 3009: False
    }  # fmt: skip
    remedy = observer_remedy(observers(observation), quorum_mode(observation))
    assert ("add-controller" in remedy) is (level == 1)
    assert "or shut it down" in remedy
    assert ("may join again by itself" in remedy) is (level == 1)


def test_observers_are_counted_in_the_headline_and_have_a_line_with_their_remedy() -> None:
    out = StringIO()
    draw(Console(width=200, file=out), observe_four_controllers())
    assert "4 controllers, 1 broker; 3 voters, 1 observer (3009)" in out.getvalue()
    assert "Observer    controller 3009: is not a voter, and counts for no majority" in out.getvalue()
    assert "add-controller" in out.getvalue()


def test_no_controller_is_an_observer_while_the_voters_are_unknown() -> None:
    observation = observe_four_controllers(quorum=SILENT)
    assert not observers(observation)
    assert all("voter" not in node for node in cluster_document(observation)["nodes"])


def test_an_unregistered_node_that_fetches_the_metadata_log_has_no_role() -> None:
    log = image({1: (NEW, False)}, dict.fromkeys(CONTROLLERS, NEW))
    fetches = QuorumAnswer(3001, 4, 100, quorum(voters=CONTROLLERS).voters, (ReplicaProgress(3, 100, 1000, 1000),))
    observation = observe_nodes(asked(1), *map(asked, CONTROLLERS), log=log, quorum=fetches)
    node = observation.node(3)
    assert node is not None
    assert (node.roles, node.state, node.title) == ((), NodeState.REFUSED, "node 3")
    (blocker,) = no_node_is_refused(
        LevelCheckInput(observation, changes_between({"metadata.version": 22}, {"metadata.version": 21}))
    )
    assert "registered neither as a broker nor as a controller" in blocker.message
    assert "rejects" not in blocker.message
    assert "a process that has just started registers itself" in blocker.remedy
