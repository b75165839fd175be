"""A program: one run on Spark, killed where its arguments say; prints what it did.

Arguments, each as JSON: a list of inputs, the output, the master, settings of Spark, the point at which the driver is
killed (-1: none), a file, such that the worker that removes it is killed (null: none).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from featurelog import stores
from featurelog.engine import Engine, Outcome, run_task
from featurelog.parts import Task
from featurelog.record_files import METADATA_RECORDS, new_path
from featurelog.run import Run, Settings
from featurelog.spark.engine import OnSpark
from featurelog.spark.session import session
from tests.featurelog.inputs import derive
from tests.featurelog.killing import Points


def main(
    inputs: list[str], output: str, master: str, settings: dict[str, str], point: int, kill_file: str | None
) -> None:
    points = Points(point)
    work = killed_once(kill_file) if kill_file else run_task
    with ExitStack() as stack:

        def start() -> Engine:
            points()
            return OnSpark(stack.enter_context(session(master, settings)), work)

        chosen = Settings(tuple(inputs), output, piece=500, bytes_per_commit=1)
        summary = Run(chosen, derive, start, before=points)()
    print(json.dumps({**asdict(summary), "points": points.count}))


def killed_once(kill_file: str) -> Callable[[Task, str], Outcome]:
    """Work during which one worker is killed."""

    def work(task: Task, output: str) -> Outcome:
        try:
            os.unlink(kill_file)
        except FileNotFoundError:
            return run_task(task, output)
        with stores.new_file(output, new_path(METADATA_RECORDS)) as file:
            file.write(b"PAR1")
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    return work


if __name__ == "__main__":
    arguments: list[Any] = [json.loads(one) for one in sys.argv[1:]]
    main(*arguments)
