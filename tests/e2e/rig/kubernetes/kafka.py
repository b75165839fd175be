"""Kafka as people run it on Kubernetes: a StatefulSet and a PodDisruptionBudget for each role.

Pods share the node's address, with one port per ordinal, so tests of this machine and pods reach them in the same way.
Controller n has node.id 1+n and port 9093+n, broker n has 101+n and 10092+n. To move a role to another release, change
the image of its StatefulSet (`kafka_name`), then evict pod by pod; data stay.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.e2e.rig.kubernetes.any_node import AnyNode
from tests.e2e.rig.kubernetes.images import kafka_image, kafka_name
from tests.e2e.rig.kubernetes.tools import Tools, is_true
from tests.e2e.rig.process import wait_until

ROLES = ("controller", "broker")
_FIRST_ID = {"controller": 1, "broker": 101}
_FIRST_PORT = {"controller": 9093, "broker": 10092}
_LISTENER = {"controller": "CONTROLLER", "broker": "PLAINTEXT"}

_START = """set -eu
mkdir -p /data/$POD
if [ ! -e /data/$POD/meta.properties ]; then
  bash /opt/kafka/java.sh kafka.tools.StorageTool format -t 5L6g3nShT-eMCtK--X86sw -c /config/$POD.properties {release}
fi
exec bash /opt/kafka/java.sh kafka.Kafka /config/$POD.properties
"""


@dataclass(frozen=True)
class Kafka:
    """What runs in one namespace of a node."""

    node: AnyNode
    namespace: str
    controllers: int
    brokers: int

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{self.node.address}:{_FIRST_PORT['broker'] + n}" for n in range(self.brokers))

    @property
    def bootstrap_controllers(self) -> str:
        return ",".join(f"{self.node.address}:{_FIRST_PORT['controller'] + n}" for n in range(self.controllers))

    def replicas(self, role: str) -> int:
        return self.controllers if role == "controller" else self.brokers

    def wait_ready(self, seconds: float = 180.0) -> None:
        """All pods take connections. That is earlier than: all replicas have caught up."""

        def ready() -> bool:
            return all(self._ready(role) == self.replicas(role) for role in ROLES)

        wait_until(f"Kafka in {self.namespace} is Ready", ready, seconds)

    def evict(self, pod: str, seconds: float = 180.0) -> None:
        """By the Eviction API, as a drain does it: Refused if the budget does not allow it. Waits for the successor."""
        before = self._ready_uid(pod)
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": self.namespace}}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction"
        self._plane.kubectl("create", "--raw", path, "-f", "-", input=json.dumps(body))
        wait_until(f"the successor of {pod} is Ready", lambda: self._ready_uid(pod) not in ("", before), seconds)

    def delete(self) -> None:
        """Quickly: in good order, a broker would wait for controllers that are gone already."""
        where = ("-n", self.namespace)
        self._plane.kubectl("delete", "statefulsets", "--all", "--cascade=orphan", *where)
        self._plane.kubectl("delete", "pods", "--all", "--grace-period=1", *where)
        self._plane.kubectl("delete", "namespace", self.namespace)
        self.node.remove_data(self.namespace)

    @property
    def _plane(self) -> Tools:
        return self.node.control_plane

    def _ready(self, role: str) -> int:
        found = self._plane.read(f"/apis/apps/v1/namespaces/{self.namespace}/statefulsets/kafka-{role}")
        return int(found.get("status", {}).get("readyReplicas", 0))

    def _ready_uid(self, pod: str) -> str:
        """The uid of the pod with this name once it takes connections; "" until then."""
        found = self._plane.read(f"/api/v1/namespaces/{self.namespace}/pods/{pod}")
        return str(found["metadata"]["uid"]) if is_true("Ready", found) else ""


def apply_kafka(
    node: AnyNode,
    version: str,
    controllers: int = 1,
    brokers: int = 1,
    *,
    release_version: str | None = None,
    namespace: str = "kafka",
) -> Kafka:
    """Nodes of this release, formatted with `release_version` (by default the newest that they know), when Ready."""
    node.load_image(kafka_image(version))
    kafka = Kafka(node, namespace, controllers, brokers)
    node.control_plane.apply(*manifests(kafka, version, release_version))
    kafka.wait_ready()
    return kafka


def manifests(kafka: Kafka, version: str, release_version: str | None) -> list[dict[str, Any]]:
    """All objects, the namespace first."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kafka.namespace}}
    objects = [_config_map(kafka, release_version)]
    for role in ROLES:
        objects += [_budget(role), _stateful_set(kafka, role, kafka_name(version))]
    for one in objects:
        one["metadata"]["namespace"] = kafka.namespace
    return [namespace, *objects]


def _config_map(kafka: Kafka, release_version: str | None) -> dict[str, Any]:
    """How a pod starts; and for each pod its properties, and how to see that it takes connections."""
    data = {"start.sh": _START.format(release=f"--release-version {release_version}" if release_version else "")}
    for role in ROLES:
        for number in range(kafka.replicas(role)):
            lines = _properties(kafka, role, number)
            data[f"kafka-{role}-{number}.properties"] = "".join(f"{key}={value}\n" for key, value in lines.items())
            where = f"{kafka.node.address}/{_FIRST_PORT[role] + number}"
            data[f"kafka-{role}-{number}.probe"] = f"exec 3<>/dev/tcp/{where}\n"
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kafka"}, "data": data}


def _properties(kafka: Kafka, role: str, number: int) -> dict[str, str]:
    first_id, first_port = _FIRST_ID["controller"], _FIRST_PORT["controller"]
    voters = (f"{first_id + n}@{kafka.node.address}:{first_port + n}" for n in range(kafka.controllers))
    replication = min(3, kafka.brokers)
    lines = {
        "process.roles": role,
        "node.id": str(_FIRST_ID[role] + number),
        "listeners": f"{_LISTENER[role]}://{kafka.node.address}:{_FIRST_PORT[role] + number}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(voters),
        "log.dirs": f"/data/kafka-{role}-{number}",
        "group.initial.rebalance.delay.ms": "0",
        "default.replication.factor": str(replication),
        "min.insync.replicas": str(max(1, replication - 1)),
        "offsets.topic.replication.factor": str(replication),
    }
    if role == "broker":
        lines["inter.broker.listener.name"] = "PLAINTEXT"
    return lines


def _labels(role: str) -> dict[str, str]:
    return {"app": "kafka", "role": role}


def _budget(role: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"kafka-{role}"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": _labels(role)}},
    }


def _stateful_set(kafka: Kafka, role: str, image: str) -> dict[str, Any]:
    """A pod is replaced when it is deleted, never by itself; it finds its data again."""
    probe = {"exec": {"command": ["sh", "-c", "exec bash /config/$POD.probe"]}}
    container = {
        "name": "kafka",
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["bash", "/config/start.sh"],
        "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "volumeMounts": [{"name": "config", "mountPath": "/config"}, {"name": "data", "mountPath": "/data"}],
        # Each look costs a process: often until it has started, then seldom.
        "startupProbe": {**probe, "periodSeconds": 1, "failureThreshold": 600},
        "readinessProbe": {**probe, "periodSeconds": 10},
    }
    volumes = [
        {"name": "config", "configMap": {"name": "kafka"}},
        {"name": "data", "hostPath": {"path": kafka.node.data_of_pods(kafka.namespace), "type": "DirectoryOrCreate"}},
    ]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": f"kafka-{role}", "labels": _labels(role)},
        "spec": {
            "serviceName": f"kafka-{role}",
            "replicas": kafka.replicas(role),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "selector": {"matchLabels": _labels(role)},
            "template": {
                "metadata": {"labels": _labels(role)},
                "spec": {
                    "hostNetwork": True,
                    "enableServiceLinks": False,
                    "terminationGracePeriodSeconds": 60,
                    "containers": [container],
                    "volumes": volumes,
                },
            },
        },
    }
