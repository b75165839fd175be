"""The commands status, plan, suspend, resume and report, as processes against a real API server."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kafkafeatures.core.engine.event_records import EventFacts, EventRecord
from kafkafeatures.environment import Environment
from kafkafeatures.kube.events import event_of
from tests.e2e.kubernetes.command_line.orders import CLUSTER, NS, USER, Orders
from tests.e2e.kubernetes.command_line.person import Person
from tests.e2e.rig.browser import opened
from tests.e2e.rig.kubernetes.binaries import binary
from tests.e2e.rig.process import wait_until
from tests.kafkafeatures import statuses
from tests.kafkafeatures.cli.test_report_page import Page
from tests.kafkafeatures.worlds import NOW


def test_status_with_watch_adds_a_line_for_each_change_until_an_interrupt(orders: Orders, person: Person) -> None:
    orders.write(statuses.acting())
    with person.running("status", "orders", "-w") as watch:
        wait_until("the status is there", lambda: "Conditions" in watch.out)
        orders.write(statuses.in_sync())
        wait_until("the change is there", lambda: "InSync" in watch.out)
        watch.process.send_signal(signal.SIGINT)
        assert watch.ends() == 130
        assert (watch.err, watch.out.count("Conditions")) == ("", 1)
        assert re.fullmatch("[0-9]{2}:[0-9]{2}:[0-9]{2} InSync: .*", watch.out.splitlines()[-1])


def test_status_shows_reason_and_remedy_and_sends_no_write_request(orders: Orders, person: Person) -> None:
    orders.write(statuses.stalled())
    mark = orders.plane.audit.mark()
    done = person.run("status", "orders")
    assert done.returncode == 0, done.stderr
    assert f"{NS}/orders  not ready: GhostRegistration" in done.stdout
    assert "start a controller with id 3003" in done.stdout
    rows = orders.plane.audit.wait_for(lambda rows: rows, mark, user=USER)
    assert {(row.verb, row.resource) for row in rows} == {("get", "kafkafeatures")}
    assert {row.agent.split("/")[0] for row in rows} == {"kafkafeatures"}


def test_status_prints_the_object_for_scripts(orders: Orders, person: Person) -> None:
    orders.write(statuses.in_sync())
    for form, load in (("json", json.loads), ("yaml", yaml.safe_load)):
        found = load(person.run("status", "orders", "-o", form).stdout)
        assert found["status"] == orders.status("orders")
        assert "managedFields" not in found["metadata"]


def test_status_reports_a_resource_that_is_not_reconciled_yet(orders: Orders, person: Person) -> None:
    done = person.run("status", "orders", "-n", NS)
    assert done.returncode == 0
    assert "not reconciled yet" in done.stdout


def kubectl(person: Person, *words: str) -> str:
    """The output of kubectl, with our commands on its PATH."""
    path = f"{Path(sys.executable).parent}:{person.environment['PATH']}"
    done = subprocess.run(
        [binary("kubectl"), *words],
        env={**person.environment, "PATH": path}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def test_the_command_is_a_plugin_of_kubectl(orders: Orders, person: Person) -> None:
    assert kubectl(person, "kafkafeatures", "status", orders.name) == person.run("status", orders.name).stdout


def test_kubectl_completes_the_commands_of_the_plugin(person: Person) -> None:
    assert kubectl(person, "__complete", "kafkafeatures", "sus").splitlines()[0].split("\t")[0] == "suspend"
    assert kubectl(person, "__complete", "kafkafeatures", "status", "-o", "js").splitlines()[0] == "json"


@pytest.mark.parametrize(
    ("status", "verdict", "code"),
    [
        ("in_sync", "InSync", 0),
        ("acting", "Changes", 0),
        ("waiting_for_approval", "ApprovalRequired", 3),
        ("stalled", "Blocked", 4),
        ("suspended", "Blocked", 4),
    ],
)
def test_plan_shows_the_operators_plan(orders: Orders, person: Person, status: str, verdict: str, code: int) -> None:
    orders.write(getattr(statuses, status)())
    done = person.run("plan", "orders", "-o", "json")
    assert done.returncode == code
    plan = json.loads(done.stdout)
    assert (plan["kind"], plan["verdict"], plan["resource"]) == ("Plan", verdict, f"{NS}/orders")
    assert plan["steps"] == orders.status("orders").get("plan", {}).get("steps", [])
    assert person.run("plan", "orders").returncode == code
    if verdict == "Changes":
        assert person.run("plan", "orders", "--detailed-exitcode").returncode == 2


def test_suspend_and_resume_change_only_the_annotation(orders: Orders, person: Person) -> None:
    before = orders.get("orders")
    assert person.run("suspend", "orders").returncode == 0
    assert orders.annotations["kafkafeatures.dev/pause"] == "true"
    assert person.run("resume", "orders").returncode == 0
    after = orders.get("orders")
    assert "kafkafeatures.dev/pause" not in after["metadata"]["annotations"]
    assert (after["spec"], after["metadata"]["generation"]) == (before["spec"], before["metadata"]["generation"])


def test_resume_is_refused_while_the_document_suspends_the_resource(orders: Orders, person: Person) -> None:
    orders.apply("orders", {}, suspend=True, **CLUSTER)
    done = person.run("resume", "orders")
    assert done.returncode == 4
    assert "spec.suspend is true in the document" in done.stderr


def test_a_report_contains_the_resource_and_its_events_and_reads_no_secret(
    orders: Orders, person: Person, tmp_path: Path
) -> None:
    orders.write(statuses.stalled())
    orders.annotate("orders", "somebody.else/token=do-not-show-9f3c")
    # The second Event is about a deleted resource of the same name, with another uid.
    for note, resource in (("of today", orders.get("orders")), ("of a deleted one", {**orders.get("orders")})):
        metadata = {**resource["metadata"], **({} if note == "of today" else {"uid": "another"})}
        record = EventRecord("GhostRegistration", "Reconcile", note, warning=True)
        event = event_of(
            record, {**resource, "metadata": metadata}, environment=Environment(lambda: NOW), instance="test"
        )
        orders.plane.kubectl("create", "-f", "-", input=json.dumps(event))
    mark = orders.plane.audit.mark()
    done = person.run("report", "orders", "-o", str(tmp_path / "report.yaml"))
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "report.yaml").read_text()
    report = yaml.safe_load(text)
    assert [one["note"] for one in report["events"]] == ["of today"]
    assert report["status"] == orders.status("orders")
    assert report["versions"]["operator"] == "0.1.0"
    assert report["versions"]["kubernetes"].startswith("v1.")
    assert report["notRead"] == []
    assert "do-not-show" not in text
    assert report["resource"]["otherAnnotations"][-1] == "somebody.else/token"
    rows = orders.plane.audit.wait_for(lambda rows: len(rows) >= 3, mark, user=USER)
    assert {row.resource for row in rows} == {"kafkafeatures", "events", ""}  # "": /version


def test_an_html_report_opens_in_a_browser_with_every_row_and_without_a_console_message(
    orders: Orders, person: Person, tmp_path: Path
) -> None:
    orders.write({**statuses.soaking(), "blockers": statuses.stalled()["blockers"]})
    for number in (3, 4):
        facts = EventFacts(kind="RestartNode", node=f"broker {number}", pod=f"orders-{number}")
        record = EventRecord("RestartingNode", "Evict", "the sentence is only shown", facts=facts)
        event = event_of(record, orders.get("orders"), environment=Environment(lambda: NOW), instance="test")
        orders.plane.kubectl("create", "-f", "-", input=json.dumps(event))
    done = person.run("report", "orders", "--html", str(tmp_path / "report.html"))
    assert done.returncode == 0, done.stderr
    seen = opened(tmp_path / "report.html", tmp_path / "profile")
    assert seen.console == ()
    rows = Page(seen.document).rows
    assert rows == Page((tmp_path / "report.html").read_text()).rows
    described = orders.plane.kubectl("describe", "-n", NS, "kafkafeatures", "orders")
    assert "the sentence is only shown" in described
    heads = {row[0] for row in rows}
    assert {"broker 3", "broker 4", "metadata.version", "Ready"} <= heads
    assert "<h3>controller 3003, Kafka 3.9</h3>" in seen.document


def test_a_report_names_the_missing_right_to_events(orders: Orders, tmp_path: Path) -> None:
    done = Person(tmp_path, orders.plane.kubeconfig_of(NS, "reader")).run("report", "orders")
    assert done.returncode == 0
    report = yaml.safe_load(done.stdout)
    assert report["events"] is None
    assert "grant the verb list on events.events.k8s.io" in report["notRead"][0]["why"]
