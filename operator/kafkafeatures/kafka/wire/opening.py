"""Opens a connection up to the first Kafka request: DNS, address policy, TCP, TLS; and explains what went wrong.

Called by `kafka/wire/connection.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable

from kafkafeatures.kafka.base.errors import (
    AddressRefused,
    KafkaError,
    NotKafka,
    NotListening,
    TimedOut,
    TlsFailed,
    Unreachable,
)
from kafkafeatures.kafka.base.settings import Address, Security
from kafkafeatures.kafka.wire import tls
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kafka.wire.lookups import Lookups, resolve_number
from kafkafeatures.kafka.wire.pem import Tls

HANDSHAKE_SHARE = 0.9
"""Share of the remaining time that the TLS handshake may take, so that one that hangs is reported as such, not as a
silent network.
"""

HAPPY_EYEBALLS = 0.25
"""Seconds until the next address of a name is tried beside the first one (RFC 8305)."""


@contextlib.asynccontextmanager
async def hide_api_server(policy: AddressPolicy | None, stage: OpeningStage, port: int) -> AsyncIterator[None]:
    """Turn an error that describes a peer other than Kafka into AddressRefused, if the peer may be the API server.

    A tenant could otherwise learn by the errors which address the API server has.
    """
    try:
        yield
    except (NotKafka, TlsFailed):
        if policy is not None and await policy.is_api_server(stage.host, port):
            raise AddressRefused from None
        raise


class OpeningStage:
    """The progress of opening a connection, for the message of a time-out. `until`: the monotonic time at which the
    connection must be ready. `name`: the stage: "connect", "negotiate" or "authenticate".
    """

    def __init__(self, timeout: float, monotonic: Callable[[], float]) -> None:
        self.timeout, self._monotonic = timeout, monotonic
        self.until = monotonic() + timeout
        self.name = "connect"
        self.host = ""  # the host that is connected to; an IP address where there is a policy

    def for_handshake(self) -> float:
        """Seconds that the TLS handshake may take, of those that are left."""
        return max(HANDSHAKE_SHARE * (self.until - self._monotonic()), 0.001)

    def timed_out(self) -> KafkaError:
        """The error for a connection that was not ready in time, by the stage that it reached."""
        if self.name == "connect":
            return Unreachable(f"no connection within {self.timeout:g} s", remedy="check address, route and firewall")
        return TimedOut(
            f"connected, but no answer within {self.timeout:g} s",
            remedy="the process may hang, or this is not Kafka, or it speaks TLS",
        )

    def no_handshake(self) -> KafkaError:
        """The error for a TLS handshake that took longer than `for_handshake` allows."""
        return TlsFailed(f"no TLS handshake within {self.timeout:g} s", remedy="the port may not use TLS")


async def open_streams(
    address: Address, security: Security, stage: OpeningStage
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect, over TLS where the settings ask for it. Raises KafkaError."""
    context = await security.contexts.context(security.tls) if security.tls is not None else None
    all_refused = True
    try:
        policy = security.policy
        hosts = [address.host] if policy is None else await permitted_addresses(address, policy, security.lookups)
        for host in hosts:
            stage.host = host
            try:
                reader, writer = await asyncio.open_connection(
                    host,
                    address.port,
                    ssl=context,
                    server_hostname=address.host if context else None,
                    ssl_handshake_timeout=stage.for_handshake() if context else None,
                    happy_eyeballs_delay=None if _is_literal(host) else HAPPY_EYEBALLS,
                )
                break
            except OSError as error:
                if isinstance(error, ssl.SSLError) or host == hosts[-1]:
                    raise
                all_refused = all_refused and _is_refused(error)
    except ssl.SSLError as error:
        # Only for the command line: from the operator a tenant could learn which hosts there are in the network.
        names: list[str] = []
        if security.policy is None and security.tls is not None and tls.is_for_another_name(error):
            names = await _names(address, security.tls, stage)
        raise tls.failed(error, security.tls, named=security.named, names=names) from None
    except (UnicodeError, ValueError, OverflowError):
        # Nodes may advertise anything: a name that IDNA refuses, a NUL byte, a port above 65535.
        raise Unreachable("not a usable address", remedy="check advertised.listeners") from None
    except socket.gaierror as error:
        raise Unreachable(f"the host name is not known ({error.strerror})", remedy="check the name") from None
    except ConnectionAbortedError:
        raise stage.no_handshake() from None
    except OSError as error:
        if context is not None and isinstance(error, ConnectionResetError | BrokenPipeError):
            raise tls.closed_in_handshake() from None
        if all_refused and _is_refused(error):
            raise NotListening from None
        raise Unreachable(error.strerror or str(error), remedy="check host, port and that the node runs") from None
    if security.policy is not None and tls.is_api_server(writer.get_extra_info("peercert")):
        writer.transport.abort()  # a graceful close would hang: the server waits for the end of an HTTP line
        raise AddressRefused
    stage.name = "negotiate"
    return reader, writer


async def _names(address: Address, trusted: Tls, stage: OpeningStage) -> list[str]:
    """The names that the certificate there is issued for; empty where it cannot be read."""
    with contextlib.suppress(OSError):  # TimeoutError is one
        async with asyncio.timeout(stage.for_handshake()):
            _, writer = await asyncio.open_connection(address.host, address.port, ssl=tls.for_any_name(trusted))
        names = tls.names_in(writer.get_extra_info("peercert"))
        writer.transport.abort()
        return names
    return []


async def permitted_addresses(address: Address, policy: AddressPolicy, lookups: Lookups) -> list[str]:
    """The IP addresses to connect to. They are resolved only once, so that they cannot change between check and connect
    (DNS rebinding). If one of several is not allowed, the name is refused.
    """
    if _is_literal(address.host):
        resolved = resolve_number(address.host, address.port)
    else:
        resolved = await lookups.resolve(address.host, address.port)
    if not all(policy.permits(ip_address, address.port) for ip_address in resolved):
        raise AddressRefused
    return list(dict.fromkeys(resolved))


def _is_literal(host: str) -> bool:
    """True for an IP address. Then happy eyeballs are not needed, and asyncio's version may leak a socket when
    cancelled.
    """
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, host)
            return True
    return False


def _is_refused(error: OSError) -> bool:
    """True if every address of the name refused the connection. asyncio joins the errors of several addresses in one
    text.
    """
    numbers = set(re.findall(r"\[Errno (-?\d+)\]", str(error)))
    return isinstance(error, ConnectionRefusedError) or numbers == {str(errno.ECONNREFUSED)}
