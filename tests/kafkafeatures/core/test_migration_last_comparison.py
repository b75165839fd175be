"""`/controller` and `/migration` are deleted only if ZooKeeper was observed to hold all metadata until the end: in a
rollback from `Copied`, after all controllers have stopped (`GONE`). `released`: the deletion that was decided.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from kafkafeatures.api.names import ZK_ROLLBACK_LOSSY
from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import EMPTY, EqualityStatus, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Stalled, Wait
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.kind import ReadContext
from kafkafeatures.core.engine.memory import NO_MEMORY, Memory
from kafkafeatures.core.facts.observation import Known, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind
from kafkafeatures.core.facts.znodes import MigrationZnode, StoreComparison
from kafkafeatures.core.migration.memory import MigrationMemory
from kafkafeatures.core.migration.not_desired import MIGRATION
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.read_requirements import demands_of
from kafkafeatures.core.migration.stopped import STILL_FOR
from tests.kafkafeatures.core.migrations import (
    SEEN_VOTERS,
    Look,
    cluster,
    compared,
    looks,
    message_of,
    released,
    status_after_decision,
    status_that_requests_consents,
    wanting,
    without_quorum,
)
from tests.kafkafeatures.ensembles import claimed, progress
from tests.kafkafeatures.ensembles import reading as znodes
from tests.kafkafeatures.worlds import NOW, known

BACK = wanting(Desired.ROLLED_BACK)
ACCEPTED = wanting(Desired.ROLLED_BACK, consents=frozenset({ZK_ROLLBACK_LOSSY}))
GONE = without_quorum(cluster(Position.COPIED))
DATED = compared().migration
assert DATED is not None
assert DATED.equality is not None
UNDATED = Status(migration=replace(DATED, equality=replace(DATED.equality, written_at=None)))
"""The last comparison, of a status that does not say when `/migration` was written then."""
LACKING = {
    "was not compared": SEEN_VOTERS,
    "before the controllers stopped: 2 differences": compared(2),
    "compared with the metadata log 6 min": compared(ago=timedelta(minutes=6)),
    "/migration is 30 s older than at the last comparison": compared(ago=timedelta(seconds=-30)),
    "the date of that is not known": UNDATED,
}
"""Statuses whose last comparison proves nothing, by what the message says about it."""


def decided(
    status: Status = EMPTY, wanted: DesiredState = BACK, *, observation: Observation = GONE, before: Look | None = None,
    memory: Memory = NO_MEMORY,
) -> Look:  # fmt: skip
    """Return the decision without controllers once `/migration` has been unchanged for long enough. `before`: decision
    of this process while they ran.
    """
    stopped = Look(wanted, observation, status=status, before=before, memory=memory)
    return Look(wanted, observation, status=status, before=stopped, seconds=STILL_FOR, memory=memory)


def with_comparison(observation: Observation, differences: int, *, at: datetime = NOW) -> Observation:
    """Return the observation with a comparison of both stores at this time."""
    return replace(observation, compared=known(StoreComparison(at, 99, differences), SourceKind.ZOOKEEPER))


def test_znodes_are_deleted_where_the_stores_were_equal_until_shortly_before_the_last_write() -> None:
    assert released(decided(compared())).deletes
    assert released(decided(compared(ago=timedelta(minutes=4)))).deletes
    assert released(decided(compared(ago=timedelta(seconds=-5)))).deletes  # another server of the ensemble may lag


def test_from_the_stop_of_the_controllers_until_the_deletion_the_operator_observes_at_least_every_two_seconds() -> None:
    """Meanwhile no partition gets a new leader."""
    unread = replace(GONE, zookeeper=Unknown(Failure(FailureKind.TIMED_OUT, "ZooKeeper", "no answer in time")))
    looks_and_delays = {
        "controllers are asked to stop": (looks(BACK, cluster(Position.COPIED)), 2.0),
        "they are gone, so the deletion is next": (Look(BACK, GONE, status=compared()), 1.0),
        "they are gone, and ZooKeeper cannot be read": (Look(BACK, unread, status=compared()), 2.0),
    }
    for case, (look, most_seconds) in looks_and_delays.items():
        assert isinstance(look.decision, Wait), case
        assert look.decision.delay <= most_seconds, case
        assert look.decision.steady, case  # the delay does not grow


def test_controllers_that_all_stop_answering_are_waited_for_for_a_minute_before_the_migration_stalls() -> None:
    """The controllers may only be restarting, so a rollback is not asked for at once."""
    wanted = wanting(Desired.DUAL_WRITE)
    first = Look(wanted, GONE)
    assert isinstance(first.decision, Wait)
    assert "no controller answers; this may pass" in first.decision.message
    assert isinstance(Look(wanted, GONE, before=first, seconds=59.0).decision, Wait)
    assert isinstance(Look(wanted, GONE, before=first, seconds=61.0).decision, Stalled)


@pytest.mark.parametrize("says", LACKING)
def test_no_znode_is_deleted_where_the_last_comparison_does_not_show_that_zookeeper_has_all_metadata(says: str) -> None:
    look = decided(LACKING[says])
    assert isinstance(look.decision, Stalled)
    assert says in message_of(look)
    assert "if the controllers still have their disks, start them again" in message_of(look)
    assert f"add {ZK_ROLLBACK_LOSSY} to consents" in message_of(look)


def test_the_reason_is_metadata_differs_only_where_the_last_comparison_showed_differences() -> None:
    assert decided(compared(2)).decision.reason is Reason.METADATA_DIFFERS
    assert decided(EMPTY).decision.reason is Reason.MIGRATION_BLOCKED


@pytest.mark.parametrize("says", LACKING)
def test_a_rollback_consent_allows_the_deletion_of_znodes_and_is_spent_by_it(says: str) -> None:
    status = status_that_requests_consents(ACCEPTED, GONE, LACKING[says])
    look = decided(status, ACCEPTED)
    assert released(look).deletes
    assert ZK_ROLLBACK_LOSSY in status_after_decision(look, status).spent_consents


def test_a_deletion_of_znodes_that_needs_no_rollback_consent_does_not_spend_it() -> None:
    look = decided(compared(), ACCEPTED)
    assert released(look).deletes
    assert ZK_ROLLBACK_LOSSY not in status_after_decision(look, compared()).spent_consents


def test_a_rollback_consent_that_was_spent_does_not_allow_the_deletion_of_znodes() -> None:
    memory = replace(NO_MEMORY, spent=frozenset({ZK_ROLLBACK_LOSSY}))
    assert decided(compared(2), ACCEPTED, memory=memory).decision.reason is Reason.CONSENT_SPENT


def test_znodes_are_deleted_without_a_comparison_where_the_quorum_copied_nothing() -> None:
    claims = known(znodes(controller=claimed(), migration=progress(-1)), SourceKind.ZOOKEEPER)
    observation = replace(GONE, zookeeper=claims)
    assert released(decided(SEEN_VOTERS, observation=observation)).deletes


@pytest.mark.parametrize("left", [None, progress(-1)], ids=["znode deleted", "znode created again"])
def test_znodes_are_deleted_only_with_a_consent_where_the_migration_znode_was_changed_by_others(
    left: MigrationZnode | None,
) -> None:
    """Once `/migration` was deleted or made anew, controllers would not write to ZooKeeper: to
    start them is no remedy.
    """
    observation = replace(GONE, zookeeper=known(znodes(controller=claimed(), migration=left), SourceKind.ZOOKEEPER))
    for status in (compared(), compared(2)):
        look = decided(status, observation=observation)
        assert isinstance(look.decision, Stalled)
        assert "start them again" not in message_of(look)
        assert f"add {ZK_ROLLBACK_LOSSY} to consents" in message_of(look)


def test_the_stores_are_compared_every_five_seconds_while_the_controllers_are_to_be_stopped() -> None:
    """A comparison that failed is repeated as soon; one that takes longer, only after twice its duration."""
    look = looks(BACK, cluster(Position.COPIED))
    assert isinstance(look.decision, Wait)
    assert look.decision.reason is Reason.WAITING_FOR_GIT
    assert look.decision.steady
    status = status_after_decision(look)

    def is_compared(seconds: float, *, took: float = 0.3, tried: datetime = NOW) -> bool:
        """Tell whether the stores are compared again, these seconds after a comparison that lasted `took`."""
        stage_memory = {MIGRATION: MigrationMemory(compared=StoreComparison(NOW, 99, took=took), tried=tried)}
        context = ReadContext(
            BACK,
            status,
            NOT_ASKED,
            NOW + timedelta(seconds=seconds),
            observation=look.observation,
            stage_memory=stage_memory,
        )
        assert BACK.migration is not None
        return demands_of(context, BACK.migration).comparison

    assert not is_compared(4)
    assert is_compared(5)
    assert not is_compared(19, took=10)
    assert is_compared(20, took=10)
    failed = NOW + timedelta(seconds=5)
    assert not is_compared(9, tried=failed)
    assert is_compared(10, tried=failed)


def test_a_comparison_is_remembered_by_the_process_when_its_status_could_not_be_written() -> None:
    """The comparison shows differences, then the controllers stop. The status still has an older comparison, without
    any, whose time is later: another process, with a wrong clock, wrote it.
    """
    equal = status_after_decision(looks(BACK, cluster(Position.COPIED)))
    assert equal.migration is not None
    assert equal.migration.equality is not None
    ahead = replace(equal.migration.equality, at=stamp(NOW + timedelta(hours=1)))
    equal = replace(equal, migration=replace(equal.migration, equality=ahead))
    later = NOW + timedelta(seconds=6)
    observation = replace(with_comparison(cluster(Position.COPIED), 2, at=later), at=later)
    unwritten = Look(BACK, observation, status=equal)
    assert decided(equal, before=unwritten).decision.reason is Reason.METADATA_DIFFERS
    assert released(decided(equal)).deletes


@pytest.mark.parametrize("zookeeper_is_read", [True, False])
def test_a_comparison_counts_also_while_the_phase_of_the_migration_is_unknown(zookeeper_is_read: bool) -> None:
    """The controllers stop, or ZooKeeper does not answer, right after the comparison; another process continues."""
    equal = status_after_decision(looks(BACK, cluster(Position.COPIED)))
    unread = Failure(FailureKind.TIMED_OUT, "ZooKeeper", "no answer in time")
    lost = replace(cluster(Position.COPIED), zk_migration_state=Unknown(unread), source=GONE.source)
    lost = lost if zookeeper_is_read else replace(lost, zookeeper=Unknown(unread))
    unequal = status_after_decision(Look(BACK, with_comparison(lost, 2), status=equal), equal)
    assert decided(unequal).decision.reason is Reason.METADATA_DIFFERS
    still_equal = status_after_decision(Look(BACK, with_comparison(lost, 0), status=equal), equal)
    assert released(decided(still_equal)).deletes


def test_a_later_comparison_of_another_process_in_the_status_counts() -> None:
    equal = status_after_decision(looks(BACK, cluster(Position.COPIED)))
    ours = Look(BACK, cluster(Position.COPIED), status=equal)  # this process saw that both stores are equal
    theirs = compared(2, ago=-timedelta(seconds=60))  # another one found differences, after 60 s more of writes
    assert decided(theirs, before=ours).decision.reason is Reason.METADATA_DIFFERS


def test_an_observation_without_an_answer_keeps_the_last_comparison() -> None:
    last = equality(compared(2))
    assert MigrationMemory(equality=last).interrupted("no node answers").equality == last


def test_a_comparison_of_another_cluster_does_not_count() -> None:
    """A resource that was deleted and created again for another cluster, before the operator saw that it was gone."""
    another_cluster = replace(
        cluster(Position.COPIED), cluster_id=known("another"), zookeeper=known(znodes(cluster_id="another"))
    )
    assert "was not compared" in message_of(decided(before=Look(BACK, another_cluster)))


def without_a_result(kind: FailureKind) -> Status:
    """Return the status after a comparison with a result and a later one without."""
    with_result = status_after_decision(looks(BACK, cluster(Position.COPIED)))
    failed = replace(cluster(Position.COPIED), compared=Unknown(Failure(kind, "", "no result")))
    status = status_after_decision(Look(BACK, failed, status=with_result), with_result)
    last = equality(status)
    assert last is not None
    assert last.state == "Unknown"
    return status


def test_a_comparison_without_a_result_keeps_the_previous_comparison() -> None:
    """The log can no longer be read while the controllers are stopping."""
    assert released(decided(without_a_result(FailureKind.NO_LEADER))).deletes


def test_an_earlier_comparison_no_longer_counts_once_zookeeper_was_behind() -> None:
    """What the controllers could not write is in no comparison, and `/migration` does not move meanwhile."""
    assert isinstance(decided(without_a_result(FailureKind.STALE)).decision, Stalled)


def test_controllers_are_not_to_be_stopped_where_the_last_comparison_failed() -> None:
    first = looks(BACK, cluster(Position.COPIED))
    assert first.decision.reason is Reason.WAITING_FOR_GIT
    failed = Unknown(Failure(FailureKind.TIMED_OUT, "ZooKeeper", "no answer in time"))
    observation = replace(cluster(Position.COPIED), compared=failed)
    later = Look(BACK, replace(observation, at=NOW + timedelta(seconds=5)), before=first, seconds=5.0)
    assert "no answer in time" in message_of(later)
    unread = replace(observation, at=NOW + timedelta(seconds=7), compared=Unknown(NOT_ASKED))
    assert "it is not known whether ZooKeeper and the metadata log" in message_of(Look(BACK, unread, before=later))


def test_controllers_are_not_to_be_stopped_while_zookeeper_is_behind() -> None:
    up_to_date = cluster(Position.COPIED, offset=99)
    up_to_date = replace(up_to_date, source=replace(up_to_date.source, offset=100))
    behind = replace(up_to_date, source=replace(up_to_date.source, offset=900))
    late = Look(BACK, behind, before=Look(BACK, up_to_date), seconds=11.0)
    assert "0:00:11 behind the metadata log; at most 10 s are allowed" in message_of(late)
    assert Look(BACK, behind, before=Look(BACK, up_to_date), seconds=9.0).decision.reason is Reason.WAITING_FOR_GIT


def test_the_comparison_leaves_the_status_once_the_rollback_is_over() -> None:
    first = status_after_decision(looks(BACK, cluster(Position.COPIED)))
    assert equality(first) is not None
    assert equality(status_after_decision(looks(BACK, cluster(Position.ZOOKEEPER), status=first), first)) is None


def test_a_comparison_with_the_same_result_is_written_to_the_status_once_in_half_a_minute() -> None:
    first = status_after_decision(looks(BACK, cluster(Position.COPIED)))

    def later(seconds: float) -> Status:
        observation = cluster(Position.COPIED)
        assert isinstance(observation.zookeeper, Known)
        written = progress()
        moved = replace(written, written_at=written.written_at + timedelta(seconds=seconds))
        znodes = replace(observation.zookeeper, value=replace(observation.zookeeper.value, migration=moved))
        return status_after_decision(looks(BACK, replace(observation, zookeeper=znodes), status=first), first)

    assert equality(later(29)) == equality(first)
    assert equality(later(30)) != equality(first)


def equality(status: Status) -> EqualityStatus | None:
    return status.migration.equality if status.migration is not None else None
