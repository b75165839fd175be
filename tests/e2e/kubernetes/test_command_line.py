"""The commands for people against a real API server, as processes, with the rights of one account and no others.

No operator runs here: the statuses are those its core makes, written by the test.
"""

from __future__ import annotations

import base64
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkafeatures.core.happenings import Happening
from kafkafeatures.kube.events import event_of
from tests.e2e.kubernetes.person import Person
from tests.e2e.kubernetes.resources import Resources, install
from tests.e2e.rig.cluster import free_port, wait_until
from tests.e2e.rig.kubernetes.binaries import binary
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.kafkafeatures import statuses
from tests.kafkafeatures.worlds import NOW

NS = "people"
USER = f"system:serviceaccount:{NS}:person"
CLUSTER = {"cluster": {"bootstrapServers": "kafka-1.example:9092"}}
RBAC = "rbac.authorization.k8s.io"
READ = {"apiGroups": ["kafkafeatures.dev"], "resources": ["kafkafeatures"], "verbs": ["get"]}
WRITE = {**READ, "verbs": ["get", "patch"]}
EVENTS = {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["list"]}
ACCOUNTS = {"person": [WRITE, EVENTS], "reader": [READ], "nobody": []}


class Orders(Resources):
    """One resource, with what an operator would write about it."""

    name = "orders"

    def write(self, status: Mapping[str, Any]) -> None:
        """The whole status, as the operator does."""
        self.plane.kubectl(
            "replace", "--subresource=status", "-f", "-", input=json.dumps({**self.get(self.name), "status": status})
        )

    @property
    def annotations(self) -> dict[str, str]:
        found: dict[str, str] = self.get(self.name)["metadata"].get("annotations", {})
        return found


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    install(control_plane)
    control_plane.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}},
    )
    for name, rules in ACCOUNTS.items():
        account(control_plane, name, rules)
    return control_plane


def account(plane: ControlPlane, name: str, rules: list[dict[str, Any]]) -> None:
    """A ServiceAccount with a role of its own."""
    metadata = {"name": name, "namespace": NS}
    plane.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", **metadata}],
        },
    )


@pytest.fixture
def orders(plane: ControlPlane) -> Iterator[Orders]:
    """Made anew for each test, of generation 1 and without a status."""
    made = Orders(plane, namespace=NS)
    made.apply(made.name, {"metadata.version": 27}, **CLUSTER)
    yield made
    made.delete(made.name)


@pytest.fixture(scope="module")
def kubeconfig(plane: ControlPlane) -> Path:
    return plane.kubeconfig_of(NS, "person")


@pytest.fixture
def person(kubeconfig: Path, tmp_path: Path) -> Person:
    return Person(tmp_path / "home", kubeconfig)


# --- status and plan ---


def test_status_shows_what_a_person_needs_and_writes_nothing(orders: Orders, person: Person) -> None:
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


def test_before_the_operator_spoke_it_says_so(orders: Orders, person: Person) -> None:
    done = person.run("status", "orders", "-n", NS)
    assert done.returncode == 0
    assert "the operator has not said anything about it yet" in done.stdout


def test_it_is_a_plugin_of_kubectl(orders: Orders, person: Person) -> None:
    path = f"{Path(sys.executable).parent}:{person.environment['PATH']}"
    done = subprocess.run(
        [binary("kubectl"), "kafkafeatures", "status", orders.name],
        env={**person.environment, "PATH": path}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == person.run("status", orders.name).stdout


@pytest.mark.parametrize(
    ("made", "verdict", "code"),
    [
        ("in_sync", "InSync", 0),
        ("acting", "Changes", 0),
        ("waiting_for_approval", "ApprovalRequired", 3),
        ("stalled", "Blocked", 4),
        ("suspended", "Blocked", 4),
    ],
)
def test_plan_shows_the_operators_plan(orders: Orders, person: Person, made: str, verdict: str, code: int) -> None:
    orders.write(getattr(statuses, made)())
    done = person.run("plan", "orders", "-o", "json")
    assert done.returncode == code
    plan = json.loads(done.stdout)
    assert (plan["kind"], plan["verdict"], plan["resource"]) == ("Plan", verdict, f"{NS}/orders")
    assert plan["steps"] == orders.status("orders").get("plan", {}).get("steps", [])
    assert person.run("plan", "orders").returncode == code
    if verdict == "Changes":
        assert person.run("plan", "orders", "--detailed-exitcode").returncode == 2


# --- wait ---


def test_waiting_is_over_at_once_where_it_is_ready(orders: Orders, person: Person) -> None:
    orders.write(statuses.in_sync())
    done = person.run("wait", "orders")
    assert done.returncode == 0
    assert f"{NS}/orders is ready: InSync" in done.stdout


def test_waiting_is_over_only_for_the_new_generation(orders: Orders, person: Person) -> None:
    orders.write(statuses.in_sync(1))
    orders.apply("orders", {"metadata.version": 21}, **CLUSTER)
    with person.running("wait", "orders", "--for", "ready") as wait:
        wait.until_it_says("generation 2 was not looked at yet")
        orders.write(statuses.acting(2))
        wait.until_it_says("UpdatingFeatures: metadata.version 21 -> 27")
        assert wait.process.poll() is None
        orders.write(statuses.in_sync(2))
        assert wait.ends() == 0
        assert wait.err.count("generation 2 was not looked at yet") == 1


@pytest.mark.parametrize(
    ("made", "code", "said"),
    [("stalled", 6, "is stalled: GhostRegistration"), ("waiting_for_approval", 3, "kafkafeatures approve orders")],
)
@pytest.mark.parametrize("goal", ["ready", "feature=group.version>=1"])
def test_waiting_ends_early_where_somebody_has_to_act(
    orders: Orders, person: Person, made: str, code: int, said: str, goal: str
) -> None:
    with person.running("wait", "orders", "--for", goal) as wait:
        wait.until_it_says("the operator has not said anything about it yet")
        orders.write(getattr(statuses, made)(1))
        assert wait.ends() == code
        assert said in wait.err


def test_what_stalled_an_older_generation_ends_nothing(orders: Orders, person: Person) -> None:
    orders.write(statuses.stalled(1))
    orders.apply("orders", {"metadata.version": 21}, **CLUSTER)
    with person.running("wait", "orders") as wait:
        wait.until_it_says("generation 2 was not looked at yet")
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
        wait.until_it_says("has not said anything")
        orders.delete("orders")
        assert wait.ends() == 4
        assert f"there is no KafkaFeatures {NS}/orders" in wait.err


def test_interrupted_it_says_so(orders: Orders, person: Person) -> None:
    with person.running("wait", "orders") as wait:
        wait.until_it_says("has not said anything")
        wait.process.send_signal(signal.SIGINT)
        assert wait.ends() == 130
        assert "Traceback" not in wait.err
    assert list(person.temporary.iterdir()) == []


# --- approve ---


def test_a_plan_is_approved_by_its_whole_hash(orders: Orders, person: Person) -> None:
    orders.write(statuses.waiting_for_approval())
    hash_ = orders.status("orders")["plan"]["hash"]
    done = person.run("approve", "orders", "--plan", hash_[:15])
    assert done.returncode == 0, done.stderr
    assert "1. metadata.version 21 (3.9-IV0) -> 27 (4.1-IV1)  irreversible" in done.stdout
    assert orders.annotations["kafkafeatures.dev/approve"] == hash_
    again = person.run("approve", "orders", "--yes")
    assert again.returncode == 0
    assert "approved already" in again.stdout


def test_once_approved_waiting_goes_on_though_the_operator_did_not_read_it_yet(orders: Orders, person: Person) -> None:
    orders.write(statuses.waiting_for_approval())
    assert person.run("wait", "orders").returncode == 3
    assert person.run("approve", "orders", "--yes").returncode == 0
    with person.running("wait", "orders") as wait:
        wait.until_it_says("ApprovalRequired")
        orders.write(statuses.in_sync())
        assert wait.ends() == 0


@pytest.mark.parametrize(
    ("made", "words", "code", "said"),
    [
        ("in_sync", ("--yes",), 4, "no plan of people/orders waits for approval: InSync"),
        ("stalled", ("--yes",), 4, "waits for approval: GhostRegistration"),
        ("waiting_for_approval", ("--plan", "sha256:00000000"), 4, "not sha256:00000000"),
        ("waiting_for_approval", ("--plan", "sha256:0000000"), 64, "no hash of a plan"),
        ("waiting_for_approval", (), 64, "there is no terminal"),
    ],
)
def test_nothing_else_is_approved(
    orders: Orders, person: Person, made: str, words: tuple[str, ...], code: int, said: str
) -> None:
    orders.write(getattr(statuses, made)())
    done = person.run("approve", "orders", *words)
    assert done.returncode == code
    assert said in done.stderr
    assert "kafkafeatures.dev/approve" not in orders.annotations


def test_a_plan_of_an_older_generation_is_not_approved(orders: Orders, person: Person) -> None:
    orders.write(statuses.waiting_for_approval(1))
    orders.apply("orders", {"metadata.version": 21}, **CLUSTER)
    done = person.run("approve", "orders", "--yes")
    assert done.returncode == 4
    assert "has not looked at generation 2 yet" in done.stderr


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 4), ("", 4), ("yesterday", 4)])
def test_on_a_terminal_it_asks_and_only_a_yes_is_a_yes(orders: Orders, person: Person, answer: str, code: int) -> None:
    orders.write(statuses.waiting_for_approval())
    with person.running("approve", "orders") as approve:
        approve.until_it_says("Approve it? [y/N]")
        assert "irreversible cannot be undone" in approve.out
        approve.types(answer)
        assert approve.ends() == code
    assert ("kafkafeatures.dev/approve" in orders.annotations) == (code == 0)


def test_while_it_asks_the_operator_may_write_but_the_plan_must_stay(orders: Orders, person: Person) -> None:
    orders.write(statuses.waiting_for_approval())
    for change, code in (({"operatorVersion": "0.1.1"}, 0), ({"plan": {"hash": "sha256:" + "1" * 64}}, 4)):
        orders.annotate("orders", "kafkafeatures.dev/approve-")
        with person.running("approve", "orders") as approve:
            approve.until_it_says("Approve it? [y/N]")
            orders.write({**statuses.waiting_for_approval(), **change})
            approve.types("y")
            assert approve.ends() == code, approve.err
    assert "is sha256:111111111111 now, not sha256:" in approve.err
    assert "kafkafeatures.dev/approve" not in orders.annotations


# --- suspend, resume, report ---


def test_suspend_and_resume_write_the_annotation_and_nothing_else(orders: Orders, person: Person) -> None:
    before = orders.get("orders")
    assert person.run("suspend", "orders").returncode == 0
    assert orders.annotations["kafkafeatures.dev/pause"] == "true"
    assert person.run("resume", "orders").returncode == 0
    after = orders.get("orders")
    assert "kafkafeatures.dev/pause" not in after["metadata"]["annotations"]
    assert (after["spec"], after["metadata"]["generation"]) == (before["spec"], before["metadata"]["generation"])


def test_what_the_document_suspends_only_the_document_resumes(orders: Orders, person: Person) -> None:
    orders.apply("orders", {}, suspend=True, **CLUSTER)
    done = person.run("resume", "orders")
    assert done.returncode == 4
    assert "spec.suspend is true in the document" in done.stderr


def test_a_report_has_all_of_it_and_reads_no_secret(orders: Orders, person: Person, tmp_path: Path) -> None:
    orders.write(statuses.stalled())
    orders.annotate("orders", "somebody.else/token=do-not-show-9f3c")
    for note, resource in (("of today", orders.get("orders")), ("of an earlier life", {**orders.get("orders")})):
        metadata = {**resource["metadata"], **({} if note == "of today" else {"uid": "another"})}
        happening = Happening("GhostRegistration", "Reconcile", note, warning=True)
        event = event_of(happening, {**resource, "metadata": metadata}, at=NOW, instance="test")
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
    assert {row.resource for row in rows} == {"kafkafeatures", "events", ""}


def test_a_report_without_the_right_to_events_says_so(orders: Orders, tmp_path: Path) -> None:
    done = Person(tmp_path, orders.plane.kubeconfig_of(NS, "reader")).run("report", "orders")
    assert done.returncode == 0
    report = yaml.safe_load(done.stdout)
    assert report["events"] is None
    assert "a role has to give the verb list on events.events.k8s.io" in report["notRead"][0]["why"]


# --- what can go wrong on the way ---

COMMANDS = ("status", "wait", "plan", "suspend", "resume", "report")


@pytest.mark.parametrize("command", [*COMMANDS, "approve"])
def test_a_resource_that_is_not_there_is_named(plane: ControlPlane, person: Person, command: str) -> None:
    words = ("--yes",) if command == "approve" else ()
    done = person.run(command, "missing", *words)
    assert done.returncode == 4
    assert f"there is no KafkaFeatures {NS}/missing at {plane.server}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_who_may_not_is_told_which_right_is_missing(orders: Orders, tmp_path: Path, command: str) -> None:
    nobody = Person(tmp_path, orders.plane.kubeconfig_of(NS, "nobody"))
    done = nobody.run(command, "orders")
    assert done.returncode == 4
    verb = "patch" if command in ("suspend", "resume") else "get"
    assert f"a role has to give the verb {verb} on kafkafeatures.kafkafeatures.dev" in done.stderr
    assert f"system:serviceaccount:{NS}:nobody" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_a_kubeconfig_it_says_what_to_set(tmp_path: Path) -> None:
    done = Person(tmp_path).run("status", "orders")
    assert done.returncode == 4
    assert "KUBECONFIG" in done.stderr


def test_an_api_server_that_is_not_there_is_5(kubeconfig: Path, plane: ControlPlane, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(kubeconfig.read_text().replace(str(plane.port), str(free_port())))
    done = Person(tmp_path, elsewhere).run("status", "orders")
    assert done.returncode == 5
    assert "cannot be reached: connection refused" in done.stderr


def test_an_api_server_with_another_certificate_is_not_believed(
    kubeconfig: Path, plane: ControlPlane, tmp_path: Path
) -> None:
    doubtful = tmp_path / "doubtful"
    other = plane.folder / "pki" / "admin.crt"
    doubtful.write_text(kubeconfig.read_text().replace(str(plane.authority.ca), str(other)))
    done = Person(tmp_path, doubtful).run("wait", "orders")
    assert done.returncode == 5
    assert "is not to be trusted" in done.stderr


def test_a_login_that_is_not_accepted_is_4_and_the_token_is_nowhere(plane: ControlPlane, tmp_path: Path) -> None:
    stale = plane.authority.token_kubeconfig("stale", plane.server, "sekret-token-9f3c", NS)
    for command in ("status", "wait"):
        done = Person(tmp_path, stale).run(command, "orders", "--debug")
        assert done.returncode == 4
        assert "does not accept the login" in done.stderr
        assert "9f3c" not in done.stdout + done.stderr


def test_without_the_crd_it_says_what_to_install(tmp_path: Path, plane: ControlPlane) -> None:
    admin = Person(tmp_path, plane.kubeconfig)
    plane.kubectl("delete", "crd", "kafkafeatures.kafkafeatures.dev", "--timeout=30s")
    try:
        wait_until("the API server forgot it", lambda: "install the CRD" in admin.run("status", "orders").stderr)
        assert admin.run("status", "orders").returncode == 4
    finally:
        install(plane)


# --- other kubeconfigs ---


def _content(kubeconfig: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kubeconfig.read_text())
    return found


def test_several_files_are_one_configuration(orders: Orders, kubeconfig: Path, tmp_path: Path) -> None:
    content = _content(kubeconfig)
    first, second = tmp_path / "first", tmp_path / "folder" / "second"
    second.parent.mkdir()
    shutil.copy(content["clusters"][0]["cluster"].pop("certificate-authority"), second.parent / "ca.crt")
    content["clusters"][0]["cluster"]["certificate-authority"] = "ca.crt"  # from where the file lies
    (tmp_path / "token").write_text(content["users"][0]["user"].pop("token"))
    content["users"][0]["user"]["tokenFile"] = "token"
    first.write_text(json.dumps({"contexts": content.pop("contexts"), "users": content.pop("users")}))
    second.write_text(json.dumps(content))
    person = Person(tmp_path / "home", f"{tmp_path / 'none'}:{first}:{second}")
    person.environment["HTTPS_PROXY"] = f"http://127.0.0.1:{free_port()}"  # not for addresses of this machine
    assert person.run("status", "orders").returncode == 0
    assert person.run("status", "orders", "--context", "rig").returncode == 0
    done = person.run("status", "orders", "--context", "other")
    assert done.returncode == 4
    assert "has no context 'other'; there is: rig" in done.stderr


def test_keys_inside_a_kubeconfig_are_used_and_leave_nothing_behind(orders: Orders, tmp_path: Path) -> None:
    content = _content(orders.plane.kubeconfig)
    for part in (content["clusters"][0]["cluster"], content["users"][0]["user"]):
        for key in [one for one in part if one in ("certificate-authority", "client-certificate", "client-key")]:
            part[f"{key}-data"] = base64.b64encode(Path(part.pop(key)).read_bytes()).decode()
    inside = tmp_path / "inside"
    inside.write_text(json.dumps(content))
    assert Person(tmp_path / "home", inside).run("status", "orders", "-n", NS).returncode == 0


PLUGIN = """#!/bin/sh
echo run >> {log}
echo "$KUBERNETES_EXEC_INFO" > {log}.info
cat {answer}
"""


@pytest.mark.parametrize("gives", ["token", "certificate"])
def test_a_login_plugin_is_run_once_for_many_requests(
    orders: Orders, kubeconfig: Path, tmp_path: Path, gives: str
) -> None:
    content, log, answer = _content(kubeconfig), tmp_path / "runs", tmp_path / "answer"
    pki = orders.plane.folder / "pki"
    status = {
        "token": {"token": content["users"][0]["user"].pop("token")},
        "certificate": {
            "clientCertificateData": (pki / "admin.crt").read_text(),
            "clientKeyData": (pki / "admin.key").read_text(),
        },
    }[gives]
    exec_ = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "interactiveMode": "Never"}
    answer.write_text(json.dumps({"apiVersion": exec_["apiVersion"], "kind": "ExecCredential", "status": status}))
    plugin, config = tmp_path / "plugin", tmp_path / "config"
    plugin.write_text(PLUGIN.format(log=log, answer=answer))
    plugin.chmod(0o700)
    content["users"][0]["user"] = {"exec": exec_}
    config.write_text(json.dumps(content))
    person = Person(tmp_path / "home", config)
    with person.running("wait", "orders") as wait:
        wait.until_it_says("has not said anything")
        orders.write(statuses.acting())
        wait.until_it_says("UpdatingFeatures")
        orders.write(statuses.in_sync())
        assert wait.ends() == 0
    assert log.read_text() == "run\n"
    assert json.loads(Path(f"{log}.info").read_text())["apiVersion"] == exec_["apiVersion"]
    assert person.run("status", "orders").returncode == 0
