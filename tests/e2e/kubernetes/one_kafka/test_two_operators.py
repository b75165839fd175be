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
from tests.e2e.kubernetes.resources import Resources, away, delete_all
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
    delete_all(operator.plane)


def name_of(operator: Operator) -> str:
    return f"kafka-features-operator ({socket.gethostname()}-{operator.pid})"


def at_rest(resources: Resources, name: str, kafka: Cluster) -> bool:
    """Wait five seconds; True if no level and no status was written in them."""

    def written() -> tuple[int, str]:
        return feature_records(kafka), resources.get(name)["metadata"]["resourceVersion"]

    before = written()
    away(5.0)
    return written() == before


def test_two_operators_stop_and_name_each_other_and_the_remaining_one_continues_after_a_restart(
    resources: Resources, operator: Operator, second: Operator, kafka: Cluster
) -> None:
    names = {name_of(operator), name_of(second)}
    away(HAND_OVER)  # until then each could take the other for one that was replaced by force
    for number in range(ROUNDS):
        name, mark = f"both-{number}", operator.plane.audit.mark()
        for feature in LEVELS:
            meddle(kafka, feature, 0)
        before = feature_records(kafka)
        resources.apply(name, LEVELS)
        condition = resources.until(name, "Stalled", "ConflictDetected")
        assert all(one in condition["message"] for one in names)
        assert resources.condition(name, "Ready")["reason"] == "ConflictDetected"
        resources.apply(name, LEVELS, drift={"checkEvery": "11s"})
        resources.until(name, "Stalled", "ConflictDetected")
        # An update may have been sent before the operator knew of the other one; it is followed to its end.
        wait_until("nothing changes any more", partial(at_rest, resources, name, kafka))
        assert feature_records(kafka) <= before + len(LEVELS)
        rows = operator.plane.audit.rows(mark, user=USER, verb="update", subresource="status", name=name, code=200)
        # Few writes, not one after the other without end: Pending, an intent and its end by one operator, and what each
        # of the two says of the conflict, for both generations.
        assert len(rows) <= 8
        assert {parse_qs(urlsplit(row.uri).query)["fieldManager"][0] for row in rows} == {
            "kafkafeatures.dev/kafka-features-operator"
        }
    assert second.stop() == operator.stop() == 0
    # Deleted while no operator runs: a running one would first wait for steps that an earlier owner had begun.
    for number in range(ROUNDS - 1):
        resources.delete(f"both-{number}")
    operator.start()
    resources.wait(name, "Ready")
    assert feature_records(kafka) == before + len(LEVELS)
    assert resources.status(name)["operator"]["instance"] == f"{socket.gethostname()}-{operator.pid}"
    assert "intents" not in resources.status(name)
