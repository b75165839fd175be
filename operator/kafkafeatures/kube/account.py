"""Which API server, and who we are to it: the account of the pod, or a kubeconfig outside of one.

Called by `kube/connection.py` and, for the watches, by `handlers.py`. The library that reads kubeconfigs, with their
login plugins, is imported where there is one: it takes more memory than all else that speaks to the API server.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import NamedTuple

from kafkafeatures.kube.errors import NoAccount

POD_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""kubelet renews the token in there in good time."""


def in_pod() -> bool:
    """Whether the account of a pod is to be used."""
    return "KUBECONFIG" not in os.environ and (POD_ACCOUNT / "token").exists()


class Account(NamedTuple):
    """Who we are to the API server, and where it is."""

    server: str
    ca_path: str | None = None
    certificate_path: str | None = None
    private_key_path: str | None = None
    token: str | None = None
    insecure: bool = False
    proxy: str | None = None
    server_name: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """That say who we are."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def context(self) -> ssl.SSLContext:
        """For connections. Raises OSError where a file cannot be used."""
        made = ssl.create_default_context(cafile=self.ca_path)
        if self.certificate_path:
            made.load_cert_chain(self.certificate_path, self.private_key_path)
        if self.insecure:
            made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
        return made


async def account() -> Account:
    """As the files say now, which change. Raises NoAccount."""
    return _of_pod() if in_pod() else await _of_kubeconfig()


def _of_pod() -> Account:
    try:
        host, port = (os.environ[f"KUBERNETES_SERVICE_{part}"] for part in ("HOST", "PORT"))
        token = (POD_ACCOUNT / "token").read_text().strip()
        ca = POD_ACCOUNT / "ca.crt"
        if not token or not ca.read_text().strip():
            raise _unknown(f"the token or the CA in {POD_ACCOUNT} is empty")
    except KeyError as unset:
        raise _unknown(f"{unset.args[0]} is not set") from None
    except (OSError, ValueError) as error:
        raise _unknown(str(error)) from None
    return Account(f"https://{f'[{host}]' if ':' in host else host}:{port}", str(ca), token=token)


async def _of_kubeconfig() -> Account:
    from kubernetes.aio import client, config

    found = client.Configuration()
    try:
        await config.load_kube_config(client_configuration=found)  # type: ignore[no-untyped-call]  # theirs
    except Exception as error:  # a file that is no kubeconfig raises whatever their loader stumbles over
        where = os.environ.get("KUBECONFIG") or "~/.kube/config"
        why = str(error).partition("\n")[0] or type(error).__name__
        raise _unknown(f"{why}; run it in a pod, or check {where} (KUBECONFIG)") from None
    token = found.api_key.get("BearerToken", "").partition(" ")[2]
    files = found.ssl_ca_cert, found.cert_file, found.key_file
    return Account(found.host, *files, token or None, not found.verify_ssl, found.proxy, found.tls_server_name)


def _unknown(why: str) -> NoAccount:
    return NoAccount(f"no API server: {why}")
