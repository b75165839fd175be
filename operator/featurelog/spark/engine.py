"""Runs tasks and other work on Spark, by the functions of `featurelog.engine` that one core also runs.

What it decides: which tasks are bundled, and the order in which bundles begin. The result of a task is
small: rows go from the worker to a file, never through the driver. If Spark runs a task twice, a file is left over that
no commit names.

The code that reads files goes to workers by value, with each task. All other code needs more modules: it goes
to workers as a zip (`archive`).
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from featurelog.cuts import Survey
from featurelog.engine import (
    Outcome,
    Problem,
    SpanToSurvey,
    SurveyResult,
    run_task,
    survey_span,
)
from featurelog.parts import EngineError, Part, Task
from featurelog.spark import archive
from featurelog.spark.session import root_cause

MAX_BUNDLE_BYTES = 16 * 1024 * 1024
"""Limit to the bytes of the tasks of a bundle, unless a single task has more. Many files are small, and a task of Spark
costs some milliseconds.
"""
MIN_BUNDLE_BYTES = 1024 * 1024
"""Smaller tasks are bundled up to this size, even if fewer bundles than `BUNDLES_PER_CORE` remain."""
BUNDLES_PER_CORE = 8
"""Bundles for each core, unless they would exceed `MAX_BUNDLE_BYTES`: with fewer, some cores would be idle at the
end.
"""

_In = TypeVar("_In")
_Out = TypeVar("_Out")
_Plain = dict[str, Any]
"""Fields of a task or an outcome: workers cannot import its class."""


class OnSpark:
    """The engine on a session of Spark, which must stay open while the engine is used."""

    def __init__(self, spark: SparkSession, work: Callable[[Task, str], Outcome] = run_task) -> None:
        self._context, self._work = spark.sparkContext, work
        self._folder = tempfile.TemporaryDirectory(prefix="kafkafeatures-")  # workers fetch the zip from it
        code = Path(self._folder.name) / "kafkafeatures-pipeline.zip"
        archive.write(code)
        self._context.addPyFile(str(code))

    def surveys(self, files: Sequence[Sequence[SpanToSurvey]]) -> list[Iterator[SurveyResult]]:
        """Surveys all files at once; raises EngineError."""

        def survey_plain(fields: _Plain) -> tuple[str, _Plain] | None:
            result = survey_span(SpanToSurvey(**fields))
            return None if result is None else (type(result).__name__, asdict(result))

        results = iter(self._each(survey_plain, [asdict(span) for spans in files for span in spans]))
        plain = [[next(results) for _ in spans] for spans in files]
        return [map(_survey_result, each) for each in plain]

    def outcomes(self, tasks: Sequence[Task], output: str) -> list[Outcome]:
        """Runs all tasks; raises EngineError."""
        sizes = [task.end - task.start for task in tasks]
        bundles = bundled(sizes, sum(sizes) // (BUNDLES_PER_CORE * self._context.defaultParallelism))
        work = self._work

        def run_bundle(bundle: Sequence[_Plain]) -> list[tuple[str, _Plain]]:
            task_outcomes = (work(Task(**fields), output) for fields in bundle)
            return [(type(task_outcome).__name__, asdict(task_outcome)) for task_outcome in task_outcomes]

        bundles.sort(key=lambda bundle: sum(sizes[slice(*bundle)]), reverse=True)  # none is left alone at the end
        plain = [[asdict(task) for task in tasks[slice(*bundle)]] for bundle in bundles]
        in_order = sorted(zip(bundles, self._each(run_bundle, plain), strict=True))
        return [
            Part(**fields) if name == Part.__name__ else Problem(**fields)
            for _, results in in_order
            for name, fields in results
        ]

    def mapped(self, work: Callable[[_In], _Out], items: Sequence[_In]) -> list[_Out]:
        """Does the work on all items; raises EngineError, also if a worker lacks a library, and OSError."""
        code = pickle.dumps(work)

        def work_pickled(item: bytes) -> bytes:
            result: object
            try:
                result = pickle.loads(code)(pickle.loads(item))  # noqa: S301 - of the driver
            except ImportError as error:
                result = error.name or str(error)
            except OSError as error:
                result = error
            return pickle.dumps(result)

        results = [
            pickle.loads(result)  # noqa: S301 - of our workers
            for result in self._each(work_pickled, [pickle.dumps(item) for item in items])
        ]
        for result in results:
            if isinstance(result, OSError):
                raise result
            if isinstance(result, str):
                python = "the Python of the workers (spark.pyspark.python)"
                raise EngineError(f"a worker does not have the library {result}: install it for {python}")
        return results

    def _each(self, work: Callable[[_In], _Out], items: Sequence[_In]) -> list[_Out]:
        """The result of each item; there is a task of Spark for each, and they begin in order. Raises EngineError."""
        if not items:
            return []
        try:
            results: list[_Out] = self._context.parallelize(items, len(items)).map(work).collect()
        except (Py4JError, PySparkException, OSError) as error:
            raise EngineError(f"Spark failed: {root_cause(str(error))}; what was committed before is kept") from None
        return results


def _survey_result(plain: tuple[str, _Plain] | None) -> SurveyResult:
    if plain is None:
        return None
    name, fields = plain
    return Survey(**fields) if name == Survey.__name__ else Problem(**fields)


def bundled(sizes: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Ranges of tasks that go together: from, to, in order. most: bytes of a bundle, within bounds."""
    most = max(MIN_BUNDLE_BYTES, min(MAX_BUNDLE_BYTES, most))
    bundles: list[tuple[int, int]] = []
    first, size = 0, 0
    for number, size_of_task in enumerate(sizes):
        if number > first and size + size_of_task > most:
            bundles.append((first, number))
            first, size = number, 0
        size += size_of_task
    return [*bundles, (first, len(sizes))] if sizes else bundles
