"""What is connected to, and what is believed of who answers there. Answers are scripted; real ones are in tests/e2e."""

from __future__ import annotations

import ipaddress
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.znodes import ZooKeeperReading
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kafka.wire.pem import Tls
from kafkafeatures.zookeeper.ensemble import Ensemble, parse_connect
from kafkafeatures.zookeeper.reader import read_zookeeper


@contextmanager
def answering(*frames: bytes) -> Iterator[int]:
    """A server that answers each thing it receives with the next of these bytes, and then with nothing."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            for frame in frames:
                if not self.request.recv(65536):
                    return
                self.request.sendall(frame)
            while self.request.recv(65536):
                pass

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


async def read(port: int, **settings: object) -> ZooKeeperReading | Failure:
    ensemble = Ensemble((Address("127.0.0.1", port),), timeout=0.5, **settings)  # type: ignore[arg-type]  # one of its settings
    return await read_zookeeper(ensemble, lambda: datetime(2026, 1, 2, tzinfo=UTC))


async def test_a_peer_that_claims_two_gibibytes_is_not_zookeeper() -> None:
    with answering(struct.pack(">i", 2**31 - 1)) as port:
        found = await read(port)
    assert isinstance(found, Failure)
    assert (found.kind, found.where) == (FailureKind.NOT_KAFKA, f"ZooKeeper 127.0.0.1:{port}")
    assert "claims 2147483647 bytes" in found.message


async def test_a_negative_length_is_not_zookeeper() -> None:
    with answering(struct.pack(">i", -5)) as port:
        found = await read(port)
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.NOT_KAFKA


async def test_a_peer_that_is_silent_is_named_with_what_it_may_be() -> None:
    with answering() as port:
        found = await read(port)
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.TIMED_OUT
    assert "this is not ZooKeeper" in found.remedy


async def test_a_forbidden_address_is_never_connected_to() -> None:
    policy = AddressPolicy(denied=(ipaddress.ip_network("127.0.0.0/8"),))
    with answering(b"x") as port:
        found = await read(port, policy=policy)
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.FORBIDDEN


async def test_a_server_without_tls_is_not_spoken_to_where_tls_is_asked_for() -> None:
    with answering(b"no handshake") as port:
        found = await read(port, tls=Tls())
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.TLS


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("a:2181", 1, ""),
        ("a:2181,b:2182/kafka", 2, "/kafka"),
        ("[::1]:2181/kafka/one/", 1, "/kafka/one"),
        ("a:2181/", 1, ""),
    ],
)
def test_an_ensemble_is_written_as_kafka_has_it(text: str, servers: int, chroot: str) -> None:
    found, path = parse_connect(text, "--zookeeper")
    assert (len(found), path) == (servers, chroot)


@pytest.mark.parametrize("text", ["", "a", "a:0", "/kafka", "a:2181/x//y", "a:2181/../x", "user:p@a:2181"])
def test_what_is_no_ensemble_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="--zookeeper: "):
        parse_connect(text, "--zookeeper")
