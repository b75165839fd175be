"""Connections for kazoo, the ZooKeeper client, with checks that kazoo does not make.

Used by `session.py`. kazoo 2.11 resolves names by itself, does not check the host names of certificates, allocates as
many bytes as the length field of an answer claims, and sends a request on a new connection if the old one failed. Here
connections follow the address policy and verify certificates (`Sockets`), the length of an answer is limited, and a
transaction leaves on one connection or not at all (`Frames`). kazoo keeps the session and encodes the requests. Its
version is pinned; `tests/kafkafeatures/zookeeper` would show if a newer one bypassed this.
"""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from typing import Any

from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Transaction

from kafkafeatures.core.engine.settling import DELIVERED_WITHIN
from kafkafeatures.kafka.base.errors import AddressRefused, KafkaError, NotKafka, Unreachable
from kafkafeatures.kafka.wire import tls
from kafkafeatures.kafka.wire.connection import end_by_reset
from kafkafeatures.zookeeper.ensemble import Ensemble

LARGEST_FRAME = 4 * 1024 * 1024
"""Largest answer in bytes: a znode has 1 MiB at most (`jute.maxbuffer`), a list of children may be longer."""


class Sockets(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Makes connections that the ensemble's address policy permits.

    failure: failure of the last attempt; None: it succeeded, or there was none.
    answered: IP address and port of the last connection.
    """

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__()
        self._ensemble = ensemble
        self.failure: KafkaError | None = None
        self.answered: tuple[str, int] | None = None
        self._socket: socket.socket | None = None
        self._ended = False

    def end(self) -> None:
        """End the connection, so that a thread of kazoo which waits for an answer ends as well. No further connection
        is made.
        """
        self._ended = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def create_connection(self, *_: Any, **arguments: Any) -> socket.socket:
        """A connection to one server. Raises ConnectionDropped, after which kazoo tries the next server."""
        host, port = arguments["address"]
        if self._ended:
            raise ConnectionDropped("ended")
        try:
            connection = self._connected(host, port, arguments["timeout"])
        except KafkaError as error:
            self.failure = error
            raise ConnectionDropped(str(error)) from None
        self.failure, self._socket = None, connection
        return connection

    def _connected(self, host: str, port: int, timeout: float) -> socket.socket:
        """A connection to one of the addresses of a name. Raises KafkaError."""
        ensemble, last_error = self._ensemble, None
        try:
            addresses = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        except (OSError, UnicodeError, ValueError):
            raise Unreachable("the host name is not known", remedy="check the name") from None
        policy = ensemble.policy
        if policy is not None and not all(policy.permits(address, port) for address in addresses):
            raise AddressRefused  # even if only one address of the name is not permitted, as for Kafka
        for address in dict.fromkeys(addresses):
            try:
                connection = socket.create_connection((address, port), timeout)
            except OSError as error:
                last_error = error
                continue
            self.answered = address, port
            try:
                return self._secured(connection, host)
            except BaseException:
                connection.close()
                raise
        raise Unreachable(
            f"connection failed ({last_error.strerror if last_error and last_error.strerror else last_error})",
            remedy="check host, port and that ZooKeeper runs",
        )

    def _secured(self, raw_socket: socket.socket, host: str) -> socket.socket:
        """The connection with TLS, if the ensemble has it. Raises KafkaError."""
        if self._ensemble.tls is None:
            return raw_socket
        try:
            secured = tls.context(self._ensemble.tls).wrap_socket(raw_socket, server_hostname=host)
        except ssl.SSLError as error:
            raise tls.failed(error, self._ensemble.tls, named=tls.OF_ZOOKEEPER) from None
        except OSError:
            raise tls.closed_in_handshake() from None
        if self._ensemble.policy is not None and tls.is_api_server(secured.getpeercert()):
            secured.close()
            raise AddressRefused
        return secured


class Frames(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's handler of a connection, with a limit for the length of answers, and with transactions that leave on one
    connection or not at all. Names are resolved only by `Sockets`.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._lock = threading.Lock()  # the event loop permits and forbids, a thread of kazoo sends
        self._permitted_socket: socket.socket | None = None  # the connection on which a transaction may leave
        self._has_begun = False  # kazoo began to write one

    def permit_transaction(self) -> None:
        """Allow a transaction from now on, but only on the current connection. That connection is set to end by a
        reset, and the kernel drops bytes that the server does not acknowledge in time (`DELIVERED_WITHIN`).
        """
        link = self._socket
        if link is not None:
            with suppress(OSError):  # it may be closed by now, and then nothing leaves
                end_by_reset(link, DELIVERED_WITHIN.total_seconds())
        with self._lock:
            self._permitted_socket = link

    def forbid_transactions(self) -> bool:
        """Allow no transaction from now on. Returns True if a byte of one may have left already."""
        with self._lock:
            self._permitted_socket = None
            return self._has_begun

    def _submit(self, request: Any, timeout: float, xid: int | None = None) -> None:
        if request.type == Transaction.type:
            with self._lock:
                if self._permitted_socket is None or self._permitted_socket is not self._socket:
                    raise ConnectionDropped("a transaction may no longer leave")
                self._has_begun = True
        super()._submit(request, timeout, xid)

    def _expand_client_hosts(self) -> list[tuple[str, str, int]]:
        return [(host, host, port) for host, port in self.client.hosts]

    def _read(self, length: int, timeout: float) -> bytes:
        if not 0 <= length <= LARGEST_FRAME:
            self.handler.failure = NotKafka(
                f"the answer claims {length} bytes: this is not ZooKeeper", remedy="check the port"
            )
            raise ConnectionDropped("not ZooKeeper")
        content: bytes = super()._read(length, timeout)
        return content
