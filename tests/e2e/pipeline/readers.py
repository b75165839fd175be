"""A program: reads Delta tables with a library that others use, and prints the rows of each as JSON.

Arguments: the name of a function in this module, the output, names of tables. It has nothing of the pipeline, and runs
in interpreters that have one of these libraries.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from tests.e2e.pipeline.page import printed
from tests.e2e.pipeline.settings import HEAP, LOOPBACK

ON_THE_PAGE = "from pyspark.sql import"


def with_pandas(paths: Iterable[str]) -> Iterator[pa.Table]:
    import pandas
    from deltalake import DeltaTable

    for path in paths:
        yield pa.Table.from_pandas(DeltaTable(path).to_pandas(types_mapper=pandas.ArrowDtype))


def with_polars(paths: Iterable[str]) -> Iterator[pa.Table]:
    import polars

    for path in paths:
        yield polars.read_delta(path).to_arrow()


def with_polars_lazily(paths: Iterable[str]) -> Iterator[pa.Table]:
    import polars

    for path in paths:
        yield polars.scan_delta(path).collect().to_arrow()


def with_duckdb(paths: Iterable[str]) -> Iterator[pa.Table]:
    """The extension lies in a package of PyPI: `INSTALL delta` fetches the same file from DuckDB's own server."""
    import duckdb
    import duckdb_extension_delta

    (extension,) = Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    for path in paths:
        yield connection.sql(f"SELECT * FROM delta_scan('{path}')").to_arrow_table()


def with_spark(paths: Iterable[str]) -> Iterator[pa.Table]:
    """The jars are in the folder that SPARK_JARS names. At last the program on the page prints what it does."""
    import os

    from pyspark.sql import SparkSession

    jars = ",".join(map(str, Path(os.environ["SPARK_JARS"]).glob("*.jar")))
    settings = {
        **HEAP,
        "spark.jars": jars,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        **LOOPBACK,
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    for path in paths:
        yield spark.read.format("delta").load(path).toArrow()
    print(json.dumps(printed(ON_THE_PAGE)))
    spark.stop()


def main(reader: str, output: str, *names: str) -> None:
    tables = globals()[reader](f"{output}/{name}" for name in names)
    print(json.dumps({name: rows(table) for name, table in zip(names, tables, strict=True)}))


def rows(table: pa.Table) -> list[str]:
    """In an order of their own, as `tests.featurelog.inputs.tables` has them."""
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in table.to_pylist())


if __name__ == "__main__":
    main(*sys.argv[1:])
