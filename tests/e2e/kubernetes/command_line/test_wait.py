"""`wait` as a process against a real API server: it ends once the resource is ready or rolled, a level is finalized, or
an action is required.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kubernetes.command_line.orders import CLUSTER, NS, Orders
from tests.e2e.kubernetes.command_line.person import Person
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.kafkafeatures import statuses


def test_wait_ends_at_once_where_the_resource_is_ready(orders: Orders, person: Person) -> None:
    orders.write(statuses.in_sync())
    done = person.run("wait", "orders")
    assert done.returncode == 0
    assert f"{NS}/orders is ready: InSync" in done.stdout


def test_wait_ends_only_with_the_new_generation(orders: Orders, person: Person) -> None:
    orders.write(statuses.in_sync(1))
    orders.apply("orders", {"metadata.version": 21}, **CLUSTER)
    with person.running("wait", "orders", "--for", "ready") as wait:
        wait.until_it_says("generation 2 is not reconciled yet")
        orders.write(statuses.acting(2))
        wait.until_it_says("UpdatingFeatures: metadata.version 21 -> 27")
        assert wait.process.poll() is None
        orders.write(statuses.in_sync(2))
        assert wait.ends() == 0
        assert wait.err.count("generation 2 is not reconciled yet") == 1


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [("stalled", 6, "is stalled: GhostRegistration"), ("waiting_for_approval", 3, "kafkafeatures approve orders")],
)
@pytest.mark.parametrize("goal", ["ready", "feature=group.version>=1"])
def test_wait_ends_early_where_an_action_is_required(
    orders: Orders, person: Person, status: str, code: int, message: str, goal: str
) -> None:
    with person.running("wait", "orders", "--for", goal) as wait:
        wait.until_it_says("not reconciled yet")
        orders.write(getattr(statuses, status)(1))
        assert wait.ends() == code
        assert message in wait.err


def test_wait_continues_though_an_older_generation_is_stalled(orders: Orders, person: Person) -> None:
    orders.write(statuses.stalled(1))
    orders.apply("orders", {"metadata.version": 21}, **CLUSTER)
    with person.running("wait", "orders") as wait:
        wait.until_it_says("generation 2 is not reconciled yet")
        orders.write(statuses.in_sync(2))
        assert wait.ends() == 0


def of_roll(revision: str, updated: int) -> dict[str, Any]:
    """A status in sync about the StatefulSet `broker`, which has one pod. `updated`: pods at this revision, 0 or 1."""
    status = statuses.in_sync()
    rolled = ("True", "AllCurrent") if updated else ("False", "InProgress")
    condition = {
        "type": "NodesRolled",
        "status": rolled[0],
        "reason": rolled[1],
        "message": f"{updated} of 1 nodes are current",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }
    workload = {"name": "broker", "updateRevision": revision, "updated": updated, "total": 1}
    return {**status, "workloads": [workload], "conditions": [*status["conditions"], condition]}


def test_wait_for_rolled_does_not_end_with_the_roll_of_an_older_image(
    orders: Orders, person: Person, broker: Callable[[str], str]
) -> None:
    old = broker("kafka:4.1.2")
    orders.write(of_roll(old, 1))
    done = person.run("wait", "orders", "--for", "rolled")
    assert (done.returncode, done.stdout) == (0, f"{NS}/orders is rolled: 1 pod of broker at revision {old}\n")
    new = broker("kafka:4.4.0")
    assert new != old
    with person.running("wait", "orders", "--for", "rolled") as wait:
        wait.until_it_says(f"the operator has not seen revision {new} of StatefulSet broker yet")
        orders.write(of_roll(new, 0))
        wait.until_it_says(f"0 of 1 pods of broker at revision {new}")
        orders.write(of_roll(new, 1))
        assert wait.ends() == 0


def test_wait_for_rolled_names_the_missing_right_to_read_stateful_sets(
    orders: Orders, broker: Callable[[str], str], plane: ControlPlane, tmp_path: Path
) -> None:
    broker("kafka:4.1.2")
    done = Person(tmp_path, plane.kubeconfig_of(NS, "reader")).run("wait", "orders", "--for", "rolled")
    assert done.returncode == 5
    assert "grant the verb get on statefulsets.apps with a role" in done.stderr


def test_wait_for_a_feature_ends_when_its_level_is_finalized(orders: Orders, person: Person) -> None:
    orders.write(statuses.acting())
    with person.running("wait", "orders", "--for", "feature=metadata.version>=4.1-IV1") as wait:
        wait.until_it_says("metadata.version is at 21 (3.9-IV0)")
        orders.write({**statuses.acting(), "features": [{"name": "metadata.version", "finalized": 27}]})
        assert wait.ends() == 0
        assert "metadata.version is finalized at 27 (4.1-IV1)" in wait.out


def test_wait_ends_at_its_timeout(orders: Orders, person: Person) -> None:
    orders.write(statuses.acting())
    done = person.run("wait", "orders", "--timeout", "1500ms")
    assert done.returncode == 5
    assert "timed out" in done.stderr.splitlines()[-1]
    assert "UpdatingFeatures" in done.stderr.splitlines()[-1]


def test_wait_continues_after_an_outage_of_the_api_server(orders: Orders, person: Person) -> None:
    orders.write(statuses.acting())
    with person.running("wait", "orders") as wait:
        wait.until_it_says("UpdatingFeatures")
        orders.plane.api_server.kill()
        try:
            wait.until_it_says("cannot be reached")
        finally:
            orders.plane.api_server.start()
        orders.write(statuses.in_sync())
        assert wait.ends() == 0
        assert "Traceback" not in wait.err


def test_wait_ends_at_its_timeout_though_the_api_server_is_frozen(orders: Orders, person: Person) -> None:
    orders.plane.api_server.freeze()
    try:
        done = person.run("wait", "orders", "--timeout", "2s")
    finally:
        orders.plane.api_server.thaw()
        orders.plane.api_server.wait_ready()
    assert done.returncode == 5
    assert "no answer in" in done.stderr


def test_wait_ends_where_the_resource_is_deleted(orders: Orders, person: Person) -> None:
    with person.running("wait", "orders") as wait:
        wait.until_it_says("not reconciled yet")
        orders.delete("orders")
        assert wait.ends() == 64
        assert f"KafkaFeatures {NS}/orders not found" in wait.err


def test_an_interrupted_wait_has_exit_code_130_and_leaves_no_temporary_file(orders: Orders, person: Person) -> None:
    with person.running("wait", "orders") as wait:
        wait.until_it_says("not reconciled yet")
        wait.process.send_signal(signal.SIGINT)
        assert wait.ends() == 130
        assert "Traceback" not in wait.err
    assert list(person.temporary.iterdir()) == []
