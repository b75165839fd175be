"""Status fields of another operator release survive reconciliations of this one, in every object."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.records import has_unknown, keeping_unknown, without_unknown
from kafkafeatures.api.status import EMPTY, Status, read_status
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState
from kafkafeatures.core.engine.steps import OutcomeUnknown
from kafkafeatures.core.report.bounds import MAX_STATUS
from tests.kafkafeatures.reconcile.simulated import Cluster, Store, once, run
from tests.kafkasim.clusters import plan
from tests.simulated import schema

FOREIGN = "ofAnotherRelease"
NOT_MARKED = {"stages", "from", "to", "supported", "excused"}
"""Fields that an approval covers: with an unknown field in them, the plan would be another one."""
FOREIGN_VALUE = [4.5, {"a": [None]}]

Json = dict[str, Any]


def objects(value: Any, path: str = "status") -> Iterator[tuple[str, Json]]:
    """Return all objects in a value, also those in lists."""
    if isinstance(value, dict):
        yield path, value
        for name, item in value.items():
            if name not in NOT_MARKED:
                yield from objects(item, f"{path}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from objects(item, f"{path}[{index}]")


def marked(status: Json) -> tuple[Json, set[str]]:
    """Return the status with a field of another release in every object, and the paths of these objects."""
    copied = json.loads(json.dumps(status))
    paths = set()
    for path, fields in list(objects(copied)):
        fields[FOREIGN] = FOREIGN_VALUE
        paths.add(path)
    return copied, paths


def foreign_paths(status: Json) -> set[str]:
    return {path for path, fields in objects(status) if fields.get(FOREIGN) == FOREIGN_VALUE}


def standing() -> tuple[Cluster, Store]:
    """Set up a resource with a plan, a way back, blockers, history and an intent."""
    cluster = Cluster(
        {"metadata.version": 25}, plan(dict.fromkeys((1, 2, 3), "4.4"), dict.fromkeys((3001, 3002, 3003), "4.4"))
    )
    store = Store(cluster, {})
    store.server.schema = schema.open_status()
    store.wanted = DesiredState({"group.version": 1})
    run(cluster, store)
    store.wanted = DesiredState(
        {"group.version": 1, "metadata.version": 32}, policy=ApprovalPolicy.ALWAYS, finalize_after=timedelta(hours=1)
    )
    once(cluster, store)
    return cluster, store


def test_unknown_fields_of_another_release_survive_in_every_object_of_the_status() -> None:
    cluster, store = standing()
    assert {"wayBack", "plan", "history", "features", "conditions", "logPosition", "readyReason"} <= store.status.keys()
    store.status, marked_paths = marked(store.status)
    assert {"status.features[0]", "status.conditions[0]", "status.plan", "status.plan.steps[0]"} <= marked_paths
    store.wanted = DesiredState(
        {**store.wanted.levels}, policy=ApprovalPolicy.ALWAYS, finalize_after=timedelta(hours=2)
    )
    writes = store.writes
    once(cluster, store)
    assert store.writes > writes
    assert foreign_paths(store.status) >= marked_paths


@pytest.mark.parametrize("case", ["away", "wrong cluster"])
def test_unknown_fields_survive_a_reconciliation_without_an_observation(case: str) -> None:
    cluster, store = standing()
    store.status, marked_paths = marked(store.status)
    if case == "away":
        cluster.away = True
    else:
        store.status = {**store.status, "clusterId": "another"}
    writes = store.writes
    once(cluster, store)
    assert store.writes > writes
    conditions = {path for path in marked_paths if path.startswith("status.conditions")}
    # The way back and some conditions leave the status, so the other conditions have other indices.
    assert foreign_paths(store.status) >= marked_paths - {"status.wayBack"} - conditions
    assert foreign_paths(store.status) & conditions


def test_unknown_fields_of_an_open_intent_survive_until_the_intent_ends() -> None:
    cluster = Cluster({"metadata.version": 27})
    store = Store(cluster, {})
    store.server.schema = schema.open_status()
    store.wanted = DesiredState({"group.version": 1})
    cluster.outcomes = [OutcomeUnknown("EOF")]
    once(cluster, store)
    store.status, _ = marked(store.status)
    cluster.away = True
    once(cluster, store)
    assert "status.intents[0]" in foreign_paths(store.status)
    cluster.away = False
    run(cluster, store)
    assert "intents" not in store.status
    assert foreign_paths(store.status) >= {"status", "status.features[0]", "status.conditions[0]"}


def test_unknown_fields_of_one_list_item_are_not_copied_to_another_item() -> None:
    before = read_status({"features": [{"name": "a", FOREIGN: 1}, {"name": "b"}], "plan": None})[0]
    after = read_status({"features": [{"name": "b"}, {"name": "a"}, {"name": "c"}]})[0]
    features = keeping_unknown(after, before).as_json()["features"]
    assert features == [{"name": "b"}, {"name": "a", FOREIGN: 1}, {"name": "c"}]


def test_unknown_fields_of_a_plan_are_not_copied_to_another_plan() -> None:
    def of(hash_: str, **more: Any) -> Status:
        common = {"createdAt": "2026-01-01T00:00:00Z", "irreversible": False, "summary": ""}
        return read_status({"plan": {"hash": hash_, **common, **more}})[0]

    assert keeping_unknown(of("one"), of("one", **{FOREIGN: 1})) == of("one", **{FOREIGN: 1})
    assert keeping_unknown(of("two"), of("one", **{FOREIGN: 1})) == of("two")


def test_unknown_fields_that_a_status_already_has_are_not_added_again() -> None:
    status = read_status(marked(standing()[1].status)[0])[0]
    assert has_unknown(status)
    assert keeping_unknown(status, status) is status
    assert not has_unknown(without_unknown(status))
    assert keeping_unknown(EMPTY, status).unknown == {FOREIGN: FOREIGN_VALUE}


def test_unknown_fields_take_no_room_from_the_fields_of_this_release() -> None:
    cluster, store = standing()
    features = store.status["features"]
    store.status = {**store.status, "features": [{**feature, FOREIGN: "x" * MAX_STATUS} for feature in features]}
    store.wanted = DesiredState(
        {**store.wanted.levels}, policy=ApprovalPolicy.ALWAYS, finalize_after=timedelta(hours=2)
    )
    asyncio.run(cluster.sleep(1))
    once(cluster, store)
    assert [feature["name"] for feature in store.status["features"]] == [feature["name"] for feature in features]
    assert all(len(feature[FOREIGN]) == MAX_STATUS for feature in store.status["features"])
    assert "history" in store.status
