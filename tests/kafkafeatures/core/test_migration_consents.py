"""Consents of a migration: each counts for one plan and all its steps."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import EMPTY, MigrationStatus, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Stalled, Wait
from kafkafeatures.core.facts.observation import Observation, Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED
from kafkafeatures.core.facts.znodes import StoreComparison
from kafkafeatures.core.migration.copied.entries import Kind
from kafkafeatures.core.migration.equality import Differs, EntryDifference
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import Shape
from tests.kafkafeatures.core.migrations import (
    Look,
    a_node,
    approved,
    cluster,
    looks,
    memory_from,
    message_of,
    status_after_decision,
    status_that_requests_consents,
    wanting,
    without_quorum,
)
from tests.kafkafeatures.ensembles import CLUSTER
from tests.kafkafeatures.worlds import NOW, known

P, D = Position, Desired
LOSSY = frozenset({"zk-rollback-lossy"})
LACKS = known(StoreComparison(NOW, 99, 1, "ZooKeeper and the metadata log differ: 1 topic", ("topic orders",)))
IN_DUAL_WRITE = replace(cluster(P.DUAL_WRITE), compared=LACKS)
HALF_WAY = replace(cluster(P.DUAL_WRITE, a_node(1, Shape.FLAGGED_BROKER)), compared=LACKS)
COPIED = replace(cluster(P.COPIED), compared=LACKS)


def look_at_rollback(observation: Observation, status: Status, desired: Desired = D.ROLLED_BACK) -> Look:
    """Return the next look of any process, with what the status remembers."""
    memory = memory_from(status)
    return looks(wanting(desired, consents=LOSSY), observation, status=status, memory=memory)


SHOWN = status_that_requests_consents(wanting(D.ROLLED_BACK), IN_DUAL_WRITE)
"""The status after the differences were shown, with the request for a consent."""


def test_a_consent_used_for_the_first_node_holds_until_the_quorum_is_stopped() -> None:
    first = look_at_rollback(IN_DUAL_WRITE, SHOWN)
    assert isinstance(first.decision, Act)
    status = status_after_decision(first, SHOWN)
    assert status.spent_consents == ("zk-rollback-lossy",)
    for observation in (IN_DUAL_WRITE, HALF_WAY):
        following = look_at_rollback(observation, status)
        assert isinstance(following.decision, Act)
        status = status_after_decision(following, status)
    stops = look_at_rollback(COPIED, status)
    assert isinstance(stops.decision, Wait)
    assert "stop the controllers" in message_of(stops)


def test_a_used_consent_does_not_allow_a_second_rollback() -> None:
    status = status_after_decision(look_at_rollback(IN_DUAL_WRITE, SHOWN), SHOWN)
    forward_again = look_at_rollback(HALF_WAY, status, D.DUAL_WRITE)
    status = status_after_decision(forward_again, status)
    second = look_at_rollback(IN_DUAL_WRITE, status)
    assert isinstance(second.decision, Stalled)
    assert second.decision.reason is Reason.CONSENT_SPENT
    assert "remove it from consents, apply the document, then add it again" in message_of(second)


def test_a_consent_that_was_not_needed_is_not_spent() -> None:
    status = status_after_decision(look_at_rollback(cluster(P.DUAL_WRITE), EMPTY))
    assert status.spent_consents == ()


def test_a_consent_that_the_status_records_for_another_plan_does_not_count() -> None:
    migration = MigrationStatus(phase="RollingBack", consents=tuple(LOSSY))
    status = Status(cluster_id=CLUSTER, spent_consents=tuple(LOSSY), migration=migration)
    look = look_at_rollback(IN_DUAL_WRITE, status)
    assert isinstance(look.decision, Stalled)
    assert look.decision.reason is Reason.CONSENT_SPENT


@pytest.mark.parametrize("consents", [frozenset[str](), frozenset({"zk-finalize"})], ids=["removed", "kept"])
def test_the_consent_to_finalize_is_spent_by_the_first_restart_and_has_to_stay_for_the_next_one(
    consents: frozenset[str],
) -> None:
    look = approved(cluster(P.DUAL_WRITE))
    assert isinstance(look.decision, Act)
    status = status_after_decision(look)
    assert status.spent_consents == ("zk-finalize",)
    memory = memory_from(status)
    plan = look.proposal.plan.hash
    wanted = replace(look.wanted, consents=consents, approvals=frozenset({plan}))
    following = looks(wanted, cluster(P.DUAL_WRITE), status=status, memory=memory)
    assert isinstance(following.decision, Act) is bool(consents)


# --- the differences that were shown before a consent ---


def zookeeper_lacks(*topics: str) -> Observation:
    """Build a cluster whose brokers are all back while ZooKeeper lacks these topics."""
    differs = Differs(
        99, tuple(EntryDifference(Kind.TOPIC, topic, f"/brokers/topics/{topic}", "absent", "x") for topic in topics)
    )
    comparison = StoreComparison(
        NOW, 99, differs.total, str(differs), tuple(map(str, differs.examples)), digest=differs.digest
    )
    return replace(cluster(P.COPIED), compared=known(comparison))


def next_look(status: Status, observation: Observation, *consents: str) -> tuple[Look, Status]:
    """Return the next decision of any process, with these consents in the document, and the status after it."""
    status = replace(status, spent_consents=tuple(consent for consent in status.spent_consents if consent in consents))
    memory = memory_from(status)
    look = looks(wanting(D.ROLLED_BACK, consents=frozenset(consents)), observation, status=status, memory=memory)
    return look, status_after_decision(look, status)


def asks_to_stop_controllers(look: Look) -> bool:
    return "stop the controllers" in message_of(look)


def test_a_consent_covers_the_differences_that_were_shown_and_no_others() -> None:
    _, status = next_look(EMPTY, zookeeper_lacks("a"))
    look, status = next_look(status, zookeeper_lacks("a"), *LOSSY)
    assert asks_to_stop_controllers(look)
    assert status.spent_consents == tuple(LOSSY)
    assert asks_to_stop_controllers(next_look(status, zookeeper_lacks("a"), *LOSSY)[0])
    for other_topics in (["a", "b"], ["b"]):
        look, _ = next_look(status, zookeeper_lacks(*other_topics), *LOSSY)
        assert not asks_to_stop_controllers(look)
        assert "the consent zk-rollback-lossy does not count, as it was given before this was shown" in message_of(look)


@pytest.mark.parametrize("topics", [("a", "b"), ("b",)], ids=["one more", "another one"])
def test_a_consent_covers_other_differences_once_it_was_removed_and_added_again(topics: tuple[str, ...]) -> None:
    _, status = next_look(EMPTY, zookeeper_lacks("a"))
    _, status = next_look(status, zookeeper_lacks("a"), *LOSSY)
    _, status = next_look(status, zookeeper_lacks(*topics), *LOSSY)
    _, status = next_look(status, zookeeper_lacks(*topics))
    look, _ = next_look(status, zookeeper_lacks(*topics), *LOSSY)
    assert asks_to_stop_controllers(look)


def test_a_rollback_goes_on_once_the_differences_of_its_consent_are_resolved() -> None:
    _, status = next_look(EMPTY, zookeeper_lacks("a"))
    _, status = next_look(status, zookeeper_lacks("a"), *LOSSY)
    assert asks_to_stop_controllers(next_look(status, cluster(P.COPIED), *LOSSY)[0])


def test_differences_that_change_before_the_consent_is_given_need_a_new_consent() -> None:
    _, status = next_look(EMPTY, zookeeper_lacks("a"))
    look, _ = next_look(status, zookeeper_lacks("a", "b"), *LOSSY)
    assert not asks_to_stop_controllers(look)


def test_a_consent_given_before_any_difference_was_shown_does_not_count() -> None:
    _, status = next_look(EMPTY, cluster(P.COPIED))
    for observation in (cluster(P.COPIED), zookeeper_lacks("a"), zookeeper_lacks("a")):
        look, status = next_look(status, observation, *LOSSY)
    assert not asks_to_stop_controllers(look)
    assert status.spent_consents == ()
    _, status = next_look(status, zookeeper_lacks("a"))
    assert asks_to_stop_controllers(next_look(status, zookeeper_lacks("a"), *LOSSY)[0])


def test_the_differences_shown_for_a_consent_are_remembered_while_no_comparison_is_made() -> None:
    _, status = next_look(EMPTY, zookeeper_lacks("a"))
    _, status = next_look(status, replace(zookeeper_lacks("a"), compared=Unknown(NOT_ASKED)), *LOSSY)
    assert asks_to_stop_controllers(next_look(status, zookeeper_lacks("a"), *LOSSY)[0])


def test_a_consent_older_than_the_status_does_not_count() -> None:
    """The status was lost, and the document still has the consent of an earlier rollback."""
    status = EMPTY
    for observation in (cluster(P.COPIED), zookeeper_lacks("a"), zookeeper_lacks("a")):
        look, status = next_look(status, observation, *LOSSY)
    assert not asks_to_stop_controllers(look)


def test_a_consent_to_a_difference_that_was_resolved_does_not_cover_the_same_difference_later() -> None:
    _, status = next_look(EMPTY, zookeeper_lacks("a"))
    _, status = next_look(status, zookeeper_lacks("a"), *LOSSY)
    _, status = next_look(status, cluster(P.COPIED), *LOSSY)
    assert not asks_to_stop_controllers(next_look(status, zookeeper_lacks("a"), *LOSSY)[0])


PLACED = "replicas 1,2, in sync 1,2, leader 1 at epoch 4"


@pytest.mark.parametrize(
    ("kind", "before", "now", "is_the_same"),
    [
        (Kind.TOPIC_CONFIG, ("absent", "1"), ("absent", "2"), False),
        (Kind.TOPIC_CONFIG, ("1", "2"), ("absent", "2"), False),
        (Kind.PARTITION, ("absent", PLACED), ("absent", "replicas 1,2, in sync 2, leader 2 at epoch 5"), True),
        (Kind.PARTITION, ("absent", PLACED), ("absent", "replicas 1,2,3, in sync 2, leader 2 at epoch 5"), False),
        (Kind.PARTITION, (PLACED, PLACED), ("absent", PLACED), False),
        (Kind.PRODUCER_ID, ("1000", "2000"), ("1000", "3000"), True),
    ],
    ids=["another value in the log", "another value in ZooKeeper", "another leader", "another replica",
         "another partition of ZooKeeper", "next block of producer ids"],
)  # fmt: skip
def test_the_digest_of_differences_depends_on_lost_metadata_and_not_on_values_that_each_restart_changes(
    kind: Kind, before: tuple[str, str], now: tuple[str, str], *, is_the_same: bool
) -> None:
    difference, other = (Differs(99, (EntryDifference(kind, "a", "/a", *sides),)) for sides in (before, now))
    assert (difference.digest == other.digest) is is_the_same


def test_the_digest_of_differences_depends_on_the_number_of_omitted_differences() -> None:
    differs = Differs(99, (EntryDifference(Kind.TOPIC, "a", "/a", "absent", "x"),))
    assert differs.digest != replace(differs, omitted=1).digest


@pytest.mark.parametrize(
    "span", [timedelta(0), timedelta(minutes=30)], ids=["compared after the last write", "compared long before"]
)
def test_a_consent_to_delete_znodes_does_not_cover_writes_long_after_the_last_comparison(span: timedelta) -> None:
    """Nobody knows what may have been lost since the comparison."""
    _, status = next_look(EMPTY, zookeeper_lacks("a"))
    _, status = next_look(status, zookeeper_lacks("a"), *LOSSY)
    assert status.migration is not None
    assert status.migration.equality is not None
    written = replace(status.migration.equality, written_at=stamp(NOW - span))
    status = replace(status, migration=replace(status.migration, equality=written))
    look, _ = next_look(status, without_quorum(zookeeper_lacks("a")), *LOSSY)
    assert ("does not count" in message_of(look)) is bool(span)
