"""No znode is deleted while a controller may run: silence does not prove that it has stopped.

`without_quorum`: connections to all controllers are refused, or fail as the given failure says. The stores were equal
when the controllers stopped. `released`: the deletion of znodes that was decided.
"""

from __future__ import annotations

import pytest

from kafkafeatures.api.names import ZK_CONTROLLERS_STOPPED, ZK_ROLLBACK_LOSSY
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import EMPTY, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Stalled, Wait
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.facts.observation import Known, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.migration.copied.survey import Survey
from kafkafeatures.core.migration.delete_znodes import DeleteZnodes
from kafkafeatures.core.migration.memory import LAST_WRITE_WITHIN
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import Shape
from kafkafeatures.core.migration.stopped import STILL_FOR, STILL_UNPROVEN
from tests.kafkafeatures.core.migrations import (
    Look,
    a_node,
    cluster,
    compared,
    looks,
    memory_from,
    message_of,
    released,
    status_after_decision,
    status_that_requests_consents,
    wanting,
    without_quorum,
)
from tests.kafkafeatures.core.test_migration_pods import THROUGH_PODS, without_controllers
from tests.kafkafeatures.ensembles import elected, progress, reading
from tests.kafkafeatures.worlds import SILENT, known

P, D, K = Position, Desired, FailureKind
FLAGGING = cluster(
    P.PRE_MIGRATION, a_node(1, Shape.FLAGGED_BROKER), *(a_node(id_, Shape.PLAIN_BROKER) for id_ in (2, 3))
)
BEGUN = {"PreMigration": cluster(P.PRE_MIGRATION), "Flagging": FLAGGING, "Copied": cluster(P.COPIED)}
"""Positions at which controllers may have written znodes, and no broker is in KRaft mode: a rollback deletes them."""
MINUTES = 600.0
"""Seconds of stillness, more than any wait."""
BACK, COMPARED = wanting(D.ROLLED_BACK), compared()
SURE = wanting(D.ROLLED_BACK, consents=frozenset({ZK_CONTROLLERS_STOPPED}))
LOSSY = wanting(D.ROLLED_BACK, consents=frozenset({ZK_ROLLBACK_LOSSY}))


def silent(kind: FailureKind) -> Failure:
    return Failure(kind, "c:9093", "no connection within 10 s", "check route and firewall")


def consenting(*consents: str) -> DesiredState:
    return wanting(D.ROLLED_BACK, consents=frozenset(consents))


def look_after_stillness(
    observation: Observation, seconds: float, wanted: DesiredState = BACK, *, status: Status = COMPARED
) -> Look:
    """Return a look this many seconds after `/migration` was last observed to change."""
    first = Look(wanted, observation, status=status)
    return Look(wanted, observation, before=first, seconds=seconds, status=status)


def without_voters(status: Status) -> Status:
    """Remove the voters from the status, as after its loss."""
    assert status.migration is not None
    return replace(status, migration=replace(status.migration, voters=()))


def voters_in_pods(status: Status) -> Status:
    """Record each voter with the pod in which it was last observed."""
    assert status.migration is not None
    voters = tuple(replace(voter, pod=f"controller-{voter.node_id}") for voter in status.migration.voters)
    return replace(status, migration=replace(status.migration, voters=voters))


@pytest.mark.parametrize("kind", [K.UNREACHABLE, K.TIMED_OUT, K.DISCONNECTED, K.TLS, K.AUTHENTICATION, K.FORBIDDEN])
@pytest.mark.parametrize("position", BEGUN)
def test_no_znode_is_deleted_while_controllers_are_only_silent(position: str, kind: FailureKind) -> None:
    look = look_after_stillness(without_quorum(BEGUN[position], silent(kind)), MINUTES)
    assert isinstance(look.decision, Wait)
    assert "controllers may still run: c:9093: no connection within 10 s" in message_of(look)
    assert "stop every controller" in message_of(look)
    assert "or, if every controller has certainly stopped, add zk-controllers-stopped to consents" in message_of(look)


@pytest.mark.parametrize("position", BEGUN)
def test_no_znode_is_deleted_where_the_document_names_no_controller_to_try(position: str) -> None:
    none_named = Failure(K.NOT_ASKED, "bootstrapControllers", "no address")
    observation = replace(without_quorum(BEGUN[position], none_named), former_controllers={})
    look = look_after_stillness(observation, MINUTES, status=without_voters(compared()))
    assert isinstance(look.decision, Wait)
    assert "name every controller in spec.cluster.bootstrapControllers" in message_of(look)


@pytest.mark.parametrize("position", BEGUN)
def test_a_consent_confirms_that_silent_controllers_have_stopped_and_is_spent(position: str) -> None:
    observation = without_quorum(BEGUN[position], silent(K.UNREACHABLE))
    assert isinstance(look_after_stillness(observation, MINUTES, LOSSY).decision, Wait)  # a consent to lose metadata
    status = status_that_requests_consents(SURE, observation, COMPARED)
    early = look_after_stillness(observation, STILL_UNPROVEN - 1, SURE, status=status)
    assert isinstance(early.decision, Wait)
    assert "/migration must stay unchanged for 60 s first" in message_of(early)
    look = look_after_stillness(observation, STILL_UNPROVEN, SURE, status=status)
    assert isinstance(look.decision, Act)
    assert isinstance(look.decision.step, DeleteZnodes)
    assert spent_by(look) == {ZK_CONTROLLERS_STOPPED}


def test_hosts_that_refuse_the_connection_prove_that_the_controllers_have_stopped() -> None:
    assert "/controller" in released(look_after_stillness(without_quorum(cluster(P.COPIED)), STILL_FOR)).deletes


def test_a_stateful_set_without_pods_proves_that_its_controllers_have_stopped_whatever_their_addresses_do() -> None:
    observation = without_quorum(without_controllers(), silent(K.UNREACHABLE))
    status = voters_in_pods(compared())
    assert (
        "/controller"
        in released(
            look_after_stillness(observation, STILL_FOR, wanting(D.ROLLED_BACK, rollout=THROUGH_PODS), status=status)
        ).deletes
    )


@pytest.mark.parametrize("failure", [silent(K.UNREACHABLE), silent(K.NOT_LISTENING)], ids=["silent", "refused"])
def test_a_missing_stateful_set_does_not_prove_that_its_controllers_have_stopped(failure: Failure) -> None:
    observation = without_quorum(without_controllers(), failure)
    assert isinstance(observation.workloads, Known)
    brokers, _ = observation.workloads.value.stateful_sets
    reading = replace(observation.workloads.value, stateful_sets=(brokers,), missing=("controller",))
    observation = replace(observation, workloads=replace(observation.workloads, value=reading))
    look = look_after_stillness(observation, MINUTES, wanting(D.ROLLED_BACK, rollout=THROUGH_PODS))
    assert isinstance(look.decision, Wait)
    assert "StatefulSet controller does not exist or is being deleted; its pods may still run" in message_of(look)


def test_pods_of_brokers_do_not_prove_that_controllers_have_stopped() -> None:
    observation = without_quorum(without_controllers(), silent(K.UNREACHABLE))
    assert isinstance(observation.workloads, Known)
    reading = replace(observation.workloads.value, stateful_sets=observation.workloads.value.stateful_sets[:1])
    look = look_after_stillness(replace(observation, workloads=replace(observation.workloads, value=reading)), MINUTES)
    assert "controllers may still run" in message_of(look)


def test_the_controller_znode_is_not_deleted_while_a_broker_may_run_in_kraft_mode() -> None:
    """Broker 2 does not answer. Only a znode of it below `/brokers/ids` shows that it runs in ZooKeeper mode."""
    observation = without_quorum(cluster(P.COPIED, replace(a_node(2, Shape.FLAGGED_BROKER), answer=Unknown(SILENT))))
    assert "/controller" in released(look_after_stillness(observation, STILL_FOR)).deletes
    assert isinstance(observation.zookeeper, Known)
    assert not isinstance(observation.zookeeper.value.brokers, Failure)
    other_brokers = {id_: broker for id_, broker in observation.zookeeper.value.brokers.items() if id_ != 2}
    observation = replace(
        observation,
        zookeeper=replace(observation.zookeeper, value=replace(observation.zookeeper.value, brokers=other_brokers)),
    )
    look = look_after_stillness(observation, MINUTES)
    assert isinstance(look.decision, Wait)
    assert "broker 2 is not known to run in ZooKeeper mode" in message_of(look)
    assert "start it in ZooKeeper mode" in message_of(look)
    assert "add zk-lose-broker:2 to consents, if what only this broker has may be lost" in message_of(look)
    status = status_that_requests_consents(BACK, observation, COMPARED)
    for consent in (ZK_ROLLBACK_LOSSY, "zk-lose-broker:3"):  # for metadata, and for another broker
        assert isinstance(look_after_stillness(observation, MINUTES, consenting(consent), status=status).decision, Wait)
    accepted = look_after_stillness(observation, STILL_FOR, consenting("zk-lose-broker:2"), status=status)
    assert "/controller" in released(accepted).deletes
    assert spent_by(accepted) == {"zk-lose-broker:2"}


def spent_by(look: Look) -> set[str]:
    return {consent for stage in look.stages for consent in stage.decided(look.decision, compared()).spent_consents}


def test_a_controller_that_still_writes_to_zookeeper_is_reported_although_none_answers() -> None:
    """The controller may be meant to run, so the remedy names the network as well."""
    look = look_after_writes(BACK, COMPARED)
    assert "a controller still writes to ZooKeeper, although none can be reached" in message_of(look)
    assert "spec.cluster.bootstrapControllers, the network and TLS" in message_of(look)


def test_a_migration_whose_controllers_write_to_zookeeper_and_do_not_answer_stalls_on_the_way_forward() -> None:
    look = look_after_writes(wanting(D.DUAL_WRITE), EMPTY)
    assert isinstance(look.decision, Stalled)
    assert "a controller writes to ZooKeeper, but none can be reached" in message_of(look)


UNREACHABLE = without_quorum(cluster(P.COPIED), silent(K.UNREACHABLE))
"""No controller can be reached."""


def look_after_writes(wanted: DesiredState, status: Status) -> Look:
    """Return the last of ten decisions, each 2 s after the one before; `/migration` has changed each time."""
    look: Look | None = None
    for offset in range(100, 140, 4):
        look = Look(wanted, moved(UNREACHABLE, offset), before=look, status=status)
    assert look is not None
    return look


def test_the_last_write_of_a_stopped_controller_and_an_unread_zookeeper_are_no_sign_of_a_running_one() -> None:
    """The write arrives within 10 s after the controllers fell silent."""
    look: Look | None = None
    unread = replace(UNREACHABLE, zookeeper=Unknown(silent(K.TIMED_OUT)))
    last_write = moved(UNREACHABLE, 101)
    for observation, seconds in ((moved(UNREACHABLE, 100), 0), (last_write, 5), (unread, 10), (last_write, 20)):
        look = Look(wanting(D.DUAL_WRITE), observation, before=look, seconds=seconds)
        assert "a controller writes" not in message_of(look)


def test_a_write_later_than_that_of_a_stopped_controller_is_a_sign_of_a_running_one_for_a_minute() -> None:
    silent_since = Look(wanting(D.DUAL_WRITE), moved(UNREACHABLE, 100))
    written = Look(wanting(D.DUAL_WRITE), moved(UNREACHABLE, 105), before=silent_since, seconds=LAST_WRITE_WITHIN + 1)
    assert "a controller writes" in message_of(written)
    unchanged = Look(wanting(D.DUAL_WRITE), moved(UNREACHABLE, 105), before=written, seconds=60)
    assert "a controller writes" not in message_of(unchanged)
    assert "start the controllers with their disks" in message_of(unchanged)


def test_the_rollback_has_to_be_completed_after_its_own_transaction_deleted_the_znodes() -> None:
    before = Look(wanting(D.ROLLED_BACK), moved(UNREACHABLE, 100), status=compared())
    deleted = known(reading(controller=elected(1), migration=None), SourceKind.ZOOKEEPER)
    look = Look(wanting(D.DUAL_WRITE), replace(UNREACHABLE, zookeeper=deleted), before=before, seconds=20)
    assert isinstance(look.decision, Stalled)
    assert "its rollback must be complete" in message_of(look)


def test_a_missing_stateful_set_of_brokers_does_not_hold_the_deletion_of_znodes() -> None:
    observation = without_quorum(without_controllers(), silent(K.UNREACHABLE))
    assert isinstance(observation.workloads, Known)
    workloads = replace(observation.workloads.value, missing=("broker",))
    observation = replace(observation, workloads=replace(observation.workloads, value=workloads))
    status = voters_in_pods(compared())
    assert (
        "/controller"
        in released(
            look_after_stillness(observation, STILL_FOR, wanting(D.ROLLED_BACK, rollout=THROUGH_PODS), status=status)
        ).deletes
    )


def moved(observation: Observation, offset: int) -> Observation:
    assert isinstance(observation.zookeeper, Known)
    return replace(
        observation,
        zookeeper=known(replace(observation.zookeeper.value, migration=progress(offset)), SourceKind.ZOOKEEPER),
    )


@pytest.mark.parametrize("position", ["Flagging", "Copied"])
def test_the_remedy_for_controllers_that_do_not_answer_is_first_to_start_them(position: str) -> None:
    """A rollback is named last: the quorum may only be restarting."""
    observation = without_quorum(BEGUN[position], silent(K.UNREACHABLE))
    first = Look(wanting(D.DUAL_WRITE), observation)
    assert isinstance(first.decision, Wait)
    assert "no controller answers; this may pass within a minute" in message_of(first)
    later = Look(wanting(D.DUAL_WRITE), observation, before=first, seconds=60)
    assert isinstance(later.decision, Stalled)
    assert "start the controllers with their disks, or make them reachable; or, to go back" in message_of(later)


def test_the_remedy_for_silent_controllers_is_to_check_bootstrap_controllers_if_they_run() -> None:
    look = looks(wanting(D.DUAL_WRITE), without_quorum(cluster(P.PRE_MIGRATION), silent(K.UNREACHABLE)))
    assert "there is a znode /migration: if they run already, check spec.cluster.bootstrapControllers" in message_of(
        look
    )


CONTRADICTIONS = {
    "a broker without the flag": (
        cluster(P.COPIED, a_node(2, Shape.PLAIN_BROKER)), "without zookeeper.metadata.migration.enable", "restart each",
    ),
    "no controller and a broker in KRaft mode": (
        without_quorum(cluster(P.COPIED, a_node(2, Shape.KRAFT_BROKER))), "in KRaft mode: 2", "start the controllers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_each_contradiction_that_concerns_a_node_names_the_node_and_a_remedy(name: str) -> None:
    observation, text, remedy = CONTRADICTIONS[name]
    first = Look(wanting(D.ROLLED_BACK), observation)
    look = Look(wanting(D.ROLLED_BACK), observation, before=first, seconds=61)
    assert isinstance(look.decision, Stalled)
    assert text in message_of(look)
    assert ": 2" in message_of(look)
    assert remedy in look.decision.blockers[0].remedy


# --- a consent instead of a proof ---


def next_look(status: Status, observation: Observation, *consents: str) -> tuple[Look, Status]:
    """Return the next decision of any process, ten minutes after `/migration` changed, and the status after it."""
    memory = memory_from(status)
    first = Look(consenting(*consents), observation, status=status, memory=memory)
    look = Look(consenting(*consents), observation, before=first, seconds=MINUTES, status=status, memory=memory)
    return look, status_after_decision(look, status)


def test_a_consent_that_stood_in_the_document_before_the_request_does_not_count() -> None:
    observation = without_quorum(cluster(P.PRE_MIGRATION), silent(K.UNREACHABLE))
    look, status = next_look(COMPARED, observation, ZK_CONTROLLERS_STOPPED)
    look, status = next_look(status, observation, ZK_CONTROLLERS_STOPPED)
    assert isinstance(look.decision, Wait)
    assert "the consent zk-controllers-stopped does not count, as it was given before this was shown" in message_of(
        look
    )
    look, status = next_look(status, observation)  # the consent is removed, as the message asks
    look, status = next_look(status, observation, ZK_CONTROLLERS_STOPPED)
    assert released(look).deletes


def test_a_consent_that_controllers_have_stopped_does_not_count_after_they_have_run_again() -> None:
    observation = without_quorum(cluster(P.COPIED), silent(K.UNREACHABLE))
    _, status = next_look(COMPARED, observation)
    _, status = next_look(status, cluster(P.COPIED), ZK_CONTROLLERS_STOPPED)
    look, status = next_look(status, observation, ZK_CONTROLLERS_STOPPED)
    assert isinstance(look.decision, Wait)
    assert "does not count" in message_of(look)


def test_the_request_for_a_consent_is_remembered_while_the_phase_is_unknown() -> None:
    observation = without_quorum(cluster(P.COPIED), silent(K.UNREACHABLE))
    _, status = next_look(COMPARED, observation)
    _, status = next_look(status, replace(observation, zookeeper=Unknown(silent(K.TIMED_OUT))))
    look, status = next_look(status, observation, ZK_CONTROLLERS_STOPPED)
    assert released(look).deletes


def test_an_unregistered_broker_with_replicas_holds_the_deletion_until_a_consent_to_lose_it() -> None:
    """Without a controller no partition can be read."""
    survey = Survey(assigned={1: "orders-0", 7: "orders-1"}, controller_epoch=3)
    observation = replace(without_quorum(cluster(P.COPIED)), partitions=Unknown(SILENT), surveyed=known(survey))
    look, status = next_look(COMPARED, observation)
    assert "broker 7 has replicas but is not registered" in message_of(look)
    look, status = next_look(status, observation, "zk-lose-broker:7")
    assert released(look).deletes


def silent_controllers(*ids: int) -> Observation:
    """Make the controllers with these ids silent; the others refuse the connection."""
    stopped = without_quorum(cluster(P.COPIED), silent(K.TIMED_OUT))
    refuses = silent(K.NOT_LISTENING)
    addresses = {id_: f"h:{id_}" for id_ in (3001, 3002, 3003)}
    attempts = {at: silent(K.TIMED_OUT) if id_ in ids else refuses for id_, at in addresses.items()}
    return replace(stopped, former_controllers=attempts)


def test_a_consent_that_some_controllers_have_stopped_does_not_count_for_further_silent_controllers() -> None:
    status = status_that_requests_consents(SURE, silent_controllers(3001, 3002), COMPARED)
    assert isinstance(
        look_after_stillness(silent_controllers(3001, 3002), STILL_UNPROVEN, SURE, status=status).decision, Act
    )
    assert isinstance(look_after_stillness(silent_controllers(3001), STILL_UNPROVEN, SURE, status=status).decision, Act)
    look = look_after_stillness(silent_controllers(3001, 3002, 3003), STILL_UNPROVEN, SURE, status=status)
    assert isinstance(look.decision, Wait)
    assert "not proven to have stopped: controllers 3001, 3002, 3003" in message_of(look)
    assert "given before this was shown" in message_of(look)
