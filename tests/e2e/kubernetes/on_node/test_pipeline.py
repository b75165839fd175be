"""The pipeline as users have it: image, chart, a job that reads a generated fleet from one volume and fills another."""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkasim.fleet.fleet import write_fleet
from kafkasim.fleet.plan import SMALL
from tests.amounts import only_in_soak
from tests.e2e.kubernetes.chart.rendering import CHART, WITH_REGISTRY
from tests.e2e.kubernetes.chart.test_pipeline import rendered, spark_crds
from tests.e2e.kubernetes.chart.test_rights import rights
from tests.e2e.kubernetes.on_node.volumes import claimed_volume
from tests.e2e.rig.kubernetes.binaries import binary, build
from tests.e2e.rig.kubernetes.images import PIPELINE, pipeline_image
from tests.e2e.rig.kubernetes.node import Node
from tests.e2e.rig.process import wait_until
from tests.examples import compared
from tests.featurelog.inputs import run, tables

NS, RELEASE = "pipeline", "fleet-kafka-features-operator"  # beside that of other tests
JOB = f"{RELEASE}-pipeline"
ACCOUNT = f"system:serviceaccount:{NS}:{JOB}"
USER = 65532
VALUES = {"enabled": True, "logs": {"existingClaim": "logs"}, "tables": {"existingClaim": "tables"}}


class Fleet:
    """Copies that only the image's user may read, and an empty volume for tables."""

    def __init__(self, node: Node) -> None:
        self.node, self.plane = node, node.control_plane
        self.folder = node.data(NS)
        write_fleet(self.folder / "fleet", SMALL, seed=1)
        for path in (self.folder / "fleet").rglob("*"):
            os.chown(path, USER, USER)
            path.chmod(0o700 if path.is_dir() else 0o600)
        os.chown(self.folder / "fleet" / "logs", USER, USER)
        self.tables = self.folder / "tables"
        self.tables.mkdir()

    def install(self, *values: str) -> None:
        """Install the chart, or upgrade it, with these values."""
        given = {
            "enabled": "true",
            "image.repository": PIPELINE.rpartition(":")[0],
            "image.pullPolicy": "Never",
            "suspend": "true",
            "logs.existingClaim": "logs",
            "tables.existingClaim": "tables",
        }
        sets = [word for name, value in given.items() for word in ("--set", f"pipeline.{name}={value}")]
        # The operator itself is not what is tried here: its image is not there, and is not waited for.
        sets += [
            *(*WITH_REGISTRY, "--set", "crds.enabled=false"),
            *(word for value in values for word in ("--set-json", value)),
        ]
        self.plane.helm("upgrade", "--install", RELEASE, str(CHART), "-n", NS, *sets)

    def job(self, name: str) -> str:
        """Run the scheduled job now, and return its log. Fails unless the job succeeds."""
        self.plane.kubectl("create", "job", f"--from=cronjob/{JOB}", name, "-n", NS)

        def over() -> list[str]:
            found = self.plane.get("job", name, "-n", NS)["status"].get("conditions") or ()
            return [one["type"] for one in found if one["status"] == "True"]

        try:
            wait_until(f"the job {name} is over", over, 240)
            log = self.plane.kubectl("logs", f"job/{name}", "-n", NS)
            assert "Complete" in over(), log
        except AssertionError:
            for words in (("get", "pods", "-o", "wide"), ("get", "events"), ("logs", f"job/{name}")):
                print(self.plane.kubectl(*words, "-n", NS))
            raise
        return log

    def rows(self) -> dict[str, list[str]]:
        """The rows of all tables. They are read from a copy: delta-rs cannot read below the mounts of the node."""
        with tempfile.TemporaryDirectory() as copy:
            shutil.copytree(self.tables, copy, dirs_exist_ok=True)
            return tables(copy)

    def empty_tables(self) -> None:
        """Empties the tables, as before the first run."""
        for path in sorted(self.tables.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()


@pytest.fixture(scope="module")
def fleet(node: Node) -> Iterator[Fleet]:
    build(["helm"])
    node.load_image(pipeline_image())
    plane = node.control_plane
    plane.kubectl("create", "namespace", NS)
    plane.kubectl("label", "namespace", NS, "pod-security.kubernetes.io/enforce=restricted")
    node.data(NS).mkdir()
    found = Fleet(node)
    inside = node.data_of_pods(NS)
    plane.apply(*claimed_volume("logs", f"{inside}/fleet/logs", NS), *claimed_volume("tables", f"{inside}/tables", NS))
    yield found
    plane.helm("uninstall", RELEASE, "-n", NS, "--ignore-not-found")
    plane.kubectl("delete", "namespace", NS)
    plane.kubectl("delete", "pv", "logs", "tables")
    node.remove_data(NS)


@pytest.fixture(scope="module")
def expected(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The tables that a run on one core in this process makes of the same logs."""
    output = tmp_path_factory.mktemp("expected")
    run([fleet.folder / "fleet" / "logs"], output, piece=2**24, bytes_per_commit=2**30)
    return tables(output)


def without_verdicts(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """The tables that depend on the logs alone. Rows of verdicts also have the time at which they were made."""
    return {name: rows for name, rows in found.items() if name != "upgrade_readiness"}


def test_the_scheduled_job_writes_the_tables_in_one_pod_without_any_right(
    fleet: Fleet, expected: dict[str, list[str]], tmp_path: Path
) -> None:
    """What it prints is on the page about the pipeline."""
    fleet.install()
    mark = fleet.plane.audit.mark()
    words = {RELEASE: "kafka-features-operator", f"-n {NS}": "-n kafka-features"}
    path = f"{binary('kubectl').parent}:/usr/bin:/bin"
    compared("pods", words, tmp_path, KUBECONFIG=str(fleet.plane.kubeconfig), PATH=path)
    assert without_verdicts(fleet.rows()) == without_verdicts(expected)
    assert not fleet.plane.audit.rows(mark, user=ACCOUNT)  # it sent no request to the API server


def test_the_next_run_reads_no_new_records(fleet: Fleet) -> None:
    assert "pipeline: nothing new in " in fleet.job("second")


@only_in_soak
def test_a_run_on_executors_writes_the_same_tables_and_uses_exactly_its_rights(
    fleet: Fleet, expected: dict[str, list[str]]
) -> None:
    fleet.empty_tables()
    few = {"spark": {"conf": {"spark.kubernetes.executor.request.cores": "100m"}}}  # of two cores of the node
    fleet.install('pipeline.executors={"instances": 2}', f"pipeline.config={json.dumps(few)}")
    mark = fleet.plane.audit.mark()
    began = time.monotonic()
    log = fleet.job("on-pods")
    print(f"on executors: {time.monotonic() - began:.1f} s: {log}")
    assert "Spark on k8s://https://kubernetes.default.svc" in log
    assert without_verdicts(fleet.rows()) == without_verdicts(expected)
    rows = fleet.plane.audit.rows(mark, user=ACCOUNT)
    (role,) = [one for one in rendered({**VALUES, "executors": {"instances": 2}}) if one["kind"] == "Role"]
    used = {("", row.resource, row.verb) for row in rows}
    assert used | {("", "pods", "delete")} == rights(role["rules"])  # that one is for an executor that failed
    assert not [row for row in rows if row.code == 403]
    assert sum((row.verb, row.resource) == ("create", "pods") for row in rows) == 2
    assert not fleet.plane.get("pods,configmaps", "-n", NS, "-l", "spark-role=executor")["items"]


@only_in_soak
def test_a_run_submitted_as_by_the_spark_operator_has_a_driver_pod_and_writes_the_same_tables(
    fleet: Fleet, expected: dict[str, list[str]]
) -> None:
    """The application as the API server keeps it, run by spark-submit in a pod: the Spark operator itself
    is not here.
    """
    fleet.empty_tables()
    plane, mark = fleet.plane, fleet.plane.audit.mark()
    with spark_crds(plane):
        fleet.install('pipeline.sparkApplication={"enabled": true}', "pipeline.executors={}")
        application = plane.get("scheduledsparkapplication", JOB, "-n", NS)["spec"]["template"]
        plane.kubectl("create", "serviceaccount", "submits", "-n", NS)
        plane.kubectl(
            "create", "rolebinding", "submits", "-n", NS, "--clusterrole=edit", f"--serviceaccount={NS}:submits"
        )
        plane.apply(*submission(application))
        wait_until("the submission is over", lambda: phase(fleet, "submits") in ("Succeeded", "Failed"), 240)
        log = plane.kubectl("logs", "driver", "-n", NS)
        assert f"pipeline: {SMALL.clusters} clusters, " in log
        assert "Spark on k8s://https://kubernetes.default.svc" in log
        assert phase(fleet, "driver") == "Succeeded"
        assert without_verdicts(fleet.rows()) == without_verdicts(expected)
        assert not [row for row in plane.audit.rows(mark, user=ACCOUNT) if row.code == 403]
        fleet.install()


def phase(fleet: Fleet, pod: str) -> str:
    found = fleet.plane.get("pod", pod, "-n", NS)["status"]["phase"]
    assert isinstance(found, str)
    return found


def submission(application: dict[str, Any]) -> list[dict[str, Any]]:
    """A pod that submits it with the flags of the Spark operator, and the templates of its pods."""
    conf = {
        "spark.kubernetes.namespace": NS,
        "spark.kubernetes.container.image": application["image"],
        "spark.kubernetes.container.image.pullPolicy": application["imagePullPolicy"],
        "spark.kubernetes.authenticate.driver.serviceAccountName": application["driver"]["serviceAccount"],
        "spark.kubernetes.driver.pod.name": "driver",
        "spark.executor.instances": application["executor"]["instances"],
    }
    for part in ("driver", "executor"):
        conf |= {
            f"spark.{part}.memory": application[part]["memory"],
            f"spark.{part}.memoryOverhead": application[part]["memoryOverhead"],
            f"spark.kubernetes.{part}.podTemplateFile": f"/templates/{part}",
            f"spark.kubernetes.{part}.podTemplateContainerName": f"spark-kubernetes-{part}",
            f"spark.kubernetes.{part}.request.cores": "100m",  # of two cores of the node
        }
    words = ["spark-submit", "--master", "k8s://https://kubernetes.default.svc", "--deploy-mode", application["mode"]]
    words += [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    words += [application["mainApplicationFile"], *application["arguments"]]
    pods = {part: application[part]["template"] for part in ("driver", "executor")}
    templates = {part: json.dumps({"apiVersion": "v1", "kind": "Pod", **pod}) for part, pod in pods.items()}
    spec = copy.deepcopy(pods["driver"]["spec"])
    (container,) = spec["containers"]
    container |= {"image": application["image"], "imagePullPolicy": application["imagePullPolicy"], "command": words}
    container["volumeMounts"].append({"name": "templates", "mountPath": "/templates"})
    spec["volumes"].append({"name": "templates", "configMap": {"name": "templates"}})
    spec |= {"serviceAccountName": "submits", "restartPolicy": "Never"}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "templates", "namespace": NS},
            "data": templates,
        },
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "submits", "namespace": NS}, "spec": spec},
    ]
