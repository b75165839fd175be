"""Runs, and the like, that are ended by SIGKILL where something is written: each is a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from featurelog.delta import Output
from featurelog.engine import OneCore, Outcome
from featurelog.parts import Task
from featurelog.tables import ClusterCopies
from tests.featurelog.inputs import derive, run


class Points:
    """Counts points, and kills this process at one of them. `last`: never, for -1."""

    def __init__(self, last: int = -1) -> None:
        self.count, self.last = 0, last

    def __call__(self) -> None:
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1


class Looks(Points):
    """Kills no run; notes the points at which the output differs from the point before.

    A run that is killed anywhere between two writes leaves the same files.
    """

    def __init__(self, output: Path) -> None:
        super().__init__()
        self.different: list[int] = []
        self._output = output
        self._before: dict[Path, bytes] | None = None

    def __call__(self) -> None:
        look = {path: path.read_bytes() for path in self._output.rglob("*") if path.is_file()}
        if look != self._before:
            self.different.append(self.count)
            self._before = look
        super().__call__()


class KillingCore(OneCore):
    """A point behind each part that was written."""

    def __init__(self, point: Points) -> None:
        self._point = point

    def outcomes(self, tasks: Sequence[Task], output: str) -> Iterator[Outcome]:
        for outcome in super().outcomes(tasks, output):
            self._point()
            yield outcome


class KillingTables(dict[str, pa.Table]):
    """A point before each derived table that is written."""

    def __init__(self, point: Points, cluster: ClusterCopies) -> None:
        super().__init__(derive(cluster))
        self._point = point

    def items(self) -> Any:
        for item in super().items():
            self._point()
            yield item


def with_points(points: Points) -> dict[str, Any]:
    """The arguments of a run."""
    return {
        "before": points,
        "start_engine": lambda: KillingCore(points),
        "derive": lambda cluster: KillingTables(points, cluster),
    }


def points_of(inputs: Sequence[Path], output: Path) -> int:
    """The number of points at which a run can be killed; the run itself ends well."""
    points = Points()
    run(inputs, output, **with_points(points))
    return points.count


def killed(inputs: Sequence[Path], output: Path, point: int) -> bool:
    """Run until it is killed there; whether it was."""
    return _is_killed(_run_to, inputs, output, point)


def killed_while_it_removes(output: Path, cluster: str, point: int) -> bool:
    """Remove a cluster until that is killed there; whether it was."""
    return _is_killed(_remove_to, output, cluster, point)


def killed_in_maintenance(output: Path, keep_days: int, point: int) -> bool:
    """Maintain the tables until that is killed there; whether it was."""
    return _is_killed(_maintain_to, output, keep_days, point)


def _is_killed(target: Callable[..., None], *arguments: Any) -> bool:
    process = _PROCESSES.Process(target=target, args=arguments)
    process.start()
    process.join()
    return process.exitcode == -signal.SIGKILL


def _remove_to(output: Path, cluster: str, point: int) -> None:
    Output.open(str(output)).remove_cluster(cluster, Points(point))


def _maintain_to(output: Path, keep_days: int, point: int) -> None:
    Output.open(str(output)).maintain(keep_days, Points(point))


def _run_to(inputs: Sequence[Path], output: Path, point: int) -> None:
    run(inputs, output, **with_points(Points(point)))


_PROCESSES = multiprocessing.get_context("forkserver")
"""A process that was forked from this one could not write Delta tables: threads of delta-rs do not survive a fork."""
_PROCESSES.set_forkserver_preload([__name__])
