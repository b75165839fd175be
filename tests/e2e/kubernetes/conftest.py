"""A control plane for the session, and an operator for each file; what more of them share has a folder of its own."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.e2e.kubernetes.resources import install
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.operator import Operator


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Without a node: no pod ever runs."""
    with ControlPlane(tmp_path_factory.mktemp("control-plane")) as running:
        yield running


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Function) -> Generator[None]:
    """What a test killed or froze runs again, also after a failure: others share it."""
    try:
        for name in ("control_plane", "operator"):
            if isinstance(found := item.funcargs.get(name), ControlPlane | Operator):
                found.heal()
    finally:
        yield


@pytest.fixture(scope="module")
def operator(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The operator as a process, with what `helm install` makes around it; a new one for each module."""
    install(control_plane)
    with Operator(control_plane, tmp_path_factory.mktemp("operator")) as running:
        yield running
