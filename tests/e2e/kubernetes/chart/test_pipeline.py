"""The pipeline in the chart: no object of it unless it is enabled; then objects that a real API server accepts, with
few rights.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from featurelog.config import FIELDS, read
from tests.e2e.kubernetes.chart.rendering import (
    CHART,
    EVERYTHING,
    NAME,
    NS,
    ROOT,
    Object,
    Values,
    helm,
    of_kind,
    only,
    render,
)
from tests.e2e.kubernetes.chart.test_rights import Right, rights
from tests.e2e.rig.kubernetes.binaries import KUBERNETES, module
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.tools import Refused, Tools, is_true
from tests.e2e.rig.process import wait_until

SPARK_OPERATOR = "2.5.2"
PIPELINE = f"{NAME}-pipeline"
CLAIMS: Values = {"enabled": True, "logs": {"existingClaim": "copies"}, "tables": {"existingClaim": "tables"}}
ALL: Values = {
    **CLAIMS,
    "image": {"registry": "elsewhere", "repository": "pipeline", "tag": "9.9", "pullPolicy": "Always"},
    "schedule": "30 4 * * 1-5",
    "timeZone": "Europe/Oslo",
    "suspend": True,
    "fsGroup": 2000,
    "config": {"mode": "FAILFAST", "spark": {"conf": {"spark.driver.memory": "3g"}}},
    "serviceAccount": {"annotations": {"identity": "reader"}},
    "extraEnv": [{"name": "AWS_REGION", "value": "eu-central-1"}],
    "scratch": "8Gi",
    "resources": {"limits": {"memory": "6Gi"}},
}
WAYS: dict[str, Values] = {
    "in one pod": CLAIMS,
    "on executors": {**CLAIMS, "executors": {"instances": 3}},
    "by the Spark operator": {**CLAIMS, "sparkApplication": {"enabled": True}},
    "everything set": ALL,
    "everything set, on executors": {**ALL, "executors": {"instances": 2}},
    "everything set, by the Spark operator": {**ALL, "sparkApplication": {"enabled": True}},
}
each_way = pytest.mark.parametrize("values", WAYS.values(), ids=WAYS)


def rendered(values: Values, **others: object) -> list[Object]:
    """What the pipeline adds to a release."""
    without = render(others)
    return [one for one in render({**others, "pipeline": values}) if one not in without]


def configuration(objects: list[Object], folder: Path) -> Path:
    """The configuration as the pod finds it."""
    for name, text in only(objects, "ConfigMap")["data"].items():
        (folder / name).write_text(text)
    return folder / "pipeline.yaml"


def job_pod(objects: list[Object]) -> Object:
    template: Object = only(objects, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]
    return template


def spark_pods(objects: list[Object]) -> list[Object]:
    """What Spark makes pods of; it adds image and command."""
    found = []
    for one in of_kind(objects, "ConfigMap"):
        found += [yaml.safe_load(text) for name, text in one["data"].items() if name == "executor.yaml"]
    for one in of_kind(objects, "ScheduledSparkApplication"):
        found += [one["spec"]["template"][part]["template"] for part in ("driver", "executor")]
    return found


def all_pods(objects: list[Object]) -> list[Object]:
    """Templates of Spark's pods, and that of the job where there is one."""
    return spark_pods(objects) + ([job_pod(objects)] if of_kind(objects, "CronJob") else [])


def test_no_object_of_the_pipeline_is_rendered_unless_the_pipeline_is_enabled() -> None:
    assert "pipeline" not in json.dumps(render())
    assert not rendered({**ALL, "enabled": False, "executors": {"instances": 2}})
    assert not rendered({**ALL, "enabled": False, "sparkApplication": {"enabled": True}})


def test_the_pipeline_adds_a_cron_job_a_service_account_and_a_config_map_and_no_rights() -> None:
    assert sorted((one["kind"], one["metadata"]["name"]) for one in rendered(CLAIMS)) == [
        ("ConfigMap", PIPELINE),
        ("CronJob", PIPELINE),
        ("ServiceAccount", PIPELINE),
    ]
    assert job_pod(rendered(CLAIMS))["spec"]["automountServiceAccountToken"] is False


@each_way
def test_helm_lint_accepts_the_values_of_the_pipeline(values: Values) -> None:
    done = helm("lint", "--strict", str(CHART), "--kube-version", KUBERNETES, values={**EVERYTHING, "pipeline": values})
    assert done.returncode == 0, done.stdout + done.stderr


@each_way
def test_the_pipeline_can_read_its_configuration(values: Values, tmp_path: Path) -> None:
    found = read(configuration(rendered(values), tmp_path))
    assert found.settings.inputs == ("/data/logs",)
    assert found.settings.output == "/data/tables"


def test_the_configuration_of_the_user_overrides_that_of_the_chart(tmp_path: Path) -> None:
    given = {"inputs": ["s3://bucket/logs"], "mode": "FAILFAST", "spark": {"conf": {"spark.executor.cores": 2}}}
    values = {"enabled": True, "tables": {"existingClaim": "tables"}, "config": given, "executors": {"instances": 3}}
    objects = rendered(values)
    found = read(configuration(objects, tmp_path))
    assert (found.settings.inputs, found.settings.mode) == (("s3://bucket/logs",), "FAILFAST")
    assert found.spark.conf["spark.executor.cores"] == "2"
    assert found.spark.conf["spark.executor.instances"] == "3"
    mounted = {one["name"] for one in job_pod(objects)["spec"]["volumes"]}
    assert mounted == {"tmp", "config", "tables"}


def test_tables_in_a_bucket_need_no_volume(tmp_path: Path) -> None:
    given = {"inputs": ["s3://bucket/logs"], "output": "s3://warehouse/kafka"}
    objects = rendered({"enabled": True, "config": given})
    assert read(configuration(objects, tmp_path)).settings.output == "s3://warehouse/kafka"
    assert {volume["name"] for volume in job_pod(objects)["spec"]["volumes"]} == {"tmp", "config"}


@each_way
def test_the_pods_of_the_pipeline_may_write_the_tables_and_only_read_the_logs(values: Values) -> None:
    objects = rendered(values)
    for spec in (one["spec"] for one in all_pods(objects)):
        (container,) = spec["containers"]
        mounts = {one["name"]: (one["mountPath"], one.get("readOnly", False)) for one in container["volumeMounts"]}
        assert mounts["logs"] == ("/data/logs", True)
        assert mounts["tables"] == ("/data/tables", False)
        claims = {
            one["name"]: one["persistentVolumeClaim"] for one in spec["volumes"] if "persistentVolumeClaim" in one
        }
        assert claims == {"logs": {"claimName": "copies", "readOnly": True}, "tables": {"claimName": "tables"}}


@pytest.mark.parametrize("way", ["in one pod", "on executors"])
def test_evidence_about_clients_is_only_read_and_configured_where_it_is_mounted(way: str, tmp_path: Path) -> None:
    config = {"clients": {"releases": ["4.1"]}}
    objects = rendered({**WAYS[way], "evidence": {"existingClaim": "scrapes"}, "config": config})
    for spec in (one["spec"] for one in all_pods(objects)):
        (container,) = spec["containers"]
        mounts = [one for one in container["volumeMounts"] if one["name"] == "evidence"]
        assert mounts == [{"name": "evidence", "mountPath": "/data/evidence", "readOnly": True}]
        (claim,) = (one["persistentVolumeClaim"] for one in spec["volumes"] if one["name"] == "evidence")
        assert claim == {"claimName": "scrapes", "readOnly": True}
    clients = read(configuration(objects, tmp_path)).clients
    assert clients is not None
    assert (clients.inputs, clients.releases) == (("/data/evidence",), ("4.1",))


def test_the_schema_of_the_chart_takes_each_field_of_the_configuration() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    taken = schema["properties"]["pipeline"]["properties"]["config"]["propertyNames"]["enum"]
    assert sorted(taken) == sorted(FIELDS)


@each_way
def test_every_pod_of_the_pipeline_is_as_restricted_as_the_pod_of_the_operator(values: Values) -> None:
    objects = render({"pipeline": values})
    operator = only(objects, "Deployment")["spec"]["template"]["spec"]
    for spec in (one["spec"] for one in all_pods(objects)):
        assert operator["securityContext"].items() <= spec["securityContext"].items()
        (container,) = spec["containers"]
        assert container["securityContext"] == operator["containers"][0]["securityContext"]


def test_no_group_is_set_where_the_platform_assigns_a_group() -> None:
    assert "fsGroup" not in job_pod(rendered({**CLAIMS, "fsGroup": 0}))["spec"]["securityContext"]


def test_the_pipeline_has_exactly_the_documented_rights_to_pods_and_only_in_its_namespace() -> None:
    page = (ROOT / "docs" / "how-to" / "run-the-pipeline.md").read_text()
    rows = re.findall(r"^\| `(pods|configmaps)` \| ([^|]+) \|", page, re.MULTILINE)
    wanted: set[Right] = {("", kind, verb) for kind, verbs in rows for verb in re.findall(r"`(\w+)`", verbs)}
    assert len(wanted) == 8  # the table of the page was found: 8 verbs for both kinds together
    for way in ("on executors", "by the Spark operator"):
        objects = rendered(WAYS[way])
        role, binding = only(objects, "Role"), only(objects, "RoleBinding")
        assert rights(role["rules"]) == wanted
        assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == NS
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": PIPELINE, "namespace": NS}]
        assert not {"ClusterRole", "ClusterRoleBinding"} & {one["kind"] for one in objects}
        executor = spark_pods(objects)[-1]
        assert executor["spec"]["automountServiceAccountToken"] is False


def test_the_pod_of_the_pipeline_has_the_placement_of_all_pods_and_no_service_selects_it() -> None:
    objects = rendered(ALL, **EVERYTHING)
    for field in ("imagePullSecrets", "nodeSelector", "tolerations", "affinity"):
        assert job_pod(objects)["spec"][field] == EVERYTHING[field]
    selector = only(render(), "Service")["spec"]["selector"]
    assert not selector.items() <= job_pod(objects)["metadata"]["labels"].items()


def test_the_name_of_the_cron_job_has_at_most_52_characters() -> None:
    """Kubernetes takes no longer one, since it appends 11 characters for each job."""
    (job,) = of_kind(render({"pipeline": CLAIMS, "fullnameOverride": "k" * 50}), "CronJob")
    assert len(job["metadata"]["name"]) == 52


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"enabled": True, "logs": {"existingClaim": "copies"}}, "pipeline.tables.existingClaim: required"),
        ({"enabled": True, "tables": {"existingClaim": "tables"}}, "pipeline.logs.existingClaim: required"),
        ({**CLAIMS, "evidence": {"existingClaim": "scrapes"}}, "pipeline.config.clients.releases: required"),
        ({**CLAIMS, "schedule": "hourly"}, "/pipeline/schedule"),
        ({**CLAIMS, "config": {"output_": "/elsewhere"}}, "invalid propertyName 'output_'"),
        ({**CLAIMS, "executors": {"instances": -1}}, "/pipeline/executors/instances"),
        ({**CLAIMS, "fsGroup": -1}, "/pipeline/fsGroup"),
        ({**CLAIMS, "scratch": "much"}, "/pipeline/scratch"),
        ({**CLAIMS, "tables": {"claim": "tables"}}, "/pipeline/tables"),
        ({**CLAIMS, "extraEnv": [{"name": "POD_IP", "value": "10.0.0.1"}]}, "/pipeline/extraEnv"),
    ],
    ids=str,
)
def test_a_wrong_value_of_the_pipeline_is_refused_and_named(values: Values, message: str) -> None:
    done = helm("template", NAME, str(CHART), "--kube-version", KUBERNETES, values={"pipeline": values})
    assert done.returncode != 0
    assert message in done.stderr


# --- on a real API server ---


@contextmanager
def spark_crds(plane: Tools) -> Iterator[None]:
    """The CRDs of Kubeflow's Spark operator, as it publishes them."""
    folder = module("github.com/kubeflow/spark-operator/v2", SPARK_OPERATOR) / "config" / "crd" / "bases"
    kinds = ("scheduledsparkapplications", "sparkapplications")
    for kind in kinds:
        plane.kubectl("create", "-f", str(folder / f"sparkoperator.k8s.io_{kind}.yaml"))
    names = [f"{kind}.sparkoperator.k8s.io" for kind in kinds]
    wait_until("the kinds are served", lambda: all(is_true("Established", plane.get("crd", one)) for one in names))
    yield
    plane.kubectl("delete", "crd", *names, "--timeout=30s")


@pytest.fixture(scope="module")
def with_spark_crds(plane: ControlPlane) -> Iterator[None]:
    with spark_crds(plane):
        yield


def create_dry(plane: ControlPlane, one: Object) -> None:
    """Have the API server check an object, without creating it. Raises Refused, also for an unknown field."""
    plane.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", input=json.dumps(one))


@each_way
@pytest.mark.usefixtures("with_spark_crds")
def test_the_api_server_accepts_every_object_of_the_pipeline(plane: ControlPlane, values: Values) -> None:
    for one in rendered(values):
        create_dry(plane, one)


@pytest.mark.usefixtures("with_spark_crds")
def test_a_field_that_the_spark_operator_does_not_have_is_refused(plane: ControlPlane) -> None:
    found = copy.deepcopy(only(rendered(WAYS["by the Spark operator"]), "ScheduledSparkApplication"))
    found["spec"]["template"]["driver"]["podTemplate"] = {}
    with pytest.raises(Refused, match=r"unknown field .*podTemplate"):
        create_dry(plane, found)


@each_way
def test_a_namespace_that_enforces_restricted_accepts_every_pod_of_the_pipeline(
    plane: ControlPlane, values: Values
) -> None:
    objects = rendered(values)
    for number, template in enumerate(all_pods(objects)):
        spec = copy.deepcopy(template["spec"])
        spec.pop("serviceAccountName", None)  # there is none in a dry run
        spec["containers"][0].setdefault("image", "spark-adds-it")
        metadata = {**template["metadata"], "name": f"pod-{number}", "namespace": NS}
        create_dry(plane, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
