"""A request with unknown outcome: settled by a working quorum, and not sent again before that."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from kafkafeatures.core.engine.decisions import Done, Wait
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.steps import NotSent, OutcomeUnknown
from kafkafeatures.core.facts.readings import Readings, Role
from kafkafeatures.reconcile.act import summary_of
from kafkafeatures.reconcile.settle import SETTLE_SECONDS
from tests.kafkafeatures.reconcile.simulated import (
    Cluster,
    Store,
    context_of,
    once,
    reconcile_once,
    run,
)

BEGIN = {"metadata.version": 21}


def test_an_unknown_outcome_that_was_applied_is_read_back_and_not_sent_again() -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, {"metadata.version": 27})
    cluster.outcomes = [OutcomeUnknown("EOF")]
    once(cluster, store)
    assert cluster.move(cluster.sent[0].feature, cluster.sent[0].to_level)
    assert isinstance(run(cluster, store).decision, Done)
    assert len(cluster.sent) == 1
    assert store.status["history"][-1]["result"] == "Applied"


def test_the_cause_of_an_unknown_outcome_is_in_the_status_and_the_next_observation_follows_soon() -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, {"metadata.version": 27})
    cluster.outcomes = [OutcomeUnknown("EOF")]
    last = once(cluster, store)
    assert last.requeue_after == SETTLE_SECONDS
    assert summary_of(last).endswith(": OutcomeUnknown: EOF")


def test_an_unknown_outcome_that_comes_true_between_two_readings_is_not_sent_again() -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, {"metadata.version": 27})
    cluster.outcomes = [OutcomeUnknown("no answer")]
    once(cluster, store)
    readings = itertools.count()
    read = cluster.read

    async def late(**_: object) -> Readings:
        if next(readings) == 1:  # before the second reading
            assert cluster.move("metadata.version", 27)
        return await read()

    cluster.read = late  # type: ignore[method-assign]
    assert isinstance(run(cluster, store).decision, Done)
    assert len(cluster.sent) == 1
    assert cluster.effective == 1


def test_an_unknown_outcome_is_settled_only_by_a_quorum_that_works() -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, {"metadata.version": 27})
    cluster.outcomes = [OutcomeUnknown("EOF")]
    once(cluster, store)
    for controller in (3001, 3002):
        cluster.world.stop(Role.CONTROLLER, controller, kill=True)
    last = once(cluster, store)  # one of three controllers runs: no quorum
    assert isinstance(last.decision, Wait)
    assert len(cluster.sent) == 1
    cluster.world.start(Role.CONTROLLER, 3002)
    assert isinstance(run(cluster, store).decision, Done)
    assert [entry["result"] for entry in store.status["history"]] == ["NotApplied", "Applied"]


def test_an_unknown_outcome_is_not_settled_over_an_election() -> None:
    """The new leader may still commit what the former leader has appended, so a higher watermark proves nothing."""
    cluster = Cluster(BEGIN)
    store = Store(cluster, {"metadata.version": 27})
    cluster.outcomes = [OutcomeUnknown("EOF")]
    once(cluster, store)

    async def elected(seconds: float) -> None:
        leader = cluster.world.active
        assert leader is not None
        cluster.world.stop(Role.CONTROLLER, leader, kill=True)
        await cluster.sleep(5.0)
        cluster.world.start(Role.CONTROLLER, leader)

    for _ in range(3):
        last = asyncio.run(reconcile_once(context_of(cluster, store, sleep=elected)))
        assert isinstance(last.decision, Wait)
    assert len(cluster.sent) == 1
    assert isinstance(run(cluster, store).decision, Done)
    assert len(cluster.sent) == 2


@pytest.mark.parametrize(
    ("behind", "result", "spent"),
    [(False, "NotApplied", []), (True, "Unverified", ["group.version:1->0"])],
    ids=["last change before the offset", "change at the offset"],
)
def test_a_level_change_at_the_offset_of_the_intent_may_be_the_sent_change_and_one_before_it_is_not(
    behind: bool, result: str, spent: list[str]
) -> None:
    """The intent has the end of the log at that time: only a batch at or behind this offset can be the change."""
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {})
    store.wanted = DesiredState({"group.version": 0}, consents=frozenset({"group.version:1->0"}))
    cluster.outcomes = [OutcomeUnknown("EOF")]
    assert cluster.move("group.version", 1)
    once(cluster, store)
    offset = store.status["intents"][0]["offset"]
    assert cluster.world.image.features_offset == offset == cluster.world.log.end_offset
    if behind:
        assert cluster.move("group.version", 0)
        assert cluster.move("group.version", 1)
    cluster.outcomes = [NotSent("so that the consents stay as they are")]
    once(cluster, store)
    assert store.status["history"][0]["result"] == result
    assert store.status.get("spentConsents", []) == spent
