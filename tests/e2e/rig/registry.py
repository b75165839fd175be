"""A real registry of images on this machine, over TLS, which asks for a login: as one that a release is pushed to.

    with registry(tmp_path, authority, "127.0.0.1") as running:
        run("skopeo", "copy", "oci:image", f"docker://{running.address}/image", env=running.environment)

Programs written in Go take the authority from SSL_CERT_FILE and the login from a file, so that none of them needs a
flag for this registry.
"""

from __future__ import annotations

import json
import shutil
import socket
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.rig.kubernetes.binaries import binary, build
from tests.e2e.rig.kubernetes.certificates import Authority
from tests.e2e.rig.process import ENVIRONMENT, Daemon, free_port

USER, PASSWORD = "tester", "the-password-of-the-tests"
_HASH = "$2b$05$abcdefghijklmnopqrstuuDu2u9Yn1ygA.DtdLIqFW5SChF1hEbCS"
"""bcrypt of the password, which is all that the registry understands."""


@dataclass(frozen=True)
class Registry:
    """address: HOST:PORT. authority: the file with the certificate to trust. login: a file as Docker writes it."""

    address: str
    authority: Path
    login: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """For programs that push and pull: whom to trust, and the login."""
        return {
            "SSL_CERT_FILE": str(self.authority),
            "REGISTRY_AUTH_FILE": str(self.login),
            "HELM_REGISTRY_CONFIG": str(self.login),
            "DOCKER_CONFIG": str(self.login.parent),
        }


@contextmanager
def registry(folder: Path, authority: Authority, host: str) -> Iterator[Registry]:
    """Running at an address of this machine; stopped and emptied at the end."""
    build(["registry"])
    port, storage, login = free_port(), folder / "images", folder / "login" / "config.json"
    for each in (storage, login.parent):
        each.mkdir(parents=True)
    certificate, key = authority.issue("registry", host)
    (folder / "users").write_text(f"{USER}:{_HASH}\n")
    settings = {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(storage)}},
        "auth": {"htpasswd": {"realm": "rig", "path": str(folder / "users")}},
        "http": {"addr": f"{host}:{port}", "tls": {"certificate": str(certificate), "key": str(key)}},
    }
    (folder / "registry.json").write_text(json.dumps(settings))  # JSON is YAML as well
    login.write_text(json.dumps({"auths": {f"{host}:{port}": {"auth": b64encode(_login()).decode()}}}))

    def ready() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((host, port)) == 0

    command: list[str | Path] = [binary("registry"), "serve", folder / "registry.json"]
    daemon = Daemon(command, folder / "registry.log", ready, {**ENVIRONMENT, "OTEL_TRACES_EXPORTER": "none"})
    daemon.start()
    try:
        yield Registry(f"{host}:{port}", authority.ca, login)
    finally:
        daemon.kill()
        shutil.rmtree(storage)


def _login() -> bytes:
    return f"{USER}:{PASSWORD}".encode()
