"""The listeners of a world: an asyncio server on 127.0.0.1 for each node whose port is open, and the task that advances
the world's time.

Made by `__main__` and by tests. It decides when a port is open (the process runs, and a broker has registered), when a
connection is closed (an API or version that is not offered, invalid bytes, the end of the process), and when waiting
responses check again. `kafkasim.answers` makes the responses, and `world` simulates.

Ports are reserved before the world exists, because registrations carry them, and stay bound while a node is down: a
connection to it is refused, and no other process can take the port.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from kafkafeatures.core.facts.readings import Role
from kafkasim.answers.node import NodeAnswers
from kafkasim.node import Node
from kafkasim.wire.codec import (
    API_VERSIONS,
    Head,
    NotKafkaError,
    read_head,
    read_request,
    unsupported_api_versions,
    write_response,
)
from kafkasim.wire.exchanges import SIMULATED_FROM, exchange
from kafkasim.world import World

HOST = "127.0.0.1"
LARGEST_REQUEST = 1 << 20  # bytes; socket.request.max.bytes is larger, but nothing that is simulated needs it
_BACKLOG = 128
_LENGTH = struct.Struct(">i")

Key = tuple[Role, int]
T = TypeVar("T")


class Ports:
    """A bound socket for every node, listening or not. Raises OSError for a port that another process has."""

    def __init__(self, keys: Iterable[Key], host: str = HOST, first_port: int = 0) -> None:
        """first_port: port of the first node; the others have the next ones. 0: any free ports."""
        self._sockets: dict[Key, socket.socket] = {}
        try:
            for number, key in enumerate(keys):
                self._sockets[key] = _bound(host, first_port + number if first_port else 0)
        except OSError:
            self.close()
            raise

    @property
    def addresses(self) -> Mapping[Key, tuple[str, int]]:
        """Host and port by node, without the sockets that are taken."""
        return {key: bound.getsockname() for key, bound in self._sockets.items()}

    def take(self, key: Key) -> socket.socket:
        """The socket, to listen on; `give_back` when the listener is closed."""
        return self._sockets.pop(key)

    def give_back(self, key: Key, address: tuple[str, int]) -> None:
        """Bind the port again."""
        self._sockets[key] = _bound(*address)

    def close(self) -> None:
        """Release the ports that are not taken."""
        for bound in self._sockets.values():
            bound.close()


def _bound(host: str, port: int) -> socket.socket:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


class SimulatorServer:
    """A world on the network; it implements `Clock` of `answers/log.py`. `now_ms`: clock that the world follows."""

    def __init__(self, world: World, ports: Ports, now_ms: Callable[[], int]) -> None:
        self.world = world
        self._ports = ports
        self._now_ms = now_ms
        self._servers: dict[Key, asyncio.Server] = {}
        self._connections: dict[Key, set[asyncio.Task[None]]] = {}
        self._waiting: set[asyncio.Future[None]] = set()  # responses that wait for a change of the world
        self._wake = asyncio.Event()  # set when the world was changed
        self._pump: asyncio.Task[None] | None = None  # the task that advances time
        self._listeners = asyncio.Lock()  # one task at a time opens and closes them

    async def __aenter__(self) -> SimulatorServer:
        await self._open_and_close()
        self._pump = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.wait([self._pump])
        for key in list(self._servers):
            await self._close(key)
        self._ports.close()
        if self._pump is not None and not self._pump.cancelled():
            self._pump.result()  # it ends only by an exception, which is raised here

    async def stopped(self) -> None:
        """Wait until the task that advances time has failed. Its exception is raised when the server is left."""
        if self._pump is not None:
            await asyncio.wait([self._pump])

    def now_ms(self) -> int:
        """The time of the clock, in ms."""
        return self._now_ms()

    async def moved(self, until_ms: int | None = None) -> None:
        """Wait for the next change of the world, but not longer than until `until_ms`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        seconds = None if until_ms is None else max(0, until_ms - self._now_ms()) / 1000
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await future
        finally:
            self._waiting.discard(future)

    async def act(self, action: Callable[[World], T]) -> T:
        """Apply an action to the world, and return when the listeners are open or closed accordingly."""
        self.world.advance(self._now_ms())
        result = action(self.world)
        await self._open_and_close()
        self.changed()
        return result

    async def until(self, condition: Callable[[World], bool]) -> None:
        """Wait until the condition is true of the world."""
        while not condition(self.world):
            await self.moved()
        await self._open_and_close()

    # --- time ---

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            due = self.world.next_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else max(0, due - self._now_ms()) / 1000):
                    await self._wake.wait()
            self.world.advance(self._now_ms())
            await self._open_and_close()
            for future in self._waiting:
                if not future.done():
                    future.set_result(None)

    def changed(self) -> None:
        """Run events that are due now, and let waiting responses check again."""
        self._wake.set()

    # --- listeners ---

    async def _open_and_close(self) -> None:
        async with self._listeners:
            for key, node in self.world.nodes.items():
                should_listen = node.listening
                if should_listen and key not in self._servers:
                    await self._open(key, node)
                elif not should_listen and key in self._servers:
                    await self._close(key)

    async def _open(self, key: Key, node: Node) -> None:
        """Listen on the port of a node."""
        connections = self._connections[key] = set()
        answers = NodeAnswers(self.world, node, self)

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            if task is not None:
                connections.add(task)
                task.add_done_callback(connections.discard)
            try:
                if self._connections.get(key) is connections:  # else the node ended while it accepted this one
                    await self._converse(answers, reader, writer)
            except (OSError, EOFError, NotKafkaError, asyncio.CancelledError):
                pass  # cancelled only when the node ends: to the client that is a closed connection, like the others
            finally:
                writer.transport.abort()

        self._servers[key] = await asyncio.start_server(
            connected, sock=self._ports.take(key), backlog=_BACKLOG, limit=LARGEST_REQUEST
        )

    async def _close(self, key: Key) -> None:
        """Close the listener of a node and its connections, and bind its port again."""
        server = self._servers.pop(key)
        running = list(self._connections.pop(key))
        listener = server.sockets[0]
        address = listener.getsockname()
        # A connection accepted in this turn of the loop joins its server in the next. If the server is closed between
        # the two, asyncio leaves the socket open with nobody to serve it: python/cpython#109564.
        asyncio.get_running_loop().remove_reader(listener.fileno())
        await asyncio.sleep(0)
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await server.wait_closed()
        self._ports.give_back(key, address)

    async def _converse(self, answers: NodeAnswers, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests in order, until one is invalid or not offered, or the client closes the connection."""
        offered = answers.apis
        while True:
            (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
            if not 0 <= size <= LARGEST_REQUEST:
                raise NotKafkaError(f"a request of {size} bytes")
            frame = await reader.readexactly(size)
            head = read_head(frame)
            versions = offered.get(head.api_key)
            if versions is None or head.api_version not in versions:
                if head.api_key != API_VERSIONS or versions is None:
                    return  # a node closes the connection, but answers an ApiVersions that is too new
                answer = unsupported_api_versions(head, versions)
            else:
                reply = await self._answer(answers, head, frame)
                if reply is None:
                    return
                answer = reply
            writer.write(_LENGTH.pack(len(answer)) + answer)
            await writer.drain()

    async def _answer(self, answers: NodeAnswers, head: Head, frame: bytes) -> bytes | None:
        if head.api_version < SIMULATED_FROM.get(head.api_key, 0):
            return None
        request = read_request(head, frame)
        self.world.advance(self._now_ms())
        body = await exchange(answers, head.api_key, head.api_version, request)
        return None if body is None else write_response(head, body)
