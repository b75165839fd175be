"""Comparisons of ZooKeeper with the metadata log during a migration: when one is made, and which steps it allows."""

from __future__ import annotations

from datetime import timedelta

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import EMPTY
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Stalled, Wait
from kafkafeatures.core.engine.desired_state import DesiredState, Migration
from kafkafeatures.core.engine.kind import ReadContext
from kafkafeatures.core.facts.observation import Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED
from kafkafeatures.core.facts.znodes import StoreComparison
from kafkafeatures.core.migration.memory import DualWrite, MigrationMemory
from kafkafeatures.core.migration.not_desired import MIGRATION
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.read_requirements import demands_of
from tests.kafkafeatures.core.migrations import (
    Look,
    approved,
    cluster,
    looks,
    message_of,
    restarted,
    status_after,
    status_that_requests_consents,
    wanting,
)
from tests.kafkafeatures.worlds import NOW, known

P, D = Position, Desired
DIFFERS = known(
    StoreComparison(
        NOW, 99, 1, "ZooKeeper and the metadata log differ: 1 topic", ("topic orders: 1 in one, 2 in the other",)
    )
)


def test_the_next_edge_is_held_while_the_stores_differ_or_were_not_compared() -> None:
    for position, desired in ((P.COPIED, D.DUAL_WRITE), (P.DUAL_WRITE, D.ROLLED_BACK), (P.COPIED, D.ROLLED_BACK)):
        differs = looks(wanting(desired), replace(cluster(position), compared=DIFFERS))
        assert isinstance(differs.decision, Stalled)
        assert differs.decision.reason is Reason.METADATA_DIFFERS
        assert "topic orders" in message_of(differs)
        unknown = looks(wanting(desired), replace(cluster(position), compared=Unknown(NOT_ASKED)))
        assert isinstance(unknown.decision, Wait)
        assert "not known whether" in message_of(unknown)
    assert isinstance(approved(replace(cluster(P.DUAL_WRITE), compared=DIFFERS)).decision, Stalled)


def test_a_consent_allows_a_rollback_to_a_zookeeper_that_lacks_metadata_and_no_step_forward() -> None:
    consents = frozenset({"zk-rollback-lossy"})
    observation = replace(cluster(P.DUAL_WRITE), compared=DIFFERS)
    wanted = wanting(D.ROLLED_BACK, consents=consents)
    assert restarted(looks(wanted, observation, status=status_that_requests_consents(wanted, observation))) == 1
    forward = looks(wanting(D.DUAL_WRITE, consents=consents), replace(cluster(P.COPIED), compared=DIFFERS))
    assert isinstance(forward.decision, Stalled)


def test_a_process_that_has_just_started_compares_the_stores_at_once_and_then_once_a_minute() -> None:
    """A comparison of another process, which the status has, allows no step, however recent it is."""
    look = looks(wanting(D.DUAL_WRITE), cluster(P.COPIED))
    status = status_after(look)
    assert status.migration is not None
    assert status.migration.equality is not None

    def is_compared(seconds: float, *, has_just_started: bool) -> bool:
        """Tell whether the stores are compared again, so many seconds after the comparison."""
        memory = {name: memory for stage in look.stages for name, memory in stage.stage_memory.items()}
        context = ReadContext(
            look.wanted, status, NOT_ASKED, NOW + timedelta(seconds=seconds), look.observation,
            {} if has_just_started else memory,
        )  # fmt: skip
        return demands_of(context, Migration(D.DUAL_WRITE, timedelta(0))).comparison

    assert is_compared(1, has_just_started=True)
    assert not is_compared(59, has_just_started=False)
    assert is_compared(60, has_just_started=False)


def test_a_comparison_of_the_stores_counts_for_two_minutes() -> None:
    first = looks(wanting(D.DUAL_WRITE), cluster(P.COPIED))
    unread = replace(cluster(P.COPIED), compared=Unknown(NOT_ASKED))
    assert isinstance(Look(wanting(D.DUAL_WRITE), unread, before=first, seconds=120).decision, Act)
    assert isinstance(Look(wanting(D.DUAL_WRITE), unread, before=first, seconds=121).decision, Wait)


def is_compared_in_dual_write(
    wanted: DesiredState,
    *,
    compared_ago: timedelta = timedelta(minutes=5),
    reached_ago: timedelta = timedelta(hours=1),
) -> bool:
    """Tell whether the stores are compared again in dual write. Negative times: a clock was set back since."""
    tried = NOW - compared_ago
    dual_write = DualWrite(
        offset=103, since=NOW - reached_ago, log_time=NOW, measured_at=0.0, seen_at=0.0, measured_from=(NOW, 0.0)
    )
    memory = MigrationMemory(compared=StoreComparison(tried, 99), tried=tried, dual_write=dual_write)
    context = ReadContext(wanted, EMPTY, NOT_ASKED, NOW, cluster(P.DUAL_WRITE), {MIGRATION: memory})
    assert wanted.migration is not None
    return demands_of(context, wanted.migration).comparison


def test_the_stores_are_compared_again_after_a_minute_also_where_the_clock_was_set_back() -> None:
    back = wanting(D.ROLLED_BACK)
    assert is_compared_in_dual_write(back)
    assert not is_compared_in_dual_write(back, compared_ago=timedelta(seconds=30))
    assert is_compared_in_dual_write(back, compared_ago=timedelta(hours=-25))


def test_before_finalizing_the_stores_are_compared_only_once_the_hold_is_over() -> None:
    finalizing = wanting(D.FINALIZED, hold=timedelta(minutes=1), approvals=frozenset({"sha256:12345678"}))
    assert not is_compared_in_dual_write(finalizing, reached_ago=timedelta(seconds=30))
    assert not is_compared_in_dual_write(finalizing, reached_ago=timedelta(hours=-25))
    assert is_compared_in_dual_write(finalizing, reached_ago=timedelta(hours=1))
