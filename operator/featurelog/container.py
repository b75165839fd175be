"""Entry point of the pipeline's image: an executor or a driver if Spark starts the container, else `kafkafeatures`.

It decides which program the container runs. Spark on Kubernetes starts a container with `executor` or `driver` as the
first argument, and passes the options of an executor as environment variables; `_FLAGS` has the flags of Spark's
`KubernetesExecutorBackend` for them. This module only starts the program, and imports nothing of Spark.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

_BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_FLAGS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
}
"""Flags of an executor, each with the environment variable that has its value."""
_MEMORY = "SPARK_EXECUTOR_MEMORY"
_ADDRESS = "SPARK_DRIVER_BIND_ADDRESS"
_OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)")


def command(words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The program and its arguments. Raises KeyError with the name of a variable that Spark should have set."""
    match words:
        case ["executor", *_]:
            return _executor(environment)
        case ["driver", *rest]:
            address = f"spark.driver.bindAddress={environment[_ADDRESS]}"
            return ["spark-submit", "--deploy-mode", "client", "--conf", address, *rest]
        case _:
            return ["kafkafeatures", *words]


def _executor(environment: Mapping[str, str]) -> list[str]:
    options = sorted((int(match[1]), name) for name in environment if (match := _OPTION.fullmatch(name)))
    memory = environment[_MEMORY]
    classes = [environment.get("SPARK_CONF_DIR", ""), str(_spark() / "jars" / "*")]
    flags = [word for flag, name in _FLAGS.items() for word in (flag, environment[name])]
    java = [*(environment[name] for _, name in options), f"-Xms{memory}", f"-Xmx{memory}"]
    return ["java", *java, "-cp", os.pathsep.join(filter(None, classes)), _BACKEND, *flags]


def _spark() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        sys.exit("executor: pyspark is not installed; use the image of Dockerfile.pipeline")
    return Path(spec.origin).parent


def main() -> None:
    """Replace this process by the program; does not return."""
    try:
        program = command(sys.argv[1:], os.environ)
    except KeyError as error:
        sys.exit(f"{sys.argv[1]}: {error.args[0]} is not set; only Spark on Kubernetes starts a container so")
    os.execvp(program[0], program)  # noqa: S606 - no shell is meant


if __name__ == "__main__":
    main()
