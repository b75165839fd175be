"""The client of the API server before it asks anything, and its words for what the network does."""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
from requests import Response

from kafkafeatures.cli.kube.api import Away, Kube
from kafkafeatures.cli.kube.config import only
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.environment import SYSTEM
from kafkafeatures.interrupts import SENT_STEPS

PLAIN = base64.b64encode(b"something").decode()


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Kube]]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ExitStack() as ending:

        def make(server: str = "https://127.0.0.1:1", cluster: Any = None, user: Any = None) -> Kube:
            return Kube(only("here", {"server": server, **(cluster or {})}, user or {}, "kafka"), ending)

        yield make
    assert list(tmp_path.iterdir()) == []  # no temporary file of a key is left


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({"certificate-authority": "/nowhere/ca.crt"}, {}, "'/nowhere/ca.crt' file does not exist"),
        ({"certificate-authority-data": "&&&"}, {}, "certificate-authority-data is not base64"),
        ({}, {"client-certificate": "/nowhere/a", "client-key": "/nowhere/b"}, "'/nowhere/a' file does not exist"),
        ({}, {"client-certificate-data": PLAIN}, "a certificate without its key"),
        (
            {},
            {"client-certificate-data": PLAIN, "client-key-data": PLAIN},
            "its certificates or its key cannot be used",
        ),
        ({"certificate-authority-data": PLAIN}, {}, "its certificates or its key cannot be used"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_refused_before_anything_is_sent(
    kube: Callable[..., Kube], cluster: dict[str, str], user: dict[str, str], message: str
) -> None:
    with pytest.raises(CommandFailed, match="context 'here'") as failed:
        kube(cluster=cluster, user=user)
    assert message in str(failed.value)
    assert failed.value.code is Exit.USAGE


def test_temporary_keys_of_a_kubeconfig_are_readable_by_their_owner_only(
    kube: Callable[..., Kube], tmp_path: Path
) -> None:
    made = trustme.CA().issue_cert("somebody@example.org")
    inside = {"client-certificate": made.cert_chain_pems[0], "client-key": made.private_key_pem}
    kube(user={f"{name}-data": base64.b64encode(pem.bytes()).decode() for name, pem in inside.items()})
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {one.name for one in folder.iterdir()} == {"client-certificate", "client-key"}


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ("https://127.0.0.1:1", "connection refused"),
        ("https://no.such.host.invalid", "not known"),
        ("http://127.0.0.1:1", "connection refused"),
    ],
)
def test_an_unreachable_api_server_is_reported(kube: Callable[..., Kube], server: str, message: str) -> None:
    with pytest.raises(Away, match=message) as away:
        kube(server).resource("orders")
    assert away.value.code is Exit.UNREACHABLE
    assert server in str(away.value)


def test_a_silent_api_server_times_out(kube: Callable[..., Kube]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = kube(f"https://127.0.0.1:{listener.getsockname()[1]}")
        silent.request_timeout = 0.2
        with pytest.raises(Away, match=r"no answer in 0\.2 s"):
            silent.resource("orders")


def test_the_time_is_that_of_the_api_server_or_ours(kube: Callable[..., Kube], monkeypatch: pytest.MonkeyPatch) -> None:
    client, answer = kube(), Response()
    answer.status_code, answer._content = 200, b'{"gitVersion": "v1.34.1"}'
    monkeypatch.setattr(client._api, "get", lambda **_: answer)
    answer.headers["Date"] = "Fri, 02 Jan 2026 03:04:05 GMT"
    client.version()
    assert client.answered_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    answer.headers["Date"] = "soon"
    before = SYSTEM.clock()
    client.version()
    assert client.answered_at >= before


def test_a_version_that_is_not_served_is_named(kube: Callable[..., Kube], monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server may serve the kind in another version: Strimzi before 1.0 does."""
    client, answer = kube(), Response()
    answer.status_code = 404
    monkeypatch.setattr(client._api, "get", lambda **_: answer)
    with pytest.raises(
        CommandFailed, match=r" does not serve kafkas\.kafka\.strimzi\.io in version v1; install its CRD"
    ):
        client.object_of(("kafkas", "kafka.strimzi.io"), "kafka.strimzi.io/v1", "orders")


@pytest.mark.parametrize(
    ("status", "may"),
    [
        ({"allowed": True}, True),
        ({"allowed": False}, False),
        ({"allowed": False, "evaluationError": "role not found"}, None),
        ({}, False),
    ],
    ids=["allowed", "not allowed", "an error: not known", "an empty answer"],
)
def test_an_access_review_is_yes_or_no_or_with_an_error_unknown(
    kube: Callable[..., Kube], monkeypatch: pytest.MonkeyPatch, status: dict[str, Any], may: bool | None
) -> None:
    client = kube()
    sent: list[tuple[Any, Any]] = []

    def send(*words: str, **request: Any) -> dict[str, Any]:
        sent.append((words, request["json"]["spec"]["resourceAttributes"]))
        return {"status": status}

    monkeypatch.setattr(client, "_send", send)
    assert client.may("", "pods/eviction", "create") is may
    wanted = {"namespace": "kafka", "verb": "create", "group": "", "resource": "pods", "subresource": "eviction"}
    assert sent == [(("post", "create", ("selfsubjectaccessreviews", "authorization.k8s.io")), wanted)]


def test_a_change_of_a_resource_is_noted_before_it_leaves_so_that_ctrl_c_can_name_it(kube: Callable[..., Kube]) -> None:
    SENT_STEPS.begin(can_change=True)
    with pytest.raises(Away):
        kube().resource("orders")
    assert str(SENT_STEPS) == "nothing was changed"  # only read
    with pytest.raises(Away):
        kube().annotate("orders", {"a": "b"})
    assert str(SENT_STEPS) == ("1 step was sent: patch kafkafeatures orders; see the result with kafkafeatures status")
