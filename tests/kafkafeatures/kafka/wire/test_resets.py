"""Changes that timed out or were cancelled, or whose process was killed: bytes not yet received never arrive later."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator

import pytest

from kafkafeatures.core.engine.settling import DELIVERED_WITHIN
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.errors import Disconnected, RequestWithheld, TimedOut
from kafkafeatures.kafka.base.settings import Address, Security
from kafkafeatures.kafka.wire.connection import Connection, connect
from kafkafeatures.kafka.wire.messages import UPGRADE, UpdateFeaturesRequest
from kafkafeatures.kafka.wire.pem import Tls
from tests.e2e.rig.certificates import Certificates
from tests.kafkafeatures.kafka.wire.servers import Server, api_versions, serving

CERTIFICATES = Certificates()
OFFERED = api_versions((57, 1, 2))
NAME = 24 * 1024
CHANGE = UpdateFeaturesRequest(updates=(("f" * NAME, 1, UPGRADE),))
"""A change of 24 KiB: more than a node receives that does not read, so a part waits in the kernel of the sender."""

KILLED = """
import asyncio, os, signal, sys
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import Address, Security
from kafkafeatures.kafka.wire import connection, messages
async def main():
    node, security = Address("127.0.0.1", int(sys.argv[1])), Security()
    link = await connection.connect(node, security, timeout=10, client_id="us", environment=SYSTEM)
    link.end_by_reset(10)
    change = messages.UpdateFeaturesRequest(updates=(("f" * int(sys.argv[2]), 1, messages.UPGRADE),))
    asyncio.get_running_loop().call_later(0.2, os.kill, os.getpid(), signal.SIGKILL)
    await link.change(change, withheld=lambda: None, timeout=60)
asyncio.run(main())
"""


class Deaf:
    """A node that answers ApiVersions, and reads no further until `goes_on` is set; then it reads to the end."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.address = Address(*self.listener.getsockname()[:2])
        self.goes_on = threading.Event()
        self._context = context
        self.read = 0
        self.was_reset = False

    def serve(self) -> None:
        raw, _ = self.listener.accept()
        link = raw if self._context is None else self._context.wrap_socket(raw, server_side=True)
        link.settimeout(10)
        length = int.from_bytes(link.recv(4), "big")
        link.sendall(OFFERED(link.recv(length)) or b"")
        self.goes_on.wait(20)
        with socket.socket(fileno=link.detach()) as bare:  # as many bytes are decrypted as arrive
            try:
                while found := bare.recv(1 << 20):
                    self.read += len(found)
            except ConnectionResetError:
                self.was_reset = True


@contextlib.asynccontextmanager
async def deaf(context: ssl.SSLContext | None) -> AsyncIterator[Deaf]:
    node = Deaf(context)
    serving_it = asyncio.create_task(asyncio.to_thread(node.serve))
    try:
        yield node
        node.goes_on.set()
        await serving_it
    finally:
        node.goes_on.set()
        node.listener.close()


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    return CERTIFICATES.server_side(tmp_path_factory.mktemp("tls"))


async def to(address: Address, *, tls: bool = False) -> Connection:
    security = Security(Tls(ca=CERTIFICATES.ca)) if tls else Security()
    link = await connect(address, security, timeout=10, client_id="us", environment=SYSTEM)
    link.end_by_reset(DELIVERED_WITHIN.total_seconds())
    return link


@pytest.mark.parametrize("tls", [False, True], ids=["plaintext", "TLS"])
async def test_a_timed_out_request_does_not_arrive_when_the_node_resumes(context: ssl.SSLContext, tls: bool) -> None:
    async with deaf(context if tls else None) as node:
        link = await to(node.address, tls=tls)
        with pytest.raises(TimedOut) as caught:
            await link.change(CHANGE, withheld=lambda: None, timeout=0.3)
        assert caught.value.sent
        await asyncio.sleep(0)
    assert node.was_reset
    assert node.read < NAME


@pytest.mark.parametrize("tls", [False, True], ids=["plaintext", "TLS"])
async def test_closing_a_connection_resets_it(context: ssl.SSLContext, tls: bool) -> None:
    async with deaf(context if tls else None) as node:
        link = await to(node.address, tls=tls)
        written = asyncio.Event()
        changing = asyncio.create_task(link.change(CHANGE, withheld=written.set, timeout=60))
        await written.wait()
        changing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await changing
        await link.close()
    assert node.was_reset
    assert node.read < NAME


async def test_a_request_of_a_killed_process_does_not_arrive_when_the_node_resumes() -> None:
    """The kernel closes the sockets of a killed process."""
    async with deaf(None) as node:
        arguments = [sys.executable, "-c", KILLED, str(node.address.port), str(NAME)]
        killed = await asyncio.to_thread(subprocess.run, arguments, env=os.environ, timeout=30, check=False)
        assert killed.returncode == -9
    assert node.was_reset
    assert node.read < NAME


async def test_the_kernel_times_out_unacknowledged_bytes() -> None:
    async with serving(Server({18: OFFERED})) as server:
        link = await to(server.address)
        made: socket.socket = link._writer.get_extra_info("socket")
        most = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert most == DELIVERED_WITHIN.total_seconds() * 1000
        link.drop()


# --- permission to send ---


async def test_a_request_withheld_before_its_first_byte_is_not_sent() -> None:
    async with serving(Server({18: OFFERED})) as server:
        link = await to(server.address)
        with pytest.raises(RequestWithheld, match="it is too late") as caught:
            await link.change(CHANGE, withheld=lambda: "it is too late", timeout=5)
        assert not caught.value.sent
        await link.close()
        assert len(server.requests) == 1


async def test_permission_to_send_is_asked_right_before_the_first_byte() -> None:
    asked = []

    async with serving(Server({18: OFFERED, 57: lambda request: b""})) as server:

        def now() -> None:
            asked.append(len(server.requests))

        link = await to(server.address)
        with pytest.raises(Disconnected) as caught:
            await link.change(CHANGE, withheld=now, timeout=5)
        assert caught.value.sent
        assert asked == [1]
        assert len(server.requests) == 2
