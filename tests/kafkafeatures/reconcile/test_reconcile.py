"""Reconciliations one after the other, with a process that may die at any point."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Done, Held, Stalled, Wait
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState
from kafkafeatures.core.engine.gates import Owner
from kafkafeatures.core.engine.steps import NotSent, Outcome, OutcomeUnknown, Rejected
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.context import ReconcileContext
from tests.kafkafeatures.reconcile.simulated import (
    Cluster,
    Crash,
    Store,
    context_of,
    lost_through_a_broker,
    no_time,
    once,
    reconcile_once,
    run,
    without_levels,
)
from tests.kafkafeatures.worlds import NOW
from tests.kafkasim.clusters import CLUSTER_ID

AT = stamp(NOW)
WANTED = {"metadata.version": 27, "group.version": 1}
BEGIN = {"metadata.version": 21}


def test_levels_are_raised_one_by_one_and_verified() -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, WANTED)
    assert isinstance(run(cluster, store).decision, Done)
    assert [str(step) for step in cluster.sent] == ["metadata.version 21 -> 27", "group.version 0 -> 1"]
    assert store.status["changeCount"] == 2
    assert "intents" not in store.status


def test_the_intent_is_written_before_the_change_is_sent() -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, WANTED)
    intents, send = [], cluster.update

    async def update(change: UpdateFeature) -> Outcome:
        intents.append(store.status["intents"][0]["target"])
        return await send(change)

    cluster.update = update  # type: ignore[method-assign]
    run(cluster, store)
    assert intents == ["metadata.version", "group.version"]


def test_a_quiet_resource_causes_no_write_and_no_request() -> None:
    cluster = Cluster(WANTED)
    store = Store(cluster, WANTED)
    run(cluster, store)
    writes = store.writes
    run(cluster, store)
    assert (store.writes, cluster.sent) == (writes, [])


@pytest.mark.parametrize("calls", range(40))
def test_a_crash_after_any_call_ends_at_the_same_levels_after_a_second_run(calls: int) -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, WANTED)
    cluster.crash_in = calls
    try:
        run(cluster, store)
    except Crash:
        cluster.crash_in = None
        run(cluster, store)
    assert cluster.levels == WANTED
    assert cluster.effective == 2
    assert store.status["conditions"][0]["status"] == "True"
    assert "intents" not in store.status


def test_a_foreign_change_supersedes_an_open_intent() -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, {"metadata.version": 27})
    cluster.outcomes = [OutcomeUnknown("EOF")]
    once(cluster, store)
    assert cluster.move("metadata.version", 25)
    assert isinstance(run(cluster, store).decision, Done)
    assert store.status["history"][0]["result"] == "Superseded"
    assert str(cluster.sent[-1]) == "metadata.version 25 -> 27"


@pytest.mark.parametrize("outcome", [Rejected(95, "no"), NotSent("nobody there")], ids=["rejected", "not sent"])
def test_a_rejected_or_unsent_change_leaves_no_intent(outcome: Outcome) -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, {"metadata.version": 27})
    cluster.outcomes = [outcome]
    last = once(cluster, store)
    assert last.outcome == outcome
    assert "intents" not in store.status
    assert len(store.status["history"]) == 1


def test_the_status_keeps_its_levels_while_the_cluster_is_unreachable() -> None:
    cluster = Cluster(WANTED)
    store = Store(cluster, WANTED)
    run(cluster, store)
    cluster.away = True
    once(cluster, store)
    conditions = {condition["type"]: condition for condition in store.status["conditions"]}
    assert conditions["Ready"]["status"] == "Unknown"
    assert conditions["Reachable"]["reason"] == "BootstrapUnreachable"
    assert store.status["metadataVersion"] == "4.1-IV1"


def test_a_plan_waits_for_its_approval_also_while_the_cluster_is_unreachable() -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, {})
    store.wanted = DesiredState(WANTED, policy=ApprovalPolicy.ALWAYS)
    run(cluster, store)
    waiting = next(condition for condition in store.status["conditions"] if condition["type"] == "ApprovalRequired")
    cluster.away = True
    once(cluster, store)
    assert waiting in store.status["conditions"]


def test_no_change_is_sent_to_another_cluster_at_the_same_address() -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, WANTED)
    store.status = {"clusterId": "cluster-2"}
    last = run(cluster, store)
    assert isinstance(last.decision, Stalled)
    assert store.status["clusterId"] == "cluster-2"
    assert cluster.sent == []


def test_another_cluster_at_the_same_address_settles_no_intent() -> None:
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {"metadata.version": 27})
    intent = {"kind": "UpdateFeature", "target": "metadata.version", "before": "21", "after": "27", "at": AT}
    store.status = {"clusterId": "cluster-2", "intents": [intent]}
    assert isinstance(run(cluster, store).decision, Stalled)
    assert store.status["intents"][0] == intent
    assert "history" not in store.status


AFTER_FORWARDING = 360
"""Seconds after which no broker forwards a change any longer: it does so for at most five minutes."""


def sent_through_a_broker() -> tuple[Cluster, Store, ReconcileContext]:
    """Set up a process that sent a change through a broker and got no answer."""
    cluster, store = lost_through_a_broker()
    context = replace(context_of(cluster, store), ages=Ages(lambda: cluster.world.now_ms / 1000))
    asyncio.run(reconcile_once(context))
    assert store.status["intents"][0]["via"] == "Broker"
    return cluster, store, context


def test_a_change_sent_through_a_broker_is_waited_for_as_long_as_the_broker_may_keep_it() -> None:
    cluster, _, context = sent_through_a_broker()
    last = asyncio.run(reconcile_once(context))
    assert isinstance(last.decision, Wait)
    assert "5 minutes" in last.decision.message
    assert len(cluster.sent) == 1
    asyncio.run(cluster.sleep(AFTER_FORWARDING))
    asyncio.run(reconcile_once(context))
    assert len(cluster.sent) == 2


def test_a_change_sent_through_a_broker_is_waited_for_even_after_a_foreign_change() -> None:
    cluster, store, context = sent_through_a_broker()
    assert cluster.move("metadata.version", 25)
    assert isinstance(asyncio.run(reconcile_once(context)).decision, Wait)
    assert len(cluster.sent) == 1
    asyncio.run(cluster.sleep(AFTER_FORWARDING))
    asyncio.run(reconcile_once(context))
    assert [entry["result"] for entry in store.status["history"]] == ["Superseded"]


def test_without_noop_records_a_majority_that_fetched_since_settles_the_step() -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, {"metadata.version": 27})
    cluster.outcomes = [OutcomeUnknown("EOF")]
    once(cluster, store)
    watermark = cluster.world.log.high_watermark
    asyncio.run(reconcile_once(context_of(cluster, store, sleep=no_time)))  # the voters fetch meanwhile
    assert len(cluster.sent) == 2
    assert cluster.world.log.high_watermark <= watermark + 1  # the record of the change, and no NoOp record


def test_a_consent_is_spent_before_its_downgrade_is_sent_and_restored_if_nothing_was_downgraded() -> None:
    cluster = Cluster({"metadata.version": 27, "group.version": 1})
    store = Store(cluster, {"group.version": 0})
    store.wanted = DesiredState({"group.version": 0}, consents=frozenset({"group.version:1->0"}))
    cluster.outcomes = [Rejected(95, "no")]
    once(cluster, store)
    assert store.status.get("spentConsents", []) == []
    assert isinstance(run(cluster, store).decision, Done)
    assert store.status["spentConsents"] == ["group.version:1->0"]
    assert cluster.move("group.version", 1)
    last = run(cluster, store)
    assert len(cluster.sent) == 2
    assert isinstance(last.decision, Held)  # another client raised it: reported, not downgraded


@pytest.mark.parametrize("calls", range(12))
def test_a_process_killed_after_any_call_downgrades_once_for_one_consent(calls: int) -> None:
    cluster = Cluster({"metadata.version": 27, "group.version": 1})
    store = Store(cluster, {})
    store.wanted = DesiredState({"group.version": 0}, consents=frozenset({"group.version:1->0"}))
    cluster.crash_in = calls
    with contextlib.suppress(Crash):
        run(cluster, store)
    cluster.crash_in = None
    assert isinstance(run(cluster, store).decision, Done)
    assert cluster.effective == 1
    assert store.status["spentConsents"] == ["group.version:1->0"]


@pytest.mark.parametrize("log_is_read", [True, False])
def test_a_consent_stays_spent_if_its_downgrade_was_applied_unrecorded_and_reverted(log_is_read: bool) -> None:
    cluster = Cluster({"metadata.version": 27, "group.version": 1})
    cluster.world.grants_cluster_action = log_is_read
    store = Store(cluster, {})
    store.wanted = DesiredState({"group.version": 0}, consents=frozenset({"group.version:1->0"}))
    cluster.outcomes = [OutcomeUnknown("killed")]
    once(cluster, store)
    assert cluster.move(cluster.sent[0].feature, cluster.sent[0].to_level)
    assert cluster.move("group.version", 1)
    last = run(cluster, store)
    assert isinstance(last.decision, Stalled)
    assert last.decision.reason is Reason.CONSENT_SPENT
    assert len(cluster.sent) == 1


def test_a_consent_is_restored_if_the_log_shows_that_its_downgrade_was_never_applied() -> None:
    cluster = Cluster({"metadata.version": 27, "group.version": 1})
    store = Store(cluster, {})
    store.wanted = DesiredState({"group.version": 0}, consents=frozenset({"group.version:1->0"}))
    cluster.outcomes = [OutcomeUnknown("killed")]
    once(cluster, store)
    assert isinstance(run(cluster, store).decision, Done)
    assert [entry["result"] for entry in store.status["history"]] == ["NotApplied", "Applied"]


def test_an_observation_without_levels_keeps_the_levels_reached_in_the_status() -> None:
    cluster = Cluster({"metadata.version": 27, "group.version": 1})
    store = Store(cluster, {"group.version": 1})
    run(cluster, store)
    cluster.shows = without_levels
    once(cluster, store)
    cluster.shows = lambda readings: readings
    assert cluster.move("group.version", 0)
    assert isinstance(run(cluster, store).decision, Held)
    assert cluster.sent == []


def test_an_observation_without_levels_does_not_void_an_approval() -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, {})
    store.wanted = DesiredState(WANTED, policy=ApprovalPolicy.ALWAYS)
    run(cluster, store)
    approved = frozenset({store.status["plan"]["hash"]})
    store.wanted = DesiredState(WANTED, policy=ApprovalPolicy.ALWAYS, approvals=approved)
    once(cluster, store)
    cluster.shows = without_levels
    once(cluster, store)
    cluster.shows = lambda readings: readings
    assert isinstance(run(cluster, store).decision, Done)
    assert len(cluster.sent) == 2


def test_the_status_has_no_facts_of_a_wrong_cluster() -> None:
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {}, met=False)
    store.wanted = DesiredState({"metadata.version": 27}, cluster_id="cluster-9")
    assert isinstance(run(cluster, store).decision, Stalled)
    assert store.status["clusterId"] == ""
    assert "features" not in store.status


def test_no_change_is_sent_if_the_status_belongs_to_another_cluster() -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, {})
    store.wanted = DesiredState({"metadata.version": 27}, cluster_id=CLUSTER_ID)
    store.status = {"clusterId": "cluster-2"}
    assert isinstance(run(cluster, store).decision, Stalled)
    assert cluster.sent == []


def test_a_reading_that_lags_behind_an_accepted_change_is_not_taken_for_a_revert() -> None:
    """Right after it accepted the downgrade, a controller may still report the former level."""
    cluster = Cluster({"metadata.version": 27, "group.version": 1})
    store = Store(cluster, {})
    store.wanted = DesiredState({"group.version": 0}, consents=frozenset({"group.version:1->0"}))
    once(cluster, store)
    assert cluster.move("group.version", 1)

    async def shown_at_last(seconds: float) -> None:
        assert cluster.move("group.version", 0)

    asyncio.run(reconcile_once(context_of(cluster, store, sleep=shown_at_last)))
    assert isinstance(run(cluster, store).decision, Done)
    assert [entry["result"] for entry in store.status["history"]] == ["Applied"]
    assert len(cluster.sent) == 1


def test_a_long_rejection_message_is_cut_everywhere_in_the_status() -> None:
    cluster = Cluster({"metadata.version": 21})
    store = Store(cluster, {"metadata.version": 27})
    cluster.outcomes = [Rejected(44, "x" * 32_000)] * 12
    for _ in range(12):
        once(cluster, store)
    assert len(json.dumps(store.status)) < 16 * 1024


@pytest.mark.parametrize("known", [True, False], ids=["owner of this cluster", "owner of an unknown cluster"])
def test_competing_owners_are_checked_again_right_before_the_change_is_sent(known: bool) -> None:
    """While the intent is written, other resources are reconciled: an older one appears."""
    cluster = Cluster(BEGIN)
    store = Store(cluster, {"metadata.version": 27})
    older = Owner("ns/older", owns_cluster=known)
    context = replace(
        context_of(cluster, store), competing_owner=lambda cluster_id: older if "intents" in store.status else None
    )
    last = asyncio.run(reconcile_once(context))
    assert cluster.sent == []
    assert isinstance(last.decision, Stalled if known else Wait)
    assert last.decision.reason is (Reason.DUPLICATE_OWNER if known else Reason.PREFLIGHT)
    assert "intents" not in store.status
    assert store.status["history"][-1]["result"] == "NotSent"
    assert store.status["history"][-1]["message"].startswith("ns/older is older")
    assert store.status["conditions"][0]["reason"] == last.decision.reason
