"""Two operators that watch the same namespace, as processes on a real API server and real Kafka."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from kafkafeatures.reconcile.operators import HAND_OVER
from tests.amounts import SOAK
from tests.e2e.kafka.wire import feature_records, meddle
from tests.e2e.kubernetes.resources import Resources, away
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.kubernetes.operator import USER, Operator
from tests.e2e.rig.process import wait_until

LEVELS = {"share.version": 1, "streams.version": 1}
ROUNDS = 12 if SOAK else 2


@pytest.fixture
def second(operator: Operator, tmp_path: Path) -> Iterator[Operator]:
    with Operator(operator.plane, tmp_path / "second") as running:
        yield running


@pytest.fixture
def resources(operator: Operator, kafka: Cluster) -> Iterator[Resources]:
    yield Resources(operator.plane, kafka)
    operator.plane.kubectl("delete", "kff", "--all", "-A", "--timeout=30s")


def name_of(operator: Operator) -> str:
    return f"kafka-features-operator ({socket.gethostname()}-{operator.pid})"


def at_rest(resources: Resources, name: str, kafka: Cluster) -> bool:
    """For five seconds no level and no status is written."""

    def written() -> tuple[int, str]:
        return feature_records(kafka), resources.get(name)["metadata"]["resourceVersion"]

    before = written()
    away(5.0)
    return written() == before


def test_two_operators_stop_and_name_each_other_and_the_remaining_one_continues_after_a_restart(
    resources: Resources, operator: Operator, second: Operator, kafka: Cluster
) -> None:
    names = {name_of(operator), name_of(second)}
    away(HAND_OVER)  # in which either might be one that was replaced by force
    for number in range(ROUNDS):
        name, mark = f"both-{number}", operator.plane.audit.mark()
        for feature in LEVELS:
            meddle(kafka, feature, 0)
        before = feature_records(kafka)
        resources.apply(name, LEVELS)
        told = resources.until(name, "Stalled", "ConflictDetected")
        assert all(one in told["message"] for one in names)
        assert resources.condition(name, "Ready")["reason"] == "ConflictDetected"
        resources.apply(name, LEVELS, drift={"checkEvery": "11s"})
        resources.until(name, "Stalled", "ConflictDetected")
        # Once what was sent when the other one came is finished.
        wait_until("nothing changes any more", partial(at_rest, resources, name, kafka))
        assert feature_records(kafka) <= before + len(LEVELS)
        rows = operator.plane.audit.rows(mark, user=USER, verb="update", subresource="status", name=name, code=200)
        assert len(rows) <= 8  # Pending, an intent and its end of the one; a word of the other, and of the generation
        assert {parse_qs(urlsplit(row.uri).query)["fieldManager"][0] for row in rows} == {
            "kafkafeatures.dev/kafka-features-operator"
        }
    assert second.stop() == operator.stop() == 0
    for number in range(ROUNDS - 1):  # before it is started: it would wait for what the owner that is deleted had begun
        resources.delete(f"both-{number}")
    operator.start()
    resources.wait(name, "Ready")
    assert feature_records(kafka) == before + len(LEVELS)
    assert resources.status(name)["operator"]["instance"] == f"{socket.gethostname()}-{operator.pid}"
    assert "intents" not in resources.status(name)
