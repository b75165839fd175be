"""Tokens, files of tokens and login plugins: what a request is given, and that no error has any of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from kafkafeatures.cli.kube.login import Login
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit

SECRET = "sekret-9f3c"


def login(**user: Any) -> Login:
    cluster = {"server": "https://a:6443", "certificate-authority-data": "Q0E="}
    return Login(cluster, user, present=lambda *_: None)


def token_of(one: Login, url: str = "https://a:6443/apis") -> str:
    request = SimpleNamespace(method="GET", url=url, headers={})
    one(request)
    return str(request.headers.get("Authorization", "")).removeprefix("Bearer ")


def plugin(tmp_path: Path, script: str, **more: Any) -> dict[str, Any]:
    path = tmp_path / "login-plugin"
    path.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\n{script}\n")
    path.chmod(0o700)
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "interactiveMode": "Never", **more}


def answer(**status: str) -> str:
    return f"echo '{json.dumps({'status': status})}'"


def runs(tmp_path: Path) -> int:
    return (tmp_path / "runs").read_text().count("run")


def test_a_token_is_sent_over_tls_only() -> None:
    assert token_of(login(token=SECRET)) == SECRET
    assert token_of(login()) == ""
    with pytest.raises(CommandFailed, match="is not https") as failed:
        token_of(login(token=SECRET), "http://a:6443/apis")
    assert SECRET not in str(failed.value)


def test_a_token_in_a_file_is_read_again_for_every_request(tmp_path: Path) -> None:
    file = tmp_path / "token"
    one = login(tokenFile=str(file), token="old")
    for text in ("first", "second"):
        file.write_text(f"{text}\n")
        assert token_of(one) == text
    file.unlink()
    with pytest.raises(CommandFailed, match="No such file"):
        token_of(one)


def test_a_credential_plugin_runs_again_when_its_token_expires_or_is_refused(tmp_path: Path) -> None:
    one = login(exec=plugin(tmp_path, answer(token=SECRET)))
    assert [token_of(one) for _ in range(3)] == [SECRET] * 3
    assert runs(tmp_path) == 1
    one.forget()
    token_of(one)
    assert runs(tmp_path) == 2
    soon = (datetime.now(UTC) + timedelta(seconds=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    one = login(exec=plugin(tmp_path, answer(token=SECRET, expirationTimestamp=soon)))
    token_of(one), token_of(one)
    assert runs(tmp_path) == 4  # once for each request: a token that is valid for 5 s more counts as expired


def test_a_credential_plugin_gets_the_environment_that_kubectl_gives(tmp_path: Path) -> None:
    script = f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; echo "$1 $STAGE" > {tmp_path}/words; {answer(token="t")}'
    words = {"args": ["get-token"], "env": [{"name": "STAGE", "value": "test"}], "provideClusterInfo": True}
    token_of(login(exec=plugin(tmp_path, script, **words)))
    info = json.loads((tmp_path / "info").read_text())
    assert info["spec"] == {
        "interactive": False,
        "cluster": {"server": "https://a:6443", "certificate-authority-data": "Q0E="},
    }
    assert (tmp_path / "words").read_text() == "get-token test\n"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (f"echo {SECRET}; exit 3", "failed with exit code 3"),
        (f"echo {SECRET}", "did not answer with an ExecCredential"),
        (f'echo \'{{"status": "{SECRET}"}}\'', "did not answer with an ExecCredential"),
    ],
)
def test_a_failing_credential_plugin_is_named_without_its_output(tmp_path: Path, script: str, message: str) -> None:
    with pytest.raises(CommandFailed, match=message) as failed:
        token_of(login(exec=plugin(tmp_path, script, args=[SECRET])))
    assert failed.value.code is Exit.UNREACHABLE
    assert SECRET not in str(failed.value)


def test_a_missing_credential_plugin_is_reported_with_its_install_hint() -> None:
    with pytest.raises(CommandFailed, match="cannot be run: No such file or directory; get it from the wiki"):
        token_of(login(exec={"command": "no-such-login-plugin", "installHint": "get it from the wiki\nor elsewhere"}))


@pytest.mark.parametrize(
    ("entry", "which"),
    [
        ({"name": "STAGE"}, "'STAGE'"),
        ({"name": "STAGE", "value": None}, "'STAGE'"),
        ({"name": "STAGE", "value": 1}, "'STAGE'"),
        ({"value": SECRET}, "number 2"),
        ({"name": "", "value": SECRET}, "number 2"),
        (SECRET, "number 2"),
    ],
)
def test_a_credential_plugin_with_an_invalid_environment_entry_is_not_run(
    tmp_path: Path, entry: Any, which: str
) -> None:
    words = plugin(tmp_path, answer(token="t"), env=[{"name": "A", "value": ""}, entry])
    with pytest.raises(CommandFailed, match=f"env entry {which} needs a name and a value") as failed:
        token_of(login(exec=words))
    assert failed.value.code is Exit.USAGE
    assert SECRET not in str(failed.value)
    assert not (tmp_path / "runs").exists()


def test_a_binary_token_file_is_named_without_its_content(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"\xff\xfe" + SECRET.encode())
    with pytest.raises(CommandFailed, match="is not text in UTF-8; log in again") as failed:
        token_of(login(tokenFile=str(file)))
    assert str(file) in str(failed.value)
    assert SECRET not in str(failed.value)


def test_impersonation_sends_headers_for_user_and_groups() -> None:
    acting = {"as": "jane", "as-groups": ["one", "two"]}
    request = requests.Request("GET", "https://a:6443/", headers={"Accept": "a/b"}, auth=login(token="t", **acting))
    headers = sorted(request.prepare().headers.items())
    assert [one for one in headers if one[0].startswith("Impersonate")] == [
        ("Impersonate-Group", "one"), ("Impersonate-Group", "two"), ("Impersonate-User", "jane"),
    ]  # fmt: skip
    assert ("Accept", "a/b") in headers
