"""Real Kafka for tests that change levels and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.kafka.wire import meddle
from tests.e2e.kubernetes.resources import Resources, delete_all
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.kubernetes.operator import Operator
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import NEWEST

SHARE, STREAMS = "share.version", "streams.version"
"""Features that tests raise."""


@pytest.fixture(scope="package")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """No node of it is ever stopped, and each test begins with the levels that it needs."""
    with Cluster(tmp_path_factory.mktemp("kafka"), NEWEST, release_version="4.2", controllers=1, brokers=2) as running:
        yield running


@pytest.fixture
def resources(operator: Operator, kafka: Cluster) -> Iterator[Resources]:
    """Every test begins with both levels at 0, and leaves no resource behind, and an operator that runs."""
    for feature in (SHARE, STREAMS):
        meddle(kafka, feature, 0)
    yield Resources(operator.plane, kafka)
    delete_all(operator.plane)
    if not operator.alive:
        operator.start()
    wait_until("no resource is left in memory", lambda: operator.metric("kafkafeatures_condition") == 0)
