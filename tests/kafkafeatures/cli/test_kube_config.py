"""The API server and the user by kubeconfig files: read as kubectl does, and without their content in any error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkafeatures.cli.kube import config as kube_config
from kafkafeatures.cli.kube.config import kubeconfig
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit

SECRET = "sekret-9f3c"


def config(name: str = "a", **more: Any) -> dict[str, Any]:
    return {
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443", **more.get("cluster", {})}}],
        "users": [{"name": name, "user": {"token": SECRET, **more.get("user", {})}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **more.get("context", {})}}],
    }


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(kube_config, "POD_ACCOUNT", tmp_path / "account")


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def write(*contents: Any) -> None:
        files = [tmp_path / f"file-{number}" for number, _ in enumerate(contents)]
        for file, content in zip(files, contents, strict=True):
            file.write_text(content if isinstance(content, str) else json.dumps(content))
        monkeypatch.setenv("KUBECONFIG", ":".join(map(str, files)))

    return write


def chosen(context: str = "") -> tuple[str, str]:
    """The address of its cluster, and the namespace."""
    found = kubeconfig(context)
    return found.cluster["server"], found.namespace


def user() -> Any:
    """The user of the current context, before pykube looks for its files."""
    return kubeconfig().doc["users"][0]["user"]


def refused(context: str = "") -> str:
    with pytest.raises(CommandFailed) as failed:
        kubeconfig(context)
    assert failed.value.code is Exit.USAGE
    assert SECRET not in str(failed.value)
    return str(failed.value)


def test_the_current_context_is_used_unless_another_is_named(use: Any) -> None:
    use(config("a"), config("b", context={"namespace": "kafka"}))
    assert chosen() == ("https://a:6443", "default")
    assert chosen("b") == ("https://b:6443", "kafka")
    assert "no context 'c'; valid contexts: a, b" in refused("c")


def test_the_first_kubeconfig_with_a_value_wins(use: Any) -> None:
    other = config("a", cluster={"server": "https://other:6443"})
    use({"current-context": ""}, config("a"), other)
    assert chosen()[0] == "https://a:6443"


def test_paths_are_relative_to_the_folder_of_the_kubeconfig(use: Any, tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./login"}
    who = {"client-key": "/abs/key", "tokenFile": "token", "exec": plugin}
    use(config(cluster={"certificate-authority": "pki/ca.crt"}, user=who))
    cluster = kubeconfig().doc["clusters"][0]["cluster"]
    assert cluster["certificate-authority"] == str(tmp_path / "pki/ca.crt")
    assert user()["tokenFile"] == str(tmp_path / "token")
    assert user()["client-key"] == "/abs/key"
    assert user()["exec"]["command"] == str(tmp_path / "login")


def test_a_plugin_command_without_a_slash_is_searched_in_the_path_variable(use: Any) -> None:
    use(config(user={"exec": {"command": "aws"}}))
    assert user()["exec"]["command"] == "aws"


def test_the_kubeconfig_at_home_is_used_before_the_service_account_of_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no kubeconfig" in refused()
    account = tmp_path / "account"
    account.mkdir()
    for name, text in (("token", SECRET), ("namespace", "kafka"), ("ca.crt", "")):
        (account / name).write_text(text)
    assert "KUBERNETES_SERVICE_HOST" in refused()
    for host, server in (("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")):
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
        assert chosen() == (server, "kafka")
    assert user() == {"tokenFile": str(account / "token")}
    home = tmp_path / "home" / ".kube"
    home.mkdir(parents=True)
    (home / "config").write_text(json.dumps(config("home")))
    assert chosen()[0] == "https://home:6443"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"a: b: {SECRET}", "invalid YAML"),
        ([SECRET], "is not a kubeconfig"),
        ({"users": [SECRET]}, "is not a kubeconfig"),
        (
            {**config(), "current-context": [SECRET]},
            "file-0: current-context is not the name of a context; set it with",
        ),
        ({**config(), "current-context": 7}, "current-context is not the name of a context; set it with"),
        ({"contexts": [{"name": [SECRET], "context": {}}]}, "is not a kubeconfig"),
        (config(context={"cluster": [SECRET]}), "is not a kubeconfig"),
        (config(context={"namespace": {"a": SECRET}}), "is not a kubeconfig"),
        ({"users": [{"user": {"token": SECRET}}]}, "is not a kubeconfig"),
        ("", "no current context"),
        ({**config(), "clusters": []}, "has no cluster with a server"),
        ({**config(), "clusters": [{"name": "a", "cluster": {}}]}, "has no cluster with a server"),
        (config(user={"as-uid": "7"}), "has 'as-uid', which is not supported"),
        (config(user={"as": [SECRET]}), "as must be a name, and as-groups a list of names"),
        (config(user={"as": "a", "as-groups": SECRET}), "as must be a name, and as-groups a list of names"),
        (config(user={"auth-provider": {"name": "oidc"}}), "has 'auth-provider', which is not supported"),
    ],
)
def test_an_error_in_a_kubeconfig_does_not_quote_the_file(use: Any, content: Any, message: str) -> None:
    use(content)
    assert message in refused()


def test_a_missing_kubeconfig_of_the_environment_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    assert "/nowhere/config: no such file" in refused()


def test_a_folder_instead_of_a_kubeconfig_is_reported_as_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"/nowhere/config:{tmp_path}")
    assert f"KUBECONFIG names {tmp_path}: that is a folder; set it to a kubeconfig file" in refused()


def test_a_kubeconfig_given_by_flag_wins(use: Any, tmp_path: Path) -> None:
    use(config("a"))
    named = tmp_path / "named"
    named.write_text(json.dumps(config("b")))
    assert kubeconfig(file=named).cluster["server"] == "https://b:6443"
    with pytest.raises(CommandFailed, match="kubeconfig /nowhere does not exist; set KUBECONFIG or --kubeconfig"):
        kubeconfig(file=Path("/nowhere"))


def test_missing_files_of_unused_contexts_are_ignored(use: Any) -> None:
    use(config("a"), config("gone", cluster={"certificate-authority": "gone/ca.crt"}, user={"client-key": "gone/key"}))
    assert chosen() == ("https://a:6443", "default")
