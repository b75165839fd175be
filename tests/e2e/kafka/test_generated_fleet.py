"""Files of a generated fleet, compared record by record with the output of Kafka's own dump tool."""

from __future__ import annotations

import re
import subprocess

import pytest

from kafkasim.fleet.plan import Story
from tests.e2e.rig.releases import RECENT, release
from tests.kafkasim.fleets import history_with, node_folders
from tests.kraftlog.dump import compare

DUMP_TOOL = "org.apache.kafka.tools.DumpLogSegments"


@pytest.mark.parametrize("story", [Story.FLAPPING, Story.STUCK_MIGRATION, Story.GHOST_CONTROLLER])
def test_every_batch_and_record_agrees_with_the_dump_tool(story: Story) -> None:
    folder = node_folders(history_with(story).plan.name)[0]
    paths = sorted(path for path in folder.iterdir() if path.suffix in (".log", ".checkpoint"))
    files = ",".join(map(str, paths))
    command = release(RECENT).java(DUMP_TOOL, "--cluster-metadata-decoder", "--files", files, log4j="tool")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    _, *parts = re.split(r"^Dumping (.+)$", done.stdout, flags=re.MULTILINE)
    dumped = dict(zip(parts[::2], parts[1::2], strict=True))
    assert dumped.keys() == {str(path) for path in paths}
    for path in paths:
        assert "baseOffset" in dumped[str(path)]
        assert compare(path.read_bytes(), dumped[str(path)]) == [], path
