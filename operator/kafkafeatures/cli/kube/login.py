"""Credentials for requests to the API server: a token, a token file, or an exec plugin (as in a kubeconfig).

The library `requests` calls a Login for every request. pykube-ng's own support is not used, since version 23.6 has no
`tokenFile`, runs a plugin for every request (v1beta1 at most, without KUBERNETES_EXEC_INFO), prints the plugin's
arguments when it fails, and sends tokens over plain http and to targets of redirects. No credential is part of an error
or of a `repr`.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.requests import note

PLUGIN_SECONDS = 120
"""Time limit of a plugin: some open a browser and wait for a person."""
_EARLY = timedelta(seconds=10)
"""A plugin is run again this long before its credentials expire, so that no request is sent with expired ones."""
_CLUSTER_INFO = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")
"""Keys of a cluster that a plugin gets, if it asks for them."""


class Login:
    """Authenticates `user` at `cluster`, both as in a kubeconfig. `present`: called with the certificate and key of a
    plugin, as PEM.
    """

    def __init__(
        self, cluster: Mapping[str, Any], user: Mapping[str, Any], present: Callable[[str, str], None]
    ) -> None:
        self._cluster, self._user = cluster, user
        self._present = present
        self._plugin_status: Mapping[str, Any] = {}  # the credentials of the plugin; empty until it was run

    def __call__(self, request: Any) -> Any:
        """Add the token and the user to impersonate to a request. A session must have such an object even without a
        token, since `requests` would use ~/.netrc otherwise.
        """
        note(f"> {request.method} {request.url}")
        token = self._token()
        if token and not request.url.startswith("https:"):
            raise _refused(f"{self._cluster['server']} is not https; a token is not sent there", Exit.USAGE)
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        if self._user.get("as"):
            request.headers = self._impersonating(request.headers)
        return request

    def _impersonating(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Headers with the user to impersonate. Each group has a header Impersonate-Group, which a dict cannot have."""
        from urllib3 import HTTPHeaderDict

        acting = HTTPHeaderDict(headers)
        acting["Impersonate-User"] = self._user["as"]
        for group in self._user.get("as-groups") or ():
            acting.add("Impersonate-Group", str(group))
        return acting

    def forget(self) -> None:
        """Drop the plugin's credentials, which the server refused, so that it is run again."""
        self._plugin_status = {}

    def _token(self) -> str:
        """The token of the user; empty if it has none, or logs in with a certificate. As kubectl does, a token file
        counts before a token, and a token before a plugin.
        """
        user = self._user
        if user.get("tokenFile"):
            try:
                return Path(user["tokenFile"]).read_text().strip()
            except OSError as error:
                raise _refused(f"the token file {user['tokenFile']}: {error.strerror}", Exit.USAGE) from None
            except UnicodeDecodeError:  # its text would quote the token
                raise _refused(
                    f"the token file {user['tokenFile']} is not text in UTF-8; log in again, or name another tokenFile",
                    Exit.USAGE,
                ) from None
        if user.get("token") or "exec" not in user:
            return str(user.get("token") or "")
        if not self._plugin_status or _expires_soon(self._plugin_status):
            self._plugin_status = _run_plugin(user["exec"], self._cluster)
            if self._plugin_status.get("clientCertificateData"):
                self._present(
                    self._plugin_status["clientCertificateData"], self._plugin_status.get("clientKeyData", "")
                )
        return str(self._plugin_status.get("token") or "")


def _expires_soon(status: Mapping[str, Any]) -> bool:
    until = status.get("expirationTimestamp")
    return bool(until) and datetime.fromisoformat(str(until)) - _EARLY <= datetime.now(UTC)


def _run_plugin(plugin: Mapping[str, Any], cluster: Mapping[str, Any]) -> Mapping[str, Any]:
    """Run a plugin. Returns the `status` of its ExecCredential, with the credentials.
    https://kubernetes.io/docs/reference/config-api/client-authentication.v1/
    """
    interactive = sys.stdin.isatty() and plugin.get("interactiveMode") != "Never"
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = {key: cluster[key] for key in _CLUSTER_INFO if key in cluster}
        if "certificate-authority" in cluster and "certificate-authority-data" not in cluster:
            authority = Path(cluster["certificate-authority"]).read_bytes()
            spec["cluster"]["certificate-authority-data"] = base64.b64encode(authority).decode()
    info = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential", "spec": spec}
    command = plugin["command"]
    environment = _environment(plugin)
    try:
        done = subprocess.run(  # noqa: S603 - the kubeconfig's own command, without a shell, as kubectl runs it
            [command, *(plugin.get("args") or ())],
            env={**os.environ, **environment, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=PLUGIN_SECONDS,
            check=False,
        )
    except OSError as error:
        hint = f"; {plugin['installHint'].strip().splitlines()[0]}" if plugin.get("installHint") else ""
        raise _refused(f"the login plugin {command} cannot be run: {error.strerror}{hint}") from None
    except subprocess.TimeoutExpired:
        raise _refused(f"the login plugin {command} gave no answer in {PLUGIN_SECONDS} s") from None
    if done.returncode:
        raise _refused(f"the login plugin {command} failed with exit code {done.returncode}; log in again") from None
    try:
        status = dict(json.loads(done.stdout)["status"])
    except (KeyError, TypeError, ValueError):
        raise _refused(f"the login plugin {command} did not answer with an ExecCredential; log in again") from None
    return status


def _environment(plugin: Mapping[str, Any]) -> dict[str, str]:
    """Environment that the kubeconfig adds to ours. An invalid entry is refused, as kubectl does."""
    environment: dict[str, str] = {}
    for number, entry in enumerate(plugin.get("env") or (), start=1):
        name, value = (entry.get("name"), entry.get("value")) if isinstance(entry, Mapping) else (None, None)
        if not isinstance(name, str) or not name or not isinstance(value, str):
            label = f"{name!r}" if isinstance(name, str) and name else f"number {number}"
            raise _refused(
                f"the login plugin {plugin['command']}: env entry {label} needs a name and a value that are texts; "
                "set both in the kubeconfig",
                Exit.USAGE,
            )
        environment[name] = value
    return environment


def _refused(text: str, code: Exit = Exit.UNREACHABLE) -> CommandFailed:
    return CommandFailed(text, code)
