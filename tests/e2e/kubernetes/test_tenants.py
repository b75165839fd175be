"""Attacks by a user who may write resources: to read a Secret through the operator, to make it connect to a forbidden
address, to see a password.
"""

from __future__ import annotations

import base64
import json
import socket
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkafeatures.api.names import CREDENTIALS
from tests.e2e.kafka.cli import run
from tests.e2e.kafka.test_security import listener, secrets
from tests.e2e.kubernetes.resources import NS, Resources, delete_all, install
from tests.e2e.rig.asking import listed_brokers
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.operator import USER, Operator
from tests.e2e.rig.listeners import USERS
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import MIDDLE, NEWEST

TRAP = "127.0.0.2"
UNLABELLED, ELSEWHERE = "canary-unlabelled-6e1f", "canary-elsewhere-a0b2"


@pytest.fixture(scope="module")
def operator(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    install(control_plane)
    denied = ("--deny-address", TRAP + "/32")
    with Operator(control_plane, tmp_path_factory.mktemp("operator"), flags=denied) as running:
        yield running


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(
        tmp_path_factory.mktemp("secured"),
        MIDDLE,
        kind="SCRAM-SHA-512",
        release_version="3.9",
        controllers=1,
        brokers=1,
    ) as running:
        yield running


@pytest.fixture
def resources(operator: Operator) -> Iterator[Resources]:
    yield Resources(operator.plane)
    delete_all(operator.plane)


def store(plane: ControlPlane, folder: Path, *, labelled: bool = True) -> None:
    """Each folder of keys as a Secret."""
    for one in folder.iterdir():
        data = {key.name: base64.b64encode(key.read_bytes()).decode() for key in one.iterdir()}
        metadata: dict[str, Any] = {"name": one.name, "namespace": NS}
        metadata["labels"] = {CREDENTIALS: "true"} if labelled else {}
        plane.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


def connection_of(cluster: Cluster) -> dict[str, Any]:
    return {
        "bootstrapServers": cluster.bootstrap_servers,
        "bootstrapControllers": cluster.bootstrap_controllers,
        "requestTimeout": "5s",
        "controllerListener": listener(cluster.controller_kind),
        **listener(cluster.kind),
    }


def test_a_secured_cluster_is_raised_with_labelled_secrets_and_a_rotated_secret_is_used(
    resources: Resources, secured: Cluster, operator: Operator, tmp_path: Path
) -> None:
    plane = resources.plane
    store(plane, secrets(tmp_path / "wrong", secured, password="canary-wrong-password-31cd"))
    resources.apply("secured", {"metadata.version": 22}, cluster=connection_of(secured))
    resources.until("secured", "Reachable", "AuthenticationFailed")
    store(plane, secrets(tmp_path / "right", secured))
    resources.wait("secured", "Ready")
    assert secured.features()["metadata.version"][2] == "4.0-IV0"
    assert_not_revealed(operator, *USERS.values(), "canary-wrong-password-31cd")


def test_a_secret_without_the_label_is_reported_like_a_missing_secret(
    resources: Resources, secured: Cluster, operator: Operator, tmp_path: Path
) -> None:
    plane = resources.plane
    there = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "exists", "namespace": NS}}
    plane.apply({**there, "stringData": {"username": "x", "password": UNLABELLED}})
    messages = set()
    for name in ("exists", "missing"):
        sasl = {"mechanism": "SCRAM-SHA-512", "secretRef": {"name": name}}
        cluster = {**connection_of(secured), "sasl": sasl, "tls": {}, "controllerListener": {}}
        resources.apply(name, {}, cluster=cluster)
        message = resources.until(name, "Reachable", "CredentialsInvalid")["message"]
        messages.add(message.replace(name, "NAME"))
    assert len(messages) == 1
    assert_not_revealed(operator, UNLABELLED)


def test_a_zookeeper_digest_secret_without_the_label_reads_as_if_there_were_none(
    resources: Resources, operator: Operator
) -> None:
    """No connection to the ensemble is made."""
    plane = resources.plane
    there = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "digest", "namespace": NS}}
    plane.apply({**there, "stringData": {"username": "x", "password": UNLABELLED}})
    messages = set()
    with socket.create_server(("127.0.0.1", 0)) as ensemble:
        ensemble.setblocking(False)
        for name in ("digest", "missing"):
            zookeeper = {"connect": f"127.0.0.1:{ensemble.getsockname()[1]}", "digestSecretRef": {"name": name}}
            cluster = {"bootstrapServers": "127.0.0.1:1", "zookeeper": zookeeper}
            resources.apply(name, {}, cluster=cluster, migration={"desired": "PreMigration"})
            message = resources.until(name, "Reachable", "CredentialsInvalid")["message"]
            messages.add(message.replace(name, "NAME"))
        with pytest.raises(BlockingIOError):  # no connection is waiting
            ensemble.accept()
    assert len(messages) == 1
    assert f'{CREDENTIALS}: "true"' in messages.pop()
    assert_not_revealed(operator, UNLABELLED)


def test_no_reference_reads_an_object_of_another_namespace(resources: Resources, operator: Operator) -> None:
    plane = resources.plane
    plane.kubectl("create", "namespace", "elsewhere")
    metadata = {"name": "login", "namespace": "elsewhere", "labels": {CREDENTIALS: "true"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": ELSEWHERE}}
    plane.apply(secret)
    for name in ("elsewhere/login", "../elsewhere/login", "login?namespace=elsewhere"):
        sasl = {"mechanism": "PLAIN", "secretRef": {"name": name}}
        resources.apply("thief", {}, cluster={"bootstrapServers": "a:1", "tls": {}, "sasl": sasl})
        assert "secretRef.name" in resources.until("thief", "Stalled", "InvalidSpec")["message"]
    sasl = {"mechanism": "PLAIN", "secretRef": {"name": "login", "namespace": "elsewhere"}}
    document = resources.document("thief", {}, cluster={"bootstrapServers": "a:1", "tls": {}, "sasl": sasl})
    assert "unknown field" in refused(plane, document)
    assert plane.audit.rows(resource="secrets", user=USER, namespace="elsewhere") == []
    assert_not_revealed(operator, ELSEWHERE)


def refused(plane: ControlPlane, document: dict[str, Any]) -> str:
    try:
        plane.kubectl("create", "--validate=strict", "-f", "-", input=json.dumps(document))
    except AssertionError as error:
        return str(error)
    raise AssertionError(f"it took {document}")


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
def test_a_login_that_would_reveal_the_secret_is_refused_without_tls(resources: Resources, mechanism: str) -> None:
    sasl = {"mechanism": mechanism, "secretRef": {"name": "login"}}
    for cluster in ({"sasl": sasl}, {"controllerListener": {"sasl": sasl}}):
        resources.apply("open", {}, cluster={"bootstrapServers": "a:1", **cluster})
        condition = resources.until("open", "Stalled", "InvalidSpec")
        assert f"{mechanism} without TLS" in condition["message"]


@pytest.mark.parametrize("address", ["169.254.169.254:80", "[fe80::1]:80", "2852039166:80", "[::ffff:a9fe:a9fe]:80"])
def test_a_forbidden_address_is_refused(resources: Resources, address: str) -> None:
    resources.apply("ssrf", {}, cluster={"bootstrapServers": address})
    condition = resources.until("ssrf", "Reachable", "AddressRefused")
    assert "the operator's settings do not allow this address" in condition["message"]


def test_the_address_of_the_api_server_is_refused(resources: Resources) -> None:
    resources.apply("probe", {}, cluster={"bootstrapServers": f"127.0.0.1:{resources.plane.port}"})
    resources.until("probe", "Reachable", "AddressRefused")


@pytest.mark.parametrize("tls", [False, True], ids=["plaintext", "tls"])
def test_the_api_server_is_refused_at_another_address_of_its_node(resources: Resources, tls: bool) -> None:
    """The API server listens on all addresses of its node, and no list of ours has them."""
    cluster: dict[str, Any] = {"bootstrapServers": f"127.0.0.3:{resources.plane.port}"}
    if tls:  # everybody has the CA of the API server
        metadata = {"name": "root-ca", "namespace": resources.namespace}
        data = {"ca.crt": resources.plane.authority.ca.read_text()}
        resources.plane.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        cluster["tls"] = {"caConfigMapRef": {"name": "root-ca"}}
    resources.apply(f"node-{tls}".lower(), {}, cluster=cluster)
    resources.until(f"node-{tls}".lower(), "Reachable", "AddressRefused")


def test_no_connection_is_made_to_a_denied_address_that_a_broker_advertises(
    resources: Resources, tmp_path: Path
) -> None:
    """The owner of a broker decides which address it advertises: here a denied one, at which a trap listens."""
    cluster = Cluster(tmp_path / "kafka", NEWEST, controllers=1, brokers=2)
    address = f"127.0.0.1:{cluster.nodes[1].port}"
    with socket.create_server((TRAP, 0)) as trap:
        trap.setblocking(False)
        cluster.nodes[2].extra["advertised.listeners"] = f"CLIENT://{TRAP}:{trap.getsockname()[1]}"
        with cluster:
            assert 2 in listed_brokers(cluster.nodes[1].port)
            run("describe", "--bootstrap-server", address, "--request-timeout", "4")
            trap.accept()[0].close()  # the command line, which denies no address, does connect to the trap
            with pytest.raises(BlockingIOError):  # no further connection is waiting
                trap.accept()

            resources.apply("redirect", {"group.version": 1}, cluster={"bootstrapServers": address})
            wait_until("it was looked at", lambda: resources.status("redirect").get("features"))
            with pytest.raises(BlockingIOError):
                trap.accept()


def assert_not_revealed(operator: Operator, *secrets_: str) -> None:
    """None of these secrets is in the log, a metric, a resource or an Event, neither as it is nor in an encoding that
    can be reversed.
    """
    everything = operator.log + operator.asked("/metrics")[1]
    everything += operator.plane.kubectl("get", "kff,events.events.k8s.io", "-A", "-o", "json")
    for secret in secrets_:
        raw = secret.encode()
        forms = [
            secret,
            base64.b64encode(raw).decode(),
            urllib.parse.quote(secret),
            raw.hex(),
            json.dumps(secret)[1:-1],
        ]
        assert not [form for form in forms if form in everything]
