"""etcd is restored from a snapshot while the operator runs: resourceVersions go back, and later changes are seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.kubernetes.resources import Resources, install
from tests.e2e.rig.kubernetes.cluster import LOOPBACK, ControlPlane
from tests.e2e.rig.kubernetes.operator import Operator
from tests.e2e.rig.process import free_port

SOON = 60
"""Seconds within which a change is seen. A list that failed is repeated every five seconds; without a failure the next
one would come after ten minutes.
"""
NOBODY = {"bootstrapServers": f"{LOOPBACK}:{free_port()}"}


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    """An operator with a control plane of its own, since other tests share theirs and it must not go back."""
    with ControlPlane(tmp_path / "plane") as plane:
        install(plane)
        with Operator(plane, tmp_path / "operator") as running:
            yield running


def test_the_operator_sees_changes_after_a_restore_of_etcd(operator: Operator) -> None:
    plane, resources = operator.plane, Resources(operator.plane)
    rarely = {"checkEvery": "1h"}
    resources.apply("kept", cluster=NOBODY, mode="Observe", drift=rarely)
    resources.until("kept", "Reachable", "BootstrapUnreachable")
    snapshot = plane.snapshot()
    resources.apply("lost", cluster=NOBODY)
    others = ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"moves-on-{n}"}} for n in range(100))
    plane.apply(*others)  # what the watch sees last is far ahead of what is restored
    resources.annotate("lost", "moves-on=yes")
    resources.until("lost", "Reachable", "BootstrapUnreachable")
    ahead = int(resources.get("lost")["metadata"]["resourceVersion"])
    process = operator.pid
    plane.restore(snapshot)
    resources.apply("new", cluster=NOBODY)
    assert int(resources.get("new")["metadata"]["resourceVersion"]) < ahead
    resources.until("new", "Reachable", "BootstrapUnreachable", seconds=SOON)
    resources.apply("kept", {"share.version": 1}, cluster=NOBODY, drift=rarely)
    resources.until("kept", "Reachable", "BootstrapUnreachable", seconds=SOON)
    assert int(resources.get("kept")["metadata"]["resourceVersion"]) < ahead
    assert operator.pid == process
    assert operator.asked("/readyz")[0] == 200
    assert "etcd was restored" in operator.log
    assert "escalating" not in operator.log
