"""Values with which the operator's pod fits into a company's clusters: rendered by helm."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.kubernetes.chart.rendering import (
    CHART,
    EVERYTHING,
    NAME,
    NS,
    REGISTRY,
    Object,
    Values,
    helm,
    only,
    pod_spec,
    render,
)
from tests.e2e.rig.kubernetes.binaries import KUBERNETES

EXTRA_OBJECTS: Values = {
    "extraObjects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "company-ca"}, "data": {"ca.crt": "-"}},
        "apiVersion: v1\nkind: Secret\nmetadata: {name: {{ .Release.Name }}-more}",
    ],
}
DIGEST = f"sha256:{'0' * 64}"
PLACEMENT_FIELDS = (
    "hostAliases",
    "dnsPolicy",
    "dnsConfig",
    "priorityClassName",
    "nodeSelector",
    "tolerations",
    "topologySpreadConstraints",
)


@pytest.mark.parametrize("name", PLACEMENT_FIELDS)
def test_a_value_with_the_name_of_a_field_of_a_pod_sets_this_field_of_every_pod(name: str) -> None:
    """The pods are that of the operator, and that of `helm test`."""
    objects = render(EVERYTHING)
    assert pod_spec(objects)[name] == EVERYTHING[name]
    assert only(objects, "Pod")["spec"][name] == EVERYTHING[name]


def test_without_values_no_field_of_placement_is_set() -> None:
    assert set(pod_spec(render())) & set(PLACEMENT_FIELDS) == set()


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, f"{REGISTRY}/{NAME}:0.1.0"),  # the version of the chart
        ({"tag": "1.2"}, f"{REGISTRY}/{NAME}:1.2"),
        ({"registry": "", "repository": "localhost/kff"}, "localhost/kff:0.1.0"),
        ({"registry": "registry.example:5000"}, f"registry.example:5000/{NAME}:0.1.0"),
        ({"registry": "here.example/all", "digest": DIGEST, "tag": "1.2"}, f"here.example/all/{NAME}@{DIGEST}"),
    ],
    ids=str,
)  # fmt: skip
def test_an_image_is_named_by_registry_repository_and_digest_or_tag(image: Values, expected: str) -> None:
    objects = render({"image": image})
    assert _image(pod_spec(objects)) == _image(only(objects, "Pod")["spec"]) == expected


@pytest.mark.parametrize("path", ["image", "pipeline.image"])
def test_without_a_registry_the_chart_is_refused_with_the_value_to_set(path: str) -> None:
    unset: dict[str, Any] = {"image": {"registry": ""}}
    pipeline = {"enabled": True, "tables": {"existingClaim": "tables"}, "logs": {"existingClaim": "logs"}}
    values = unset if path == "image" else {"pipeline": pipeline | unset}
    done = helm("template", NAME, str(CHART), "-n", NS, "--kube-version", KUBERNETES, values=values)
    assert done.returncode != 0
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    image = {"image": NAME, "pipeline.image": "kafka-features-pipeline"}[path]
    assert said.endswith(
        f"{path}.registry is not set: set it to the registry to which you pushed {image} (no image is published), "
        f"for example --set {path}.registry=registry.example:5000"
    )


def _image(spec: Object) -> str:
    (container,) = spec["containers"]
    return str(container["image"])


def test_labels_and_annotations_are_on_the_objects_that_the_values_name() -> None:
    objects = render(EVERYTHING)
    deployment, account = only(objects, "Deployment"), only(objects, "ServiceAccount")
    pod = deployment["spec"]["template"]["metadata"]
    assert deployment["metadata"]["annotations"] == {"reloader": "auto"}
    assert pod["annotations"] == {"kubectl.kubernetes.io/default-container": "operator", "mesh/inject": "false"}
    assert pod["labels"]["egress"] == "kafka"
    assert "egress" not in deployment["spec"]["selector"]["matchLabels"]
    assert account["metadata"]["labels"]["identity"] == "use"


def test_another_name_of_the_chart_is_in_names_and_in_selectors() -> None:
    objects = render({"nameOverride": "kff"}, name="prod")
    deployment, service = only(objects, "Deployment"), only(objects, "Service")
    assert deployment["metadata"]["name"] == "prod-kff"
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    assert service["spec"]["selector"]["app.kubernetes.io/name"] == "kff"


def test_a_security_context_adds_to_what_restricted_demands() -> None:
    spec = pod_spec(render(EVERYTHING))
    assert spec["securityContext"]["runAsUser"] == 1234
    assert spec["securityContext"]["runAsNonRoot"] is True
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seLinuxOptions": {"level": "s0"},
    }


def test_extra_volumes_and_flags_are_added_to_the_volumes_and_flags_of_the_operator() -> None:
    spec = pod_spec(render(EVERYTHING))
    (container,) = spec["containers"]
    assert [one["name"] for one in spec["volumes"]] == ["tmp", "recordings", "notifications", "company-ca"]
    assert [one["name"] for one in container["volumeMounts"]] == ["tmp", "recordings", "notifications", "company-ca"]
    assert container["args"] == ["run", "--namespace=kafka"]


def test_extra_objects_are_rendered_unchanged_or_as_templates() -> None:
    names = {one["metadata"]["name"] for one in render(EXTRA_OBJECTS)}
    assert {"company-ca", f"{NAME}-more"} <= names


# --- network policy ---


def test_no_network_policy_is_rendered_by_default() -> None:
    assert not any(one["kind"] == "NetworkPolicy" for one in render())


def test_the_network_policy_selects_the_pod_of_the_operator_and_allows_probes() -> None:
    objects = render({"networkPolicy": {"enabled": True}})
    spec = only(objects, "NetworkPolicy")["spec"]
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert spec["podSelector"]["matchLabels"].items() <= labels.items()
    assert spec["ingress"] == [{"ports": [{"port": 8080, "protocol": "TCP"}]}]
    assert spec["egress"] == [{}]


def test_with_rules_for_kafka_the_network_policy_allows_only_kafka_dns_and_the_api_server() -> None:
    spec = only(render(EVERYTHING), "NetworkPolicy")["spec"]
    dns, dns_of_openshift, api_server, *kafka = spec["egress"]
    assert {one["port"] for one in dns["ports"]} == {53}
    assert {(one["port"], one["protocol"]) for one in dns_of_openshift["ports"]} == {(5353, "UDP"), (5353, "TCP")}
    assert {one["port"] for one in api_server["ports"]} == {443, 6443}
    assert kafka == EVERYTHING["networkPolicy"]["egress"]


def test_the_network_policy_allows_the_pod_of_helm_test_beside_the_peers_of_the_values() -> None:
    objects = render(EVERYTHING)
    test, *others = only(objects, "NetworkPolicy")["spec"]["ingress"][0]["from"]
    assert test["podSelector"]["matchLabels"].items() <= only(objects, "Pod")["metadata"]["labels"].items()
    assert others == EVERYTHING["networkPolicy"]["ingressFrom"]


# --- monitoring ---


def test_the_service_monitor_has_its_relabelings_and_the_dashboard_its_namespace() -> None:
    objects = render(EVERYTHING)
    (endpoint,) = only(objects, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["scrapeTimeout"] == "10s"
    assert [one["targetLabel"] for one in endpoint["relabelings"]] == ["site"]
    assert [one["action"] for one in endpoint["metricRelabelings"]] == ["drop"]
    dashboards = [one for one in objects if one["metadata"]["name"].endswith("-dashboard")]
    assert [one["metadata"]["namespace"] for one in dashboards] == ["grafana"]
    assert [one["metadata"]["annotations"] for one in dashboards] == [{"grafana_folder": "Kafka"}]


@pytest.mark.parametrize(
    "values",
    [
        {"image": {"digest": "sha256:abc"}},
        {"image": {"registry": "https://registry.example"}},
        {"commonLabels": {"app.kubernetes.io/name": "mine"}},
        {"podLabels": {"app.kubernetes.io/instance": "mine"}},
        {"volumes": [{"name": "tmp", "emptyDir": {}}]},
        {"logLevel": "debug"},
        {"addresses": {"allow": ["10.0.0.0/33"]}},
        {"addresses": {"allow": ["256.0.0.1"]}},
        {"addresses": {"deny": ["fd00::/129"]}},
        {"resources": {"limits": {"memory": "512 MB"}}},
        {"resources": {"requests": {"cpu": "half"}}},
        {"dnsPolicy": "Cluster"},
        {"extraEnv": [{"name": "KAFKAFEATURES_LOG_LEVEL", "value": "error"}]},
    ],
    ids=str,
)
def test_the_schema_refuses_a_wrong_value(values: Values) -> None:
    done = helm("template", NAME, str(CHART), "-n", NS, "--kube-version", KUBERNETES, values=values)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr


@pytest.mark.parametrize("network", ["10.0.0.0/8", "10.1.2.3", "fd00::/8", "::1", "2001:db8::1/128", "0.0.0.0/0"])
def test_addresses_and_networks_are_accepted(network: str) -> None:
    (container,) = pod_spec(render({"addresses": {"allow": [network]}}))["containers"]
    assert {"name": "KAFKAFEATURES_ALLOW_ADDRESS", "value": network} in container["env"]
