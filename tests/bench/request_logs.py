"""Request logs: `clients reduce`, and `kafka_request_log` in Spark, against DuckDB, Polars and Spark's `from_json`, on
one core, from text to counts of each sender.

The realistic log repeats lines of clients on a real broker, with other times and request numbers; of the hostile one
each line has another client id, port and number. Each way is a process of its own, in turn; the file is in the page
cache. The others parse the JSON as fast as they can, and write nothing; ours writes its files. DuckDB and Polars come
from PyPI into an environment of their own; Spark is that of the tests, if it is there.
"""

from __future__ import annotations

import gzip
import importlib.util
import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench.weighed import Weighed, weighed

SAMPLE = Path(__file__).with_name("request-log-sample.log.gz")
"""Lines of brokers of Kafka 3.9 at DEBUG, of eleven clients."""
ENGINES = Path(__file__).with_name("request_log_engines.py")
LIBRARIES = ("duckdb == 2.0.1", "polars == 2.1.0")


@dataclass(frozen=True)
class Size:
    """Lines of each log, and how often each way is taken."""

    lines: int
    rounds: int


FULL = Size(300_000, 3)
QUICK = Size(2_000, 1)


def run(size: Size, installed: list[str]) -> None:
    """Measure, and print the figures. `installed`: the command line, without any extra."""
    with tempfile.TemporaryDirectory(prefix="bench-requests-") as name:
        python = _environment(Path(name) / "venv")
        for label, lines in (("realistic", _realistic(size.lines)), ("hostile", _hostile(size.lines))):
            path = Path(name) / f"{label}-logs" / "cluster" / "1" / "kafka-request.log"
            path.parent.mkdir(parents=True)
            with path.open("wb") as file:
                file.writelines(lines)
            ours = [*installed, "clients", "reduce", "--broker", "1", "--to", str(Path(name) / label), str(path)]
            ways = {"clients reduce": ours}
            for engine in ("duckdb", "polars"):
                ways[engine] = [python, str(ENGINES), engine, str(path)]
            if importlib.util.find_spec("pyspark"):
                ways["Spark, local[1], from_json"] = [sys.executable, str(ENGINES), "spark", str(path)]
                ways["Spark, local[1], kafka_request_log"] = [sys.executable, str(ENGINES), "spark_source", str(path)]
            _measure(label, path, ways, size.rounds)


def _environment(folder: Path) -> str:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip: list[str | Path] = [folder / "bin/pip", "install", "-q", "--disable-pip-version-check", *LIBRARIES]
    subprocess.run(pip, check=True)
    return str(folder / "bin/python")


def _measure(label: str, path: Path, ways: Mapping[str, list[str]], rounds: int) -> None:
    runs: dict[str, list[Weighed]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, command in ways.items():
            runs[way].append(weighed(command))
    megabytes = path.stat().st_size / 1e6
    for way, weights in runs.items():
        cpu = statistics.median(run.cpu for run in weights)
        peak = max(run.peak for run in weights) / 2**20
        speed = f"{megabytes / cpu:.0f} MB/s of processor time"
        print(f"request log, {label}, {megabytes:.0f} MB: {way}: {speed}, {peak:.0f} MiB")


def _realistic(count: int) -> Iterator[bytes]:
    lines = gzip.decompress(SAMPLE.read_bytes()).splitlines()
    chance = random.Random(1)
    for number in range(count):
        second, millisecond = divmod(number, 1000)
        stamp = b"[2026-11-28 03:%02d:%02d,%03d]" % (second // 60 % 60, second % 60, millisecond)
        line = lines[number % len(lines)]
        yield stamp + _numbered(line[25:], chance.getrandbits(20)) + b"\n"


def _hostile(count: int) -> Iterator[bytes]:
    chance = random.Random(2)
    for number, line in enumerate(_realistic(count)):
        client = b'"clientId":"%016x-%d"' % (chance.getrandbits(64), number)
        remote = b":%d-%d-%d" % (chance.randrange(1024, 65536), number % 3, number)
        renamed = re.sub(rb'"clientId":"[^"]*"', client, line, count=1)
        yield re.sub(rb'("connection":"[^"]*):\d+-\d+', rb"\1" + remote, renamed, count=1)


def _numbered(line: bytes, number: int) -> bytes:
    return re.sub(rb'"correlationId":\d+', b'"correlationId":%d' % number, line, count=1)
