"""`unregister --broker` on a real cluster: it unregisters a ghost, and no other broker."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkafeatures.core.facts.observation import NodeState
from tests.e2e.kafka.cli import describe, node, run, unregister_at_terminal, wait_for
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.held import hold_topic
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import NEWEST

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    sessions = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
    root = tmp_path_factory.mktemp("unregister")
    with Cluster(root, NEWEST, controllers=1, brokers=3, properties=sessions) as running:
        hold_topic(running, "orders", {0: [2]})
        hold_topic(running, "stock", {0: [2, 1]})
        for id_ in (2, 3):
            running.nodes[id_].stop()
        wait_for(running, NodeState.GHOST, 2, 3)
        yield running


def shown(cluster: Cluster) -> dict[str, Any]:
    return describe(cluster, controllers=True)


def unregister(cluster: Cluster, broker: int, *flags: str) -> subprocess.CompletedProcess[str]:
    return run(
        "unregister", "--broker", str(broker), "--bootstrap-server", f"127.0.0.1:{cluster.nodes[1].port}", *flags
    )


@pytest.mark.parametrize(
    ("broker", "message"),
    [
        (1, "broker 1 is live; only a broker that is fenced and does not answer can be unregistered"),
        (2, "broker 2 hosts replicas of 2 topics (orders, stock); move them away first"),
        (2, "the only replicas of 1 topic (orders) are there: start the broker, or delete what is lost with it"),
        (9, "no broker 9 is registered"),
        (3001, "no broker 3001 is registered"),
    ],
)
def test_a_live_node_and_a_broker_that_hosts_replicas_are_not_unregistered(
    cluster: Cluster, broker: int, message: str
) -> None:
    done = unregister(cluster, broker, "--yes")
    assert done.returncode == (64 if message.startswith("no broker") else 4)
    assert message in done.stderr
    assert {one["id"] for one in shown(cluster)["nodes"]} == {1, 2, 3, 3001}


def test_unregister_without_a_terminal_needs_the_flag_yes(cluster: Cluster) -> None:
    done = unregister(cluster, 3)
    assert done.returncode == 3
    assert "use --yes" in done.stderr


def test_a_ghost_is_unregistered_after_its_id_was_typed(cluster: Cluster) -> None:
    wrong = unregister_at_terminal(cluster, "broker", 3, "33")
    assert wrong.code == 4
    assert "nothing was changed" in wrong.text
    assert node(shown(cluster), 3)["state"] == "Ghost"
    done = unregister_at_terminal(cluster, "broker", 3, "3")
    assert done.code == 0, done.text
    assert done.lines[-1] == "broker 3 is no longer registered"
    assert {one["id"] for one in shown(cluster)["nodes"]} == {1, 2, 3001}


def test_kafkas_tool_accepts_the_reassignment_that_unregister_prints(cluster: Cluster, tmp_path: Path) -> None:
    """The broker is gone. A topic with no other replica is named, and is not in the reassignment."""
    file = tmp_path / "reassign.json"
    file.write_text(unregister(cluster, 2, "--yes").stdout)
    servers = "--bootstrap-server", f"127.0.0.1:{cluster.nodes[1].port}"
    done = cluster.tool(REASSIGN, *servers, "--reassignment-json-file", str(file), "--execute")
    assert done.returncode == 0, done.stderr
    only = "broker 2 hosts replicas of 1 topic (orders); the only replicas of 1 topic (orders) are there"
    wait_until("stock is moved", lambda: only in unregister(cluster, 2, "--yes").stderr)
    assert not unregister(cluster, 2, "--yes").stdout
