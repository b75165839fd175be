"""Real clusters whose controllers refuse our certificate, as with Strimzi, so that only brokers can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.kafka.cli import describe, levels, run, write_document
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.releases import NEWEST

LEVEL = 27


@pytest.mark.parametrize("dynamic", [False, True])
def test_without_controllers_a_level_is_raised_where_kafka_checks_each_voter_of_a_static_quorum(
    dynamic: bool, tmp_path: Path
) -> None:
    with Cluster(
        tmp_path / "kafka", NEWEST, controllers=3, brokers=1, controller_kind="SSL", dynamic=dynamic,
        release_version="4.0",
    ) as cluster:  # fmt: skip
        document = describe(cluster)
        assert {node["id"] for node in document["nodes"] if node["state"] == "Live"} == {1}, document
        path = write_document(
            tmp_path / "levels.yaml", {"metadata.version": LEVEL}, bootstrapServers=cluster.bootstrap_servers
        )
        done = run("apply", "-f", str(path))
        if dynamic:
            assert done.returncode == 5, done
            assert "metadata.version on 3 controllers (3001-3003) could not be read" in done.stderr
        else:
            assert done.returncode == 0, done
        assert levels(describe(cluster))["metadata.version"] == (25 if dynamic else LEVEL)


def test_no_level_is_raised_where_kafka_names_a_voter_that_never_registered(tmp_path: Path) -> None:
    with Cluster(
        tmp_path / "kafka", NEWEST, controllers=3, brokers=1, controller_kind="SSL", release_version="3.6"
    ) as cluster:
        cluster.nodes[3003].stop()  # before controllers register: they do from level 3.7-IV0 on
        upgrade = ("--bootstrap-server", cluster.bootstrap_servers, "upgrade", "--metadata", "3.7-IV4")
        done = cluster.tool("org.apache.kafka.tools.FeatureCommand", *upgrade)
        assert done.returncode == 0, done
        document = write_document(
            tmp_path / "levels.yaml", {"metadata.version": LEVEL}, bootstrapServers=cluster.bootstrap_servers
        )
        done = run("apply", "-f", str(document))
        assert done.returncode == 4, done
        assert "3003 has not registered" in done.stderr
        assert levels(describe(cluster))["metadata.version"] == 19
