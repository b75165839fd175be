"""An approval counts for its plan, and never for a later one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkafeatures.api.names import APPROVE
from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Done, Held
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState, OnDrift
from kafkafeatures.core.engine.steps import OutcomeUnknown
from kafkafeatures.core.facts.readings import Failure, FailureKind, Readings, Role
from kafkafeatures.reconcile.act import Reconciliation
from tests.kafkafeatures.reconcile.rig import Kafka, Rig
from tests.kafkafeatures.reconcile.simulated import Cluster, Crash, Store, once, run
from tests.simulated.orders import KEY, Orders

BEGIN = {"metadata.version": 21}
BOTH = {"metadata.version": 27, "group.version": 1}
GROUP = {"group.version": 1}


def waiting(levels: dict[str, int], begin: dict[str, int] = BEGIN, **fields: object) -> tuple[Cluster, Store]:
    """Set up a cluster, and a resource whose plans all wait for approval."""
    cluster = Cluster(begin)
    store = Store(cluster, {})
    store.wanted = replace(DesiredState(levels, policy=ApprovalPolicy.ALWAYS), **fields)  # type: ignore[arg-type]
    assert held_reason(run(cluster, store)) is Reason.PLAN_PENDING
    return cluster, store


def approve(store: Store) -> str:
    """Approve the plan by its hash, in the annotation or in the document, where it stays."""
    plan_hash: str = store.status["plan"]["hash"]
    store.wanted = replace(store.wanted, approvals=frozenset({plan_hash}))
    return plan_hash


def annotate(rig: Rig, approval: str) -> None:
    rig.api.server.edit(*KEY, lambda manifest: manifest["metadata"].update(annotations={APPROVE: approval}))


def change_document(store: Store, levels: dict[str, int], **fields: object) -> None:
    store.wanted = replace(store.wanted, levels=levels, **fields)  # type: ignore[arg-type]


def held_reason(last: Reconciliation) -> Reason:
    assert isinstance(last.decision, Held), last.decision
    assert last.decision.reason is Reason.APPROVAL_REQUIRED
    assert last.decision.condition is not None
    assert last.decision.condition[0] is Condition.APPROVAL_REQUIRED
    return last.decision.condition[1]


def test_an_approval_is_void_after_its_change_was_made_and_undone_by_hand() -> None:
    cluster, store = waiting(GROUP, on_drift=OnDrift.CORRECT)
    approve(store)
    assert cluster.move("group.version", 1)  # another client
    assert isinstance(run(cluster, store).decision, Done)
    assert cluster.move("group.version", 0)
    assert held_reason(run(cluster, store)) is Reason.PLAN_CHANGED
    assert cluster.sent == []
    approve(store)
    assert isinstance(run(cluster, store).decision, Done)
    assert [str(step) for step in cluster.sent] == ["group.version 0 -> 1"]


def test_an_approval_is_used_up_when_its_plan_is_done() -> None:
    cluster, store = waiting(GROUP, on_drift=OnDrift.CORRECT)
    approve(store)
    assert isinstance(run(cluster, store).decision, Done)
    assert cluster.move("group.version", 0)  # another client
    assert held_reason(run(cluster, store)) is Reason.PLAN_CHANGED
    assert len(cluster.sent) == 1


def test_a_change_withdrawn_and_requested_again_needs_a_new_approval() -> None:
    cluster, store = waiting(GROUP)
    approve(store)
    change_document(store, {})
    assert isinstance(run(cluster, store).decision, Done)
    change_document(store, GROUP)
    assert held_reason(run(cluster, store)) is Reason.PLAN_CHANGED
    assert cluster.sent == []


def test_a_change_replaced_and_requested_again_needs_a_new_approval() -> None:
    cluster, store = waiting(GROUP)
    approve(store)
    for levels in ({"metadata.version": 22}, GROUP):
        change_document(store, levels)
        assert held_reason(run(cluster, store)) is Reason.PLAN_CHANGED
    assert cluster.sent == []


def loses_its_quorum(cluster: Cluster) -> None:
    """Let brokers answer with the levels that they knew before."""
    silent = Failure(FailureKind.TIMED_OUT, "controllers", "no controller is active")

    def of_brokers(readings: Readings) -> Readings:
        brokers = tuple(node for node in readings.probe.nodes if node.role is Role.BROKER)
        return Readings(replace(readings.probe, nodes=brokers, quorum=silent, controllers=silent), silent)

    cluster.shows = of_brokers


def goes_away(cluster: Cluster) -> None:
    cluster.away = True


def comes_back(cluster: Cluster) -> None:
    cluster.away, cluster.shows = False, lambda readings: readings


@pytest.mark.parametrize("meanwhile", [loses_its_quorum, goes_away])
@pytest.mark.parametrize(
    "levels", [{}, {"metadata.version": 22}, {"group.version": 0}], ids=["no level", "another feature", "another level"]
)
def test_a_change_withdrawn_while_levels_are_unreadable_needs_a_new_approval(
    meanwhile: Callable[[Cluster], None], levels: dict[str, int]
) -> None:
    cluster, store = waiting(GROUP)
    approve(store)
    meanwhile(cluster)
    change_document(store, levels)
    once(cluster, store)
    comes_back(cluster)
    change_document(store, GROUP)
    assert held_reason(run(cluster, store)) is Reason.PLAN_CHANGED
    assert cluster.sent == []


@pytest.mark.parametrize("meanwhile", [loses_its_quorum, goes_away])
def test_an_approval_stays_valid_while_the_cluster_is_away_if_the_change_stays_requested(
    meanwhile: Callable[[Cluster], None],
) -> None:
    cluster, store = waiting(GROUP)
    approve(store)
    meanwhile(cluster)
    for features in ({**GROUP, "share.version": 0}, GROUP):
        change_document(store, features)
        once(cluster, store)
    comes_back(cluster)
    assert isinstance(run(cluster, store).decision, Done)
    assert cluster.levels["group.version"] == 1


def test_a_withdrawn_approval_does_not_count_again() -> None:
    cluster, store = waiting(GROUP)
    change_document(store, GROUP, suspend=True)
    first = approve(store)
    run(cluster, store)
    assert store.status["plan"]["approvedBy"] == "PlanHash"
    change_document(store, GROUP, suspend=False, approvals=frozenset())
    assert held_reason(run(cluster, store)) is Reason.PLAN_PENDING
    change_document(store, GROUP, approvals=frozenset({first}))
    assert held_reason(run(cluster, store)) is Reason.PLAN_CHANGED
    assert cluster.sent == []


def test_the_status_says_whether_the_document_or_an_annotation_approved_the_plan() -> None:
    rig = Rig(Orders(), Kafka({"metadata.version": 21}))
    rig.api.edit(approval={"policy": "Always"})
    asyncio.run(rig.work())
    approval = rig.api.status["plan"]["hash"]
    writes = []
    for annotation, plan_hash in ((approval, None), (approval, approval[:20]), ("", approval), (approval, None)):
        annotate(rig, annotation)
        settings = {"policy": "Always"} | ({"planHash": plan_hash} if plan_hash else {})
        rig.api.edit(approval=settings, suspend=True)
        asyncio.run(rig.work())
        writes.append(rig.api.status["plan"]["approvedBy"])
    assert writes == ["Annotation", "PlanHash", "PlanHash", "Annotation"]
    annotate(rig, "")
    asyncio.run(rig.work())
    annotate(rig, approval)
    rig.api.edit(suspend=False)
    asyncio.run(rig.work())
    assert rig.api.condition("ApprovalRequired")["reason"] == "PlanChanged"  # the approval was withdrawn before


@pytest.mark.parametrize("policy", ["Always", "IrreversibleOnly", "Never"])
@pytest.mark.parametrize("of_the_plan", ["document", "annotation"])
def test_the_plan_hash_of_the_document_and_that_of_the_annotation_both_have_to_match_the_plan(
    policy: str, of_the_plan: str
) -> None:
    rig = Rig(Orders(), Kafka({"metadata.version": 21}))
    rig.api.edit(approval={"policy": "Always"})
    asyncio.run(rig.work())
    hashes = [rig.api.status["plan"]["hash"], "sha256:0123456789ab"]
    in_document, annotation = hashes if of_the_plan == "document" else reversed(hashes)
    annotate(rig, annotation)
    rig.api.edit(approval={"policy": policy, "planHash": in_document})
    asyncio.run(rig.work())
    assert rig.api.condition("ApprovalRequired")["reason"] == "PlanChanged"
    assert rig.kafka.sent == []
    annotate(rig, in_document)
    rig.api.edit(approval={"policy": policy, "planHash": in_document})
    asyncio.run(rig.work())
    assert len(rig.kafka.sent) == (of_the_plan == "document")


def test_a_level_changed_by_another_client_during_a_plan_ends_the_plan() -> None:
    cluster, store = waiting(BOTH)
    approve(store)
    once(cluster, store)
    assert [str(step) for step in cluster.sent] == ["metadata.version 21 -> 27"]
    assert cluster.move("metadata.version", 25)  # another client
    assert held_reason(run(cluster, store)) is Reason.PLAN_CHANGED
    assert cluster.move("metadata.version", 27)
    assert held_reason(run(cluster, store)) is Reason.PLAN_CHANGED
    assert len(cluster.sent) == 1


def test_a_foreign_change_before_the_first_step_ends_the_plan_even_if_undone() -> None:
    cluster, store = waiting(BOTH, begin={"metadata.version": 23})  # to which Kafka allows a downgrade from 27
    approve(store)
    assert cluster.move("metadata.version", 27)
    assert held_reason(run(cluster, store)) is Reason.PLAN_CHANGED
    assert cluster.move("metadata.version", 23)
    assert held_reason(run(cluster, store)) is Reason.PLAN_CHANGED
    assert cluster.sent == []


@pytest.mark.parametrize("calls", range(30))
def test_progress_and_a_crash_after_any_call_do_not_void_the_approval_of_a_standing_plan(calls: int) -> None:
    cluster, store = waiting(BOTH)
    approve(store)
    cluster.crash_in = calls
    with contextlib.suppress(Crash):
        run(cluster, store)
    cluster.crash_in = None
    assert isinstance(run(cluster, store).decision, Done)
    assert cluster.levels == BOTH
    assert cluster.effective == 2


def test_a_change_that_was_not_applied_is_sent_again_under_the_same_approval() -> None:
    cluster, store = waiting(GROUP)
    approve(store)
    cluster.outcomes = [OutcomeUnknown("EOF")]
    assert isinstance(run(cluster, store).decision, Done)
    assert len(cluster.sent) == 2


def test_a_lost_status_does_not_renew_a_used_approval() -> None:
    cluster, store = waiting(GROUP)
    approve(store)
    assert isinstance(run(cluster, store).decision, Done)
    assert cluster.move("group.version", 0)  # another client
    store.status = {}
    assert held_reason(run(cluster, store)) is Reason.PLAN_CHANGED
    assert len(cluster.sent) == 1
    approve(store)
    assert isinstance(run(cluster, store).decision, Done)


def test_on_the_command_line_a_plan_may_be_approved_before_a_status_shows_it() -> None:
    shown = waiting(GROUP)[1].status["plan"]["hash"]
    cluster = Cluster(BEGIN)
    store = Store(cluster, {})
    store.wanted = DesiredState(
        GROUP, policy=ApprovalPolicy.ALWAYS, approvals=frozenset({shown}), may_approve_unseen=True
    )
    assert isinstance(run(cluster, store).decision, Done)
    assert len(cluster.sent) == 1


@pytest.mark.parametrize("policy", ApprovalPolicy)
def test_an_approval_of_another_plan_holds_the_plan_under_every_policy(policy: ApprovalPolicy) -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, {})
    store.wanted = DesiredState({"metadata.version": 22}, policy=policy, approvals=frozenset({"sha256:" + "0" * 64}))
    assert held_reason(run(cluster, store)) is Reason.PLAN_CHANGED
    assert "approvedBy" not in store.status["plan"]
    approve(store)
    assert isinstance(run(cluster, store).decision, Done)


def test_a_held_plan_causes_no_write_while_nothing_changes() -> None:
    cluster, store = waiting(GROUP)
    change_document(store, GROUP, approvals=frozenset({"sha256:" + "0" * 64}))
    run(cluster, store)
    writes = store.writes
    run(cluster, store)
    assert store.writes == writes


_ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("level by hand"), st.sampled_from(["metadata.version", "group.version"]), st.integers(0, 3)),
        st.tuples(st.just("document"), st.sampled_from([{}, GROUP, BOTH, {"metadata.version": 22}])),
        st.tuples(st.just("approve")),
        st.tuples(st.just("give an old hash")),
        st.tuples(st.just("take the approval back")),
        st.tuples(st.just("die"), st.integers(0, 6)),
        st.tuples(st.just("outcome unknown")),
        st.tuples(st.just("reach"), st.sampled_from([loses_its_quorum, goes_away, comes_back])),
    ),
    max_size=14,
)


@given(_ACTIONS, st.sampled_from(OnDrift))
@example([("level by hand", "group.version", 1), ("level by hand", "group.version", 0)], OnDrift.REPORT)
def test_no_plan_ever_has_the_hash_of_a_finished_plan(actions: list[tuple[str, ...]], on: OnDrift) -> None:
    """With policy `Always`, a change is only sent for a plan that was approved after it was made."""
    cluster = Cluster(BEGIN)
    store = Store(cluster, {})
    store.wanted = DesiredState(GROUP, policy=ApprovalPolicy.ALWAYS, on_drift=on)
    over: list[str] = []

    def settle() -> None:
        with contextlib.suppress(Crash):
            for _ in range(12):
                before = store.status.get("plan", {}).get("hash", "")
                sent = len(cluster.sent)
                last = once(cluster, store)
                now = store.status.get("plan", {}).get("hash", "")
                if before not in ("", now):
                    over.append(before)
                assert now not in over
                if len(cluster.sent) > sent:
                    assert store.wanted.approvals == {now}
                if last.requeue_after is None:
                    break
        cluster.crash_in = None

    settle()
    for action, *fields in actions:
        match action:
            case "level by hand":
                feature, by = fields
                level = 21 + int(by) if feature == "metadata.version" else int(by) % 2
                cluster.move(str(feature), level)  # which Kafka may refuse
            case "document":
                change_document(store, fields[0])  # type: ignore[arg-type]
            case "approve" if "plan" in store.status:
                approve(store)
            case "give an old hash" if over:
                change_document(store, dict(store.wanted.levels), approvals=frozenset({over[0]}))
            case "take the approval back":
                change_document(store, dict(store.wanted.levels), approvals=frozenset())
            case "die":
                cluster.crash_in = int(fields[0])
            case "reach":
                fields[0](cluster)  # type: ignore[operator]
            case "outcome unknown":
                cluster.outcomes = [OutcomeUnknown("EOF")]
            case _:
                pass  # there is nothing to approve, or no old hash
        settle()
