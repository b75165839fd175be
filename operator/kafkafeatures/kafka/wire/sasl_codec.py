"""SaslHandshake and SaslAuthenticate: our messages, and their translation to and from those of kio, a library that has
Kafka's messages as Python classes.

Sent by `authentication.py`. `codec.py` imports `APIS` when it first needs an API that is not in its own table.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from msgspec import Struct

from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.kafka.wire.api import Api, plain
from kafkafeatures.kafka.wire.frame import MAX_SHORT_FRAME
from kafkafeatures.kafka.wire.messages import Request


class SaslHandshakeRequest(Request["SaslHandshakeResponse"], frozen=True):
    """A request for a mechanism, before the exchange."""

    api_key: ClassVar[int] = 17
    mechanism: str = ""


class SaslHandshakeResponse(Struct, frozen=True):
    """`mechanisms`: those the listener offers, also where it refuses this one."""

    error_code: int
    mechanisms: tuple[str, ...]


class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"], frozen=True):
    """One message of the mechanism's exchange."""

    api_key: ClassVar[int] = 36
    auth_bytes: bytes = b""

    def __repr__(self) -> str:  # a password may be inside
        return "SaslAuthenticateRequest(...)"


class SaslAuthenticateResponse(Struct, frozen=True):
    """The node's message of the exchange."""

    error_code: int
    error_message: str | None
    auth_bytes: bytes
    session_lifetime_ms: int = 0  # 0: for ever


def _read_sasl_authenticate(body: Any, version: int) -> SaslAuthenticateResponse:
    lifetime = body.session_lifetime
    return SaslAuthenticateResponse(
        error_code=int(body.error_code),
        error_message=plain(body.error_message),
        auth_bytes=bytes(body.auth_bytes),
        session_lifetime_ms=_milliseconds(lifetime),
    )


def _milliseconds(value: Any) -> int:
    return int(value / timedelta(milliseconds=1)) if isinstance(value, timedelta) else int(value)


APIS: dict[int, Api] = {
    api.request.api_key: api
    for api in (
        Api(
            SaslHandshakeRequest,
            VersionRange(1, 1),  # tokens go in SaslAuthenticate
            lambda schema, message: schema.SaslHandshakeRequest(mechanism=message.mechanism),
            lambda body, version: SaslHandshakeResponse(int(body.error_code), tuple(body.mechanisms)),
            MAX_SHORT_FRAME,
        ),
        Api(
            SaslAuthenticateRequest,
            VersionRange(1, 2),  # v1: with the lifetime of the session
            lambda schema, message: schema.SaslAuthenticateRequest(auth_bytes=message.auth_bytes),
            _read_sasl_authenticate,
            MAX_SHORT_FRAME,
        ),
    )
}
"""By API key."""
