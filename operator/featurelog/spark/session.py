"""A session of Spark with defaults that are safe on any machine.

What it decides: the settings. Called when there is something to read, and not before: a session takes seconds and half
a gigabyte.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from featurelog.parts import EngineError

PYTHON = "spark.pyspark.python"


def settings(master: str, overrides: Mapping[str, str]) -> dict[str, str]:
    """The configuration that a session is started with: defaults, and over them what the user gave."""
    defaults = {
        "spark.app.name": "kafkafeatures pipeline",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",  # unknown to Spark 4.0, and no harm there
        PYTHON: sys.executable,
    }
    if master.startswith("local"):
        defaults |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "1g",
        }
    return {**defaults, **overrides, "spark.master": master}


@contextmanager
def session(master: str, overrides: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Started, and stopped at the end. What its JVM says is kept from the terminal. Raises EngineError.

    Whether there is a Java is asked before PySpark is imported (`featurelog.java`), so not here.
    """
    config = settings(master, overrides or {})
    os.environ["PYSPARK_PYTHON"] = config[PYTHON]  # PySpark asks for nothing else
    with tempfile.TemporaryFile() as output, _stderr(output.fileno()):
        try:
            spark = SparkSession.builder.config(map=config).getOrCreate()
        except Exception as error:  # of py4j, of PySpark, of the system: whatever it is, there is no session
            output.seek(0)
            reason = first_reason(output.read().decode(errors="replace")) or first_reason(str(error))
            raise EngineError(f"Spark did not start on {master}: {reason}") from None
    try:
        spark.sparkContext.setLogLevel("OFF")
        yield spark
    finally:
        spark.stop()


def first_reason(text: str) -> str:
    """The cause in a Java stack trace, without what comes around it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    reasons = [line for line in lines if "Exception: " in line or "Error: " in line]
    return (causes[-1:] or reasons or lines or [""])[0][:300]


@contextmanager
def _stderr(to: int) -> Iterator[None]:
    """For this process and those that it starts: a JVM keeps what it was started with."""
    sys.stderr.flush()
    stderr = os.dup(2)
    os.dup2(to, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(stderr, 2)
        os.close(stderr)
