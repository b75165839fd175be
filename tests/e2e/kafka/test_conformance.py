"""The recorded answers are what real nodes say today: bytes against bytes, on three releases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.cases import WORLDS, World, recorded
from tests.conformance.record import answers
from tests.e2e.rig.cluster import Cluster


@pytest.mark.parametrize("world", WORLDS.values(), ids=lambda world: world.version)
def test_a_real_node_still_answers_as_recorded(world: World, tmp_path: Path) -> None:
    with Cluster(tmp_path / "kafka", world.version, controllers=1, brokers=1, release_version=world.format) as cluster:
        found = {tuple(tuple(one) for one in updates): reply for updates, reply in answers(world, cluster)}
    assert found == recorded(world)
