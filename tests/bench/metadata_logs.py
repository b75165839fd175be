"""Metadata logs: our ways from a segment to records against Kafka's dump tool, and against another client's iterator.

Segments of 60 MB are made here (`segments`): A with 39 records a batch, B with one or two. The tool writes its text
into a file, ours Parquet with all records and columns, on one core, and on two threads as `pipeline run` does; `log
decode` writes text as well. Each is a process
of its own, in turn; the file is in the page cache. Cold is with the start of the process, warm is a second time in it:
the tool has none. Walks are in one process: ours checks the CRC of every batch and the framing of every record, and the
other one gives records without either.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kafka.record import MemoryRecords

from kraftlog.arrow.framing import framed
from kraftlog.reading import Reading
from kraftlog.walks import Run
from tests.bench.segments import FIRST, segment
from tests.bench.weighed import Weighed, weighed
from tests.e2e.rig.releases import RECENT, release

_TOOL = "org.apache.kafka.tools.DumpLogSegments"
_NAME = f"{FIRST:020}.log"
_EVERYTHING = [str(Path(sys.executable).with_name("kafkafeatures"))]
"""The command line of the environment of the tests, which has all extras."""
TWO_THREADS = "two-threads"


@dataclass(frozen=True)
class Size:
    """Records of both segments, and how often each way is taken."""

    a: int
    b: int
    rounds: int


FULL = Size(1_060_000, 620_000, 3)
QUICK = Size(4_000, 4_000, 1)


def run(size: Size, installed: list[str]) -> None:
    """Measure how metadata logs are read, and print the figures. `installed`: the command line, without any extra."""
    with tempfile.TemporaryDirectory(prefix="bench-logs-") as name:
        for label, records, sizes in (("A", size.a, (39,)), ("B", size.b, (1, 2))):
            folder = Path(name) / label
            folder.mkdir()
            (folder / _NAME).write_bytes(segment(records, sizes))
            _one(label, folder / _NAME, records, size.rounds, installed)


def _one(label: str, path: Path, records: int, rounds: int, installed: list[str]) -> None:
    text, parquet = path.with_suffix(".txt"), path.with_suffix(".parquet")
    theirs = release(RECENT).stock_tool(_TOOL, "--cluster-metadata-decoder", "--files", str(path))
    ours = [sys.executable, "-m", "tests.bench.metadata_logs", str(path)]
    columns, two_threads = [*ours, str(parquet)], [*ours, str(path.parent / "output"), TWO_THREADS]
    ways = {
        f"Kafka's dump tool {RECENT} to text": _into(text, ["/usr/bin/env", *theirs]),
        "to Parquet, one core": columns,
        "to Parquet, as the pipeline writes it, two threads": two_threads,
        "log decode, with the extra pipeline": _into(text, [*_EVERYTHING, "log", "decode", str(path)]),
        "log decode, without it": _into(text, [*installed, "log", "decode", str(path)]),
    }
    runs: dict[str, list[Weighed]] = {way: [] for way in ways}
    second_times: dict[str, list[dict[str, float]]] = {"one core": [], "two threads": []}
    for _ in range(rounds):
        for way, command in ways.items():
            runs[way].append(weighed(command))
        for way, command in zip(second_times, (columns, two_threads), strict=True):
            second_times[way].append(json.loads(weighed([*command, "again"]).output))
    print(f"segment {label}: {records:,} records in {path.stat().st_size / 1e6:.1f} MB, {rounds} rounds")
    tool, *_ = runs
    of_tool = statistics.median(one.seconds for one in runs[tool])
    for way, found in runs.items():
        seconds, cpu = (statistics.median(getattr(one, kind) for one in found) for kind in ("seconds", "cpu"))
        peak = max(one.peak for one in found) / 2**20
        _line(f"{way}, whole process", records, seconds, cpu, f"{of_tool / seconds:.2f}x, peak {peak:.0f} MiB")
    for way, times in second_times.items():
        seconds, cpu = (statistics.median(one[kind] for one in times) for kind in ("seconds", "cpu"))
        _line(f"to Parquet, {way}, warm", records, seconds, cpu, f"{of_tool / seconds:.2f}x")
    _walks(path.read_bytes(), rounds)


def _into(path: Path, command: list[str]) -> list[str]:
    return ["/bin/sh", "-c", f'exec "$0" "$@" > {path}', *command]


def _line(what: str, records: int, seconds: float, cpu: float, more: str) -> None:
    print(
        f"  {what}: {seconds:.2f} s, {records / seconds:,.0f} records/s; processor {cpu:.2f} s, "
        f"{records / cpu:,.0f} records per second of it; {more}"
    )


def _walks(data: bytes, rounds: int) -> None:
    pairs = [(_seconds(_ours, data), _seconds(_kafka_python, data)) for _ in range(rounds)]
    (ours, found), (theirs, expected) = (min(way) for way in zip(*pairs, strict=True))
    assert found == expected
    print(
        f"  validated walk over records: {found / ours:,.0f} records per second of processor time; "
        f"kafka-python's iterator {found / theirs:,.0f}; {theirs / ours:.1f}x"
    )


def _seconds(way: Callable[[bytes], int], data: bytes) -> tuple[float, int]:
    began = time.process_time()
    count = way(data)
    return time.process_time() - began, count


def _ours(data: bytes) -> int:
    return sum(len(framed(one).records) for one in Reading(data).runs() if isinstance(one, Run))


def _kafka_python(data: bytes) -> int:
    every, count = MemoryRecords(data), 0
    while (batch := every.next_batch()) is not None:
        for _ in batch:
            count += 1
    return count


def to_parquet(source: str, target: str, *more: str) -> None:
    """Once, or twice with "again"; prints the time of the last one. On one core into the file `target`; with
    TWO_THREADS by the pipeline's own function into the folder `target`.
    """
    for write in [_on_two_threads if TWO_THREADS in more else _on_one_core] * (2 if "again" in more else 1):
        began, used = time.perf_counter(), time.process_time()
        write(source, target)
    print(json.dumps({"seconds": time.perf_counter() - began, "cpu": time.process_time() - used}))


def _on_one_core(source: str, target: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from kraftlog.arrow import PARQUET, RECORDS, record_batches

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    with open(source, "rb") as file, pq.ParquetWriter(target, RECORDS, **PARQUET) as writer:
        for rows in record_batches(Reading(file.read())):
            writer.write_batch(rows)


def _on_two_threads(source: str, target: str) -> None:
    from featurelog.parts import Task, write_part

    path = Path(source)
    names = ("bench", "1", path.name, "")
    write_part(Task(str(path.parent), source, *names, 0, 0, path.stat().st_size, is_open=False), target)


if __name__ == "__main__":
    to_parquet(*sys.argv[1:])
