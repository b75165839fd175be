"""`make bench`: what users have today against what we offer, on the same machine, the same cluster, in the same run.

Every pair runs interleaved (A B A B ...), so that the machine's moods fall on both; medians, ranges and the ratio of
medians are printed. Nothing here is a test: a figure is a figure. `--rounds N` and `--only NAME` narrow it.

Ours is installed the way users install it: a fresh environment with the locked runtime dependencies, byte code and all.
Kafka's tool runs with the flags of Kafka's own scripts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kafkafeatures.kafka.settings import ClusterSettings, parse_addresses
from kafkafeatures.reconcile.cluster import Cluster as Client
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.releases import NEWEST

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Run the benchmarks and print them as lines of one table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", choices=("describe", "nodes", "log"))
    arguments = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, Kafka {NEWEST}")
    wanted = (arguments.only,) if arguments.only else ("describe", "nodes", "log")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    installed = Path(tempfile.mkdtemp(prefix="bench-venv-"))
    try:
        return _measure(wanted, arguments.rounds, install(installed))
    finally:
        shutil.rmtree(installed, ignore_errors=True)


def install(folder: Path) -> list[str]:
    """A fresh environment; the command in it."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin/pip", "install", "-q", "--disable-pip-version-check"]
    locks = ["-r", ROOT / "requirements/runtime.lock", "-r", ROOT / "requirements/build.lock"]
    subprocess.run([*pip, "--require-hashes", *locks], check=True)
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", ROOT], check=True)
    return [str(folder / "bin/kafkafeatures")]


def _measure(wanted: tuple[str, ...], rounds: int, command: list[str]) -> int:
    if "describe" in wanted:
        folder = Path(tempfile.mkdtemp(prefix="bench-"))
        try:
            with Cluster(folder, NEWEST, controllers=3, brokers=3) as cluster:
                describe(cluster, rounds, command)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if "nodes" in wanted:
        thousand_nodes(command)
    if "log" in wanted:
        subprocess.run([sys.executable, str(ROOT / "tests/bench/bench_kraftlog.py")], check=True, cwd=ROOT)
    return 0


def describe(cluster: Cluster, rounds: int, command: list[str]) -> None:
    """Whole processes: ours asks six nodes and reads the log, Kafka's asks one node. Then ours in a warm process."""
    ours = [*command, "describe", "--bootstrap-server", cluster.bootstrap_servers, "-o", "json"]
    both = [*ours, "--bootstrap-controller", cluster.bootstrap_controllers]
    theirs = cluster.release.stock_tool(
        "org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", cluster.bootstrap_servers, "describe"
    )
    read = json.loads(subprocess.run(both, check=True, capture_output=True, text=True).stdout)
    nodes, source = len(read["nodes"]), read["source"]["kind"]
    a, b = interleaved(lambda: _run(both), lambda: _run(theirs), rounds)
    _pair(f"describe -o json, whole process ({nodes} nodes, {source})", a, "FeatureCommand describe", b)
    settings = ClusterSettings(
        bootstrap_servers=parse_addresses(cluster.bootstrap_servers, "bench"),
        bootstrap_controllers=parse_addresses(cluster.bootstrap_controllers, "bench"),
    )
    with asyncio.Runner() as runner:
        a, b = interleaved(lambda: runner.run(_look(settings)), lambda: _run(theirs), rounds)
    _pair("describe, warm process, new connections", a, "FeatureCommand describe", b)


def thousand_nodes(installed: list[str], count: int = 1000) -> None:
    """A thousand simulated nodes, whole process, with its peak memory."""
    command = [sys.executable, "-m", "kafkasim", "--controllers", "3", "--brokers", str(count - 3), "--release", "4.2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "operator")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as simulator:
        try:
            assert simulator.stdout is not None
            where = json.loads(simulator.stdout.readline())
            ours = [*installed, "describe", "--bootstrap-server", where["bootstrapServers"], "-o", "json"]
            ours += ["--bootstrap-controller", where["bootstrapControllers"]]
            runs = [_run_weighed(ours) for _ in range(5)]
            live = sum(node["state"] == "Live" for node in json.loads(runs[-1][2])["nodes"])
            peak = max(kilobytes for _, kilobytes, _ in runs) / 1024
            times = [seconds for seconds, _, _ in runs]
            print(f"describe -o json, {count} simulated nodes, {live} live: {_spread(times)}, peak {peak:.0f} MB")
        finally:
            simulator.terminate()


def interleaved(
    first: Callable[[], float], second: Callable[[], float], rounds: int
) -> tuple[list[float], list[float]]:
    """Seconds of both, in turn; the first round is not counted."""
    pairs = [(first(), second()) for _ in range(rounds + 1)][1:]
    return [a for a, _ in pairs], [b for _, b in pairs]


def _run(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


def _run_weighed(command: list[str]) -> tuple[float, int, bytes]:
    """Seconds, peak resident kilobytes of that one process, and its output."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as output, subprocess.Popen(command, stdout=output) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - began
        assert process.returncode == 0
        output.seek(0)
        return seconds, usage.ru_maxrss, output.read()


async def _look(settings: ClusterSettings) -> float:
    began = time.perf_counter()
    async with Client(settings) as client:
        await client.look()
    return time.perf_counter() - began


def _spread(seconds: list[float]) -> str:
    return f"median {statistics.median(seconds):.3f} s ({min(seconds):.3f}-{max(seconds):.3f})"


def _pair(name: str, ours: list[float], other: str, theirs: list[float]) -> None:
    ratio = statistics.median(theirs) / statistics.median(ours)
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    print(f"{name}: {_spread(ours)}")
    print(
        f"  {other}: {_spread(theirs)}; {ratio:.2f}x faster ({min(ratios):.2f}-{max(ratios):.2f}), {len(ours)} rounds"
    )


if __name__ == "__main__":
    sys.exit(main())
