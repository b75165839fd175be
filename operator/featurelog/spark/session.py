"""Starts a Spark session, with defaults that are safe on any machine.

`pipeline run` starts a session only if there is something to read: it takes seconds and half a gigabyte.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from featurelog.parts import EngineError

PYTHON = "spark.pyspark.python"


def settings(master: str, overrides: Mapping[str, str]) -> dict[str, str]:
    """The configuration of a session: defaults, replaced by the user's settings."""
    defaults = {
        "spark.app.name": "kafkafeatures pipeline",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",  # Spark 4.0 does not know it, and ignores it
        PYTHON: sys.executable,
    }
    if master.startswith("local"):
        defaults |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.ui.enabled": "false",
        }
    return {**defaults, **overrides, "spark.master": master}


@contextmanager
def session(master: str, overrides: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Context with a session, which is stopped at the end. What its JVM writes goes to a file instead of the terminal.
    The file is kept if an EngineError ends the context, and the error names it. Raises EngineError.

    `featurelog.java` checks for a Java before PySpark is imported, so this module does not.
    """
    config = settings(master, overrides or {})
    os.environ["PYSPARK_PYTHON"] = config[PYTHON]  # PySpark reads only this variable
    descriptor, name = tempfile.mkstemp(prefix="kafkafeatures-spark-", suffix=".log")
    log = Path(name)
    try:
        with _stderr(descriptor):
            try:
                spark = SparkSession.builder.config(map=config).getOrCreate()
            except Exception as error:  # py4j, PySpark and the system raise many types; there is no session
                reason = root_cause(log.read_text(errors="replace")) or root_cause(str(error))
                raise EngineError(f"Spark did not start on {master}: {reason}") from None
        try:
            spark.sparkContext.setLogLevel("WARN")
            yield spark
        finally:
            spark.stop()
    except EngineError as error:
        raise EngineError(f"{error}; the log of Spark's driver is {log}") from None
    except BaseException:
        log.unlink()
        raise
    else:
        log.unlink()
    finally:
        os.close(descriptor)


def root_cause(text: str) -> str:
    """The root cause in a Java stack trace: its last `Caused by`, else its first line with an exception, else its first
    line; at most 300 characters.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    reasons = [line for line in lines if "Exception: " in line or "Error: " in line]
    return (causes[-1:] or reasons or lines or [""])[0][:300]


@contextmanager
def _stderr(to: int) -> Iterator[None]:
    """Redirect stderr of this process, and of processes started meanwhile: a JVM keeps the stderr that it was started
    with.
    """
    sys.stderr.flush()
    stderr = os.dup(2)
    os.dup2(to, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(stderr, 2)
        os.close(stderr)
