"""The keys for k9s run commands that exist, with the arguments that k9s fills in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkafeatures.cli.shell.exit_codes import Exit

ROOT = Path(__file__).resolve().parents[2]
PLUGINS: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docs/how-to/k9s-plugins.yaml").read_text())["plugins"]
SELECTED = {"$NAME": "orders; touch pwned", "$NAMESPACE": "kafka", "$CONTEXT": "here"}
READS = {"kafkafeatures-status", "kafkafeatures-plan"}


@pytest.mark.parametrize("name", PLUGINS)
def test_a_key_of_k9s_runs_a_command_for_the_selected_resource_only(name: str, tmp_path: Path) -> None:
    """A script in its place writes down the arguments; the real one takes them, and misses kubeconfig or terminal."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "kafkafeatures"
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\" > arguments\n")
    program.chmod(0o755)
    plugin = PLUGINS[name]
    words = [SELECTED.get(word, word) for word in plugin["args"]]
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    subprocess.run(
        [plugin["command"], *words], cwd=tmp_path, env={"PATH": path}, stdin=subprocess.DEVNULL, check=False, timeout=60
    )
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments == [name.removeprefix("kafkafeatures-"), SELECTED["$NAME"], "-n", "kafka", "--context", "here"]
    assert not (tmp_path / "pwned").exists()
    environment = {**os.environ, "KUBECONFIG": str(tmp_path / "none"), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "kafkafeatures", arguments[0], "orders", *arguments[2:]],
        env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, timeout=60,
    )  # fmt: skip
    assert "usage" not in done.stderr
    assert "kubeconfig" in done.stderr.lower() or "not a terminal" in done.stderr, done.stderr
    assert done.returncode != Exit.DONE


def test_keys_that_change_a_resource_are_off_where_k9s_only_reads() -> None:
    assert {name for name, plugin in PLUGINS.items() if not plugin.get("dangerous")} == READS
