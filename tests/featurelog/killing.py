"""Runs that are ended by SIGKILL at one of the points where something is written: each is a process of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from featurelog.disk import Disk
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


class KillingDisk(Disk):
    """A point before each write, one where half of it is written, one before the rename, and one behind it."""

    def __init__(self, point: Points) -> None:
        self._point = point

    def write(self, path: Path, content: bytes) -> None:
        self._point()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f".{path.name}.tmp").write_bytes(content[: len(content) // 2])
        self._point()
        super().write(path, content)
        self._point()

    def replace(self, temporary: Path, path: Path) -> None:
        self._point()
        super().replace(temporary, path)

    def remove(self, path: Path) -> None:
        super().remove(path)
        self._point()


class KillingCore(OneCore):
    """A point behind each part that was written."""

    def __init__(self, point: Points) -> None:
        self._point = point

    def outcomes(self, tasks: Sequence[tuple[Task, str]]) -> Iterator[Outcome]:
        for one in super().outcomes(tasks):
            self._point()
            yield one


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
        "disk": KillingDisk(points),
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
    child = os.fork()
    if child == 0:
        try:
            run(inputs, output, **with_points(Points(point)))
        finally:
            os._exit(1)
    return os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
