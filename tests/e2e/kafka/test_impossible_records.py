"""Real controllers that read a record which contradicts the state: they stop at the offset that the commands report."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kraftlog import Batch, Record, encode_batch, walk
from tests.e2e.rig.cluster import Cluster, Node
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import NEWEST, OLD
from tests.kraftlog.impossible import CASES

RELEASES = {OLD: "3.9", NEWEST: "4.1"}
TRIED = ("changed with another epoch", "a topic twice with another id", "a change without a partition")
STOPS = re.compile(r"(?:Unable to apply \w+ record at offset|Error loading metadata log record from offset) ([0-9]+)")


@pytest.fixture(scope="module", params=RELEASES)
def controller(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A stopped controller, which was the only node of its cluster."""
    root = tmp_path_factory.mktemp("stops")
    with Cluster(root, request.param, controllers=1, brokers=0, release_version=RELEASES[request.param]) as cluster:
        (node,) = cluster.controllers
        node.stop()
        shutil.copytree(node.folder / "data", root / "before")
        yield node


def append(path: Path, values: tuple[bytes, ...]) -> int:
    """Append a batch to a segment, as the leader of the last epoch would write it. Returns the last offset."""
    batches = [each for each in walk(path.read_bytes()) if isinstance(each, Batch)]
    last = batches[-1]
    first = last.last_offset + 1
    records = [Record(first + at, last.max_timestamp, value) for at, value in enumerate(values)]
    content = path.read_bytes()[: last.position + last.size]
    path.write_bytes(content + encode_batch(records, leader_epoch=last.leader_epoch))
    return first + len(values) - 1


@pytest.mark.parametrize("name", TRIED)
def test_a_real_controller_stops_at_the_offset_and_for_the_reason_that_the_log_commands_report(
    controller: Node, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    case, data = CASES[name], controller.folder / "data"
    shutil.rmtree(data)
    shutil.copytree(controller.cluster.root / "before", data)
    assert main(["log", "verify", str(data)]) == Exit.DONE
    offset = append(controller.metadata_dir / f"{0:020}.log", tuple(case.values))
    capsys.readouterr()
    for action in ("verify", "decode", "timeline", "state"):
        assert main(["log", action, str(data)]) == Exit.FAILED
        assert f"offset {offset}: {case.text}: Kafka stops here ({case.check.method})" in "".join(capsys.readouterr())
    controller.start(wait=False)
    wait_until(f"a controller stops at {name}", lambda: not controller.alive)
    text = controller.log
    assert set(STOPS.findall(text)) == {str(offset)}
    assert any(f".{each}(" in text for each in (case.check.image, case.check.controller) if each)
