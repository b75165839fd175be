"""Level changes of other clients between two readings, found in the metadata log: they void consents and approvals.

`waiting(levels, begin)` sets up a suspended resource that asks for `levels`, and a cluster at `begin`; `resumes` lets
it continue. `UP` and `DOWN` are levels of group.version. `cluster.move` is a change by another client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Done, Held, Wait
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState, Mode, OnDrift
from kafkafeatures.core.engine.steps import DryRun, DryRunRejected, Outcome, OutcomeUnknown
from kafkafeatures.core.facts.readings import EarlierMoves, Failure, FailureKind
from kafkafeatures.core.levels.accounted import FIRST_OFFSET
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkasim.connection import Access
from tests.kafkafeatures.reconcile.accounts import (
    CONSENT,
    CONSENTS,
    DOWN,
    UP,
    approve,
    held_reason,
    restart_at_snapshot,
    resumes,
    stalled,
    waiting,
    without_quorum,
)
from tests.kafkafeatures.reconcile.simulated import Cluster, Store, once, run


def test_a_consent_is_void_after_its_downgrade_was_made_and_undone_by_hand_between_two_readings() -> None:
    cluster, store = waiting(DOWN, UP, consents=CONSENTS)
    assert cluster.move("group.version", 0)
    assert cluster.move("group.version", 1)
    resumes(store)
    assert stalled(run(cluster, store)) is Reason.CONSENT_SPENT
    assert cluster.sent == []
    assert store.status["spentConsents"] == [CONSENT]
    resumes(store, consents=frozenset())  # a consent that is removed and added again is a new one
    run(cluster, store)
    resumes(store, consents=CONSENTS)
    assert isinstance(run(cluster, store).decision, Done)
    assert len(cluster.sent) == 1


def test_an_approval_is_void_after_its_change_was_made_and_undone_by_hand_between_two_readings() -> None:
    cluster, store = waiting(UP, {}, policy=ApprovalPolicy.ALWAYS)
    first = approve(store)
    assert cluster.move("group.version", 1)
    assert cluster.move("group.version", 0)
    resumes(store)
    assert held_reason(run(cluster, store)) is Reason.PLAN_CHANGED
    assert cluster.sent == []
    assert store.status["plan"]["hash"] != first
    assert store.status["changeCount"] == 1
    approve(store)
    assert isinstance(run(cluster, store).decision, Done)


def test_a_consent_is_spent_by_a_downgrade_by_hand_that_the_operator_observed_in_between() -> None:
    cluster, store = waiting(DOWN, UP, consents=CONSENTS, on_drift=OnDrift.CORRECT)
    assert cluster.move("group.version", 0)
    assert isinstance(run(cluster, store).decision, Held | Done)
    assert store.status["spentConsents"] == [CONSENT]
    assert cluster.move("group.version", 1)
    resumes(store)
    assert stalled(run(cluster, store)) is Reason.CONSENT_SPENT
    assert cluster.sent == []


def test_a_consent_is_unverified_if_a_restored_status_has_a_step_sent_without_the_log() -> None:
    """The level was raised while the log could not be read, downgraded with the consent, and raised by hand. Then the
    status was restored to a backup from before the downgrade.
    """
    cluster, store = Cluster({"metadata.version": 27, **UP}), Store(Cluster({}), {})
    raised = {"kind": "UpdateFeature", "target": "group.version", "before": "0", "after": "1", "via": "Controller"}
    store.status = {"clusterId": cluster.world.cluster_id, "intents": [{**raised, "at": "2026-01-02T03:04:05Z"}]}
    store.wanted = DesiredState(DOWN, consents=CONSENTS)
    assert held_reason(run(cluster, store)) is Reason.PLAN_PENDING
    assert (cluster.sent, store.status["unverifiedConsents"]) == ([], [CONSENT])
    approve(store)
    assert isinstance(run(cluster, store).decision, Done)


def test_a_level_change_of_another_feature_voids_no_consent() -> None:
    cluster, store = waiting(DOWN, UP, consents=CONSENTS)
    assert cluster.move("transaction.version", 2)
    assert cluster.move("transaction.version", 0)
    resumes(store)
    assert isinstance(run(cluster, store).decision, Done)


@pytest.mark.parametrize("fate", ["answered", "lost"])
def test_a_change_by_the_operator_does_not_void_its_own_approval(fate: str) -> None:
    both = {"group.version": 1, "transaction.version": 2}
    cluster, store = waiting(both, {}, policy=ApprovalPolicy.ALWAYS)
    approve(store)
    resumes(store)
    if fate == "lost":
        update = cluster.update

        async def loses(change: UpdateFeature) -> Outcome:
            await update(change)
            return OutcomeUnknown("EOF")

        cluster.update = loses  # type: ignore[method-assign]
    assert isinstance(run(cluster, store).decision, Done)
    assert [entry["result"] for entry in store.status["history"]] == ["Applied", "Applied"]
    assert len(cluster.sent) == 2


def test_a_foreign_change_beside_an_own_step_voids_the_rest_of_the_plan() -> None:
    cluster, store = waiting({"group.version": 1, "transaction.version": 2}, {}, policy=ApprovalPolicy.ALWAYS)
    approve(store)
    resumes(store)
    once(cluster, store)  # group.version is raised, and not verified yet
    assert cluster.move("group.version", 0)
    assert cluster.move("group.version", 1)
    assert held_reason(run(cluster, store)) is Reason.PLAN_CHANGED
    assert [str(step) for step in cluster.sent] == ["group.version 0 -> 1"]


def test_a_level_that_was_raised_by_hand_between_two_readings_may_be_downgraded_by_a_new_consent() -> None:
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {})
    assert isinstance(run(cluster, store).decision, Done)
    assert cluster.move("group.version", 1)
    resumes(store, levels=DOWN, consents=CONSENTS)
    assert isinstance(run(cluster, store).decision, Done)
    assert len(cluster.sent) == 1


def test_a_consent_is_void_if_the_log_shows_its_change_even_before_any_plan() -> None:
    """While the operator was down, the document was changed, and another client made the downgrade and undid it."""
    cluster = Cluster({"metadata.version": 27, **UP})
    store = Store(cluster, {})
    assert isinstance(run(cluster, store).decision, Done)
    resumes(store, levels=DOWN, consents=CONSENTS)
    assert cluster.move("group.version", 0)
    assert cluster.move("group.version", 1)
    assert stalled(run(cluster, store)) is Reason.CONSENT_SPENT
    assert cluster.sent == []


@pytest.mark.parametrize("document", ["suspended downgrade", "another level"])
def test_a_status_restored_from_a_backup_does_not_renew_a_used_consent(document: str) -> None:
    cluster = Cluster({"metadata.version": 27, **UP})
    store = Store(cluster, {})
    store.wanted = DesiredState(
        DOWN if document == "suspended downgrade" else UP, consents=CONSENTS, suspend=True, on_drift=OnDrift.CORRECT
    )
    run(cluster, store)
    backup = store.status
    resumes(store, levels=DOWN)
    assert isinstance(run(cluster, store).decision, Done)
    assert store.status["spentConsents"] == [CONSENT]
    assert cluster.move("group.version", 1)
    store.status = backup
    assert stalled(run(cluster, store)) is Reason.CONSENT_SPENT
    assert len(cluster.sent) == 1


def test_an_own_change_that_was_sent_while_the_log_was_denied_does_not_void_the_approval_of_the_rest() -> None:
    both = {"group.version": 1, "transaction.version": 2}
    cluster, store = waiting(both, {}, policy=ApprovalPolicy.ALWAYS)
    approve(store)
    resumes(store)
    cluster.reach(Access(cluster_action=False))
    once(cluster, store)
    assert len(cluster.sent) == 1
    once(cluster, store)  # answers of the nodes settle this change, without the log
    cluster.reach(Access())
    assert isinstance(run(cluster, store).decision, Done)
    assert len(cluster.sent) == 2


def test_no_consent_is_used_twice_after_a_status_backup_from_while_the_log_was_unreadable() -> None:
    cluster, store = waiting(UP, {})
    resumes(store)
    once(cluster, store)
    assert cluster.sent
    cluster.reach(Access(cluster_action=False))
    assert isinstance(run(cluster, store).decision, Done)
    backup = store.status
    assert backup["logPosition"]["own"] == ["group.version:1"]
    cluster.reach(Access())
    resumes(store, levels=DOWN, consents=CONSENTS)
    assert isinstance(run(cluster, store).decision, Done)
    assert "own" not in store.status["logPosition"]
    assert cluster.move("group.version", 1)
    store.status = backup
    assert stalled(run(cluster, store)) is Reason.CONSENT_SPENT
    assert len(cluster.sent) == 2


def test_an_idle_resource_does_not_write_its_status_when_the_log_grows() -> None:
    cluster, store = waiting(UP, {})
    writes, position = store.writes, store.status["logPosition"]
    for _ in range(5):
        asyncio.run(cluster.sleep(60))
        run(cluster, store)
    assert (store.writes, store.status["logPosition"]) == (writes, position)


def test_the_log_position_stays_while_a_step_is_open() -> None:
    cluster, store = waiting(UP, {})
    resumes(store)
    cluster.outcomes = [OutcomeUnknown("EOF")]
    once(cluster, store)
    at = store.status["intents"][0]["offset"]
    assert store.status["logPosition"]["offset"] == at
    store.wanted = replace(store.wanted, mode=Mode.OBSERVE)
    cluster.shows = without_quorum
    once(cluster, store)
    assert "intents" in store.status
    assert store.status["logPosition"]["offset"] == at


@pytest.mark.parametrize("mode", Mode)
def test_a_used_consent_stays_used_whatever_the_mode_is_meanwhile(mode: Mode) -> None:
    cluster = Cluster({"metadata.version": 27, **UP})
    store = Store(cluster, {})
    store.wanted = DesiredState(DOWN, consents=CONSENTS, on_drift=OnDrift.CORRECT)
    assert isinstance(run(cluster, store).decision, Done)
    store.wanted = replace(store.wanted, mode=mode)
    run(cluster, store)
    assert cluster.move("group.version", 1)
    run(cluster, store)
    assert store.status["spentConsents"] == [CONSENT]
    store.wanted = replace(store.wanted, mode=Mode.APPLY)
    assert stalled(run(cluster, store)) is Reason.CONSENT_SPENT
    assert len(cluster.sent) == 1


def test_one_dry_run_validates_all_changes_and_a_rejected_one_blocks_them_all() -> None:
    """The controller's Kafka does not support transaction.version 2."""
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {"group.version": 1, "transaction.version": 2})
    dry_runs: list[tuple[str, ...]] = []
    validate = cluster.validate

    async def validated(changes: Sequence[UpdateFeature], *, directly: bool = False) -> DryRun:
        dry_runs.append(tuple(change.feature for change in changes))
        verdict = await validate(changes, directly=directly)
        refused = any(change.feature == "transaction.version" for change in changes)
        return DryRunRejected(95, "transaction.version: no") if refused else verdict

    cluster.validate = validated  # type: ignore[method-assign]
    assert stalled(once(cluster, store)) is Reason.CONTROLLER_REJECTED
    assert dry_runs == [("group.version", "transaction.version")]
    assert cluster.sent == []


def test_the_log_is_read_from_the_position_of_the_status_if_a_snapshot_hides_later_changes() -> None:
    cluster, store = waiting(DOWN, UP, consents=CONSENTS)
    assert cluster.move("group.version", 0)
    assert cluster.move("group.version", 1)
    restart_at_snapshot(cluster)
    resumes(store)
    assert stalled(run(cluster, store)) is Reason.CONSENT_SPENT
    assert cluster.sent == []


def test_nothing_is_sent_while_the_log_since_the_position_cannot_be_read() -> None:
    cluster, store = waiting(DOWN, UP, consents=CONSENTS)
    position = store.status["logPosition"]
    asyncio.run(cluster.sleep(60))
    restart_at_snapshot(cluster)
    resumes(store)
    failure = Failure(FailureKind.TIMED_OUT, "metadata log", "no answer")

    async def fails(offset: int, epoch: int) -> EarlierMoves | Failure:
        assert {"offset": offset, "epoch": epoch} == position
        return failure

    working, cluster.moves_since = cluster.moves_since, fails  # type: ignore[method-assign]
    for _ in range(3):
        last = once(cluster, store)
        assert isinstance(last.decision, Wait)
        assert last.decision.message.endswith("since the status was written: metadata log: no answer")
    assert (cluster.sent, store.status["logPosition"]) == ([], position)
    cluster.moves_since = working  # type: ignore[method-assign]
    assert isinstance(run(cluster, store).decision, Done)


def test_the_log_since_the_position_is_not_read_if_no_plan_or_consent_depends_on_it() -> None:
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {})
    run(cluster, store)
    begins = store.status["logPosition"]["offset"]
    asyncio.run(cluster.sleep(60))
    restart_at_snapshot(cluster)

    async def later(offset: int, epoch: int) -> EarlierMoves | Failure:
        assert offset > begins
        return EarlierMoves()

    cluster.moves_since = later  # type: ignore[method-assign]
    resumes(store, levels=UP)
    assert isinstance(run(cluster, store).decision, Done)


# --- a status from before the log could be read ---


@pytest.mark.parametrize("begins", ["the log", "a snapshot"])
def test_no_consent_is_used_twice_after_a_status_backup_from_before_the_log_was_ever_read(begins: str) -> None:
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, UP)
    cluster.reach(Access(cluster_action=False))
    assert isinstance(run(cluster, store).decision, Done)
    backup = store.status
    assert "logPosition" not in backup
    resumes(store, levels=DOWN, consents=CONSENTS)
    assert isinstance(run(cluster, store).decision, Done)
    assert cluster.move("group.version", 1)
    store.status = backup
    cluster.reach(Access())
    if begins == "a snapshot":
        restart_at_snapshot(cluster)
    assert stalled(run(cluster, store)) is Reason.CONSENT_SPENT
    assert len(cluster.sent) == 2
    resumes(store, consents=frozenset())
    run(cluster, store)
    resumes(store, consents=CONSENTS)  # a consent that was added again counts, as the status has a log position now
    assert isinstance(run(cluster, store).decision, Done)


def test_an_approval_is_void_after_a_change_sent_without_the_log_and_a_restored_status() -> None:
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {})
    cluster.reach(Access(cluster_action=False))
    store.wanted = DesiredState(UP, policy=ApprovalPolicy.ALWAYS)
    assert held_reason(run(cluster, store)) is Reason.PLAN_PENDING
    first = approve(store)
    backup = store.status
    assert isinstance(run(cluster, store).decision, Done)
    assert cluster.move("group.version", 0)
    store.status = backup
    cluster.reach(Access())
    assert held_reason(run(cluster, store)) is Reason.PLAN_CHANGED
    assert store.status["plan"]["hash"] != first
    approve(store)
    assert isinstance(run(cluster, store).decision, Done)


def test_a_plan_continues_if_the_log_becomes_readable_and_agrees_with_the_status() -> None:
    """The log has the first level of the cluster, a change by another client that the operator
    observed, and its own.
    """
    both = {"group.version": 1, "transaction.version": 2}
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {})
    cluster.reach(Access(cluster_action=False))
    store.wanted = DesiredState({}, suspend=True)
    run(cluster, store)
    assert cluster.move("transaction.version", 1)
    store.wanted = DesiredState(both, policy=ApprovalPolicy.ALWAYS)
    assert held_reason(run(cluster, store)) is Reason.PLAN_PENDING
    approve(store)
    once(cluster, store)
    assert len(cluster.sent) == 1
    cluster.reach(Access())
    assert isinstance(run(cluster, store).decision, Done)
    assert len(cluster.sent) == 2


def test_while_the_beginning_of_the_log_cannot_be_read_nothing_is_sent() -> None:
    """Every log has a beginning: an answer that it is another log only shows that the leader has changed meanwhile."""
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, UP)
    cluster.reach(Access(cluster_action=False))
    assert isinstance(run(cluster, store).decision, Done)
    resumes(store, levels=DOWN, consents=CONSENTS)
    cluster.reach(Access())
    restart_at_snapshot(cluster)

    async def lacks_its_beginning(offset: int, epoch: int) -> EarlierMoves | Failure:
        """Read a log that has other records at its first offset."""
        return EarlierMoves(restored=offset == FIRST_OFFSET)

    sent_before = list(cluster.sent)
    working, cluster.moves_since = cluster.moves_since, lacks_its_beginning  # type: ignore[method-assign]
    last = once(cluster, store)
    assert isinstance(last.decision, Wait)
    assert cluster.sent == sent_before
    assert "logPosition" not in store.status
    cluster.moves_since = working  # type: ignore[method-assign]
    assert isinstance(run(cluster, store).decision, Done)
