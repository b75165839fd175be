"""Engines read the files of a run and make the tables of clusters: this process (`OneCore`), or Spark (`spark.engine`).

`Engine` is the interface of both. The work itself is done by the same functions in both, so that tables do not depend
on where they were made: `survey_span` surveys a span of a file, `run_task` reads a range, `derive_tables` makes the
tables of a cluster, `clients.reading` reads evidence about clients.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from featurelog import cuts, stores
from featurelog.cuts import Survey
from featurelog.parts import DamagedInputError, InputChangedError, Part, Task, open_range, write_part
from featurelog.record_files import SMALL, new_path
from featurelog.tables import CHECKPOINTS
from featurelog.tables.inputs import COLUMNS, ClusterCopies

_DIGEST = 32
"""Digits of the digest in the name of a file."""

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True, slots=True)
class Problem:
    """Reason why a file, or a task of it, was not read.

    text: the reason, for people. is_fatal: the bytes are damaged, and the mode is FAILFAST: the run ends.
    is_lost: the store or folder is out of reach, so that nothing else in it can be read either: the run ends.
    """

    text: str
    is_fatal: bool = False
    is_lost: bool = False


Outcome = Part | Problem
"""Result of a task."""


@dataclass(frozen=True, slots=True)
class SpanToSurvey:
    """A span of a file that an engine surveys, to find where the file can be cut into tasks.

    uri, path, version: see `Task`. where: name of the file in messages.
    begin, until, end: positions in the file, see `cuts.Span`.
    """

    uri: str
    path: str
    where: str
    version: str
    begin: int
    until: int
    end: int


@dataclass(frozen=True, slots=True)
class TableFile:
    """A Parquet file of a table. cluster, cluster_id: whose rows it has. path: below the output, begins with the
    table's name. rows, size: number of rows, and bytes. times: of its earliest and latest record, in ms since 1970.
    """

    cluster: str
    cluster_id: str | None
    path: str
    rows: int
    size: int
    times: tuple[int, int] | None = None


SurveyResult = Survey | Problem | None
"""Result of surveying one span; None: no batch begins in it."""
Derive = Callable[[ClusterCopies], Mapping[str, pa.Table]]
"""Function that makes the tables of a cluster, by name."""


class Derived(NamedTuple):
    """Result for a cluster. files: that were written, by the name of the table; a table without rows has no file.
    outdated: reason why the checkpoint of the last run was not used, and everything was read again; empty: it was.
    """

    files: Mapping[str, TableFile]
    outdated: str = ""


@dataclass(frozen=True, slots=True)
class RowsOfFile:
    """Function that reads the rows of one file of a table. output: folder or URI. path: of the file below it."""

    output: str
    path: str

    def __call__(self) -> pa.Table:
        return pq.ParquetFile(stores.open_file(self.output, self.path)).read()


@dataclass(frozen=True, slots=True)
class RowsOfPart:
    """Function that reads the rows of a part of an input file; unlike a lambda it can be sent to Spark's workers.
    output: folder or URI. path: of its Parquet file below it.
    """

    output: str
    path: str

    def __call__(self) -> Iterator[pa.RecordBatch]:
        yield from pq.ParquetFile(stores.open_file(self.output, self.path)).iter_batches(columns=COLUMNS)


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """Function that reads the checkpoint of a cluster; None: it has none; empty: its file is gone or damaged.
    output, path: as in `RowsOfPart`. Raises OSError if the store is out of reach.
    """

    output: str
    path: str

    def __call__(self) -> bytes | None:
        try:
            rows = pq.ParquetFile(stores.open_file(self.output, self.path)).read(columns=["checkpoint"])
            checkpoint: bytes | None = rows["checkpoint"].cast(pa.binary())[0].as_py()
        except Exception as error:  # bytes that are no Parquet file can raise anything
            if stores.is_lost(error):
                raise
            return b""  # everything is read again
        return checkpoint


class Engine(Protocol):
    """Reads files, and makes the tables of clusters. Results come in the order of the arguments.

    surveys: for each file, the surveys of its spans; the caller may stop early.
    outcomes: the result of each task, whose rows go below the output.
    mapped: the result of any other work on each item; `work` must be picklable, unless the engine is this process.
    """

    def surveys(self, files: Sequence[Sequence[SpanToSurvey]]) -> Iterable[Iterable[SurveyResult]]: ...

    def outcomes(self, tasks: Sequence[Task], output: str) -> Iterable[Outcome]: ...

    def mapped(self, work: Callable[[_In], _Out], items: Sequence[_In]) -> Iterable[_Out]: ...


class OneCore:
    """This process, one task and one cluster after the other."""

    def surveys(self, files: Sequence[Sequence[SpanToSurvey]]) -> Iterator[Iterator[SurveyResult]]:
        """Surveys the spans of each file, each when its result is asked for."""
        return (map(survey_span, spans) for spans in files)

    def outcomes(self, tasks: Sequence[Task], output: str) -> Iterator[Outcome]:
        """Runs the tasks, each when its result is asked for."""
        return (run_task(task, output) for task in tasks)

    def mapped(self, work: Callable[[_In], _Out], items: Sequence[_In]) -> Iterator[_Out]:
        """Does the work on each item when its result is asked for."""
        return map(work, items)


def run_task(task: Task, output: str) -> Outcome:
    """Run one task. Returns its part, or the problem. The proof (see `Task`) is looked for first: a worker that does
    not share the output folder would write the rows to its own disk.
    """
    try:
        if task.proof and stores.sizes(output, [task.proof]) == [None]:
            text = f"{output}: a worker does not see this output as the run does; use one that all of them share"
            return Problem(text, is_lost=True)
        return write_part(task, output)
    except DamagedInputError as error:
        return Problem(str(error), is_fatal=True)
    except InputChangedError as error:
        return Problem(str(error))
    except OSError as error:
        return Problem(f"{task.where}: {stores.reason(error)}", is_lost=stores.is_lost(error))


def survey_span(span: SpanToSurvey) -> SurveyResult:
    """Survey one span. Positions in the result count from the begin of the file."""
    try:
        data = open_range(span.uri, span.path, span.begin, span.end, span.where, version=span.version)
        result = cuts.survey(data, 0, span.until - span.begin)
    except InputChangedError as error:
        return Problem(str(error))
    except OSError as error:
        return Problem(f"{span.where}: {stores.reason(error)}", is_lost=stores.is_lost(error))
    return result and result.moved(span.begin)


def derive_tables(derive: Derive, output: str, item: tuple[ClusterCopies, Mapping[str, TableFile]]) -> Derived:
    """Write the tables of one cluster, each to a file. item: also the files of the last run, by the name of the table:
    one has the checkpoint, and each stays if its table is the same. Raises OSError.
    """
    cluster, earlier = item
    if CHECKPOINTS in earlier:
        cluster = replace(cluster, checkpoint=SavedCheckpoint(output, earlier[CHECKPOINTS].path))
    tables = derive(cluster)
    files = {
        name: write_table(output, name, table, cluster.cluster, cluster.cluster_id, earlier=earlier.get(name))
        for name, table in tables.items()
        if table.num_rows
    }
    (outdated,) = tables[CHECKPOINTS]["outdated"].to_pylist() if CHECKPOINTS in tables else ("",)
    return Derived(files, outdated)


def write_table(
    output: str, name: str, rows: pa.Table, cluster: str, cluster_id: str | None, *, earlier: TableFile | None = None
) -> TableFile:
    """Write rows of one cluster to a new file of a table, whose name ends with a digest of its content. An `earlier`
    file with this content that is still there is returned instead. Raises OSError.

    In a small file, dictionaries and statistics of columns take a third of the space, and of the time to write it.
    """
    buffer, is_small = pa.BufferOutputStream(), rows.num_rows < SMALL
    pq.write_table(rows, buffer, compression="zstd", use_dictionary=not is_small, write_statistics=not is_small)
    content = buffer.getvalue()
    suffix = f"-{hashlib.sha256(content).hexdigest()[:_DIGEST]}.parquet"
    if earlier and earlier.path.endswith(suffix) and stores.sizes(output, [earlier.path]) == [content.size]:
        return earlier
    path = new_path(name, suffix)
    with stores.new_file(output, path) as stream:
        stream.write(content)
    return TableFile(cluster, cluster_id, path, rows.num_rows, content.size)
