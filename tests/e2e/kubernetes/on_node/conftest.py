"""A node, of which a machine has one, and Kafka on it; each is started by the first test that asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.rig.kubernetes.any_node import AnyNode
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.kafka import Kafka, apply_kafka
from tests.e2e.rig.kubernetes.kind import KIND, KindNode
from tests.e2e.rig.kubernetes.network import HOST, network
from tests.e2e.rig.kubernetes.node import Node
from tests.e2e.rig.releases import MIDDLE

OWN_NODE_ONLY = [
    "test_collecting.py",
    "test_first_ten_minutes.py",
    "test_pipeline.py",
    "test_recorder.py",
    "test_release.py",
]
"""Modules that read the node's disk, make it trust a registry, or make accounts by the control plane's own keys."""
collect_ignore = OWN_NODE_ONLY if KIND else []


@pytest.fixture(scope="package")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyNode]:
    """With a control plane of its own; by kind where that is asked for."""
    folder = tmp_path_factory.mktemp("node")
    if KIND:
        with KindNode(folder) as by_kind:
            yield by_kind
        return
    with network(), ControlPlane(folder / "control-plane", HOST) as plane, Node(plane, folder / "node") as running:
        yield running


@pytest.fixture(scope="package")
def kafka_on_node(node: AnyNode) -> Iterator[Kafka]:
    """A controller and two brokers as pods: at 3.9 until a test raises it."""
    running = apply_kafka(node, MIDDLE, brokers=2, release_version="3.9")
    yield running
    running.delete()
