"""A namespace with people who have different rights, and for each test a resource that is as new."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.kubernetes.command_line.orders import ACCOUNTS, CLUSTER, NS, Orders
from tests.e2e.kubernetes.command_line.person import Person
from tests.e2e.kubernetes.resources import account, install
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.process import wait_until


@pytest.fixture(scope="session")
def plane(control_plane: ControlPlane) -> ControlPlane:
    install(control_plane)
    control_plane.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}},
    )
    for name, rules in ACCOUNTS.items():
        account(control_plane, NS, name, rules)
    return control_plane


@pytest.fixture
def orders(plane: ControlPlane) -> Iterator[Orders]:
    """Made anew for each test, of generation 1 and without a status."""
    made = Orders(plane, namespace=NS)
    made.apply(made.name, {"metadata.version": 27}, **CLUSTER)
    yield made
    made.delete(made.name)


@pytest.fixture(scope="session")
def kubeconfig(plane: ControlPlane) -> Path:
    return plane.kubeconfig_of(NS, "person")


@pytest.fixture
def person(kubeconfig: Path, tmp_path: Path) -> Person:
    return Person(tmp_path / "home", kubeconfig)


@pytest.fixture
def broker(orders: Orders) -> Iterator[Callable[..., str]]:
    """A StatefulSet that is given an image, or left as it is; the revision that it has at Kubernetes then."""
    path = f"/apis/apps/v1/namespaces/{NS}/statefulsets/broker"
    labels = {"app": "broker"}

    def with_image(image: str = "") -> str:
        pod = {"containers": [{"name": "kafka", "image": image}]}
        spec = {
            "replicas": 1,
            "serviceName": "broker",
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "OnDelete"},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }
        metadata = {"name": "broker", "namespace": NS}
        if image:
            orders.plane.apply({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec})

        def observed() -> bool:
            found = orders.plane.read(path)
            return bool(found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"])

        wait_until("Kubernetes gave the template a revision", observed)
        return str(orders.plane.read(path)["status"]["updateRevision"])

    driver = {"driver": "StatefulSet", "statefulSet": {"brokers": ["broker"]}}
    orders.delete("orders")  # or this would be its second generation
    orders.apply("orders", {"metadata.version": 27}, **CLUSTER, workload=driver)
    yield with_image
    orders.plane.kubectl("delete", "statefulset", "broker", "-n", NS, "--ignore-not-found", "--timeout=20s")
