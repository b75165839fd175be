"""The driver Manual on a real cluster: it asks for each node in turn, the test restarts it, and the driver waits.

And a soak on this cluster, which starts over if a node restarts between two reconciliations.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kafkafeatures.api.names import API_VERSION, KIND
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import ClusterSettings, parse_addresses
from kafkafeatures.kafka.cluster import Cluster as Client
from kafkafeatures.reconcile.act import reconcile, summary_of
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.context import ReconcileContext
from kafkafeatures.reconcile.file_store import FileStore
from tests.e2e.kafka.cli import KAFKAFEATURES, write_document
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.held import finalized, hold_topic
from tests.e2e.rig.releases import NEWEST, OLD
from tests.kafkafeatures.documents import read_file

ASKED_FOR = re.compile(r"^RestartRequested: \w+ (\d+)$")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("kafka"), OLD, controllers=3, brokers=2) as running:
        yield running


def test_a_roll_by_hand_restarts_controllers_with_the_leader_last_then_brokers_and_then_raises_the_level(
    cluster: Cluster, tmp_path: Path
) -> None:
    first, second = (node.id for node in cluster.brokers)
    hold_topic(cluster, "orders", {0: [first, second], 1: [second, first]})
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "orders"},
        "spec": {
            "cluster": {
                "bootstrapServers": cluster.bootstrap_servers,
                "bootstrapControllers": cluster.bootstrap_controllers,
            },
            "features": {"levels": [{"name": "metadata.version", "level": "4.1-IV1"}]},
            "workload": {"driver": "Manual"},
            "rollout": {"stableFor": "1s"},
        },
    }
    path = tmp_path / "orders.yaml"
    path.write_text(yaml.safe_dump(document))
    asked_for, leaders = [], []
    command = [*KAFKAFEATURES, "apply", "-f", str(path), "--yes", "--timeout", "5m"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        output = []
        for line in process.stderr:
            output.append(line)
            request = ASKED_FOR.match(line.strip())
            if request is None:
                continue
            node = cluster.nodes[int(request[1])]
            asked_for.append(node.id)
            leaders.append(cluster.leader())
            node.stop()
            node.start(NEWEST)
        assert process.wait() == 0, "".join(output)
    controllers = {node.id for node in cluster.controllers}
    assert sorted(asked_for) == sorted(cluster.nodes)  # each once
    assert set(asked_for[:3]) == controllers
    assert asked_for[2] == leaders[2]
    assert asked_for[0] != leaders[0]
    assert asked_for[1] != leaders[1]
    assert finalized(cluster, "metadata.version") == 27


def test_a_soak_restarts_when_a_node_was_killed_and_started_between_two_reconciliations(
    cluster: Cluster, tmp_path: Path
) -> None:
    """This test uses the nodes of the test before: all have the newest release, and the level is an older one."""
    addresses = {"bootstrapServers": cluster.bootstrap_servers, "bootstrapControllers": cluster.bootstrap_controllers}
    document = write_document(tmp_path / "soak.yaml", {"metadata.version": 33}, **addresses)
    content = yaml.safe_load(document.read_text())
    content["spec"]["features"]["finalizeAfter"] = "1h"
    document.write_text(yaml.safe_dump(content))
    leader = cluster.leader()
    follower = next(node for node in cluster.controllers if node.id != leader)
    broker = cluster.brokers[0]

    async def summaries() -> list[str]:
        """The summary of each reconciliation: two at first, and two after each restart."""
        settings = ClusterSettings(
            parse_addresses(cluster.bootstrap_servers, ""), parse_addresses(cluster.bootstrap_controllers, "")
        )
        results = []
        with FileStore(read_file(document), None) as store:
            async with Client(settings, environment=SYSTEM) as kafka:
                context = ReconcileContext(store, kafka, SYSTEM, Ages(SYSTEM.monotonic))

                async def reconcile_once() -> str:
                    last = await reconcile(context, await store.read())
                    return f"{summary_of(last)} since {last.status.soak_started_at}"

                results += [await reconcile_once(), await reconcile_once()]
                for node in (follower, broker):
                    node.kill()
                    node.start()
                    cluster.wait_ready()
                    results += [await reconcile_once(), await reconcile_once()]
        return results

    first, quiet, controller, still, restarted, end = asyncio.run(summaries())
    assert first.startswith("Soaking: soaking: metadata.version 33")
    assert "started over" not in first
    assert quiet == first
    assert f": controller {follower.id} was restarted since" in controller
    assert still == controller
    assert f": broker {broker.id} was restarted since" in restarted
    assert end == restarted
    assert finalized(cluster, "metadata.version") == 27
