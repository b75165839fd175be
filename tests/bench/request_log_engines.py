"""Requests of a log by sender, API and version, as DuckDB, Polars and Spark count them: one thread, no output. Spark
counts them in two ways: by `from_json`, and by the data source of this project.

Run by `request_logs.py` as `python request_log_engines.py ENGINE FILE`, in an environment that has the engine alone.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

_HEADER = {"requestApiKeyName": "VARCHAR", "requestApiVersion": "INTEGER", "clientId": "VARCHAR"}
_SOFTWARE = {"softwareName": "VARCHAR", "softwareVersion": "VARCHAR"}
_FIELDS: dict[str, Any] = {
    "isForwarded": "BOOLEAN", "requestHeader": _HEADER, "connection": "VARCHAR", "principal": "VARCHAR",
    "listener": "VARCHAR", "clientInformation": _SOFTWARE,
}  # fmt: skip
_JSON = r"Completed request:(\{.*\}) \("


def duckdb(path: str) -> int:
    import json

    import duckdb as engine

    connection = engine.connect()
    connection.execute("SET threads = 1")
    columns = "columns = {'line': 'VARCHAR'}, delim = chr(1), quote = '', escape = '', header = false"
    rows = connection.execute(
        f"""WITH requests AS (
              SELECT substr(line, 2, 13) AS hour, substr(line, 2, 23) AS time, json_transform(
                substr(line, strpos(line, '{{'), length(line) - strpos(line, '{{') - 22), '{json.dumps(_FIELDS)}') AS r
              FROM read_csv('{path}', {columns}, auto_detect = false, max_line_size = 10000000)
              WHERE contains(line, 'Completed request:'))
            SELECT hour, r.listener, r.principal, r.requestHeader.clientId, regexp_extract(r.connection, '-(.*):', 1),
              r.clientInformation, r.requestHeader.requestApiKeyName, r.requestHeader.requestApiVersion, r.isForwarded,
              count(*), max(time)
            FROM requests GROUP BY ALL"""
    ).fetchall()
    return sum(row[-2] for row in rows)


def polars(path: str) -> int:
    os.environ["POLARS_MAX_THREADS"] = "1"
    import polars as engine

    types = {"VARCHAR": engine.String, "INTEGER": engine.Int64, "BOOLEAN": engine.Boolean}

    def fields(names: dict[str, Any]) -> Any:
        return engine.Struct(
            {name: types[kind] if isinstance(kind, str) else fields(kind) for name, kind in names.items()}
        )

    lines = engine.scan_csv(
        path, has_header=False, new_columns=["line"], schema={"line": engine.String}, separator="\x01", quote_char=None
    )
    request = engine.col("line").str.extract(_JSON).str.json_decode(fields(_FIELDS))
    keys = [engine.col("line").str.slice(1, 13).alias("hour")]
    frame = lines.select(*keys, engine.col("line").str.slice(1, 23).alias("time"), request.alias("r")).unnest("r")
    frame = frame.with_columns(engine.col("connection").str.extract("-(.*):"))
    counts = frame.group_by("hour", *_FIELDS).agg(engine.len(), engine.col("time").max()).collect()
    return int(counts["len"].sum())


def spark(path: str) -> int:
    from pyspark.sql import functions

    types = {"VARCHAR": "STRING", "INTEGER": "INT", "BOOLEAN": "BOOLEAN"}

    def schema(names: dict[str, Any]) -> str:
        return ", ".join(f"{name} {types.get(str(kind)) or f'STRUCT<{schema(kind)}>'}" for name, kind in names.items())

    session = _session()
    line = functions.col("value")
    request = functions.from_json(functions.regexp_extract(line, _JSON, 1), schema(_FIELDS)).alias("r")
    lines = session.read.text(path).select(line.substr(2, 13).alias("hour"), line.substr(2, 23).alias("time"), request)
    address = functions.regexp_extract("connection", "-(.*):", 1)
    frame = lines.select("hour", "time", "r.*").withColumn("connection", address)
    counts = frame.groupBy("hour", *_FIELDS).agg(functions.count("*").alias("requests"), functions.max("time"))
    return _total(session, counts)


def spark_source(path: str) -> int:
    from pyspark.sql import functions

    from featurelog.spark.request_log import register

    session = _session()
    register(session)
    rows = session.read.format("kafka_request_log").load(str(Path(path).parents[2]))
    names = ("hour", "api", "version", "listener", "principal", "client_id", "address", "software_name", "is_forwarded")
    counts = rows.groupBy(*names).agg(functions.sum("requests").alias("requests"), functions.max("last_ts"))
    return _total(session, counts)


def _session() -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    return SparkSession.builder.master("local[1]").config(map=quiet).getOrCreate()


def _total(session: Any, counts: Any) -> int:
    # Collected, as Spark would not parse a line for the sum of all counts.
    total = sum(row["requests"] for row in counts.collect())
    jvm = session.sparkContext._gateway.proc  # waited for, since only then its processor time counts as ours
    session.stop()
    jvm.stdin.close()
    jvm.wait()
    return int(total)


if __name__ == "__main__":
    print({"duckdb": duckdb, "polars": polars, "spark": spark, "spark_source": spark_source}[sys.argv[1]](sys.argv[2]))
