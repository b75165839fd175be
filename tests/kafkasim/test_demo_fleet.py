"""`kafkafeatures demo --story fleet`: from a generated fleet to its page, by the shipped commands."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from argparse import Namespace
from importlib import util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from kafkafeatures.cli.demo import command as demo
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from tests.kafkafeatures.cli.test_report_page import Page
from tests.kafkasim.test_process import ENVIRONMENT

KEY_LINES = (
    "This is a GENERATED fleet",
    "$ kafkafeatures pipeline run --config pipeline.yaml",
    "pipeline: 12 clusters",
    "$ kafkafeatures pipeline gate --config pipeline.yaml --release 4.2 -o text",
    "release 4.2: blocked",
    "(exit code 4)",
    "release 4.2: ready (1 ready, 0 blocked, 0 unknown)",
    "$ kafkafeatures pipeline report",
    "Only these pages stay.",
)


def test_the_fleet_demo_leaves_its_pages_and_no_other_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kafkafeatures", "demo", "--story", "fleet"],
        env=ENVIRONMENT | {"COLUMNS": "80", "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(re.sub(r"^# ", "", done.stdout, flags=re.MULTILINE).split())
    positions = [text.find(line) for line in KEY_LINES]
    assert -1 not in positions
    assert positions == sorted(positions)
    (folder,) = tmp_path.iterdir()
    # A row of titles, and one for each of the 12 clusters; the page of the fleet, and one for each cluster.
    assert len(Page((folder / "fleet.html").read_text()).rows_under("The blocked ones first")) == 1 + 12
    assert len(list(folder.iterdir())) == 1 + 12


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_the_fleet_demo_leaves_no_folder_if_it_is_ended(tmp_path: Path, end: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "kafkafeatures", "demo", "--story", "fleet"],
        env=ENVIRONMENT | {"TMPDIR": str(tmp_path)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    ) as demo_process:  # fmt: skip
        assert demo_process.stdout is not None
        assert any("$ kafkafeatures pipeline run" in line for line in demo_process.stdout)
        demo_process.send_signal(end)
        demo_process.communicate(timeout=60)
    assert list(tmp_path.iterdir()) == []


def test_the_fleet_demo_names_a_missing_dependency_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = util.find_spec

    def without(name: str) -> ModuleSpec | None:
        return None if name == "pyarrow" else found(name)

    monkeypatch.setattr("kafkafeatures.cli.demo.fleet.find_spec", without)
    with pytest.raises(CommandFailed, match=r"needs pyarrow: pip install '\.\[pipeline\]' in the folder") as failed:
        demo.run(Namespace(story="fleet"))
    assert failed.value.code is Exit.FAILED
