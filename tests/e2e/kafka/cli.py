"""The shipped command line as a subprocess, the way people use it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.rig.cluster import Cluster

SELDOM = 0.5
"""Seconds between two runs of a command that is waited for: each costs a third of a second of a core."""

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


def node(document: dict[str, Any], id_: int) -> dict[str, Any]:
    """One node of a document."""
    return next(one for one in document["nodes"] if one["id"] == id_)


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
