"""A real API server with etcd and the controllers, as plain processes on loopback: no node, so no pod ever runs.

    with ControlPlane(tmp_path) as plane:
        plane.kubectl("create", "namespace", "kafka")
        plane.api_server.kill(); plane.api_server.start()       # also stop, freeze, thaw; on the same port
        plane.audit.rows(resource="namespaces", verb="create")

Nothing outlives the test process, and nothing is kept: each has its own ports, keys and state. RBAC is on. It binds and
advertises `address`; only a node's network gives it another one than loopback.
"""

from __future__ import annotations

import json
import shutil
import ssl
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from threading import Lock
from typing import Any, Self

from tests.e2e.rig.kubernetes.audit import POLICY, AuditLog
from tests.e2e.rig.kubernetes.binaries import CONTROL_PLANE, binary, build
from tests.e2e.rig.kubernetes.certificates import KUBERNETES_NAMES, Authority
from tests.e2e.rig.kubernetes.tools import Tools
from tests.e2e.rig.process import Daemon, free_port, wait_until

LOOPBACK = "127.0.0.1"
SERVICES = "198.19.100"  # /24 of Services; its first address is the API server's
SECONDS = 90


class ControlPlane(Tools):
    """See the prologue."""

    def __init__(self, folder: Path, address: str = LOOPBACK) -> None:
        build(CONTROL_PLANE)
        folder.mkdir(parents=True, exist_ok=True)
        self.address, self.port = address, free_port()
        self.authority = Authority(folder / "pki")
        admin = self.authority.kubeconfig("admin", self.server, group="system:masters")
        super().__init__(folder, admin, AuditLog(folder / "audit.log"))
        self._trust = self._trusted()
        self._connection: HTTPSConnection | None = None
        self._is_reading = Lock()
        self._etcd_url = f"http://{LOOPBACK}:{free_port()}"
        self.etcd = Daemon(self._etcd_command(), folder / "etcd.log")
        self.api_server = Daemon(self._api_server_command(), folder / "api-server.log", self.ready)
        self.controllers = Daemon(self._controllers_command(), folder / "controllers.log")

    @property
    def server(self) -> str:
        return f"https://{self.address}:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def start(self) -> None:
        try:
            self.etcd.start()
            self.api_server.start()
            self.controllers.start()
            self.wait_for_controllers()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """The state goes, the logs stay."""
        for daemon in (self.controllers, self.api_server, self.etcd):
            daemon.kill()
        if self._connection is not None:
            self._connection.close()
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    # --- for tests ---

    def heal(self) -> None:
        """Make every part run again, whatever a test did to it."""
        for daemon in (self.etcd, self.api_server, self.controllers):
            daemon.heal()
        wait_until("the API server is well", self.ready)

    def snapshot(self) -> Path:
        """What etcd holds now; for `restore`. Nothing can be written meanwhile."""
        copy = self.folder / "etcd-snapshot"
        self.etcd.stop()
        shutil.copytree(self.folder / "etcd", copy)
        self.etcd.start()
        wait_until("the API server is well", self.ready)
        return copy

    def restore(self, copy: Path) -> None:
        """Restore everything as it was when the copy was made, in the order that etcd's documentation asks for."""
        for daemon in (self.controllers, self.api_server, self.etcd):
            daemon.stop()
        shutil.rmtree(self.folder / "etcd")
        shutil.move(copy, self.folder / "etcd")
        self.start()

    def ready(self) -> bool:
        with self._is_reading:
            return self._ask("/readyz") == b"ok"

    def read(self, path: str) -> dict[str, Any]:
        """What is at a path of the API; empty if nothing is, or no answer comes. To look often, from any thread:
        kubectl takes longer.
        """
        with self._is_reading:
            found: dict[str, Any] = json.loads(self._ask(path) or "{}")
        return found

    def send(self, method: str, path: str, body: dict[str, Any], kind: str = "application/json") -> int:
        """One request with a body, and the code of the answer; from any thread, on a connection of its own."""
        with closing(HTTPSConnection(self.address, self.port, timeout=30, context=self._trust)) as to:
            to.request(method, path, json.dumps(body), {"Content-Type": kind})
            return to.getresponse().status

    def kubeconfig_of(self, namespace: str, service_account: str) -> Path:
        """To act with the rights of a service account, from outside of pods."""
        token = self.token(namespace, service_account, "--duration=24h")
        return self.authority.token_kubeconfig(f"{namespace}-{service_account}", self.server, token, namespace)

    # --- commands ---

    def _etcd_command(self) -> list[str | Path]:
        peer = f"http://{LOOPBACK}:{free_port()}"
        return [
            binary("etcd"),
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            *(f"--listen-client-urls={self._etcd_url}", f"--advertise-client-urls={self._etcd_url}"),
            *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"),
            f"--initial-cluster=default={peer}",
        ]

    def _api_server_command(self) -> list[str | Path]:
        pki = self.authority.folder
        names = (self.address, LOOPBACK, f"{SERVICES}.1", "localhost", *KUBERNETES_NAMES)
        certificate, key = self.authority.issue("api-server", *dict.fromkeys(names))
        to_kubelet, to_kubelet_key = self.authority.issue("to-kubelet", group="system:masters")
        return [
            binary("kube-apiserver"),
            f"--etcd-servers={self._etcd_url}",
            *("--bind-address=0.0.0.0", f"--secure-port={self.port}"),  # all addresses, as installers have it
            *self._advertised(),
            *(
                f"--client-ca-file={self.authority.ca}",
                f"--tls-cert-file={certificate}",
                f"--tls-private-key-file={key}",
            ),
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki / 'tokens.pub'}",
            f"--service-account-signing-key-file={pki / 'tokens.key'}",
            *("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"),
            *(f"--service-cluster-ip-range={SERVICES}.0/24", "--allow-privileged=true"),
            *(f"--kubelet-client-certificate={to_kubelet}", f"--kubelet-client-key={to_kubelet_key}"),
            "--kubelet-preferred-address-types=InternalIP",
            "--shutdown-watch-termination-grace-period=1s",  # or a SIGTERM waits a minute for watches
            *(f"--audit-policy-file={POLICY}", f"--audit-log-path={self.audit.path}", "--audit-log-maxsize=10000"),
        ]

    def _advertised(self) -> list[str]:
        """A loopback address may not be an endpoint: without a node the Service `kubernetes` has none."""
        reconciler = ["--endpoint-reconciler-type=none"] if self.address == LOOPBACK else []
        return [f"--advertise-address={self.address}", *reconciler]

    def _controllers_command(self) -> list[str | Path]:
        user = "system:kube-controller-manager"
        return [
            binary("kube-controller-manager"),
            f"--kubeconfig={self.authority.kubeconfig('controllers', self.server, user=user)}",
            f"--service-account-private-key-file={self.authority.folder / 'tokens.key'}",
            f"--root-ca-file={self.authority.ca}",
            *("--use-service-account-credentials=true", "--leader-elect=false"),
            *(f"--bind-address={LOOPBACK}", f"--secure-port={free_port()}"),
            "--controllers=*,-node-ipam-controller",
            # Each controller asks for an account of its own first: at 20 requests a second that takes five seconds.
            *("--kube-api-qps=1000", "--kube-api-burst=1000"),
        ]

    def _ask(self, path: str) -> bytes:
        """On a connection that is kept, so that looking often costs little; on a new one where that was ended."""
        kept, self._connection = self._connection, None
        to = kept or HTTPSConnection(self.address, self.port, timeout=5, context=self._trust)
        try:
            to.request("GET", path)
            answer = to.getresponse()
            found = answer.read()
        except (OSError, HTTPException) as error:
            to.close()
            return self._ask(path) if kept and not isinstance(error, TimeoutError) else b""
        self._connection = to
        return found if answer.status == HTTPStatus.OK else b""

    def _trusted(self) -> ssl.SSLContext:
        """A TLS context with the administrator's certificate."""
        context = ssl.create_default_context(cafile=self.authority.ca)
        context.load_cert_chain(self.authority.folder / "admin.crt", self.authority.folder / "admin.key")
        return context
