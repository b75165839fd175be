"""The operator as users have it: image, `helm install`, a pod with the chart's rights, Kafka in StatefulSets."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from kafkafeatures.api.names import API_VERSION, KIND
from tests.e2e.kafka.cli import run
from tests.e2e.kubernetes.resources import ROOT, Resources
from tests.e2e.rig.cluster import wait_until
from tests.e2e.rig.kubernetes.cluster import is_true
from tests.e2e.rig.kubernetes.images import OPERATOR, operator_image
from tests.e2e.rig.kubernetes.kafka import Kafka, apply_kafka
from tests.e2e.rig.kubernetes.node import Node
from tests.e2e.rig.releases import MIDDLE

CHART, RELEASE, NS = ROOT / "charts" / "kafka-features-operator", "kff", "kafka-features"
ACCOUNT = f"system:serviceaccount:{NS}:kff-kafka-features-operator"
INSTANTS = 20
IMAGE, _, TAG = OPERATOR.rpartition(":")


@pytest.fixture(scope="module")
def installed(node: Node) -> Iterator[Node]:
    node.load_image(operator_image())
    image = f"image.repository={IMAGE},image.tag={TAG},image.pullPolicy=Never"
    arguments = ["-n", NS, "--create-namespace", "--set", image, "--wait", "--timeout", "120s"]
    node.control_plane.helm("install", RELEASE, str(CHART), *arguments)
    yield node
    node.control_plane.helm("uninstall", RELEASE, "-n", NS, "--wait")


@pytest.fixture(scope="module")
def kafka(installed: Node) -> Iterator[Kafka]:
    running = apply_kafka(installed, MIDDLE, brokers=2, release_version="3.9")
    yield running
    running.delete()


@pytest.fixture
def resources(kafka: Kafka) -> Iterator[Resources]:
    yield Resources(kafka.node.control_plane, namespace=kafka.namespace)
    kafka.node.control_plane.kubectl("delete", "kff", "--all", "-A", "--timeout=30s")


def document(kafka: Kafka, name: str, levels: dict[str, int], **spec: Any) -> dict[str, Any]:
    features = {"levels": [{"name": feature, "level": level} for feature, level in levels.items()]}
    body = {"cluster": {"bootstrapServers": kafka.bootstrap_servers}, "features": features, **spec}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": kafka.namespace},
        "spec": body,
    }


def pods(kafka: Kafka) -> dict[str, tuple[str, int]]:
    """Uid and restarts of every Kafka pod."""
    items = kafka.node.control_plane.get("pods", "-n", kafka.namespace)["items"]
    return {
        one["metadata"]["name"]: (one["metadata"]["uid"], one["status"]["containerStatuses"][0]["restartCount"])
        for one in items
    }


def operator_container(node: Node) -> str:
    """The id of the one that runs."""
    pods_ = node.control_plane.get("pods", "-n", NS, "-l", "app.kubernetes.io/name=kafka-features-operator")["items"]
    (ready,) = (pod for pod in pods_ if is_true("Ready", pod) and "deletionTimestamp" not in pod["metadata"])
    return str(ready["status"]["containerStatuses"][0]["containerID"])


def test_helm_test_says_that_it_works(installed: Node) -> None:
    assert "Phase:          Succeeded" in installed.control_plane.helm("test", RELEASE, "-n", NS)


def test_a_document_is_written_in_the_pod_applied_planned_and_approved(kafka: Kafka, resources: Resources) -> None:
    """The README's path: `init` in the pod, two kubectl commands, `approve`; no Kafka pod restarts."""
    plane, before = kafka.node.control_plane, pods(kafka)
    written = plane.kubectl(
        "exec", "-n", NS, "deploy/kff-kafka-features-operator", "--",
        "kafkafeatures", "init", "--bootstrap-server", kafka.bootstrap_servers, "--name", "orders",
    )  # fmt: skip
    plane.kubectl("apply", "-n", kafka.namespace, "-f", "-", input=written)
    resources.wait("orders", "Ready")
    assert resources.condition("orders", "Ready")["reason"] == "Observed"

    wanted = yaml.safe_load(written)
    wanted["spec"] |= {"mode": "Apply", "features": {"releaseVersion": "4.1"}}
    plane.kubectl("apply", "-n", kafka.namespace, "-f", "-", input=yaml.safe_dump(wanted))
    resources.until("orders", "ApprovalRequired", "PlanPending")
    people = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
    for words in (("approve", "orders", "--yes"), ("wait", "orders")):
        done = run(*words, "-n", kafka.namespace, environment=people)
        assert done.returncode == 0, done.stderr
    assert resources.status("orders")["metadataVersion"] == "4.1-IV1"
    assert pods(kafka) == before


def test_the_pod_killed_at_random_instants_does_nothing_twice(kafka: Kafka, resources: Resources) -> None:
    chance, node = random.Random(11), kafka.node
    consents = ["group.version:1->0", "transaction.version:2->0"]
    for number in range(INSTANTS):
        name, level, container = f"killed-{number}", number % 2, operator_container(node)
        levels = {"group.version": level, "transaction.version": 2 * level}
        node.control_plane.apply(document(kafka, name, levels, consents=consents))
        wait_until(
            "it began", lambda name=name: resources.status(name).get("conditions"), step=chance.uniform(0.001, 0.05)
        )
        node.kill_container(container)
        # Away with the pod as well, or its restarts would be put off for longer and longer.
        node.control_plane.kubectl("delete", "pod", "-n", NS, "--all", "--force", "--grace-period=0", "--wait=false")
        resources.wait(name, "Ready", seconds=120)
        history = resources.status(name).get("history", [])
        done = [one["action"] for one in history if one["result"] == "read back"]
        assert len(done) == len(set(done)) <= 2
        assert all("read back" in one["result"] or "not applied" in one["result"] for one in history), history
        resources.delete(name)
        node.control_plane.kubectl("rollout", "status", "-n", NS, "deploy/kff-kafka-features-operator", "--timeout=60s")


def test_what_is_granted_is_what_is_used(kafka: Kafka, resources: Resources) -> None:
    plane = kafka.node.control_plane
    tls = {"caConfigMapRef": {"name": "ca"}}
    sasl = {"mechanism": "SCRAM-SHA-512", "secretRef": {"name": "login"}}
    plane.kubectl("create", "configmap", "ca", "-n", kafka.namespace, "--from-literal=ca.crt=none")
    cluster = {"bootstrapServers": kafka.bootstrap_servers, "tls": tls, "sasl": sasl}
    plane.apply(document(kafka, "reads", {}) | {"spec": {"cluster": cluster}})
    resources.until("reads", "Reachable", "CredentialsInvalid")
    role = plane.get("clusterrole", "kff-kafka-features-operator")
    granted = {
        (verb, *resource.partition("/")[::2])
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    rows = plane.audit.rows(user=ACCOUNT)
    used = {(row.verb, row.resource, row.subresource) for row in rows if row.resource}
    assert used == granted
    assert not [row for row in rows if row.code == 403]
