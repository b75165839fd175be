"""Logs and snapshots that nodes of each release have just written, record by record against that release's own tool."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kraftlog import Replay
from tests.e2e.kafka.wire import meddle
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.held import hold_topic
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import MIDDLE, OLD, RECENT
from tests.kraftlog.dump import compare

RELEASES = {OLD: ("3.7", 21), MIDDLE: ("4.0", 27), RECENT: ("4.0", 29)}
DUMP_TOOL = {OLD: "kafka.tools.DumpLogSegments", MIDDLE: "kafka.tools.DumpLogSegments"}
"""Where it was before it moved to org.apache.kafka.tools."""


@pytest.fixture(scope="module", params=RELEASES)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """A cluster that lived through a little of everything, and is stopped."""
    version = request.param
    release, level = RELEASES[version]
    often = {"metadata.log.max.record.bytes.between.snapshots": "1000"}
    with Cluster(
        tmp_path_factory.mktemp("written"), version, controllers=1, brokers=2, dynamic=version != OLD,
        release_version=release, properties=often,
    ) as cluster:  # fmt: skip
        meddle(cluster, "metadata.version", level)
        hold_topic(cluster, "t", {0: [1], 1: [2], 2: [1]})
        cluster.nodes[2].stop()
        wait_until("there is a snapshot", lambda: files_of(cluster, "checkpoint"))
    return cluster


def files_of(cluster: Cluster, kind: str) -> list[Path]:
    return [path for node in cluster.nodes.values() for path in sorted(node.metadata_dir.glob(f"*.{kind}"))]


def test_every_batch_and_record_agrees_with_the_dump_tool(written: Cluster) -> None:
    paths = [*files_of(written, "log"), *files_of(written, "checkpoint")]
    tool = DUMP_TOOL.get(written.version, "org.apache.kafka.tools.DumpLogSegments")
    done = written.tool(tool, "--cluster-metadata-decoder", "--files", ",".join(map(str, paths)), user=None)
    assert done.returncode == 0, done.stderr
    _, *parts = re.split(r"^Dumping (.+)$", done.stdout, flags=re.MULTILINE)
    dumped = dict(zip(parts[::2], parts[1::2], strict=True))
    assert dumped.keys() == {str(path) for path in paths}
    for path in paths:
        assert "baseOffset" in dumped[str(path)]
        assert compare(path.read_bytes(), dumped[str(path)]) == [], path


def test_the_image_is_what_happened(written: Cluster) -> None:
    replay = Replay()
    for path in files_of(written, "log")[:1]:
        replay.append(path.read_bytes(), below=2**62)
    image = replay.image()
    assert image.unreadable == 0
    assert set(image.brokers) == {1, 2}
    assert set(image.controllers) == {3001}
    assert image.features["metadata.version"] == RELEASES[written.version][1]
