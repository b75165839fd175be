"""Tokens for OAUTHBEARER: from the settings, or fetched with the client credentials grant (RFC 6749, section 4.4).

Called by `authentication.py`. A fetched token is kept for half of its lifetime (at most half an hour), so that a
cluster of many nodes costs one request, and a session that is renewed late (`authentication.RENEW_AFTER`) always gets a
fresh token. The token endpoint is contacted over verified TLS only, and redirects are not followed: otherwise the
client's secret could leak. The token is opaque here; the brokers judge it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, HTTPSConnection
from ssl import SSLContext, SSLError
from typing import Any

from msgspec import Struct

from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.errors import AddressRefused, AuthenticationFailed, KafkaError
from kafkafeatures.kafka.base.settings import OAuthClient, OAuthToken
from kafkafeatures.kafka.wire import tls
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kafka.wire.contexts import Contexts

MAX_ANSWER = 256 * 1024  # bytes that are read
TIMEOUT_SHARE = 0.8  # of the caller's timeout, so that the caller still gets the reason
KEEP = 0.5  # part of a token's lifetime for which it is kept; must stay below authentication.RENEW_AFTER
LONGEST = 3600.0  # seconds: a longer lifetime counts as this one, so that a revoked token is not sent for days


class _HeldToken(Struct, frozen=True):
    value: str
    until: float  # by the injected clock


class Tokens:
    """The tokens of one process. `monotonic` in seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._held: dict[OAuthClient, _HeldToken] = {}
        self._fetching: dict[OAuthClient, asyncio.Task[_HeldToken]] = {}

    async def token(self, source: OAuthToken | OAuthClient, timeout: float, contexts: Contexts | None = None) -> str:
        """A valid token, fetched within `timeout` seconds if none is kept. Raises KafkaError."""
        if isinstance(source, OAuthToken):
            return source.value
        token = self._held.get(source)
        if token is not None and self._monotonic() < token.until:
            return token.value
        task = self._fetching.get(source)
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            task = asyncio.create_task(self._fetch(source, timeout, contexts or Contexts()))
            self._fetching[source] = task
            task.add_done_callback(lambda done: self._forget(source, done))
        token = await asyncio.shield(task)  # one caller giving up does not fail the others
        monotonic_time = self._monotonic()
        self._held = {
            client: cached for client, cached in self._held.items() if monotonic_time < cached.until
        }  # no secret for ever
        self._held[source] = token
        return token.value

    def drop(self, source: OAuthToken | OAuthClient, value: str) -> None:
        """Drop a token that a node rejected: the next call of `token` fetches another one."""
        if isinstance(source, OAuthClient) and source in self._held and self._held[source].value == value:
            del self._held[source]

    def _forget(self, source: OAuthClient, done: asyncio.Task[_HeldToken]) -> None:
        if self._fetching.get(source) is done:
            del self._fetching[source]
        if not done.cancelled():
            done.exception()  # otherwise asyncio logs it if all callers gave up

    async def _fetch(self, client: OAuthClient, timeout: float, contexts: Contexts) -> _HeldToken:
        began = self._monotonic()
        context = await contexts.context(client.tls)
        call = _Call()
        # The timeout of a socket is for each read: an endpoint that sends a byte now and then would keep the thread for
        # ever, and a few of them would take all threads, which this process also needs to resolve names.
        cut = asyncio.get_running_loop().call_later(TIMEOUT_SHARE * timeout, call.cut)
        try:
            value, lifetime = await asyncio.to_thread(_post, client, timeout, call, context)
        except KafkaError:
            if client.policy is not None and call.peer is not None and await client.policy.is_api_server(*call.peer):
                raise AddressRefused from None
            raise
        finally:
            cut.cancel()
        return _HeldToken(value, began + KEEP * min(lifetime, LONGEST))


class _Call:
    """A request to the token endpoint, in a thread of its own, which the event loop can end."""

    def __init__(self) -> None:
        self.is_cut = False
        self.peer: tuple[str, int] | None = None  # the address, once there is a connection
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def take_over(self, connected: socket.socket) -> socket.socket:
        """Take in the connection of the request. Raises TimeoutError if the request was already ended."""
        with self._lock:
            if self.is_cut:
                connected.close()
                raise TimeoutError
            self._socket = connected.dup()  # TLS takes over the original socket
            self.peer = connected.getpeername()[:2]
        return connected

    def cut(self) -> None:
        """End the request: the thread's socket operation fails at once."""
        with self._lock:
            self.is_cut = True
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None


TOKENS = Tokens(SYSTEM.monotonic)
"""The tokens of this process: connections to many nodes share a client's token."""


class _Https(urllib.request.HTTPSHandler):
    """HTTPS handler that, if there is a policy, connects to exactly the IP address that the policy permitted."""

    def __init__(self, policy: AddressPolicy | None, call: _Call, *, context: SSLContext) -> None:
        super().__init__(context=context)
        self._policy, self._call, self._tls = policy, call, context

    def https_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(self._connection, request)

    def _connection(self, host: str, **options: Any) -> HTTPSConnection:
        connection = HTTPSConnection(host, context=self._tls, **options)
        connection._create_connection = self._connect_permitted  # type: ignore[attr-defined]  # as http.client has it
        return connection

    def _connect_permitted(self, address: tuple[str, int], *rest: Any) -> socket.socket:
        if self._policy is None:
            return self._call.take_over(socket.create_connection(address, *rest))
        resolved = [str(entry[4][0]) for entry in socket.getaddrinfo(*address, type=socket.SOCK_STREAM)]
        if not all(self._policy.permits(ip_address, address[1]) for ip_address in resolved):
            raise AddressRefused
        return self._call.take_over(socket.create_connection((resolved[0], address[1]), *rest))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A handler that follows no redirect: the request fails with the status of the redirect."""

    def redirect_request(self, *args: object) -> None:
        return None


def _post(client: OAuthClient, timeout: float, call: _Call, context: SSLContext) -> tuple[str, float]:
    """Fetch a token; returns it and its lifetime in seconds. Blocks. If the event loop ended the request, any error
    of it is reported as a time-out.
    """
    try:
        return _ask(client, timeout, call, context)
    except KafkaError:
        if not call.is_cut:
            raise
        raise AuthenticationFailed(
            "the token endpoint did not answer in time", remedy="check its address and its health"
        ) from None
    finally:
        call.close()


def _ask(client: OAuthClient, timeout: float, call: _Call, context: SSLContext) -> tuple[str, float]:
    try:
        url = urllib.parse.urlsplit(client.token_url)
        endpoint = f"{url.hostname}:{url.port}" if url.port else str(url.hostname)  # never its user part
    except ValueError:
        raise AuthenticationFailed(
            "the token endpoint is not a URL", remedy="use a URL that starts with https://"
        ) from None
    if url.scheme != "https":
        raise AuthenticationFailed("the token endpoint is not https", remedy="tokens are fetched over TLS only")
    pair = f"{urllib.parse.quote_plus(client.client_id)}:{urllib.parse.quote_plus(client.client_secret)}"
    fields = {"grant_type": "client_credentials"} | ({"scope": client.scope} if client.scope else {})
    request = urllib.request.Request(  # noqa: S310 - the scheme was checked above
        client.token_url,
        data=urllib.parse.urlencode(fields).encode(),
        headers={
            "Authorization": "Basic " + base64.b64encode(pair.encode()).decode(),
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        },
    )
    # With an address policy no proxy is used: the policy would judge the proxy's address, not the endpoint's.
    direct = [urllib.request.ProxyHandler({})] if client.policy is not None else []
    https = _Https(client.policy, call, context=context)
    opener = urllib.request.build_opener(https, _NoRedirect(), *direct)
    try:
        with opener.open(request, timeout=timeout) as reply:
            answer = reply.read(MAX_ANSWER)
        return read_token(answer, endpoint)
    except urllib.error.HTTPError as error:
        with error:
            raise _no_token(endpoint, f"answers {error.code}") from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, SSLError):
            failure: KafkaError = tls.failed(error.reason, client.tls, named=tls.OF_TOKENS)
            raise type(failure)(f"token endpoint {endpoint}: {failure}", remedy=failure.remedy) from None
        raise _no_token(endpoint, "cannot be reached") from None
    except (OSError, HTTPException, ValueError):
        raise _no_token(endpoint, "did not answer") from None


def read_token(answer: bytes, endpoint: str) -> tuple[str, float]:
    """The token in an answer, and its lifetime in seconds. Raises AuthenticationFailed if there is no usable token."""
    try:
        document = json.loads(answer)
        token, lifetime = document["access_token"], float(document.get("expires_in", 60))
        if token.encode():
            return token, lifetime
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        pass
    raise _no_token(endpoint, "did not return JSON with an access_token")


def _no_token(endpoint: str, reason: str) -> AuthenticationFailed:
    return AuthenticationFailed(
        f"the token endpoint {endpoint} {reason}", remedy="check its address, client id and secret"
    )
