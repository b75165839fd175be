"""Values that meet in one object: keys set twice, names that look like numbers, sizes that exclude each other."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kubernetes.chart.rendering import (
    CHART,
    EVERYTHING,
    NAME,
    NS,
    Object,
    Values,
    helm,
    of_kind,
    only,
    pod_spec,
    render,
    strictly,
)
from tests.e2e.kubernetes.chart.test_pipeline import CLAIMS, WAYS
from tests.e2e.rig.kubernetes.binaries import KUBERNETES

_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-view"
_CONTAINER = "kubectl.kubernetes.io/default-container"
_OURS = {
    "app.kubernetes.io/name": "mine",
    "app.kubernetes.io/instance": "mine",
    "app.kubernetes.io/version": "mine",
    "helm.sh/chart": "mine",
}
_MONITORING = EVERYTHING["monitoring"]
TWICE: Values = {
    **EVERYTHING,
    "commonLabels": {"team": "common", _AGGREGATE: "false"},
    "podLabels": {"team": "pod"},
    "podAnnotations": {_CONTAINER: "mine"},
    "podSecurityContext": {"fsGroup": 3000, "fsGroupChangePolicy": "Always", "runAsNonRoot": True},
    "securityContext": {"readOnlyRootFilesystem": False},
    "serviceAccount": {"labels": {"team": "account"}},
    "monitoring": {
        "serviceMonitor": {**_MONITORING["serviceMonitor"], "labels": {"team": "monitor", **_OURS}},
        "prometheusRule": {**_MONITORING["prometheusRule"], "labels": {"team": "rule", **_OURS}},
        "grafanaDashboard": {**_MONITORING["grafanaDashboard"], "labels": {"team": "dashboard", **_OURS}},
    },
}


@pytest.mark.parametrize("pipeline", WAYS.values(), ids=WAYS)
def test_a_key_that_two_values_set_is_rendered_once_with_the_more_specific_value(pipeline: Values) -> None:
    """`render` refuses a key that is there twice."""
    objects = render({**TWICE, "pipeline": pipeline})
    pod = only(objects, "Deployment")["spec"]["template"]
    assert pod["metadata"]["labels"]["team"] == "pod"
    assert pod["metadata"]["annotations"][_CONTAINER] == "mine"
    assert pod["spec"]["securityContext"]["fsGroup"] == 3000
    assert pod["spec"]["securityContext"]["fsGroupChangePolicy"] == "Always"
    assert pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is False
    view = next(one for one in objects if one["metadata"]["name"] == f"{NAME}-view")
    assert view["metadata"]["labels"][_AGGREGATE] == "true"
    for kind, name, team in (
        ("ServiceAccount", NAME, "account"),
        ("ServiceMonitor", NAME, "monitor"),
        ("PrometheusRule", NAME, "rule"),
        ("ConfigMap", f"{NAME}-dashboard", "dashboard"),
    ):
        (found,) = [one for one in of_kind(objects, kind) if one["metadata"]["name"] == name]
        assert found["metadata"]["labels"]["team"] == team


def test_labels_of_the_user_never_replace_labels_of_selectors() -> None:
    """The schema refuses most of them; a parent chart may leave it out."""
    done = helm(
        "template", NAME, str(CHART), "-n", NS, "--kube-version", KUBERNETES, "--skip-schema-validation",
        values={**TWICE, "commonLabels": _OURS, "podLabels": _OURS, "pipeline": CLAIMS},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    objects = list(strictly(done.stdout))
    for one in objects:
        for labels in labels_in(one):
            name = labels["app.kubernetes.io/name"]
            assert (name.removesuffix("-test").removesuffix("-pipeline"), labels["app.kubernetes.io/instance"]) == (
                NAME,
                NAME,
            )
    selector = only(objects, "Deployment")["spec"]["selector"]["matchLabels"]
    assert selector.items() <= only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"].items()
    assert only(objects, "Pod")["metadata"]["labels"]["app.kubernetes.io/name"] == f"{NAME}-test"


def labels_in(value: Any) -> Iterator[dict[str, str]]:
    """The labels of an object, and of all that it is a template of, also in the text of a ConfigMap."""
    if isinstance(value, dict):
        if "metadata" in value:
            yield value["metadata"].get("labels", {})
        for name, inner in value.items() if value.get("kind") != "CustomResourceDefinition" else ():
            yield from labels_in(next(iter(strictly(inner))) if name == "executor.yaml" else inner)
    elif isinstance(value, list):
        for inner in value:
            yield from labels_in(inner)


@pytest.mark.parametrize("pipeline", WAYS.values(), ids=WAYS)
def test_common_labels_are_on_every_object_and_every_pod(pipeline: Values) -> None:
    objects = render({**EVERYTHING, "pipeline": pipeline})
    found = [labels for one in objects for labels in labels_in(one)]
    assert len(found) > len(objects)  # labels of templates of pods as well
    assert [labels for labels in found if labels.get("cost-center") != "42"] == []
    executors = [one for one in of_kind(objects, "ConfigMap") if "executor.yaml" in one["data"]]
    assert len(executors) == ("executors" in pipeline)


@pytest.mark.parametrize("group", [1_000_650_000, 2**31 - 1])
def test_the_id_of_a_group_is_rendered_as_an_integer(group: int) -> None:
    pipeline = {**CLAIMS, "fsGroup": group}
    objects = render({"recorder": {"enabled": True, "fsGroup": group}, "pipeline": pipeline})
    job = only(objects, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    for spec in (pod_spec(objects), job):
        found = spec["securityContext"]["fsGroup"]
        assert (found, type(found)) == (group, int)  # 1.00065e+09 is equal, but a float


@pytest.mark.parametrize("name", ["123", "on", "1e3", "null", "0x10"])
def test_names_that_yaml_would_read_as_another_type_are_rendered_as_strings(name: str) -> None:
    values = {
        **EVERYTHING,
        "fullnameOverride": name,
        "nameOverride": name,
        "watchNamespaces": [name],
        "drivers": {"statefulSet": [name]},
        "serviceAccount": {"name": name},
        "priorityClassName": name,
        "recorder": {"enabled": True, "existingClaim": name},
    }
    objects = render({**values, "pipeline": {**CLAIMS, "executors": {"instances": 1}}}, name=f"a{name}")
    for one in objects:
        if one["kind"] != "CustomResourceDefinition":
            assert list(not_texts(one)) == []
    role = next(one for one in of_kind(objects, "Role") if one["metadata"]["name"] == name)
    assert role["metadata"]["namespace"] == name


_TEXTS = {"name", "namespace", "serviceAccountName", "claimName", "policyName", "priorityClassName", "value"}


def not_texts(value: Any, path: str = "") -> Iterator[str]:
    """Paths of names and labels that are no text."""
    if isinstance(value, dict):
        for name, inner in value.items():
            here = f"{path}.{name}"
            if (name in _TEXTS or path.endswith(("labels", "matchLabels", "annotations"))) and not isinstance(
                inner, str
            ):
                yield here
            yield from not_texts(inner, here)
    elif isinstance(value, list):
        for inner in value:
            yield from not_texts(inner, path)


# --- sizes ---


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"memory": {"perCluster": "300Mi"}}, "memory.perCluster (300Mi) is more than memory.allClusters (256Mi)"),
        ({"memory": {"perCluster": "16Mi"}}, "memory.perCluster is 16Mi: the operator needs 32Mi or more"),
        ({"memory": {"perCluster": "32767Ki"}}, "memory.perCluster is 32767Ki: the operator needs 32Mi or more"),
        ({"recorder": {"perCluster": "9Gi"}}, "recorder.perCluster (9Gi) is more than recorder.allClusters (8Gi)"),
        ({"recorder": {"perCluster": "1Mi"}}, "recorder.perCluster is 1Mi: the operator needs 32Mi or more"),
        (
            {"recorder": {"enabled": True, "size": "8G"}},
            "recorder.allClusters (8Gi) is more than recorder.size (8G)",
        ),
    ],
    ids=str,
)
def test_sizes_that_are_too_small_or_contradict_each_other_are_refused_and_named(values: Values, message: str) -> None:
    done = helm("template", NAME, str(CHART), "-n", NS, "--kube-version", KUBERNETES, values=values)
    assert done.returncode != 0
    assert message in done.stderr


@pytest.mark.parametrize(
    "values",
    [
        # sizes that are equal, or large enough, in different units
        {"memory": {"perCluster": "32Mi", "allClusters": "32768Ki"}},
        {"memory": {"perCluster": "1Gi", "allClusters": "1024Mi"}},
        {"recorder": {"enabled": True, "size": "1Ti"}},
        {"recorder": {"enabled": True, "size": "100G"}},
        {"recorder": {"enabled": True, "size": "8.5Gi"}},
        # a size below recorder.allClusters that has no effect: of another claim, and while there is no recorder
        {"recorder": {"enabled": True, "size": "1Gi", "existingClaim": "mine"}},
        {"recorder": {"size": "1Gi"}},
        {"monitoring": {"serviceMonitor": {"enabled": True, "interval": "1h", "scrapeTimeout": "1m30s"}}},
        {"commonLabels": {"team": "", "version": "v1.2_3"}},
    ],
    ids=str,
)
def test_the_chart_accepts_values_that_kubernetes_and_prometheus_accept(values: Values) -> None:
    assert render(values)


@pytest.mark.parametrize(
    "values",
    [
        {"commonLabels": {"team": "my team"}},
        {"podLabels": {"team": "-x"}},
        {"monitoring": {"prometheusRule": {"labels": {"team": "a b"}}}},
        {"monitoring": {"serviceMonitor": {"interval": ""}}},
        {"monitoring": {"serviceMonitor": {"interval": "30"}}},
        {"recorder": {"size": "much"}},
    ],
    ids=str,
)
def test_the_chart_refuses_values_that_kubernetes_and_prometheus_refuse(values: Values) -> None:
    done = helm("template", NAME, str(CHART), "-n", NS, "--kube-version", KUBERNETES, values=values)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr


# --- notes ---


def notes(folder: Path, values: Values) -> str:
    """NOTES.txt as an installation shows it; without an API server helm shows it only in an object."""
    chart = shutil.copytree(CHART, folder / "chart")
    text = (chart / "templates" / "NOTES.txt").read_text()
    told = '{{ define "notes" }}' + text + '{{ end }}\nkind: Notes\ntext: {{ include "notes" . | toJson }}\n'
    (chart / "templates" / "notes.yaml").write_text(told)
    done = helm("template", NAME, str(chart), "-n", NS, "--kube-version", KUBERNETES, values=values)
    assert done.returncode == 0, done.stderr
    return str(only(list(strictly(done.stdout)), "Notes")["text"])


@pytest.mark.parametrize(
    ("crds", "expected"),
    [({}, False), ({"keep": False}, True), ({"enabled": False, "keep": False}, False)],
    ids=str,
)
def test_the_notes_warn_of_the_deletion_of_the_crd_only_where_the_release_contains_the_crd(
    tmp_path: Path, crds: Object, expected: bool
) -> None:
    assert ("deletes the CRD" in notes(tmp_path, {"crds": crds})) is expected


def test_the_notes_show_how_to_connect_with_tls_and_how_to_bind_the_role_for_approvals(tmp_path: Path) -> None:
    assert "use exec -i and add to init: --config - < client.properties" in notes(tmp_path / "1", {})
    told = notes(tmp_path / "2", {"approvalPolicy": {"enabled": True}, "watchNamespaces": ["kafka"]})
    role = f"{NAME}-approve-{NS}"
    assert f"kubectl -n kafka create rolebinding approvers --clusterrole={role} --group=GROUP" in told
