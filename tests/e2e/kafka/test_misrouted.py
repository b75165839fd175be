"""Two real brokers whose addresses are swapped: from Kafka 4.4 on, this is detected without DESCRIBE_CONFIGS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kafka.cli import node, run
from tests.e2e.rig.cluster import CLIENT, INTERNAL, Cluster
from tests.e2e.rig.held import hold_rights
from tests.e2e.rig.releases import NEWEST, RECENT


def swapped(root: Path, version: str, kind: str) -> Cluster:
    """A cluster in which each broker advertises the address of the other one."""
    cluster = Cluster(root, version, controllers=1, brokers=2, kind=kind, controller_kind="PLAINTEXT", authorizer=True)
    for this, other in ((1, 2), (2, 1)):
        own = {INTERNAL: cluster.nodes[this].ports[INTERNAL]} if cluster.internal == INTERNAL else {}
        ports = {CLIENT: cluster.nodes[other].ports[CLIENT], **own}
        cluster.nodes[this].extra["advertised.listeners"] = ",".join(
            f"{name}://127.0.0.1:{port}" for name, port in ports.items()
        )
    return cluster


def described(cluster: Cluster) -> dict[str, Any]:
    """The document of `describe`. Over SASL it is run as alice, who may describe the cluster and nothing else."""
    config: list[str] = []
    if cluster.kind != "PLAINTEXT":
        hold_rights(cluster, "alice", "DESCRIBE")
        config = ["--config", str(cluster.client_config())]
        config += ["--controller-config", str(cluster.client_config(kind=cluster.controller_kind))]
    done = run("describe", "--bootstrap-server", cluster.bootstrap_servers.split(",")[0], *config, "-o", "json")
    assert done.stdout, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.fixture(params=["PLAINTEXT", "PLAIN"])
def newest(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    with swapped(tmp_path / "kafka", NEWEST, request.param) as cluster:
        yield cluster


def test_swapped_addresses_of_brokers_are_reported_with_the_broker_that_answers_at_each(newest: Cluster) -> None:
    document = described(newest)
    for id_, other in ((1, 2), (2, 1)):
        address = f"127.0.0.1:{newest.nodes[other].ports[CLIENT]}"
        assert f"its address {address} is that of broker {other} now" in json.dumps(node(document, id_))


def test_brokers_of_an_older_kafka_with_swapped_addresses_are_live(tmp_path: Path) -> None:
    with swapped(tmp_path / "kafka", RECENT, "PLAINTEXT") as cluster:
        document = described(cluster)
    assert [node(document, id_)["state"] for id_ in (1, 2)] == ["Live", "Live"]
