"""A connection: the requests that it sends, its deadlines, and the errors after which it is not used any more."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

import pytest

from kafkafeatures.core.facts.readings import FailureKind
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.errors import (
    Disconnected,
    KafkaError,
    NotKafka,
    NotListening,
    ServerError,
    TimedOut,
    Unreachable,
    UnsupportedApi,
)
from kafkafeatures.kafka.base.settings import Address, Sasl, Security
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kafka.wire.connection import Connection, connect
from kafkafeatures.kafka.wire.messages import ApiVersionsRequest, DescribeClusterRequest, DescribeQuorumRequest
from kafkafeatures.kafka.wire.unregister_codec import UnregisterBrokerRequest
from tests.kafkafeatures.kafka.wire.servers import (
    Answer,
    Server,
    api_versions,
    framed,
    handshake,
    serving,
    unregistered,
)

QUICK = 0.3  # seconds


def node(**answers: Answer) -> Server:
    """A node with UnregisterBroker and DescribeCluster v0. `answers`: by API key, `_18` for ApiVersions."""
    known = {18: api_versions((64, 0, 0), (60, 0, 0)), 64: unregistered}
    return Server({**known, **{int(key[1:]): answer for key, answer in answers.items()}})


async def to(server: Server, *, timeout: float = 5.0, **more: Any) -> Connection:
    return await connect(server.address, Security(), timeout=timeout, client_id="us", **{"environment": SYSTEM, **more})


ASK = UnregisterBrokerRequest(1)


async def test_api_versions_is_the_first_request_of_every_connection() -> None:
    async with serving(node()) as server:
        for _ in range(2):
            async with await to(server) as link:
                await link.request(ASK)
        assert [int.from_bytes(request[:2], "big") for request in server.requests] == [18, 64, 18, 64]


async def test_a_request_that_the_node_does_not_offer_is_not_sent() -> None:
    async with serving(node()) as server, await to(server) as link:
        with pytest.raises(UnsupportedApi, match="does not offer DescribeQuorum") as caught:
            await link.request(DescribeQuorumRequest())
        assert not caught.value.sent
        assert not link.closed
        assert len(server.requests) == 1


async def test_a_request_without_a_common_version_is_not_sent() -> None:
    async with serving(node(_18=api_versions((60, 7, 9)))) as server, await to(server) as link:
        with pytest.raises(UnsupportedApi, match="offers DescribeCluster 7-9, we speak 0-2"):
            await link.request(DescribeClusterRequest())
        assert len(server.requests) == 1


async def test_a_node_that_refuses_the_version_of_api_versions_is_asked_with_version_0() -> None:
    """KIP-511: it answers 35 in the layout of version 0."""

    def old(request: bytes) -> bytes | None:
        if request[2:4] != b"\0\0":
            return framed(request[4:8] + b"\0\x23" + b"\0\0\0\1" + b"\0\x12\0\0\0\0")
        return api_versions((64, 0, 0))(request)

    async with serving(node(_18=old)) as server, await to(server) as link:
        await link.request(ASK)
        assert [int.from_bytes(r[2:4], "big") for r in server.requests] == [4, 0, 0]


NAMED = ApiVersionsRequest(cluster_id="5L6g3nShT-eMCtK--X86sw", node_id=2)


def versions_of(server: Server) -> list[int]:
    """Versions of the ApiVersions requests that it got."""
    return [int.from_bytes(one[2:4], "big") for one in server.requests if one[:2] == b"\0\x12"]


async def test_an_expected_identity_is_sent_with_the_first_request() -> None:
    async with serving(node()) as server, await to(server, request=NAMED) as link:
        assert (versions_of(server), link.refuses_name) == ([5], False)
        assert b"5L6g3nShT-eMCtK--X86sw\0\0\0\2" in server.requests[0]


async def test_a_node_that_refuses_its_identity_is_used_over_the_same_connection() -> None:
    def another(request: bytes) -> bytes | None:
        is_named = request[2:4] == b"\0\5"
        return (
            # error 129, REBOOTSTRAP_REQUIRED, and no APIs
            framed(request[4:8] + bytes.fromhex("0081010000000000")) if is_named else api_versions((64, 0, 0))(request)
        )

    async with serving(node(_18=another)) as server, await to(server, request=NAMED) as link:
        assert (versions_of(server), link.refuses_name, server.connections) == ([5, 4], True, 1)
        await link.request(ASK)


async def test_a_node_that_is_too_old_for_an_identity_is_asked_without_it() -> None:
    def old(request: bytes) -> bytes | None:
        if request[2:4] == b"\0\5":
            # error 35, UNSUPPORTED_VERSION, in the layout of version 0, with the versions 0 to 4 of ApiVersions
            return framed(request[4:8] + bytes.fromhex("002300000001001200000004"))
        return api_versions((64, 0, 0))(request)

    async with serving(node(_18=old)) as server, await to(server, request=NAMED) as link:
        assert (versions_of(server), link.refuses_name) == ([5, 4], None)
        assert NAMED.cluster_id
        assert NAMED.cluster_id.encode() not in server.requests[1]


async def test_no_identity_is_sent_before_sasl() -> None:
    answers = {18: api_versions((17, 0, 1), (36, 0, 2)), 17: handshake("SCRAM-SHA-256", error=33)}
    security = Security(sasl=Sasl("SCRAM-SHA-256", "alice", "secret"))
    async with serving(Server(answers)) as server:
        with pytest.raises(KafkaError):
            await connect(server.address, security, timeout=5.0, client_id="us", environment=SYSTEM, request=NAMED)
        assert versions_of(server) == [4]


async def test_an_error_code_of_api_versions_fails_the_connection() -> None:
    async with serving(node(_18=api_versions(error=41))) as server:
        with pytest.raises(ServerError, match="NOT_CONTROLLER"):
            await to(server)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (lambda request: None, TimedOut),
        (lambda request: b"", Disconnected),
        (lambda request: unregistered(request)[:9], TimedOut),
        (lambda request: framed(b"\0\0\0\x63" + unregistered(request)[8:]), NotKafka),
        (lambda request: b"\x7f\xff\xff\xff", NotKafka),
        (lambda request: b"\xff\xff\xff\xff", NotKafka),
        (lambda request: framed(unregistered(request)[4:8] + b"\xff" * 9), NotKafka),
    ],
    ids=["silence", "closing", "half a frame", "another's answer", "2 GiB", "negative", "garbage"],
)
async def test_a_connection_is_not_used_again_after_a_broken_answer(answer: Answer, kind: type[KafkaError]) -> None:
    async with serving(node(_64=answer)) as server, await to(server) as link:
        with pytest.raises(kind) as caught:
            await link.request(ASK, timeout=QUICK)
        assert caught.value.sent  # its effect may still come
        assert link.closed
        with pytest.raises(Disconnected) as again:
            await link.request(ASK)
        assert not again.value.sent


async def test_a_connection_stays_open_after_an_answer_with_an_error_code() -> None:
    async with serving(node(_64=lambda request: unregistered(request, error=102))) as server, await to(server) as link:
        assert (await link.request(ASK)).error_code == 102
        assert not link.closed


async def test_a_cancelled_request_closes_the_connection() -> None:
    arrived = asyncio.Event()
    async with serving(node(_64=lambda request: arrived.set())) as server, await to(server) as link:
        asking = asyncio.create_task(link.request(ASK))
        await arrived.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert link.closed


async def test_concurrent_requests_on_one_connection_take_turns() -> None:
    async with serving(node()) as server, await to(server) as link:
        await asyncio.gather(*(link.request(ASK) for _ in range(5)))
        assert len(server.requests) == 6  # ApiVersions, and the five; each got its own response


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "this is an HTTP server, not Kafka"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "this is TLS"),
        (b"SSH-2.0-x\r\n", "this is an SSH server"),
        (b"\x7f\xff\xff\xff", "claims a length of 2147483647 bytes"),
        (b"\0\0\0\2xx", "claims a length of 2 bytes"),
        (b"\0\1\0\1", "claims a length of 65537 bytes"),
        (framed(b"\0\0\0\1" + b"\0\0" + b"\xff\xff\xff\xff\x0f"), "4294967294 api_keys with 0 bytes left"),
    ],
    ids=["HTTP", "TLS", "SSH", "2 GiB", "2 bytes", "above the limit of ApiVersions", "an array of 4 billion"],
)
async def test_a_server_of_another_protocol_is_reported(first: bytes, said: str) -> None:
    async with serving(Server(first=first)) as server:
        with pytest.raises(NotKafka, match=said) as caught:
            await to(server)
        assert caught.value.remedy


async def test_a_request_to_a_silent_server_times_out() -> None:
    async with serving(Server()) as server:
        with pytest.raises(TimedOut, match=r"connected, but no answer within 0\.3 s"):
            await to(server, timeout=QUICK)


async def test_a_closed_port_is_reported_as_not_listening() -> None:
    async with serving(Server()) as server:
        address = server.address
    with pytest.raises(NotListening, match="connection refused"):
        await connect(address, Security(), timeout=5, client_id="us", environment=SYSTEM)


async def test_an_unknown_host_name_is_unreachable() -> None:
    with pytest.raises(Unreachable, match="the host name is not known") as error:
        await connect(Address("kafka.invalid", 9092), Security(), timeout=5, client_id="us", environment=SYSTEM)
    assert error.value.kind is FailureKind.UNREACHABLE


@pytest.mark.parametrize(
    ("number", "text"),
    [(errno.EHOSTUNREACH, "Connect call failed {}"), (errno.ENETUNREACH, "Network is unreachable")],
)
@pytest.mark.parametrize("policy", [None, AddressPolicy()])
async def test_a_host_name_is_not_listening_only_if_all_its_addresses_refuse(
    monkeypatch: pytest.MonkeyPatch, policy: AddressPolicy | None, number: int, text: str
) -> None:
    """The process may listen at the address that is only silent."""
    async with serving(Server()) as server:
        closed = server.address
    loop = asyncio.get_running_loop()
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, closed.port)) for host in ("127.0.0.1", "127.0.0.2")]
    silent = {"127.0.0.1"}
    real = loop.sock_connect

    async def resolved(*_: object, **__: object) -> object:
        return found

    async def connecting(made: socket.socket, address: tuple[str, int]) -> None:
        if address[0] in silent:
            raise OSError(number, text.format(address))
        await real(made, address)

    monkeypatch.setattr(loop, "getaddrinfo", resolved)
    monkeypatch.setattr(loop, "sock_connect", connecting)
    for kind in (FailureKind.UNREACHABLE, FailureKind.NOT_LISTENING):
        with pytest.raises(Unreachable) as error:
            await connect(
                Address("two.example", closed.port), Security(policy=policy), timeout=5, client_id="t",
                environment=SYSTEM,
            )  # fmt: skip
        assert error.value.kind is kind
        silent.clear()


async def test_all_frames_of_a_connection_can_be_recorded() -> None:
    class Recorder:
        def __init__(self) -> None:
            self.frames: list[tuple[str, bytes]] = []

        def sent(self, address: Address, frame: bytes) -> None:
            self.frames.append(("sent", frame))

        def received(self, address: Address, frame: bytes) -> None:
            self.frames.append(("received", frame))

    recorder = Recorder()
    async with serving(node()) as server, await to(server, recorder=recorder) as link:
        await link.request(ASK)
        assert [way for way, _ in recorder.frames] == ["sent", "received"] * 2
        assert [frame[4:] for way, frame in recorder.frames if way == "sent"] == server.requests
        assert all(len(frame) == int.from_bytes(frame[:4], "big") + 4 for _, frame in recorder.frames)
