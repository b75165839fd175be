"""Runs tasks and other work on Spark, by the functions of `featurelog.engine` that one core also runs.

What it decides: which tasks are bundled, and the order in which bundles begin. The result of a task is
small: rows go from the worker to a file, never through the driver. If Spark runs a task twice, a file is left over that
no commit names.

The code goes to workers as a zip (`archive`).
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from featurelog.engine import Outcome, SpanToSurvey, SurveyResult, run_task, survey_span
from featurelog.parts import EngineError, Task
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
        results = iter(self.mapped(survey_span, [span for spans in files for span in spans]))
        return [iter([next(results) for _ in spans]) for spans in files]

    def outcomes(self, tasks: Sequence[Task], output: str) -> list[Outcome]:
        """Runs all tasks; raises EngineError."""
        sizes = [task.end - task.start for task in tasks]
        bundles = bundled(sizes, sum(sizes) // (BUNDLES_PER_CORE * self._context.defaultParallelism))
        bundles.sort(key=lambda bundle: sum(sizes[slice(*bundle)]), reverse=True)  # none is left alone at the end
        results = self.mapped(partial(_outcomes, self._work, output), [tasks[slice(*bundle)] for bundle in bundles])
        in_order = sorted(zip(bundles, results, strict=True))
        return [outcome for _, of_bundle in in_order for outcome in of_bundle]

    def mapped(self, work: Callable[[_In], _Out], items: Sequence[_In]) -> list[_Out]:
        """Does the work on all items, each in a task of Spark; these begin in order. Raises EngineError, also if a
        worker lacks a library, and OSError.
        """
        if not items:
            return []
        code = cloudpickle.dumps(work)

        def work_pickled(item: bytes) -> bytes:
            result: object
            try:
                result = pickle.loads(code)(pickle.loads(item))  # noqa: S301 - of the driver
            except ImportError as error:
                result = error.name or str(error)
            except OSError as error:
                result = error
            return pickle.dumps(result)

        try:
            pickled = self._context.parallelize(map(pickle.dumps, items), len(items)).map(work_pickled).collect()
        except (Py4JError, PySparkException, OSError) as error:
            raise EngineError(f"Spark failed: {root_cause(str(error))}; what was committed before is kept") from None
        results = [pickle.loads(result) for result in pickled]  # noqa: S301 - of our workers
        for result in results:
            if isinstance(result, OSError):
                raise result
            if isinstance(result, str):
                python = "the Python of the workers (spark.pyspark.python)"
                raise EngineError(f"a worker does not have the library {result}: install it for {python}")
        return results


def _outcomes(work: Callable[[Task, str], Outcome], output: str, tasks: Sequence[Task]) -> list[Outcome]:
    return [work(task, output) for task in tasks]


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
