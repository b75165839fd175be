"""`describe --strimzi` and `init --strimzi`: the first minute with a cluster that Strimzi manages."""

from __future__ import annotations

import argparse
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkafeatures.api.document import read_document
from kafkafeatures.api.names import CREDENTIALS
from kafkafeatures.api.spec import ClusterSpec, StrimziSpec
from kafkafeatures.cli.cluster.connect import add_connection_flags, settings_from_flags
from kafkafeatures.cli.kube.api import Kube
from kafkafeatures.cli.kube.config import kubeconfig
from kafkafeatures.cli.kube.strimzi import pods_of_strimzi
from kafkafeatures.cli.kube.strimzi_settings import settings_of_strimzi
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.main import main
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.facts.workloads import WorkloadsReading
from kafkafeatures.kafka.base.settings import Address, ClusterSettings, Sasl
from kafkafeatures.kafka.wire.pem import Tls
from tests.e2e.rig.certificates import Certificates
from tests.simulated.http import served, written_kubeconfig
from tests.simulated.kubernetes import ApiServer

CERTIFICATES = Certificates()
CERTIFICATE, PRIVATE_KEY = CERTIFICATES.client("kafka-features")
TLS, SCRAM = "tls", "scram-sha-512"
KAFKA, SECRETS = "/apis/kafka.strimzi.io/v1/namespaces/kafka/kafkas/orders", "/api/v1/namespaces/kafka/secrets"
LABEL = {CREDENTIALS: "true"}


class Namespace:
    """A namespace with a `Kafka`, and what Strimzi writes for it."""

    def __init__(self) -> None:
        self.api = ApiServer()
        self.kafka()
        self.secret("orders-trustbundle", {"cluster-ca.crt": CERTIFICATES.ca}, owner="uid")

    def kafka(self, *logins: str, shown: str = "127.0.0.1:1", **more: Any) -> None:
        """The `Kafka`, with a listener for each type of authentication."""
        listeners = [
            {"name": login[:5], "port": 9093, "type": "internal", "tls": True, "authentication": {"type": login}}
            for login in logins or (TLS,)
        ]
        status = {"listeners": [{"name": one["name"], "bootstrapServers": shown} for one in listeners] if shown else []}
        spec = {"kafka": {"version": "4.3.1", "listeners": listeners, **more}}
        metadata = {"namespace": "kafka", "name": "orders", "uid": "uid", "generation": 1}
        self.api.store(KAFKA, {"metadata": metadata, "spec": spec, "status": status})

    def user(self, *, password: str = "", labels: dict[str, str] | None = None) -> None:
        texts = {"password": password} if password else {"user.crt": CERTIFICATE, "user.key": PRIVATE_KEY}
        self.secret("kafka-features", texts, labels=labels or {})

    def secret(
        self, name: str, texts: dict[str, str], *, owner: str = "", labels: dict[str, str] | None = None
    ) -> None:
        metadata = {"namespace": "kafka", "name": name, "uid": name, "labels": labels or {}}
        owners = [{"kind": "Kafka", "name": "orders", "uid": owner}] if owner else []
        data = {key: b64encode(text.encode(errors="surrogateescape")).decode() for key, text in texts.items()}
        self.api.store(f"{SECRETS}/{name}", {"metadata": metadata | {"ownerReferences": owners}, "data": data})

    def keys_that_do_not_fit(self) -> None:
        """The Secret for the controllers has a certificate and the key of another one."""
        self.user()
        self.secret("admin", {"tls.crt": CERTIFICATE, "tls.key": CERTIFICATES.client("other")[1]})


@pytest.fixture
def namespace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Namespace]:
    namespace = Namespace()
    with served(namespace.api) as address:
        monkeypatch.setenv("KUBECONFIG", str(written_kubeconfig(tmp_path, address)))
        yield namespace


def settings(**spec: Any) -> ClusterSettings:
    """What `describe --strimzi orders` connects to."""
    with ExitStack() as ending:
        kube = Kube(kubeconfig(), ending)
        strimzi = StrimziSpec(name="orders", **spec)
        return settings_of_strimzi(ClusterSpec(strimzi=strimzi), strimzi, kube)


def test_a_cluster_is_found_by_its_kafka_with_the_rights_of_the_kubeconfig(namespace: Namespace) -> None:
    namespace.user()  # without our label, which only the operator needs
    found = settings()
    assert found.bootstrap_servers == (Address("127.0.0.1", 1),)
    assert found.brokers.tls == Tls(ca=CERTIFICATES.ca.strip(), certificate=CERTIFICATE, key=PRIVATE_KEY)


def test_another_user_and_another_listener_can_be_named(namespace: Namespace) -> None:
    namespace.kafka(TLS, SCRAM)
    namespace.secret("alice", {"password": "secret"})
    found = settings(user="alice", listener="scram")
    assert found.brokers.sasl == Sasl("SCRAM-SHA-512", "alice", "secret")


def test_certificates_that_may_not_be_read_are_those_of_the_status(namespace: Namespace) -> None:
    namespace.user()
    namespace.secret("orders-trustbundle", {"cluster-ca.crt": CERTIFICATES.other_ca}, owner="another")
    with pytest.raises(CommandFailed, match="no certificates of its listener tls"):
        settings()


def test_the_pods_of_the_cluster_show_which_release_runs_in_each(namespace: Namespace) -> None:
    labels = {"strimzi.io/cluster": "orders", "strimzi.io/kind": "Kafka"}
    sets = "/apis/core.strimzi.io/v1/namespaces/kafka/strimzipodsets"
    annotations = {"strimzi.io/revision": "1", "strimzi.io/kafka-version": "4.3.1"}

    def store(path: str, name: str, owner: str, **more: Any) -> None:
        metadata: dict[str, object] = {"namespace": "kafka", "name": name, "uid": name}
        metadata |= {"labels": labels, "annotations": annotations}
        metadata |= {"creationTimestamp": "2026-11-30T00:00:00Z", "generation": 1}
        owners = [{"name": owner, "uid": owner}]
        namespace.api.store(f"{path}/{name}", {"metadata": metadata | {"ownerReferences": owners}, **more})

    store("/apis/kafka.strimzi.io/v1/namespaces/kafka/kafkanodepools", "nodes", "", status={})
    store(sets, "orders-nodes", "nodes", spec={"pods": [{"metadata": {"name": "orders-nodes-0"}}]})
    store("/api/v1/namespaces/kafka/pods", "orders-nodes-0", "orders-nodes", spec={"containers": []}, status={})
    with ExitStack() as ending:
        reading = pods_of_strimzi(StrimziSpec(name="orders"), Kube(kubeconfig(), ending))
        assert isinstance(reading, WorkloadsReading)
        assert [(pod.name, pod.release) for pod in reading.stateful_sets[0].pods] == [("orders-nodes-0", "4.3")]
        namespace.api.forbidden.add("pods")
        assert isinstance(pods_of_strimzi(StrimziSpec(name="orders"), Kube(kubeconfig(), ending)), Failure)


def test_a_listener_inside_of_kubernetes_is_named_as_such_where_it_is_not_reached(
    namespace: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace.user()
    namespace.kafka(shown="")  # as of a paused one: the name of its Service
    assert main(["describe", "--strimzi", "orders", "--request-timeout", "1"]) == Exit.UNREACHABLE
    assert "orders-kafka-bootstrap.kafka.svc:9093" in (error := capsys.readouterr().err)
    assert error.rstrip().endswith("name a listener that is reached from here with --strimzi-listener")


def without_kafka(namespace: Namespace) -> None:
    namespace.api.remove(KAFKA)


def without_right(namespace: Namespace) -> None:
    namespace.api.forbidden.add("kafkas")


def with_plain_listeners(namespace: Namespace) -> None:
    namespace.user()
    namespace.kafka("custom")


def with_a_password_that_is_no_text(namespace: Namespace) -> None:
    namespace.user(password="canary\udcff")
    namespace.kafka(SCRAM)


REFUSED: dict[str, tuple[Callable[[Namespace], None], str]] = {
    "no Kafka": (without_kafka, "no Kafka orders (kafka.strimzi.io/v1) in the namespace kafka"),
    "no right": (without_right, "grant the verb get on kafkas.kafka.strimzi.io with a role"),
    "no user": (lambda _: None, "the Secret of the KafkaUser kafka-features does not exist in the namespace kafka; "),
    "no listener": (with_plain_listeners, "its listeners are: custo (custom)"),
    "a password that is no text": (with_a_password_that_is_no_text, "the value of password is not text"),
}


@pytest.mark.parametrize(("change", "says"), REFUSED.values(), ids=REFUSED)
def test_a_missing_resource_or_key_is_named_in_one_line(
    namespace: Namespace, capsys: pytest.CaptureFixture[str], change: Callable[[Namespace], None], says: str
) -> None:
    change(namespace)
    assert main(["describe", "--strimzi", "orders"]) == Exit.UNREACHABLE
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [("--bootstrap-server", "h:1"), ("--config", "client.properties"), ("--zookeeper", "h:1"), ("--from", "logs")],
)
def test_a_second_way_to_the_cluster_is_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "--strimzi", "orders", *words]) == Exit.USAGE
    assert "--strimzi" in capsys.readouterr().err


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[Any]:
    """The documents that `init` prints, and before them its comments."""
    assert main(["init", "--strimzi", "orders", *words]) == Exit.DONE
    text = capsys.readouterr().out
    comments = [line for line in text.splitlines() if line.startswith("#")]
    return [*comments, *yaml.safe_load_all(text)]


def test_init_prints_a_document_of_four_lines_and_a_user_where_there_is_none(
    namespace: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    user, document = printed(capsys)
    assert user["metadata"]["labels"] == {"strimzi.io/cluster": "orders", **LABEL}
    assert user["spec"] == {"authentication": {"type": TLS}}  # no ACLs without simple authorization
    assert document["metadata"] == {"name": "orders", "namespace": "kafka"}
    assert document["spec"] == {
        "mode": "Observe", "cluster": {"strimzi": {"name": "orders"}}, "features": {"releaseVersion": "4.3"}
    }  # fmt: skip
    read_document(document)


def test_init_grants_the_user_its_rights_where_the_kafka_has_acls(
    namespace: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace.kafka(SCRAM, authorization={"type": "simple"})
    user, _ = printed(capsys)
    assert user["spec"]["authentication"] == {"type": SCRAM}
    (acl,) = user["spec"]["authorization"]["acls"]
    assert acl["operations"] == ["Describe", "DescribeConfigs", "ClusterAction", "Alter"]


def test_init_names_the_label_that_a_user_lacks_and_nothing_for_one_that_has_it(
    namespace: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace.user()
    comment, _ = printed(capsys)
    assert comment.endswith(f"kubectl -n kafka label kafkauser kafka-features {CREDENTIALS}=true")
    namespace.user(labels=LABEL)
    (document,) = printed(capsys, "--name", "features")
    assert document["metadata"]["name"] == "features"


def test_init_names_a_user_and_a_listener_that_are_not_the_default_and_no_unknown_release(
    namespace: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace.kafka(TLS, version="9.9.0")
    namespace.secret("alice", {"user.crt": CERTIFICATE, "user.key": PRIVATE_KEY}, labels=LABEL)
    (document,) = printed(capsys, "--strimzi-user", "alice", "--strimzi-listener", "tls")
    assert document["spec"]["cluster"]["strimzi"] == {"name": "orders", "user": "alice", "listener": "tls"}
    assert document["spec"]["features"] == {}


def test_init_refuses_a_kafka_without_a_listener_for_a_user(
    namespace: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace.kafka("custom")
    assert main(["init", "--strimzi", "orders"]) == Exit.UNREACHABLE
    assert "its listeners are: custo (custom)" in capsys.readouterr().err


DOCUMENT = """apiVersion: kafkafeatures.dev/v1alpha1
kind: KafkaFeatures
metadata: {name: orders, namespace: kafka}
spec:
  cluster: {strimzi: {name: orders, controllers: {clientSecretRef: {name: admin}}}, requestTimeout: 7s}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "orders.yaml"
    path.write_text(DOCUMENT)
    return path


def of_document(file: Path, *more: str) -> ClusterSettings:
    """What a command about one cluster connects to with `-f`."""
    parser = argparse.ArgumentParser()
    add_connection_flags(parser, takes_document=True)
    return settings_from_flags(parser.parse_args(["-f", str(file), *more]))


def test_the_document_of_a_file_is_found_by_its_kafka_with_the_rights_of_the_kubeconfig(
    namespace: Namespace, file: Path
) -> None:
    namespace.user()
    certificate, key = CERTIFICATES.client("admin")
    namespace.secret("admin", {"tls.crt": certificate, "tls.key": key})
    found = of_document(file)
    assert (found.bootstrap_servers, found.request_timeout) == ((Address("127.0.0.1", 1),), 7)
    assert found.brokers.tls == Tls(ca=CERTIFICATES.ca.strip(), certificate=CERTIFICATE, key=PRIVATE_KEY)
    assert found.controllers.tls == Tls(ca=CERTIFICATES.ca.strip(), certificate=certificate, key=key)
    assert of_document(file, "--request-timeout", "3").request_timeout == 3


MISSING: dict[str, tuple[Callable[[Namespace], object], str]] = {
    "the user": (lambda namespace: None, "kafkafeatures init --strimzi orders --strimzi-user kafka-features -n kafka"),
    "the right": (
        lambda namespace: namespace.api.forbidden.add("kafkas"),
        "grant the verb get on kafkas.kafka.strimzi.io",
    ),
    "the certificate": (lambda namespace: namespace.user(), "Secret admin does not exist"),
    "a key that fits": (
        lambda namespace: namespace.keys_that_do_not_fit(),
        "Kafka orders: spec.cluster.strimzi.controllers.clientSecretRef: the client certificate and its key cannot be",
    ),
}


@pytest.mark.parametrize(("change", "says"), MISSING.values(), ids=MISSING)
def test_a_resource_that_a_document_names_and_kubernetes_lacks_is_named_in_one_line(
    change: Callable[[Namespace], object],
    says: str,
    namespace: Namespace,
    file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(namespace)
    assert main(["describe", "-f", str(file)]) != Exit.DONE
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_a_document_without_a_namespace_is_of_that_of_the_context_as_with_kubectl(
    namespace: Namespace, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace.user()
    namespace.secret("admin", dict(zip(("tls.crt", "tls.key"), CERTIFICATES.client("admin"), strict=True)))
    file.write_text(DOCUMENT.replace(", namespace: kafka", ""))
    assert of_document(file).bootstrap_servers == (Address("127.0.0.1", 1),)
    file.write_text(DOCUMENT.replace("namespace: kafka", "namespace: default"))
    assert main(["describe", "-f", str(file)]) != Exit.DONE
    assert "default" in capsys.readouterr().err


def test_a_document_of_a_file_needs_a_kubeconfig(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "nowhere")
    assert main(["describe", "-f", str(file)]) == Exit.USAGE
    assert capsys.readouterr().err == (
        "kafkafeatures: KUBECONFIG names nowhere: no such file; set it to a kubeconfig file\n"
    )


def test_a_document_of_a_file_is_carried_out_by_the_operator_alone(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "-f", str(file)]) == Exit.BLOCKED
    (line,) = capsys.readouterr().err.splitlines()
    assert "spec.cluster.strimzi orders: only the operator carries it out; kafkafeatures describe -f FILE shows" in line


def test_before_a_change_the_kafka_of_a_document_is_shown_with_its_namespace_and_api_server(
    namespace: Namespace, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace.user()
    certificate, key = CERTIFICATES.client("admin")
    namespace.secret("admin", {"tls.crt": certificate, "tls.key": key})
    assert main(["unregister", "--broker", "7", "--yes", "--request-timeout", "1", "-f", str(file)]) != Exit.DONE
    shown = capsys.readouterr().err.splitlines()[0]
    server = kubeconfig().cluster["server"]
    assert shown.endswith(f"the connection is that of the Kafka orders in the namespace kafka at {server}, by {file}")


def test_secrets_of_a_folder_are_not_for_a_document_whose_secrets_are_in_kubernetes(
    namespace: Namespace, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["describe", "-f", str(file), "--secrets-dir", str(tmp_path)]) == Exit.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("spec.cluster.strimzi: its Secrets are read from Kubernetes; leave out --secrets-dir")
