"""Level changes of other clients: corrected or left, and never taken for a step of the operator."""

from __future__ import annotations

from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.engine.decisions import Done, Held, Stalled
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState, OnDrift
from kafkafeatures.core.engine.steps import NotSent, OutcomeUnknown
from kafkasim.connection import Access
from tests.kafkafeatures.reconcile.simulated import (
    Cluster,
    Store,
    once,
    run,
)


def test_a_foreign_change_is_corrected_twice_within_an_hour_and_then_left() -> None:
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {})
    store.wanted = DesiredState({"group.version": 1}, on_drift=OnDrift.CORRECT, policy=ApprovalPolicy.NEVER)
    run(cluster, store)
    for _ in range(2):
        assert cluster.move("group.version", 0)
        assert isinstance(run(cluster, store).decision, Done)
    assert cluster.move("group.version", 0)
    last = run(cluster, store)
    assert isinstance(last.decision, Stalled)
    assert last.decision.reason is Reason.CONFLICT_DETECTED
    assert len(cluster.sent) == 3


def test_a_correction_with_unknown_outcome_counts_against_the_limit() -> None:
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {})
    store.wanted = DesiredState({"group.version": 1}, on_drift=OnDrift.CORRECT, policy=ApprovalPolicy.NEVER)
    run(cluster, store)
    cluster.reach(Access(cluster_action=False))
    assert cluster.move("group.version", 0)
    cluster.outcomes = [OutcomeUnknown("EOF")] * 5
    last = run(cluster, store, most=40)
    assert isinstance(last.decision, Stalled)
    assert last.decision.reason is Reason.CONFLICT_DETECTED
    assert [entry["result"] for entry in store.status["history"]] == ["Applied", "Unverified", "Unverified"]


def test_an_accepted_change_undone_by_a_person_counts_as_done() -> None:
    """The result is not `NotApplied`, so the consent stays used, and the other level counts as drift."""
    cluster = Cluster({"metadata.version": 27, "group.version": 1})
    store = Store(cluster, {})
    store.wanted = DesiredState({"group.version": 0}, consents=frozenset({"group.version:1->0"}))
    once(cluster, store)
    assert store.status["intents"][0]["outcome"] == "Applied"
    assert cluster.move("group.version", 1)  # before it is read back
    last = run(cluster, store)
    assert isinstance(last.decision, Held)
    assert last.decision.reason is Reason.DRIFTED
    assert [blocker.reason for blocker in last.decision.blockers] == [Reason.CONSENT_SPENT]
    assert len(cluster.sent) == 1
    assert store.status["changeCount"] == 1


def test_an_accepted_change_undone_before_it_was_read_is_drift_and_not_sent_again() -> None:
    """The cluster cannot be read right after it accepted the change; then another client undoes it."""
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {"group.version": 1})
    for _ in range(3):
        once(cluster, store)
        cluster.away = True
        once(cluster, store)
        cluster.away = False
        assert cluster.move("group.version", 0)  # another client
    assert len(cluster.sent) == 1
    assert [entry["result"] for entry in store.status["history"]] == ["Superseded"]
    last = run(cluster, store)
    assert isinstance(last.decision, Held)
    assert last.decision.reason is Reason.DRIFTED


def test_attempts_that_were_not_sent_do_not_hide_a_conflict_with_another_client() -> None:
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {})
    store.wanted = DesiredState({"group.version": 1}, on_drift=OnDrift.CORRECT, policy=ApprovalPolicy.NEVER)
    run(cluster, store)
    for _ in range(3):
        assert cluster.move("group.version", 0)  # another client
        cluster.outcomes = [NotSent(f"reason {n % 2}") for n in range(12)]
        last = run(cluster, store, most=40)
    assert isinstance(last.decision, Stalled)
    assert last.decision.reason is Reason.CONFLICT_DETECTED
    results = [entry["result"] for entry in store.status["history"]]
    assert len(results) == 10  # as many as a status has room for
    assert results.count("Corrected") == 2  # the third change of the other client is reported as a conflict


def test_a_repeated_failure_is_one_entry_of_the_history() -> None:
    cluster = Cluster({"metadata.version": 27})
    cluster.outcomes = [NotSent("no connection")] * 5
    store = Store(cluster, {"group.version": 1})
    run(cluster, store)
    results = [(entry["result"], entry.get("message")) for entry in store.status["history"]]
    assert results == [("NotSent", "no connection"), ("Applied", None)]


def test_a_client_that_reverts_at_once_meets_two_corrections_within_an_hour() -> None:
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {})
    store.wanted = DesiredState({"group.version": 1}, on_drift=OnDrift.CORRECT, policy=ApprovalPolicy.NEVER)
    run(cluster, store)
    for _ in range(20):
        assert cluster.move("group.version", 0)
        once(cluster, store)
    assert len(cluster.sent) == 3  # the first raise, and the corrections
