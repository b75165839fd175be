"""Changes of pods that the operator may make where the chart names a namespace of Strimzi, by a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.kubernetes.chart.rendering import CHART, CRD_NAME, NAME, NS, WITH_REGISTRY, helm, of_kind, render
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.tools import Refused
from tests.e2e.rig.process import wait_until

OPERATOR = f"system:serviceaccount:{NS}:{NAME}"
RESTART = "strimzi.io/manual-rolling-update"
ANNOTATE = {"op": "add", "path": "/metadata/annotations/strimzi.io~1manual-rolling-update", "value": "true"}
OF_KAFKA = {"strimzi.io/kind": "Kafka", "strimzi.io/cluster": "my-cluster"}
FORBIDDEN: dict[str, dict[str, Any]] = {
    "another annotation": {
        "op": "add",
        "path": "/metadata/annotations/strimzi.io~1delete-pod",
        "value": "true",
    },
    "an annotation changed": {"op": "replace", "path": "/metadata/annotations/stays", "value": "no"},
    "an annotation removed": {"op": "remove", "path": "/metadata/annotations/stays"},
    "a label": {"op": "add", "path": "/metadata/labels/app", "value": "other"},
    "a finalizer": {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/held"]},
    "an owner": {"op": "remove", "path": "/metadata/ownerReferences/0"},
    "the image": {"op": "replace", "path": "/spec/containers/0/image", "value": "other"},
    "a toleration": {"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}},
}
"""Changes of a pod that RBAC alone would allow with the verb patch."""


def pod(name: str, owner: dict[str, Any], **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "kafka", "labels": labels, "annotations": {"stays": "yes"}}
    spec = {"containers": [{"name": "kafka", "image": "kafka"}], "nodeName": "nowhere"}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "ownerReferences": [owner]}, "spec": spec
    }  # fmt: skip


@pytest.fixture(scope="module")
def guarded(plane: ControlPlane) -> Iterator[ControlPlane]:
    values = ("--set", "drivers.strimzi={kafka}", "--set", "watchNamespaces={kafka}")
    plane.helm("install", NAME, str(CHART), "-n", NS, *values, *WITH_REGISTRY)
    reads = ("create", "rolebinding", "operator-reads", "-n", "kafka", "--clusterrole=view", f"--user={OPERATOR}")
    plane.kubectl(*reads)  # kubectl reads a pod before it patches it
    plane.kubectl("create", "configmap", "owner", "-n", "kafka")
    uid = plane.get("configmap", "owner", "-n", "kafka")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    plane.apply(pod("my-cluster-broker-0", owner, **OF_KAFKA))
    plane.apply(pod("other", owner, app="other"))

    def is_enforced() -> bool:
        try:
            patch(plane, "other", ANNOTATE)
        except Refused as refused:
            return "of a Kafka of Strimzi" in str(refused)
        return False

    wait_until("the policy is enforced", is_enforced, 60)
    yield plane
    plane.kubectl("delete", "rolebinding/operator-reads", "configmap/owner", "-n", "kafka")
    for name in ("my-cluster-broker-0", "other"):
        plane.kubectl("delete", "pod", name, "-n", "kafka", "--force", "--grace-period=0")
    plane.helm("uninstall", NAME, "-n", NS, "--wait")
    plane.kubectl("delete", "crd", CRD_NAME)


def patch(plane: ControlPlane, name: str, change: dict[str, Any], *more: str) -> None:
    patched = f"--patch={json.dumps([change])}"
    plane.kubectl("patch", "pod", name, "-n", "kafka", "--type=json", patched, *(more or (f"--as={OPERATOR}",)))


def test_the_operator_may_set_and_remove_the_annotation_on_which_strimzi_restarts_a_pod(guarded: ControlPlane) -> None:
    for change, value in ((ANNOTATE, "true"), ({"op": "remove", "path": ANNOTATE["path"]}, None)):
        patch(guarded, "my-cluster-broker-0", change)
        annotations = guarded.get("pod", "my-cluster-broker-0", "-n", "kafka")["metadata"]["annotations"]
        assert (annotations.get(RESTART), annotations["stays"]) == (value, "yes")


@pytest.mark.parametrize("change", FORBIDDEN.values(), ids=FORBIDDEN)
def test_the_operator_may_change_nothing_else_of_a_pod(guarded: ControlPlane, change: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="the operator may"):
        patch(guarded, "my-cluster-broker-0", change)


def test_the_operator_may_not_annotate_a_pod_that_is_not_of_a_kafka(guarded: ControlPlane) -> None:
    with pytest.raises(Refused, match="pods of a Kafka of Strimzi alone"):
        patch(guarded, "other", ANNOTATE)


def test_the_policy_is_for_the_operator_alone(guarded: ControlPlane) -> None:
    patch(guarded, "other", FORBIDDEN["an annotation changed"], "--field-manager=person")


def test_the_policy_needs_a_namespace_of_strimzi_and_kubernetes_1_30() -> None:
    kind = "ValidatingAdmissionPolicy"
    assert of_kind(render({}), kind) == []
    assert len(of_kind(render({"drivers": {"strimzi": [NS]}}), kind)) == 1
    assert of_kind(render({"drivers": {"strimzi": [NS]}, "podPatchPolicy": {"enabled": False}}), kind) == []
    done = helm("template", NAME, str(CHART), "--kube-version", "1.29.0", values={"drivers": {"strimzi": ["default"]}})
    assert done.returncode != 0
    assert "podPatchPolicy.enabled: ValidatingAdmissionPolicy needs Kubernetes 1.30 or newer" in done.stderr
