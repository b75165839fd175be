"""The tables and the SQL views over them, in a session of Spark.

To ask questions in SQL: `create(spark, manifest.load(output)[0])`, then `SELECT * FROM ghosts` or `SELECT * FROM
fleet_blockers('4.2')`. Everything is temporary: it is in this session only, and reads the tables as the manifest names
them.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from featurelog.manifest import Manifest
from featurelog.tables import TABLES
from featurelog.views import VIEWS


def create(spark: SparkSession, tables: Manifest) -> None:
    """Create a view of every table; one that is there already is replaced."""
    for name in TABLES:
        _table(spark, tables, name).createOrReplaceTempView(name)
    for view in VIEWS.values():
        if view.parameters:
            takes = ", ".join(f"{name} {kind}" for name, kind in view.parameters.items())
            spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {view.name}({takes}) RETURNS TABLE RETURN {view.query}")
        else:
            spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {view.name} AS {view.query}")


def _table(spark: SparkSession, tables: Manifest, name: str) -> DataFrame:
    paths = [str(path) for path in tables.paths(name)]
    if paths:
        return spark.read.parquet(*paths)
    return spark.createDataFrame(TABLES[name].schema.empty_table())
