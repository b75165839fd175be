"""A recording of a real metadata log equals the log of its controllers, byte for byte, though processes are killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafkafeatures.kafka.recorder.recorded_log import Busy, RecordedLog
from kraftlog import files
from tests.e2e.kafka.cli import run
from tests.e2e.kafka.recording import RESOURCE
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.held import hold_credential, hold_topic
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import NEWEST

FAST_ELECTIONS = {
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.election.backoff.max.ms": "200",
}
OFTEN = {"metadata.log.max.record.bytes.between.snapshots": "3000"}
CLOSE_AT = 4096


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(
        tmp_path_factory.mktemp("recorded"), NEWEST, controllers=3, brokers=1, release_version="4.1",
        properties={**FAST_ELECTIONS, **OFTEN},
    )  # fmt: skip
    with made as running:
        yield running


def recording_of(cluster: Cluster, folder: Path) -> RecordedLog:
    name = "recorder-" + "_".join(RESOURCE)
    path = folder / cluster.cluster_id / name
    return RecordedLog(path, cluster.cluster_id, close_at=CLOSE_AT, close_after=3600, clock=lambda: 0.0)


def end_of(recorded: RecordedLog) -> int:
    """The offset after the last recorded record. 0 if there is none, or while the other process writes."""
    try:
        position = recorded.position()
    except Busy:
        return 0
    return position.offset if position else 0


@contextmanager
def recording(cluster: Cluster, folder: Path) -> Iterator[None]:
    """A process that records the log. It is killed at the end."""
    words = [cluster.bootstrap_controllers, cluster.cluster_id, str(folder), str(CLOSE_AT)]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.kafka.recording", *words], stdout=subprocess.DEVNULL
    ) as child:
        try:
            yield
            assert child.poll() is None
        finally:
            child.kill()


def segments(folder: Path) -> bytes:
    return b"".join(one.read_bytes() for one in sorted(folder.glob("*.log")))


def changes(folder: Path, below: int) -> list[dict[str, Any]]:
    """The events of `log timeline` below an offset, without those that no record caused."""
    done = run("log", "timeline", str(folder), "-o", "json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    recorded = [event for event in events if event["event"] not in ("State", "End") and event["offset"] < below]
    return [{name: value for name, value in event.items() if name not in ("file", "committed")} for event in recorded]


def test_a_recorded_log_equals_that_of_the_controllers_through_leader_changes_and_kills(
    cluster: Cluster, tmp_path: Path
) -> None:
    recorded = recording_of(cluster, tmp_path)

    def continues(by: int) -> None:
        end = end_of(recorded)
        wait_until("the recording continues", lambda: end_of(recorded) >= end + by, 30)

    with recording(cluster, tmp_path):
        continues(1)
        hold_topic(cluster, "orders", {one: [cluster.brokers[0].id] for one in range(40)})
        hold_credential(cluster, "alice", "a-password")
        continues(45)
        leader = cluster.nodes[cluster.leader()]
        leader.kill()
        cluster.leader(other_than=leader.id)
        continues(3)
    hold_topic(cluster, "missed", {one: [cluster.brokers[0].id] for one in range(40)})
    leader.start()
    with recording(cluster, tmp_path):
        continues(45)
    with recording(cluster, tmp_path):
        continues(3)
    recorded.close_segment(if_due=False)

    place, end = recorded.folder / files.DIRECTORY, end_of(recorded)
    oracle = cluster.controllers[0].metadata_dir
    wait_until("a controller has it all", lambda: len(segments(oracle)) >= len(segments(place)), 30)
    of_controller, of_recording = segments(oracle), segments(place)
    assert of_recording in of_controller
    assert len(of_controller) - len(of_recording) < len(of_controller) / 2
    assert len([one for one in place.iterdir() if one.suffix == ".log"]) > 2
    assert [one.name for one in recorded.folder.parent.iterdir()] == [recorded.folder.name]
    for snapshot in recorded.snapshots():
        assert (place / snapshot.name).stat().st_size > 0

    verified = run("log", "verify", str(recorded.folder))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    events = changes(recorded.folder, end)
    assert events == changes(oracle, end)
    assert "a-password" not in json.dumps(events)
