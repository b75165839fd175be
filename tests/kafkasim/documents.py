"""Documents and levels of a simulated cluster, for tests of the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.kafkasim.commands import shell

PROGRAM = f"{sys.executable} -m kafkafeatures"
RAISED = ("--metadata-version", "29", "--feature", "share.version=1")
"""Flags of the simulator: a cluster whose share.version is at 1."""
DOWN, CONSENT = {"share.version": 0}, "share.version:1->0"
"""Levels of a document that lowers it, and the consent that this needs."""


def document(
    folder: Path, cluster: dict[str, Any], levels: dict[str, int], consents: Sequence[str] = (), **more: Any
) -> Path:
    path = folder / "levels.yaml"
    spec = {
        "consents": list(consents),
        "cluster": {"bootstrapServers": cluster["bootstrapServers"], **more},
        "features": {"levels": [{"name": name, "level": level} for name, level in levels.items()]},
    }
    body = {
        "apiVersion": "kafkafeatures.dev/v1alpha1",
        "kind": "KafkaFeatures",
        "metadata": {"name": "x"},
        "spec": spec,
    }
    path.write_text(json.dumps(body))
    return path


def release(folder: Path, cluster: dict[str, Any]) -> None:
    """Write a document that names a release and no levels, so that its plan waits for approval."""
    path = document(folder, cluster, {})
    body = json.loads(path.read_text())
    body["spec"]["features"] = {"releaseVersion": "4.2"}
    path.write_text(json.dumps(body))


def finalized(cluster: dict[str, Any], feature: str) -> int:
    described = shell(f"{PROGRAM} describe --bootstrap-server {cluster['bootstrapServers']} -o json")
    return next(int(one["finalized"]) for one in json.loads(described.stdout)["features"] if one["name"] == feature)
