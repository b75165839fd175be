"""A thousand resources on one operator, on simulated clusters: all settle, and nobody starves."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pykube
import pytest

from tests.e2e.kubernetes.resources import NS, Resources, install
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.operator import USER, Operator
from tests.e2e.rig.process import wait_until

MANY = int(os.environ.get("MANY", "1000"))
PATH = f"/apis/kafkafeatures.dev/v1alpha1/namespaces/{NS}/kafkafeatures"
SIMULATED = ("tests.e2e.kubernetes.simulated_operator",)


def settled(operator: Operator) -> bool:
    return operator.metric("kafkafeatures_condition", type="Ready", status="True") == MANY


def test_a_thousand_resources_settle_and_nobody_waits_long_also_after_a_restart(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> None:
    install(control_plane)
    api = pykube.HTTPClient(pykube.KubeConfig.from_file(str(control_plane.kubeconfig)))
    resources = Resources(control_plane)
    documents = []
    for number in range(MANY):
        cluster = {"bootstrapServers": f"simulated:{number + 1}"}
        documents.append(resources.document(f"many-{number:04}", {"metadata.version": 27}, cluster=cluster, drift={}))
    with (
        deleted_at_the_end(api),
        Operator(control_plane, tmp_path_factory.mktemp("operator"), program=SIMULATED) as operator,
    ):
        for document in documents:  # kubectl would take minutes: it asks five times a second
            assert api.post(url=PATH, base="", version="", data=json.dumps(document)).status_code == 201
        wait_until("all are ready", lambda: settled(operator), 240, step=1.0)
        assert operator.metric("kafkafeatures_reconciliations_total", result="failed") == 0
        told(operator, "applied")

        before = waits(operator)
        for number in range(50):
            resources.annotate(f"many-{number:04}", "touched=yes")
        wait_until("all woke up", lambda: waits(operator)[0] >= before[0] + 50, 120, step=1.0)
        slow = (after - earlier for after, earlier in zip(waits(operator), before, strict=True))
        assert next(slow) - next(slow) == 0, "a wake-up waited longer than two seconds"

        operator.stop()
        mark = control_plane.audit.mark()
        # What was simulated is gone with the process: the clusters are at 3.9 again, under the ids they had.
        operator.start()
        wait_until(
            "all had a pass", lambda: operator.metric("kafkafeatures_condition", type="Ready") == MANY, 240, step=1.0
        )
        told(operator, "restarted")
        assert {row.code for row in control_plane.audit.rows(mark, user=USER)} <= {200, 201}


@contextmanager
def deleted_at_the_end(api: pykube.HTTPClient) -> Iterator[None]:
    """Also after a failure: other tests would find a thousand resources."""
    try:
        yield
    finally:
        api.delete(url=PATH, base="", version="")


def waits(operator: Operator) -> tuple[float, float]:
    """How many wake-ups were served, and how many of them within two seconds."""
    name = "kafkafeatures_queue_wait_seconds"
    return operator.metric(f"{name}_count"), operator.metric(f"{name}_bucket", le="2.0")


def told(operator: Operator, when: str) -> None:
    """For people who read the log of the tests."""
    passes = operator.metric("kafkafeatures_reconciliations_total")
    print(f"{when} (simulated): {MANY} resources, {passes:.0f} passes, {operator.memory} MiB")
