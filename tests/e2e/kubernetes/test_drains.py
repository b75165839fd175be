"""A Kubernetes node is drained while Strimzi manages the pods: what docs/how-to/drain-a-node.md says of Strimzi's Drain
Cleaner, on a real API server. The webhook does what the Drain Cleaner does (`ValidatingWebhook.java`): it annotates the
pod, and denies its eviction with code 500.
"""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from kafkafeatures.core.engine.desired_state import Rollout
from kafkafeatures.core.facts.workloads import WorkloadsReading
from kafkafeatures.core.roll.strimzi import StrimziConditions
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kube.client import connected
from kafkafeatures.kube.workloads.strimzi import StrimziPods
from tests.e2e.kubernetes.resources import NS, install
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.tools import Refused
from tests.e2e.rig.kubernetes.webhook import webhook
from tests.e2e.rig.process import wait_until

KAFKA, POOL, POD_SET, POD = "drained", "nodes", "drained-nodes", "drained-nodes-0"
DENIAL = "The pod will be rolled by the Strimzi Cluster Operator"
LABELS = {"strimzi.io/cluster": KAFKA, "strimzi.io/kind": "Kafka", "strimzi.io/name": f"{KAFKA}-kafka"}
ANNOTATIONS = {"strimzi.io/revision": "1", "strimzi.io/kafka-version": "4.3.1"}


def kind_of(group: str, kind: str) -> dict[str, Any]:
    """The CRD of a kind of Strimzi, of any content."""
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"kind": kind, "plural": plural}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
    }  # fmt: skip


def owned_by(owner: dict[str, Any]) -> list[dict[str, Any]]:
    metadata = owner["metadata"]
    return [{key: owner[key] for key in ("apiVersion", "kind")} | {key: metadata[key] for key in ("name", "uid")}]


def is_served(plane: ControlPlane, path: str) -> bool:
    return "items" in plane.read(path)


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    """A pod of Strimzi that needs no restart. No node runs it."""
    install(control_plane)
    kinds = (("kafka.strimzi.io", "Kafka"), ("kafka.strimzi.io", "KafkaNodePool"), ("core.strimzi.io", "StrimziPodSet"))
    control_plane.apply(*(kind_of(group, kind) for group, kind in kinds))
    paths = [f"/apis/{group}/v1/namespaces/{NS}/{kind.lower()}s" for group, kind in kinds]
    _, pools, sets = paths
    for path in paths:
        wait_until(f"the API server serves {path}", partial(is_served, control_plane, path), 60, step=0.1)
    status = {"observedGeneration": 1}
    named = {"namespace": NS, "labels": LABELS}
    kafka = {"apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka", "metadata": {**named, "name": KAFKA}}
    pool = {"apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaNodePool", "metadata": {**named, "name": POOL}}
    control_plane.apply(*({**each, "spec": {}, "status": status} for each in (kafka, pool)))
    template = {"metadata": {"name": POD, "labels": LABELS, "annotations": ANNOTATIONS}}
    owners = owned_by(control_plane.read(f"{pools}/{POOL}"))
    of_set = {**named, "name": POD_SET, "ownerReferences": owners}
    pod_set = {"apiVersion": "core.strimzi.io/v1", "kind": "StrimziPodSet", "metadata": of_set}
    control_plane.apply({**pod_set, "spec": {"pods": [template]}, "status": status})
    metadata = {**named, **template["metadata"], "ownerReferences": owned_by(control_plane.read(f"{sets}/{POD_SET}"))}
    containers = [{"name": "kafka", "image": "kafka:4.3.1"}]
    spec = {"containers": containers, "automountServiceAccountToken": False}
    control_plane.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": NS}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
    )
    return control_plane


async def reading_of_operator(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> WorkloadsReading:
    """What the driver reads."""
    location = "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"  # read when it is imported
    monkeypatch.setattr(location, str(plane.kubeconfig))
    async with connected() as api:
        rollout = Rollout(driver="Strimzi", managed_by=KAFKA)
        reading = await StrimziPods(api, NS, rollout, SYSTEM.clock).read()
    assert isinstance(reading, WorkloadsReading)
    return reading


async def test_a_drain_becomes_a_request_to_strimzi_that_levels_wait_for_and_no_pod_is_evicted(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/api/v1/namespaces/{NS}/pods/{POD}"
    uid = plane.read(path)["metadata"]["uid"]
    (pod,) = (await reading_of_operator(plane, monkeypatch)).stateful_sets[0].pods
    assert (pod.release, pod.restart_pending) == ("4.3", False)

    def annotate(request: dict[str, Any]) -> None:
        plane.kubectl("annotate", "pod", request["name"], "-n", NS, "strimzi.io/manual-rolling-update=true")

    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": POD, "namespace": NS}}
    with (
        webhook(plane, annotate, user="admin", resources=("pods/eviction",), denial=DENIAL),
        pytest.raises(Refused, match=DENIAL),
    ):
        plane.kubectl("create", "--raw", f"{path}/eviction", "-f", "-", input=json.dumps(eviction))

    assert plane.read(path)["metadata"]["uid"] == uid
    reading = await reading_of_operator(plane, monkeypatch)
    texts = [obstacle.text for obstacle in StrimziConditions().waits(reading, timedelta(0), is_due=True)]
    assert texts == [f"Strimzi was asked to restart pod {POD}, and has not done so yet"]
