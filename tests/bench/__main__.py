"""`make bench`: what users have today against what we offer, on the same machine, the same cluster, in the same run.

Every pair runs interleaved (A B A B ...), so that the machine's moods fall on both; medians, ranges and the ratio of
medians are printed. Nothing here is a test: a figure is a figure. `--rounds N` and `--only NAME` narrow it. `--quick`
runs every part once, as small as it goes: it shows that the benchmark works, and its figures say nothing.

Ours is installed the way users install it: a fresh environment with the locked runtime dependencies, byte code and all.
Kafka's tool runs with the flags of Kafka's own scripts.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
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
from dataclasses import dataclass
from pathlib import Path

from kafkafeatures.core.engine.decisions import Act, Done
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.steps import DryRunAccepted
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import ClusterSettings, parse_addresses
from kafkafeatures.kafka.cluster import Cluster as Client
from kafkafeatures.reconcile.act import reconcile
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.context import ReconcileContext
from kafkafeatures.reconcile.credentials import secrets_in, settings_of
from kafkafeatures.reconcile.file_store import FileStore
from kafkasim.ports import SimulatedCluster
from tests.bench import bench_kraftlog, client_check, equality, metadata_logs, pipelines, request_logs, rolls
from tests.bench.migration import migration
from tests.bench.new_start import new_start
from tests.bench.real_roll import real_roll
from tests.bench.secured import secured
from tests.bench.weighed import Weighed, weighed
from tests.e2e.kafka.cli import write_document
from tests.e2e.kafka.wire import meddle
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.releases import RECENT
from tests.kafkafeatures.deciding import decide
from tests.kafkafeatures.documents import read_file
from tests.kafkafeatures.worlds import answer, node, observation
from tests.kafkasim.clusters import plan, world

ROOT = Path(__file__).resolve().parents[2]
PARTS = (
    "describe",
    "apply",
    "operator",
    "many",
    "start",
    "secured",
    "decide",
    "nodes",
    "log",
    "metadata-logs",
    "rolls",
    "equality",
)
CLIENTS = REQUEST_LOGS, CLIENT_CHECK = "request-logs", "client-check"
"""With DuckDB and Polars from PyPI, and Prometheus from Debian: only where they are asked for, or in a whole run."""
SPARK = pipelines.PARTS
"""With PySpark, which not every environment has: `--quick` takes them only where they are asked for."""
REAL_ROLL, MIGRATION = "real-roll", "migration"
"""Only where they are asked for, as they take minutes: nine nodes on a real kubelet, as root; six with ZooKeeper."""
ROUNDS, REAL_ROLLS = 15, 3


@dataclass(frozen=True)
class Size:
    """How much of everything. `rest` in seconds: until the resources are at rest, and for how long they are watched."""

    controllers: int
    brokers: int
    at_rest: int
    rest: tuple[float, float]
    resources: int
    secured: int
    decisions: int
    nodes: int
    log: bench_kraftlog.Size
    metadata_logs: metadata_logs.Size
    request_logs: request_logs.Size
    client_check: client_check.Size
    rolls: rolls.Size
    equality: equality.Size
    pipelines: pipelines.Size


FULL = Size(
    3,
    3,
    100,
    (70.0, 120.0),
    1000,
    200,
    60_000,
    1000,
    bench_kraftlog.FULL,
    metadata_logs.FULL,
    request_logs.FULL,
    client_check.FULL,
    rolls.FULL,
    equality.FULL,
    pipelines.FULL,
)
QUICK = Size(
    1,
    1,
    3,
    (1.0, 1.0),
    10,
    3,
    2_000,
    10,
    bench_kraftlog.QUICK,
    metadata_logs.QUICK,
    request_logs.QUICK,
    client_check.QUICK,
    rolls.QUICK,
    equality.QUICK,
    pipelines.QUICK,
)


def main() -> int:
    """Run the benchmarks and print them as lines of one table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("--rounds", type=int, help=f"{ROUNDS}, or {REAL_ROLLS} of {REAL_ROLL} and 1 of {MIGRATION}")
    parser.add_argument("--only", choices=(*PARTS, *CLIENTS, *SPARK, REAL_ROLL, MIGRATION))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--fleet", type=Path, help=f"of {SPARK[1]}: written by python -m kafkasim.fleet, instead of a new one"
    )
    arguments = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, Kafka {RECENT}")
    wanted = (arguments.only,) if arguments.only else PARTS if arguments.quick else (*PARTS, *CLIENTS, *SPARK)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if arguments.only == REAL_ROLL:
        real_roll(1 if arguments.quick else arguments.rounds or REAL_ROLLS)
    elif arguments.only == MIGRATION:
        migration(arguments.rounds or 1)
    elif arguments.quick:
        _measure(wanted, 1, [str(Path(sys.executable).with_name("kafkafeatures"))], QUICK, sys.executable)
    elif arguments.only not in SPARK:
        _measure_installed(wanted, arguments.rounds or ROUNDS)
    pipelines.run(wanted, QUICK.pipelines if arguments.quick else FULL.pipelines, arguments.rounds, arguments.fleet)
    return 0


def _measure_installed(wanted: tuple[str, ...], rounds: int) -> None:
    installed = Path(tempfile.mkdtemp(prefix="bench-venv-"))
    try:
        command = install(installed / "cli", "runtime.lock")
        operator = install(installed / "operator", "operator.lock") if "operator" in wanted else command
        _measure(wanted, rounds, command, FULL, str(Path(operator[0]).with_name("python")))
    finally:
        shutil.rmtree(installed, ignore_errors=True)


def install(folder: Path, lock: str) -> list[str]:
    """A fresh environment, without what only tests need; the command in it."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip: list[str | Path] = [folder / "bin/pip", "install", "-q", "--disable-pip-version-check"]
    locks: list[str | Path] = ["-r", ROOT / "requirements" / lock, "-r", ROOT / "requirements/build.lock"]
    subprocess.run([*pip, "--require-hashes", *locks], check=True)
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", ROOT], check=True)
    return [str(folder / "bin/kafkafeatures")]


def _measure(wanted: tuple[str, ...], rounds: int, command: list[str], size: Size, python: str) -> None:
    """`python`: what runs the operator."""
    if {"describe", "apply", "operator"} & set(wanted):
        folder = Path(tempfile.mkdtemp(prefix="bench-"))
        try:
            with Cluster(folder / "kafka", RECENT, controllers=size.controllers, brokers=size.brokers) as cluster:
                if "describe" in wanted:
                    describe(cluster, rounds, command)
                if "apply" in wanted:
                    apply(cluster, rounds, command, folder)
                if "operator" in wanted:
                    _operator(cluster, 2 * rounds, size, python)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if "many" in wanted:
        _many(size.resources)
    if "start" in wanted:
        new_start(size.resources)
    if "secured" in wanted:
        secured(size.secured)
    if "decide" in wanted:
        decisions(size.decisions)
    if "nodes" in wanted:
        many_nodes(command, size.nodes)
    if "log" in wanted:
        bench_kraftlog.run(size.log)
    if "metadata-logs" in wanted:
        metadata_logs.run(size.metadata_logs, command)
    if REQUEST_LOGS in wanted:
        request_logs.run(size.request_logs, command)
    if CLIENT_CHECK in wanted:
        client_check.run(size.client_check, command)
    if "rolls" in wanted:
        rolls.run(size.rolls)
    if "equality" in wanted:
        equality.run(size.equality)


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


def apply(cluster: Cluster, rounds: int, command: list[str], folder: Path) -> None:
    """One level raised and read back everywhere, from document to end; Kafka's tool sends it and goes."""
    numbers = itertools.count()

    def document() -> Path:
        meddle(cluster, "share.version", 0)
        (folder / str(number := next(numbers))).mkdir()
        where = {"bootstrapServers": cluster.bootstrap_servers, "bootstrapControllers": cluster.bootstrap_controllers}
        return write_document(folder / str(number) / "levels.yaml", {"share.version": 1}, **where)

    a, b = interleaved(
        lambda: _run([*command, "apply", "-f", str(document())]), lambda: _their_upgrade(cluster), rounds
    )
    _pair("apply, whole process, read back on every node", a, "FeatureCommand upgrade", b)
    with asyncio.Runner() as runner:
        a, b = interleaved(lambda: _warm(runner, document()), lambda: _their_upgrade(cluster), rounds)
    _pair("apply, warm process, new connections", a, "FeatureCommand upgrade", b)


def _operator(cluster: Cluster, rounds: int, size: Size, python: str) -> None:
    from tests.bench.on_kubernetes import operator

    operator(rounds, cluster, interleaved, lambda: _their_upgrade(cluster), _pair, size.at_rest, size.rest, python)


def _many(count: int) -> None:
    from tests.bench.on_kubernetes import many

    many(count)


def _their_upgrade(cluster: Cluster) -> float:
    meddle(cluster, "share.version", 0)
    return _run(
        cluster.release.stock_tool(
            "org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", cluster.bootstrap_servers,
            "upgrade", "--feature", "share.version=1",
        )
    )  # fmt: skip


def _warm(runner: asyncio.Runner, path: Path) -> float:
    began = time.perf_counter()
    runner.run(_until_done(path))
    return time.perf_counter() - began


async def _until_done(path: Path) -> None:
    resource = read_file(path)
    settings = settings_of(resource.spec.cluster, secrets_in(None))
    with FileStore(resource, path.with_suffix(".status.yaml")) as store:
        async with Client(settings, environment=SYSTEM) as client:
            context = ReconcileContext(store, client, SYSTEM, Ages(SYSTEM.monotonic))
            while not isinstance((last := await reconcile(context, await context.store.read())).decision, Done):
                await SYSTEM.sleep(last.requeue_after or 0)


def decisions(evaluations: int = FULL.decisions) -> None:
    """The pure core, on observations made beforehand."""
    features = {f"feature.{n}": (0, 3) for n in range(8)} | {"metadata.version": (7, 30), "group.version": (0, 1)}
    levels = {"metadata.version": 25}
    for count, wanted in ((1000, dict.fromkeys(features, 1) | {"metadata.version": 29}), (6, {"metadata.version": 29})):
        ids = [3001, 3002, 3003, *range(1, count - 2)]
        seen = observation(*(node(i, said=answer(features, levels), written=features) for i in ids), levels=levels)
        rounds = max(1, evaluations // count)
        began = time.perf_counter()
        for _ in range(rounds):
            assert isinstance(decide(DesiredState(wanted), seen, verdict=DryRunAccepted()), Act)
        each = (time.perf_counter() - began) / rounds
        what = f"{count} nodes, {len(wanted)} of {len(features)} features wanted"
        print(f"decide, {what}: {each * 1000:.2f} ms, {1 / each:,.0f} a second")
    asyncio.run(_simulated_evaluations(max(1, evaluations // 6)))


async def _simulated_evaluations(rounds: int) -> None:
    """Evaluations from raw readings of a simulated cluster of six nodes on: read, observe, decide."""
    cluster, wanted = SimulatedCluster(world(plan(metadata_version=25))), DesiredState({"metadata.version": 29})
    began = time.process_time()
    for _ in range(rounds):
        assert isinstance(decide(wanted, observe(*await cluster.read()), verdict=DryRunAccepted()), Act)
    each = (time.process_time() - began) / rounds
    print(f"read, observe and decide, 6 simulated nodes: {each * 1000:.2f} ms, {1 / each:,.0f} a second and core")


def many_nodes(installed: list[str], count: int) -> None:
    """Simulated nodes, whole process, with its peak memory."""
    command = [sys.executable, "-m", "kafkasim", "--controllers", "3", "--brokers", str(count - 3), "--release", "4.2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "operator")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as simulator:
        try:
            assert simulator.stdout is not None
            where = json.loads(simulator.stdout.readline())
            ours = [*installed, "describe", "--bootstrap-server", where["bootstrapServers"], "-o", "json"]
            ours += ["--bootstrap-controller", where["bootstrapControllers"]]
            runs: list[Weighed] = [weighed(ours) for _ in range(5)]
            live = sum(node["state"] == "Live" for node in json.loads(runs[-1].output)["nodes"])
            peak = max(run.peak for run in runs) / 2**20
            times = _spread([run.seconds for run in runs])
            cpu = statistics.median(run.cpu for run in runs)
            what = f"describe -o json, {count} simulated nodes, {live} live"
            print(f"{what}: {times}, processor {cpu:.2f} s, peak {peak:.0f} MiB")
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


async def _look(settings: ClusterSettings) -> float:
    began = time.perf_counter()
    async with Client(settings, environment=SYSTEM) as client:
        observe(*await client.read())
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
