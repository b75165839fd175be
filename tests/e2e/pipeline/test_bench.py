"""The benchmarks that need Spark run, only with SOAK=1. The times that they measure here are not checked."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.amounts import only_in_soak
from tests.bench.pipelines import AGAINST_ONE_CORE, LOCAL, ONE_MORE, TWO_WORKERS
from tests.e2e.pipeline.sparks import ROOT, one_at_a_time

LINES = {
    AGAINST_ONE_CORE: (f"Spark {LOCAL} against one core, warm: ", "a Python worker at most "),
    TWO_WORKERS: ("8 cluster directories with ", "2 workers against 1 worker, warm: ", "a Python worker at most "),
    ONE_MORE: ("30 days of a cluster (", f"Spark {LOCAL}: ", ", Spark "),
}


@pytest.mark.parametrize("part", LINES)
@only_in_soak
def test_each_part_of_the_benchmark_runs(part: str) -> None:
    with one_at_a_time():
        ran = subprocess.run(
            [sys.executable, "-m", "tests.bench", "--quick", "--only", part],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=600,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    for line in LINES[part]:
        assert line in ran.stdout, ran.stdout
