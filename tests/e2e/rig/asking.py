"""Asks nodes without the product, which the tests examine and do not trust: raw requests, and Kafka's own tools."""

from __future__ import annotations

import io
import socket
import ssl
import struct
import subprocess
from collections.abc import Callable
from contextlib import ExitStack

LEADER_MOVED = ("NotLeaderOrFollowerException", "NotControllerException")
"""Answers to Kafka's own tools that say nothing of the cluster but that it is between two leaders."""
TRIES = 5


def asked(
    port: int,
    request: bytes,
    *,
    timeout: float = 30,
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
    server: str | None = None,
) -> bytes:
    """The reply to a request, both without their length, over a connection of its own. `server`: name of the node in
    its certificate.
    """
    with ExitStack() as stack:
        link = stack.enter_context(socket.create_connection((host, port), timeout=timeout))
        if tls is not None:
            link = stack.enter_context(tls.wrap_socket(link, server_hostname=server))
        stream = stack.enter_context(link.makefile("rb"))
        link.sendall(struct.pack(">i", len(request)) + request)
        (length,) = struct.unpack(">i", stream.read(4))
        return stream.read(length)


def listed_brokers(port: int) -> set[int]:
    """Ids a broker lists: Metadata v0, by hand. The product's client is what the tests examine, not what they trust."""
    reply = io.BytesIO(asked(port, struct.pack(">hhih3si", 3, 0, 1, 3, b"rig", 0), timeout=10))
    _, count = struct.unpack(">ii", reply.read(8))
    found = set()
    for _ in range(count):
        id_, length = struct.unpack(">ih", reply.read(6))
        reply.read(length + 4)
        found.add(id_)
    return found


def past_moving_leaders(
    run: Callable[[], subprocess.CompletedProcess[str]], leader: Callable[[], object]
) -> subprocess.CompletedProcess[str]:
    """Run a tool of Kafka's; again when `leader` is known, some times, where it met a leader that was none any more."""
    for _ in range(TRIES - 1):
        done = run()
        if not done.returncode or not any(sign in done.stdout + done.stderr for sign in LEADER_MOVED):
            return done
        leader()
    return run()
