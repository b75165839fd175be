"""The end of a connection: after any error it is closed at once, also to a node that hangs, with a clear failure."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.kafka.base.errors import (
    AuthenticationFailed,
    Disconnected,
    KafkaError,
    NotKafka,
    ServerError,
    TimedOut,
    TlsFailed,
    Unreachable,
)
from kafkafeatures.kafka.base.settings import Address, OAuthToken, Sasl, Security
from kafkafeatures.kafka.wire.connection import Connection, connect
from kafkafeatures.kafka.wire.messages import UpdateFeaturesRequest
from kafkafeatures.kafka.wire.pem import Tls
from kafkafeatures.kafka.wire.unregister_codec import UnregisterBrokerRequest
from tests.e2e.rig.certificates import Certificates
from tests.kafkafeatures.kafka.wire.servers import Answer, Server, api_versions, framed, serving, unregistered

QUICK = 0.3  # seconds
ASK = UnregisterBrokerRequest(1)
CERTIFICATES = Certificates()
TRUSTED = Tls(ca=CERTIFICATES.ca)


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    return CERTIFICATES.server_side(tmp_path_factory.mktemp("tls"))


async def to(address: Address, security: Security, *, timeout: float = 10.0, **more: Any) -> Connection:
    return await connect(address, security, timeout=timeout, client_id="us", **{"environment": SYSTEM, **more})


# --- a node that hangs ---


class Frozen:
    """A node that hangs, as if stopped by a signal: after `answered` requests it sends nothing, not even for TLS."""

    def __init__(self, context: ssl.SSLContext, answered: int) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self.listener.getsockname()[:2])
        self.released = threading.Event()
        self._context, self._answered = context, answered

    def serve(self) -> None:
        raw, _ = self.listener.accept()
        with self._context.wrap_socket(raw, server_side=True) as secured:
            for _ in range(self._answered):
                length = int.from_bytes(secured.recv(4), "big")
                secured.sendall(api_versions((64, 0, 0))(secured.recv(length)) or b"")
            with socket.socket(fileno=secured.detach()) as bare:
                with contextlib.suppress(ConnectionError):
                    while bare.recv(4096):
                        pass
                self.released.set()


@contextlib.asynccontextmanager
async def frozen(context: ssl.SSLContext, answered: int) -> AsyncIterator[Frozen]:
    node = Frozen(context, answered)
    serving = asyncio.create_task(asyncio.to_thread(node.serve))
    try:
        yield node
        # The socket is gone; asyncio by itself would wait half a minute for the node to say goodbye too.
        assert await asyncio.to_thread(node.released.wait, 10)
    finally:
        node.listener.close()
        await serving


async def test_connecting_to_a_hanging_node_over_tls_times_out(context: ssl.SSLContext) -> None:
    async with frozen(context, 0) as node:
        with pytest.raises(TimedOut) as caught:
            await to(node.address, Security(TRUSTED), timeout=1.0)
        assert not caught.value.sent


async def test_a_request_to_a_hanging_node_over_tls_times_out(context: ssl.SSLContext) -> None:
    async with frozen(context, 1) as node:
        link = await to(node.address, Security(TRUSTED))
        with pytest.raises(TimedOut) as caught:
            await link.request(ASK, timeout=QUICK)
        assert caught.value.sent
        assert link.closed


async def test_closing_a_connection_to_a_hanging_node_frees_the_socket(
    context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkafeatures.kafka.wire.connection.CLOSING_SECONDS", 0.05)
    async with frozen(context, 1) as node:
        link = await to(node.address, Security(TRUSTED))
        await link.close()
        await link.close()  # a second time does nothing


# --- broken answers ---


@pytest.mark.parametrize(
    ("first", "kind", "said"),
    [
        (b"", Disconnected, "the connection ended before the answer"),
        (b"\0\0", Disconnected, "the connection ended in the middle of an answer"),
        (b"\0\0\0\x20\0\0\0\2", Disconnected, "the connection ended in the middle of an answer"),
        (framed(b"\0\0\0\2"), NotKafka, "does not decode"),
    ],
    ids=["nothing", "half a length", "half a frame", "a header alone"],
)
async def test_a_truncated_answer_is_distinguished_from_a_missing_answer(
    first: bytes, kind: type[KafkaError], said: str
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = int.from_bytes(await reader.readexactly(4), "big")
        writer.write(api_versions((64, 0, 0))(await reader.readexactly(length)) or b"")
        length = int.from_bytes(await reader.readexactly(4), "big")
        await reader.readexactly(length)
        writer.write(first)
        writer.close()
        await writer.wait_closed()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    link = await to(Address(*listener.sockets[0].getsockname()[:2]), Security())
    with pytest.raises(kind, match=said) as caught:
        await link.request(ASK)
    assert caught.value.sent
    assert link.closed
    listener.close()
    await listener.wait_closed()


async def test_an_unknown_error_code_of_a_change_leaves_its_outcome_unknown() -> None:
    """The node has decided about the change; only its next report of levels shows how."""

    def answer(request: bytes) -> bytes:
        return framed(request[4:8] + b"\0" + b"\0\0\0\0" + (999).to_bytes(2, "big") + b"\0" + b"\0")

    async with serving(Server({18: api_versions((57, 2, 2)), 57: answer})) as server:
        link = await to(server.address, Security())
        with pytest.raises(ServerError, match="an error code this version does not know") as caught:
            await link.request(UpdateFeaturesRequest((("metadata.version", 20, 1),)))
        assert caught.value.sent
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    "answers",
    [{}, {18: lambda request: b""}, {18: lambda request: b"\x7f\xff\xff\xff"}, {18: api_versions(error=41)}],
    ids=["silence", "closing", "2 GiB", "an error"],
)
async def test_a_failed_connection_has_sent_no_request_of_its_caller(answers: dict[int, Answer]) -> None:
    async with serving(Server(answers)) as server:
        with pytest.raises(KafkaError) as caught:
            await to(server.address, Security(), timeout=QUICK)
        assert not caught.value.sent


async def test_cancelling_a_connection_attempt_closes_the_connection() -> None:
    arrived = asyncio.Event()
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        arrived.set()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        ended.set()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = Address(*listener.sockets[0].getsockname()[:2])
    connecting = asyncio.create_task(connect(address, Security(), timeout=60, client_id="us", environment=SYSTEM))
    await arrived.wait()
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    await asyncio.wait_for(ended.wait(), 10)
    listener.close()
    await listener.wait_closed()


# --- addresses without a Kafka node ---


@pytest.mark.parametrize("host", ["::1", "127.0.0.1"])
async def test_a_literal_address_without_a_listener_is_unreachable_with_a_remedy(host: str) -> None:
    with pytest.raises(Unreachable) as caught:
        await to(Address(host, 1), Security())
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["silent", "http"])
async def test_tls_to_a_plaintext_port_fails(first: bytes) -> None:
    """A silent port ends with the timeout; a talking one fails at once."""
    security = Security(TRUSTED)
    security.contexts.create(TRUSTED)  # which may take long, outside of the timeout
    async with serving(Server(first=first)) as server:
        with pytest.raises(TlsFailed, match="no TLS handshake within" if not first else "does not speak TLS") as caught:
            await to(server.address, security, timeout=10.0 if first else QUICK)
        assert caught.value.remedy


# --- SASL ---


def handshake(error: int) -> Answer:
    return lambda request: framed(request[4:8] + error.to_bytes(2, "big") + b"\0\0\0\0")


OFFERED = api_versions((17, 0, 1), (36, 0, 2), (64, 0, 0))


def believed(request: bytes, answer: bytes = b"", lifetime_ms: int = 1000) -> bytes:
    """The answer of SaslAuthenticate, version 2, that accepts the login."""
    body = b"\0\0" + b"\0" + bytes([len(answer) + 1]) + answer + lifetime_ms.to_bytes(8, "big") + b"\0"
    return framed(request[4:8] + b"\0" + body)


SCRAM = Security(sasl=Sasl("SCRAM-SHA-256", "alice", "p"))
PLAIN = Security(TRUSTED, Sasl("PLAIN", "alice", "p"))


async def test_sasl_to_a_listener_without_sasl_is_reported() -> None:
    """A listener without SASL hands the request to KafkaApis, which answers ILLEGAL_SASL_STATE (34)."""
    async with serving(Server({18: OFFERED, 17: handshake(34)})) as server:
        with pytest.raises(AuthenticationFailed, match="the listener has no SASL") as caught:
            await to(server.address, SCRAM)
        assert "PLAINTEXT" in caught.value.remedy


@pytest.mark.parametrize(
    ("then", "kind", "said"),
    [
        (handshake(34), AuthenticationFailed, "does not accept re-authentication yet"),
        (lambda request: b"", Disconnected, "ended before the answer"),  # it was idle: the proof was not judged
        (lambda request: None, TimedOut, "no answer within"),
    ],
    ids=["too early", "closed", "silence"],
)
async def test_a_failed_reauthentication_has_a_reason_and_sends_no_request(
    context: ssl.SSLContext, then: Answer, kind: type[KafkaError], said: str
) -> None:
    now, turns = 0.0, iter([handshake(0), then])

    def in_turn(request: bytes) -> bytes | None:
        return next(turns)(request)

    answers: dict[int, Answer] = {18: OFFERED, 17: in_turn, 36: believed, 64: unregistered}
    async with serving(Server(answers), context) as server:
        link = await to(server.address, PLAIN, environment=Environment(monotonic=lambda: now))
        now = 0.9  # of a session of 1 s, which is renewed after four fifths
        with pytest.raises(kind, match=said) as caught:
            await link.request(ASK, timeout=QUICK)
        assert not caught.value.sent
        assert link.closed
        assert not [request for request in server.requests if request[:2] == b"\0\x40"]


async def test_masking_a_one_byte_sasl_message_does_not_change_the_other_bytes_of_its_frame(
    context: ssl.SSLContext,
) -> None:
    """The last message of a refused OAUTHBEARER exchange is the byte 1, which occurs elsewhere in the frame too."""
    frames: list[tuple[str, bytes]] = []

    class Recorder:
        def sent(self, address: Address, frame: bytes) -> None:
            frames.append(("sent", frame))

        def received(self, address: Address, frame: bytes) -> None:
            frames.append(("received", frame))

    answers: dict[int, Answer] = {18: OFFERED, 17: handshake(0), 36: lambda request: believed(request, b"\x01", 257)}
    security = Security(TRUSTED, Sasl("OAUTHBEARER", oauth=OAuthToken("t")))
    async with serving(Server(answers), context) as server:
        with pytest.raises(AuthenticationFailed):
            await to(server.address, security, recorder=Recorder())
        last_sent, last_received = [frame for _, frame in frames][-2:]
        real = server.requests[-1]
    assert last_sent[4:] == real[:-2] + b"\0\0"
    assert last_received[4:] == real[4:8] + b"\0" + b"\0\0\0\x02\0" + (257).to_bytes(8, "big") + b"\0"


def test_the_temporary_pem_file_of_a_client_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkafeatures.kafka.wire import tls

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    certificate, key = CERTIFICATES.client("bob")
    tls.context(Tls(ca=CERTIFICATES.ca, certificate=certificate, key=key))
    with pytest.raises(TlsFailed):
        tls.context(Tls(ca=CERTIFICATES.ca, certificate=certificate, key="no key"))
    assert list(tmp_path.iterdir()) == []
