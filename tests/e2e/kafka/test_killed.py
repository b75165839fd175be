"""`apply` killed with SIGKILL at every named point and at random instants, then run again: same end, nothing twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.kafka.cli import KAFKAFEATURES, run, write_document
from tests.e2e.kafka.wire import feature_records, meddle
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.releases import NEWEST

INSTANTS = 60 if os.environ.get("SOAK") else 20
SCRIPT = Path(__file__).with_name("apply_killed.py")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("killed"), NEWEST, release_version="4.2", controllers=1, brokers=1) as running:
        meddle(running, "share.version", 0)
        meddle(running, "streams.version", 0)
        yield running


BOTH = ("share.version", "streams.version")


def asking_for(folder: Path, cluster: Cluster, *features: str) -> Path:
    folder.mkdir()
    wanted: dict[str, int | str] = dict.fromkeys(features, 1)
    return write_document(folder / "levels.yaml", wanted, bootstrapServers=cluster.bootstrap_servers)


def ends_well(cluster: Cluster, document: Path, before: int, *features: str) -> None:
    """A state file that was never torn, and after one more run all levels, each written once."""
    state = document.with_suffix(".status.yaml")
    if state.exists():
        assert yaml.safe_load(state.read_text())["kind"] == "KafkaFeatures"
    again = run("apply", "-f", str(document))
    assert again.returncode == 0, again.stderr
    status = yaml.safe_load(state.read_text())["status"]
    assert "intents" not in status
    assert status["progress"] == f"{len(features)}/{len(features)} levels"
    assert feature_records(cluster) == before + len(features)
    for feature in features:
        meddle(cluster, feature, 0)


def test_killed_at_every_named_point(cluster: Cluster, tmp_path: Path) -> None:
    points = []
    for number in range(100):
        document, before = asking_for(tmp_path / str(number), cluster, "share.version"), feature_records(cluster)
        command = [sys.executable, str(SCRIPT), str(document), str(number)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        points.append(done.stdout.splitlines()[-1])
        ends_well(cluster, document, before, "share.version")
    assert {name.split(" ")[1] for name in points} == {"read", "validate", "update", "write_status"}
    assert points.count("before update") == points.count("after update") == 1
    meddle(cluster, "share.version", 0)


def test_killed_at_random_instants(cluster: Cluster, tmp_path: Path) -> None:
    """From the start of the process to a little after the time a whole run takes."""
    chance = random.Random(4)
    for number in range(INSTANTS):
        document, before = asking_for(tmp_path / str(number), cluster, *BOTH), feature_records(cluster)
        process = subprocess.Popen(
            [*KAFKAFEATURES, "apply", "-f", str(document)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            process.wait(chance.uniform(0.15, 0.9))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        ends_well(cluster, document, before, *BOTH)


def test_the_second_of_two_at_once_says_who_holds_the_state(cluster: Cluster, tmp_path: Path) -> None:
    document = asking_for(tmp_path / "two", cluster, *BOTH)
    first = subprocess.Popen([sys.executable, str(SCRIPT), str(document), "1000"], stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    assert first.stdout.readline() == "before read\n"  # the state is locked by now
    first.send_signal(signal.SIGSTOP)
    second = run("apply", "-f", str(document))
    first.send_signal(signal.SIGCONT)
    assert second.returncode == 4
    assert f"is in use by process {first.pid}" in second.stderr
    first.stdout.read()
    first.stdout.close()
    assert first.wait() == 0
