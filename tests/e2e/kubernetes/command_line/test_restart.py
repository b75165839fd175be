"""`restart` as a process against a real API server: it gives every StatefulSet a new revision, or none, or annotates
one pod.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kubernetes.command_line.orders import CLUSTER, NS, Orders
from tests.e2e.kubernetes.command_line.person import Person
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.process import wait_until

IMAGE = "kafka:4.1.2"
FINALIZER = json.dumps([{"op": "add", "path": "/metadata/finalizers", "value": ["example.org/kept"]}])
"""A patch with which a pod stays while it is being deleted."""


def patch_stateful_set(orders: Orders, change: object) -> None:
    orders.plane.kubectl("patch", "statefulset", "broker", "-n", NS, "--type=merge", "-p", json.dumps(change))


def test_restart_gives_each_stateful_set_a_new_revision_and_prints_the_reasons_that_delay_its_pods(
    orders: Orders, person: Person, broker: Callable[..., str]
) -> None:
    before = broker(IMAGE)
    done = person.run("restart", "orders")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"{NS}/orders: restart of the pods of broker requested\n"
        f"To wait for it: kafkafeatures wait orders -n {NS} --for rolled\n"
    )
    after = broker()
    assert after != before
    orders.annotate("orders", "kafkafeatures.dev/pause=true")
    done = person.run("restart", "orders", "--only", "brokers")
    assert f"No node is restarted before kafkafeatures resume orders -n {NS}: the resource is suspended" in done.stdout
    assert broker() != after


@pytest.mark.parametrize(
    ("change", "words", "code", "message"),
    [
        pytest.param(
            {"updateStrategy": {"type": "RollingUpdate"}}, (), 4,
            "StatefulSet people/broker has the update strategy RollingUpdate, with which Kubernetes would restart its "
            "pods itself, without waiting for partitions; set spec.updateStrategy.type to OnDelete",
            id="Kubernetes would restart the pods",
        ),
        pytest.param(
            None, ("--only", "controllers"), 64,
            "people/orders names no StatefulSet under controllers; leave out --only",
            id="no StatefulSet of this role",
        ),
    ],
)  # fmt: skip
def test_restart_refuses_another_update_strategy_and_a_role_without_a_stateful_set(
    orders: Orders, person: Person, broker: Callable[..., str],
    change: object, words: tuple[str, ...], code: int, message: str,
) -> None:  # fmt: skip
    before = broker(IMAGE)
    if change:
        patch_stateful_set(orders, {"spec": change})
    done = person.run("restart", "orders", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    if change:
        patch_stateful_set(orders, {"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}})
    assert broker() == before


def test_restart_names_a_missing_stateful_set_and_leaves_the_existing_one_unchanged(
    orders: Orders, person: Person, broker: Callable[..., str]
) -> None:
    before = broker(IMAGE)
    driver = {"driver": "StatefulSet", "statefulSet": {"brokers": ["broker", "broker-2"]}}
    orders.apply("orders", {"metadata.version": 27}, **CLUSTER, workload=driver)
    done = person.run("restart", "orders")
    assert done.returncode == 4
    assert "StatefulSet people/broker-2, which people/orders names, does not exist" in done.stderr
    assert broker() == before


def test_restart_is_refused_without_the_right_to_patch_and_without_a_driver_that_restarts_pods(
    orders: Orders, person: Person, plane: ControlPlane, broker: Callable[..., str], tmp_path: Path
) -> None:
    before = broker(IMAGE)
    done = Person(tmp_path, plane.kubeconfig_of(NS, "looker")).run("restart", "orders")
    assert done.returncode == 5
    assert "grant the verb patch on statefulsets.apps with a role" in done.stderr
    assert broker() == before
    for driver in ({"driver": "Manual"}, {"driver": "Pods", "pods": {"selector": "app=broker"}}):
        orders.apply("orders", {"metadata.version": 27}, **CLUSTER, workload=driver)
        done = person.run("restart", "orders", "--pod", "broker-0")
        assert done.returncode == 4
        assert f"has no driver that restarts pods (spec.workload.driver is {driver['driver']})" in done.stderr


POD = f"/api/v1/namespaces/{NS}/pods/broker-0"


@pytest.fixture
def pod(plane: ControlPlane, broker: Callable[..., str]) -> Callable[[], dict[str, Any]]:
    """The pod of a StatefulSet with one replica, as it is now."""
    broker(IMAGE)
    wait_until("the pod was created", lambda: bool(plane.read(POD).get("metadata")))
    return lambda: dict(plane.read(POD)["metadata"])


def test_restart_of_one_pod_annotates_it_with_its_uid_and_changes_no_template(
    orders: Orders, person: Person, broker: Callable[..., str], pod: Callable[[], dict[str, Any]]
) -> None:
    before = broker()
    orders.annotate("orders", "kafkafeatures.dev/pause=true")
    done = person.run("restart", "orders", "--pod", "broker-0")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"{NS}/orders: restart of pod broker-0 requested\n"
        f"No node is restarted before kafkafeatures resume orders -n {NS}: the resource is suspended\n"
        f"To wait for it: kubectl wait pod/broker-0 -n {NS} --for=delete --timeout=1h && "
        f"kafkafeatures wait orders -n {NS} --for rolled\n"
    )
    assert pod()["annotations"] == {"kafkafeatures.dev/restart-pod-uid": pod()["uid"]}
    assert broker() == before


def test_restart_refuses_a_pod_that_is_missing_stopping_or_of_a_stateful_set_that_is_not_named(
    orders: Orders, person: Person, plane: ControlPlane, pod: Callable[[], dict[str, Any]]
) -> None:
    done = person.run("restart", "orders", "--pod", "broker-9")
    assert (done.returncode, done.stderr) == (64, "kafkafeatures: pod people/broker-9 does not exist\n")
    spec = {"containers": [{"name": "kafka", "image": IMAGE}]}
    plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "broker-7", "namespace": NS}, "spec": spec})
    done = person.run("restart", "orders", "--pod", "broker-7")
    message = "kafkafeatures: pod people/broker-7 is in no StatefulSet that people/orders names (broker)\n"
    assert (done.returncode, done.stderr) == (4, message)
    plane.kubectl("delete", "pod", "broker-7", "-n", NS, "--timeout=20s")
    plane.kubectl("patch", "pod", "broker-0", "-n", NS, "--type=json", "-p", FINALIZER)
    plane.kubectl("delete", "pod", "broker-0", "-n", NS, "--wait=false")
    done = person.run("restart", "orders", "--pod", "broker-0")
    assert (done.returncode, done.stderr) == (4, "kafkafeatures: pod people/broker-0 is being replaced already\n")
    assert "annotations" not in pod()
    plane.kubectl("patch", "pod", "broker-0", "-n", NS, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


def test_restart_refuses_a_pod_with_rolling_update_and_a_pod_without_a_driver(
    orders: Orders, person: Person, pod: Callable[[], dict[str, Any]]
) -> None:
    patch_stateful_set(orders, {"spec": {"updateStrategy": {"type": "RollingUpdate"}}})
    done = person.run("restart", "orders", "--pod", "broker-0")
    assert done.returncode == 4
    assert "StatefulSet people/broker has the update strategy RollingUpdate" in done.stderr
    orders.apply("orders", {"metadata.version": 27}, **CLUSTER, workload={"driver": "Manual"})
    done = person.run("restart", "orders", "--pod", "broker-0")
    assert done.returncode == 4
    assert "has no driver that restarts pods (spec.workload.driver is Manual)" in done.stderr
    assert "annotations" not in pod()


@pytest.mark.parametrize(("who", "verb"), [("looker", "get"), ("viewer", "patch")])
def test_restart_of_a_pod_names_the_missing_right_to_pods(
    plane: ControlPlane, pod: Callable[[], dict[str, Any]], tmp_path: Path, who: str, verb: str
) -> None:
    done = Person(tmp_path, plane.kubeconfig_of(NS, who)).run("restart", "orders", "--pod", "broker-0")
    assert (done.returncode, done.stdout) == (5, "")
    assert f"grant the verb {verb} on pods with a role" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "annotations" not in pod()


def test_restart_writes_nothing_for_a_cluster_that_is_to_migrate_until_it_is_in_kraft_mode(
    orders: Orders, person: Person, broker: Callable[..., str]
) -> None:
    before = broker(IMAGE)
    driver = {"driver": "StatefulSet", "statefulSet": {"brokers": ["broker"]}}
    cluster = {**CLUSTER["cluster"], "zookeeper": {"connect": "zk:2181"}}
    orders.apply("orders", {}, cluster=cluster, workload=driver, migration={"desired": "DualWrite"})
    for mode in ({}, {"metadataMode": "ZooKeeper"}, {"metadataMode": "Migrating"}):
        orders.write(mode)
        done = person.run("restart", "orders")
        assert done.returncode == 4
        assert f"is not in KRaft mode (metadata mode {mode.get('metadataMode', 'not known yet')})" in done.stderr
    assert broker() == before
    orders.write({"metadataMode": "KRaft"})
    assert person.run("restart", "orders").returncode == 0
    assert broker() != before
