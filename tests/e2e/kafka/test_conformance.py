"""Real nodes of four releases still give the answers that were recorded, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkafeatures.kafka.base.errors import ErrorCode
from kafkafeatures.kafka.wire.codec import decode_response
from tests.conformance import changes, names
from tests.conformance.cases import ASKED_AGAIN, WORLDS, World, recorded
from tests.conformance.record import RAISE_KRAFT, answers, ask, changed, may_raise_kraft, named
from tests.e2e.rig.cluster import Cluster, Node
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import NEWEST

NOT_ALL_VOTERS = (
    "The update failed for all features since the following feature had an error: "
    "Invalid upgrade of kraft.version to KRAFT_VERSION_1 because not all of the voters support it"
)


@pytest.mark.parametrize("world", WORLDS.values(), ids=lambda world: world.version)
def test_a_real_node_gives_the_answers_that_were_recorded(world: World, borrow: Callable[[str], Cluster]) -> None:
    assert dict(answers(world, borrow(f"small {world.version}"))) == recorded(world)


@pytest.mark.parametrize("world", ASKED_AGAIN, ids=lambda world: world.version)
def test_a_real_cluster_makes_the_changes_that_were_recorded(world: World, tmp_path: Path) -> None:
    found = list(changed(world, tmp_path / "kafka"))
    assert found == [row.led_by(found[0].leader) for row in changes.recorded(world)]


def test_real_nodes_accept_and_refuse_the_cluster_and_node_names_that_were_recorded(
    borrow: Callable[[str], Cluster],
) -> None:
    """If this fails because controllers check names as well, requests to them can have names."""
    found = [(row.node, row.version, row.cluster, row.offset, row.code) for row in named(borrow(f"small {NEWEST}"))]
    assert found == [(row.node, row.version, row.cluster, row.offset, row.code) for row in names.recorded()]


def raising(active: Node) -> tuple[int, str]:
    """Error code and message of the answer to a dry run that raises kraft.version."""
    answer = decode_response(57, 1, ask(active, RAISE_KRAFT))[1]
    return answer.error_code, answer.error_message or ""


def test_a_voter_that_is_down_since_the_election_blocks_the_raise_of_kraft_version(tmp_path: Path) -> None:
    with Cluster(tmp_path / "kafka", NEWEST, controllers=3, brokers=0, release_version="4.0") as cluster:
        first = cluster.leader()
        cluster.nodes[first].kill()
        active = cluster.nodes[cluster.leader(other_than=first)]
        wait_until("the new leader judges", lambda: raising(active)[0] != ErrorCode.NOT_CONTROLLER)
        assert raising(active) == (ErrorCode.INVALID_UPDATE_VERSION, NOT_ALL_VOTERS)
        cluster.nodes[first].start(wait=False)
        wait_until("the voter that is back has reported what it supports", lambda: may_raise_kraft(active))
