"""Losses between the operator and the API server, after which it continues: a silent connection, an expired token, a
deleted CRD, a deleted namespace.
"""

from __future__ import annotations

import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from tests.e2e.kubernetes.resources import Resources, delete_all, install
from tests.e2e.rig.kubernetes.cluster import LOOPBACK, ControlPlane
from tests.e2e.rig.kubernetes.operator import ACCOUNT, NAMESPACE, Operator
from tests.e2e.rig.process import wait_until

CLUSTER = {"bootstrapServers": "127.0.0.1:9092"}
CRD = "kafkafeatures.kafkafeatures.dev"
EXEC = "client.authentication.k8s.io/v1"
ACCOUNTS = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@pytest.fixture
def resources(control_plane: ControlPlane) -> Iterator[Resources]:
    install(control_plane)
    yield Resources(control_plane)
    delete_all(control_plane)


class Relay:
    """Stands between the operator and the API server. On request it goes quiet: connections stay open and carry
    nothing.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server((LOOPBACK, 0))
        self._quiet: list[threading.Event] = []
        self.port = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)

    def go_quiet(self) -> None:
        """Let the connections that are open now carry nothing any more. Later ones work."""
        for one in self._quiet:
            one.set()

    def _accept(self) -> None:
        with self._listener, suppress(OSError):  # which ends it
            while True:
                ours, _ = self._listener.accept()
                self._quiet.append(quiet := threading.Event())
                threading.Thread(target=self._carry, args=(ours, quiet), daemon=True).start()

    def _carry(self, ours: socket.socket, quiet: threading.Event) -> None:
        with ours, socket.create_connection((LOOPBACK, self._target)) as theirs:
            back = threading.Thread(target=_pump, args=(theirs, ours, quiet), daemon=True)
            back.start()
            _pump(ours, theirs, quiet)
            back.join()


def _pump(source: socket.socket, sink: socket.socket, quiet: threading.Event) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            if not quiet.is_set():
                sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)


def test_a_watch_on_a_silent_connection_is_restarted(
    resources: Resources, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """A connection that neither side ended and that carries nothing, as a firewall leaves it behind. No Kafka runs, so
    BootstrapUnreachable in a status is the sign that the operator has received the resource.
    """
    token = control_plane.token(NAMESPACE, ACCOUNT)
    with Relay(control_plane.port) as relay:
        server = f"https://{LOOPBACK}:{relay.port}"
        kubeconfig = control_plane.authority.token_kubeconfig("relayed", server, token, NAMESPACE)
        with Operator(control_plane, tmp_path / "operator", kubeconfig=kubeconfig) as operator:
            for name in ("listed", "watched"):
                resources.apply(name, {"share.version": 1}, cluster=CLUSTER)
                resources.until(name, "Reachable", "BootstrapUnreachable")
            relay.go_quiet()
            resources.apply("unseen", {"share.version": 1}, cluster=CLUSTER)
            resources.until("unseen", "Reachable", "BootstrapUnreachable", seconds=200)
            assert operator.alive


def test_an_expired_token_is_replaced_by_the_token_that_kubelet_wrote(
    resources: Resources, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """The operator runs as in a pod: in a mount namespace with the files of its account."""
    account = tmp_path / "account"
    account.mkdir()
    shutil.copy(control_plane.authority.ca, account / "ca.crt")
    (account / "namespace").write_text(NAMESPACE)

    def token(bound_to: str) -> str:
        """A token that ends with the Secret that it is bound to; by time none ends before ten minutes."""
        control_plane.kubectl("create", "secret", "generic", bound_to, "-n", NAMESPACE)
        bound = ("--bound-object-kind=Secret", f"--bound-object-name={bound_to}")
        return control_plane.token(NAMESPACE, ACCOUNT, *bound)

    (account / "token").write_text(token("first"))
    mount = f"mount -t tmpfs none /run && mkdir -p {ACCOUNTS} && mount --bind {account} {ACCOUNTS}"
    host = f"KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT={control_plane.port}"
    script = f'{mount} && unset KUBECONFIG && {host} exec "$0" "$@"'
    before = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script)
    with Operator(control_plane, tmp_path / "operator", before=before) as operator:
        resources.apply("orders", {"share.version": 1}, cluster=CLUSTER)
        resources.until("orders", "Reachable", "AddressRefused")  # in a pod, loopback is no cluster's address
        control_plane.kubectl("delete", "secret", "first", "-n", NAMESPACE)
        control_plane.api_server.kill()  # or the watch would continue: a token counts when a connection begins
        control_plane.api_server.start()
        wait_until("it is refused", lambda: operator.log.count("401") > 3)
        (account / "next").write_text(token("second"))
        (account / "next").replace(account / "token")
        resources.apply("later", {"share.version": 1}, cluster=CLUSTER)
        resources.until("later", "Reachable", "AddressRefused")
        assert operator.alive


def test_a_crd_that_is_installed_later_or_again_is_watched(
    resources: Resources, control_plane: ControlPlane, tmp_path: Path
) -> None:
    operator = Operator(control_plane, tmp_path / "operator")
    control_plane.kubectl("delete", "crd", CRD, "--timeout=30s")
    operator.start(wait=False)
    try:
        wait_until("it asked", lambda: "could not be listed" in operator.log)
        assert operator.asked("/readyz")[0] == 503
        install(control_plane)
        operator.wait_ready()
        resources.apply("later", {"share.version": 1}, cluster=CLUSTER)
        resources.until("later", "Reachable", "BootstrapUnreachable")
        control_plane.kubectl("delete", "crd", CRD, "--timeout=30s")
        wait_until("it noticed", lambda: operator.log.count("could not be listed") > 1)
        install(control_plane)
        resources.apply("anew", {"share.version": 1}, cluster=CLUSTER)
        resources.until("anew", "Reachable", "BootstrapUnreachable")
    finally:
        operator.kill()
        install(control_plane)


def test_a_login_plugin_of_the_kubeconfig_authenticates_the_watch(
    resources: Resources, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """A credential plugin, which the kubeconfigs of cloud providers have."""
    token = control_plane.token(NAMESPACE, ACCOUNT)
    credential = {"apiVersion": EXEC, "kind": "ExecCredential", "status": {"token": token}}
    (tmp_path / "credential").write_text(json.dumps(credential))
    content = json.loads(control_plane.authority.token_kubeconfig("plugin", control_plane.server, "", "").read_text())
    plugin = {"command": "cat", "args": [str(tmp_path / "credential")], "interactiveMode": "Never"}
    content["users"][0]["user"] = {"exec": {"apiVersion": EXEC, **plugin}}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(content))
    with Operator(control_plane, tmp_path / "operator", kubeconfig=kubeconfig):
        for name in ("listed", "watched"):
            resources.apply(name, {"share.version": 1}, cluster=CLUSTER)
            resources.until(name, "Reachable", "BootstrapUnreachable")


def test_the_deletion_of_a_watched_namespace_does_not_stop_the_watch_of_another(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """With rights in two namespaces and nowhere else, as the chart gives them for `watchNamespaces`."""
    account, rbac = "two", "rbac.authorization.k8s.io"
    install(control_plane)
    for name in ("aa", "bb"):
        role = {"apiGroup": rbac, "kind": "ClusterRole", "name": "kafka-features-operator"}
        subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
        binding = {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding", "metadata": {"name": account, "namespace": name}}
        control_plane.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": NAMESPACE}},
            {**binding, "roleRef": role, "subjects": [subject]},
        )
    here, there = Resources(control_plane, namespace="aa"), Resources(control_plane, namespace="bb")
    kubeconfig = control_plane.kubeconfig_of(NAMESPACE, account)
    with Operator(control_plane, tmp_path / "operator", "aa", "bb", kubeconfig=kubeconfig) as operator:
        for one in (here, there):
            one.apply("before", {"share.version": 1}, cluster=CLUSTER)
            one.until("before", "Reachable", "BootstrapUnreachable")
        control_plane.kubectl("delete", "namespace", "bb", "--timeout=120s")
        control_plane.api_server.kill()  # or the watch would continue: a right counts when a request begins
        control_plane.api_server.start()
        lost = 'kafkafeatures_watched{namespace="bb"} 0.0'
        wait_until("it says what is missing", lambda: lost in operator.asked("/metrics")[1])
        wait_until("it is ready for the other", lambda: operator.asked("/readyz")[0] == 200)
        assert 'kafkafeatures_watched{namespace="aa"} 1.0' in operator.asked("/metrics")[1]
        for series in ('kafkafeatures_api_server_requests_total{code="200"}', "process_resident_memory_bytes"):
            assert series in operator.asked("/metrics")[1]
        here.apply("after", {"share.version": 1}, cluster=CLUSTER)
        here.until("after", "Reachable", "BootstrapUnreachable")
        assert operator.asked("/healthz")[0] == 200
    control_plane.kubectl("delete", "namespace", "aa", "--timeout=180s")
