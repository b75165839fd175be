"""`kafka_metadata`, a data source for people's own queries: `spark.read.format("kafka_metadata").load("/data/logs")`.

It decides how files are divided into partitions, and which filters are applied before rows go to the JVM. Rows are
those of `metadata_records`, as Arrow batches; no pandas is needed. Users call `register` with their session. Nothing is
written, and there is no ledger: each query reads all files that are there.

    path     the folder or URI of inputs, as in `layout`
    mode     PERMISSIVE (default): damage is a row. DROPMALFORMED: it is left out. FAILFAST: it ends the query
    redact   true (default): no secrets, and no bytes of what could not be decoded
    piece    bytes of a large file that a partition has at least; default 16 MiB, or an eighth of the file if that is
             more (`MOST_RANGES`)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

import featurelog
from featurelog import cuts
from featurelog.layout import Root
from featurelog.parts import MODES, PERMISSIVE, PartReader, Task, fingerprint, open_range
from featurelog.record_files import ROWS
from kraftlog.arrow import LOG, SNAPSHOT

cloudpickle.register_pickle_by_value(featurelog)  # workers of a user's session may not have it

NAME = "kafka_metadata"
MOST_RANGES = 8
"""Most partitions of a file, without the option `piece`. To find the beginning of its partition, a worker surveys all
of the file before it.
"""
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"

SCHEMA = from_arrow_schema(ROWS)
_LIST = pa.list_(pa.field("element", pa.int32()))
_ARROW = pa.schema([field.with_type(_LIST) if pa.types.is_list(field.type) else field for field in ROWS])
"""The schema with Spark's name for the items of a list."""

_COMPARED = {
    "EqualTo": pc.equal,
    "GreaterThan": pc.greater,
    "GreaterThanOrEqual": pc.greater_equal,
    "LessThan": pc.less,
    "LessThanOrEqual": pc.less_equal,
}
Condition = tuple[str, str, Any]
"""(column, name of the filter's class, value)"""


class OptionError(Exception):
    """An unknown option, an invalid value, or no path."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a data source. path: of the inputs. mode: one of `MODES`. piece: bytes; None: it was not given.
    redact: leave out secrets.
    """

    path: str
    mode: str = PERMISSIVE
    piece: int | None = None
    redact: bool = True


def options_of(source: str, given: Mapping[str, str], names: Sequence[str]) -> Options:
    """The options of a read. names: of the options that the data source has, beside the path. Raises OptionError."""
    lowered = {name.lower(): value for name, value in given.items()}
    for name in sorted(lowered.keys() - {"path", *names}):
        raise OptionError(f"{source}: unknown option {name!r}; expected one of {', '.join(names)}")
    path, mode = lowered.get("path", ""), lowered.get("mode", PERMISSIVE).upper()
    piece, redact = lowered.get("piece"), lowered.get("redact", "true").lower()
    if not path:
        raise OptionError(f"{source}: option path is missing: .load(PATH)")
    if mode not in MODES:
        raise OptionError(f"{source}: invalid mode {mode!r}; expected one of {', '.join(MODES)}")
    if piece is not None and (not piece.isdecimal() or int(piece) == 0):
        raise OptionError(f"{source}: invalid piece {piece!r}; expected a number of bytes")
    if redact not in ("true", "false"):
        raise OptionError(f"{source}: invalid redact {redact!r}; expected true or false")
    return Options(path, mode, None if piece is None else int(piece), redact == "true")


class KafkaMetadata(DataSource):
    """The data source without filter pushdown, for Spark 4.0 and for sessions in which it is disabled."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return Reader(dict(self.options))


class PushedKafkaMetadata(KafkaMetadata):
    """For Spark 4.1 and newer with `PUSHDOWN` set: without it, Spark refuses a reader that takes filters."""

    def reader(self, schema: StructType) -> DataSourceReader:
        return PushedReader(dict(self.options))


def register(spark: SparkSession) -> None:
    """Let the session know the source, in the form that its version and settings allow."""
    is_pushed = hasattr(DataSourceReader, "pushFilters") and spark.conf.get(PUSHDOWN, "false") == "true"
    spark.dataSource.register(PushedKafkaMetadata if is_pushed else KafkaMetadata)


class Reader(DataSourceReader):
    """Plans in the driver, reads in the workers."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options_of(NAME, options, ("mode", "redact", "piece"))
        self._conditions: list[Condition] = []

    def partitions(self) -> list[InputPartition]:
        """A partition for each small file, or for each range of a large one. The driver reads no bytes of them: workers
        survey large files.
        """
        # Spark needs at least one partition: an empty one, if there are no files.
        return [InputPartition(value) for value in self._partition_values()] or [InputPartition(None)]

    def _partition_values(self) -> Iterator[tuple[Task, int, int]]:
        """For each partition: (task for the whole file, number of the span in it, bytes of a span)."""
        root = Root.of(self._options.path)
        for log in root.nodes():
            segments = [file.name for file in log.files if not file.is_snapshot]
            for file in log.files:
                labels = (log.cluster, log.node, file.name, SNAPSHOT if file.is_snapshot else LOG)
                if not file.size or not self._fits(labels):
                    continue
                version = open_range(root.uri, file.path, 0, file.size, file.name).version
                task = Task(
                    uri=root.uri, path=file.path, cluster=log.cluster, node=log.node, file=file.name, fingerprint="",
                    lead=0, start=0, end=file.size, is_open=file.name in segments[-1:], mode=self._options.mode,
                    redact=self._options.redact, version=version,
                )  # fmt: skip
                piece = self._options.piece or max(cuts.PIECE, -(-file.size // MOST_RANGES))
                for number in range(max(1, len(cuts.spans(0, file.size, piece)))):
                    yield task, number, piece

    def _fits(self, labels: tuple[str, ...]) -> bool:
        """True if rows with these labels can meet the filters: other files are not read at all."""
        row = pa.RecordBatch.from_arrays([pa.array([label]) for label in labels], names=list(_LABELS))
        return all(
            met(row, condition).to_pylist() == [True] for condition in self._conditions if condition[0] in _LABELS
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows; called in a worker."""
        if partition.value is None:
            return
        task, number, piece = partition.value
        data = open_range(task.uri, task.path, 0, task.end, task.where, version=task.version)
        bounds = cuts.range_in(data, number, piece)
        if bounds is None:
            return
        start, end = bounds
        for rows in PartReader(
            replace(
                task, fingerprint=fingerprint(data), lead=start, start=start, end=end,
                is_open=task.is_open and end == task.end,
            )
        ):  # fmt: skip
            matching = rows
            for condition in self._conditions:
                matching = matching.filter(met(matching, condition))
            if matching.num_rows:
                arrays = [column.cast(field.type) for column, field in zip(matching.columns, _ARROW, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


class PushedReader(Reader):
    """A reader that applies filters to the rows before they go to the JVM."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Take the filters that can be applied in full. Returns the others, which Spark applies."""
        for filter_ in filters:
            condition = condition_of(filter_)
            if condition is None:
                yield filter_
            else:
                self._conditions.append(condition)


_LABELS = ("cluster", "node", "file", "origin")


def condition_of(filter: Any) -> Condition | None:  # noqa: A002 - Spark's name
    """The condition of a filter; None if Arrow may judge it in another way than Spark."""
    kind = type(filter).__name__
    path: tuple[str, ...] = getattr(filter, "attribute", ())
    if len(path) != 1 or path[0] not in ROWS.names:
        return None
    column_type = ROWS.field(path[0]).type
    if kind == "IsNotNull":
        return path[0], kind, None
    if pa.types.is_list(column_type) or pa.types.is_binary(column_type) or kind not in {*_COMPARED, "In"}:
        return None
    try:
        pa.array(filter.value if kind == "In" else [filter.value], column_type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError):
        return None
    return path[0], kind, filter.value


def met(rows: pa.RecordBatch, condition: Condition) -> pa.Array:
    """A mask of the rows that meet the condition; null counts as not."""
    column, kind, value = condition
    if kind == "IsNotNull":
        return rows[column].is_valid()
    column_type = ROWS.field(column).type
    if kind == "In":
        return pc.is_in(rows[column], value_set=pa.array([item for item in value if item is not None], column_type))
    return _COMPARED[kind](rows[column], pa.scalar(value, column_type))
