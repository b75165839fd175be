"""Addresses that lead to two clusters: nothing of the one is ever taken for, or done to, the other."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kafkasim.test_process import ENVIRONMENT, heard, simulator


@pytest.fixture(params=["3.9 before controllers register", "4.2"])
def two(request: pytest.FixtureRequest) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    flags = ["--release", "4.2", "--metadata-version", "25"]
    if request.param != "4.2":
        flags = ["--release", "3.9", "--metadata-version", "14"]  # controllers do not list themselves below 15
    with simulator(*flags, "--seed", "1") as one, simulator(*flags, "--seed", "2", "--brokers", "2") as other:
        yield heard(one), heard(other)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafkafeatures", *words]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)


def level(cluster: dict[str, Any]) -> int:
    done = run("describe", "--bootstrap-server", cluster["bootstrapServers"], "-o", "json")
    features = {one["name"]: one["finalized"] for one in json.loads(done.stdout)["features"]}
    return int(features["metadata.version"])


def test_a_level_is_never_raised_on_the_cluster_of_a_second_document(
    two: tuple[dict[str, Any], dict[str, Any]], tmp_path: Path
) -> None:
    one, other = two
    before = level(one), level(other)
    document = tmp_path / "levels.yaml"
    document.write_text(
        json.dumps(
            {
                "apiVersion": "kafkafeatures.dev/v1alpha1",
                "kind": "KafkaFeatures",
                "metadata": {"name": "x"},
                "spec": {
                    "cluster": {
                        "bootstrapServers": one["bootstrapServers"],
                        "bootstrapControllers": other["bootstrapControllers"],
                    },
                    "features": {"levels": [{"name": "metadata.version", "level": before[0] + 1}]},
                },
            }
        )
    )
    done = run("apply", "-f", str(document))
    assert done.returncode == 4, done.stderr
    assert "cluster" in done.stderr
    assert (level(one), level(other)) == before


def test_the_log_of_another_cluster_is_not_used(two: tuple[dict[str, Any], dict[str, Any]]) -> None:
    one, other = two
    stray = other["bootstrapControllers"].split(",")[0]
    controllers = f"{stray},{one['bootstrapControllers']}"
    for _ in range(3):
        addresses = ("--bootstrap-server", one["bootstrapServers"], "--bootstrap-controller", controllers)
        document = json.loads(run("describe", *addresses, "-o", "json").stdout)
        brokers = [node["id"] for node in document["nodes"] if node["roles"] == ["Broker"]]
        assert brokers == [1, 2, 3]
        assert (document["clusterId"], document["source"]["kind"]) == (None, "ApiRequests")  # so no log was used
        assert all(node["state"] == "Live" for node in document["nodes"] if node["id"] < 3000)
