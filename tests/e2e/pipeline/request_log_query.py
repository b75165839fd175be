"""A program: counts of `kafka_request_log` in Spark, by client and version. Argument: the folder, as JSON."""

from __future__ import annotations

import json
import sys

from featurelog.spark.request_log import register
from featurelog.spark.session import session
from tests.e2e.pipeline.settings import HEAP


def main(folder: str) -> None:
    with session("local[2]", {**HEAP, "spark.sql.session.timeZone": "UTC"}) as spark:
        register(spark)
        logs = spark.read.format("kafka_request_log").option("piece", "1000").load(folder)
        counts = logs.groupBy("client_id", "version").sum("requests").collect()
        hours = logs.selectExpr("CAST(hour AS STRING) AS hour").distinct().collect()
    print(json.dumps({"counts": [list(row) for row in counts], "hours": [row["hour"] for row in hours]}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
