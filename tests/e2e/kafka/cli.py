"""The shipped command line as a subprocess, the way people use it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafkafeatures.core.facts.observation import Known, NodeState, Observation
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import ClusterSettings, parse_addresses
from kafkafeatures.kafka.cluster import Cluster as Client
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.process import wait_until
from tests.kafkafeatures.terminal import Ended, in_terminal

SELDOM = 0.5
"""Seconds between two looks at a cluster that is waited for."""

KAFKAFEATURES = [sys.executable, "-m", "kafkafeatures"]


def run(
    *words: str, timeout: float = 120, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Any command; `environment` instead of this process's own."""
    return subprocess.run(
        [*KAFKAFEATURES, *words], capture_output=True, text=True, check=False, timeout=timeout, env=environment
    )


def describe(cluster: Cluster, *flags: str, servers: bool = True, controllers: bool = False) -> dict[str, Any]:
    """`describe -o json`, which must succeed."""
    where = ["--bootstrap-server", cluster.bootstrap_servers] if servers else []
    where += ["--bootstrap-controller", cluster.bootstrap_controllers] if controllers else []
    done = run("describe", *where, *flags, "-o", "json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def unregister_at_terminal(cluster: Cluster, role: str, id_: int, answer: str) -> Ended:
    """`unregister` of a broker or controller at a terminal, where a person types the answer."""
    words = "unregister", f"--{role}", str(id_), "--bootstrap-server", f"127.0.0.1:{cluster.brokers[0].port}"
    return in_terminal([*KAFKAFEATURES, *words], answers=[("Type its id", f"{answer}\n")])


def node(document: dict[str, Any], id_: int) -> dict[str, Any]:
    """One node of a document."""
    return next(one for one in document["nodes"] if one["id"] == id_)


def seen(cluster: Cluster, *, servers: bool = True, controllers: bool = False) -> Observation:
    """What `describe` is made of, without the command: for waits, where each look would start a process."""
    settings = ClusterSettings(
        parse_addresses(cluster.bootstrap_servers if servers else "", ""),
        parse_addresses(cluster.bootstrap_controllers if controllers else "", ""),
    )

    async def read() -> Observation:
        async with Client(settings, environment=SYSTEM) as client:
            return observe(*await client.read())

    return asyncio.run(read())


def active(cluster: Cluster, *, servers: bool = True, controllers: bool = False) -> int | None:
    """The active controller, where one is known."""
    found = seen(cluster, servers=servers, controllers=controllers).active_controller
    return found.value if isinstance(found, Known) else None


def wait_for(cluster: Cluster, state: NodeState, *nodes: int) -> None:
    def holds() -> bool:
        found = {one.id: one.state for one in seen(cluster).nodes}
        return all(found.get(id_) is state for id_ in nodes)

    wait_until(f"{nodes} are {state}", holds, step=SELDOM)


def levels(document: dict[str, Any]) -> dict[str, int]:
    """feature -> finalized level."""
    return {one["name"]: one["finalized"] for one in document["features"]}


def write_document(path: Path, wanted: Mapping[str, int | str], **cluster: Any) -> Path:
    """A KafkaFeatures document; JSON is YAML."""
    spec = {"cluster": cluster, "features": {"levels": [{"name": n, "level": v} for n, v in wanted.items()]}}
    document = {
        "apiVersion": "kafkafeatures.dev/v1alpha1",
        "kind": "KafkaFeatures",
        "metadata": {"name": "orders"},
        "spec": spec,
    }
    path.write_text(json.dumps(document))
    return path
