"""`wait` as a process against a real API server: until it is ready, a level is there, or somebody has to act."""

from __future__ import annotations

import signal

import pytest

from tests.e2e.kubernetes.command_line.orders import CLUSTER, NS, Orders
from tests.e2e.kubernetes.command_line.person import Person
from tests.kafkafeatures import statuses


def test_waiting_is_over_at_once_where_it_is_ready(orders: Orders, person: Person) -> None:
    orders.write(statuses.in_sync())
    done = person.run("wait", "orders")
    assert done.returncode == 0
    assert f"{NS}/orders is ready: InSync" in done.stdout


def test_waiting_is_over_only_for_the_new_generation(orders: Orders, person: Person) -> None:
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
    ("made", "code", "said"),
    [("stalled", 6, "is stalled: GhostRegistration"), ("waiting_for_approval", 3, "kafkafeatures approve orders")],
)
@pytest.mark.parametrize("goal", ["ready", "feature=group.version>=1"])
def test_waiting_ends_early_where_somebody_has_to_act(
    orders: Orders, person: Person, made: str, code: int, said: str, goal: str
) -> None:
    with person.running("wait", "orders", "--for", goal) as wait:
        wait.until_it_says("not reconciled yet")
        orders.write(getattr(statuses, made)(1))
        assert wait.ends() == code
        assert said in wait.err


def test_what_stalled_an_older_generation_ends_nothing(orders: Orders, person: Person) -> None:
    orders.write(statuses.stalled(1))
    orders.apply("orders", {"metadata.version": 21}, **CLUSTER)
    with person.running("wait", "orders") as wait:
        wait.until_it_says("generation 2 is not reconciled yet")
        orders.write(statuses.in_sync(2))
        assert wait.ends() == 0


def test_an_application_waits_for_a_level(orders: Orders, person: Person) -> None:
    orders.write(statuses.acting())
    with person.running("wait", "orders", "--for", "feature=metadata.version>=4.1-IV1") as wait:
        wait.until_it_says("metadata.version is at 21 (3.9-IV0)")
        orders.write({**statuses.acting(), "features": [{"name": "metadata.version", "finalized": 27}]})
        assert wait.ends() == 0
        assert "metadata.version is finalized at 27 (4.1-IV1)" in wait.out


def test_waiting_gives_up_in_time(orders: Orders, person: Person) -> None:
    orders.write(statuses.acting())
    done = person.run("wait", "orders", "--timeout", "1500ms")
    assert done.returncode == 5
    assert "timed out" in done.stderr.splitlines()[-1]
    assert "UpdatingFeatures" in done.stderr.splitlines()[-1]


def test_waiting_outlives_an_api_server_that_is_away(orders: Orders, person: Person) -> None:
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


def test_an_api_server_that_answers_nothing_does_not_hold_it_beyond_its_time(orders: Orders, person: Person) -> None:
    orders.plane.api_server.freeze()
    try:
        done = person.run("wait", "orders", "--timeout", "2s")
    finally:
        orders.plane.api_server.thaw()
        orders.plane.api_server.wait_ready()
    assert done.returncode == 5
    assert "no answer in" in done.stderr


def test_waiting_ends_where_the_resource_is_deleted(orders: Orders, person: Person) -> None:
    with person.running("wait", "orders") as wait:
        wait.until_it_says("not reconciled yet")
        orders.delete("orders")
        assert wait.ends() == 4
        assert f"KafkaFeatures {NS}/orders not found" in wait.err


def test_interrupted_it_says_so(orders: Orders, person: Person) -> None:
    with person.running("wait", "orders") as wait:
        wait.until_it_says("not reconciled yet")
        wait.process.send_signal(signal.SIGINT)
        assert wait.ends() == 130
        assert "Traceback" not in wait.err
    assert list(person.temporary.iterdir()) == []
