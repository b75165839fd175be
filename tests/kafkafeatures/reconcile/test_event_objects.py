"""Event objects as the API server gets them: within its limits, with facts that can be read back."""

from __future__ import annotations

import pytest

from kafkafeatures.api.names import EVENT_FACTS
from kafkafeatures.cli.kube.seen_events import seen_event
from kafkafeatures.core.engine.event_records import EventFacts, EventRecord
from kafkafeatures.environment import Environment
from kafkafeatures.kube.events import event_of
from tests.kafkafeatures.worlds import NOW


def test_an_event_is_never_refused_for_its_length_or_its_name() -> None:
    # The name of an Event begins with the first 200 characters of the resource's name, and "-." is not allowed in it.
    metadata = {"name": "a" * 199 + "-b", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
    event = event_of(
        EventRecord("R", "A", "ü" * 1000), {"metadata": metadata}, environment=Environment(lambda: NOW), instance="i"
    )
    assert event["note"] == "ü" * 512  # 1024 bytes
    assert event["metadata"]["name"].startswith("a" * 199 + ".")
    assert "related" not in event


def test_an_event_of_a_restart_is_related_to_its_pod() -> None:
    metadata = {"name": "orders", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
    facts = EventFacts(node="broker 3", pod="orders-3")
    record = EventRecord("RestartingNode", "Evict", "restarting broker 3", facts=facts)
    event = event_of(record, {"metadata": metadata}, environment=Environment(lambda: NOW), instance="i")
    assert event["related"] == {"apiVersion": "v1", "kind": "Pod", "name": "orders-3", "namespace": "ns"}
    assert event["metadata"]["annotations"] == {"kafkafeatures.dev/facts": '{"node":"broker 3","pod":"orders-3"}'}
    assert seen_event(event).facts == facts
    assert event["note"] == "restarting broker 3"


@pytest.mark.parametrize(
    "facts",
    ["", "no", "[]", "{", "[" * 100_000, '{"node": 3, "nodeId": "x", "later": {}}'],
    ids=["empty", "no JSON", "list", "cut", "deeply nested", "fields of a newer release"],
)
def test_event_facts_of_another_release_are_read_as_far_as_they_are_known(facts: str) -> None:
    metadata = {"name": "orders", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
    event = event_of(
        EventRecord("R", "A", "n"), {"metadata": metadata}, environment=Environment(lambda: NOW), instance="i"
    )
    assert "annotations" not in event["metadata"]
    event_read = seen_event({**event, "metadata": {**event["metadata"], "annotations": {EVENT_FACTS: facts}}})
    assert (event_read.reason, event_read.note, event_read.facts and event_read.facts.node) == (
        "R",
        "n",
        "3" if "later" in facts else None,
    )
