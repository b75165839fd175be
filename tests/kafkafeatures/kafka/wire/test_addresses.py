"""Addresses that may be connected to: forbidden ones are refused in every spelling, and behind every host name."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.errors import AddressRefused, KafkaError, NotKafka
from kafkafeatures.kafka.base.settings import Address, Security
from kafkafeatures.kafka.wire.addresses import LOOPBACK, NEVER, AddressPolicy, networks
from kafkafeatures.kafka.wire.connection import connect
from kafkafeatures.kafka.wire.pem import Tls
from tests.e2e.rig.certificates import Certificates
from tests.kafkafeatures.kafka.wire.servers import Server, api_versions, serving

CERTIFICATES = Certificates()


class ApiServer:
    """An API server that is known at one address, and that is recognised by its answer at the addresses `elsewhere`."""

    def __init__(self, *elsewhere: tuple[str, int]) -> None:
        self.endpoints = frozenset({("198.19.0.1", 443)})
        self.elsewhere, self.asked = elsewhere, 0

    async def answers_at(self, address: str, port: int) -> bool:
        self.asked += 1
        return (address, port) in self.elsewhere


IN_POD = AddressPolicy((*NEVER, *LOOPBACK), api_server=ApiServer())

SPELLINGS = [
    "127.0.0.1", "127.1", "127.0.1", "127.255.255.254", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1",
    "017700000001", "0x7f.1", "localhost", "LOCALHOST", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "::ffff:7f00:1",
    "::127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "0.0.0.0", "0", "::", "0.1.2.3",
    "169.254.169.254", "169.254.1.1", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518",
    "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "fe80::1", "fe80::1%lo",
    "fd00:ec2::254", "100.100.100.200", "224.0.0.1", "255.255.255.255", "ff02::1", "240.0.0.1",
]  # fmt: skip


@pytest.mark.parametrize("host", SPELLINGS)
async def test_a_forbidden_address_is_refused_in_every_spelling(host: str) -> None:
    """The real resolver is used, and nothing is connected to."""
    with pytest.raises(KafkaError) as caught:
        await connect(Address(host, 9092), Security(policy=IN_POD), timeout=5.0, client_id="t", environment=SYSTEM)
    refused = isinstance(caught.value, AddressRefused)
    assert refused or "not known" in str(caught.value), caught.value  # or the resolver knows no such spelling


def test_the_resolver_knows_most_of_the_forty_tested_spellings() -> None:
    known = 0
    for host in SPELLINGS:
        try:
            known += bool(socket.getaddrinfo(host, 9092))
        except OSError:
            continue
    assert len(SPELLINGS) >= 40
    assert known >= 35


async def test_a_host_name_with_one_forbidden_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolved(*_: Any, **__: Any) -> list[Any]:
        return [(0, 0, 0, "", ("198.18.0.9", 9092)), (0, 0, 0, "", ("169.254.169.254", 9092))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolved)
    with pytest.raises(AddressRefused):
        await connect(
            Address("both.example", 9092), Security(policy=IN_POD), timeout=5.0, client_id="t", environment=SYSTEM
        )


async def test_a_host_name_is_resolved_once_for_the_check_and_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    loop = asyncio.get_running_loop()
    real = loop.getaddrinfo

    async def rebinding(host: str, port: int, **rest: Any) -> Any:
        asked.append(host)
        if host != "rebinding.example":
            return await real(host, port, **rest)
        return [(0, 0, 0, "", ("127.0.0.1" if len(asked) == 1 else "169.254.169.254", port))]

    monkeypatch.setattr(loop, "getaddrinfo", rebinding)
    with pytest.raises(KafkaError, match="connection refused"):
        await connect(
            Address("rebinding.example", 1),
            Security(policy=AddressPolicy()),
            timeout=5.0,
            client_id="t",
            environment=SYSTEM,
        )
    assert asked.count("rebinding.example") == 1


def test_the_api_server_is_refused_on_its_port_only() -> None:
    assert not IN_POD.permits("198.19.0.1", 443)
    assert not IN_POD.permits("::ffff:198.19.0.1", 443)
    assert IN_POD.permits("198.19.0.1", 9092)


def test_the_current_address_of_the_api_server_is_refused_and_a_former_one_permitted() -> None:
    server = ApiServer()
    policy = AddressPolicy(api_server=server)
    server.endpoints = frozenset({("198.19.0.2", 443)})
    assert policy.permits("198.19.0.1", 443)
    assert not policy.permits("198.19.0.2", 443)


async def test_an_error_message_does_not_describe_the_answer_of_an_api_server() -> None:
    """The API server answers at an address that was not known, such as that of its node, or of a load balancer."""
    async with serving(Server({18: lambda request: b""})) as server:
        there = (server.address.host, server.address.port)
        for address in (server.address, Address("localhost", server.address.port)):
            security = Security(policy=AddressPolicy(api_server=ApiServer(there)))
            with pytest.raises(AddressRefused):
                await connect(address, security, timeout=5.0, client_id="t", environment=SYSTEM)
        with pytest.raises(NotKafka):  # and it is described where another server answers
            await connect(
                server.address,
                Security(policy=AddressPolicy(api_server=ApiServer())),
                timeout=5.0,
                client_id="t",
                environment=SYSTEM,
            )
        with pytest.raises(NotKafka):  # the command line has no policy
            await connect(server.address, Security(), timeout=5.0, client_id="t", environment=SYSTEM)


async def test_an_error_message_does_not_describe_a_failed_tls_handshake_with_the_api_server() -> None:
    async with serving(Server({18: lambda request: b""})) as server:
        policy = AddressPolicy(api_server=ApiServer((server.address.host, server.address.port)))
        with pytest.raises(AddressRefused):
            await connect(
                server.address,
                Security(Tls(ca=CERTIFICATES.ca), policy=policy),
                timeout=5.0,
                client_id="t",
                environment=SYSTEM,
            )


async def test_no_request_is_sent_to_a_server_with_the_certificate_of_an_api_server(tmp_path: Path) -> None:
    """A document can name the CA of the Kubernetes cluster, so TLS succeeds: only the names in the certificate tell."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "kubernetes.default.svc").configure_cert(context)
    tls = Tls(ca=authority.cert_pem.bytes().decode())
    async with serving(Server(), context) as server:
        with pytest.raises(AddressRefused):
            await connect(
                server.address, Security(tls, policy=AddressPolicy()), timeout=5.0, client_id="t", environment=SYSTEM
            )
        assert server.requests == []


async def test_a_kafka_node_is_never_checked_for_being_the_api_server() -> None:
    async with serving(Server({18: api_versions()})) as server:
        api_server = ApiServer()
        security = Security(policy=AddressPolicy(api_server=api_server))
        async with await connect(server.address, security, timeout=5.0, client_id="t", environment=SYSTEM):
            assert api_server.asked == 0
            assert server.connections == 1


def test_allowed_networks_exclude_all_others_and_permit_no_forbidden_address() -> None:
    policy = AddressPolicy(NEVER, networks("10.0.0.0/8", "169.254.0.0/16"))
    assert policy.permits("10.1.2.3", 9092)
    assert not policy.permits("192.0.2.1", 9092)
    assert not policy.permits("169.254.169.254", 9092)


@given(st.ip_addresses())
def test_every_ip_address_is_denied_by_a_policy_of_all_networks_and_permitted_by_one_of_none(address: Any) -> None:
    every_network = AddressPolicy(denied=networks("0.0.0.0/0", "::/0"))
    assert not every_network.permits(str(address), 1)
    assert AddressPolicy(denied=()).permits(str(address), 1)


def test_a_text_that_is_no_ip_address_is_not_permitted() -> None:
    assert not AddressPolicy(()).permits("localhost", 1)
