"""The next step of a migration from ZooKeeper to KRaft, and the blockers to it.

Brokers 1 to 3 and controllers 3001 to 3003; 3003 leads, and broker 1 is the controller until the quorum takes over.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Done, Held, Stalled, Wait
from kafkafeatures.core.engine.desired_state import ApprovalPolicy
from kafkafeatures.core.facts.observation import Observation, Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind
from kafkafeatures.core.facts.settings import Setting, SettingSource
from kafkafeatures.core.migration.copied.survey import Survey
from kafkafeatures.core.migration.positions import FLAG, Position
from kafkafeatures.core.migration.progress import progress_of
from kafkafeatures.core.migration.restarts import permit_for
from kafkafeatures.core.migration.settings import Shape
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from tests.kafkafeatures.core.migrations import (
    AT,
    BROKERS,
    FINALIZING,
    Look,
    a_node,
    approved,
    cluster,
    compared,
    looks,
    memory_from,
    message_of,
    released,
    restarted,
    status_after,
    wanting,
    without_quorum,
)
from tests.kafkafeatures.core.replicas import row
from tests.kafkafeatures.ensembles import claimed, progress
from tests.kafkafeatures.ensembles import reading as znodes
from tests.kafkafeatures.worlds import known

P, D = Position, Desired
GOALS = {
    P.PRE_MIGRATION: D.PRE_MIGRATION, P.DUAL_WRITE: D.DUAL_WRITE, P.FINALIZED: D.FINALIZED, P.ZOOKEEPER: D.ROLLED_BACK,
}  # fmt: skip


@pytest.mark.parametrize("position", GOALS)
def test_a_migration_at_the_target_of_the_document_is_done(position: Position) -> None:
    decision = looks(wanting(GOALS[position]), cluster(position)).decision
    assert isinstance(decision, Done)
    assert decision.message == f"the migration is at {GOALS[position]}"


@pytest.mark.parametrize("desired", [D.PRE_MIGRATION, D.DUAL_WRITE])
def test_a_migration_begins_with_controllers_that_have_to_be_started_in_git(desired: Desired) -> None:
    decision = looks(wanting(desired), cluster(P.ZOOKEEPER)).decision
    assert isinstance(decision, Wait)
    assert decision.reason is Reason.WAITING_FOR_GIT
    assert f"{FLAG}=true" in decision.message


@pytest.mark.parametrize("position", [P.ZOOKEEPER, P.PRE_MIGRATION, P.COPIED])
def test_a_migration_is_finalized_only_from_dual_write(position: Position) -> None:
    decision = looks(FINALIZING, cluster(position)).decision
    assert isinstance(decision, Stalled)
    assert decision.reason is Reason.MIGRATION_BLOCKED
    assert "can be finalized only from DualWrite" in decision.message


@pytest.mark.parametrize("desired", [D.PRE_MIGRATION, D.DUAL_WRITE, D.ROLLED_BACK])
def test_a_rollback_of_a_finalized_migration_is_refused_as_irreversible(desired: Desired) -> None:
    decision = looks(wanting(desired), cluster(P.FINALIZED)).decision
    assert isinstance(decision, Stalled)
    assert "irreversible" in decision.message


# --- brokers get the flag, and then leave ZooKeeper mode ---


def test_the_broker_that_is_the_controller_is_restarted_last() -> None:
    observation = cluster(P.PRE_MIGRATION)
    assert restarted(looks(wanting(D.DUAL_WRITE), observation)) == 2
    flagged = [a_node(id_, Shape.FLAGGED_BROKER) for id_ in (2, 3)]
    assert restarted(looks(wanting(D.DUAL_WRITE), cluster(P.PRE_MIGRATION, flagged[0]))) == 3
    assert restarted(looks(wanting(D.DUAL_WRITE), cluster(P.PRE_MIGRATION, *flagged))) == 1


def test_a_person_who_restarts_a_node_gets_the_lines_that_the_node_needs() -> None:
    observation = cluster(P.PRE_MIGRATION)
    step = RestartNode(2, "broker 2", earlier_support="", czxid=102)
    restart = RestartInFlight(step, Stamp("2026-01-02T03:00:00Z"), Via.PERSON)
    decision = looks(wanting(D.DUAL_WRITE), observation, sent=(restart,)).decision
    assert isinstance(decision, Wait)
    assert "restart broker 2 as a broker in ZooKeeper mode that migrates" in decision.message
    assert f"set {FLAG}=true" in decision.message


@pytest.mark.parametrize("desired", [D.DUAL_WRITE, D.ROLLED_BACK])
def test_the_message_about_a_broker_that_stays_out_of_sync_names_the_log_line_of_its_leader(desired: Desired) -> None:
    """In Kafka 3.9 the thread with which a leader reports replicas that are in sync again can end for good."""
    lacking = (row("orders", 1, 2, 3, isr=(1, 3)), row("orders", 3, 2, 1, isr=(1, 3), number=1))
    observation = cluster(P.COPIED, partitions=lacking)
    begun = Stamp("2026-01-02T03:00:00Z")
    step = RestartNode(2, "broker 2", earlier_support="", czxid=50)
    late = RestartInFlight(step, begun, Via.PERSON, stopping_since=begun)
    decision = looks(wanting(desired), observation, sent=(late,), lived=timedelta(hours=1)).decision
    assert isinstance(decision, Stalled)
    assert (decision.reason, decision.subject) == (Reason.ROLLOUT_HALTED, "broker 2")
    assert decision.remedy.endswith(
        "; broker 1 leads all of these partitions: if the log of broker 1 has `alter-partition-channel-manager]: "
        "Stopped`, restart broker 1"
    )


def test_the_first_broker_of_an_edge_is_restarted_alone_whatever_max_parallel_is() -> None:
    """The first broker shows whether the settings are right."""
    first = progress_of(cluster(P.COPIED), D.DUAL_WRITE)
    assert permit_for(first).is_first
    then = progress_of(cluster(P.COPIED, a_node(1, Shape.KRAFT_BROKER)), D.DUAL_WRITE)
    assert not permit_for(then).is_first
    assert set(permit_for(then).needing) == {2, 3}


def test_no_broker_is_restarted_while_a_controller_lacks_the_flag() -> None:
    """If the quorum is dynamic, Kafka itself does not check this."""
    observation = cluster(P.PRE_MIGRATION, a_node(3002, Shape.CONTROLLER))
    look = looks(wanting(D.DUAL_WRITE), observation)
    assert isinstance(look.decision, Stalled)
    assert message_of(look).startswith(
        f"controllers run without {FLAG} while brokers are in ZooKeeper mode: 3002; if one of them becomes the active "
        "controller, the migration ends with what was copied by then; set it to true on these controllers"
    )


def test_no_broker_is_restarted_while_a_setting_of_a_controller_differs() -> None:
    flagged = a_node(3002, Shape.MIGRATING_CONTROLLER)
    lacks = replace(flagged, settings={**flagged.settings, "zookeeper.connect": Setting(SettingSource.DEFAULT)})
    look = looks(wanting(D.DUAL_WRITE), cluster(P.PRE_MIGRATION, lacks))
    assert isinstance(look.decision, Stalled)
    assert look.decision.reason is Reason.MIGRATION_BLOCKED
    assert "set zookeeper.connect" in message_of(look)


def test_no_broker_is_restarted_while_the_settings_of_a_broker_are_unknown() -> None:
    silent = replace(a_node(3, Shape.PLAIN_BROKER), settings={}, proved_at="")
    look = looks(wanting(D.DUAL_WRITE), cluster(P.PRE_MIGRATION, silent))
    assert isinstance(look.decision, Wait)
    assert "settings of broker 3 are not known" in message_of(look)


def test_no_broker_is_moved_to_kraft_mode_while_a_broker_is_not_registered_with_the_quorum() -> None:
    observation = cluster(P.COPIED)
    look = looks(wanting(D.DUAL_WRITE), replace(observation, registered_brokers=known(frozenset({1, 2}))))
    assert isinstance(look.decision, Wait)
    assert "broker 3 is not registered" in message_of(look)


# --- finalizing ---


def test_finalizing_needs_an_approval_under_every_policy() -> None:
    for policy in ApprovalPolicy:
        decision = looks(replace(FINALIZING, policy=policy), cluster(P.DUAL_WRITE)).decision
        assert isinstance(decision, Held)
        assert decision.condition == (Condition.APPROVAL_REQUIRED, Reason.MIGRATION_FINALIZE)


def test_approved_finalizing_begins_with_a_controller_that_is_not_the_leader() -> None:
    assert restarted(approved(cluster(P.DUAL_WRITE))) == 3001
    standbys = [a_node(id_, Shape.CONTROLLER) for id_ in (3001, 3002)]
    assert restarted(approved(cluster(P.DUAL_WRITE, *standbys))) == 3003


@pytest.mark.parametrize(
    ("observation", "says"),
    [
        (
            cluster(P.DUAL_WRITE, partitions=(row("a", 1, 2, 3, isr=(1, 2), number=0),)),
            "1 partition (a-0) is under-replicated: broker 3 is not in sync",
        ),
        (cluster(P.DUAL_WRITE, replace(a_node(2, Shape.KRAFT_BROKER), migrating_from_zookeeper=True)), "broker 2"),
        (cluster(P.DUAL_WRITE, offset=10), "behind the metadata log"),
    ],
    ids=["a partition", "a broker still registered from ZooKeeper mode", "ZooKeeper lags"],
)
def test_a_migration_is_not_finalized_while_metadata_would_be_lost(observation: Observation, says: str) -> None:
    look = approved(observation)
    assert not isinstance(look.decision, Act)
    assert says in message_of(look)


def test_a_migration_is_not_finalized_without_a_consent() -> None:
    look = approved(cluster(P.DUAL_WRITE), consents=frozenset())
    assert isinstance(look.decision, Stalled)
    assert (look.decision.reason, look.decision.blockers[0].remedy) == (
        Reason.CONSENT_REQUIRED,
        "add zk-finalize to consents",
    )


def test_a_migration_waits_for_an_ensemble_that_cannot_be_read_and_names_its_failure() -> None:
    failure = Failure(FailureKind.UNREACHABLE, "ZooKeeper zk:2181", "connection refused", "start it")
    look = looks(wanting(D.DUAL_WRITE), replace(cluster(P.COPIED), zookeeper=Unknown(failure)))
    assert isinstance(look.decision, Wait)
    assert "ZooKeeper zk:2181: connection refused" in message_of(look)


def test_a_contradiction_stalls_the_migration_only_after_a_minute() -> None:
    """/controller names 3001, and 3003 leads: it may be that an election is not over yet."""
    observation = cluster(P.DUAL_WRITE)
    claimed_by_3001 = known(znodes(controller=claimed(3001, epoch=2), migration=progress(99)))
    first = Look(wanting(D.DUAL_WRITE), replace(observation, zookeeper=claimed_by_3001))
    assert isinstance(first.decision, Wait)
    later = Look(wanting(D.DUAL_WRITE), replace(observation, zookeeper=claimed_by_3001), before=first, seconds=61)
    assert isinstance(later.decision, Stalled)
    assert later.decision.reason is Reason.MIGRATION_FAILED
    resolved = Look(wanting(D.DUAL_WRITE), observation, before=later)
    assert isinstance(resolved.decision, Done)


def test_a_state_that_kafka_does_not_leave_by_itself_stalls_the_migration_at_once() -> None:
    stale = known(znodes(controller=claimed(3003, epoch=3), migration=progress(409)))
    flagged = [a_node(id_, Shape.FLAGGED_BROKER) for id_ in BROKERS]
    look = looks(wanting(D.DUAL_WRITE), replace(cluster(P.PRE_MIGRATION, *flagged), zookeeper=stale))
    assert isinstance(look.decision, Stalled)
    assert "delete every topic" in look.decision.message


# --- beside other stages ---


@pytest.mark.parametrize("position", [position for position in AT if position is not P.FINALIZED])
def test_no_level_is_changed_and_no_roll_is_planned_during_a_migration(position: Position) -> None:
    wanted = replace(wanting(GOALS.get(position, D.DUAL_WRITE)), levels={"metadata.version": 22})
    look = looks(wanted, cluster(position))
    assert not isinstance(look.decision, Act) or look.decision.step.kind == RestartNode.kind
    assert not any(stage.kind == "Roll" for stage in look.proposal.plan.stages)


def test_a_migration_plan_has_its_start_and_target_phase_and_its_steps() -> None:
    plan = Look(wanting(D.DUAL_WRITE), cluster(P.PRE_MIGRATION)).proposal.plan
    (stage,) = plan.stages
    assert (stage.kind, dict(stage.start), dict(stage.target)) == (
        "Migration", {"phase": "PreMigration"}, {"phase": "DualWrite"},
    )  # fmt: skip
    assert len([step for work in plan.work for step in work.steps]) == 2
    assert plan.is_safe_to_undo


def test_a_migration_plan_stands_while_nodes_are_restarted() -> None:
    first = Look(wanting(D.DUAL_WRITE), cluster(P.PRE_MIGRATION))
    half_way = cluster(P.PRE_MIGRATION, a_node(2, Shape.FLAGGED_BROKER))
    following = Look(wanting(D.DUAL_WRITE), half_way, memory=memory_from(status_after(first)))
    assert following.proposal.plan.hash == first.proposal.plan.hash
    assert Look(wanting(D.DUAL_WRITE), half_way).proposal.plan.hash != first.proposal.plan.hash


def test_the_plan_of_a_rollback_shows_all_its_steps_before_it_begins() -> None:
    plan = Look(wanting(D.ROLLED_BACK), cluster(P.DUAL_WRITE)).proposal.plan
    steps = [step.detail for work in plan.work for step in work.steps]
    assert len(steps) == 4
    assert "delete /controller and /migration" in steps[2]


def test_a_migration_stage_is_not_over_while_a_node_is_being_restarted() -> None:
    restart = RestartInFlight(RestartNode(3, "broker 3", broker_epoch=90), Stamp("2026-01-02T03:00:00Z"), Via.PERSON)
    decision = looks(wanting(D.DUAL_WRITE), cluster(P.DUAL_WRITE), sent=(restart,)).decision
    assert isinstance(decision, Wait)
    assert "broker 3 is in sync" in decision.message


# --- the deletion of znodes during a rollback ---


def test_znodes_of_a_quorum_without_controllers_are_deleted_once_unchanged_for_three_seconds() -> None:
    observation = without_quorum(cluster(P.COPIED))
    first = Look(wanting(D.ROLLED_BACK), observation, status=compared())
    assert isinstance(first.decision, Wait)
    assert "/migration must stay unchanged for 3 s" in message_of(first)
    later = Look(wanting(D.ROLLED_BACK), observation, before=first, seconds=3.5, status=compared())
    assert set(released(later).deletes) == {"/controller", "/migration"}
    changed = without_quorum(cluster(P.COPIED, offset=101))
    look = Look(wanting(D.ROLLED_BACK), changed, before=first, seconds=3.5, status=compared())
    assert isinstance(look.decision, Wait)


def test_the_controller_epoch_is_raised_above_that_of_every_partition() -> None:
    lost = replace(without_quorum(cluster(P.COPIED)), surveyed=known(Survey(controller_epoch=41)))
    first = Look(wanting(D.ROLLED_BACK), lost, status=compared())
    assert released(Look(wanting(D.ROLLED_BACK), lost, before=first, seconds=4, status=compared())).raise_to == 42


def test_no_znode_is_deleted_while_the_epochs_of_partitions_are_unknown() -> None:
    lost = replace(without_quorum(cluster(P.COPIED)), surveyed=Unknown(NOT_ASKED))
    first = Look(wanting(D.ROLLED_BACK), lost, status=compared())
    assert isinstance(Look(wanting(D.ROLLED_BACK), lost, before=first, seconds=4, status=compared()).decision, Stalled)


def test_a_quorum_that_has_just_elected_its_leader_is_waited_for_and_not_taken_for_a_new_cluster() -> None:
    """A new leader writes the state of the migration a moment later."""
    observation = replace(cluster(P.PRE_MIGRATION), zk_migration_state=known(0))
    first = Look(wanting(D.DUAL_WRITE), observation)
    assert isinstance(first.decision, Wait)
    assert first.decision.message == (
        "the phase is not known yet: the controllers have not written yet that they migrate"
    )
    assert first.decision.blockers  # so that no plan says that all is well
    later = Look(wanting(D.DUAL_WRITE), observation, before=first, seconds=61)
    assert isinstance(later.decision, Stalled)
    assert "their metadata log is that of a new cluster; stop the controllers" in later.decision.message


def test_a_controller_that_kept_the_flag_is_restarted_without_it_long_after_the_migration_was_finalized() -> None:
    """Controller 3002 died, and was started again with the flag after 3003, without it, had ended the migration."""
    over = cluster(P.FINALIZED, a_node(3002, Shape.MIGRATING_CONTROLLER))
    long_after = replace(over, source=replace(over.source, offset=over.source.offset + 10_000))
    assert restarted(approved(long_after)) == 3002
