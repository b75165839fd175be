"""Small servers that speak just enough Kafka, as a list of answers. Real nodes are asked in tests/e2e."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Callable

from kafkafeatures.kafka.base.settings import Address

Answer = Callable[[bytes], bytes | None]
"""Gets a request without its length; returns a whole frame, or any bytes, or None for silence."""
Answers = dict[int, Answer]
"""Answers by API key."""


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def api_versions(*offered: tuple[int, int, int], error: int = 0) -> Answer:
    """Answers ApiVersions in the version asked for, as a node that offers these apis: (key, min, max)."""
    apis = ((18, 0, 4), *offered)

    def answer(request: bytes) -> bytes:
        flexible = int.from_bytes(request[2:4], "big") >= 3
        tags = b"\0" if flexible else b""
        count = bytes([len(apis) + 1]) if flexible else struct.pack(">i", len(apis))
        keys = b"".join(struct.pack(">hhh", *api) + tags for api in apis)
        throttle = b"\0\0\0\0" if request[2:4] != b"\0\0" else b""
        return framed(request[4:8] + struct.pack(">h", error) + count + keys + throttle + tags)

    return answer


def unregistered(request: bytes, error: int = 0) -> bytes:
    """UnregisterBroker v0."""
    return framed(request[4:8] + b"\0" + b"\0\0\0\0" + struct.pack(">h", error) + b"\0" + b"\0")


def handshake(*mechanisms: str, error: int = 0) -> Callable[[bytes], bytes]:
    def answer(request: bytes) -> bytes:
        names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in mechanisms)
        return framed(request[4:8] + struct.pack(">hi", error, len(mechanisms)) + names)

    return answer


def proof_of(request: bytes) -> bytes:
    """SaslAuthenticate v2: after the header a compact byte string."""
    at = 8 + 2 + int.from_bytes(request[8:10], "big") + 1
    return request[at + 1 + (request[at] > 127) : -1]


def judged(request: bytes, answer: bytes = b"", *, error: int = 0, lifetime_ms: int = 0) -> bytes:
    size = len(answer) + 1
    length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    said = b"\x05nope" if error else b"\0"
    body = struct.pack(">h", error) + said + length + answer + struct.pack(">q", lifetime_ms) + b"\0"
    return framed(request[4:8] + b"\0" + body)


def refused(request: bytes, code: int, said: str) -> bytes:
    """SaslAuthenticate v2: no."""
    text = said.encode()
    size = len(text) + 1
    length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    return framed(request[4:8] + b"\0" + struct.pack(">h", code) + length + text + b"\x01" + bytes(8) + b"\0")


def _no_answer(_request: bytes) -> None:
    return None


class Server:
    """Answers by api key; keeps every request it got."""

    def __init__(self, answers: Answers | None = None, *, first: bytes = b"") -> None:
        self.answers = answers or {}
        self.first = first
        self.requests: list[bytes] = []
        self.connections = 0
        self.address = Address("127.0.0.1", 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            if self.first:
                writer.write(self.first)
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                request = await reader.readexactly(length)
                self.requests.append(request)
                answer = self.answers.get(int.from_bytes(request[:2], "big"), _no_answer)(request)
                if answer == b"":
                    break
                if answer is not None:
                    writer.write(answer)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(OSError, ssl.SSLError):
                await writer.wait_closed()


@contextlib.asynccontextmanager
async def serving(server: Server, context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    server.address = Address(*listener.sockets[0].getsockname()[:2])
    try:
        yield server
    finally:
        listener.close()
        await listener.wait_closed()
