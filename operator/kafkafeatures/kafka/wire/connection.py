"""One connection to one node: TCP, TLS, ApiVersions, SASL, then requests with deadlines.

Connections are made by `kafka/base/pool.py` and `kafka/cluster.py`. ApiVersions goes first on every connection
(KIP-35), because an API or a version that was not advertised makes the node close the connection without a word. Only
one request at a time waits for its response. If it does not come in time, or the caller gives up, the connection is
closed, so that a late response cannot be taken for that of the next request.

A session with a lifetime (KIP-368) is renewed before the next request once four fifths of the lifetime are over. The
remaining fifth is meant to be longer than a request takes, and brokers end an expired session only when a request
arrives.

`KafkaError.sent` tells the caller whether the node may have got the request.

A connection for a change is always closed by a TCP reset, also if this process is killed. Otherwise the kernel would go
on delivering the bytes in its buffer, maybe long after this process reported that the change did not arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self, TypeVar

from kafkafeatures.environment import Environment
from kafkafeatures.kafka.base.errors import (
    AuthenticationFailed,
    Disconnected,
    ErrorCode,
    KafkaError,
    NotKafka,
    RequestWithheld,
    ServerError,
    TimedOut,
    code_name,
)
from kafkafeatures.kafka.base.settings import NEEDS_VERIFIED_TLS, Address, Security
from kafkafeatures.kafka.base.threads import run_in_thread
from kafkafeatures.kafka.wire import codec, tls
from kafkafeatures.kafka.wire.frame import framed, length_of
from kafkafeatures.kafka.wire.messages import ApiVersionsRequest, ApiVersionsResponse, R, Request
from kafkafeatures.kafka.wire.opening import OpeningStage, hide_api_server, open_streams

FIRST_VERSION = 4
"""Version of ApiVersions for requests that name no node. Later versions add nothing to them, and a node that does not
know the version would need another request.
"""
CLOSING_SECONDS = 1.0
"""Seconds to wait for the node's part of a TLS shutdown."""
LARGE = 128 * 1024  # bytes of a reply from which on a thread decodes it: it takes some milliseconds
_RESET = struct.pack("ii", 1, 0)  # struct linger {on, 0 seconds}: close by RST


def end_by_reset(link: socket.socket, unacknowledged: float) -> None:
    """Make the socket close by a reset, so that nothing is delivered afterwards. The kernel also gives up bytes that
    the peer has not acknowledged within `unacknowledged` seconds.
    """
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(unacknowledged * 1000))


T = TypeVar("T")


class Recorder(Protocol):
    """Gets frames with their length in front, for metrics, tests and reports: each request, and each response that
    could be decoded. The bytes of SASL exchanges are zeros there.
    """

    def sent(self, address: Address, frame: bytes) -> None:
        """We sent this."""

    def received(self, address: Address, frame: bytes) -> None:
        """The node sent this."""


class Meter(Protocol):
    """Counts the memory that replies take."""

    def reply(self, size: int, give_up: Callable[[], None]) -> AbstractContextManager[None]:
        """Context in which a reply of `size` bytes is read and decoded; `give_up` ends the reading. Raises KafkaError
        if there is not enough memory.
        """


class _Unmetered:
    def reply(self, size: int, give_up: Callable[[], None]) -> AbstractContextManager[None]:
        return contextlib.nullcontext()


async def connect(
    address: Address,
    security: Security,
    *,
    timeout: float,
    client_id: str,
    recorder: Recorder | None = None,
    meter: Meter | None = None,
    environment: Environment,
    request: ApiVersionsRequest | None = None,
) -> Connection:
    """Connect, negotiate and authenticate, all of it within `timeout` seconds. Raises KafkaError, nothing sent.

    `request`: an ApiVersions request that names the node (KIP-1242), to begin with; `refuses_name` tells how the node
    answered to the name.
    """
    if security.sasl is not None and security.sasl.mechanism in NEEDS_VERIFIED_TLS and security.tls is None:
        raise AuthenticationFailed(
            f"refused: {security.sasl.mechanism} without TLS sends the secret in clear text",
            remedy="set security.protocol=SASL_SSL (in a document tls: {}), or a SCRAM mechanism",
        )
    stage = OpeningStage(timeout, environment.monotonic)
    try:
        async with asyncio.timeout(timeout), hide_api_server(security.policy, stage, address.port):
            reader, writer = await open_streams(address, security, stage)
            connection = Connection(
                address,
                security,
                reader,
                writer,
                timeout=timeout,
                client_id=client_id,
                recorder=recorder,
                meter=meter or _Unmetered(),
                monotonic=environment.monotonic,
            )
            try:
                await connection.begin(stage, request)
            except BaseException as error:
                connection.drop()
                if isinstance(error, KafkaError):
                    error.sent = False  # only our own handshake was sent, not the caller's request
                raise
            return connection
    except TimeoutError:
        raise stage.timed_out() from None


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close the connection. Over TLS, wait for the node's part of the shutdown, but not for a node that hangs."""
    try:
        writer.close()
        with contextlib.suppress(OSError, ssl.SSLError, TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await writer.wait_closed()
    finally:
        writer.transport.abort()  # without it asyncio would hold the socket of a node that hangs for half a minute


class Connection:
    """Made by `connect`. An async context manager; `closed` once it cannot be used any more."""

    api_versions: ApiVersionsResponse
    refuses_name: bool | None = None
    """True if the node refused the name in the first ApiVersions request; None if there was no name, or the node does
    not check it.
    """

    def __init__(
        self,
        address: Address,
        security: Security,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        timeout: float,
        client_id: str,
        recorder: Recorder | None,
        meter: Meter,
        monotonic: Callable[[], float],
    ) -> None:
        self.address = address
        self.closed = False
        self._security = security
        self._reader, self._writer = reader, writer
        self._timeout, self._client_id = timeout, client_id
        self._recorder, self._meter, self._monotonic = recorder, meter, monotonic
        self._correlation_id = 0
        self._turn = asyncio.Lock()  # held from a request to its response
        self._renew_at: float | None = None  # monotonic time at which to authenticate again; None: never
        self._renewing = False  # while it is True, the caller's request was not sent yet

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @property
    def peer(self) -> str:
        """The IP address at the other end; empty where there is none any more."""
        peername = self._writer.get_extra_info("peername")
        return str(peername[0]) if peername else ""

    async def request(self, message: Request[R], *, timeout: float | None = None) -> R:
        """Send one request and return its answer, in the highest version both sides have.

        `timeout` in seconds, by default that of the connection. Raises UnsupportedApi without sending anything where
        the node does not offer it; every other KafkaError closes the connection.
        """
        version = self._version(message)
        async with self._turn, self._deadline(self._timeout if timeout is None else timeout):
            if self._renew_at is not None and self._monotonic() >= self._renew_at:
                await self._renew()
            return await self._exchange(message, version)

    async def change(self, message: Request[R], *, withheld: Callable[[], str | None], timeout: float) -> R:
        """Send one request that changes something, so that the caller knows afterwards whether any of it left.

        `withheld` is called right before the first byte is sent: it returns a reason not to send, or None. Memory for
        the response is reserved before, since that may fail. Raises KafkaError; its `sent` is False only if
        certainly no byte was written.
        """
        version = self._version(message)
        most_bytes, _ = codec.limits(message)
        async with self._turn, self._deadline(timeout):
            if self._renew_at is not None and self._monotonic() >= self._renew_at:
                await self._renew()
            with self._meter.reply(most_bytes, self.drop):
                return await self._exchange(message, version, _Unmetered(), withheld)

    def end_by_reset(self, unacknowledged: float) -> None:
        """Make this connection close by a reset (see the function of that name)."""
        end_by_reset(self._writer.get_extra_info("socket"), unacknowledged)

    async def close(self) -> None:
        """Close within a second. A request in progress gets no response."""
        if not self.closed:
            self.closed = True
            await _close(self._writer)

    def drop(self) -> None:
        """Close at once, without the TLS shutdown: after an error the peer may hang, and the caller's time may be
        over.
        """
        self.closed = True
        self._writer.transport.abort()

    async def begin(self, stage: OpeningStage, request: ApiVersionsRequest | None = None) -> None:
        """Send ApiVersions, then authenticate. Called once, by `connect`. With SASL, `request` is not used: nodes check
        no names before SASL is complete.
        """
        try:
            self.api_versions = await self._negotiate(request if self._security.sasl is None else None)
        except Disconnected as error:
            raise NotKafka(
                str(error),
                remedy="it may require a client certificate, or may not be Kafka; check the port"
                if self._security.tls is not None
                else "it may require TLS, or may not be Kafka; check port and security protocol",
            ) from None
        if self._security.sasl is not None:
            stage.name = "authenticate"
            await self._authenticate()

    def _version(self, message: Request[Any]) -> int:
        return codec.version_for(message, self.api_versions.api_keys)

    async def _negotiate(self, request: ApiVersionsRequest | None) -> ApiVersionsResponse:
        """The node's ApiVersions. If the node does not know the version, or refuses the name in `request`, it is asked
        once more, without a name.
        """
        message, version = (request, request.names_node_from) if request else (ApiVersionsRequest(), FIRST_VERSION)
        response = await self._exchange(message, version)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            theirs = response.api_keys.get(message.api_key)
            response = await self._exchange(message, min(FIRST_VERSION, theirs.max if theirs else 0))
        elif request is not None:
            self.refuses_name = response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED
            if self.refuses_name:
                response = await self._exchange(ApiVersionsRequest(), FIRST_VERSION)
        if response.error_code:
            raise ServerError(response.error_code, f"ApiVersions: {code_name(response.error_code)}", sent=False)
        return response

    async def _authenticate(self) -> None:
        settings = self._security.sasl
        if settings is None:
            return
        from kafkafeatures.kafka.wire.authentication import Authentication  # not imported without SASL: a faster start

        async def ask(message: Request[R], /) -> R:
            return await self._exchange(message, self._version(message))

        proof = Authentication(
            ask, self.address, settings, self._security, timeout=self._timeout, monotonic=self._monotonic
        )
        self._renew_at = await proof.prove(again=self._renewing)

    async def _exchange(
        self,
        message: Request[R],
        version: int,
        meter: Meter | None = None,
        withheld: Callable[[], str | None] = lambda: None,
    ) -> R:
        """Send a request and read its response. `meter`: replaces the one of the connection, if the memory is reserved
        already. `withheld`: see `change`. A KafkaError other than RequestWithheld leaves the connection closed;
        its `sent` is False only if nothing was written.
        """
        if self.closed:
            raise Disconnected("the connection is closed")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        payload = codec.encode_request(
            message, version=version, correlation_id=self._correlation_id, client_id=self._client_id
        )
        frame = framed(payload)
        most_bytes, most_items = codec.limits(message)
        if (reason := withheld()) is not None:
            raise RequestWithheld(reason)
        if self._recorder is not None:
            self._recorder.sent(self.address, _for_recorder(frame, message))
        try:
            self._writer.write(frame)
            await self._writer.drain()
            length = await self._read_length(most_bytes)
            with (meter or self._meter).reply(length, self.drop):
                answer = await self._reader.readexactly(length)
                decode = functools.partial(
                    codec.decode_response, message.api_key, version, answer, most_items=most_items
                )
                correlation_id, response = await _by_size(length, decode)
            if correlation_id != self._correlation_id:
                raise NotKafka(f"an answer to request {correlation_id}, expected {self._correlation_id}", sent=True)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            self.drop()
            cut = isinstance(error, asyncio.IncompleteReadError) and bool(error.partial)
            raise Disconnected(
                "the connection ended in the middle of an answer" if cut else "the connection ended before the answer",
                sent=True,
            ) from None
        except ssl.SSLError as error:
            self.drop()
            raise tls.failed(error, self._security.tls, named=self._security.named, sent=True) from None
        except OSError as error:
            self.drop()
            raise Disconnected(f"the connection broke: {error.strerror or error}", sent=True) from None
        except BaseException as error:
            self.drop()
            if isinstance(error, KafkaError):
                error.sent = True  # the request was written, so the node may have got it
            raise
        if self._recorder is not None:
            self._recorder.received(self.address, _for_recorder(framed(answer), response))
        return await _by_size(length, lambda: self._security.secrets.removed_from(response))

    async def _read_length(self, most: int) -> int:
        return length_of(await self._reader.readexactly(4), most=most)

    @contextlib.asynccontextmanager
    async def _deadline(self, timeout: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(timeout):
                yield
        except TimeoutError:
            self.drop()
            raise TimedOut(f"no answer within {timeout:g} s", sent=not self._renewing) from None

    async def _renew(self) -> None:
        """Authenticate again. If that fails, the caller's request was not sent."""
        self._renewing = True
        try:
            await self._authenticate()
        except BaseException as error:
            self.drop()
            if isinstance(error, KafkaError):
                error.sent = False
            raise
        self._renewing = False


async def _by_size(length: int, work: Callable[[], T]) -> T:
    """Do the work in a thread if the response is large: decoding all partitions of a cluster takes seconds."""
    return await run_in_thread(work) if length >= LARGE else work()


def _for_recorder(frame: bytes, message: object) -> bytes:
    from kafkafeatures.kafka.wire.authentication import without_proofs

    return without_proofs(frame, message)
