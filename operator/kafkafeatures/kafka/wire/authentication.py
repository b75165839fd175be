"""SASL authentication of a connection, before its first request and again before the session expires (KIP-368).

Called by `connection.py` if there are credentials. It decides how failures are explained to users. Tokens are fetched
and kept by `oauth.py`; `sasl.py` has the exchanges of the mechanisms, `kerberos.py` that of GSSAPI.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

from kafkafeatures.kafka.base.errors import AuthenticationFailed, Disconnected, ErrorCode, code_name
from kafkafeatures.kafka.base.settings import Address, Sasl, Security
from kafkafeatures.kafka.base.threads import run_in_thread
from kafkafeatures.kafka.wire import sasl
from kafkafeatures.kafka.wire.messages import R, Request
from kafkafeatures.kafka.wire.sasl_codec import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)

RENEW_AFTER = 0.8
"""Share of a session's lifetime after which it is renewed."""

Step = Callable[[bytes | None], Awaitable[bytes | None]]


class Ask(Protocol):
    """The function that sends a request to the node."""

    async def __call__(self, message: Request[R], /) -> R:
        """The answer. Raises KafkaError."""


class Authentication:
    """Authentication of one connection. `ask` sends a request on it. `timeout`: seconds to get a token or a ticket."""

    def __init__(
        self,
        ask: Ask,
        address: Address,
        settings: Sasl,
        security: Security,
        *,
        timeout: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._ask, self._address, self._settings, self._security = ask, address, settings, security
        self._timeout, self._monotonic = timeout, monotonic

    async def prove(self, *, again: bool) -> float | None:
        """Authenticate, on a new connection or `again`. Returns the monotonic time at which to authenticate again;
        None: never.
        """
        settings = self._settings
        if settings.oauth is None:
            return await self._prove(None, again)
        from kafkafeatures.kafka.wire.oauth import TOKENS  # brings an HTTP client along, which only tokens need

        token = await TOKENS.token(settings.oauth, self._timeout, self._security.contexts)
        self._security.secrets.add_token(token)
        try:
            return await self._prove(token, again)
        except AuthenticationFailed:
            TOKENS.drop(settings.oauth, token)
            raise

    async def _prove(self, token: str | None, again: bool) -> float | None:
        try:
            await self._agree(again)
            return await self._exchange(token)
        except Disconnected:
            if again:
                raise  # an idle connection that was closed says nothing about the credentials
            raise AuthenticationFailed(
                f"{self._settings.mechanism}: the node closed the connection", remedy=_remedy(self._settings)
            ) from None

    async def _agree(self, again: bool) -> None:
        """Agree with the node on the mechanism."""
        offered = await self._ask(SaslHandshakeRequest(self._settings.mechanism))
        if offered.error_code == ErrorCode.ILLEGAL_SASL_STATE and not again:
            # KafkaApis answers so on a listener without SASL, where no authenticator handles the request first.
            raise AuthenticationFailed(
                "the listener has no SASL", remedy="check the port, or use security.protocol PLAINTEXT or SSL"
            )
        if offered.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            # Kafka ignores an authentication within a second of the last one
            # (KafkaChannel.maybeBeginServerReauthentication).
            raise AuthenticationFailed(
                "the node does not accept re-authentication yet", remedy="use tokens with a longer lifetime"
            )
        if offered.error_code:
            mechanisms = ", ".join(offered.mechanisms) or "none"
            raise AuthenticationFailed(
                f"the node does not offer {self._settings.mechanism}; it offers {mechanisms}",
                remedy="check the mechanism and the port",
            )

    async def _exchange(self, token: str | None) -> float | None:
        began = self._monotonic()
        answer, lifetime = None, 0.0
        async with self._steps(token) as step:
            while (to_send := await step(answer)) is not None:
                reply = await self._ask(SaslAuthenticateRequest(to_send))
                _raise_if_refused(reply, self._settings)
                answer, lifetime = reply.auth_bytes, reply.session_lifetime_ms / 1000
        return began + RENEW_AFTER * lifetime if lifetime > 0 else None

    @asynccontextmanager
    async def _steps(self, token: str | None) -> AsyncIterator[Step]:
        """The function that returns the bytes to send next, from the node's answer; None where the exchange is over."""
        settings = self._settings
        if settings.kerberos is None:
            steps = sasl.exchange(settings, token)
            yield lambda answer: run_in_thread(partial(sasl.step, steps, answer))
            return
        from kafkafeatures.kafka.wire import kerberos  # which few clusters need

        async with kerberos.exchange(settings.kerberos, self._address, self._security, self._timeout) as exchange:
            yield exchange.step


def _raise_if_refused(answer: SaslAuthenticateResponse, settings: Sasl) -> None:
    if answer.error_code:
        text = answer.error_message or code_name(answer.error_code)
        raise AuthenticationFailed(
            f"{settings.mechanism}: {text}",
            remedy=_remedy(settings),
        )


def _remedy(settings: Sasl) -> str:
    if settings.kerberos is not None:
        return "check that the clocks agree, and that the node's keytab has the key of its principal"
    return "check the token" if settings.oauth is not None else "check user name and password"


def without_proofs(frame: bytes, message: object) -> bytes:
    """The frame with zeros in place of `auth_bytes`, which may hold a password: for recorders of frames."""
    if isinstance(message, SaslAuthenticateRequest | SaslAuthenticateResponse) and message.auth_bytes:
        # auth_bytes are the last field, but in a response the lifetime (8 bytes) follows. Equal bytes may occur earlier
        # in the frame, since auth_bytes may be one byte long, so search from the end.
        size, end = len(message.auth_bytes), len(frame) - (8 if isinstance(message, SaslAuthenticateResponse) else 0)
        at = frame.rindex(message.auth_bytes, 0, end)
        return frame[:at] + bytes(size) + frame[at + size :]
    return frame
