"""`/controller` and `/migration` are deleted only where ZooKeeper was seen to hold all metadata until the end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafkafeatures.api.names import ZK_ROLLBACK_LOSSY
from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import EMPTY, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Stalled, Wait
from kafkafeatures.core.engine.kind import Asked
from kafkafeatures.core.engine.wanted import Wanted
from kafkafeatures.core.facts.observation import SourceKind, Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind
from kafkafeatures.core.facts.znodes import Compared
from kafkafeatures.core.migration.kept import MigrationKept
from kafkafeatures.core.migration.none_wanted import MIGRATION
from kafkafeatures.core.migration.now import demands_of
from kafkafeatures.core.migration.positions import Position
from tests.kafkafeatures.core.migrations import (
    Look,
    after,
    cluster,
    compared,
    looks,
    released,
    said,
    wanting,
    without_quorum,
)
from tests.kafkafeatures.ensembles import claimed, progress
from tests.kafkafeatures.ensembles import reading as znodes
from tests.kafkafeatures.worlds import NOW, known

BACK = wanting(Desired.ROLLED_BACK)
ACCEPTED = wanting(Desired.ROLLED_BACK, consents=frozenset({ZK_ROLLBACK_LOSSY}))
GONE = without_quorum(cluster(Position.COPIED))
LACKING = {
    "was not compared": EMPTY,
    "before the controllers stopped: 2 differences": compared(2),
    "compared with the metadata log 3 min": compared(ago=timedelta(minutes=3)),
    "/migration is 3 min older than at the last comparison": compared(ago=timedelta(minutes=-3)),
}


def decided(status: Status, wanted: Wanted = BACK) -> Look:
    """Once `/migration` has stood still for long enough."""
    return Look(wanted, GONE, before=Look(wanted, GONE), seconds=5.0, status=status)


def test_what_was_equal_until_a_moment_before_the_end_is_released() -> None:
    assert released(decided(compared())).deletes
    assert released(decided(compared(ago=timedelta(seconds=110)))).deletes


@pytest.mark.parametrize("says", LACKING)
def test_nothing_is_released_where_the_last_comparison_does_not_show_that_zookeeper_has_all(says: str) -> None:
    found = decided(LACKING[says])
    assert isinstance(found.decision, Stalled)
    assert says in said(found)
    assert "start the controllers again on the disks that they have" in said(found)
    assert f"add {ZK_ROLLBACK_LOSSY} to consents" in said(found)


def test_stores_that_differed_are_named_as_such() -> None:
    assert decided(compared(2)).decision.reason is Reason.METADATA_DIFFERS
    assert decided(EMPTY).decision.reason is Reason.MIGRATION_BLOCKED


@pytest.mark.parametrize("says", LACKING)
def test_a_consent_lets_it_go_once(says: str) -> None:
    found = decided(LACKING[says], ACCEPTED)
    assert released(found).deletes
    spent = after(found, LACKING[says])
    assert ZK_ROLLBACK_LOSSY in spent.spent_consents
    assert ZK_ROLLBACK_LOSSY not in after(decided(compared(), ACCEPTED), compared()).spent_consents


def test_a_consent_that_was_used_before_is_not_used_again() -> None:
    spent = decided(compared(2), ACCEPTED)
    memory = replace(spent.facts.memory, spent=frozenset({ZK_ROLLBACK_LOSSY}))
    before = Look(ACCEPTED, GONE, memory=memory)
    found = Look(ACCEPTED, GONE, before=before, seconds=5.0, status=compared(2), memory=memory).decision
    assert found.reason is Reason.CONSENT_SPENT


def test_a_quorum_that_copied_nothing_leaves_nothing_to_compare() -> None:
    claims = known(znodes(controller=claimed(), migration=progress(-1)), SourceKind.ZOOKEEPER)
    seen = replace(GONE, zookeeper=claims)
    assert released(Look(BACK, seen, before=Look(BACK, seen), seconds=5.0)).deletes


def test_a_progress_that_was_deleted_by_hand_leaves_it_unknown() -> None:
    seen = replace(GONE, zookeeper=known(znodes(controller=claimed(), migration=None), SourceKind.ZOOKEEPER))
    found = Look(BACK, seen, before=Look(BACK, seen), seconds=5.0, status=compared())
    assert isinstance(found.decision, Stalled)
    assert "/migration is absent" in said(found)


def test_while_the_controllers_are_to_be_stopped_both_are_compared_in_each_look() -> None:
    found = looks(BACK, cluster(Position.COPIED))
    assert isinstance(found.decision, Wait)
    assert found.decision.reason is Reason.WAITING_FOR_GIT
    assert found.decision.steady
    status = after(found)

    def compares(later: float, took: float = 0.3) -> bool:
        kept = {MIGRATION: MigrationKept(compared=Compared(NOW, 99, took=took))}
        asked = Asked(BACK, status, NOT_ASKED, NOW + timedelta(seconds=later), seen=found.seen, kept=kept)
        assert BACK.migration is not None
        return demands_of(asked, BACK.migration).comparison

    assert compares(5)
    assert not compares(4)
    assert not compares(19, took=10)
    assert compares(20, took=10)


def test_a_comparison_without_a_result_leaves_the_one_before_it() -> None:
    """The log can no longer be read while the controllers are stopping."""
    first = after(looks(BACK, cluster(Position.COPIED)))
    failed = Unknown(Failure(FailureKind.NO_LEADER, "metadata log", "no controller is active"))
    then = after(Look(BACK, replace(cluster(Position.COPIED), compared=failed), status=first), first)
    assert then.migration is not None
    assert then.migration.equality is not None
    assert then.migration.equality.state == "Unknown"
    assert released(decided(then)).deletes
