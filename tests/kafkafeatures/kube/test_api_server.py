"""Recognition of the API server by its certificate, and by the addresses of its names; with real TLS, on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import cast

import pytest
import trustme

from kafkafeatures.environment import SYSTEM
from kafkafeatures.kube import api_server
from kafkafeatures.kube.api_server import ApiServer
from kafkafeatures.kube.client import KubeApi

OURS, ANOTHER = trustme.CA(), trustme.CA()
NAMES = ("kubernetes", "kubernetes.default.svc")


class Api:
    """The configuration of the client, with the address and the CA of the API server."""

    def __init__(self) -> None:
        self.authority: trustme.CA | None = OURS
        self.found: set[tuple[str, int]] = {("198.19.0.1", 443)}

    async def endpoints(self) -> frozenset[tuple[str, int]]:
        return frozenset(self.found)

    def trust(self) -> ssl.SSLContext:
        if self.authority is None:
            raise FileNotFoundError("ca.crt")
        return ssl.create_default_context(cadata=self.authority.cert_pem.bytes().decode())


async def known(api: Api | None = None) -> ApiServer:
    made = ApiServer(cast(KubeApi, api or Api()), environment=SYSTEM)
    await made.refresh()
    return made


@contextlib.asynccontextmanager
async def listening(authority: trustme.CA | None, *names: str) -> AsyncIterator[int]:
    """A server with a certificate for these names; without an authority, one that accepts and stays silent."""
    context = None
    if authority is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*names).configure_cert(context)

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.read()
        writer.close()

    listener = await asyncio.start_server(hold, "127.0.0.1", 0, ssl=context)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        await listener.wait_closed()


async def test_the_api_server_is_recognised_at_an_unknown_address() -> None:
    server = await known()
    async with listening(OURS, *NAMES) as port:
        assert ("127.0.0.1", port) not in server.endpoints
        assert await server.answers_at("127.0.0.1", port)


@pytest.mark.parametrize(
    ("authority", "names"), [(OURS, ("kafka-0.kafka",)), (ANOTHER, NAMES)], ids=["another name", "another CA"]
)
async def test_no_other_server_is_taken_for_the_api_server(authority: trustme.CA, names: tuple[str, ...]) -> None:
    server = await known()
    async with listening(authority, *names) as port:
        assert not await server.answers_at("127.0.0.1", port)


async def test_a_server_that_does_not_answer_in_time_is_not_the_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_server, "PROOF", 0.05)
    server = await known()
    async with listening(None) as port:
        assert not await server.answers_at("127.0.0.1", port)
    assert not await server.answers_at("127.0.0.1", port)


async def test_the_addresses_of_the_api_server_are_looked_up_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    api, moved = Api(), ("198.19.0.2", 443)
    server = await known(api)
    api.found = {moved}
    monkeypatch.setattr(api_server, "REFRESH", 0.0)
    looking = asyncio.create_task(server.keep_looking())
    async with asyncio.timeout(5):
        while server.endpoints != {moved}:  # noqa: ASYNC110 - it looks without an end
            await asyncio.sleep(0)
    looking.cancel()
    await asyncio.wait([looking])


async def test_known_addresses_of_the_api_server_stay_refused_if_its_names_do_not_resolve() -> None:
    api = Api()
    server = await known(api)
    api.found = set()
    await server.refresh()
    assert server.endpoints == {("198.19.0.1", 443)}


async def test_a_renewed_ca_is_used_and_the_old_one_is_kept_if_it_cannot_be_read() -> None:
    api = Api()
    server = await known(api)
    async with listening(ANOTHER, *NAMES) as renewed, listening(OURS, *NAMES) as old:
        api.authority = None
        await server.refresh()
        assert await server.answers_at("127.0.0.1", old)
        api.authority = ANOTHER
        await server.refresh()
        assert await server.answers_at("127.0.0.1", renewed)
        assert not await server.answers_at("127.0.0.1", old)


async def test_without_its_ca_no_server_is_taken_for_the_api_server() -> None:
    api = Api()
    api.authority = None
    async with listening(OURS, *NAMES) as port:
        assert not await (await known(api)).answers_at("127.0.0.1", port)
