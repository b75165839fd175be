"""Intents: a sent step is settled by two readings, and an unreadable intent stops the resource."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Done, Stalled
from kafkafeatures.core.engine.gates import Owner
from kafkafeatures.core.engine.steps import Applied, DryRun, Outcome, OutcomeUnknown
from kafkafeatures.core.facts.readings import LogReading, Readings
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.reconcile.context import EffectRecord
from tests.kafkafeatures.reconcile.simulated import (
    Cluster,
    Store,
    context_of,
    once,
    reconcile_once,
    run,
    without_levels,
)
from tests.kafkafeatures.worlds import NOW
from tests.kafkasim.clusters import CLUSTER_ID, plan
from tests.simulated import schema

AT = stamp(NOW)
BEGIN = {"metadata.version": 21}
RESTART = {"kind": "RestartNode", "nodeId": 3, "podUid": "u", "at": AT}


def test_an_intent_of_an_unknown_kind_is_kept_and_stops_the_resource() -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, {"metadata.version": 27})
    store.server.schema = schema.open_status()
    store.status = {"clusterId": CLUSTER_ID, "intents": [RESTART], "fleet": {"id": "1"}}
    last = run(cluster, store)
    assert isinstance(last.decision, Stalled)
    assert last.decision.reason is Reason.UNKNOWN_INTENT
    assert "RestartNode" in last.decision.message
    assert cluster.sent == []
    assert (store.status["intents"], store.status["fleet"]) == ([RESTART], {"id": "1"})
    store.status = {"fleet": {"id": "1"}}  # a person has checked the outcome, and removes the intent
    assert isinstance(run(cluster, store).decision, Done)


@pytest.mark.parametrize(
    "change",
    [{"kind": None}, {"before": None}, {"before": "x"}, {"at": "soon"}, {"via": "Forwarder"}, {"offset": "9"}],
    ids=lambda change: next(iter(change)),
)
def test_an_unreadable_intent_is_kept_and_stops_the_resource(change: dict[str, Any]) -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, {"metadata.version": 27})
    intent = {"kind": "UpdateFeature", "target": "f", "before": "0", "after": "1", "via": "Broker", "at": AT, **change}
    intent = {name: value for name, value in intent.items() if value is not None}
    store.server.schema = schema.open_status()
    store.status = {"clusterId": CLUSTER_ID, "intents": [intent]}
    last = run(cluster, store)
    assert isinstance(last.decision, Stalled)
    assert last.decision.reason is Reason.UNKNOWN_INTENT
    assert (cluster.sent, store.status["intents"]) == ([], [intent])


@pytest.mark.parametrize("outcome", [OutcomeUnknown("EOF"), Applied()], ids=["no answer", "accepted"])
def test_one_reading_of_a_single_controller_settles_no_step(outcome: Outcome) -> None:
    """A single controller is a majority by itself, but the change may still be in its queue."""
    cluster = Cluster(BEGIN, plan(controllers={3001: "4.2"}))
    store = Store(cluster, {"metadata.version": 27})
    cluster.outcomes = [outcome]
    once(cluster, store)
    assert cluster.levels == BEGIN  # not there yet
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        assert cluster.move("metadata.version", 27)  # now it is

    asyncio.run(reconcile_once(context_of(cluster, store, sleep=sleep)))
    assert slept == [1.0]
    assert store.status["history"][-1]["result"] == "Applied"
    assert len(cluster.sent) == 1


def test_one_reading_of_an_unchanged_level_settles_no_step() -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, {"metadata.version": 27})
    cluster.outcomes = [OutcomeUnknown("EOF")]
    once(cluster, store)
    cluster.shows = without_levels

    async def sleep(seconds: float) -> None:
        cluster.shows = lambda readings: readings

    asyncio.run(reconcile_once(context_of(cluster, store, sleep=sleep)))
    assert store.status["intents"]
    assert "history" not in store.status


def test_the_effect_log_has_each_step_before_it_is_sent() -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, {"metadata.version": 27})
    effects: list[tuple[EffectRecord, int]] = []
    context = replace(context_of(cluster, store), effects=lambda effect: effects.append((effect, len(cluster.sent))))
    asyncio.run(reconcile_once(context))
    (record, sent_before) = effects[0]
    assert (str(record.step), record.resource, sent_before) == ("metadata.version 21 -> 27", "ns/name", 0)
    assert len(effects) == len(cluster.sent) == 1


@pytest.mark.parametrize("is_restored", [False, True])
def test_a_second_reading_settles_a_step_unless_its_log_was_restored(is_restored: bool) -> None:
    cluster = Cluster(BEGIN)
    store = Store(cluster, {"metadata.version": 27})
    cluster.outcomes = [OutcomeUnknown("EOF")]
    once(cluster, store)
    (intent,) = store.status["intents"]
    numbers = count()

    def truncated(readings: Readings) -> Readings:
        assert isinstance(readings.log, LogReading)
        image = replace(readings.log.image, offset=1)
        return (
            readings._replace(log=replace(readings.log, image=image)) if next(numbers) % 2 else readings
        )  # the second of two

    if is_restored:
        cluster.shows = truncated
    once(cluster, store)
    assert (intent in store.status.get("intents", ())) is is_restored


def test_no_dry_run_is_asked_for_a_cluster_that_an_older_resource_owns() -> None:
    class Asked(Cluster):
        async def validate(self, changes: Sequence[UpdateFeature], *, directly: bool = False) -> DryRun:
            raise AssertionError(changes)

    cluster = Asked(BEGIN)
    store = Store(cluster, {"metadata.version": 27})
    context = replace(context_of(cluster, store), competing_owner=lambda _: Owner("ns/old", owns_cluster=True))
    last = asyncio.run(reconcile_once(context))
    assert isinstance(last.decision, Stalled)
    assert last.decision.reason is Reason.DUPLICATE_OWNER
