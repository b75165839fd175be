"""`restart` as a process against a real API server: a new revision of each StatefulSet, or of none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.kubernetes.command_line.orders import CLUSTER, NS, Orders
from tests.e2e.kubernetes.command_line.person import Person
from tests.e2e.rig.kubernetes.cluster import ControlPlane

IMAGE = "kafka:4.1.2"


def patched(orders: Orders, change: object) -> None:
    orders.plane.kubectl("patch", "statefulset", "broker", "-n", NS, "--type=merge", "-p", json.dumps(change))


def test_each_stateful_set_gets_a_new_revision_and_what_holds_its_pods_back_is_said(
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
    ("change", "words", "said"),
    [
        (
            {"updateStrategy": {"type": "RollingUpdate"}}, (),
            "StatefulSet people/broker has the update strategy RollingUpdate, with which Kubernetes would restart its "
            "pods itself, without waiting for partitions; set spec.updateStrategy.type to OnDelete",
        ),
        (None, ("--only", "controllers"), "people/orders names no StatefulSet under controllers; leave out --only"),
    ],
)  # fmt: skip
def test_what_would_restart_them_without_the_operator_is_refused(
    orders: Orders, person: Person, broker: Callable[..., str],
    change: object, words: tuple[str, ...], said: str,
) -> None:  # fmt: skip
    before = broker(IMAGE)
    if change:
        patched(orders, {"spec": change})
    done = person.run("restart", "orders", *words)
    assert (done.returncode, done.stdout) == (4, "")
    assert said in done.stderr
    if change:
        patched(orders, {"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}})
    assert broker() == before


def test_one_of_two_that_does_not_exist_is_named_and_the_other_is_left_as_it_is(
    orders: Orders, person: Person, broker: Callable[..., str]
) -> None:
    before = broker(IMAGE)
    driver = {"driver": "StatefulSet", "statefulSet": {"brokers": ["broker", "broker-2"]}}
    orders.apply("orders", {"metadata.version": 27}, **CLUSTER, workload=driver)
    done = person.run("restart", "orders")
    assert done.returncode == 4
    assert "StatefulSet people/broker-2, which people/orders names, does not exist" in done.stderr
    assert broker() == before


def test_without_a_driver_that_restarts_pods_and_without_the_right_it_says_so(
    orders: Orders, person: Person, plane: ControlPlane, broker: Callable[..., str], tmp_path: Path
) -> None:
    before = broker(IMAGE)
    done = Person(tmp_path, plane.kubeconfig_of(NS, "looker")).run("restart", "orders")
    assert done.returncode == 4
    assert "grant the verb patch on statefulsets.apps with a role" in done.stderr
    assert broker() == before
    orders.apply("orders", {"metadata.version": 27}, **CLUSTER, workload={"driver": "Manual"})
    done = person.run("restart", "orders")
    assert done.returncode == 4
    assert "has no driver that restarts pods (spec.workload.driver is Manual)" in done.stderr


def test_while_it_migrates_from_zookeeper_nothing_is_written(
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
