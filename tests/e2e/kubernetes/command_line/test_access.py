"""How the commands find the API server, what they may do there, and what can go wrong on the way."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kubernetes.command_line.orders import NS, Orders
from tests.e2e.kubernetes.command_line.person import Person
from tests.e2e.kubernetes.resources import install
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.process import free_port, wait_until
from tests.kafkafeatures import statuses
from tests.kafkasim.test_process import heard, simulator

COMMANDS = ("status", "wait", "plan", "suspend", "resume", "report")


@pytest.mark.parametrize("command", [*COMMANDS, "approve"])
def test_a_missing_resource_is_named_with_its_api_server(plane: ControlPlane, person: Person, command: str) -> None:
    words = ("--yes",) if command == "approve" else ()
    done = person.run(command, "missing", *words)
    assert done.returncode == 64
    assert f"KafkaFeatures {NS}/missing not found at {plane.server}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_the_error_message_names_the_verb_that_a_user_without_rights_misses(
    orders: Orders, tmp_path: Path, command: str
) -> None:
    nobody = Person(tmp_path, orders.plane.kubeconfig_of(NS, "nobody"))
    done = nobody.run(command, "orders")
    assert done.returncode == 5
    verb = "patch" if command in ("suspend", "resume") else "get"
    assert f"grant the verb {verb} on kafkafeatures.kafkafeatures.dev" in done.stderr
    assert f"system:serviceaccount:{NS}:nobody" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_reported_rights_of_a_driver_are_those_that_the_api_server_grants(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """`admin` asks for itself, and for the account of an operator."""
    admin = Person(tmp_path / "admin", plane.kubeconfig)
    account = f"system:serviceaccount:{NS}:nobody"
    with simulator("--release", "4.2") as process:
        servers = str(heard(process)["bootstrapServers"])
        words = ("--rights", "--driver", "StatefulSet", "--bootstrap-server", servers, "-o", "json")
        for flags, code, state in (((), 0, "Granted"), (("--as", account), 5, "Missing")):
            done = admin.run("check", *words, *flags)
            assert done.returncode == code, done.stderr
            rights = [right for right in json.loads(done.stdout)["rights"] if right["system"] == "Kubernetes"]
            assert [right["state"] for right in rights] == [state] * 4  # the driver needs four rights
            assert all(account in right["remedy"] for right in rights) == bool(flags)


def test_without_a_kubeconfig_the_error_message_names_the_variable_to_set(tmp_path: Path) -> None:
    done = Person(tmp_path).run("status", "orders")
    assert done.returncode == 64
    assert "KUBECONFIG" in done.stderr


def test_an_unreachable_api_server_is_exit_code_5(kubeconfig: Path, plane: ControlPlane, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(kubeconfig.read_text().replace(str(plane.port), str(free_port())))
    done = Person(tmp_path, elsewhere).run("status", "orders")
    assert done.returncode == 5
    assert "cannot be reached: connection refused" in done.stderr


def test_an_api_server_with_another_certificate_is_rejected(
    kubeconfig: Path, plane: ControlPlane, tmp_path: Path
) -> None:
    doubtful = tmp_path / "doubtful"
    other = plane.folder / "pki" / "admin.crt"
    doubtful.write_text(kubeconfig.read_text().replace(str(plane.authority.ca), str(other)))
    done = Person(tmp_path, doubtful).run("wait", "orders")
    assert done.returncode == 5
    assert "is not trusted" in done.stderr


def test_rejected_credentials_are_exit_code_5_and_the_token_is_not_printed(plane: ControlPlane, tmp_path: Path) -> None:
    stale = plane.authority.token_kubeconfig("stale", plane.server, "sekret-token-9f3c", NS)
    for command in ("status", "wait"):
        done = Person(tmp_path, stale).run(command, "orders", "--debug")
        assert done.returncode == 5
        assert "rejects the credentials" in done.stderr
        assert "9f3c" not in done.stdout + done.stderr


def test_without_the_crd_the_error_message_says_to_install_the_crd(tmp_path: Path, plane: ControlPlane) -> None:
    admin = Person(tmp_path, plane.kubeconfig)
    plane.kubectl("delete", "crd", "kafkafeatures.kafkafeatures.dev", "--timeout=30s")
    try:
        wait_until("the API server forgot it", lambda: "install its CRD" in admin.run("status", "orders").stderr)
        assert admin.run("status", "orders").returncode == 5
    finally:
        install(plane)


def _content(kubeconfig: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kubeconfig.read_text())
    return found


def test_several_files_of_kubeconfig_are_merged(orders: Orders, kubeconfig: Path, tmp_path: Path) -> None:
    content = _content(kubeconfig)
    first, second = tmp_path / "first", tmp_path / "folder" / "second"
    second.parent.mkdir()
    shutil.copy(content["clusters"][0]["cluster"].pop("certificate-authority"), second.parent / "ca.crt")
    content["clusters"][0]["cluster"]["certificate-authority"] = "ca.crt"  # relative to the file that names it
    (tmp_path / "token").write_text(content["users"][0]["user"].pop("token"))
    content["users"][0]["user"]["tokenFile"] = "token"
    first.write_text(json.dumps({"contexts": content.pop("contexts"), "users": content.pop("users")}))
    second.write_text(json.dumps(content))
    person = Person(tmp_path / "home", f"{tmp_path / 'none'}:{first}:{second}")
    person.environment["HTTPS_PROXY"] = f"http://127.0.0.1:{free_port()}"  # not for addresses of this machine
    assert person.run("status", "orders").returncode == 0
    assert person.run("status", "orders", "--context", "rig").returncode == 0
    done = person.run("status", "orders", "--context", "other")
    assert done.returncode == 64
    assert "no context 'other'; valid contexts: rig" in done.stderr


def test_keys_inside_a_kubeconfig_are_used_and_leave_no_temporary_file(orders: Orders, tmp_path: Path) -> None:
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
        wait.until_it_says("not reconciled yet")
        orders.write(statuses.acting())
        wait.until_it_says("UpdatingFeatures")
        orders.write(statuses.in_sync())
        assert wait.ends() == 0
    assert log.read_text() == "run\n"
    assert json.loads(Path(f"{log}.info").read_text())["apiVersion"] == exec_["apiVersion"]
    assert person.run("status", "orders").returncode == 0


def test_the_flag_as_impersonates_a_user_with_groups(orders: Orders, tmp_path: Path) -> None:
    orders.write(statuses.in_sync())
    admin = Person(tmp_path, orders.plane.kubeconfig)
    done = admin.run("-n", NS, "--as", f"system:serviceaccount:{NS}:nobody", "list")
    assert done.returncode == 5
    assert f'User "system:serviceaccount:{NS}:nobody" cannot list' in done.stderr
    done = admin.run("list", "-n", NS, "--as", "jane", "--as-group", "guests", "--as-group", "system:masters", "-v")
    assert done.returncode == 0, done.stderr
    assert "InSync" in done.stdout
    assert f"> GET {orders.plane.server}/apis/kafkafeatures.dev/v1alpha1/namespaces/{NS}/kafkafeatures" in done.stderr


def test_the_error_message_names_the_missing_right_to_impersonate(orders: Orders, person: Person) -> None:
    done = person.run("status", "orders", "--as", "jane")
    assert done.returncode == 5
    assert "grant the verb impersonate on users and groups" in done.stderr
