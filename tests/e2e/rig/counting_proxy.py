"""A proxy on loopback in front of a server: it counts the bytes that the server sends."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread

_BLOCK = 64 * 1024


@dataclass
class Counted:
    """port: of the proxy. sent: number of bytes that the server has sent through it."""

    port: int = 0
    sent: int = 0


@contextmanager
def counting_proxy(port: int) -> Iterator[Counted]:
    """A proxy for the server at this port, until the end."""
    counted = Counted()

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(("127.0.0.1", port)) as server:
                requests = Thread(target=_forward, args=(self.request, server), daemon=True)
                requests.start()
                for block in _blocks(server):
                    counted.sent += len(block)
                    self.request.sendall(block)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as proxy:
        proxy.daemon_threads, counted.port = True, proxy.server_address[1]
        thread = Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield counted
        finally:
            proxy.shutdown()
            thread.join()


def _blocks(connection: socket.socket) -> Iterator[bytes]:
    while block := connection.recv(_BLOCK):
        yield block


def _forward(client: socket.socket, server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        for block in _blocks(client):
            server.sendall(block)
        server.shutdown(socket.SHUT_WR)
