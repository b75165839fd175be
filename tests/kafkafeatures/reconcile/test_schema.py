"""A CRD that is older than the operator: nothing is sent of which the status would not tell after a crash."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.kube.errors import Invalid
from kafkafeatures.reconcile.kube_home import dropped_fields
from tests.kafkafeatures.reconcile.test_worker import KEY, Api, Kafka, Rig

Json = dict[str, Any]


def without(*names: str) -> Callable[[Json], Json]:
    """A schema that does not know these fields of a status; `intent.at` is within another."""

    def keeps(status: Json) -> Json:
        for name in names:
            outer, _, inner = name.partition(".")
            if not inner:
                status.pop(outer, None)
            elif outer in status:
                status[outer].pop(inner, None)
        return status

    return keeps


@pytest.mark.parametrize("field", ["intent", "intent.offset", "intent.at", "operator", "spentConsents", "conditions"])
async def test_where_the_server_drops_a_field_nothing_is_sent_and_the_status_says_which(field: str) -> None:
    rig = Rig(Api())
    rig.api.keeps = without(field)
    for _ in range(3):
        await rig.work()
    assert rig.kafka.sent == []
    if field == "conditions":
        return
    stalled = rig.api.condition("Stalled")
    assert stalled["reason"] == rig.api.condition("Ready")["reason"] == "SchemaOutdated"
    assert f"status.{field}" in stalled["message"]
    assert "intent" not in rig.api.object["status"]
    assert rig.api.events.count("SchemaOutdated") == 1


async def test_a_schema_that_stays_old_causes_no_more_writes_and_a_new_one_lets_it_go_on() -> None:
    rig = Rig(Api())
    rig.api.keeps = without("intent")
    for _ in range(2):
        await rig.work()
    writes = rig.api.writes
    for _ in range(3):
        await rig.work()
    assert rig.api.writes == writes
    rig.api.keeps = lambda status: status
    for _ in range(3):
        await rig.work()
    assert rig.api.condition("Ready")["reason"] == "InSync"
    assert len(rig.kafka.sent) == 1


async def test_a_status_that_the_schema_refuses_is_told_as_well() -> None:
    rig = Rig(Api())

    def keeps(status: Json) -> Json:
        if "intent" in status:
            raise Invalid("PUT: 422 status.intent.via: Unsupported value")
        return status

    rig.api.keeps = keeps
    await rig.work()
    assert rig.kafka.sent == []
    assert "Unsupported value" in rig.api.condition("Stalled")["message"]
    assert rig.api.condition("Stalled")["reason"] == "SchemaOutdated"


LOWER = {"levels": [{"name": "metadata.version", "level": 20}]}


async def test_a_status_that_is_refused_for_what_the_document_says_is_not_tried_for_ever() -> None:
    rig = Rig(Api())

    def keeps(status: Json) -> Json:
        if status["observedGeneration"] == 1 and "intent" in status:
            raise Invalid("PUT: 422 status.intent: too long")
        return status

    rig.api.keeps = keeps
    await rig.work()
    assert rig.api.condition("Stalled")["reason"] == "SchemaOutdated"
    rig.api.object["metadata"]["generation"] = 2
    for _ in range(3):
        await rig.work()
    assert rig.api.condition("Ready")["reason"] == "InSync"


async def test_a_consent_of_which_the_server_forgot_that_it_was_used_is_not_used_again() -> None:
    """The schema of another release was there for a while; what it does not know is gone with the first write."""
    rig = Rig(Api(), Kafka({"metadata.version": 21}))
    rig.api.edit().update(features=LOWER, consents=["metadata.version:21->20"])
    for _ in range(4):
        await rig.work()
    assert rig.api.object["status"]["spentConsents"] == ["metadata.version:21->20"]
    rig.api.keeps = without("spentConsents")
    del rig.api.object["status"]["spentConsents"]
    rig.kafka.levels["metadata.version"] = 21  # raised by hand
    rig.api.edit()["drift"] = {"onDrift": "Correct"}
    another = Rig(rig.api, rig.kafka)
    await another.work()
    assert rig.api.condition("Stalled")["reason"] == "SchemaOutdated"
    rig.api.keeps = lambda status: status
    for _ in range(4):
        await another.work()
    assert len(rig.kafka.sent) == 1
    assert rig.api.condition("Stalled")["reason"] == "ConsentSpent"


@pytest.mark.parametrize("forgotten", [("spentConsents",), ("spentConsents", "operator")])
@pytest.mark.parametrize(
    "meanwhile", ["a Secret is missing", "the document is invalid", "a pass fails", "a pass fails before"]
)
async def test_a_consent_of_which_the_server_forgot_that_it_was_used_stays_so_whatever_the_status_says_meanwhile(
    meanwhile: str, forgotten: tuple[str, ...]
) -> None:
    rig = Rig(Api(), Kafka({"metadata.version": 21}))
    rig.api.edit().update(features=LOWER, consents=["metadata.version:21->20"], drift={"onDrift": "Correct"})
    for _ in range(4):
        await rig.work()
    for name in forgotten:
        del rig.api.object["status"][name]
    rig.api.keeps = without(*forgotten)
    rig.kafka.levels["metadata.version"] = 21  # raised by hand
    await rig.work()
    assert rig.api.condition("Stalled")["reason"] == "SchemaOutdated"
    if meanwhile == "a pass fails before":
        await rig.worker.failed(KEY, TimeoutError())
    rig.api.keeps = lambda status: status
    if meanwhile == "a pass fails before":
        await rig.work()
    elif meanwhile == "a pass fails":
        await rig.worker.failed(KEY, TimeoutError())
    else:
        cluster = rig.api.object["spec"]["cluster"]
        broken = {"tls": {"caSecretRef": {"name": "ca"}}} if meanwhile == "a Secret is missing" else {"surprise": 1}
        rig.api.edit()["cluster"] = {**cluster, **broken}
        await rig.work()
        rig.api.edit()["cluster"] = cluster
    for _ in range(4):
        await rig.work()
    assert len(rig.kafka.sent) == 1
    assert rig.api.condition("Stalled")["reason"] == "ConsentSpent"


async def test_a_consent_that_was_never_used_survives_an_older_schema() -> None:
    rig = Rig(Api(), Kafka({"metadata.version": 21}))
    rig.api.edit().update(features=LOWER, consents=["metadata.version:21->20"])
    rig.api.keeps = without("spentConsents", "intent")
    await rig.work()
    rig.api.keeps = lambda status: status
    for _ in range(4):
        await rig.work()
    assert rig.api.condition("Ready")["reason"] == "InSync"


# --- the comparison ---

LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner), max_leaves=9
)
STATUSES = st.dictionaries(st.text("abc", min_size=1), VALUES, max_size=4)


@given(STATUSES)
def test_what_is_kept_is_not_called_dropped_however_it_is_written(status: Json) -> None:
    def written(value: Any) -> Any:
        if isinstance(value, dict):
            return {**{name: written(one) for name, one in value.items()}, "by default": 1}
        if isinstance(value, list):
            return [written(one) for one in value]
        return f"{value} in other words"

    assert list(dropped_fields(status, written(status))) == []


def places(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return [(value, name) for name in value] + [place for one in value.values() for place in places(one)]
    if isinstance(value, list):
        return [(value, at) for at in range(len(value))] + [place for one in value for place in places(one)]
    return []


@given(STATUSES, st.data())
def test_whatever_is_dropped_anywhere_is_found(status: Json, data: st.DataObject) -> None:
    kept = copy.deepcopy(status)
    if places(kept):
        holder, name = data.draw(st.sampled_from(places(kept)))
        del holder[name]
        assert list(dropped_fields(status, kept))
