"""What helm renders of the chart, the values that set everything, and the chart of the previous release."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.rig.kubernetes.binaries import KUBERNETES, binary

ROOT = Path(__file__).resolve().parents[4]
IMAGES = Path(__file__).with_name("images.yaml")
CHART = ROOT / "charts" / "kafka-features-operator"
CRD = yaml.safe_load((ROOT / "crds" / "kafkafeatures.yaml").read_text())
CRD_NAME = CRD["metadata"]["name"]
PREVIOUS_CRD = ROOT / "tests" / "golden" / "crd" / "previous.yaml"
NAME, NS = "kafka-features-operator", "operator"

REGISTRY = "registry.example"
WITH_REGISTRY = ("--set", f"image.registry={REGISTRY}")
"""For `helm install`: the chart has no default for it."""

Object = dict[str, Any]
Values = Mapping[str, Any]
EVERYTHING: Values = {
    "watchNamespaces": ["kafka", "payments"],
    "commonLabels": {"cost-center": "42"},
    "image": {"registry": "elsewhere:5000", "repository": "team/kff", "tag": "9.9", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry"}],
    "serviceAccount": {"name": "kff", "annotations": {"team": "kafka"}, "labels": {"identity": "use"}},
    "logFormat": "text",
    "logLevel": "warning",
    "networkPolicy": {
        "enabled": True,
        "ingressFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 9093, "protocol": "TCP"}]}],
    },
    "deploymentAnnotations": {"reloader": "auto"},
    "podAnnotations": {"mesh/inject": "false"},
    "podLabels": {"egress": "kafka"},
    "podSecurityContext": {"runAsUser": 1234},
    "securityContext": {"seLinuxOptions": {"level": "s0"}},
    "extraArgs": ["--namespace=kafka"],
    "volumes": [{"name": "company-ca", "configMap": {"name": "company-ca"}}],
    "volumeMounts": [{"name": "company-ca", "mountPath": "/etc/company", "readOnly": True}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
    "priorityClassName": "important",
    "hostAliases": [{"ip": "10.0.0.9", "hostnames": ["kafka.example"]}],
    "dnsPolicy": "ClusterFirst",
    "dnsConfig": {"searches": ["kafka.example"]},
    "addresses": {"allow": ["10.0.0.0/8", "fd00::/8"], "deny": ["10.1.0.0/16"]},
    "memory": {"perCluster": "128Mi"},
    "drivers": {"statefulSet": ["kafka"], "strimzi": ["kafka"], "pods": ["kafka"]},
    "approvalPolicy": {"enabled": True},
    "maxPartitionImages": 5,
    "recorder": {"enabled": True, "storageClass": "fast", "perCluster": "2Gi"},
    "notifications": {
        "secret": {"name": "webhook", "key": "slack-url"},
        "format": "slack",
        "events": ["ApprovalRequired", "Halted"],
        "sender": "prod-eu",
        "allowHttp": True,
    },
    "extraEnv": [{"name": "TZ", "value": "Europe/Oslo"}],
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "infra", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "monitoring": {
        "serviceMonitor": {
            "enabled": True,
            "labels": {"release": "prometheus"},
            "scrapeTimeout": "10s",
            "relabelings": [{"targetLabel": "site", "replacement": "north"}],
            "metricRelabelings": [{"action": "drop", "sourceLabels": ["level"], "regex": "x"}],
        },
        "prometheusRule": {"enabled": True, "runbooks": "https://runbooks.example/kafka"},
        "grafanaDashboard": {"enabled": True, "namespace": "grafana", "annotations": {"grafana_folder": "Kafka"}},
    },
}


def helm(*arguments: str, values: Values | None = None) -> subprocess.CompletedProcess[str]:
    """With values, the registries of the images are set, unless the values set them."""
    words = [binary("helm"), *arguments, *(() if values is None else ("--values", str(IMAGES), "--values", "-"))]
    given = None if values is None else json.dumps(values)
    return subprocess.run(words, input=given, capture_output=True, text=True, check=False, timeout=60)


def render(
    values: Values | None = None, *, name: str = NAME, namespace: str = NS, kubernetes: str = KUBERNETES
) -> list[Object]:
    done = helm("template", name, str(CHART), "-n", namespace, "--kube-version", kubernetes, values=values or {})
    assert done.returncode == 0, done.stderr
    return list(strictly(done.stdout))


class _Strict(yaml.CSafeLoader):
    """Refuses a mapping that has a key twice, as Flux and `helm lint --strict` of some releases do."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"{node.start_mark}: a key is there twice: {keys}"
        return super().construct_mapping(node, deep)


def strictly(text: str) -> Iterator[Object]:
    """The documents of a text that are not empty."""
    return (one for one in yaml.load_all(text, _Strict) if one)


def of_kind(objects: Iterable[Object], kind: str) -> list[Object]:
    return [one for one in objects if one["kind"] == kind]


def only(objects: Iterable[Object], kind: str) -> Object:
    (found,) = of_kind(objects, kind)
    return found


def pod_spec(objects: Iterable[Object]) -> Object:
    spec: Object = only(objects, "Deployment")["spec"]["template"]["spec"]
    return spec


def document(name: str) -> Object:
    spec = {"mode": "Observe", "cluster": {"bootstrapServers": "kafka:9092"}}
    metadata = {"name": name, "namespace": "kafka"}
    return {"apiVersion": "kafkafeatures.dev/v1alpha1", "kind": "KafkaFeatures", "metadata": metadata, "spec": spec}


def previous_chart(folder: Path, **defaults: object) -> Path:
    """This chart with the CRD of the previous release, another version, and the defaults that values had in it."""
    chart = shutil.copytree(CHART, folder / "previous")
    shutil.copyfile(PREVIOUS_CRD, chart / "files" / "crd.yaml")
    metadata, values = chart / "Chart.yaml", chart / "values.yaml"
    metadata.write_text(re.sub(r"(?m)^version: .*$", "version: 0.0.9", metadata.read_text()))
    values.write_text(json.dumps(yaml.safe_load(values.read_text()) | defaults))
    return chart
