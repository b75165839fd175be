"""Tasks on Spark: the same function that one core runs, on many.

What it decides: which tasks go together. Called by a run. What a task returns is small: rows go from the worker to a
file, never through the driver. A task that Spark runs twice leaves a file that nobody lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from featurelog.parts import EngineError, Part, Task
from featurelog.run import Outcome, Problem, outcome
from featurelog.spark.session import first_reason

BUNDLE = 16 * 1024 * 1024
"""Bytes that tasks together have at least: a task of Spark costs some milliseconds, and many files are small."""


_Plain = dict[str, Any]
"""Fields of a task or an outcome: workers cannot import its class."""


class OnSpark:
    """A session that is there as long as it is used."""

    def __init__(self, spark: SparkSession, work: Callable[[Task, str], Outcome] = outcome) -> None:
        self._context, self._work = spark.sparkContext, work

    def outcomes(self, tasks: Sequence[tuple[Task, str]]) -> list[Outcome]:
        """All of them; raises EngineError."""
        bundles = bundled(tasks)
        if not bundles:
            return []
        work = self._work

        def outcomes(bundle: Sequence[tuple[_Plain, str]]) -> list[tuple[str, _Plain]]:
            found = (work(Task(**fields), folder) for fields, folder in bundle)
            return [(type(one).__name__, asdict(one)) for one in found]

        try:
            found = self._context.parallelize(bundles, len(bundles)).flatMap(outcomes).collect()
        except (Py4JError, PySparkException, OSError) as error:
            raise EngineError(f"Spark failed: {first_reason(str(error))}; what was committed before is kept") from None
        return [Part(**fields) if name == Part.__name__ else Problem(**fields) for name, fields in found]


def bundled(tasks: Sequence[tuple[Task, str]], size: int = BUNDLE) -> list[list[tuple[_Plain, str]]]:
    """In order."""
    found: list[list[tuple[_Plain, str]]] = []
    left = 0
    for task, folder in tasks:
        if left <= 0:
            found.append([])
            left = size
        found[-1].append((asdict(task), folder))
        left -= task.end - task.start
    return found
