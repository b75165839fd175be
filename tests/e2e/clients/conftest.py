"""What real clients did on real brokers: each of them produces and consumes, all at once."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.clients.old_clients import CLIENTS, SECONDS
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.held import hold_topic
from tests.e2e.rig.releases import OLD

DEADLINE = 4 * SECONDS

COMPLETED = re.compile(
    r'Completed request:\{"isForwarded":\w+,"requestHeader":\{"requestApiKey":\d+,"requestApiVersion":(\d+),'
    r'"correlationId":-?\d+,"clientId":"([^"]*)","requestApiKeyName":"(\w+)"'
)


@dataclass(frozen=True)
class Outcome:
    """`text`: what the client printed."""

    works: bool
    text: str


def run_clients(cluster: Cluster) -> Mapping[str, Outcome]:
    """The outcome of each client. A client that hangs does not work."""
    for name in CLIENTS:
        hold_topic(cluster, name, {0: [cluster.brokers[0].id]})
    processes = {name: make().start(cluster.bootstrap_servers, name) for name, make in CLIENTS.items()}
    outcomes = {}
    for name, process in processes.items():
        try:
            text, _ = process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            text, _ = process.communicate()
        works = process.returncode == 0 and {"produced", "consumed"} <= set(text.splitlines())
        outcomes[name] = Outcome(works, text)
    return outcomes


def log_all_requests(cluster: Cluster) -> None:
    """Set the request logger of every broker to DEBUG, as `kafka-configs.sh` does it (KIP-412)."""
    for broker in cluster.brokers:
        entity = ("--entity-type", "broker-loggers", "--entity-name", str(broker.id))
        change = ("--alter", "--add-config", "kafka.request.logger=DEBUG")
        done = cluster.tool(
            "kafka.admin.ConfigCommand", "--bootstrap-server", cluster.bootstrap_servers, *entity, *change
        )
        assert done.returncode == 0, done.stderr


def logged_versions(log: str) -> Mapping[str, frozenset[tuple[str, int]]]:
    """By client id, the APIs and versions that a request log has, read by other means than the product's."""
    versions: dict[str, set[tuple[str, int]]] = {}
    for version, client, api in COMPLETED.findall(log):
        name = "".join(word.capitalize() for word in api.split("_"))
        versions.setdefault(client, set()).add((name, int(version)))
    return {client: frozenset(pairs) for client, pairs in versions.items()}


@dataclass(frozen=True)
class OldBroker:
    """A broker of Kafka 3.9 that all clients have used, and what it logged of them."""

    cluster: Cluster
    outcomes: Mapping[str, Outcome]
    versions: Mapping[str, frozenset[tuple[str, int]]]


def one_node(folder: Path, version: str) -> Cluster:
    """A cluster of one combined node."""
    return Cluster(folder, version, controllers=0, brokers=0, combined=1)


@pytest.fixture(scope="module")
def old_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldBroker]:
    with one_node(tmp_path_factory.mktemp("old") / "c", OLD) as cluster:
        log_all_requests(cluster)
        outcomes = run_clients(cluster)
        yield OldBroker(cluster, outcomes, logged_versions(cluster.brokers[0].log))
