"""One control plane for the session, and one with a node behind it; each is started by the first test that asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.kubernetes.resources import install
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.kind import KIND, KindNode
from tests.e2e.rig.kubernetes.network import HOST, network
from tests.e2e.rig.kubernetes.node import Node
from tests.e2e.rig.kubernetes.operator import Operator


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Without a node: no pod ever runs."""
    with ControlPlane(tmp_path_factory.mktemp("control-plane")) as running:
        yield running


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node | KindNode]:
    """With a control plane of its own; by kind where that is asked for."""
    folder = tmp_path_factory.mktemp("node")
    if KIND:
        with KindNode(folder) as by_kind:
            yield by_kind
        return
    with network(), ControlPlane(folder / "control-plane", HOST) as plane, Node(plane, folder / "node") as running:
        yield running


@pytest.fixture(scope="module")
def operator(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The operator as a process, with what `helm install` makes around it; a new one for each module."""
    install(control_plane)
    with Operator(control_plane, tmp_path_factory.mktemp("operator")) as running:
        yield running
