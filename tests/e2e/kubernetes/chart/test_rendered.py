"""Objects that helm renders from the chart, and values that it refuses."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from docs.make.alerts import OF_REASON
from kafkafeatures.cli.kube.notify_flags import FORMATS, MAX_SENDER
from kafkafeatures.core.report.notifications import NotificationEvent
from tests.e2e.kubernetes.chart.rendering import (
    CHART,
    CRD,
    CRD_NAME,
    EVERYTHING,
    NAME,
    NS,
    ROOT,
    Values,
    helm,
    of_kind,
    only,
    pod_spec,
    render,
)
from tests.e2e.rig.kubernetes.binaries import KUBERNETES


def test_without_values_the_chart_renders_only_the_operator_its_rights_the_crd_and_helm_test() -> None:
    assert sorted((one["kind"], one["metadata"]["name"]) for one in render()) == [
        ("ClusterRole", f"{NAME}-discovery-{NS}"),
        ("ClusterRole", f"{NAME}-edit"),
        ("ClusterRole", f"{NAME}-view"),
        ("ClusterRoleBinding", f"{NAME}-discovery-{NS}"),
        ("CustomResourceDefinition", CRD_NAME),
        ("Deployment", NAME),
        ("Pod", f"{NAME}-test"),
        ("Role", NAME),
        ("RoleBinding", NAME),
        ("Service", f"{NAME}-metrics"),
        ("ServiceAccount", NAME),
    ]


def test_the_objects_of_a_release_of_another_name_have_the_name_of_the_chart_in_their_names() -> None:
    names = {one["metadata"]["name"] for one in render(name="kff")} - {CRD_NAME}
    assert all(one.startswith(f"kff-{NAME}") for one in names)


def test_the_chart_renders_the_same_objects_below_a_parent_chart_with_templates_of_the_same_names(
    tmp_path: Path,
) -> None:
    """Helm has one name for a template in all charts of a release, and the parent's wins."""
    shutil.copytree(CHART, tmp_path / "charts" / NAME)
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: platform\nversion: 0.0.1\n")
    (tmp_path / "templates").mkdir()
    defined = re.findall(r'define "(?:.+\.)?(.+?)"', "".join(one.read_text() for one in _templates(CHART)))
    assert {"name", "labels", "selector", "account", "image"} <= set(defined)
    ours = "".join(f'{{{{- define "{name}" }}}}of: the-parent{{{{ end -}}}}\n' for name in defined)
    (tmp_path / "templates" / "_helpers.tpl").write_text(ours)
    pipeline = {"enabled": True, "tables": {"existingClaim": "tables"}, "logs": {"existingClaim": "logs"}}
    pipeline["image"] = {"registry": "elsewhere:5000"}
    values = {**EVERYTHING, "pipeline": {**pipeline, "executors": {"instances": 2}}}
    done = helm("template", NAME, str(tmp_path), "-n", NS, "--kube-version", KUBERNETES, values={NAME: values})
    assert done.returncode == 0, done.stderr
    inside = [one for one in yaml.safe_load_all(done.stdout) if one]
    assert sorted(map(json.dumps, inside)) == sorted(map(json.dumps, render(values)))


def _templates(chart: Path) -> Iterator[Path]:
    return (one for one in (chart / "templates").rglob("*") if one.is_file())


def test_the_deployment_has_one_replica_and_a_grace_period_of_60_seconds() -> None:
    deployment = only(render(), "Deployment")
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 60


def test_the_container_of_the_operator_has_the_environment_and_the_image_of_the_values() -> None:
    """Where `EVERYTHING` sets nothing, the values are the defaults of the chart: 256Mi and 8Gi for all clusters."""
    (container,) = pod_spec(render(EVERYTHING))["containers"]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment == {
        "KAFKAFEATURES_NAMESPACES": "kafka,payments",
        "KAFKAFEATURES_REQUEST_NAMESPACES": ",".join(EVERYTHING["drivers"]["strimzi"]),
        "KAFKAFEATURES_LISTEN": ":8080",
        "KAFKAFEATURES_LOG_FORMAT": "text",
        "KAFKAFEATURES_LOG_LEVEL": "warning",
        "KAFKAFEATURES_ALLOW_ADDRESS": "10.0.0.0/8,fd00::/8",
        "KAFKAFEATURES_DENY_ADDRESS": "10.1.0.0/16",
        "KAFKAFEATURES_MEMORY_PER_CLUSTER": "128Mi",
        "KAFKAFEATURES_MEMORY_ALL_CLUSTERS": "256Mi",
        "KAFKAFEATURES_MAX_PARTITION_IMAGES": "5",
        "KAFKAFEATURES_RECORDER_FOLDER": "/recordings/logs",
        "KAFKAFEATURES_RECORDER_PER_CLUSTER": "2Gi",
        "KAFKAFEATURES_RECORDER_ALL_CLUSTERS": "8Gi",
        "KAFKAFEATURES_NOTIFY_URL_FILE": "/notifications/url",
        "KAFKAFEATURES_NOTIFY_FORMAT": "slack",
        "KAFKAFEATURES_NOTIFY_EVENTS": "ApprovalRequired,Halted",
        "KAFKAFEATURES_NOTIFY_SENDER": "prod-eu",
        "KAFKAFEATURES_NOTIFY_ALLOW_HTTP": "true",
        "KAFKAFEATURES_NAME": NAME,
        "POD_NAME": None,
        "POD_NAMESPACE": None,
        "POD_IP": None,
        "TZ": "Europe/Oslo",
    }
    fields = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in container["env"] if "valueFrom" in one}
    assert fields == {
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
        "POD_IP": "status.podIPs",
    }
    assert (container["image"], container["imagePullPolicy"]) == ("elsewhere:5000/team/kff:9.9", "Always")


def test_probes_and_service_use_the_port_of_the_container() -> None:
    objects = render()
    (container,) = pod_spec(objects)["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": 8080}]
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "http"}
    service = only(objects, "Service")
    assert service["spec"]["ports"] == [{"name": "http", "port": 8080, "targetPort": "http"}]
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    # The service must not select the pod of `helm test`.
    assert not service["spec"]["selector"].items() <= only(objects, "Pod")["metadata"]["labels"].items()


def test_the_pod_of_the_operator_and_that_of_helm_test_have_the_placement_of_the_values() -> None:
    objects = render(EVERYTHING)
    for spec in (pod_spec(objects), only(objects, "Pod")["spec"]):
        for field in ("imagePullSecrets", "nodeSelector", "tolerations", "affinity"):
            assert spec[field] == EVERYTHING[field]


def test_helm_test_requests_the_service_with_the_image_of_the_operator() -> None:
    objects = render(EVERYTHING)
    pod, (operator,) = only(objects, "Pod"), pod_spec(objects)["containers"]
    (container,) = pod["spec"]["containers"]
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert container["image"] == operator["image"]
    assert f"http://{only(objects, 'Service')['metadata']['name']}:8080/readyz" in container["command"][2]
    compile(container["command"][2], "the test", "exec")


def test_the_crd_is_that_of_the_repository_and_is_kept_when_the_release_is_uninstalled() -> None:
    found = only(render(), "CustomResourceDefinition")
    assert found["spec"] == CRD["spec"]
    assert found["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_the_crd_can_be_deleted_with_the_release_or_not_rendered() -> None:
    assert "annotations" not in only(render({"crds": {"keep": False}}), "CustomResourceDefinition")["metadata"]
    assert not of_kind(render({"crds": {"enabled": False}}), "CustomResourceDefinition")


def test_recordings_have_a_volume_that_outlives_the_release_only_where_the_recorder_is_enabled() -> None:
    claim = only(render(EVERYTHING), "PersistentVolumeClaim")
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"] == {"requests": {"storage": "10Gi"}}
    mine = render({"recorder": {"enabled": True, "existingClaim": "mine", "fsGroup": 0}})
    assert not of_kind(mine, "PersistentVolumeClaim")
    # 65532: the group of the chart's own values; 0 in the values leaves the field out
    for objects, name, group in ((render(EVERYTHING), claim["metadata"]["name"], 65532), (mine, "mine", None)):
        spec = pod_spec(objects)
        assert {"name": "recordings", "persistentVolumeClaim": {"claimName": name}} in spec["volumes"]
        assert {"name": "recordings", "mountPath": "/recordings"} in spec["containers"][0]["volumeMounts"]
        assert spec["securityContext"].get("fsGroup") == group
    plain = pod_spec(render())
    assert [one["name"] for one in plain["volumes"]] == ["tmp"]
    assert "fsGroup" not in plain["securityContext"]


def test_the_url_of_a_webhook_is_a_file_of_a_secret_without_which_the_pod_starts_all_the_same() -> None:
    spec = pod_spec(render(EVERYTHING))
    (volume,) = (volume for volume in spec["volumes"] if volume["name"] == "notifications")
    items = [{"key": "slack-url", "path": "url"}]
    assert volume["secret"] == {"secretName": "webhook", "items": items, "optional": True}
    mount = {"name": "notifications", "mountPath": "/notifications", "readOnly": True}
    (container,) = spec["containers"]
    assert mount in container["volumeMounts"]
    (plain,) = pod_spec(render({"notifications": {"format": "slack"}}))["containers"]
    assert not any("NOTIFY" in variable["name"] for variable in plain["env"])


def test_the_values_offer_the_formats_and_events_of_the_operator() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]["notifications"]["properties"]
    assert schema["format"]["enum"] == [*FORMATS]
    assert schema["events"]["items"]["enum"] == [*NotificationEvent]
    assert schema["sender"]["maxLength"] == MAX_SENDER


MONITORING = {"ServiceMonitor", "PrometheusRule", "ConfigMap"}


def test_no_monitoring_object_is_rendered_by_default() -> None:
    assert not MONITORING & {one["kind"] for one in render()}


def test_the_service_monitor_finds_the_service_and_keeps_the_labels_of_series() -> None:
    objects = render(EVERYTHING)
    monitor, service = only(objects, "ServiceMonitor"), only(objects, "Service")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["interval"], endpoint["honorLabels"]) == ("http", "30s", True)


def test_alerts_select_the_release_and_link_to_runbooks_that_exist() -> None:
    rules = only(render(EVERYTHING), "PrometheusRule")["spec"]["groups"][0]["rules"]
    down = next(one for one in rules if one["alert"] == "KafkaFeaturesOperatorDown")
    assert down["expr"] == f'absent(up{{job="{NAME}-metrics",namespace="{NS}"}} == 1)'
    for one in rules:
        base, page = one["annotations"]["runbook_url"].rsplit("/", 1)
        assert base == "https://runbooks.example/kafka"
        assert page == OF_REASON or (ROOT / "docs" / "runbooks" / page).is_file()
        # placeholders of the rules that the chart replaces
        assert "$labels" not in one["expr"]
        assert "@" not in one["expr"]


@pytest.mark.parametrize(
    ("values", "pattern"),
    [({}, NS), ({"watchNamespaces": ["kafka", "payments"]}, "kafka|payments"), ({"watchAllNamespaces": True}, ".+")],
    ids=str,
)
def test_alerts_select_the_namespaces_that_the_operator_watches(values: Values, pattern: str) -> None:
    """Two releases of one name have the same job; what they watch differs."""
    rules = only(render({**values, "monitoring": {"prometheusRule": {"enabled": True}}}), "PrometheusRule")
    stalled = rules["spec"]["groups"][0]["rules"][0]["expr"]
    selector = f'{{job="{NAME}-metrics",namespace=~"{pattern}",type="Stalled",status="True"}}'
    assert stalled == f"kafkafeatures_condition_reason{selector} == 1"


def test_alerts_have_no_links_without_an_address_of_runbooks() -> None:
    rules = only(render({"monitoring": {"prometheusRule": {"enabled": True}}}), "PrometheusRule")
    assert all("runbook_url" not in one["annotations"] for one in rules["spec"]["groups"][0]["rules"])


def test_the_config_map_of_the_dashboard_has_the_dashboard_of_the_chart_unchanged() -> None:
    config_map = only(render(EVERYTHING), "ConfigMap")
    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    (text,) = config_map["data"].values()
    assert json.loads(text) == json.loads((CHART / "files" / "dashboard.json").read_text())


@pytest.mark.parametrize(
    "values",
    [
        {"replicas": 2},
        {"replicaCount": 1},
        {"watchNamespace": "kafka"},
        {"watchNamespaces": "kafka"},
        {"watchAllNamespaces": "true"},
        {"watchNamespaces": ["kafka-*"]},
        {"watchNamespaces": ["kafka,payments"]},
        {"watchNamespaces": ["kafka", "kafka"]},
        {"image": {"name": "kff"}},
        {"image": {"pullPolicy": "always"}},
        {"image": {"tag": 4.1}},
        {"imagePullSecrets": ["registry"]},
        {"crds": {"keep": "yes"}},
        {"crds": {"create": True}},
        {"rbac": {"scope": "Cluster"}},
        {"drivers": {"confluent": ["kafka"]}},
        {"drivers": {"statefulSet": "kafka"}},
        {"logFormat": "logfmt"},
        {"addresses": {"allow": ["kafka.example"]}},
        {"addresses": {"allow": "10.0.0.0/8"}},
        {"extraEnv": [{"name": "KAFKAFEATURES_NAMESPACES", "value": ""}]},
        {"notifications": {"format": "discord"}},
        {"notifications": {"events": ["Staled"]}},
        {"notifications": {"url": "https://hooks.example"}},
        {"extraEnv": [{"name": "POD_IP", "value": "10.0.0.1"}]},
        {"extraEnv": [{"value": "nameless"}]},
        {"resources": {"request": {}}},
        {"monitoring": {"prometheusRule": {"runbooks": "https://runbooks.example/"}}},
        {"monitoring": {"podMonitor": {"enabled": True}}},
        {"fullnameOverride": "Kafka_Features"},
    ],
    ids=str,
)
def test_the_schema_refuses_a_wrong_value(values: Values) -> None:
    done = helm("template", NAME, str(CHART), "--kube-version", KUBERNETES, values=values)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr


def test_kubernetes_before_1_29_is_refused() -> None:
    done = helm("template", NAME, str(CHART), "--kube-version", "1.28.15", values={})
    assert done.returncode != 0
    assert "requires kubeVersion: >=1.29-0" in done.stderr
    assert render(kubernetes="1.29.0")
