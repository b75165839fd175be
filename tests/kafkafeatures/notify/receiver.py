"""A real HTTP server that takes notifications, and answers each as the test says: also wrongly or not at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafkafeatures.environment import Environment
from tests.kafkafeatures.worlds import NOW

SECRET = "T0-B0-a-secret-of-the-receiver"  # of no one
_TLS = b"\x16"
"""First byte of a handshake."""
Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(status: int, body: bytes = b"ok", **headers: str) -> Answer:
    """An answer of HTTP."""

    async def write(writer: asyncio.StreamWriter) -> None:
        lines = {"Content-Length": str(len(body)), "Content-Type": "text/html"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(f"HTTP/1.1 {status} .\r\n{head}\r\n".encode() + body)
        await writer.drain()

    return write


async def closes(writer: asyncio.StreamWriter) -> None:
    """No answer: the connection is closed."""


async def is_silent(writer: asyncio.StreamWriter) -> None:
    """No answer, on a connection that stays open until the client closes it."""
    await writer.wait_closed()


async def speaks_otherwise(writer: asyncio.StreamWriter) -> None:
    """Something that is not HTTP."""
    writer.write(b"220 mail.example ESMTP " + SECRET.encode() + b"\r\n")


async def never_ends(writer: asyncio.StreamWriter) -> None:
    """An answer of 200 whose body ends when the client closes the connection."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"ok" * 4096)
        await writer.drain()


@dataclass
class Receiver:
    """The server. `answers`: for the next requests; the last one is for all that follow. `requests`: their bodies."""

    folder: Path
    answers: list[Answer] = field(default_factory=lambda: [answer(200)])
    requests: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    port: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    has_request: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url_file(self) -> str:
        """The file with the URL, as a Secret is mounted."""
        return str(self.folder / "url")

    def set_url(self, url: str) -> None:
        (self.folder / "url").write_text(url)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            first = await reader.readexactly(1)
            if first == _TLS:
                writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                return
            head = (first + await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(line for line in head.lower().split("\r\n") if line.startswith("content-length:"))
            self.requests.append(json.loads(await reader.readexactly(int(length.partition(":")[2]))))
            self.paths.append(head.split()[1])
            self.has_request.set()
            await (self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])(writer)
        except (ConnectionError, EOFError):
            pass  # it was closed
        finally:
            writer.close()


@asynccontextmanager
async def receiving(folder: Path, *answers: Answer) -> AsyncIterator[Receiver]:
    """A receiver that runs on loopback, with its URL in its file."""
    receiver = Receiver(folder)
    receiver.answers = [*answers] or receiver.answers
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    receiver.set_url(f"http://127.0.0.1:{receiver.port}/services/{SECRET}\n")
    try:
        yield receiver
    finally:
        server.close()
        for writer in receiver.writers:
            writer.close()
        await server.wait_closed()


class Hours:
    """Time that passes only in pauses, each at once, or not at all (`stands_still`).

    pauses: their seconds; each is put into `begun` too.
    """

    def __init__(self, *, stands_still: bool = False) -> None:
        self.seconds = 0.0
        self.pauses: list[float] = []
        self.begun: asyncio.Queue[float] = asyncio.Queue()
        self._stands_still = stands_still

    @property
    def environment(self) -> Environment:
        return Environment(lambda: NOW, lambda: self.seconds, lambda: 0.0, self._sleep)

    async def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            self.pauses.append(seconds)
            self.begun.put_nowait(seconds)
            if self._stands_still:
                await asyncio.get_running_loop().create_future()
        self.seconds += seconds
        await asyncio.sleep(0)
