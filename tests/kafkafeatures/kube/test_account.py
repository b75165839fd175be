"""Who the operator is to the API server: the account of its pod, else a kubeconfig."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kafkafeatures.kube import account as module
from kafkafeatures.kube.account import Account, account, in_pod
from kafkafeatures.kube.errors import NoAccount


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(module, "POD_ACCOUNT", tmp_path)
    (tmp_path / "token").write_text("one\n")
    (tmp_path / "ca.crt").write_text("a certificate")
    return tmp_path


async def test_the_account_of_a_pod_is_read_as_it_is_now(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_pod()
    ca = str(pod / "ca.crt")
    assert await account() == Account("https://10.0.0.1:443", ca, token="one")
    (pod / "token").write_text("two")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    found = await account()
    assert found == Account("https://[fd00::1]:443", ca, token="two")
    assert found.headers == {"Authorization": "Bearer two"}


@pytest.mark.parametrize("file", ["token", "ca.crt"])
async def test_an_account_without_a_token_or_a_ca_is_none(pod: Path, file: str) -> None:
    (pod / file).write_text("")
    with pytest.raises(NoAccount, match="empty"):
        await account()


async def test_a_pod_that_does_not_know_its_api_server_says_so(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_PORT")
    with pytest.raises(NoAccount, match="KUBERNETES_SERVICE_PORT is not set"):
        await account()


async def test_a_kubeconfig_comes_before_the_account_of_the_pod(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = pod / "config"
    monkeypatch.setenv("KUBECONFIG", str(file))
    cluster = {"server": "https://a:6443", "insecure-skip-tls-verify": True, "proxy-url": "http://b:3128"}
    config = {
        "current-context": "it",
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "me", "user": {"token": "mine"}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "me"}}],
    }
    file.write_text(json.dumps(config))
    assert not in_pod()
    assert await account() == Account("https://a:6443", token="mine", insecure=True, proxy="http://b:3128")
    file.write_text("- no kubeconfig")
    with pytest.raises(NoAccount, match=r"check .*config"):
        await account()


def test_in_a_pod_no_client_of_kubernetes_is_imported_but_our_own() -> None:
    """Together they take 14 MiB; Kopf imports those that are installed, and ours reads kubeconfigs with one."""
    script = "import sys; from kafkafeatures import app; print(*{name.partition('.')[0] for name in sys.modules})"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"kubernetes", "pykube", "requests", "urllib3"} & set(ran.stdout.split())
    assert "kopf" in ran.stdout.split()
