"""Bad input gives one line of error, which names the problem, the place and the remedy, and the right exit code.

No command waits without end. Real nodes answer, or small sockets that do not speak Kafka. All commands are run as
processes.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkafeatures.core.facts.observation import NodeState, Unknown
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import FailureKind
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import Address, ClusterSettings, parse_addresses
from kafkafeatures.kafka.cluster import Cluster as Client
from tests.e2e.kafka.cli import SELDOM, active, describe, node, run, write_document
from tests.e2e.rig.certificates import Certificates
from tests.e2e.rig.cluster import Cluster, Node
from tests.e2e.rig.listeners import USERS
from tests.e2e.rig.process import free_port, wait_until
from tests.e2e.rig.releases import NEWEST

TIMEOUT = "5"
"""Seconds for one request (--request-timeout)."""


def assert_one_line(done: subprocess.CompletedProcess[str], code: int, *message: str) -> None:
    """Assert what holds for every failure: one line on stderr with these words, this exit code, and no secret."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("kafkafeatures: ")
    assert done.stderr.count("\n") == 1, done.stderr
    for word in message:
        assert word in done.stderr
    for secret in (*USERS.values(), "wrong-77aa", "PRIVATE KEY"):
        assert secret not in done.stderr


def ask(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `describe`, which must end within a few request timeouts in any case."""
    return run("describe", *words, "--request-timeout", TIMEOUT, timeout=40)


def ask_patiently(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `describe` with a longer timeout: the first handshakes of a JVM take seconds on a busy machine."""
    return run("describe", *words, "--request-timeout", "10", timeout=60)


# --- a server that is not Kafka ---


@contextlib.contextmanager
def answering(first: bytes) -> Iterator[str]:
    """A server that reads a request, answers with `first` and closes. If `first` is empty, it stays silent and open."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections = []

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    connections.append(connection)
                    if first:
                        connection.recv(65536)
                        connection.sendall(first)
                        connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in connections:
                connection.close()


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (b"", "connected, but no answer within 5 s; the process may hang, or this is not Kafka, or it speaks TLS"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"),
        (
            b"\x00\x00\x00\x20\x00\x00\x00\x01\x00\x00",
            "the connection ended in the middle of an answer; it may require TLS",
        ),
        (b"\x7f\xff\xff\xff", "2147483647"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not Kafka"),
    ],
    ids=["silent", "http", "half a frame", "2 GiB", "tls", "ssh"],
)
def test_a_server_that_does_not_speak_kafka_is_one_line_of_error_with_exit_code_5(first: bytes, message: str) -> None:
    with answering(first) as address:
        assert_one_line(ask("--bootstrap-server", address), 5, address, message)


def test_an_address_without_an_answer_is_one_line_of_error() -> None:
    address = f"127.0.0.1:{free_port()}"
    assert_one_line(
        ask("--bootstrap-server", address), 5, address, "connection refused; check host, port and that the node runs"
    )


def test_an_unknown_host_name_is_one_line_of_error() -> None:
    assert_one_line(
        ask("--bootstrap-server", "kafka.invalid:9092"), 5, "kafka.invalid:9092", "the host name is not known"
    )


# --- files and flags ---


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 64, "no cluster given; use --bootstrap-server or --bootstrap-controller"),
        (("--bootstrap-server", "kafka"), 64, "invalid address 'kafka': expected host:port"),
        (("--bootstrap-server", "kafka:99999"), 64, "invalid address 'kafka:99999': expected a port from 1 to 65535"),
        (("--bootstrap-server", "k:1", "--request-timeout", "0"), 64, "expected 0.1 to 300.0 seconds"),
        (("--bootstrap-server", "k:1", "--config", "/nowhere"), 64, "/nowhere: No such file or directory"),
        (("--bootstrap-server", "k:1", "--output", "xml"), 64, "xml"),
    ],
)
def test_flags_that_cannot_be_used_are_one_line_of_error_with_an_exit_code(
    words: tuple[str, ...], code: int, message: str
) -> None:
    done = run("describe", *words)
    assert done.returncode == code
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty; expected a KafkaFeatures document"),
        ("{", "line 1"),
        ("kind: Pod", "kind"),
        ("a: 1\n---\nb: 2", "document 2: apiVersion: required field is missing"),
    ],
)
def test_a_file_that_is_no_document_is_refused_with_its_path(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "levels.yaml"
    path.write_text(text)
    done = run("apply", "-f", str(path))
    assert done.returncode == 64
    assert f"{path}: " in done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [path]


def test_a_trust_store_that_is_not_pem_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    (tmp_path / "trust.jks").write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    config = tmp_path / "client.properties"
    config.write_text(f"security.protocol=SSL\nssl.truststore.location={tmp_path / 'trust.jks'}\n")
    done = ask("--bootstrap-server", "127.0.0.1:1", "--config", str(config))
    assert_one_line(done, 64, "trust.jks is not PEM; make PEM of it", "keytool")


# --- a secured node ---


@pytest.fixture
def secured(borrow: Callable[[str], Cluster]) -> Cluster:
    return borrow(f"secured {NEWEST}-SCRAM-SHA-256")


def config(folder: Path, **lines: str) -> tuple[str, str]:
    path = folder / "client.properties"
    path.write_text("".join(f"{key.replace('_', '.')}={value}\n" for key, value in lines.items()))
    return "--config", str(path)


def login(user: str, password: str) -> str:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return f'{module} required username="{user}" password="{password}";'


@pytest.mark.parametrize(
    ("user", "password"), [("alice", "wrong-77aa"), ("nobody", "wrong-77aa")], ids=["wrong password", "unknown user"]
)
def test_a_login_that_fails_is_one_line_of_error_with_exit_code_5(
    secured: Cluster, tmp_path: Path, user: str, password: str
) -> None:
    trust = str(secured.root / "ca.pem")
    files = config(
        tmp_path,
        security_protocol="SASL_SSL",
        ssl_truststore_location=trust,
        sasl_mechanism="SCRAM-SHA-256",
        sasl_jaas_config=login(user, password),
    )
    done = ask_patiently("--bootstrap-server", secured.bootstrap_servers, *files)
    assert_one_line(
        done, 5, secured.bootstrap_servers, "SCRAM-SHA-256: Authentication failed", "check user name and password"
    )


def test_a_sasl_mechanism_that_the_node_does_not_offer_is_one_line_of_error(secured: Cluster, tmp_path: Path) -> None:
    files = config(
        tmp_path,
        security_protocol="SASL_SSL",
        ssl_truststore_location=str(secured.root / "ca.pem"),
        sasl_mechanism="SCRAM-SHA-512",
        sasl_jaas_config=login("alice", USERS["alice"]),
    )
    done = ask_patiently("--bootstrap-server", secured.bootstrap_servers, *files)
    assert_one_line(done, 5, "the node does not offer SCRAM-SHA-512; it offers SCRAM-SHA-256")


def test_a_plaintext_connection_to_a_tls_port_is_one_line_of_error(secured: Cluster) -> None:
    done = ask_patiently("--bootstrap-server", secured.bootstrap_servers)
    assert_one_line(done, 5, secured.bootstrap_servers, "TLS")


def test_a_tls_connection_to_a_plaintext_port_is_one_line_of_error(secured: Cluster, tmp_path: Path) -> None:
    internal = f"127.0.0.1:{secured.brokers[0].ports[secured.internal]}"
    files = config(tmp_path, security_protocol="SSL", ssl_truststore_location=str(secured.root / "ca.pem"))
    done = ask_patiently("--bootstrap-server", internal, *files)
    assert_one_line(done, 5, internal, "the node may not speak TLS on this port")


def test_connecting_to_a_node_whose_ca_is_not_trusted_fails_with_one_line_that_names_the_remedy(
    secured: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "other.pem").write_text(secured.certificates.other_ca)
    files = config(tmp_path, security_protocol="SSL", ssl_truststore_location=str(tmp_path / "other.pem"))
    done = ask_patiently("--bootstrap-server", secured.bootstrap_servers, *files)
    assert_one_line(done, 5, secured.bootstrap_servers, " not trusted; set ssl.truststore.location in --config ")


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("expired", "the certificate has expired; renew the certificate of the node"),
        ("wrong_host", "the certificate is for another"),
    ],
)
def test_a_node_with_a_wrong_certificate_is_one_line_of_error(tmp_path: Path, which: str, message: str) -> None:
    certificates = Certificates()
    with Cluster(
        tmp_path / "kafka", NEWEST, controllers=0, brokers=0, combined=1, kind="SSL", controller_kind="PLAINTEXT",
        certificates=certificates, node_certificate=getattr(certificates, which),
    ) as cluster:  # fmt: skip
        files = "--config", str(cluster.client_config())
        assert_one_line(
            ask_patiently("--bootstrap-server", cluster.bootstrap_servers, *files),
            5,
            cluster.bootstrap_servers,
            message,
        )
        # `apply` does not trust the node either, so it sends nothing.
        path = write_document(
            tmp_path / "levels.yaml", {"group.version": 1}, bootstrapServers=cluster.bootstrap_servers, tls={}
        )
        done = run("apply", "-f", str(path), timeout=30)
        assert done.returncode == 5
        assert "Traceback" not in done.stderr


def test_a_missing_client_certificate_is_one_line_of_error(borrow: Callable[[str], Cluster], tmp_path: Path) -> None:
    cluster = borrow(f"secured {NEWEST}-SSL")
    files = config(tmp_path, security_protocol="SSL", ssl_truststore_location=str(cluster.root / "ca.pem"))
    done = ask_patiently("--bootstrap-server", cluster.bootstrap_servers, *files)
    assert_one_line(
        done, 5, cluster.bootstrap_servers, "the node requires a client certificate; configure one (mTLS): "
    )


# --- a plaintext cluster whose nodes fail ---


@pytest.fixture(scope="module")
def ailing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("ailing"), NEWEST, controllers=3, brokers=2, release_version="4.0") as running:
        yield running


@contextlib.contextmanager
def swallowing() -> Iterator[str]:
    """An address to which no connection succeeds: a listener whose queue is full drops every further SYN."""
    with socket.socket() as server, contextlib.ExitStack() as stack:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_describe_uses_the_other_addresses_where_the_first_one_swallows_packets(ailing: Cluster) -> None:
    with swallowing() as dead:
        done = ask("--bootstrap-server", f"{dead},{ailing.bootstrap_servers}", "-o", "json")
        assert done.returncode == 0, done.stderr
        assert_one_line(
            ask("--bootstrap-server", dead), 5, dead, "no connection within 5 s; check address, route and firewall"
        )


def test_describe_reports_a_frozen_node_within_the_timeout_and_shows_all_other_nodes(ailing: Cluster) -> None:
    ailing.nodes[2].freeze()
    try:
        done = ask("--bootstrap-server", ailing.bootstrap_servers)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        assert "broker 2" in done.stdout
        assert "no answer within 5 s" in " ".join(done.stdout.split())  # the output may break the line anywhere
        only = ask("--bootstrap-server", f"127.0.0.1:{ailing.nodes[2].port}")
        assert_one_line(only, 5, f"127.0.0.1:{ailing.nodes[2].port}", "no answer within 5 s")
    finally:
        ailing.heal()  # it must also register again: its session ended while it was frozen


class KillAtTheQuestion:
    """A recorder of requests that kills a node just before the first request to it is sent."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def sent(self, address: Address, frame: bytes) -> None:
        if address.port == self.node.port:
            self.node.kill()

    def received(self, address: Address, frame: bytes) -> None:
        """Not of interest."""


async def test_a_node_killed_while_it_is_probed_is_reported_and_all_other_nodes_are_shown(ailing: Cluster) -> None:
    victim = ailing.nodes[2]
    settings = ClusterSettings(
        parse_addresses(ailing.bootstrap_servers, ""),
        parse_addresses(ailing.bootstrap_controllers, ""),
        request_timeout=float(TIMEOUT),
    )
    try:
        async with Client(settings, recorder=KillAtTheQuestion(victim), environment=SYSTEM) as client:
            observation = observe(*await client.read())
    finally:
        ailing.heal()
    states = {one.id: one.state for one in observation.nodes}
    assert states.pop(2) is NodeState.UNREACHABLE  # its session at the controller has not ended yet
    assert set(states.values()) == {NodeState.LIVE}
    (dead,) = [one for one in observation.nodes if one.id == 2]
    assert isinstance(dead.answer, Unknown)
    assert dead.answer.failure.kind in (FailureKind.DISCONNECTED, FailureKind.NOT_KAFKA, FailureKind.NOT_LISTENING)


def test_every_node_is_shown_and_no_update_is_sent_while_the_quorum_has_no_leader(
    ailing: Cluster, tmp_path: Path
) -> None:
    leader = ailing.nodes[ailing.leader()]
    other = next(n for n in ailing.controllers if n is not leader)
    path = write_document(tmp_path / "levels.yaml", {"metadata.version": 29}, bootstrapServers=ailing.bootstrap_servers)
    leader.kill()
    other.kill()
    try:
        done = ask("--bootstrap-server", ailing.bootstrap_servers)
        assert done.returncode == 0, done.stderr
        assert "No active controller" in done.stdout
        applied = run("apply", "-f", str(path), "--timeout", "5s", timeout=60)
        assert applied.returncode in (4, 5), applied.stderr
        assert "Traceback" not in applied.stderr
    finally:
        leader.start()
        other.start()
    wait_until(
        "a leader is back",
        lambda: active(ailing) in {n.id for n in ailing.controllers},
        step=SELDOM,
    )
    assert node(describe(ailing), 1)["finalized"]["metadata.version"] == 25
