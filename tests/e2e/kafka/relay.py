"""Stands between a client and a ZooKeeper server, and loses or holds what passes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Self

MULTI = (14).to_bytes(4)
"""The type of a transaction, behind length and xid."""


class Relay:
    """Stands before a server of ZooKeeper. A transaction that comes is held back, and the connection it came on is
    ended; `pass_on` delivers it, in its own session.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._held: list[tuple[asyncio.StreamWriter, bytes]] = []
        self.answered = 0
        """Answers, also those that arrive nowhere."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.connect = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *ended: object) -> None:
        self._server.close()
        for one in self._held:
            one[0].close()
        for task in self._tasks:
            task.cancel()

    async def pass_on(self) -> None:
        ((writer, frame),) = self._held
        writer.write(frame)
        await writer.drain()

    async def _carry(self, ours: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        theirs, on = await asyncio.open_connection("127.0.0.1", self._target)
        task = asyncio.create_task(self._answers(theirs, back))
        self._tasks.add(task)
        try:
            while True:
                length = await ours.readexactly(4)
                frame = length + await ours.readexactly(int.from_bytes(length))
                if frame[8:12] == MULTI:
                    self._held.append((on, frame))
                    back.transport.abort()
                    return
                on.write(frame)
        except (asyncio.IncompleteReadError, ConnectionError):
            on.close()

    async def _answers(self, theirs: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await theirs.read(65536):
                self.answered += 1
                if not back.is_closing():
                    back.write(data)
