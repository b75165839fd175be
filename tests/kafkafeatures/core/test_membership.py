"""Live brokers, their states and the metadata mode of a cluster during a migration from ZooKeeper.

The metadata log is that of a real migration with Kafka 3.9.1, cut where it was at some moment of it.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import Known, MetadataMode, Node, NodeState, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import (
    NOT_ASKED,
    BrokerList,
    ControllerList,
    Failure,
    FailureKind,
    Host,
    LogReading,
    NodeAnswer,
    ProbedNode,
)
from kafkafeatures.core.facts.znodes import RegisteredBroker, ZooKeeperReading
from kraftlog import Image, Replay
from tests.kafkafeatures.ensembles import CLUSTER, ENSEMBLE, claimed, elected, reading
from tests.kafkafeatures.worlds import NEW, NOW, SILENT, answer, asked, image, probe, quorum
from tests.kraftlog.golden import MIGRATION

PLAIN = answer({}, {}, keys=(18,), epoch=-1)
FLAGGED = replace(PLAIN, zk_migration_ready=True)
IN_KRAFT = answer()
CONTROLLERS = tuple(
    replace(asked(id_), answer=replace(answer(), zk_migration_ready=True)) for id_ in (3001, 3002, 3003)
)
BEFORE_ANY_BROKER, ONE_FLAGGED, ALL_FLAGGED, DUAL_WRITE, FINALIZED = 6, 300, 400, 700, 840
"""Offsets at which the log is cut: in state 2 (PRE_MIGRATION) before any broker has registered, with broker 1, and with
all brokers; in state 1 (MIGRATION); in state 3 (POST_MIGRATION).
"""


def cut_at(offset: int) -> Image:
    replay = Replay()
    replay.append(MIGRATION.read_bytes(), below=offset)
    return replay.image()


def registered(*ids: int, first: int = 5000) -> dict[int, RegisteredBroker]:
    """Build registrations of brokers in ZooKeeper mode; that of broker 1 has czxid 5001."""
    return {id_: RegisteredBroker(id_, first + id_, (f"PLAINTEXT://b{id_}:9092",), {}) for id_ in ids}


def observe_at(
    *brokers: ProbedNode, at: int | Image | None, znodes: ZooKeeperReading | Failure = NOT_ASKED, **parts: Any
) -> Observation:
    """Observe a cluster with the log up to offset `at`, or without any controller if `at` is None."""
    parts = {"cluster_id": CLUSTER, **parts}
    if at is None:
        quorumless = {"quorum": SILENT, "controllers": SILENT, "brokers": listed(*brokers), **parts}
        return observe(probe(*brokers, **quorumless), SILENT, zookeeper=znodes)
    log_at = cut_at(at) if isinstance(at, int) else at
    log = LogReading(log_at, log_at.offset, 3001, log_at.epoch, NOW)
    return observe(probe(*CONTROLLERS, *brokers, **parts), log, zookeeper=znodes)


def listed(*brokers: ProbedNode) -> BrokerList:
    """Build the list of brokers that Kafka 3.9 answers with."""
    return BrokerList(
        tuple(Host(broker.id, broker.host, broker.port) for broker in brokers if broker.id is not None), False
    )


def brokers_of(node_answer: NodeAnswer | Failure, *ids: int) -> tuple[ProbedNode, ...]:
    return tuple(asked(id_, node_answer) for id_ in ids)


def node(observation: Observation, id_: int) -> Node:
    node_of_id = observation.node(id_)
    assert node_of_id is not None
    return node_of_id


def states(observation: Observation) -> dict[int, NodeState]:
    return {node.id: node.state for node in observation.nodes if node.id < 3000}


def mode(observation: Observation) -> MetadataMode | None:
    return observation.mode.value if isinstance(observation.mode, Known) else None


# --- while a broker in ZooKeeper mode is the controller ---


def test_plain_brokers_are_live_while_a_quorum_waits_for_the_migration() -> None:
    observation = observe_at(*brokers_of(PLAIN, 1, 2, 3), at=BEFORE_ANY_BROKER, znodes=in_zookeeper(1, 2, 3))
    assert states(observation) == dict.fromkeys((1, 2, 3), NodeState.LIVE)
    assert mode(observation) is MetadataMode.MIGRATING
    assert isinstance(observation.registered_brokers, Known)
    assert not observation.registered_brokers.value  # with the quorum


def in_zookeeper(*ids: int, **parts: Any) -> ZooKeeperReading:
    """Build znodes in which a broker is the controller and these brokers are registered."""
    return reading(controller=elected(1), brokers=registered(*ids), **parts)


NOT_READ = (
    NOT_ASKED,
    reading(controller=elected(1), brokers=Failure(FailureKind.AUTHORIZATION, "", "no")),
    reading(controller=Failure(FailureKind.AUTHORIZATION, "", "no"), brokers=registered(1)),
)


@pytest.mark.parametrize("znodes", NOT_READ, ids=["no ensemble", "brokers not readable", "controller not readable"])
@pytest.mark.parametrize("offset", [BEFORE_ANY_BROKER, ONE_FLAGGED, ALL_FLAGGED])
def test_a_broker_in_zookeeper_mode_that_answers_is_live_while_the_quorum_waits_also_without_znodes(
    offset: int, znodes: ZooKeeperReading | Failure
) -> None:
    observation = observe_at(*brokers_of(PLAIN, 1, 2), *brokers_of(FLAGGED, 3), at=offset, znodes=znodes)
    assert states(observation) == dict.fromkeys((1, 2, 3), NodeState.LIVE)
    fenced = replace_brokers(cut_at(offset), fenced=True)  # by the quorum, which no broker follows yet
    assert states(observe_at(*brokers_of(FLAGGED, 1, 2, 3), at=fenced, znodes=znodes)) == states(observation)


def test_a_zookeeper_broker_that_answers_is_live_beside_controllers_started_without_the_migration_flag() -> None:
    assert states(observe_at(*brokers_of(PLAIN, 1, 2), at=image({}, {3001: NEW}))) == dict.fromkeys(
        (1, 2), NodeState.LIVE
    )


def test_a_silent_zookeeper_broker_has_the_state_that_other_brokers_report_while_the_quorum_waits() -> None:
    brokers = (*brokers_of(PLAIN, 1), *brokers_of(SILENT, 2))
    assert states(observe_at(*brokers, at=BEFORE_ANY_BROKER, brokers=listed(*brokers)))[2] is NodeState.UNREACHABLE
    fenced = image({2: (NEW, True)}, {3001: NEW}, zk_migration_state=2)
    assert states(observe_at(*brokers, at=fenced, brokers=listed(*brokers)))[2] is NodeState.GHOST


def test_a_waiting_quorum_refuses_brokers_in_kraft_mode_and_after_the_copy_brokers_in_zookeeper_mode() -> None:
    assert states(observe_at(*brokers_of(IN_KRAFT, 4), at=BEFORE_ANY_BROKER))[4] is NodeState.REFUSED
    assert states(observe_at(*brokers_of(PLAIN, 4), at=DUAL_WRITE))[4] is NodeState.REFUSED
    claims = reading(controller=claimed(3001, epoch=3), brokers=registered(4))
    assert states(observe_at(*brokers_of(PLAIN, 4), at=ONE_FLAGGED, znodes=claims))[4] is NodeState.REFUSED


def test_the_epoch_of_a_broker_in_zookeeper_mode_is_the_czxid_of_its_znode() -> None:
    observation = observe_at(*brokers_of(PLAIN, 2), at=BEFORE_ANY_BROKER, znodes=in_zookeeper(2))
    assert (node(observation, 2).broker_epoch, node(observation, 2).czxid, node(observation, 2).incarnation) == (
        5002,
        5002,
        "",
    )
    assert node(observation, 2).listeners == (("b2", 9092),)
    assert node(observation, 3001).czxid == -1


def test_a_flagged_broker_has_the_epoch_of_the_log_and_the_czxid_of_its_znode() -> None:
    znodes = in_zookeeper(1, 2, 3)
    observation = observe_at(*brokers_of(FLAGGED, 1), *brokers_of(PLAIN, 2, 3), at=ONE_FLAGGED, znodes=znodes)
    assert states(observation) == dict.fromkeys((1, 2, 3), NodeState.LIVE)
    assert [(node(observation, id_).broker_epoch, node(observation, id_).czxid) for id_ in (1, 2)] == [
        (240, 5001),
        (5002, 5002),
    ]
    assert node(observation, 1).incarnation
    assert node(observation, 1).migrating_from_zookeeper


def test_a_broker_without_a_znode_is_fenced_if_it_answers_and_unreachable_if_it_is_silent() -> None:
    """The session of broker 2 has expired, or it has registered since the znodes were read. No
    controller refuses it.
    """
    observation = observe_at(
        *brokers_of(PLAIN, 1, 2), *brokers_of(SILENT, 3), at=BEFORE_ANY_BROKER, znodes=in_zookeeper(1, 3)
    )
    assert states(observation) == {1: NodeState.LIVE, 2: NodeState.FENCED, 3: NodeState.UNREACHABLE}
    gone = observe_at(*brokers_of(PLAIN, 1), *brokers_of(SILENT, 2), at=BEFORE_ANY_BROKER, znodes=in_zookeeper(1))
    assert states(gone)[2] is NodeState.UNREACHABLE


def test_a_broker_registered_only_in_znodes_is_observed_with_its_address() -> None:
    observation = observe_at(*brokers_of(PLAIN, 1), at=BEFORE_ANY_BROKER, znodes=in_zookeeper(1, 2))
    assert node(observation, 2).state is NodeState.UNREACHABLE
    assert (node(observation, 2).host, node(observation, 2).port) == ("b2", 9092)


def test_a_broker_whose_znode_cannot_be_read_counts_as_registered() -> None:
    damaged = Failure(FailureKind.REJECTED, "znode /brokers/ids/2", "cannot be read")
    znodes = reading(controller=elected(1), brokers={**registered(1), 2: damaged})
    observation = observe_at(*brokers_of(PLAIN, 1, 2), at=BEFORE_ANY_BROKER, znodes=znodes)
    assert states(observation) == dict.fromkeys((1, 2), NodeState.LIVE)
    assert (node(observation, 2).broker_epoch, node(observation, 2).czxid, node(observation, 2).listeners) == (
        -1,
        -1,
        (),
    )


def test_a_silent_broker_without_a_znode_has_the_state_of_its_registration_in_the_log() -> None:
    evidence: dict[str, Any] = {"quorum": quorum(voters=(3001, 3002, 3003)), "znodes": in_zookeeper(2, 3)}
    assert node(observe_at(*brokers_of(SILENT, 1), at=ONE_FLAGGED, **evidence), 1).state is NodeState.UNREACHABLE
    fenced = image({1: (NEW, True)}, {3001: NEW}, zk_migration_state=2)
    assert node(observe_at(*brokers_of(SILENT, 1), at=fenced, **evidence), 1).state is NodeState.GHOST


def test_while_there_is_no_controller_znodes_list_the_brokers_until_zookeeper_was_copied() -> None:
    nobody = reading(controller=None, brokers=registered(1))
    assert states(observe_at(*brokers_of(PLAIN, 1), at=BEFORE_ANY_BROKER, znodes=nobody)) == {1: NodeState.LIVE}
    written = image({1: (NEW, True)}, {3001: NEW}, zk_migration_state=1)
    assert states(observe_at(*brokers_of(FLAGGED, 1), at=written, znodes=nobody)) == {1: NodeState.FENCED}


def test_without_any_controller_of_a_quorum_znodes_list_the_registered_brokers() -> None:
    observation = observe_at(*brokers_of(PLAIN, 1, 2), at=None, znodes=in_zookeeper(1))
    assert states(observation) == {1: NodeState.LIVE, 2: NodeState.FENCED}
    assert mode(observation) is MetadataMode.ZOOKEEPER
    assert observation.registered_brokers == Known(frozenset({1}), SourceKind.ZOOKEEPER, ENSEMBLE, NOW)


def test_without_any_controller_of_a_quorum_and_without_znodes_the_registered_brokers_are_unknown() -> None:
    observation = observe_at(*brokers_of(PLAIN, 1, 2), at=None)
    assert states(observation) == dict.fromkeys((1, 2), NodeState.LIVE)
    assert isinstance(observation.registered_brokers, Unknown)


# --- while a controller of the quorum is the controller ---


def test_once_the_quorum_has_claimed_controller_the_metadata_log_lists_the_registered_brokers() -> None:
    znodes = reading(controller=claimed(3001, epoch=3), brokers=registered(1, 2, 3))
    observation = observe_at(*brokers_of(FLAGGED, 1), *brokers_of(PLAIN, 2), at=ONE_FLAGGED, znodes=znodes)
    assert states(observation) == {1: NodeState.LIVE, 2: NodeState.REFUSED}
    assert (node(observation, 1).broker_epoch, node(observation, 1).czxid) == (240, 5001)
    assert observation.registered_brokers == Known(
        frozenset({1}), SourceKind.METADATA_LOG, "metadata log at offset 300", NOW
    )


# --- the mode ---


def test_the_mode_is_unknown_where_the_migration_was_finalized_while_brokers_were_in_zookeeper_mode() -> None:
    """Seen on real nodes: Kafka finalizes a migration although broker 3 is still in ZooKeeper mode."""
    observation = observe_at(*brokers_of(IN_KRAFT, 1, 2), *brokers_of(FLAGGED, 3), at=finalized_with(3))
    assert isinstance(observation.mode, Unknown)
    assert "finalized while brokers were in ZooKeeper mode: 3" in observation.mode.failure.message
    assert "restart each of them in KRaft mode" in observation.mode.failure.remedy
    assert not observation.mode.failure.kind.may_pass


def finalized_with(*left: int) -> Image:
    """Build a finalized log in which these brokers registered last in ZooKeeper mode."""
    cut = cut_at(FINALIZED)
    assert cut.zk_migration_state == 3
    assert cut.registrations is not None
    brokers = {
        id_: replace(broker, is_migrating_zk_broker=id_ in left) for id_, broker in cut.registrations.brokers.items()
    }
    return replace(cut, registrations=replace(cut.registrations, brokers=brokers))


def test_the_mode_is_unknown_also_where_a_broker_in_zookeeper_mode_is_silent_or_was_never_registered() -> None:
    silent = observe_at(*brokers_of(IN_KRAFT, 1, 2), *brokers_of(SILENT, 3), at=finalized_with(3))
    plain = observe_at(*brokers_of(IN_KRAFT, 1, 2, 3), *brokers_of(PLAIN, 4), at=FINALIZED)
    for observation, id_ in ((silent, 3), (plain, 4)):
        assert isinstance(observation.mode, Unknown)
        assert f"ZooKeeper mode: {id_}" in observation.mode.failure.message


def test_the_mode_is_kraft_once_the_migration_is_finalized_and_all_brokers_are_in_kraft_mode() -> None:
    assert mode(observe_at(*brokers_of(IN_KRAFT, 1, 2, 3), at=FINALIZED)) is MetadataMode.KRAFT


def test_the_mode_is_migrating_where_plain_brokers_run_beside_controllers_without_the_flag() -> None:
    """The controllers were once started without the flag, so the log has no migration state."""
    observation = observe_at(*brokers_of(PLAIN, 1, 2), at=image({}, {3001: NEW}), znodes=in_zookeeper(1, 2))
    assert mode(observation) is MetadataMode.MIGRATING
    assert states(observation) == dict.fromkeys((1, 2), NodeState.LIVE)


@pytest.mark.parametrize(
    ("node_answer", "znodes"),
    [(FLAGGED, NOT_ASKED), (PLAIN, reading(controller=claimed())), (FLAGGED, reading(controller=elected(1)))],
    ids=["flag, no znodes", "claim of a quorum", "flag, a broker is the controller"],
)
def test_the_mode_is_migrating_where_a_broker_has_the_flag_or_a_quorum_the_claim_and_no_controller_answers(
    node_answer: NodeAnswer, znodes: ZooKeeperReading | Failure
) -> None:
    assert mode(observe_at(*brokers_of(node_answer, 1, 2), at=None, znodes=znodes)) is MetadataMode.MIGRATING


def test_plain_brokers_without_any_known_controller_are_in_zookeeper_mode() -> None:
    nobody = {"controllers": ControllerList((), None)}
    observation = observe_at(*brokers_of(PLAIN, 1), at=None, znodes=in_zookeeper(1), **nobody)
    assert mode(observation) is MetadataMode.ZOOKEEPER


@pytest.mark.parametrize("offset", [BEFORE_ANY_BROKER, ONE_FLAGGED, DUAL_WRITE])
def test_while_a_migration_is_open_a_log_without_unfenced_brokers_does_not_prove_that_no_partition_is_led(
    offset: int,
) -> None:
    fenced = replace_brokers(cut_at(offset), fenced=True)
    assert not observe_at(*brokers_of(PLAIN, 1, 2, 3), at=fenced, znodes=in_zookeeper(1, 2, 3)).nothing_is_led
    assert not observe_at(at=fenced).nothing_is_led


def test_after_finalization_a_log_without_unfenced_brokers_proves_that_no_partition_has_a_leader() -> None:
    assert observe_at(at=replace_brokers(cut_at(FINALIZED), fenced=True)).nothing_is_led
    assert not observe_at(at=cut_at(FINALIZED)).nothing_is_led


def replace_brokers(of: Image, **changes: Any) -> Image:
    assert of.registrations is not None
    brokers = {id_: replace(broker, **changes) for id_, broker in of.brokers.items()}
    return replace(of, registrations=replace(of.registrations, brokers=brokers))
