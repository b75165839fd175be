"""The tables and the SQL views over them, in a session of Spark.

To ask questions in SQL: `create(spark, delta.load(output)[0])`, then `SELECT * FROM ghosts` or `SELECT * FROM
fleet_blockers('4.2')`. Everything is temporary: it is in this session only, and reads the tables as the last run
committed them.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from featurelog import stores
from featurelog.delta import Tables
from featurelog.tables import TABLES
from featurelog.views import VIEWS


def create(spark: SparkSession, tables: Tables) -> None:
    """Create a view of every table; one that is there already is replaced."""
    for name in TABLES:
        _table(spark, tables, name).createOrReplaceTempView(name)
    for view in VIEWS.values():
        if view.parameters:
            takes = ", ".join(f"{name} {kind}" for name, kind in view.parameters.items())
            spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {view.name}({takes}) RETURNS TABLE RETURN {view.query}")
        else:
            spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {view.name} AS {view.query}")


def _table(spark: SparkSession, tables: Tables, name: str) -> DataFrame:
    place, _ = stores.for_delta(tables.output)
    paths = [f"{place}/{path}" for path in tables.paths(name)]
    if paths:
        return spark.read.parquet(*paths)
    return spark.createDataFrame(TABLES[name].schema.empty_table())
