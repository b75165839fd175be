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
OF_KAFKA = {"strimzi.io/kind": "Kafka", "strimzi.io/cluster": "my-cluster"}
FORBIDDEN: dict[str, dict[str, Any]] = {
    "another annotation": {"metadata": {"annotations": {"strimzi.io/delete-pod-and-pvc": "true"}}},
    "an annotation changed": {"metadata": {"annotations": {"kept": "no"}}},
    "an annotation removed": {"metadata": {"annotations": {"kept": None}}},
    "a label": {"metadata": {"labels": {"app": "other"}}},
    "a finalizer": {"metadata": {"finalizers": ["example.com/held"]}},
    "an owner": {"metadata": {"ownerReferences": []}},
    "the image": {"spec": {"containers": [{"name": "kafka", "image": "other"}]}},
    "a tolerance": {"spec": {"tolerations": [{"operator": "Exists"}]}},
}
"""Changes of a pod that RBAC alone would allow with the verb patch."""


def pod(name: str, **labels: str) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "f3a8c1c2-0000-4000-8000-000000000000"}
    metadata = {"name": name, "namespace": "kafka", "labels": labels, "annotations": {"kept": "yes"}}
    spec = {"containers": [{"name": "kafka", "image": "kafka"}], "nodeName": "nowhere"}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "ownerReferences": [owner]}, "spec": spec
    }  # fmt: skip


@pytest.fixture(scope="module")
def guarded(plane: ControlPlane) -> Iterator[ControlPlane]:
    values = ("--set", "drivers.strimzi={kafka}", "--set", "watchNamespaces={kafka}")
    plane.helm("install", NAME, str(CHART), "-n", NS, *values, *WITH_REGISTRY)
    plane.apply(pod("my-cluster-broker-0", **OF_KAFKA))
    plane.apply(pod("other"))

    def is_enforced() -> bool:
        try:
            patch(plane, "other", {"metadata": {"annotations": {RESTART: "true"}}})
        except Refused as refused:
            return "of a Kafka of Strimzi" in str(refused)
        return False

    wait_until("the policy is enforced", is_enforced, 60)
    yield plane
    for name in ("my-cluster-broker-0", "other"):
        plane.kubectl("delete", "pod", name, "-n", "kafka", "--force", "--grace-period=0")
    plane.helm("uninstall", NAME, "-n", NS, "--wait")
    plane.kubectl("delete", "crd", CRD_NAME)


def patch(plane: ControlPlane, name: str, change: dict[str, Any], user: str = OPERATOR) -> None:
    plane.kubectl(
        "patch", "pod", name, "-n", "kafka", "--type=merge", f"--patch={json.dumps(change)}", f"--as={user}"
    )  # fmt: skip


def test_the_operator_may_set_and_remove_the_annotation_on_which_strimzi_restarts_a_pod(guarded: ControlPlane) -> None:
    for value in ("true", None):
        patch(guarded, "my-cluster-broker-0", {"metadata": {"annotations": {RESTART: value}}})
        annotations = guarded.get("pod", "my-cluster-broker-0", "-n", "kafka")["metadata"]["annotations"]
        assert annotations.get(RESTART) == value
        assert annotations["kept"] == "yes"


@pytest.mark.parametrize("change", FORBIDDEN.values(), ids=FORBIDDEN)
def test_the_operator_may_change_nothing_else_of_a_pod(guarded: ControlPlane, change: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="the operator may"):
        patch(guarded, "my-cluster-broker-0", change)


def test_the_operator_may_not_annotate_a_pod_that_is_not_of_a_kafka(guarded: ControlPlane) -> None:
    with pytest.raises(Refused, match="pods of a Kafka of Strimzi alone"):
        patch(guarded, "other", {"metadata": {"annotations": {RESTART: "true"}}})


def test_the_policy_is_for_the_operator_alone(guarded: ControlPlane) -> None:
    patch(guarded, "other", {"metadata": {"labels": {"app": "other"}}}, user="kubernetes-admin")


def test_the_policy_needs_a_namespace_of_strimzi_and_kubernetes_1_30() -> None:
    kind = "ValidatingAdmissionPolicy"
    assert of_kind(render({}), kind) == []
    assert len(of_kind(render({"drivers": {"strimzi": [NS]}}), kind)) == 1
    assert of_kind(render({"drivers": {"strimzi": [NS]}, "podPatchPolicy": {"enabled": False}}), kind) == []
    done = helm("template", NAME, str(CHART), "--kube-version", "1.29.0", values={"drivers": {"strimzi": ["default"]}})
    assert done.returncode != 0
    assert "podPatchPolicy.enabled: ValidatingAdmissionPolicy needs Kubernetes 1.30 or newer" in done.stderr
