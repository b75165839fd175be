"""The data source `kafka_request_log` for Spark: the requests in request logs of brokers, counted by sender and hour.

    from featurelog.spark.request_log import register
    register(spark)
    logs = spark.read.format("kafka_request_log").load("/data/evidence")
    logs.where("api = 'Produce' AND version < 3").groupBy("client_id", "principal").sum("requests").show()

A file is read in ranges that begin and end where lines do. So the counts of an hour may be in several rows: sum them.
Copies of a log count twice here; the table `client_api_usage` counts them once. Workers parse lines with the code of
`clients reduce`, which they get as a zip (`archive`); they must have msgspec.

Options:

    path     folder or URI with `<cluster>/<broker>/*`: request logs and reduced ones; the name of a file decides which
             (`featurelog/clients/kinds.py`)
    mode     PERMISSIVE (default): lines that cannot be parsed, and files that cannot be read to their end, make a row
             with their number, and the reason. DROPMALFORMED: they are left out. FAILFAST: they end the query
    piece    bytes of a large file that a partition has, at least; default 128 MiB, as Spark reads text
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from featurelog.parts import FAILFAST, PERMISSIVE, DamagedInputError
from featurelog.spark import archive
from featurelog.spark.source import options_of

NAME = "kafka_request_log"
PIECE = 128 * 1024 * 1024
"""Bytes of a range. A task of Python takes as long to start as some ten MiB to read."""
_TIME = pa.timestamp("us", tz="UTC")
_COLUMNS = pa.schema(
    [
        pa.field("cluster", pa.string()), pa.field("broker_id", pa.int32()), pa.field("file", pa.string()),
        pa.field("hour", _TIME), pa.field("api", pa.string()), pa.field("version", pa.int32()),
        pa.field("listener", pa.string()), pa.field("principal", pa.string()), pa.field("client_id", pa.string()),
        pa.field("address", pa.string()), pa.field("software_name", pa.string()),
        pa.field("software_version", pa.string()), pa.field("is_forwarded", pa.bool_()),
        pa.field("requests", pa.int64()), pa.field("last_ts", _TIME), pa.field("rejected", pa.int64()),
        pa.field("reason", pa.string()),
    ]
)  # fmt: skip
"""Columns as in `client_api_usage`. rejected: number of lines that cannot be parsed. reason: why a file was not read,
or not to its end. These two are null in rows of requests.
"""
SCHEMA = from_arrow_schema(_COLUMNS)
_ROWS = 10_000  # of a batch


class KafkaRequestLog(DataSource):
    """The data source."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return RequestLogReader(dict(self.options))


def register(spark: SparkSession) -> None:
    """Let the session know the source, and send its code to the workers."""
    spark.addArtifacts(str(_code()), pyfile=True)
    spark.dataSource.register(KafkaRequestLog)


@cache
def _code() -> Path:
    """The zip with the code. It stays until this process ends: workers that start later fetch it then."""
    folder = TemporaryDirectory(prefix="kafkafeatures-")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "kafkafeatures-request-log.zip"
    archive.write(path)
    return path


class RequestLogReader(DataSourceReader):
    """Plans in the driver, reads in the workers."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options_of(NAME, options, ("mode", "piece"))

    def partitions(self) -> list[InputPartition]:
        """A partition for each small file, or for each range of a large one."""
        # Imported here, as the code above goes to workers by value, and decoders of msgspec cannot.
        from featurelog.clients.log_rows import ranges

        # Spark needs at least one partition: an empty one, if there are no files.
        parts = [InputPartition(tuple(part)) for part in ranges(self._options.path, self._options.piece or PIECE)]
        return parts or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows; called in a worker. Raises DamagedInputError."""
        if partition.value is None:
            return
        from featurelog.clients.log_rows import LogRange, rows_of

        part, rows = LogRange(*partition.value), []
        for row in rows_of(part):
            if row.get("requests") is None and self._options.mode == FAILFAST:
                problem = row.get("reason") or f"{row['rejected']} lines of requests cannot be parsed"
                raise DamagedInputError(f"{part.where}: {problem}; mode is {FAILFAST}")
            if row.get("requests") is not None or self._options.mode == PERMISSIVE:
                rows.append(row)
            if len(rows) == _ROWS:
                yield pa.RecordBatch.from_pylist(rows, _COLUMNS)
                rows = []
        yield pa.RecordBatch.from_pylist(rows, _COLUMNS)
