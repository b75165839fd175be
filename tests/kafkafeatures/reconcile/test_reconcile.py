"""One reconciliation after the other, against a scripted cluster; the process dies wherever it can."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from dataclasses import replace
from datetime import timedelta

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.decide import Done, Held, Owner, Stalled, Wait
from kafkafeatures.core.readings import Readings
from kafkafeatures.core.report import stamp
from kafkafeatures.core.steps import (
    Applied,
    NotSent,
    Outcome,
    OutcomeUnknown,
    Rejected,
    UpdateFeature,
)
from kafkafeatures.core.wanted import ApprovalPolicy, OnDrift, Wanted
from kafkafeatures.reconcile.evaluate import ReconcileContext
from tests.kafkafeatures.reconcile.in_memory import Crash, Store, World, context_of, no_time, reconcile_once, run
from tests.kafkafeatures.worlds import NOW, SILENT

AT = stamp(NOW)
WANTED = {"metadata.version": 27, "group.version": 1}
BEGIN = {"metadata.version": 21}


def test_levels_are_raised_one_by_one_and_read_back() -> None:
    world = World(BEGIN)
    store = Store(world, WANTED)
    assert isinstance(run(world, store).decision, Done)
    assert [str(step) for step in world.sent] == ["metadata.version 21 -> 27", "group.version 0 -> 1"]
    assert store.status["changeCount"] == 2
    assert "intents" not in store.status


def test_the_intent_is_written_before_the_act() -> None:
    world = World(BEGIN)
    store = Store(world, WANTED)
    seen = []

    async def update(change: UpdateFeature) -> Outcome:
        seen.append(store.status["intents"][0]["target"])
        world.apply(change)
        return Applied()

    world.update = update  # type: ignore[method-assign]
    run(world, store)
    assert seen == ["metadata.version", "group.version"]


def test_a_quiet_resource_causes_no_write_and_no_request() -> None:
    world = World(WANTED)
    store = Store(world, WANTED)
    run(world, store)
    writes = store.writes
    run(world, store)
    assert (store.writes, world.sent) == (writes, [])


@pytest.mark.parametrize("at", range(40))
def test_killed_anywhere_and_run_again_it_ends_the_same(at: int) -> None:
    world = World(BEGIN)
    store = Store(world, WANTED)
    world.crash_in = at
    try:
        run(world, store)
    except Crash:
        world.crash_in = None
        run(world, store)
    assert world.levels == WANTED
    assert world.effective == 2
    assert store.status["conditions"][0]["status"] == "True"
    assert "intents" not in store.status


def test_an_unknown_outcome_that_was_applied_is_read_back_and_not_sent_again() -> None:
    world = World(BEGIN)
    store = Store(world, {"metadata.version": 27})
    world.outcomes = [OutcomeUnknown("EOF")]
    asyncio.run(reconcile_once(context_of(world, store)))
    world.apply(world.sent[0])
    assert isinstance(run(world, store).decision, Done)
    assert len(world.sent) == 1
    assert store.status["history"][-1]["result"] == "Applied"


def test_an_unknown_outcome_that_comes_true_between_two_readings_is_not_sent_again() -> None:
    world = World(BEGIN)
    store = Store(world, {"metadata.version": 27})
    world.outcomes = [OutcomeUnknown("no answer")]
    asyncio.run(reconcile_once(context_of(world, store)))
    looks = itertools.count()
    read = world.read

    async def late() -> Readings:
        if next(looks) == 1:
            world.later = world.sent[0]
        return await read()

    world.read = late  # type: ignore[method-assign]
    assert isinstance(run(world, store).decision, Done)
    assert len(world.sent) == 1
    assert world.effective == 1


def test_an_unknown_outcome_is_settled_only_by_a_quorum_that_works() -> None:
    world = World(BEGIN)
    store = Store(world, {"metadata.version": 27})
    world.outcomes = [OutcomeUnknown("EOF")]
    asyncio.run(reconcile_once(context_of(world, store)))
    world.quorum_works = False  # the high watermark stands still
    last = asyncio.run(reconcile_once(context_of(world, store)))
    assert isinstance(last.decision, Wait)
    assert len(world.sent) == 1
    world.quorum_works = True
    assert isinstance(run(world, store).decision, Done)
    assert [one["result"] for one in store.status["history"]] == ["NotApplied", "Applied"]


def test_an_unknown_outcome_is_not_settled_over_an_election() -> None:
    """What the old leader had appended may be committed by the new one: the high watermark of both proves nothing."""
    world = World(BEGIN)
    store = Store(world, {"metadata.version": 27})
    world.outcomes = [OutcomeUnknown("EOF")]
    asyncio.run(reconcile_once(context_of(world, store)))
    read = world.read

    async def elected() -> Readings:
        world.epoch += 1
        return await read()

    world.read = elected  # type: ignore[method-assign]
    for _ in range(3):
        assert isinstance(asyncio.run(reconcile_once(context_of(world, store))).decision, Wait)
    assert len(world.sent) == 1
    world.read = read  # type: ignore[method-assign]
    assert isinstance(run(world, store).decision, Done)
    assert len(world.sent) == 2


@pytest.mark.parametrize(
    ("after", "result", "spent"), [(0, "NotApplied", []), (1, "Unverified", ["group.version:1->0"])]
)
def test_a_level_that_was_moved_at_the_very_offset_of_the_intent_was_moved(
    after: int, result: str, spent: list[str]
) -> None:
    """The intent names the end of the log: a batch that begins there ends behind it, and everything else before it."""
    world = World({"metadata.version": 27, "group.version": 1})
    store = Store(world, {})
    store.wanted = Wanted({"group.version": 0}, consents=frozenset({"group.version:1->0"}))
    world.outcomes = [OutcomeUnknown("EOF")]
    asyncio.run(reconcile_once(context_of(world, store)))
    world.moved = store.status["intents"][0]["offset"] + after
    world.outcomes = [NotSent("to look at the consents")]
    asyncio.run(reconcile_once(context_of(world, store)))
    assert store.status["history"][0]["result"] == result
    assert store.status.get("spentConsents", []) == spent


def test_a_foreign_change_overtakes_an_open_intent() -> None:
    world = World(BEGIN)
    store = Store(world, {"metadata.version": 27})
    world.outcomes = [OutcomeUnknown("EOF")]
    asyncio.run(reconcile_once(context_of(world, store)))
    world.levels["metadata.version"] = 25
    assert isinstance(run(world, store).decision, Done)
    assert store.status["history"][0]["result"] == "Superseded"
    assert str(world.sent[-1]) == "metadata.version 25 -> 27"


@pytest.mark.parametrize("outcome", [Rejected(95, "no"), NotSent("nobody there")])
def test_what_was_refused_or_never_left_leaves_no_intent(outcome: Outcome) -> None:
    world = World(BEGIN)
    store = Store(world, {"metadata.version": 27})
    world.outcomes = [outcome]
    last = asyncio.run(reconcile_once(context_of(world, store)))
    assert last.outcome == outcome
    assert "intents" not in store.status
    assert len(store.status["history"]) == 1


def test_an_unreachable_cluster_keeps_the_facts_of_before() -> None:
    world = World(WANTED)
    store = Store(world, WANTED)
    run(world, store)
    world.down = SILENT
    asyncio.run(reconcile_once(context_of(world, store)))
    conditions = {one["type"]: one for one in store.status["conditions"]}
    assert conditions["Ready"]["status"] == "Unknown"
    assert conditions["Reachable"]["reason"] == "BootstrapUnreachable"
    assert store.status["metadataVersion"] == "4.1-IV1"


def test_a_plan_that_waits_goes_on_waiting_while_the_cluster_is_away() -> None:
    world = World(BEGIN)
    store = Store(world, {})
    store.wanted = Wanted(WANTED, policy=ApprovalPolicy.ALWAYS)
    run(world, store)
    waiting = next(one for one in store.status["conditions"] if one["type"] == "ApprovalRequired")
    world.down = SILENT
    asyncio.run(reconcile_once(context_of(world, store)))
    assert waiting in store.status["conditions"]


def test_another_cluster_behind_the_address_is_never_touched() -> None:
    world = World(BEGIN)
    store = Store(world, WANTED)
    store.status = {"clusterId": "cluster-2"}
    last = run(world, store)
    assert isinstance(last.decision, Stalled)
    assert store.status["clusterId"] == "cluster-2"
    assert world.sent == []


def test_another_cluster_tells_nothing_about_an_open_intent() -> None:
    world = World({"metadata.version": 27})
    store = Store(world, {"metadata.version": 27})
    intent = {"kind": "UpdateFeature", "target": "metadata.version", "before": "21", "after": "27", "at": AT}
    store.status = {"clusterId": "cluster-2", "intents": [intent]}
    assert isinstance(run(world, store).decision, Stalled)
    assert store.status["intents"][0] == intent
    assert "history" not in store.status


def test_what_a_broker_passed_on_is_waited_for_as_long_as_it_may_keep_it() -> None:
    world = World(BEGIN)
    world.sends_to_active_controller = False
    store = Store(world, {"metadata.version": 27})
    world.outcomes = [OutcomeUnknown("EOF")]
    asyncio.run(reconcile_once(context_of(world, store)))
    assert store.status["intents"][0]["via"] == "Broker"
    last = asyncio.run(reconcile_once(context_of(world, store)))
    assert isinstance(last.decision, Wait)
    assert len(world.sent) == 1
    later = ReconcileContext(store=store, kafka=world, now=lambda: NOW + timedelta(minutes=6), sleep=no_time)
    asyncio.run(reconcile_once(later))
    assert len(world.sent) == 2


def test_where_noops_are_off_a_majority_that_fetched_since_settles_it_too() -> None:
    world = World(BEGIN)
    store = Store(world, {"metadata.version": 27})
    world.outcomes = [OutcomeUnknown("EOF")]
    asyncio.run(reconcile_once(context_of(world, store)))
    world.quorum_works, world.fetches = False, True  # the high watermark stands still, and the voters fetch
    assert isinstance(run(world, store).decision, Done)
    assert len(world.sent) == 2


def test_a_consent_is_spent_before_it_is_used_and_given_back_where_nothing_was_lowered() -> None:
    world = World({"metadata.version": 27, "group.version": 1})
    store = Store(world, {"group.version": 0})
    store.wanted = Wanted({"group.version": 0}, consents=frozenset({"group.version:1->0"}))
    world.outcomes = [Rejected(95, "no")]
    asyncio.run(reconcile_once(context_of(world, store)))
    assert store.status.get("spentConsents", []) == []
    assert isinstance(run(world, store).decision, Done)
    assert store.status["spentConsents"] == ["group.version:1->0"]
    world.levels["group.version"] = 1
    last = run(world, store)
    assert len(world.sent) == 2
    assert isinstance(last.decision, Held)  # somebody else raised it: reported, not lowered again


@pytest.mark.parametrize("at", range(12))
def test_killed_anywhere_a_consent_lowers_once(at: int) -> None:
    world = World({"metadata.version": 27, "group.version": 1})
    store = Store(world, {})
    store.wanted = Wanted({"group.version": 0}, consents=frozenset({"group.version:1->0"}))
    world.crash_in = at
    with contextlib.suppress(Crash):
        run(world, store)
    world.crash_in = None
    assert isinstance(run(world, store).decision, Done)
    assert world.effective == 1
    assert store.status["spentConsents"] == ["group.version:1->0"]


@pytest.mark.parametrize("log_is_read", [True, False])
def test_killed_before_the_yes_was_recorded_and_reverted_meanwhile_the_consent_stays_spent(log_is_read: bool) -> None:
    world = World({"metadata.version": 27, "group.version": 1})
    world.log_is_read = log_is_read
    store = Store(world, {})
    store.wanted = Wanted({"group.version": 0}, consents=frozenset({"group.version:1->0"}))
    world.outcomes = [OutcomeUnknown("killed")]
    asyncio.run(reconcile_once(context_of(world, store)))
    world.apply(world.sent[0])
    world.apply(UpdateFeature("group.version", 0, 1))
    last = run(world, store)
    assert isinstance(last.decision, Stalled)
    assert last.decision.reason is Reason.CONSENT_SPENT
    assert len(world.sent) == 1


def test_killed_before_it_was_sent_the_log_gives_the_consent_back() -> None:
    world = World({"metadata.version": 27, "group.version": 1})
    store = Store(world, {})
    store.wanted = Wanted({"group.version": 0}, consents=frozenset({"group.version:1->0"}))
    world.outcomes = [OutcomeUnknown("killed")]
    asyncio.run(reconcile_once(context_of(world, store)))
    assert isinstance(run(world, store).decision, Done)
    assert [one["result"] for one in store.status["history"]] == ["NotApplied", "Applied"]


def test_a_foreign_change_is_corrected_twice_within_an_hour_and_then_left() -> None:
    world = World({"metadata.version": 27})
    store = Store(world, {})
    store.wanted = Wanted({"group.version": 1}, on_drift=OnDrift.CORRECT, policy=ApprovalPolicy.NEVER)
    run(world, store)
    for _ in range(2):
        world.levels["group.version"] = 0
        assert isinstance(run(world, store).decision, Done)
    world.levels["group.version"] = 0
    last = run(world, store)
    assert isinstance(last.decision, Stalled)
    assert last.decision.reason is Reason.CONFLICT_DETECTED
    assert len(world.sent) == 3


def test_what_the_controller_said_yes_to_and_somebody_took_back_was_done() -> None:
    """Not "NotApplied": a consent, or an approval, that was used stays used, and what follows is drift."""
    world = World({"metadata.version": 27, "group.version": 1})
    store = Store(world, {})
    store.wanted = Wanted({"group.version": 0}, consents=frozenset({"group.version:1->0"}))
    asyncio.run(reconcile_once(context_of(world, store)))
    assert store.status["intents"][0]["outcome"] == "Applied"
    world.levels["group.version"] = 1  # before anybody read it back
    last = run(world, store)
    assert isinstance(last.decision, Held)
    assert last.decision.reason is Reason.DRIFTED
    assert [blocker.reason for blocker in last.decision.blockers] == [Reason.CONSENT_SPENT]
    assert len(world.sent) == 1
    assert store.status["changeCount"] == 1


def test_what_somebody_took_back_before_it_was_read_is_drift_and_not_sent_again() -> None:
    """The cluster is away just after it said yes, and when it is back the level is where it was."""
    world = World({"metadata.version": 27})
    store = Store(world, {"group.version": 1})
    for _ in range(3):
        asyncio.run(reconcile_once(context_of(world, store)))
        world.down = SILENT
        asyncio.run(reconcile_once(context_of(world, store)))
        world.down = None
        world.apply(UpdateFeature("group.version", 1, 0))  # somebody else
    assert len(world.sent) == 1
    assert [one["result"] for one in store.status["history"]] == ["Superseded"]
    last = run(world, store)
    assert isinstance(last.decision, Held)
    assert last.decision.reason is Reason.DRIFTED


def test_a_fight_is_not_forgotten_over_what_fails() -> None:
    world = World({"metadata.version": 27})
    store = Store(world, {})
    store.wanted = Wanted({"group.version": 1}, on_drift=OnDrift.CORRECT, policy=ApprovalPolicy.NEVER)
    run(world, store)
    for _ in range(3):
        world.apply(UpdateFeature("group.version", 1, 0))  # somebody else
        world.outcomes = [NotSent(f"reason {n % 2}") for n in range(12)]
        last = run(world, store, most=40)
    assert isinstance(last.decision, Stalled)
    assert last.decision.reason is Reason.CONFLICT_DETECTED
    results = [one["result"] for one in store.status["history"]]
    assert len(results) == 10
    assert results.count("Corrected") == 2


def test_what_fails_again_and_again_is_told_once() -> None:
    world = World({"metadata.version": 27})
    world.outcomes = [NotSent("no connection")] * 5
    store = Store(world, {"group.version": 1})
    run(world, store)
    told = [(one["result"], one.get("message")) for one in store.status["history"]]
    assert told == [("NotSent", "no connection"), ("Applied", None)]


def test_one_who_reverts_at_once_is_not_fought_either() -> None:
    world = World({"metadata.version": 27})
    store = Store(world, {})
    store.wanted = Wanted({"group.version": 1}, on_drift=OnDrift.CORRECT, policy=ApprovalPolicy.NEVER)
    run(world, store)
    for _ in range(20):
        world.levels["group.version"] = 0
        asyncio.run(reconcile_once(context_of(world, store)))
    assert len(world.sent) <= 4


def test_a_look_without_levels_forgets_nothing() -> None:
    world = World({"metadata.version": 27, "group.version": 1})
    store = Store(world, {"group.version": 1})
    run(world, store)
    world.no_levels = True
    asyncio.run(reconcile_once(context_of(world, store)))
    world.no_levels = False
    world.levels["group.version"] = 0
    assert isinstance(run(world, store).decision, Held)
    assert world.sent == []


def test_a_look_without_levels_does_not_void_an_approval() -> None:
    world = World(BEGIN)
    store = Store(world, {})
    store.wanted = Wanted(WANTED, policy=ApprovalPolicy.ALWAYS)
    run(world, store)
    approved = frozenset({store.status["plan"]["hash"]})
    store.wanted = Wanted(WANTED, policy=ApprovalPolicy.ALWAYS, approvals=approved)
    asyncio.run(reconcile_once(context_of(world, store)))
    world.no_levels = True
    asyncio.run(reconcile_once(context_of(world, store)))
    world.no_levels = False
    assert isinstance(run(world, store).decision, Done)
    assert len(world.sent) == 2


def test_nothing_of_a_wrong_cluster_is_written_down() -> None:
    world = World({"metadata.version": 27})
    store = Store(world, {})
    store.wanted = Wanted({"metadata.version": 27}, cluster_id="cluster-9")
    assert isinstance(run(world, store).decision, Stalled)
    assert "clusterId" not in store.status
    assert "features" not in store.status


def test_what_was_done_to_one_cluster_is_not_carried_to_another() -> None:
    world = World(BEGIN)
    store = Store(world, {})
    store.wanted = Wanted({"metadata.version": 27}, cluster_id="cluster-1")
    store.status = {"clusterId": "cluster-2"}
    assert isinstance(run(world, store).decision, Stalled)
    assert world.sent == []


def test_an_answer_that_lags_the_controllers_own_yes_is_not_taken_for_a_revert() -> None:
    """Asked in the moment after it said yes, a controller may still report the level of before."""
    world = World({"metadata.version": 27, "group.version": 1})
    store = Store(world, {})
    store.wanted = Wanted({"group.version": 0}, consents=frozenset({"group.version:1->0"}))
    asyncio.run(reconcile_once(context_of(world, store)))
    world.levels["group.version"] = 1

    async def shown_at_last(seconds: float) -> None:
        world.levels["group.version"] = 0

    asyncio.run(reconcile_once(ReconcileContext(store=store, kafka=world, now=lambda: NOW, sleep=shown_at_last)))
    assert isinstance(run(world, store).decision, Done)
    assert [one["result"] for one in store.status["history"]] == ["Applied"]
    assert len(world.sent) == 1


def test_a_long_refusal_is_cut_wherever_it_is_kept() -> None:
    world = World({"metadata.version": 21})
    store = Store(world, {"metadata.version": 27})
    world.outcomes = [Rejected(44, "x" * 32_000)] * 12
    for _ in range(12):
        asyncio.run(reconcile_once(context_of(world, store)))
    assert len(json.dumps(store.status)) < 16 * 1024


@pytest.mark.parametrize("known", [True, False])
def test_an_older_resource_that_came_to_the_cluster_meanwhile_is_asked_for_right_before_the_act(known: bool) -> None:
    """Between the decision and the act there is a write, and other resources have their turn."""
    world = World(BEGIN)
    store = Store(world, {"metadata.version": 27})
    older = Owner("ns/older", known=known)
    made = replace(
        context_of(world, store), competing_owner=lambda cluster_id: older if "intents" in store.status else None
    )
    last = asyncio.run(reconcile_once(made))
    assert world.sent == []
    assert isinstance(last.decision, Stalled if known else Wait)
    assert last.decision.reason is (Reason.DUPLICATE_OWNER if known else Reason.PREFLIGHT)
    assert "intents" not in store.status
    assert store.status["history"][-1]["result"] == "NotSent"
    assert store.status["history"][-1]["message"].startswith("ns/older is older")
    assert store.status["conditions"][0]["reason"] == last.decision.reason
