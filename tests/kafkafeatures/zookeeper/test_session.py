"""Sessions with ZooKeeper: allowed addresses, and peers that are not ZooKeeper; tests/e2e has a real server."""

from __future__ import annotations

import ipaddress
import socket
import socketserver
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import pytest
import trustme
from kazoo.exceptions import ConnectionDropped
from kazoo.protocol.serialization import Delete, GetData, Transaction

from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.znodes import ZooKeeperReading
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kafka.wire.pem import Tls
from kafkafeatures.zookeeper.connection import Frames
from kafkafeatures.zookeeper.ensemble import Ensemble, parse_connect
from kafkafeatures.zookeeper.reader import read_zookeeper
from kafkafeatures.zookeeper.session import Session


@contextmanager
def answering(*frames: bytes, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server that answers each thing it receives with the next of these bytes, and then with nothing."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            if context is None:
                self._answer(self.request)
                return
            with suppress(OSError), context.wrap_socket(self.request, server_side=True) as link:
                self._answer(link)

        def _answer(self, link: socket.socket) -> None:
            for frame in frames:
                if not link.recv(65536):
                    return
                link.sendall(frame)
            while link.recv(65536):
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
        reading = await read(port)
    assert isinstance(reading, Failure)
    assert (reading.kind, reading.location) == (FailureKind.NOT_KAFKA, f"ZooKeeper 127.0.0.1:{port}")
    assert "claims 2147483647 bytes" in reading.message


async def test_a_negative_length_is_not_zookeeper() -> None:
    with answering(struct.pack(">i", -5)) as port:
        reading = await read(port)
    assert isinstance(reading, Failure)
    assert reading.kind is FailureKind.NOT_KAFKA


async def test_a_silent_peer_times_out_with_the_remark_that_it_may_not_be_zookeeper() -> None:
    with answering() as port:
        reading = await read(port)
    assert isinstance(reading, Failure)
    assert reading.kind is FailureKind.TIMED_OUT
    assert reading.remedy == "the ensemble may have lost its majority, or this is not ZooKeeper, or it speaks TLS"


async def test_a_forbidden_address_is_never_connected_to() -> None:
    policy = AddressPolicy(denied=(ipaddress.ip_network("127.0.0.0/8"),))
    with answering(b"x") as port:
        reading = await read(port, policy=policy)
    assert isinstance(reading, Failure)
    assert reading.kind is FailureKind.FORBIDDEN


class ApiServer:
    """An API server that turns out to be at the address that was connected to."""

    endpoints: frozenset[tuple[str, int]] = frozenset()

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    async def answers_at(self, address: str, port: int) -> bool:
        self.asked.append((address, port))
        return True


@pytest.mark.parametrize(
    "answer",
    [(), (struct.pack(">i", 2**31 - 1),), (b"HTTP/1.0 400 Bad Request\r\n\r\n",)],
    ids=["silent", "a length of two gibibytes", "HTTP"],
)
@pytest.mark.parametrize("tls", [None, Tls()], ids=["plain", "TLS"])
async def test_the_failure_at_the_api_server_says_only_that_its_address_is_not_allowed(
    answer: tuple[bytes, ...], tls: Tls | None
) -> None:
    here = ApiServer()
    with answering(*answer) as port:
        reading = await read(port, policy=AddressPolicy(denied=(), api_server=here), tls=tls)
    assert isinstance(reading, Failure)
    assert reading.kind is FailureKind.FORBIDDEN
    assert here.asked == [("127.0.0.1", port)]


async def test_a_server_with_a_certificate_of_an_api_server_is_forbidden_to_the_operator() -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "kubernetes.default.svc").configure_cert(context)
    trust = Tls(ca=authority.cert_pem.bytes().decode())
    with answering(b"HTTP/1.0 400", context=context) as port:
        reading = await read(port, policy=AddressPolicy(denied=()), tls=trust)
        of_a_person = await read(port, tls=trust)  # without a policy: a person may connect to any address
    assert isinstance(reading, Failure)
    assert reading.kind is FailureKind.FORBIDDEN
    assert isinstance(of_a_person, Failure)
    assert of_a_person.kind is not FailureKind.FORBIDDEN


async def test_a_host_name_with_one_forbidden_address_is_not_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def both(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        return [(2, 1, 6, "", (address, port)) for address in ("127.0.0.1", "169.254.169.254")]

    monkeypatch.setattr("kafkafeatures.zookeeper.connection.socket.getaddrinfo", both)
    with answering(struct.pack(">i", -5)) as port:
        reading = await read(port, policy=AddressPolicy())
    assert isinstance(reading, Failure)
    assert reading.kind is FailureKind.FORBIDDEN


async def test_a_server_without_tls_is_a_tls_failure_if_tls_is_configured() -> None:
    with answering(b"no handshake") as port:
        reading = await read(port, tls=Tls())
    assert isinstance(reading, Failure)
    assert reading.kind is FailureKind.TLS


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("a:2181", 1, ""),
        ("a:2181,b:2182/kafka", 2, "/kafka"),
        ("[::1]:2181/kafka/one/", 1, "/kafka/one"),
        ("a:2181/", 1, ""),
    ],
)
def test_a_connect_string_is_parsed_as_kafka_does(text: str, servers: int, chroot: str) -> None:
    addresses, path = parse_connect(text, "--zookeeper")
    assert (len(addresses), path) == (servers, chroot)


@pytest.mark.parametrize("text", ["", "a", "a:0", "/kafka", "a:2181/x//y", "a:2181/../x", "user:p@a:2181"])
def test_an_invalid_connect_string_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="--zookeeper: "):
        parse_connect(text, "--zookeeper")


# --- the last moment of a transaction ---

TRANSACTION = Transaction([Delete("/controller", 0)])


@contextmanager
def connected() -> Iterator[tuple[Frames, socket.socket]]:
    """A writer that is connected to a server, and the reader at the server."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    frames = Session(Ensemble((Address("127.0.0.1", 1),)))._frames
    frames._socket = ours
    with ours, theirs:
        yield frames, theirs


def has_received(at: socket.socket) -> bool:
    """True if bytes have arrived at this end."""
    try:
        return bool(at.recv(65536))
    except BlockingIOError:
        return False


def may_have_left(frames: Frames) -> bool:
    """Forbid transactions from now on, and tell whether a byte of one may have left before."""
    return frames.forbid_transactions()


def test_a_transaction_is_sent_on_the_connection_on_which_it_was_permitted() -> None:
    with connected() as (frames, server):
        frames.permit_transaction()
        frames._submit(TRANSACTION, timeout=1.0, xid=1)
        assert has_received(server)
        assert may_have_left(frames)


def test_a_transaction_is_never_sent_on_a_later_connection() -> None:
    with connected() as (frames, server), connected() as (later, other):
        frames.permit_transaction()
        frames._socket = later._socket
        with pytest.raises(ConnectionDropped):
            frames._submit(TRANSACTION, timeout=1.0, xid=1)
        assert not has_received(server)
        assert not has_received(other)
        assert not may_have_left(frames)


def test_a_transaction_is_not_sent_once_it_is_forbidden_nor_without_a_permission() -> None:
    for was_permitted in (True, False):
        with connected() as (frames, server):
            if was_permitted:
                frames.permit_transaction()
                assert not may_have_left(frames)
            with pytest.raises(ConnectionDropped):
                frames._submit(TRANSACTION, timeout=1.0, xid=1)
            assert not has_received(server)
            assert not may_have_left(frames)


def test_a_request_that_only_reads_is_sent_without_a_permission_and_is_no_transaction() -> None:
    with connected() as (frames, server):
        frames._submit(GetData("/controller", None), timeout=1.0, xid=1)
        assert has_received(server)
        assert not may_have_left(frames)


def test_a_transaction_without_a_connection_is_not_sent() -> None:
    with connected() as (frames, _):
        frames._socket = None
        frames.permit_transaction()
        with pytest.raises(ConnectionDropped):
            frames._submit(TRANSACTION, timeout=1.0, xid=1)
