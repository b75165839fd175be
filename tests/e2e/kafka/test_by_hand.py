"""The driver Manual on a real cluster: each node is asked for in its turn, restarted here, and waited for."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import yaml

from kafkafeatures.api.names import API_VERSION, KIND
from tests.e2e.kafka.cli import KAFKAFEATURES
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.held import finalized, hold_topic
from tests.e2e.rig.releases import NEWEST, OLD

ASKED_FOR = re.compile(r"^RestartRequested \w+ (\d+): Applied$")


def test_by_hand_controllers_go_before_brokers_the_leader_last_and_then_the_level_is_raised(tmp_path: Path) -> None:
    with Cluster(tmp_path / "kafka", OLD, controllers=3, brokers=2) as cluster:
        one, other = (node.id for node in cluster.brokers)
        hold_topic(cluster, "orders", {0: [one, other], 1: [other, one]})
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
            told = []
            for line in process.stderr:
                told.append(line)
                found = ASKED_FOR.match(line.strip())
                if found is None:
                    continue
                node = cluster.nodes[int(found[1])]
                asked_for.append(node.id)
                leaders.append(cluster.leader())
                node.stop()
                node.start(NEWEST)
            assert process.wait() == 0, "".join(told)
        controllers = {node.id for node in cluster.controllers}
        assert sorted(asked_for) == sorted(cluster.nodes)  # each once
        assert set(asked_for[:3]) == controllers
        assert asked_for[2] == leaders[2]
        assert asked_for[0] != leaders[0]
        assert asked_for[1] != leaders[1]
        assert finalized(cluster, "metadata.version") == 27
