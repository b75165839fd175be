"""A program: the SQL views over the tables of a run; prints the rows of each as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from featurelog.delta import load
from featurelog.spark.session import session
from featurelog.spark.views import create
from featurelog.views import VIEWS
from tests.e2e.pipeline.page import printed
from tests.e2e.pipeline.settings import HEAP

ON_THE_PAGE = "from featurelog import delta"


def main(output: str, empty: str, release: str) -> None:
    with session("local[2]", HEAP) as spark:
        create(spark, load(empty)[0])
        found: dict[str, Any] = {"version": spark.version, "empty": answers(spark, release)}
        create(spark, load(output)[0])
        found["views"] = answers(spark, release)
        found["drift"] = rows(spark, "SELECT * FROM drift WHERE drift = 'Drifted'")
        found["page"] = printed(ON_THE_PAGE, spark=spark)
    print(json.dumps(found, default=str))


def answers(spark: SparkSession, release: str) -> dict[str, Any]:
    """The rows of each view."""
    called = {name: f"{name}('{release}')" if view.parameters else name for name, view in VIEWS.items()}
    return {name: rows(spark, f"SELECT * FROM {call}") for name, call in called.items()}


def rows(spark: SparkSession, query: str) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in spark.sql(query).collect()]


if __name__ == "__main__":
    main(*sys.argv[1:])
