"""Runs the suites, one after the other, and says at the end what each took and what was not run.

The targets of the Makefile call it. A suite whose tools are missing is named in the last lines; under CI=true such a
run fails, and so does one in which a single test was skipped. A suite that took longer than its budget says so, and is
no failure: machines differ. The first run in a clone is cold, which it says before it begins: it has no budget.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from kafkafeatures import __version__
from tests.amounts import SOAK

PY = [sys.executable, "-m"]
PYTEST = [*PY, "pytest", "-q", "--durations=5"]
# Three processes for two cores, file by file: some tests wait for a clock, and those on real nodes wait for these.
FILE_BY_FILE = ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"]
SIDE_BY_SIDE = [*PYTEST, "-p", "tests.e2e.side_by_side", "-n", "3", "--dist", "loadscope", "--no-loadscope-reorder"]


@dataclass(frozen=True)
class Suite:
    """`budget` in minutes, for people who add tests. `needs`: program -> how to get it."""

    name: str
    commands: list[list[str]]
    budget: float
    needs: dict[str, str] = field(default_factory=dict)


HISTORIES = os.environ.get("HISTORIES") or ("10000" if SOAK else "300")
"""How many histories the simulation runs; `make simulation` asks for 3000."""
SEED = os.environ.get("SEED") or (str(zlib.crc32(__version__.encode())) if SOAK else "0")
"""The first of them: a soak runs those that no version before has run."""

MINUTES = float(os.environ.get("MINUTES") or 0)
"""Budget of the whole run, if it is less than that of its suites: `make check` has 3 minutes."""
TYPES = Path(__file__).parents[1] / ".mypy_cache"
COLD = "cold: no types were checked in this folder before, and little is compiled; that takes minutes, and only once"

CALIBRATION = [[*PY, "tests.reliability", "calibrate"]] if SOAK else []
"""Whether the histories would find a defect: each of those that can be put back."""

_GO = "Go 1.26 or newer: the API server, the S3 server and their kin are built from their modules, once"
_APT = "that of Debian or Ubuntu: the package of Prometheus is unpacked into the cache"

ROLLS = [[*PY, "tests.rolls", "--steps", "100000"]] if SOAK else []
"""Rolls of modelled clusters; the fast tests have a few thousand steps of them."""

WHOLE_RUNS = [
    "tests/featurelog/test_clients.py",
    "tests/featurelog/test_clients_soundness.py",
    "tests/featurelog/test_commits.py",
    "tests/featurelog/test_delta.py",
    "tests/featurelog/test_mended_copies.py",
    "tests/featurelog/test_remove_cluster.py",
    "tests/featurelog/test_fleet.py",
    "tests/featurelog/test_run.py",
    "tests/featurelog/test_killed.py",
    "tests/featurelog/test_growing.py",
    "tests/featurelog/tables/test_checkpoint.py",
    "tests/featurelog/tables/test_checkpoint_limits.py",
    "tests/featurelog/tables/test_properties.py",
]
"""Tests of the pipeline without Spark that take too long for the inner loop."""
HISTORIES_AND_ROLLS = ["tests/reliability", "tests/rolls"]
"""Tests of the simulation itself: that a seed repeats its history, and that the checker detects each forged record."""
ELSEWHERE = ["tests/e2e", *HISTORIES_AND_ROLLS, *WHOLE_RUNS]
"""Tests that other suites run than that of the fast ones."""

MIGRATIONS = [
    f"tests/e2e/kafka/test_{name}.py"
    for name in (
        *("comparing", "migration_by_hand", "migration_equality", "migration_preflight", "migration_refused"),
        *("zookeeper", "zookeeper_damaged", "zookeeper_partitions"),
        *(("ibp_soak", "migration_soak") if SOAK else ()),
    )
]
"""Tests on real nodes of Kafka 3.9 with a real ZooKeeper."""
ON_A_NODE = "tests/e2e/kubernetes/migrations"
"""A migration in pods, which the operator restarts: straight through; in a soak also back from half way, and by the
manifests of the page about it.
"""

KUBERNETES = ["tests/e2e/kubernetes", "--ignore=tests/e2e/kubernetes/rolls", f"--ignore={ON_A_NODE}"]

SUITES = [
    Suite("lint", [[*PY, "ruff", "check", "."], [*PY, "ruff", "format", "--check", "."]], 0.2),
    Suite("types", [[*PY, "mypy"]], 0.3),
    Suite("test-types", [[*PY, "mypy", "-p", "tests", "-p", "docs.make"]], 0.3),
    Suite("layers", [["lint-imports", "--no-cache"], [*PY, "tests.names"]], 0.3),
    Suite(
        "unit",
        [[*PYTEST, *FILE_BY_FILE, "tests", *(f"--ignore={path}" for path in ELSEWHERE)]],
        3,
    ),
    Suite(
        "simulation",
        [
            [*PYTEST, *FILE_BY_FILE, *HISTORIES_AND_ROLLS],
            [*PY, "tests.reliability", "simulate", "--seed", SEED, "--runs", HISTORIES],
            *CALIBRATION,
            *ROLLS,
        ],
        5,
    ),
    Suite(
        "pipeline",
        [[*PYTEST, *FILE_BY_FILE, *WHOLE_RUNS], [*PYTEST, "tests/e2e/pipeline"]],
        30 if SOAK else 8,
        {"java": "a JDK or JRE, 17 or newer", "go": _GO, **({"mvn": "Maven 3.8 or newer"} if SOAK else {})},
    ),
    Suite(
        "kafka",
        [[*SIDE_BY_SIDE, "tests/e2e/kafka", *(f"--ignore={one}" for one in MIGRATIONS)]],
        7,
        {"java": "a JDK or JRE, 17 or newer", "mvn": "Maven 3.8 or newer"},
    ),
    Suite(
        "clients",
        [[*SIDE_BY_SIDE, "tests/e2e/clients"]],
        4,
        {
            "javac": "a JDK, 17 or newer",
            "mvn": "Maven 3.8 or newer",
            "go": "Go 1.26 or newer: two of the old clients are in Go",
            "npm": "Node.js 18 or newer: one of the old clients is in JavaScript",
            "apt-get": _APT,
        },
    ),
    Suite(
        "migration",
        [
            [*SIDE_BY_SIDE, *MIGRATIONS],
            [*PYTEST, ON_A_NODE if SOAK else f"{ON_A_NODE}/test_forward.py"],
        ],
        35 if SOAK else 10,
        {"javac": "a JDK, 17 or newer", "mvn": "Maven 3.8 or newer", "go": _GO},
    ),
    Suite(
        "kubernetes",
        [[*SIDE_BY_SIDE, *KUBERNETES]],
        13,
        {
            "java": "a JDK or JRE, 17 or newer",
            "mvn": "Maven 3.8 or newer",
            "go": _GO,
            **(
                {"docker": "Docker, for KIND", "kind": "kind 0.30 or newer, for KIND"} if os.environ.get("KIND") else {}
            ),
        },
    ),
    Suite(
        "rolls",
        [[*PYTEST, "tests/e2e/kubernetes/rolls"]],
        45 if SOAK else 10,
        {"javac": "a JDK, 17 or newer", "mvn": "Maven 3.8 or newer", "go": _GO, "apt-get": _APT},
    ),
    *([Suite("clone", [[*PYTEST, "tests/e2e/test_fresh_clone.py"]], 10)] if SOAK else []),
]
COUNTS = re.compile(r"(\d+) (passed|failed|skipped|error|errors|xfailed|xpassed)\b")


def main(names: list[str]) -> int:
    """Run the named suites, in the order of their names, or all."""
    by_name = {suite.name: suite for suite in SUITES}
    unknown = set(names) - set(by_name)
    if unknown:
        print(f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(by_name)}")
        return 64
    chosen = [by_name[name] for name in names or by_name]
    # A shell starts what runs in the background with Ctrl-C ignored, and so would be the commands that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    total = {"passed": 0, "failed": 0, "skipped": 0}
    lines, missing, failures = [], [], list[str]()
    cold = not TYPES.exists()
    if cold:
        print(COLD, flush=True)
    started = time.monotonic()
    for suite in chosen:
        absent = [f"{program} ({how})" for program, how in suite.needs.items() if shutil.which(program) is None]
        if absent:
            missing.append(f"{suite.name}: needs {', '.join(absent)}")
            continue
        began = time.monotonic()
        results = [_run(command, total, failures) for command in suite.commands]  # all of them, also after a failure
        ok = all(results)
        minutes = (time.monotonic() - began) / 60
        over = _over(minutes, suite.budget, cold=cold)
        lines.append(f"  {suite.name:<10} {minutes:5.1f} min of {suite.budget:<4g} {'ok' if ok else 'FAILED'}{over}")
    whole = (time.monotonic() - started) / 60
    budget = MINUTES or sum(suite.budget for suite in chosen)
    over = _over(whole, budget, cold=cold)
    print("\nSuites:", *lines, f"  {'together':<10} {whole:5.1f} min of {budget:g}{over}", sep="\n")
    for one in missing:
        print(f"  NOT RUN  {one}")
    print(*failures, sep="", end="")
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    strict = os.environ.get("CI") == "true"
    return int(bool(total["failed"] or (strict and (missing or total["skipped"]))))


def _over(minutes: float, budget: float, *, cold: bool) -> str:
    if minutes <= budget:
        return ""
    return ", cold" if cold else ", over its budget"


def _run(command: list[str], total: dict[str, int], failures: list[str]) -> bool:
    """Stream the output of one command, count what pytest says on its last line, and keep the name of what failed, as
    hours of output may lie between a failure and the end.
    """
    print(f"\n$ {' '.join(command[2:] if command[:2] == PY else command)}", flush=True)
    environment = {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what one process compiled, all others read
    last = ""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            last = line if line.strip() else last
            if line.startswith(("FAILED ", "ERROR ")):
                failures.append(line)
    if "pytest" in command:
        counted = {kind: int(number) for number, kind in COUNTS.findall(last)}
        total["passed"] += counted.get("passed", 0)
        total["skipped"] += counted.get("skipped", 0) + counted.get("xfailed", 0)
        failed = counted.get("failed", 0) + counted.get("error", 0) + counted.get("errors", 0)
    else:
        total["passed"] += process.returncode == 0
        failed = 0
    total["failed"] += failed or int(process.returncode != 0)
    return process.returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
