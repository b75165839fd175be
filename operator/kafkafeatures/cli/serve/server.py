"""HTTP server for pages, on 127.0.0.1 alone, read-only: GET and HEAD, and nothing that a request could change.

Who may read: who has the address. Its first part is a random token, so other users of the machine cannot guess it. It
is no cookie, which browsers would send to every port of 127.0.0.1. A web site that a browser has open can neither read
a page (no other origin is allowed, and a name that it resolves to 127.0.0.1 is not accepted as the host) nor show it in
a frame, and does not learn the address from links (no referrer).
"""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from threading import BoundedSemaphore, Timer
from typing import Any

from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import tell

ADDRESS = "127.0.0.1"
TOKEN_BYTES = 32
REQUEST_SECONDS = 10
"""Time limit for a request to arrive and its answer to be taken, both together."""
MOST_CONNECTIONS = 64
"""Connections at the same time, each with two threads; further ones are closed."""
HTTP_PORT = 80
"""The port that browsers leave out of a host."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page itself has all other rules
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

Site = Callable[[str], str | None]
"""Pages by their path below the token, such as "" and "kafka/orders"; None for a path without a page."""


class PageServer(ThreadingTCPServer):
    """The server. It accepts connections once it is made, and answers in `serve_forever`."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, site: Site, port: int) -> None:
        self.site, self.token = site, secrets.token_urlsafe(TOKEN_BYTES)
        self._places = BoundedSemaphore(MOST_CONNECTIONS)
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            text = f"port {port} of {ADDRESS}: {error.strerror}; choose another --port, or leave it out for a free one"
            raise CommandFailed(text, Exit.USAGE) from None

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts by which browsers may name this server."""
        names = (ADDRESS, "localhost")
        return tuple(f"{name}:{self.port}" for name in names) + (names if self.port == HTTP_PORT else ())

    @property
    def url(self) -> str:
        """The address of the first page."""
        return f"http://{ADDRESS}:{self.port}/{self.token}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, if there is a place for it."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and give the place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print an error on one line, unless a browser merely left."""
        error = sys.exception()
        if not isinstance(error, OSError):
            tell(f"internal error: {type(error).__name__}: {error}; report it")


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: PageServer

    def setup(self) -> None:
        """Begin the time limit."""
        super().setup()
        self._limit = Timer(REQUEST_SECONDS, self._cut)
        self._limit.daemon = True
        self._limit.start()

    def finish(self) -> None:
        """End the time limit."""
        self._limit.cancel()
        super().finish()

    def _cut(self) -> None:
        with suppress(OSError):  # the browser left
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        """Answer with the page at this path."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host not in self.server.hosts or origin not in (None, f"http://{host}"):
            return self._send(HTTPStatus.FORBIDDEN, "403: this host or origin may not read it\n")
        token, _, path = self.path.partition("?")[0].removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            return self._send(HTTPStatus.FORBIDDEN, "403: open the address that kafkafeatures serve printed\n")
        page = self.server.site(path)
        if page is None:
            return self._send(HTTPStatus.NOT_FOUND, "404: no such page\n")
        return self._send(HTTPStatus.OK, page, "html")

    def do_HEAD(self) -> None:
        """Answer as to GET, without the page."""
        self.do_GET()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer to a request that the library refuses. It has no page of its own, so that nothing sent is shown."""
        if code == HTTPStatus.NOT_IMPLEMENTED:  # the library's answer to a method without `do_`
            code = HTTPStatus.METHOD_NOT_ALLOWED
        self.close_connection = True
        self._send(HTTPStatus(code), f"{int(code)}: {HTTPStatus(code).phrase}\n")

    def version_string(self) -> str:
        """Name of the server, without versions."""
        return "kafkafeatures"

    def log_message(self, *_: Any) -> None:
        """Write no log: a path has the token."""

    def _send(self, status: HTTPStatus, text: str, kind: str = "plain") -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Type", f"text/{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
