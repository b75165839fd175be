"""A migration in the status: its phase, the way back, the restarts left, and the verdict of its plan."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafkafeatures.api.reasons import PlanVerdict, Reason
from kafkafeatures.api.records import Stamp, stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import EqualityStatus, MigrationStatus, RolloutStatus, Status, Via, WayBack
from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind
from kafkafeatures.core.facts.znodes import StoreComparison
from kafkafeatures.core.migration.positions import FLAG, Position
from kafkafeatures.core.migration.settings import Shape
from kafkafeatures.core.migration.way_back import WHAT_LACKS
from kafkafeatures.core.report.plan_document import plan_verdict
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from tests.kafkafeatures.core.migrations import Look, a_node, cluster, in_dual_write_for, looks, status_after, wanting
from tests.kafkafeatures.worlds import NOW, SILENT, known

P, D = Position, Desired
EARLIER = Stamp("2026-01-01T03:04:05Z")
IN_DUAL_WRITE = Status(migration=MigrationStatus(phase="DualWrite", position="DualWrite", since=EARLIER))
NOT_COMPARED = Unknown(Failure(FailureKind.STALE, "znode /migration", "it moved on each time"))


def migration_of(status: Status) -> MigrationStatus:
    assert status.migration is not None
    return status.migration


FOUND_EQUAL = Status(
    migration=replace(migration_of(IN_DUAL_WRITE), equality=EqualityStatus(at=EARLIER, state="Equal", differences=0))
)
"""`IN_DUAL_WRITE`, with a comparison that found no difference."""


def how_back(status: Status) -> str:
    return status.way_back.how if status.way_back is not None else ""


def test_the_migration_status_has_phase_since_modes_state_and_lag() -> None:
    half_way = cluster(P.COPIED, a_node(1, Shape.KRAFT_BROKER), offset=70)
    migration = migration_of(status_after(looks(wanting(D.DUAL_WRITE), half_way)))
    assert (migration.phase, migration.position, migration.since) == ("Migrating", "Copied", "2026-01-02T03:04:05Z")
    assert migration.zk_migration_state == "MIGRATION"
    assert migration.brokers is not None
    assert (migration.brokers.zoo_keeper, migration.brokers.flagged, migration.brokers.kraft) == (0, 2, 1)
    assert migration.lag_records == half_way.source.offset - 1 - 70
    equal = EqualityStatus(at=migration.since, state="Equal", differences=0, written_at=migration.since)
    assert (migration.equality, migration.node_seconds) == (equal, 0)


def test_after_finalization_no_lag_of_zookeeper_is_reported() -> None:
    """ZooKeeper is never written again, and the metadata log grows: an alert about that would never end."""
    wanted = wanting(D.FINALIZED)
    assert migration_of(status_after(looks(wanted, cluster(P.FINALIZED, offset=70)))).lag_records is None
    one_with_flag = cluster(P.FINALIZED, a_node(3001, Shape.MIGRATING_CONTROLLER), offset=70)
    assert migration_of(status_after(looks(wanted, one_with_flag))).lag_records is None


def test_since_is_the_time_at_which_the_phase_began_and_not_the_last_reconciliation() -> None:
    migration = migration_of(status_after(looks(wanting(D.DUAL_WRITE), cluster(P.DUAL_WRITE)), IN_DUAL_WRITE))
    assert migration.since == EARLIER
    migration = migration_of(status_after(looks(wanting(D.ROLLED_BACK), cluster(P.DUAL_WRITE)), IN_DUAL_WRITE))
    assert (migration.phase, migration.since) == ("RollingBack", "2026-01-02T03:04:05Z")


def test_the_last_migration_status_stays_while_the_phase_is_unknown() -> None:
    unread = replace(cluster(P.DUAL_WRITE), zookeeper=Unknown(SILENT), quorum=Unknown(SILENT))
    status = status_after(looks(wanting(D.DUAL_WRITE), unread), IN_DUAL_WRITE)
    assert status.migration == IN_DUAL_WRITE.migration
    assert status.way_back is None


def test_a_comparison_without_a_result_is_unknown_in_the_status_with_the_time_of_the_last_result() -> None:
    observation = replace(cluster(P.DUAL_WRITE), compared=NOT_COMPARED)
    status = status_after(looks(wanting(D.DUAL_WRITE), observation, status=FOUND_EQUAL), FOUND_EQUAL)
    assert migration_of(status).equality == EqualityStatus(at=EARLIER, state="Unknown", differences=0)


def test_the_status_keeps_the_last_comparison_in_a_reconciliation_that_compares_nothing() -> None:
    observation = replace(cluster(P.DUAL_WRITE), compared=Unknown(NOT_ASKED))
    status = status_after(looks(wanting(D.DUAL_WRITE), observation, status=FOUND_EQUAL), FOUND_EQUAL)
    assert migration_of(status).equality == migration_of(FOUND_EQUAL).equality


# --- how much is left ---


@pytest.mark.parametrize(
    ("position", "desired", "left"),
    [
        (P.PRE_MIGRATION, D.DUAL_WRITE, 6),
        (P.COPIED, D.DUAL_WRITE, 3),
        (P.DUAL_WRITE, D.DUAL_WRITE, 0),
        (P.DUAL_WRITE, D.FINALIZED, 3),
        (P.DUAL_WRITE, D.ROLLED_BACK, 6),
        (P.COPIED, D.ROLLED_BACK, 3),
    ],
)
def test_the_restarts_left_are_those_of_all_edges_to_the_target(
    position: Position, desired: Desired, left: int
) -> None:
    """There are three brokers and three controllers: three restarts for each edge that restarts nodes."""
    assert migration_of(status_after(looks(wanting(desired), cluster(position)))).restarts_left == left


def test_a_node_that_was_already_moved_is_not_among_the_restarts_left() -> None:
    observation = cluster(P.COPIED, a_node(1, Shape.KRAFT_BROKER))
    assert migration_of(status_after(looks(wanting(D.DUAL_WRITE), observation))).restarts_left == 2


def test_remaining_restarts_are_unknown_with_a_node_of_unknown_settings_that_is_not_in_flight() -> None:
    silent = replace(a_node(2, Shape.FLAGGED_BROKER), settings={}, proved_at="")
    observation = cluster(P.COPIED, silent)
    assert migration_of(status_after(looks(wanting(D.DUAL_WRITE), observation))).restarts_left is None
    step = RestartNode(2, "broker 2", broker_epoch=102)
    sent = (RestartInFlight(step, Stamp("2026-01-02T03:00:00Z"), Via.PERSON),)
    assert migration_of(status_after(looks(wanting(D.DUAL_WRITE), observation, sent=sent))).restarts_left == 3


def test_the_status_keeps_the_seconds_of_a_restart_from_roll_to_roll() -> None:
    measured = Status(rollout=RolloutStatus(id="1", total=3, done=3, restarted=3, node_seconds=42))
    first = status_after(looks(wanting(D.DUAL_WRITE), cluster(P.COPIED)), measured)
    assert migration_of(first).node_seconds == 42
    later = status_after(looks(wanting(D.DUAL_WRITE), cluster(P.COPIED)), replace(first, rollout=None))
    assert migration_of(later).node_seconds == 42


@pytest.mark.parametrize("position", [P.PRE_MIGRATION, P.COPIED])
def test_the_rollout_status_counts_a_restart_as_done_while_the_controllers_are_to_be_stopped(
    position: Position,
) -> None:
    waits = RolloutStatus(id="1", total=3, done=2, waiting_for="broker 2 is in sync", restarted=3)
    rollout = status_after(looks(wanting(D.ROLLED_BACK), cluster(position)), Status(rollout=waits)).rollout
    assert rollout is not None
    assert (rollout.done, rollout.total, rollout.waiting_for) == (3, 3, "")


# --- the way back ---


def test_each_step_of_a_migration_plan_has_its_way_back_and_what_would_be_lost() -> None:
    plan = status_after(Look(wanting(D.DUAL_WRITE), cluster(P.ZOOKEEPER))).plan
    assert plan is not None
    assert [step.way_back for step in plan.steps] == [
        "way back to ZooKeeper: stop the controllers, let KafkaFeatures delete /migration; nothing is lost",
        "way back to ZooKeeper: stop the controllers, let KafkaFeatures delete /controller and /migration, restart "
        f"each broker without {FLAG}; {WHAT_LACKS}",
        f"way back to ZooKeeper: restart each broker in ZooKeeper mode with {FLAG}, stop the controllers, let "
        f"KafkaFeatures delete /controller and /migration, restart each broker without it; {WHAT_LACKS}",
    ]
    last = status_after(Look(wanting(D.FINALIZED), cluster(P.DUAL_WRITE))).plan
    assert last is not None
    assert [(step.way_back, step.undo) for step in last.steps] == [
        (
            f"no way back: the migration ends when a controller without {FLAG} becomes the active controller",
            "Impossible",
        )
    ]


@pytest.mark.parametrize("position", [P.PRE_MIGRATION, P.COPIED, P.DUAL_WRITE])
def test_the_status_says_how_to_go_back_before_the_migration_is_finalized(position: Position) -> None:
    status = status_after(looks(wanting(D.DUAL_WRITE), cluster(position)))
    assert status.way_back is not None
    assert status.way_back.until is None
    assert status.way_back.how.startswith("to ZooKeeper mode: set spec.migration.desired to RolledBack, ")
    assert "nothing is lost" in status.way_back.how
    assert len(status.way_back.how) <= 512


@pytest.mark.parametrize(("position", "desired"), [(P.FINALIZED, D.FINALIZED), (P.ZOOKEEPER, D.PRE_MIGRATION)])
def test_there_is_no_way_back_from_a_finalized_migration_or_one_that_has_not_begun(
    position: Position, desired: Desired
) -> None:
    assert status_after(looks(wanting(desired), cluster(position))).way_back is None


def test_the_way_back_names_the_differences_of_the_last_comparison_as_what_would_be_lost() -> None:
    differs = known(StoreComparison(NOW, 99, 7, "they differ", ("topic a",)))
    lossy = replace(cluster(P.DUAL_WRITE), compared=differs)
    assert "7 differences at 2026-01-02T03:04:05Z; to go back anyway needs the consent zk-rollback-lossy" in how_back(
        status_after(looks(wanting(D.DUAL_WRITE), lossy))
    )


def test_the_way_back_says_that_the_loss_is_unknown_where_the_stores_could_not_be_compared() -> None:
    unread = replace(cluster(P.DUAL_WRITE), compared=NOT_COMPARED)
    assert "it is not known what would be lost" in how_back(status_after(looks(wanting(D.DUAL_WRITE), unread)))


def way_back_until(hours: float, before: Status = IN_DUAL_WRITE, *, is_read: bool = True) -> str | None:
    """Return the end of the way back after so many hours in dual write, with a hold of 48 h. The present is
    2026-01-02T03:04:05Z. `is_read`: the log shows when dual write began.
    """
    observation = in_dual_write_for(timedelta(hours=hours))
    observation = observation if is_read else replace(observation, last_registration=None)
    wanted = wanting(D.FINALIZED, hold=timedelta(hours=48))
    way_back = status_after(Look(wanted, observation, status=before), before).way_back
    assert way_back is not None
    return way_back.until


def test_the_way_back_of_dual_write_is_open_until_the_hold_of_the_document_ends() -> None:
    assert way_back_until(0) == "2026-01-04T03:04:05Z"
    assert way_back_until(24) == "2026-01-03T03:04:05Z"
    assert way_back_until(48) is None


A_SECOND_LATER = replace(IN_DUAL_WRITE, way_back=WayBack(until=Stamp("2026-01-03T03:04:06Z"), how="back"))
"""A status with an end of the way back that is a second later than the one calculated after 24 h."""


def test_the_end_of_the_way_back_is_not_changed_in_the_status_for_a_second() -> None:
    assert way_back_until(24, A_SECOND_LATER) == "2026-01-03T03:04:06Z"


def test_the_end_of_the_way_back_is_that_of_the_status_or_else_a_whole_hold_ahead_if_the_log_does_not_show_it() -> None:
    assert way_back_until(24, A_SECOND_LATER, is_read=False) == "2026-01-03T03:04:06Z"
    assert way_back_until(24, is_read=False) == "2026-01-04T03:04:05Z"


def test_the_status_records_since_when_the_cluster_has_been_in_dual_write_until_it_leaves_dual_write() -> None:
    observation = in_dual_write_for(timedelta(hours=5), offset=103)
    first = status_after(looks(wanting(D.DUAL_WRITE), observation)).migration
    assert first is not None
    assert (first.dual_write_since, first.dual_write_offset) == (stamp(NOW - timedelta(hours=5)), 103)
    before = Status(migration=first)
    unread = replace(cluster(P.DUAL_WRITE), last_registration=None)
    later = status_after(looks(wanting(D.DUAL_WRITE), unread, status=before), before).migration
    assert later is not None
    assert (later.dual_write_since, later.dual_write_offset) == (first.dual_write_since, first.dual_write_offset)
    rolled_back = status_after(looks(wanting(D.DUAL_WRITE), cluster(P.COPIED), status=before), before).migration
    assert rolled_back is not None
    assert (rolled_back.dual_write_since, rolled_back.dual_write_offset) == (None, None)


def test_before_the_controllers_stop_the_status_of_a_rollback_says_how_to_return_to_dual_write() -> None:
    assert how_back(status_after(looks(wanting(D.ROLLED_BACK), cluster(P.COPIED)))) == (
        "to dual write: set spec.migration.desired to DualWrite, restart each broker in KRaft mode again; "
        "nothing is lost"
    )


# --- the verdict ---


@pytest.mark.parametrize(("position", "desired"), [(P.ZOOKEEPER, D.PRE_MIGRATION), (P.COPIED, D.ROLLED_BACK)])
def test_the_verdict_of_a_migration_plan_that_waits_for_git_is_changes(position: Position, desired: Desired) -> None:
    look = looks(wanting(desired), cluster(position))
    assert look.decision.reason is Reason.WAITING_FOR_GIT
    assert plan_verdict(status_after(look), 1) is PlanVerdict.CHANGES


def test_the_verdict_of_a_migration_plan_is_unknown_while_the_position_is_unknown() -> None:
    unread = replace(cluster(P.DUAL_WRITE), zookeeper=Unknown(SILENT), quorum=Unknown(SILENT))
    assert plan_verdict(status_after(looks(wanting(D.ROLLED_BACK), cluster(P.DUAL_WRITE))), 1) is PlanVerdict.CHANGES
    assert plan_verdict(status_after(looks(wanting(D.ROLLED_BACK), unread)), 1) is PlanVerdict.UNKNOWN
