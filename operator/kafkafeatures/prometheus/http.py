"""Requests to a Prometheus over HTTP(S): one connection, a deadline for each request as a whole, and a limit of bytes.

Called by `clients check` and, with a connection that its address policy permits, by `operator_source.py`. What it
decides: a server that sends a byte a second, more than it announced, something compressed, or a redirect costs no more
time or memory than any other.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any
from urllib.parse import SplitResult, urlsplit

from kafkafeatures import __version__
from kafkafeatures.core.words import printable
from kafkafeatures.environment import SYSTEM
from kafkafeatures.prometheus.api import HttpAnswer, PrometheusFailed

MAX_ANSWER = 16 * 1024 * 1024
"""Most bytes of an answer: 30 brokers need 3 MiB."""
DEADLINE = 60.0
"""Seconds of a request, from its connection to the last byte of its answer."""
TOTAL = 180.0
"""Seconds of all requests together."""
_BLOCK = 64 * 1024

Connect = Callable[..., socket.socket]
"""Opens a connection to a host and port, with the arguments of `socket.create_connection`."""


class PrometheusUrlRefused(Exception):
    """A text that is not the URL of a server; the message says why, and never repeats user or password."""


def parse_url(text: str) -> SplitResult:
    """The parts of the URL of a server. Raises PrometheusUrlRefused."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise PrometheusUrlRefused("not a URL") from None
    if url.username is not None or url.password is not None or "@" in url.netloc:
        raise PrometheusUrlRefused("user and password do not belong into a URL: use basic_auth in a configuration")
    if url.scheme not in ("http", "https") or not url.hostname or port == 0:
        raise PrometheusUrlRefused("expected a URL such as http://prometheus:9090")
    if url.query or url.fragment or not text.isascii() or not text.isprintable() or " " in text:
        raise PrometheusUrlRefused("expected a URL of scheme, host, port and path alone")
    return url


class HttpTransport:
    """Posts forms to one server. `headers`: with the credentials; `context`: of https; `server_name`: the name in its
    certificate, if that is not the host of the URL; `connect`: opens connections; `deadline`, `total`: seconds of one
    request, and of all; `max_answer`: bytes.
    """

    def __init__(
        self,
        url: SplitResult,
        headers: Mapping[str, str],
        context: ssl.SSLContext | None,
        *,
        server_name: str | None = None,
        connect: Connect = socket.create_connection,
        deadline: float = DEADLINE,
        total: float = TOTAL,
        max_answer: int = MAX_ANSWER,
    ) -> None:
        self._url, self._headers, self._context = url, headers, context
        self._deadline, self._max_answer = deadline, max_answer
        self._total, self._end = total, SYSTEM.monotonic() + total
        self._server_name, self._connect = server_name, connect
        self._link: _CuttableConnection | None = None

    def __call__(self, path: str, form: bytes) -> HttpAnswer:
        """Send the form; once more if the server closed a connection that was idle. Raises PrometheusFailed."""
        was_idle = self._link is not None
        try:
            return self._send(path, form)
        except ConnectionError as error:
            if was_idle:
                return self(path, form)
            raise PrometheusFailed(_cause(error)) from None

    def close(self) -> None:
        """Close the connection."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def _send(self, path: str, form: bytes) -> HttpAnswer:
        """Send the form on the open connection, or a new one. The connection stays open only after a whole answer.
        Raises PrometheusFailed, and ConnectionError if the server may have closed it while it was idle.
        """
        link = self._link = self._link or _CuttableConnection(self._connection(), self._connect)
        is_whole = False
        remaining = self._end - SYSTEM.monotonic()
        try:
            with link.cut_after(max(0, min(self._deadline, remaining))):
                answer = self._exchange(link.connection, path, form)
            is_whole = not link.is_cut
        except (OSError, http.client.HTTPException, ValueError, PrometheusFailed) as error:
            if isinstance(error, PrometheusFailed | ConnectionError) and not link.is_cut:
                raise
            if not (link.is_cut or isinstance(error, TimeoutError)):  # the socket's own deadline is the same
                raise PrometheusFailed(_cause(error)) from None
        finally:
            if not is_whole:
                self.close()
        if not is_whole:
            late = f"did not answer within {self._deadline:g} s"
            raise PrometheusFailed(late if remaining > self._deadline else f"took more than {self._total:g} s in all")
        return answer

    def _exchange(self, connection: http.client.HTTPConnection, path: str, form: bytes) -> HttpAnswer:
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"kafkafeatures/{__version__}",
            **self._headers,
        }
        connection.request("POST", self._url.path.rstrip("/") + path, form, headers)
        with closing(connection.getresponse()) as response:
            if response.getheader("Content-Encoding", "identity").lower() != "identity":
                raise PrometheusFailed("answers with something compressed, which was not asked for")
            body = self._body(response)
            kind, location = response.getheader("Content-Type", ""), response.getheader("Location", "")
        return HttpAnswer(response.status, kind, body, location)

    def _body(self, response: http.client.HTTPResponse) -> bytes:
        parts, size = [], 0
        while part := response.read1(_BLOCK):
            parts.append(part)
            size += len(part)
            if size > self._max_answer:
                limit = self._max_answer // 1024 // 1024
                raise PrometheusFailed(f"answers with more than {limit} MiB: narrow the selector to one cluster")
        if response.length:  # http.client takes an answer that ends too soon for a whole one here
            raise PrometheusFailed("closed the connection within its answer")
        return b"".join(parts)

    def _connection(self) -> http.client.HTTPConnection:
        host = self._url.hostname or ""
        if self._context is None:
            return http.client.HTTPConnection(host, self._url.port, timeout=self._deadline)
        return _HttpOverTls(host, self._url.port, self._deadline, self._context, self._server_name or host)


class _HttpOverTls(http.client.HTTPConnection):
    """A connection with TLS. `server_name`: the name in the certificate, which may differ from the host."""

    default_port = http.client.HTTPS_PORT

    def __init__(self, host: str, port: int | None, seconds: float, context: ssl.SSLContext, server_name: str) -> None:
        super().__init__(host, port, timeout=seconds)
        self._context, self._server_name = context, server_name

    def connect(self) -> None:
        super().connect()
        self.sock = self._context.wrap_socket(self.sock, server_hostname=self._server_name)


class _CuttableConnection:
    """A connection that can be cut from outside, whatever waits for it: also within a handshake of TLS."""

    def __init__(self, connection: http.client.HTTPConnection, connect: Connect) -> None:
        self.connection, self._connect = connection, connect
        self.is_cut = False
        self._socket: socket.socket | None = None
        connection._create_connection = self._create  # type: ignore[attr-defined]  # http.client has no public hook

    @contextmanager
    def cut_after(self, seconds: float) -> Iterator[None]:
        """Cut the connection if the block takes longer."""
        timer = threading.Timer(seconds, self._cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def close(self) -> None:
        """Close the connection, and our copy of its socket."""
        self.connection.close()
        if self._socket is not None:
            self._socket.close()

    def _create(self, address: tuple[str, int], *options: Any) -> socket.socket:
        """The socket. TLS takes it over; its copy stays ours."""
        created = self._connect(address, *options)
        self._socket = created.dup()
        return created

    def _cut(self) -> None:
        self.is_cut = True
        if self._socket is not None:
            with suppress(OSError):  # it is closed already
                self._socket.shutdown(socket.SHUT_RDWR)


def _cause(error: Exception) -> str:
    """The failure of a connection in words."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {printable(error.verify_message)}"
        case ssl.SSLError():
            return f"TLS failed: {printable(error.reason or str(error))}"
        case http.client.RemoteDisconnected():
            return "closed the connection without an answer"
        case socket.gaierror():
            return "its name is not known: check the URL"
        case OSError():
            return f"cannot be reached: {error.strerror or printable(str(error))}"
        case _:
            return "does not speak HTTP: is it the URL of a Prometheus?"
