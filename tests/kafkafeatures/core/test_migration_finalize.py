"""Finalizing a migration: restarting controllers without the flag `zookeeper.metadata.migration.enable`. A controller
that lost it by accident does not begin this; an approved restart of the operator with the consent zk-finalize does.

The cluster is in dual write, with controllers 3001 to 3003; 3003 is the active controller.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import Status, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Done, Stalled, Wait
from kafkafeatures.core.facts.observation import Observation, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.znodes import StoreComparison
from kafkafeatures.core.migration.positions import FLAG, Position
from kafkafeatures.core.migration.settings import Shape
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from tests.kafkafeatures.core.migrations import (
    CONTROLLERS,
    FINALIZING,
    Look,
    a_node,
    approved,
    cluster,
    looks,
    memory_from,
    message_of,
    restarted,
    status_after,
    status_after_decision,
    wanting,
)
from tests.kafkafeatures.core.test_migration_pods import THROUGH_PODS, in_pods
from tests.kafkafeatures.ensembles import CLUSTER
from tests.kafkafeatures.worlds import NOW, known

P, D = Position, Desired
OF_ANOTHER_PLAN = "sha256:12345678"
"""An approval of another plan than the present one."""
HELD: dict[str, Any] = {"hold": timedelta(hours=1)}
DIFFERS = known(StoreComparison(NOW, 99, 1, "ZooKeeper and the metadata log differ: 1 topic", ("topic orders",)))


def without_flag(*ids: int, **parts: Any) -> Observation:
    """Build a cluster in dual write in which these controllers run without the flag."""
    return cluster(P.DUAL_WRITE, *(a_node(id_, Shape.CONTROLLER) for id_ in ids), **parts)


def in_flight_of(look: Look) -> tuple[RestartInFlight, ...]:
    """Return the restart that a person was asked for."""
    assert isinstance(look.decision, Act)
    assert isinstance(look.decision.step, RestartNode)
    return (RestartInFlight(look.decision.step, stamp(NOW), Via.PERSON, accepted=True),)


def withdrawn_in(look: Look) -> list[str]:
    return [restart.step.target for stage in look.stages for restart, _ in stage.withdrawn]


def next_look(
    look: Look, status: Status, observation: Observation, sent: tuple[RestartInFlight, ...] = (), **of_wanted: Any
) -> Look:
    """Return the next look of any process, with what the status remembers."""
    memory = memory_from(status)
    wanted = replace(look.wanted, approvals=frozenset({look.proposal.plan.hash}))
    return looks(replace(wanted, **of_wanted), observation, status=status, memory=memory, sent=sent)


def assert_blocked_by_lost_flag(look: Look, *ids: int) -> None:
    """Nothing is done: the only remedy is to put the flag back on these controllers, and the phase
    is still dual write.
    """
    assert isinstance(look.decision, Stalled), look.decision
    assert look.decision.reason is Reason.MIGRATION_BLOCKED
    for id_ in ids:
        assert f"controller {id_} runs without {FLAG}, and was not asked to" in message_of(look)
        assert f"put the flag back on controller {id_} and restart it" in message_of(look)
    assert "desired to Finalized" not in message_of(look)
    migration = status_after(look).migration
    assert migration is not None
    assert (migration.position, migration.zk_migration_state) == ("DualWrite", "MIGRATION")


@pytest.mark.parametrize("ids", [(3001,), (3003,), (3001, 3002), CONTROLLERS], ids=str)
@pytest.mark.parametrize("desired", [D.DUAL_WRITE, D.FINALIZED, D.ROLLED_BACK], ids=str)
def test_a_controller_that_lost_the_flag_by_accident_is_a_blocker_and_no_node_is_restarted(
    desired: Desired, ids: tuple[int, ...]
) -> None:
    """3003 is the active controller: without the flag it would end the migration."""
    assert_blocked_by_lost_flag(looks(wanting(desired), without_flag(*ids)), *ids)


def test_a_controller_that_is_no_voter_and_lost_the_flag_is_named_as_well() -> None:
    extra = replace(a_node(3004, Shape.CONTROLLER), is_voter=False)
    assert_blocked_by_lost_flag(looks(wanting(D.DUAL_WRITE), cluster(P.DUAL_WRITE, extra)), 3004)
    assert isinstance(looks(FINALIZING, cluster(P.DUAL_WRITE, extra)).decision, Stalled)


@pytest.mark.parametrize(
    "lacks",
    [
        {"consents": frozenset()},
        {"migration": wanting(D.FINALIZED, **HELD).migration},
        {"approvals": frozenset()},
        {"approvals": frozenset({OF_ANOTHER_PLAN})},
    ],
    ids=["a consent", "time in dual write", "an approval", "an approval of this plan"],
)
def test_a_controller_that_lost_the_flag_replaces_no_consent_hold_or_approval_to_finalize(
    lacks: dict[str, Any],
) -> None:
    wanted = replace(FINALIZING, may_approve_unseen=True)
    shown = Look(wanted, without_flag(3001)).proposal.plan.hash
    conditions = {"approvals": frozenset({shown}), **lacks}
    assert_blocked_by_lost_flag(looks(replace(wanted, **conditions), without_flag(3001)), 3001)


def test_while_the_stores_differ_the_remedy_puts_the_flag_back_before_the_active_controller_is_restarted() -> None:
    look = approved(without_flag(3001, compared=DIFFERS))
    assert_blocked_by_lost_flag(look, 3001)
    assert (
        f"first put {FLAG} back on controller 3001, which would end the migration; then restart the active"
        in message_of(look)
    )


def test_a_consent_to_finalize_that_an_earlier_plan_has_used_does_not_begin_to_finalize() -> None:
    wanted = replace(FINALIZING, may_approve_unseen=True)
    shown = Look(wanted, without_flag(3001)).proposal.plan.hash
    status = Status(cluster_id=CLUSTER, spent_consents=("zk-finalize",))
    spent = memory_from(status)
    look = looks(replace(wanted, approvals=frozenset({shown})), without_flag(3001), memory=spent)
    assert_blocked_by_lost_flag(look, 3001)


def test_finalizing_continues_with_its_consent_and_stops_without_it_or_if_dual_write_is_desired_again() -> None:
    first = approved(cluster(P.DUAL_WRITE))
    assert restarted(first) == 3001
    status = status_after_decision(first)
    assert status.migration is not None
    following = next_look(first, status, without_flag(3001))
    assert restarted(following) == 3002
    migration = status_after(following).migration
    assert migration is not None
    assert (migration.phase, migration.position) == ("Finalizing", "Finalizing")
    assert_blocked_by_lost_flag(next_look(first, status, without_flag(3001), consents=frozenset()), 3001)
    assert_blocked_by_lost_flag(
        next_look(first, status, without_flag(3001), migration=wanting(D.DUAL_WRITE).migration), 3001
    )


def test_an_approval_from_before_the_status_was_lost_does_not_finalize() -> None:
    approved_before = approved(cluster(P.DUAL_WRITE))
    assert restarted(looks(approved_before.wanted, without_flag(3001))) == 3002
    # no status shows that the approved plan was seen
    after_the_loss = replace(approved_before.wanted, may_approve_unseen=False)
    assert_blocked_by_lost_flag(looks(after_the_loss, without_flag(3001)), 3001)


REQUESTED = approved(cluster(P.DUAL_WRITE))
"""The decision that asks a person to restart controller 3001 without the flag."""
LONGER: dict[str, Any] = {"migration": wanting(D.FINALIZED, hold=timedelta(days=7)).migration}
"""A change of the document after that: a longer hold, which is not over."""


def test_a_restart_of_another_controller_than_the_requested_one_does_not_begin_to_finalize() -> None:
    differing = replace(without_flag(3002), compared=DIFFERS)
    assert_blocked_by_lost_flag(next_look(REQUESTED, status_after_decision(REQUESTED), differing), 3002)
    assert_blocked_by_lost_flag(
        next_look(REQUESTED, status_after_decision(REQUESTED), without_flag(3002), **LONGER), 3002
    )


def test_a_controller_whose_restart_request_was_withdrawn_begins_no_finalization_later() -> None:
    waits = next_look(REQUESTED, status_after_decision(REQUESTED), cluster(P.DUAL_WRITE), **LONGER)
    assert isinstance(waits.decision, Wait)
    assert waits.decision.reason is Reason.SOAKING
    status = status_after(waits)
    assert status.migration is not None
    assert (status.migration.consents, status.migration.asked_controllers) == (("zk-finalize",), ())
    assert_blocked_by_lost_flag(next_look(REQUESTED, status, without_flag(3001), **LONGER), 3001)
    assert restarted(next_look(REQUESTED, status, cluster(P.DUAL_WRITE))) == 3001


def test_requested_controllers_are_recorded_until_every_controller_is_without_the_flag() -> None:
    following = next_look(REQUESTED, status_after_decision(REQUESTED), without_flag(3001))
    status = status_after_decision(following)
    assert status.migration is not None
    assert status.migration.asked_controllers == (3001, 3002)
    assert restarted(next_look(REQUESTED, status, without_flag(3001, 3002))) == 3003


@pytest.mark.parametrize(
    ("observation", "of_wanted"),
    [
        (cluster(P.DUAL_WRITE), LONGER),
        (cluster(P.DUAL_WRITE, compared=DIFFERS), {}),
        (without_flag(3002), LONGER),
        (cluster(P.DUAL_WRITE), {"consents": frozenset()}),
        (cluster(P.DUAL_WRITE), {"approvals": frozenset()}),
    ],
    ids=["a longer hold", "stores that differ", "another controller lost the flag", "no consent", "no approval"],
)
def test_a_restart_request_to_a_person_is_withdrawn_once_a_blocker_to_finalizing_appears(
    observation: Observation, of_wanted: dict[str, Any]
) -> None:
    status = status_after_decision(REQUESTED)
    look = next_look(REQUESTED, status, observation, sent=in_flight_of(REQUESTED), **of_wanted)
    assert withdrawn_in(look) == ["controller 3001"]
    assert not isinstance(look.decision, Act)
    assert not withdrawn_in(next_look(REQUESTED, status, cluster(P.DUAL_WRITE), sent=in_flight_of(REQUESTED)))


def test_a_controller_that_lost_the_flag_is_named_whatever_the_document_wants() -> None:
    assert "put the flag back on controller 3001" in message_of(looks(wanting(D.PRE_MIGRATION), without_flag(3001)))
    look = looks(replace(FINALIZING, migration=None), without_flag(3001))
    assert "put the flag back on controller 3001" in message_of(look)


def test_finalizing_begins_with_another_controller_although_one_lost_the_flag_before() -> None:
    assert restarted(approved(without_flag(3001))) == 3002


def test_once_the_log_is_finalized_no_flag_has_to_be_put_back() -> None:
    look = looks(wanting(D.DUAL_WRITE), cluster(P.FINALIZED, a_node(3002, Shape.MIGRATING_CONTROLLER)))
    assert "put the flag back" not in message_of(look)
    assert "irreversible" in message_of(look)


SWITCHED_OFF = Unknown(
    Failure(FailureKind.UNREACHABLE, "ZooKeeper zk1:2181/kafka", "connection failed", "check that it runs")
)


@pytest.mark.parametrize("flagged", [(), (3002,)], ids=["no controller has the flag", "one controller has the flag"])
def test_a_finalized_migration_does_not_wait_for_a_zookeeper_that_was_switched_off(flagged: tuple[int, ...]) -> None:
    over = cluster(P.FINALIZED, *(a_node(id_, Shape.MIGRATING_CONTROLLER) for id_ in flagged), zookeeper=SWITCHED_OFF)
    if flagged:
        assert restarted(approved(over)) == 3002
        return
    decision = looks(wanting(D.FINALIZED), over).decision
    assert isinstance(decision, Done)
    assert "remove both spec.migration and spec.cluster.zookeeper from the document" in decision.message
    assert "connection failed" in decision.message


def test_a_migration_waits_for_zookeeper_before_it_is_finalized() -> None:
    decision = looks(FINALIZING, cluster(P.DUAL_WRITE, zookeeper=SWITCHED_OFF)).decision
    assert isinstance(decision, Wait)
    assert "ZooKeeper zk1:2181/kafka: connection failed" in decision.message


def test_flagged_brokers_without_a_controller_are_a_blocker_as_a_migration_starts_with_the_controllers() -> None:
    flagged = (a_node(id_, Shape.FLAGGED_BROKER) for id_ in (1, 2))
    look = looks(wanting(D.PRE_MIGRATION), cluster(P.ZOOKEEPER, *flagged))
    assert isinstance(look.decision, Stalled)
    assert f"brokers run with {FLAG}, but no controller answers: 1, 2" in message_of(look)
    assert "a migration starts with the controllers" in message_of(look)
    assert f"restart each of these brokers without {FLAG}" in message_of(look)


# --- templates ---


def look_with_another_approval(observation: Observation, outdated: tuple[int, ...]) -> Look:
    """Return the decision where these pods are older than their template, which lacks the flag, and a person has
    approved another plan.
    """
    wanted = replace(FINALIZING, rollout=THROUGH_PODS, approvals=frozenset({OF_ANOTHER_PLAN}))
    return looks(wanted, in_pods(observation, outdated))


def test_a_template_that_lacks_the_flag_too_early_and_a_drained_pod_restart_no_second_controller() -> None:
    """The pod of 3001 was drained, so it came back with the new template, without the flag. An approval of another plan
    changes nothing.
    """
    look = look_with_another_approval(without_flag(3001), outdated=(3002, 3003))
    assert isinstance(look.decision, Stalled), look.decision
    assert "controller-3002, controller-3003 would start with it" in message_of(look)
    assert "put the flag back on controller 3001" in message_of(look)


def test_a_template_that_is_ahead_is_a_blocker_also_under_an_approval_of_another_plan() -> None:
    look = look_with_another_approval(cluster(P.DUAL_WRITE), outdated=CONTROLLERS)
    assert Reason.TEMPLATE_AHEAD in {blocker.reason for blocker in look.decision.blockers}


def test_a_template_that_is_ahead_is_a_blocker_also_while_both_stores_differ() -> None:
    wanted = replace(FINALIZING, rollout=THROUGH_PODS, may_approve_unseen=True)
    observation = in_pods(replace(cluster(P.DUAL_WRITE), compared=DIFFERS), CONTROLLERS)
    shown = Look(wanted, observation).proposal.plan.hash
    look = looks(replace(wanted, approvals=frozenset({shown})), observation)
    assert {Reason.TEMPLATE_AHEAD, None} <= {blocker.reason for blocker in look.decision.blockers}
    assert not isinstance(look.decision, Act)


def test_the_template_that_restores_a_lost_flag_does_not_hold_back_the_pod_that_needs_it() -> None:
    look = looks(wanting(D.DUAL_WRITE, rollout=THROUGH_PODS), in_pods(without_flag(3001), (3001,)))
    assert_blocked_by_lost_flag(look, 3001)
    assert "would start with it" not in message_of(look)


# --- the way back ---


@pytest.mark.parametrize("desired", [D.DUAL_WRITE, D.FINALIZED], ids=str)
def test_the_way_back_after_a_controller_lost_the_flag_begins_with_putting_the_flag_back(desired: Desired) -> None:
    status = status_after(looks(wanting(desired), without_flag(3001, 3002)))
    assert status.way_back is not None
    assert (
        f"set spec.migration.desired to RolledBack, put {FLAG} back on controller 3001, 3002, " in status.way_back.how
    )


def test_finalizing_has_a_way_back_while_the_metadata_log_says_migration() -> None:
    first = approved(cluster(P.DUAL_WRITE))
    status = status_after(next_look(first, status_after_decision(first), without_flag(3001)))
    assert status.way_back is not None
    assert "take zk-finalize out of consents" in status.way_back.how
    assert f"put {FLAG} back on controller 3001" in status.way_back.how
