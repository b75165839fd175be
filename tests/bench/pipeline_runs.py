"""A program: runs of the pipeline in one process, on one core or on Spark; prints what each of them took.

Arguments, each as JSON: the folder of inputs; the outputs, a run for each; the master (null: one core); settings of
Spark; whether tables are derived of the records; when this process was started, by the clock that all processes share.
"""

from __future__ import annotations

import gc
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from featurelog.engine import Derived, Engine, OneCore, Outcome, SpanToSurvey, SurveyResult
from featurelog.parts import Task
from featurelog.run import Run, Settings
from featurelog.tables import NO_DOCUMENTS, Judging, tables_of

_TICKS = os.sysconf("SC_CLK_TCK")
_WORKER = b"pyspark.daemon"
"""What the command line of Spark's Python workers contains."""


class Timed:
    """An engine that knows how long it read and made tables, in seconds, and how much memory a Python worker had at
    most, in bytes. derives: otherwise no tables are made.
    """

    def __init__(self, engine: Engine, *, derives: bool) -> None:
        self._engine, self._derives = engine, derives
        self.reading, self.deriving, self.peak = 0.0, 0.0, 0

    def surveys(self, files: Sequence[Sequence[SpanToSurvey]]) -> list[Iterable[SurveyResult]]:
        """Counted as reading."""
        began = time.monotonic()
        found: list[Iterable[SurveyResult]] = [list(each) for each in self._engine.surveys(files)]
        self.reading += time.monotonic() - began
        return found

    def outcomes(self, tasks: Sequence[Task], output: str) -> list[Outcome]:
        """What became of every task, once all have ended, so that no time of other work is counted. Workers that are
        idle are looked at before they go.
        """
        began = time.monotonic()
        found = list(self._engine.outcomes(tasks, output))
        self.reading += time.monotonic() - began
        self._look()
        return found

    def mapped(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """In the same way."""
        if not self._derives:
            return [Derived({}) for _ in items]
        began = time.monotonic()
        found = list(self._engine.mapped(work, items))
        self.deriving += time.monotonic() - began
        self._look()
        return found

    def _look(self) -> None:
        self.peak = max([self.peak, *(peak(one) for one in tree(os.getppid()) if _WORKER in command(one))])


def main(
    inputs: str, outputs: list[str], master: str | None, settings: dict[str, str], derives: bool, began: float
) -> None:
    """`processor` is of all processes below the one that started this one, of Spark's master and workers as well;
    `driver_processor` of this one and those that it started.
    """
    gc.freeze()
    gc.set_threshold(10_000)
    loaded = time.monotonic()
    with ExitStack() as stack:
        engine = one_core() if master is None else on_spark(stack, master, settings)
        started = time.monotonic()
        runs = [one_run(Timed(engine, derives=derives), Settings((inputs,), output)) for output in outputs]
    print(json.dumps({"process": loaded - began, "engine": started - loaded, "runs": runs}))


def one_run(engine: Timed, settings: Settings) -> dict[str, float]:
    """Does what `pipeline run` does, on an engine that was started before."""
    derive = partial(tables_of, documents=NO_DOCUMENTS, judging=Judging(at_ms=int(time.time() * 1000)))
    used, used_here, began = processor(os.getppid()), processor(os.getpid()), time.monotonic()
    summary = Run(settings, derive, lambda: engine)()
    assert not summary.problems, summary.problems
    return {
        "seconds": time.monotonic() - began,
        "reading": engine.reading,
        "deriving": engine.deriving,
        "processor": processor(os.getppid()) - used,
        "driver_processor": processor(os.getpid()) - used_here,
        "worker": engine.peak,
        "driver": peak(os.getpid()),
        "files": summary.files,
        "bytes": summary.account.get("size", 0),
        "records": sum(one["records"] for one in summary.account.get("decoded", {}).values()),
    }


def one_core() -> Engine:
    """An engine that uses one core of the machine."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    return OneCore()


def on_spark(stack: ExitStack, master: str, settings: dict[str, str]) -> Engine:
    from featurelog.spark.engine import OnSpark
    from featurelog.spark.session import session

    return OnSpark(stack.enter_context(session(master, settings)))


def tree(root: int) -> Iterator[int]:
    """A process and all below it."""
    below: dict[int, list[int]] = {}
    for one in map(int, filter(str.isdigit, os.listdir("/proc"))):
        if fields := stat(one):
            below.setdefault(int(fields[1]), []).append(one)
    found = [root]
    for one in found:
        found += below.get(one, ())
    return iter(found)


def stat(process: int) -> list[str]:
    """From its state on (proc_pid_stat(5)); none of one that has ended meanwhile."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def processor(root: int) -> float:
    """Seconds of it that these processes had, and those below them that have ended."""
    return sum(sum(map(int, stat(one)[11:15])) for one in tree(root)) / _TICKS


def command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def peak(process: int) -> int:
    """The most bytes of it that ever were in memory."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(found[1]) * 1024 if found else 0


if __name__ == "__main__":
    arguments: list[Any] = [json.loads(one) for one in sys.argv[1:]]
    main(*arguments)
