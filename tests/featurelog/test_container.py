"""The process of a container of the pipeline's image. In real pods: tests/e2e/kubernetes/on_node/test_pipeline.py."""

from __future__ import annotations

import subprocess
import sys

import pytest

from featurelog.container import command

EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1024m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
    "SPARK_EXECUTOR_POD_NAME": "pipeline-exec-1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_JAVA_OPT_10": "-Dlast=1",
    "SPARK_JAVA_OPT_2": "-Dfirst=a b",
    "SPARK_JAVA_OPTS": "-Dnot=ours",
    "SPARK_CONF_DIR": "/opt/spark/conf",
}


@pytest.fixture
def spark_is_there(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of that name; the tests of the pipeline on Spark have the real one."""
    folder = tmp_path_factory.mktemp("site") / "pyspark"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    return str(folder)


def test_a_command_that_is_not_of_spark_is_run_by_kafkafeatures() -> None:
    assert command(["pipeline", "run", "--config", "executor"], {}) == [
        *("kafkafeatures", "pipeline", "run", "--config", "executor")
    ]
    assert command([], {}) == ["kafkafeatures"]


def test_an_executor_gets_the_settings_of_spark_from_the_environment(spark_is_there: str) -> None:
    found = command(["executor"], EXECUTOR)
    assert found[:5] == ["java", "-Dfirst=a b", "-Dlast=1", "-Xms1024m", "-Xmx1024m"]
    assert found[5:7] == ["-cp", f"/opt/spark/conf:{spark_is_there}/jars/*"]
    flags = dict(zip(found[8::2], found[9::2], strict=True))  # behind the name of the class
    # Each value is that of a variable; the variables of Java's options are no flags.
    assert set(flags.values()) < set(EXECUTOR.values())
    assert flags["--driver-url"] == EXECUTOR["SPARK_DRIVER_URL"]
    assert flags["--podName"] == "pipeline-exec-1"


def test_a_driver_listens_at_the_address_of_spark() -> None:
    words = ["driver", "--properties-file", "/opt/spark/conf/spark.properties", "local:///opt/venv/bin/pipeline.py"]
    found = command(words, {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.3"})
    assert found[:5] == ["spark-submit", "--deploy-mode", "client", "--conf", "spark.driver.bindAddress=10.0.0.3"]
    assert found[5:] == words[1:]


@pytest.mark.parametrize("word", ["executor", "driver"])
def test_a_role_of_spark_without_its_environment_ends_with_one_line_that_names_the_missing_variable(word: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "featurelog.container", word],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": "operator"},
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "is not set; only Spark on Kubernetes starts a container so" in done.stderr
