"""The pipeline: on Spark against one core, on two workers against one, an hour and a day more of a cluster that has run
for a year, and an hour more of two hundred clusters.

Each run is a process of its own (`pipeline_runs`) and is the whole of `pipeline run`: reading, and the tables that are
derived of it; against one core it is reading alone. *Cold* is its first run, *warm* a second one in the same process
and the same session, into another folder. The start of the process and that of Spark are given apart. Seconds of the
processor are those of all processes together; memory is the highest resident size of one Python worker, and of the
driver's Python.

Of workers that are processes beside the driver it is said what they share, and what is left to the driver: that bounds
what more of them can bring, whatever else the machine does.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkafeatures.api.values import replace
from kafkasim.fleet.files import write_cluster
from kafkasim.fleet.fleet import LOGS, write_fleet
from kafkasim.fleet.history import History, live
from kafkasim.fleet.plan import SMALL, UNTIL_MS, WHOLE, Scale, Story, draw
from kraftlog.files import DIRECTORY
from tests.bench.segments import FIRST, segment
from tests.e2e.pipeline.settings import LOOPBACK

PARTS = AGAINST_ONE_CORE, TWO_WORKERS, ONE_MORE, HOURLY = (
    "pipeline", "pipeline-workers", "pipeline-more", "pipeline-hourly",
)  # fmt: skip
LOCAL = "local[2]"
STANDALONE = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    **LOOPBACK,
}
IDLE_MS = 500  # as Kafka's default has it
LIMIT = 512  # MiB that a Python worker may have
_GIB = 2**30


@dataclass(frozen=True)
class Size:
    """files: of so many records each, a cluster for each file. year: of a cluster, without the day behind it. free:
    GiB that the disk must have.
    """

    files: int
    records: int
    rounds: int
    fleet: Scale
    year: Scale
    hourly: Scale
    free: int


FULL = Size(
    4,
    1_000_000,
    3,
    WHOLE,
    Scale(clusters=12, days=365, full=0, idle_ms=7_000, kept_days=365),
    Scale(clusters=200, days=10, full=0, idle_ms=60_000),
    12,
)
QUICK = Size(2, 4_000, 1, replace(SMALL, clusters=8), replace(SMALL, kept_days=30, copies=2), SMALL, 1)


def run(wanted: Sequence[str], size: Size, rounds: int | None, fleet: Path | None) -> None:
    """Measure the parts that are wanted. `rounds`: instead of those of the size. `fleet`: one that is there already."""
    if AGAINST_ONE_CORE in wanted:
        against_one_core(size, rounds or size.rounds)
    if TWO_WORKERS in wanted:
        two_workers(size, fleet)
    if ONE_MORE in wanted:
        one_more(size)
    if HOURLY in wanted:
        hourly(size)


def against_one_core(size: Size, rounds: int) -> None:
    """Equal inputs on one core and on Spark, in turn, to `metadata_records`."""
    with _folder(size) as folder:
        for number in range(size.files):
            log = folder / "in" / f"cluster-{number}" / "1" / DIRECTORY
            log.mkdir(parents=True)
            (log / f"{FIRST:020}.log").write_bytes(segment(size.records, (39,), seed=number))
        pairs = [(_run(folder, None, derives=False), _run(folder, LOCAL, derives=False)) for _ in range(rounds)]
        what = f"{size.files * size.records:,} records in {_mb(pairs[0][0]['runs'][0]['bytes'])}"
        print(f"pipeline, {what} to metadata_records, rounds: {rounds}")
        _compared({"one core": [one for one, _ in pairs], f"Spark {LOCAL}": [other for _, other in pairs]})


def two_workers(size: Size, fleet: Path | None) -> None:
    """Spark standalone with one worker of one core, and with two."""
    from tests.e2e.pipeline.standalone import cluster

    if fleet is not None and not (fleet / LOGS).is_dir():
        raise SystemExit(f"{fleet}: no generated fleet is here; write one: python -m kafkasim.fleet {fleet}")
    with _folder(size) as folder:
        if fleet is None:
            write_fleet(folder / "fleet", size.fleet)
        inputs = (fleet or folder / "fleet") / LOGS
        found = {}
        for workers in (1, 2):
            place = folder / f"standalone-{workers}"
            place.mkdir()
            with cluster(place, workers) as master:
                found[f"{workers} worker{'s' if workers > 1 else ''}"] = [_run(folder, master, STANDALONE, inputs)]
        clusters = sum(1 for one in inputs.iterdir() if one.is_dir())
        (first,) = found["1 worker"]
        print(f"pipeline, {clusters} cluster directories with {_mb(first['runs'][0]['bytes'])}, standalone")
        _compared(found)
        for workers, (way, rounds) in enumerate(found.items(), start=1):
            for what, each in zip(("cold", "warm"), rounds[0]["runs"], strict=True):
                print(f"  {way}, {what}: {_shares(each, workers)}")


def one_more(size: Size) -> None:
    """What a run costs once a year of a cluster is in the tables: an hour later, and a day later, when all nodes were
    restarted. Then Kafka wrote a NoOp every 500 ms. In the year before NoOps are thinned; the tables keep two of an
    hour anyway.
    """
    with _folder(size) as folder:
        plan = next(one for one in draw(size.year, seed=1) if one.story is Story.FINALIZED)
        history = live(plan, size.year, until_ms=UNTIL_MS)
        write_cluster(folder / "in" / plan.name, history, size.year)
        before = _run(folder, None, outputs=("tables",))
        history.timing = replace(history.timing, idle=IDLE_MS)
        for what, days in (("hour", size.year.days + 1 / 24), ("day", size.year.days + 1)):
            if what == "day":
                history.roll()
            _grow(folder, history, size.year, days)
            for name, master in (("one core", None), (f"Spark {LOCAL}", LOCAL)):
                shutil.copytree(folder / "tables", folder / "more")
                found = _run(folder, master, outputs=("more",))
                (more,) = found["runs"]
                print(
                    f"pipeline, {size.year.days} days of a cluster ({before['runs'][0]['files']} files, "
                    f"{_mb(before['runs'][0]['bytes'])}) and one more {what} ({more['files']} files, "
                    f"{_mb(more['bytes'])}), {name}: {more['seconds']:.2f} s ({more['reading']:.2f} s of it reading), "
                    f"processor {more['processor']:.2f} s; "
                    f"before it the process {found['process']:.2f} s{_spark_start(found, master)}; {_memory([found])}"
                )


def hourly(size: Size) -> None:
    """What a run on one core costs each hour, if it is for many clusters: twice, an hour after the one before. In these
    hours Kafka wrote a NoOp every 500 ms.
    """
    with _folder(size) as folder:
        histories = [live(plan, size.hourly, until_ms=UNTIL_MS) for plan in draw(size.hourly, seed=1)]
        for history in histories:
            write_cluster(folder / "in" / history.plan.name, history, size.hourly)
            history.timing = replace(history.timing, idle=IDLE_MS)
        _run(folder, None, outputs=("tables",))
        for hours in (1, 2):
            for history in histories:
                _grow(folder, history, size.hourly, size.hourly.days + hours / 24)
            found = _run(folder, None, outputs=("tables",))
            (run,) = found["runs"]
            print(
                f"pipeline, {len(histories)} clusters, hour {hours}: {run['files']} files, {_mb(run['bytes'])}, "
                f"{run['seconds']:.1f} s ({run['reading']:.1f} s of it reading, {run['deriving']:.1f} s deriving), "
                f"processor {run['processor']:.1f} s; before it the process {found['process']:.2f} s; "
                f"{_memory([found])}"
            )


def _grow(folder: Path, history: History, scale: Scale, days: float) -> None:
    """Let a cluster run until this day, and copy what has changed into the inputs."""
    history.until_day(days)
    grown = folder / "grown"
    write_cluster(grown, history, scale)
    for path in filter(Path.is_file, grown.rglob("*")):
        there = folder / "in" / history.plan.name / path.relative_to(grown)
        if not there.exists() or there.stat().st_size != path.stat().st_size:
            path.replace(there)
    shutil.rmtree(grown)


@contextmanager
def _folder(size: Size) -> Iterator[Path]:
    """Raises SystemExit where the disk has not enough."""
    with tempfile.TemporaryDirectory(prefix="bench-pipeline-") as name:
        if (free := shutil.disk_usage(name).free) < size.free * _GIB:
            raise SystemExit(
                f"{name}: {free // _GIB} GiB are free, {size.free} are needed; set TMPDIR to a larger disk"
            )
        yield Path(name)


def _run(
    folder: Path, master: str | None, settings: dict[str, str] | None = None, inputs: Path | None = None,
    outputs: tuple[str, ...] = ("cold", "warm"), *, derives: bool = True,
) -> Any:  # fmt: skip
    """What `pipeline_runs` says. Outputs are removed, but for the tables of the year."""
    places = [folder / one for one in outputs]
    values = [str(inputs or folder / "in"), [*map(str, places)], master, settings or {}, derives, time.monotonic()]
    command = [sys.executable, "-m", "tests.bench.pipeline_runs", *map(json.dumps, values)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    for place in places:
        if place.name != "tables":
            shutil.rmtree(place)
    return json.loads(done.stdout.splitlines()[-1])


def _compared(found: dict[str, list[Any]]) -> None:
    """A line for each way; the second one against the first."""
    first, second = found
    read = {tuple(run[kind] for kind in ("files", "bytes", "records")) for way in found.values() for one in way
            for run in one["runs"]}  # fmt: skip
    assert len(read) == 1, read
    for way, rounds in found.items():
        for place, what in enumerate(("cold", "warm")):
            seconds, reading, used = (_median(rounds, place, kind) for kind in ("seconds", "reading", "processor"))
            records = rounds[0]["runs"][place]["records"]
            print(
                f"  {way}, {what}: {seconds:.2f} s ({reading:.2f} reading), {records / seconds:,.0f} records/s; "
                f"processor {used:.2f} s, {records / used:,.0f} records per second of it"
            )
        start, engine = (statistics.median(one[kind] for one in rounds) for kind in ("process", "engine"))
        print(f"  {way}: before the first run the process {start:.2f} s, what reads {engine:.2f} s; {_memory(rounds)}")
    for place, what in enumerate(("cold", "warm")):
        whole, reading, used = (
            _median(found[first], place, kind) / _median(found[second], place, kind)
            for kind in ("seconds", "reading", "processor")
        )
        print(f"  {second} against {first}, {what}: {whole:.2f}x, reading {reading:.2f}x; processor {used:.2f}x")


def _shares(run: Any, workers: int) -> str:
    """What more workers make faster, and what is done by one process however many there are."""
    shared, driver = run["reading"] + run["deriving"], run["driver_processor"]
    alone = run["seconds"] - shared
    return (
        f"reading {run['reading']:.2f} s, making tables {run['deriving']:.2f} s, the rest {alone:.2f} s, so that two "
        f"workers are at most {(workers * shared + alone) / (workers * shared / 2 + alone):.2f}x as fast as one; "
        f"processor of the driver {driver:.2f} s, of workers {run['processor'] - driver:.2f} s"
    )


def _median(rounds: list[Any], place: int, kind: str) -> float:
    return float(statistics.median(one["runs"][place][kind] for one in rounds))


def _spark_start(found: Any, master: str | None) -> str:
    return f", Spark {found['engine']:.2f} s" if master else ""


def _memory(rounds: list[Any]) -> str:
    worker, driver = (max(run[kind] for one in rounds for run in one["runs"]) / 2**20 for kind in ("worker", "driver"))
    workers = f"a Python worker at most {worker:.0f} MiB of {LIMIT}, " if worker else ""
    return f"{workers}the driver {driver:.0f} MiB"


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
