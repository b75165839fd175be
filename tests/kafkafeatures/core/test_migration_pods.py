"""A migration whose nodes run in pods: templates changed in Git in time, too early, wrongly, or not at all.

Brokers 1 to 3 and controllers 3001 to 3003; 3003 leads, and broker 1 is the controller until the quorum takes over.
`in_pods(..., ids)`: the templates of these pods were changed, so that the next pod has the settings of the next phase.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import EMPTY, RolloutStatus, Status, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Done, Held, Stalled, Wait
from kafkafeatures.core.engine.desired_state import MaxParallel, Rollout
from kafkafeatures.core.engine.settling import ObservationPair, OpenOutcome
from kafkafeatures.core.facts.observation import Known, Node, NodeState, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.workloads import WorkloadsReading
from kafkafeatures.core.migration.delete_znodes import DeleteZnodes
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import Shape
from kafkafeatures.core.roll.disks import disks_of, written_disks
from kafkafeatures.core.roll.drivers import STATEFUL_SET
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from tests.kafkafeatures.core.fleets import NEW, budget, pod, requested, stateful_set
from tests.kafkafeatures.core.migrations import (
    BROKERS,
    CONTROLLERS,
    Look,
    a_node,
    cluster,
    compared,
    looks,
    status_after_decision,
    wanting,
    without_quorum,
)
from tests.kafkafeatures.worlds import NOW, SILENT

P, D = Position, Desired
THROUGH_PODS = Rollout(STATEFUL_SET.name, ("broker",), ("controller",), max_parallel=MaxParallel(2))
CONSENT = frozenset({"zk-finalize"})
UNREAD = Failure(FailureKind.UNREACHABLE, "Kubernetes", "connection refused")


def name_of(id_: int) -> str:
    return f"{'controller' if id_ in CONTROLLERS else 'broker'}-{id_}"


def ip_of(id_: int) -> str:
    return f"10.0.{id_ // 1000}.{id_ % 1000}"


def in_its_pod(node: Node) -> Node:
    host = f"{name_of(node.id)}.kafka.kafka.svc.cluster.local"
    return replace(node, host=host, port=9092, listeners=((host, 9092),), proved_at=ip_of(node.id))


def in_pods(
    observation: Observation, outdated: Collection[int] = (), pods: Collection[int] | None = None
) -> Observation:
    """Put each node into a pod; the templates of `outdated` were changed. `pods`: the ids of existing pods."""
    ids_of_pods = [*BROKERS, *CONTROLLERS] if pods is None else pods
    pods_by_id = {
        id_: pod(
            id_, name=name_of(id_), stateful_set=name_of(id_).rpartition("-")[0],
            **({} if id_ in outdated else {"revision": NEW}),
            ips=(ip_of(id_),),
        )
        for id_ in ids_of_pods
    }  # fmt: skip
    sets = tuple(
        stateful_set(*(pods_by_id[id_] for id_ in ids if id_ in pods_by_id), name=name, role=f"{name}s")
        for name, ids in (("broker", BROKERS), ("controller", CONTROLLERS))
    )
    reading = WorkloadsReading(NOW, sets, (budget(*pods_by_id.values()),), namespace="kafka")
    return replace(
        observation,
        nodes=tuple(map(in_its_pod, observation.nodes)),
        workloads=Known(reading, SourceKind.KUBERNETES, "", NOW),
    )


def look_at(desired: Desired, observation: Observation, *, status: Status = EMPTY, **of_wanted: Any) -> Look:
    return looks(wanting(desired, rollout=THROUGH_PODS, **of_wanted), observation, status=status)


def restarted(look: Look) -> RestartNode:
    assert isinstance(look.decision, Act), look.decision
    assert isinstance(look.decision.step, RestartNode)
    return look.decision.step


def test_a_migration_waits_for_git_to_change_the_template_before_any_pod_is_evicted() -> None:
    decision = look_at(D.DUAL_WRITE, in_pods(cluster(P.PRE_MIGRATION))).decision
    assert isinstance(decision, Wait)
    assert decision.reason is Reason.WAITING_FOR_GIT
    assert f"broker 1, broker 2, broker 3 must become {Shape.FLAGGED_BROKER}" in decision.message


def test_a_request_to_restart_a_single_pod_changes_nothing_during_a_migration() -> None:
    for outdated in ((), (1, 3)):
        observation = in_pods(cluster(P.PRE_MIGRATION), outdated)
        with_request, without = (look_at(D.DUAL_WRITE, x) for x in (requested(observation, "broker-2"), observation))
        assert (with_request.decision, with_request.proposal.plan) == (without.decision, without.proposal.plan)


@pytest.mark.parametrize("position", [P.PRE_MIGRATION, P.COPIED])
def test_a_pod_is_evicted_once_its_template_was_changed(position: Position) -> None:
    step = restarted(look_at(D.DUAL_WRITE, in_pods(cluster(position), BROKERS)))
    assert step.pod == name_of(step.node_id)
    assert step.next_revision == NEW


def dead(id_: int, *, flag: bool | None = True) -> Node:
    """Build a controller without a process; `flag`: if it had the flag at its last registration."""
    return replace(
        a_node(id_, Shape.MIGRATING_CONTROLLER),
        state=NodeState.UNREACHABLE, answer=Unknown(SILENT), proved_at="", registered_flag=flag,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("position", "desired"), [(P.COPIED, D.DUAL_WRITE), (P.DUAL_WRITE, D.ROLLED_BACK)], ids=["to KRaft", "back"]
)
@pytest.mark.parametrize("driver", ["by a person", "through pods"])
def test_brokers_are_moved_while_a_majority_of_controllers_leads_and_the_missing_ones_had_the_flag(
    position: Position, desired: Desired, driver: str
) -> None:
    """Restarting a broker does not weaken the quorum, and brokers in two modes are the greater risk."""

    def look_with(*controllers: Node) -> Look:
        observation = cluster(position, *controllers)
        if driver == "by a person":
            return looks(wanting(desired), observation)
        return look_at(desired, in_pods(observation, BROKERS))

    assert restarted(look_with(dead(3002))).node_id in BROKERS
    with_two_missing = look_with(dead(3001), dead(3002)).decision
    assert isinstance(with_two_missing, Wait)
    assert with_two_missing.reason is Reason.WAITING_FOR_QUORUM
    assert "while a voter is missing: controller 3001 does not answer (and 1 more)" in with_two_missing.message
    for flag in (False, None):
        unflagged = look_with(dead(3002, flag=flag)).decision
        assert isinstance(unflagged, Wait)
        assert (unflagged.subject, unflagged.remedy) == ("controller 3002", "start controller 3002")


@pytest.mark.parametrize("moved", [(1, 2), (1, 2, 3)], ids=["one broker left to move", "no broker left to move"])
def test_a_broker_that_lost_its_disk_during_a_migration_holds_the_next_broker_and_the_next_phase(
    moved: tuple[int, ...],
) -> None:
    """Broker 1 was moved to KRaft mode, and came back with another directory."""

    def in_kraft(*, lost: bool) -> Observation:
        dirs = {id_: frozenset({f"dir-{id_}{'-new' if lost and id_ == 1 else ''}"}) for id_ in BROKERS}
        shapes = {id_: Shape.KRAFT_BROKER if id_ in moved else Shape.FLAGGED_BROKER for id_ in BROKERS}
        nodes = (replace(a_node(id_, shapes[id_]), log_dirs=dirs[id_]) for id_ in BROKERS)
        return in_pods(cluster(P.COPIED if len(moved) < 3 else P.DUAL_WRITE, *nodes), {*BROKERS} - {*moved})

    lines = written_disks(
        {node.id: disks_of(node) for node in in_kraft(lost=False).nodes if node.log_dirs}, frozenset()
    )
    # In progress, as fewer nodes are done than there are: the status has directories only for such a roll.
    begun = replace(EMPTY, rollout=RolloutStatus(id="way", total=6, done=len(moved) + 2, disks=lines))
    assert isinstance(
        look_at(D.DUAL_WRITE, in_kraft(lost=False), status=begun).decision, Act if len(moved) < 3 else Done
    )
    halted = look_at(D.DUAL_WRITE, in_kraft(lost=True), status=begun)
    assert isinstance(halted.decision, Stalled)
    assert halted.decision.reason is Reason.ROLLOUT_HALTED
    consent = re.search(r"new-disk:broker-1:[0-9a-f]{8}", halted.decision.message)
    assert consent is not None
    rollout = status_after_decision(halted, begun).rollout
    assert rollout is not None
    assert rollout.is_in_progress
    consented = look_at(D.DUAL_WRITE, in_kraft(lost=True), status=begun, consents=frozenset({consent[0]}))
    assert not isinstance(consented.decision, Stalled)
    assert status_after_decision(consented, begun).spent_consents == (consent[0],)


def test_no_controller_may_be_missing_before_the_quorum_takes_over_and_while_finalizing() -> None:
    early = look_at(D.DUAL_WRITE, in_pods(cluster(P.PRE_MIGRATION, dead(3002)), BROKERS)).decision
    assert isinstance(early, Wait)
    assert early.subject == "controller 3002"
    finalizing = look_at(D.FINALIZED, in_pods(cluster(P.DUAL_WRITE, dead(3002)), CONTROLLERS), consents=CONSENT)
    assert not isinstance(finalizing.decision, Act)


def test_the_pod_of_the_broker_that_is_the_controller_is_evicted_last() -> None:
    assert restarted(look_at(D.DUAL_WRITE, in_pods(cluster(P.PRE_MIGRATION), BROKERS))).node_id in (2, 3)
    other_brokers = [a_node(id_, Shape.FLAGGED_BROKER) for id_ in (2, 3)]
    observation = in_pods(cluster(P.PRE_MIGRATION, *other_brokers), [1])
    assert restarted(look_at(D.DUAL_WRITE, observation)).node_id == 1


def test_no_second_pod_is_evicted_if_the_first_node_on_the_new_template_lacks_a_setting() -> None:
    """Broker 2 runs the new template, and still has no flag."""
    decision = look_at(D.DUAL_WRITE, in_pods(cluster(P.PRE_MIGRATION), [1, 3])).decision
    assert isinstance(decision, Stalled)
    assert decision.reason is Reason.MIGRATION_BLOCKED
    assert (
        f"broker 2 is not yet {Shape.FLAGGED_BROKER}: set zookeeper.metadata.migration.enable=true" in decision.message
    )


def test_nodes_are_restarted_again_with_a_template_that_was_corrected() -> None:
    observation = in_pods(cluster(P.PRE_MIGRATION, a_node(3, Shape.FLAGGED_BROKER)), BROKERS)
    assert restarted(look_at(D.DUAL_WRITE, observation)).node_id == 2


@pytest.mark.parametrize(
    ("position", "desired", "ahead"),
    [
        (P.PRE_MIGRATION, D.DUAL_WRITE, CONTROLLERS),
        (P.COPIED, D.DUAL_WRITE, CONTROLLERS),
        (P.DUAL_WRITE, D.DUAL_WRITE, CONTROLLERS),
        (P.PRE_MIGRATION, D.PRE_MIGRATION, BROKERS),
        (P.DUAL_WRITE, D.FINALIZED, BROKERS),
    ],
    ids=lambda value: "brokers" if value == BROKERS else "controllers" if value == CONTROLLERS else str(value),
)
def test_a_template_changed_ahead_of_its_step_stops_the_migration(
    position: Position, desired: Desired, ahead: tuple[int, ...]
) -> None:
    decision = look_at(desired, in_pods(cluster(position), ahead), consents=CONSENT).decision
    assert isinstance(decision, Stalled)
    assert decision.reason is Reason.TEMPLATE_AHEAD
    name, pods = "broker" if ahead == BROKERS else "controller", ", ".join(map(name_of, ahead))
    changed = f"the template of StatefulSet {name} was changed before the migration asked for it"
    assert decision.message == f"{changed}: {pods} would start with it"
    assert decision.blockers[0].remedy == f"revert the template of {name} in Git"


@pytest.mark.parametrize(
    "lacks",
    [{"hold": timedelta(hours=1)}, {"consents": frozenset()}, {"approvals": frozenset()}],
    ids=["time in dual write", "a consent", "an approval"],
)
def test_a_template_of_controllers_is_ahead_while_the_hold_a_consent_or_an_approval_is_missing_to_finalize(
    lacks: dict[str, Any],
) -> None:
    """A controller that is drained meanwhile would end the migration."""
    observation = in_pods(cluster(P.DUAL_WRITE), CONTROLLERS)
    conditions: dict[str, Any] = {"consents": CONSENT, "approvals": frozenset({"sha256:0"}), **lacks}
    look = look_at(D.FINALIZED, observation, **conditions)
    assert Reason.TEMPLATE_AHEAD in {blocker.reason for blocker in look.decision.blockers}
    assert isinstance(look.decision, Stalled)


def test_once_finalizing_is_approved_git_is_asked_for_the_template_and_a_standby_is_evicted_first() -> None:
    observation = in_pods(cluster(P.DUAL_WRITE))
    wanted = wanting(D.FINALIZED, rollout=THROUGH_PODS, consents=CONSENT, may_approve_unseen=True)
    shown = Look(wanted, observation).proposal.plan.hash
    approved = replace(wanted, approvals=frozenset({shown}))
    decision = looks(approved, observation).decision
    assert isinstance(decision, Wait)
    assert decision.reason is Reason.WAITING_FOR_GIT
    assert f"must become {Shape.CONTROLLER}" in decision.message
    assert restarted(looks(approved, in_pods(cluster(P.DUAL_WRITE), CONTROLLERS))).node_id != 3003


def test_without_an_approval_git_is_not_asked_for_a_template() -> None:
    decision = look_at(D.FINALIZED, in_pods(cluster(P.DUAL_WRITE)), consents=CONSENT).decision
    assert isinstance(decision, Held)


# --- while a pod is away ---


def away(observation: Observation, id_: int) -> Observation:
    """The pod of a node stops, and the node is not listed: ZooKeeper has no registration of a process that ended."""
    assert isinstance(observation.workloads, Known)
    reading = observation.workloads.value
    sets = tuple(
        replace(owner, pods=tuple(replace(pod, terminating=pod.name == name_of(id_)) for pod in owner.pods))
        for owner in reading.stateful_sets
    )
    return replace(
        observation,
        nodes=tuple(node for node in observation.nodes if node.id != id_),
        workloads=replace(observation.workloads, value=replace(reading, stateful_sets=sets)),
    )


def sent(step: RestartNode) -> RestartInFlight:
    return RestartInFlight(step, stamp(NOW), Via.API_SERVER)


def test_the_restart_of_a_broker_in_zookeeper_mode_is_not_over_while_the_broker_is_not_registered() -> None:
    before = in_pods(cluster(P.PRE_MIGRATION), BROKERS)
    restart = sent(restarted(look_at(D.DUAL_WRITE, before)))
    observation = away(before, restart.step.node_id)
    assert isinstance(observation.registered_brokers, Known)
    pair = ObservationPair(before, observation, stamp(NOW), lambda _: timedelta(0), lambda _: timedelta(0))
    assert isinstance(restart.settle(pair), OpenOutcome)
    decision = looks(wanting(D.DUAL_WRITE, rollout=THROUGH_PODS), observation, sent=(restart,)).decision
    assert isinstance(decision, Wait), decision
    assert name_of(restart.step.node_id) in decision.message


def test_the_template_of_a_pod_that_is_being_restarted_is_not_ahead_whatever_edge_comes_next() -> None:
    """Broker 2 goes back from KRaft mode. While it is away, no broker that answers is in KRaft mode, so the next edge
    seems to be the stop of the controllers.
    """
    step = RestartNode(2, "broker 2", name_of(2), "uid-2", next_revision=NEW, broker_epoch=102)
    observation = away(in_pods(cluster(P.COPIED, a_node(2, Shape.KRAFT_BROKER)), [2]), 2)
    decision = looks(wanting(D.ROLLED_BACK, rollout=THROUGH_PODS), observation, sent=(sent(step),)).decision
    assert isinstance(decision, Wait), decision
    assert decision.reason is Reason.ROLLING_NODES


# --- the way back ---


def test_git_is_asked_for_the_template_of_a_broker_that_goes_back_before_the_broker_is_restarted() -> None:
    """Broker 2 was the first in KRaft mode, and all others would be the next."""
    observation = in_pods(cluster(P.COPIED, a_node(2, Shape.KRAFT_BROKER)), [1, 3])
    decision = look_at(D.ROLLED_BACK, observation).decision
    assert isinstance(decision, Wait), decision
    assert decision.reason is Reason.WAITING_FOR_GIT
    assert f"broker 2 must become {Shape.FLAGGED_BROKER}" in decision.message


def test_controllers_are_not_stopped_while_the_mode_of_a_broker_is_unknown() -> None:
    """Broker 2 does not answer, and may be in KRaft mode, in which it cannot run without controllers."""
    silent = replace(a_node(2, Shape.KRAFT_BROKER), answer=Unknown(SILENT))
    decision = look_at(D.ROLLED_BACK, in_pods(cluster(P.COPIED, silent))).decision
    assert isinstance(decision, Wait), decision
    assert "broker 2 is not known to run in ZooKeeper mode" in decision.message


def without_controllers(pods: Collection[int] = BROKERS) -> Observation:
    """Build a cluster in which no controller answers and `/migration` is unchanged."""
    return in_pods(without_quorum(cluster(P.COPIED)), pods=pods)


def look_at_deletion(observation: Observation, status: Status | None = None) -> Look:
    """Return the look once `/migration` was observed to be unchanged."""
    wanted = wanting(D.ROLLED_BACK, rollout=THROUGH_PODS)
    return Look(wanted, observation, before=Look(wanted, observation), seconds=5.0, status=status or compared())


def test_znodes_of_the_quorum_are_deleted_once_no_controller_has_a_pod() -> None:
    decision = look_at_deletion(without_controllers()).decision
    assert isinstance(decision, Act), decision
    assert isinstance(decision.step, DeleteZnodes)


def test_zookeeper_is_not_released_while_any_pod_of_a_controller_exists() -> None:
    decision = look_at_deletion(without_controllers([*BROKERS, 3002])).decision
    assert isinstance(decision, Wait)
    assert "controller-3002" in decision.message
    assert "set controller to 0 replicas" in decision.blockers[0].remedy


def test_a_person_who_has_to_start_the_controllers_again_is_not_asked_to_stop_them() -> None:
    messages = "\n".join(
        map(str, look_at_deletion(without_controllers([*BROKERS, 3002]), compared(2)).decision.blockers)
    )
    assert "if the controllers still have their disks, start them again" in messages
    assert "0 replicas" not in messages


def test_no_znode_is_deleted_while_a_controller_pod_on_a_lost_kubernetes_node_is_stopping() -> None:
    """Kubernetes shows it as stopping for ever, and cannot know whether its container runs."""
    observation = without_controllers([*BROKERS, 3002])
    assert isinstance(observation.workloads, Known)
    brokers, controllers = observation.workloads.value.stateful_sets
    stopping = replace(controllers, replicas=0, pods=tuple(replace(pod, terminating=True) for pod in controllers.pods))
    reading = replace(observation.workloads.value, stateful_sets=(brokers, stopping))
    decision = look_at_deletion(replace(observation, workloads=replace(observation.workloads, value=reading))).decision
    assert isinstance(decision, Wait)
    assert "controller-3002 of StatefulSet controller is stopping, and may still write to ZooKeeper" in decision.message
    assert "kubectl delete pod controller-3002 --force" in decision.blockers[0].remedy


def test_no_znode_is_deleted_while_a_stateful_set_of_controllers_still_has_replicas() -> None:
    """The pod of a controller was deleted, and another one is about to be made."""
    observation = without_controllers()
    assert isinstance(observation.workloads, Known)
    brokers, controllers = observation.workloads.value.stateful_sets
    reading = replace(observation.workloads.value, stateful_sets=(brokers, replace(controllers, replicas=1)))
    decision = look_at_deletion(replace(observation, workloads=replace(observation.workloads, value=reading))).decision
    assert isinstance(decision, Wait)
    assert "a future pod of StatefulSet controller" in decision.message


def test_no_znode_is_deleted_while_the_pods_cannot_be_read() -> None:
    decision = look_at_deletion(replace(without_controllers(), workloads=Unknown(UNREAD))).decision
    assert isinstance(decision, Wait)
    assert "connection refused" in decision.message
