"""Who reads the files of a run and makes the tables of clusters: this process (`OneCore`), or Spark (`spark.engine`).

What each must answer is `Engine`; the work itself (`outcome`, `seen`, `derived`) is the same function for both, so that
tables do not depend on where they were made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from featurelog import cuts, manifest, stores
from featurelog.cuts import Survey
from featurelog.manifest import TableFile
from featurelog.parts import (
    DamagedInputError,
    InputChangedError,
    Part,
    Task,
    new_path,
    open_range,
    synced,
    write_part,
)
from featurelog.tables.inputs import ClusterCopies


@dataclass(frozen=True, slots=True)
class Problem:
    """Reason why a task has no part. is_fatal: the mode ends the run. is_lost: nothing else there can be read."""

    text: str
    is_fatal: bool = False
    is_lost: bool = False


Outcome = Part | Problem
"""What became of a task."""


@dataclass(frozen=True, slots=True)
class Look:
    """A span of a file to look at, to know where the file can be cut. uri, path, version: as of a task."""

    uri: str
    path: str
    where: str
    version: str
    begin: int
    until: int
    end: int


Seen = Survey | Problem | None
"""What was found in a span; None where no batch begins in it."""
Derive = Callable[[ClusterCopies], Mapping[str, pa.Table]]
"""The tables of a cluster, by name."""
Derived = Mapping[str, TableFile]
"""Files of a cluster's tables, by the name of the table; a table without rows has none."""


class Engine(Protocol):
    """Reads files, and makes the tables of clusters; gives the result of each, in the order in which they are given.

    surveys: of the spans of each file; not all of them need be taken. derive: what `pickle` can write, if the engine is
    not this process.
    """

    def surveys(self, files: Sequence[Sequence[Look]]) -> Iterable[Iterable[Seen]]: ...

    def outcomes(self, tasks: Sequence[tuple[Task, str]]) -> Iterable[Outcome]: ...

    def derived(self, derive: Derive, clusters: Sequence[ClusterCopies], output: Path) -> Iterable[Derived]: ...


class OneCore:
    """This process, one task and one cluster after the other."""

    name = "one core"

    def surveys(self, files: Sequence[Sequence[Look]]) -> Iterator[Iterator[Seen]]:
        """Surveys the spans of each file, when the result is asked for."""
        return (map(seen, looks) for looks in files)

    def outcomes(self, tasks: Sequence[tuple[Task, str]]) -> Iterator[Outcome]:
        """Runs the tasks, each when its result is asked for."""
        return (outcome(task, folder) for task, folder in tasks)

    def derived(self, derive: Derive, clusters: Sequence[ClusterCopies], output: Path) -> Iterator[Derived]:
        """Makes the tables of the clusters, each when its result is asked for."""
        return (derived(derive, cluster, output) for cluster in clusters)


def outcome(task: Task, folder: str) -> Outcome:
    """The part of one task, or a problem; sent to workers by value, as all of `parts` is. A worker that does not see
    the folder of the output would write to a disk of its own.
    """
    if task.proof and not os.path.exists(task.proof):
        output = os.path.dirname(task.proof)
        text = f"{output}: a worker does not see this folder as the run does; use a folder that all of them share"
        return Problem(text, is_lost=True)
    try:
        return write_part(task, folder)
    except DamagedInputError as error:
        return Problem(str(error), is_fatal=True)
    except InputChangedError as error:
        return Problem(str(error))
    except OSError as error:
        return Problem(f"{task.where}: {stores.reason(error)}", is_lost=stores.is_lost(error))


def seen(look: Look) -> Seen:
    """The survey of one span; sent to workers by value, too."""
    try:
        data = open_range(look.uri, look.path, look.begin, look.end, look.where, version=look.version)
        result = cuts.survey(data, 0, look.until - look.begin)
    except InputChangedError as error:
        return Problem(str(error))
    except OSError as error:
        return Problem(f"{look.where}: {stores.reason(error)}", is_lost=stores.is_lost(error))
    return result and result.moved(look.begin)


def derived(derive: Derive, cluster: ClusterCopies, output: Path) -> Derived:
    """The tables of one cluster, written and safe on disk. Raises OSError."""
    files = {}
    for name, table in derive(cluster).items():
        if table.num_rows:
            path = Path(new_path(str(manifest.folder_of(output, name, cluster.cluster))))
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, path, compression="zstd")
            synced(str(path))
            relative_path = str(path.relative_to(output))
            files[name] = TableFile(
                cluster.cluster, cluster.cluster_id, relative_path, table.num_rows, path.stat().st_size
            )
    return files
