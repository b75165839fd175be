"""What all rolls stand on, for tests and for the benchmark: a Kafka in three racks, and an operator beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.kubernetes.resources import install
from tests.e2e.kubernetes.rolls.rolling import TOPIC, prepare
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.groups import outside_of_pods
from tests.e2e.rig.kubernetes.images import kafka_image
from tests.e2e.rig.kubernetes.network import HOST, network
from tests.e2e.rig.kubernetes.node import Node
from tests.e2e.rig.kubernetes.operator import Operator
from tests.e2e.rig.kubernetes.racks import Racks
from tests.e2e.rig.releases import MIDDLE, NEWEST


@contextmanager
def kafka_in_racks(folder: Path) -> Iterator[Racks]:
    """Ready, with a topic and without an operator; the node has the newest release's image too."""
    with (
        network(),
        outside_of_pods(),
        ControlPlane(folder / "plane", HOST) as plane,
        Node(plane, folder / "node") as node,
    ):
        running = Racks(node)
        node.load_image(kafka_image(NEWEST))
        running.apply(MIDDLE)
        running.wait_ready()
        running.create_topic(TOPIC, 12)
        yield running


@contextmanager
def operator_beside(racks: Racks, folder: Path) -> Iterator[Operator]:
    """A process with the rights of its account; it resolves names as a pod does."""
    install(racks.plane)
    prepare(racks)
    names = tuple(racks.with_names())
    with Operator(racks.plane, folder, before=names) as running:
        yield running
