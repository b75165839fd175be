"""One control plane for the session, and one with a node behind it; each is started by the first test that asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.rig.kubernetes.cluster import ControlPlane


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Without a node: no pod ever runs."""
    with ControlPlane(tmp_path_factory.mktemp("control-plane")) as running:
        yield running
