"""A control plane for the charts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.kubernetes.chart.rendering import CHART, CRD_NAME, NAME, NS, WITH_REGISTRY
from tests.e2e.rig.kubernetes.binaries import build
from tests.e2e.rig.kubernetes.cluster import ControlPlane


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    build(["helm"])


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane for this package alone: a CRD belongs to the release that installed it first."""
    with ControlPlane(tmp_path_factory.mktemp("chart")) as running:
        for name in (NS, "kafka"):
            running.kubectl("create", "namespace", name)
        running.kubectl("label", "namespace", NS, "pod-security.kubernetes.io/enforce=restricted")
        yield running


@pytest.fixture
def installed(plane: ControlPlane) -> Iterator[str]:
    """What helm says at the end of an installation."""
    yield plane.helm("install", NAME, str(CHART), "-n", NS, *WITH_REGISTRY)
    plane.helm("uninstall", NAME, "-n", NS, "--ignore-not-found", "--wait")
    plane.kubectl("delete", "crd", CRD_NAME, "--ignore-not-found")
