"""What README and docs show is what its commands print, on the real nodes that it speaks of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kafka.cli import SELDOM, describe
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import MIDDLE, RECENT
from tests.examples import pages_of, rewritten, words_of

WITH_A_GHOST: dict[str, Any] = {"versions": {3: MIDDLE, 3003: MIDDLE}}
"""Broker 3 still runs 4.1.2, and so did controller 3003 before it was removed from the quorum."""


@pytest.mark.parametrize(("scene", "nodes"), [("blocked", WITH_A_GHOST), ("ready", {})])
def test_the_output_in_a_page_is_what_its_commands_print(tmp_path: Path, scene: str, nodes: dict[str, Any]) -> None:
    with Cluster(tmp_path / "kafka", RECENT, dynamic=True, release_version="4.0", **nodes) as cluster:
        if nodes:
            gone = cluster.nodes[3003]
            cluster.remove_voter(gone)
            gone.kill()
        states = {id_: "Ghost" if nodes and id_ == 3003 else "Live" for id_ in cluster.nodes}
        wait_until(
            f"nodes are {states}",
            lambda: {one["id"]: one["state"] for one in describe(cluster)["nodes"]} == states,
            step=SELDOM,
        )
        words = words_of(cluster.bootstrap_servers)
        for page in pages_of(scene).values():
            assert rewritten(page, scene, words) == page, "run: make docs"
