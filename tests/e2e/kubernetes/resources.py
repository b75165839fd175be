"""KafkaFeatures on a real API server: made, changed, and what people read of them."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient

from kafkafeatures.api.names import API_VERSION, KIND
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.kubernetes.binaries import binary
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.operator import ACCOUNT, NAMESPACE, Operator
from tests.e2e.rig.kubernetes.tools import Refused, Tools, is_true
from tests.e2e.rig.process import wait_until

ROOT = Path(__file__).parents[3]
NS, CRD = "kafka", "kafkafeatures.kafkafeatures.dev"
RBAC = "rbac.authorization.k8s.io"
PATIENCE = 180
"""Seconds: no promise, a machine may be busy with ten other things."""
FEW = 30
"""Requests: not even three looks at a small cluster."""

# The same as the chart's for all namespaces; tests/e2e/kubernetes/chart holds the two against each other.
RIGHTS: list[dict[str, Any]] = [
    {"apiGroups": ["kafkafeatures.dev"], "resources": ["kafkafeatures"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["kafkafeatures.dev"], "resources": ["kafkafeatures/status"], "verbs": ["update"]},
    {"apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": ["get"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
    {
        "nonResourceURLs": [
            "/api",
            "/api/v1",
            "/apis",
            "/apis/admissionregistration.k8s.io/v1",
            "/apis/apiextensions.k8s.io/v1",
            "/apis/kafkafeatures.dev/v1alpha1",
        ],
        "verbs": ["get"],
    },
]

# In a namespace whose StatefulSets are rolled; compared with the chart's as well.
RIGHTS_TO_ROLL: list[dict[str, Any]] = [
    {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list"]},
]


def install(plane: ControlPlane) -> None:
    """What `helm install` makes, but for the Deployment: the CRD, the account, its rights. Also a namespace to use.

    Nothing is done where the CRD is still the one that was made here: it is all that tests change.
    """
    if _INSTALLED.get(plane.server) == _version_of_crd(plane) != ("", 0):
        return
    plane.kubectl("apply", "-f", str(ROOT / "crds" / "kafkafeatures.yaml"))
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD}"
    # Not by `kubectl`: until it has conditions at all, they are an error there.
    wait_until(f"crd/{CRD} is established", lambda: is_true("Established", plane.read(path)), 60, step=0.1)
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": ACCOUNT}
    plane.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}},
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": ACCOUNT}, "rules": RIGHTS},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": ACCOUNT},
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        },
    )
    _INSTALLED[plane.server] = _version_of_crd(plane)


_INSTALLED: dict[str, tuple[str, int]] = {}
"""By API server: which CRD."""


def _version_of_crd(plane: ControlPlane) -> tuple[str, int]:
    metadata = plane.read(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD}").get("metadata", {})
    return metadata.get("uid", ""), metadata.get("generation", 0)


def delete_all(plane: Tools, namespace: str = "") -> None:
    """Delete every KafkaFeatures of a namespace, or of all, and wait until they are gone."""
    of = ("-n", namespace) if namespace else ("-A",)
    plane.kubectl("delete", "kff", "--all", *of, "--timeout=30s")


def account(plane: ControlPlane, namespace: str, name: str, rules: list[dict[str, Any]]) -> None:
    """A ServiceAccount with a role of its own."""
    metadata = {"name": name, "namespace": namespace}
    plane.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", **metadata}],
        },
    )


def allow_restarts(plane: ControlPlane, namespace: str) -> None:
    """The operator's own account gets the rights to roll the StatefulSets of a namespace."""
    grant_to_operator(plane, namespace, "roll", RIGHTS_TO_ROLL)


def grant_to_operator(plane: ControlPlane, namespace: str, name: str, rules: list[dict[str, Any]]) -> None:
    """The operator's own account gets these rights in a namespace, by a Role of this name."""
    metadata = {"name": name, "namespace": namespace}
    plane.apply(
        {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        },
    )


class Resources:
    """Resources of one namespace that all speak of one Kafka cluster, unless a test says otherwise."""

    def __init__(self, plane: ControlPlane, kafka: Cluster | None = None, namespace: str = NS) -> None:
        self.plane, self.kafka, self.namespace = plane, kafka, namespace

    def document(self, name: str, levels: Mapping[str, int | str], **spec: Any) -> dict[str, Any]:
        body: dict[str, Any] = {"features": {"levels": [{"name": f, "level": v} for f, v in levels.items()]}}
        if self.kafka is not None:
            body["cluster"] = {"bootstrapServers": self.kafka.bootstrap_servers, "requestTimeout": "5s"}
        body |= {"drift": {"checkEvery": "10s"}}
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": body | spec}

    def apply(self, name: str, levels: Mapping[str, int | str] | None = None, **spec: Any) -> None:
        """`kubectl apply`."""
        self.plane.apply(self.document(name, levels or {}, **spec))

    def annotate(self, name: str, *annotations: str) -> None:
        self._kubectl("annotate", "kff", name, "--overwrite", *annotations)

    def delete(self, name: str) -> None:
        self._kubectl("delete", "kff", name, "--ignore-not-found", "--timeout=20s")

    def get(self, name: str) -> dict[str, Any]:
        """Not by kubectl: it is looked at often, and kubectl takes longer."""
        return self.plane.read(f"/apis/{API_VERSION}/namespaces/{self.namespace}/kafkafeatures/{name}")

    def age(self, name: str) -> float:
        """Seconds since it was created."""
        created = datetime.fromisoformat(self.get(name)["metadata"]["creationTimestamp"])
        return (datetime.now(UTC) - created).total_seconds()

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(name).get("status") or {}
        return found

    def patch_status(self, name: str, status: Mapping[str, Any]) -> None:
        """By hand, as an administrator can."""
        self._kubectl(
            "patch", "kff", name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status})
        )

    def wait(self, name: str, condition: str, seconds: int = PATIENCE) -> None:
        """`kubectl wait`. A failure shows the conditions, and the roll, as they are then."""
        try:
            self._kubectl("wait", f"--for=condition={condition}", f"kff/{name}", f"--timeout={seconds}s")
        except Refused as refused:
            status = self.get(name).get("status") or {}
            lines = [f"{each['type']} {each['status']} {each['message']}" for each in status.get("conditions", ())]
            raise Refused("\n".join([str(refused), *lines, f"rollout: {status.get('rollout')}"])) from refused

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        """One condition of the current generation; empty while there is none."""
        found = self.get(name)
        for one in (found.get("status") or {}).get("conditions", ()):
            if one["type"] == kind and one["observedGeneration"] == found["metadata"]["generation"]:
                current: dict[str, Any] = one
                return current
        return {}

    def until(self, name: str, kind: str, reason: str, seconds: float = PATIENCE) -> dict[str, Any]:
        """The condition, as soon as it is of the current generation and has the reason."""
        found: dict[str, Any] = {}

        def there() -> bool:
            found.clear()
            found.update(self.condition(name, kind))
            return found.get("reason") == reason

        try:
            wait_until(f"{name} has {kind}/{reason}", there, seconds)
        except AssertionError as error:
            conditions = self.status(name).get("conditions")
            raise AssertionError(f"{error}; it has {conditions}; {self.last_words()}") from None
        return found

    @contextmanager
    def watching(self, name: str) -> Iterator[Callable[[], list[str]]]:
        """What `kubectl get --watch` shows: the reasons of Ready, one after the other, each once in a row."""
        path = "{.status.conditions[?(@.type=='Ready')].reason}{'\\n'}"
        seen = self.plane.folder / f"watch-{name}"
        with seen.open("w") as file:
            kubectl: list[str | Path] = [binary("kubectl"), "--kubeconfig", self.plane.kubeconfig, "-n", self.namespace]
            only = f"--field-selector=metadata.name={name}"
            process = subprocess.Popen([*kubectl, "get", "kff", "--watch", only, "-o", f"jsonpath={path}"], stdout=file)
            try:
                yield lambda: [one for one, _ in itertools.groupby(filter(None, seen.read_text().splitlines()))]
            finally:
                process.kill()
                process.wait()

    def events(self, name: str) -> list[tuple[str, str, str]]:
        """(type, reason, note), the oldest first."""
        items = self.plane.get("events.events.k8s.io", "-n", self.namespace)["items"]
        ours = [one for one in items if one["regarding"]["name"] == name]
        return [(one["type"], one["reason"], one["note"]) for one in sorted(ours, key=lambda one: one["eventTime"])]

    def last_words(self) -> dict[str, str]:
        """The end of the log of each container that was started again, by pod: for the message of a test that fails,
        since the log goes with the pod.
        """
        pods = self.plane.read(f"/api/v1/namespaces/{self.namespace}/pods").get("items", [])
        restarted = [
            pod["metadata"]["name"]
            for pod in pods
            if any(status.get("restartCount") for status in pod.get("status", {}).get("containerStatuses", ()))
        ]
        words = {}
        for name in restarted:
            try:
                words[name] = self._kubectl("logs", name, "--previous", "--tail=60")
            except Refused as error:
                words[name] = str(error)
        return words

    def _kubectl(self, *arguments: str) -> str:
        return self.plane.kubectl(*arguments, "-n", self.namespace)


def levels(kafka: Cluster) -> dict[str, int]:
    """What is finalized, as an independent client reads it: Kafka's own tool takes a JVM for each look."""
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)) as client:
        found = client.describe_features()
    return {name: told["finalized"][1] for name, told in found.items() if told.get("finalized", (0, 0))[1]}


def away(seconds: float) -> None:
    """A while in which there is nothing else to wait for."""
    try:
        subprocess.run(["tail", "-f", "/dev/null"], timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return


def requests_of_a_while(operator: Operator, seconds: float = 3.0) -> float:
    """How many requests the operator sends to Kafka while nothing happens."""
    name = "kafkafeatures_kafka_requests_total"
    before = operator.metric(name)
    away(seconds)
    return operator.metric(name) - before
