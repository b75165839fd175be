"""Real Kafka for tests that change levels and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.releases import NEWEST


@pytest.fixture(scope="package")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """No node of it is ever stopped, and each test begins with the levels that it needs."""
    with Cluster(tmp_path_factory.mktemp("kafka"), NEWEST, release_version="4.2", controllers=1, brokers=2) as running:
        yield running
