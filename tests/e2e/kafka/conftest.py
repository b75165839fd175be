"""Clusters that more than one file asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.releases import MIDDLE, NEWEST, OLD

SIX = {OLD: (False, "3.7"), MIDDLE: (True, "4.0"), NEWEST: (False, "4.1")}


@pytest.fixture(scope="session", params=SIX)
def six(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three controllers and three brokers of each release. The files that use it come in the order of their names, and
    only the last of them, test_nodes_that_are_gone, leaves it worse than it was.
    """
    dynamic, release = SIX[request.param]
    root = tmp_path_factory.mktemp("six")
    with Cluster(root, request.param, controllers=3, brokers=3, dynamic=dynamic, release_version=release) as running:
        yield running
