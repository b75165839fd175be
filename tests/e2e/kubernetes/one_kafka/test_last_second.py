"""A resource that is suspended, or an operator that ends, between the intent in the status and the request to Kafka:
the request is not sent. On a real API server and real Kafka.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest

from tests.e2e.kafka.wire import feature_records
from tests.e2e.kubernetes.one_kafka.conftest import SHARE
from tests.e2e.kubernetes.resources import Resources, levels
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.kubernetes.operator import USER, Operator
from tests.e2e.rig.kubernetes.webhook import webhook
from tests.e2e.rig.process import wait_until

NAME = "late"


@contextmanager
def intent_is_written(resources: Resources, operator: Operator) -> Iterator[None]:
    """Context in which the API server has the intent, and the operator, which is frozen, does not know that yet. It
    continues afterwards.
    """
    frozen = Event()

    def look(request: dict[str, Any]) -> None:
        if request["object"]["status"].get("intents") and not request.get("dryRun") and not frozen.is_set():
            operator.freeze()
            frozen.set()

    with webhook(resources.plane, look, user=USER, resources=("kafkafeatures/status",)):
        resources.apply(NAME, {SHARE: 1})
        assert frozen.wait(60)
        wait_until("the intent is there", lambda: bool(resources.status(NAME).get("intents")))
        try:
            yield
        finally:
            operator.heal()


@pytest.mark.parametrize(
    "withdraw",
    [
        lambda resources: resources.annotate(NAME, "kafkafeatures.dev/pause=true"),
        lambda resources: resources.apply(NAME, {SHARE: 1}, suspend=True),
    ],
    ids=["paused", "suspended"],
)
def test_no_update_is_sent_for_a_resource_suspended_while_the_intent_is_written(
    resources: Resources, operator: Operator, kafka: Cluster, withdraw: Callable[[Resources], None]
) -> None:
    before = feature_records(kafka)
    with intent_is_written(resources, operator):
        withdraw(resources)
    resources.until(NAME, "Ready", "Suspended")
    status = resources.status(NAME)
    assert "intents" not in status
    assert [entry["result"] for entry in status["history"]] == ["NotSent"]
    assert feature_records(kafka) == before


def test_an_operator_that_ends_while_the_intent_is_written_leaves_the_update_to_its_successor(
    resources: Resources, operator: Operator, kafka: Cluster
) -> None:
    before = feature_records(kafka)
    with intent_is_written(resources, operator):
        os.kill(operator.pid, signal.SIGTERM)
    wait_until("it has ended", lambda: not operator.alive, 30)
    status = resources.status(NAME)
    assert "intents" not in status
    assert [entry["result"] for entry in status["history"]] == ["NotSent"]
    assert feature_records(kafka) == before
    operator.start()
    resources.wait(NAME, "Ready")
    assert levels(kafka)[SHARE] == 1
    assert feature_records(kafka) == before + 1
