"""`list` as a process against a real API server: one line for each resource, those that need a person first."""

from __future__ import annotations

import json
import signal

from tests.e2e.kubernetes.command_line.orders import CLUSTER, NS, Orders
from tests.e2e.kubernetes.command_line.person import Person
from tests.e2e.rig.process import wait_until
from tests.kafkafeatures import statuses

OTHER = "another"


def test_resources_that_require_action_are_listed_first_with_reason_and_age(orders: Orders, person: Person) -> None:
    stalled = Orders(orders.plane, namespace=NS)
    stalled.name = "zebra"
    stalled.apply(stalled.name, {"metadata.version": 27}, **CLUSTER)
    try:
        orders.write(statuses.in_sync())
        stalled.write(statuses.stalled())
        done = person.run("list")
        assert done.returncode == 0, done.stderr
        title, first, second = done.stdout.splitlines()
        assert title.split() == ["Name", "State", "For", "Metadata", "Target", "Levels"]
        assert first.startswith("zebra")
        assert "GhostRegistration" in first
        assert second.startswith("orders")
        assert "InSync" in second
        names = [one["metadata"]["name"] for one in json.loads(person.run("list", "-o", "json").stdout)["items"]]
        assert names == ["orders", "zebra"]  # for programs in the order of the API server
        assert "zebra" not in person.run("list", "-l", "team=payments").stdout
    finally:
        stalled.delete(stalled.name)


def test_flags_of_kubectl_are_accepted_in_front_of_the_command_and_behind_it(orders: Orders, person: Person) -> None:
    for words in (("-n", NS, "list"), ("list", "-n", NS)):
        assert orders.name in person.run(*words).stdout


def test_a_list_without_a_resource_names_the_namespace(orders: Orders, person: Person) -> None:
    none_has_this_label = person.run("-n", NS, "list", "-l", "a=b")
    assert f"no KafkaFeatures (kafkafeatures.dev/v1alpha1) in namespace {NS}" in none_has_this_label.stderr


def test_list_of_all_namespaces_needs_the_right_in_all_namespaces(
    orders: Orders, person: Person, kubeconfig: object
) -> None:
    done = person.run("list", "-A")
    assert done.returncode == 5
    assert "grant the verb list on kafkafeatures.kafkafeatures.dev" in done.stderr
    everything = Person(person.home, orders.plane.kubeconfig)
    done = everything.run("-A", "list")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split()[:2] == ["Namespace", "Name"]
    assert f"{NS}" in done.stdout


def test_list_with_watch_shows_changes_until_an_interrupt(orders: Orders, person: Person) -> None:
    orders.write(statuses.acting())
    with person.running("list", "-w") as watch:
        wait_until("the table is there", lambda: "UpdatingFeatures" in watch.out)
        orders.write(statuses.in_sync())
        wait_until("the change is there", lambda: "InSync" in watch.out)
        watch.process.send_signal(signal.SIGINT)
        assert watch.ends() == 130
        assert (watch.err, len(watch.out.splitlines())) == ("", 3)  # titles, the first row, the changed row
        assert watch.out.splitlines()[2].split()[:2] == ["orders", "InSync"]
