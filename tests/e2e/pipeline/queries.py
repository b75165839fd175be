"""A program: questions to `kafka_metadata`, one session for all of them; prints the answers as JSON.

It runs in interpreters that have not all that tests have: nothing but Spark and what the source itself needs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from featurelog.spark.session import session
from featurelog.spark.source import NAME, PUSHDOWN, register
from tests.e2e.pipeline.page import printed
from tests.e2e.pipeline.settings import HEAP

ON_THE_PAGE = "from featurelog.spark.source import register"
FILTERS = (
    "cluster = 'orders'",
    "node = '2' and record_type = 'FEATURE_LEVEL_RECORD'",
    "offset >= 10 and offset < 20",
    "api_key = 12 and level > 10",
    "api_key = 100000",
    "offset is null",
    "cluster in ('orders', 'nowhere') and origin = 'snapshot'",
    "fenced and body like '%1%' and level <> 7 or status = 'damaged'",
)


def main(inputs: str) -> None:
    with session("local[2]", HEAP) as spark:
        register(spark)

        def load(**options: str) -> DataFrame:
            return spark.read.format(NAME).options(**{"piece": "1000", **options}).load(inputs)

        found: dict[str, Any] = {"version": spark.version, "pandas": find_spec("pandas") is not None}
        found["rows"] = rows(load())
        found["schema"] = load().schema.simpleString()
        found["partitions"] = {
            where: load().where(where).rdd.getNumPartitions() for where in ("true", "cluster = 'orders'")
        }
        found["filters"] = {where: rows(load().where(where)) for where in FILTERS}
        found["dropped"] = rows(load(mode="dropmalformed"))
        found["columns"] = sorted(row[0] for row in load().select("offset").where("offset = 3").collect())
        found["failfast"] = failure(lambda: load(mode="FAILFAST").count())
        found["mode"] = failure(lambda: load(mode="LENIENT").count())
        found["missing"] = failure(lambda: spark.read.format(NAME).load(inputs + "-gone").count())
        found["page"] = printed(ON_THE_PAGE, spark=spark)
        found["plain"] = plain(spark, load)
    print(json.dumps(found))


def plain(spark: SparkSession, load: Callable[[], DataFrame]) -> list[str]:
    """Where filters may not be pushed down."""
    spark.conf.set(PUSHDOWN, "false")
    register(spark)
    return rows(load().where(FILTERS[2]))


def rows(frame: DataFrame) -> list[str]:
    """In an order of their own."""
    return sorted(json.dumps(row.asDict(recursive=True), default=str, sort_keys=True) for row in frame.collect())


def failure(action: Callable[[], object]) -> str:
    try:
        return f"no failure: {action()}"
    except Exception as error:
        return str(error)


if __name__ == "__main__":
    main(sys.argv[1])
