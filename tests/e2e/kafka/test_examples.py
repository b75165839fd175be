"""README and the docs show what their commands print on real nodes like those of their examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from kafkafeatures.core.facts.observation import NodeState
from tests.e2e.kafka.cli import wait_for
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.releases import MIDDLE, RECENT
from tests.examples import PICTURE, ROOT, pages_of, picture, rewritten, words_of

GONE = 3003
WITH_A_GHOST = {3: MIDDLE, GONE: MIDDLE}
"""Broker 3 still runs 4.1.2, and so did controller 3003 before it was removed from the quorum."""
UPGRADED = {3: RECENT, GONE: RECENT}
"""The cluster of README after the remedies that the commands named."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("examples")
    with Cluster(folder, RECENT, dynamic=True, release_version="4.0", versions=WITH_A_GHOST) as running:
        running.remove_voter(running.nodes[GONE])
        running.nodes[GONE].kill()
        # If this node voted for itself in the last election, Kafka would start it as a candidate, which a removed node
        # must not be (QuorumState.initialize). Without this file it has no memory of that election.
        (running.nodes[GONE].metadata_dir / "quorum-state").unlink(missing_ok=True)
        yield running


@pytest.mark.parametrize(("scene", "nodes"), [("blocked", WITH_A_GHOST), ("ready", UPGRADED)])
def test_the_commands_of_a_page_about_kafka_print_the_output_that_the_page_shows(
    cluster: Cluster, scene: str, nodes: Mapping[int, str]
) -> None:
    for node in (cluster.nodes[id_] for id_, version in nodes.items() if cluster.nodes[id_].version != version):
        if node.alive:
            node.stop()
        node.start(nodes[node.id])
    for id_, node in cluster.nodes.items():
        wait_for(cluster, NodeState.LIVE if node.alive else NodeState.GHOST, id_)
    words = words_of(cluster.bootstrap_servers)
    for page in pages_of(scene).values():
        assert rewritten(page, scene, words) == page, "run: make docs"
    if scene == "blocked":
        assert picture(words) == (ROOT / PICTURE).read_text(), "run: make docs"
