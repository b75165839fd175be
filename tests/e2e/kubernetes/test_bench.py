"""Every part of the benchmark runs. The times that it measures here are not checked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.amounts import only_in_soak

ROOT = Path(__file__).resolve().parents[3]
LINES = (
    "describe -o json, whole process (2 nodes, MetadataLog): median",
    "describe, warm process, new connections: median",
    "apply, whole process, read back on every node: median",
    "apply, warm process, new connections: median",
    "operator, from its start: listed and ready",
    "operator: API server's answer to the controller's yes: median",
    "operator at rest, 3 resources",
    "created to settled: ",
    "start to settled: ",
    "10 resources in memory, raised: ",
    "decide, 1000 nodes",
    "describe -o json, 10 simulated nodes, 10 live: median",
    "image: 0.1 MB snapshot + 1000 records",
)


@only_in_soak
def test_every_part_of_the_benchmark_runs() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--quick"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stdout
    for line in LINES:
        assert line in ran.stdout, ran.stdout
