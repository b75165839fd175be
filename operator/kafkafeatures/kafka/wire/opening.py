"""The way to a node before Kafka is spoken: its address resolved and permitted, TCP, TLS; and what went wrong there.

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

HANDSHAKE_SHARE = 0.9  # of the time that is left, so that a silent handshake is distinguished from a silent network


HAPPY_EYEBALLS = 0.25  # seconds until the next address of a name is tried beside the first (RFC 8305)


@contextlib.asynccontextmanager
async def nothing_of_the_api_server(
    policy: AddressPolicy | None, stage: OpeningStage, port: int
) -> AsyncIterator[None]:
    """Say no more of what is no Kafka where it may be the API server, at an address that was not known."""
    try:
        yield
    except (NotKafka, TlsFailed):
        if policy is not None and await policy.is_api_server(stage.host, port):
            raise AddressRefused from None
        raise


class OpeningStage:
    """The progress of a connection, for the words of a time-out."""

    def __init__(self, timeout: float, monotonic: Callable[[], float]) -> None:
        self.timeout, self._monotonic = timeout, monotonic
        self.until = monotonic() + timeout
        self.name = "connect"
        self.host = ""  # the IP address that is connected to, where there is a policy

    def for_handshake(self) -> float:
        """Seconds; names and contexts took some already."""
        return max(HANDSHAKE_SHARE * (self.until - self._monotonic()), 0.001)

    def timed_out(self) -> KafkaError:
        if self.name == "connect":
            return Unreachable(f"no connection within {self.timeout:g} s", remedy="check address, route and firewall")
        return TimedOut(
            f"connected, but no answer within {self.timeout:g} s",
            remedy="the process may hang, or this is not Kafka, or it speaks TLS",
        )

    def no_handshake(self) -> KafkaError:
        return TlsFailed(f"no TLS handshake within {self.timeout:g} s", remedy="the port may not use TLS")


async def open_streams(
    address: Address, security: Security, stage: OpeningStage
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect, over TLS where the settings ask for it. Raises KafkaError."""
    context = await security.contexts.context(security.tls) if security.tls is not None else None
    refused = True
    try:
        policy = security.policy
        hosts = [address.host] if policy is None else await _permitted(address, policy, security.lookups)
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
                refused = refused and _is_refused(error)
    except ssl.SSLError as error:
        # Not for the operator: a tenant would read by it what there is in the network.
        names: list[str] = []
        if security.policy is None and security.tls is not None and tls.is_for_another_name(error):
            names = await _names(address, security.tls, stage)
        raise tls.failed(error, security.tls, names=names) from None
    except (UnicodeError, ValueError, OverflowError):
        # What a node advertises is not ours: IDNA refuses a name, a NUL byte, a port beyond 65535.
        raise Unreachable("not a usable address", remedy="check advertised.listeners") from None
    except socket.gaierror as error:
        raise Unreachable(f"the host name is not known ({error.strerror})", remedy="check the name") from None
    except ConnectionAbortedError:
        raise stage.no_handshake() from None
    except OSError as error:
        if context is not None and isinstance(error, ConnectionResetError | BrokenPipeError):
            raise tls.closed_in_handshake() from None
        if refused and _is_refused(error):
            raise NotListening from None
        raise Unreachable(error.strerror or str(error), remedy="check host, port and that the node runs") from None
    if security.policy is not None and tls.is_api_server(writer.get_extra_info("peercert")):
        writer.transport.abort()  # it would wait for the end of what it takes for a line of HTTP
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


async def _permitted(address: Address, policy: AddressPolicy, lookups: Lookups) -> list[str]:
    """The IP addresses to connect to: resolved once, so that nothing can change between the check and the connect.

    One that is not allowed among several is reason enough to refuse the name.
    """
    if _is_literal(address.host):
        resolved = resolve_number(address.host, address.port)
    else:
        resolved = await lookups.resolve(address.host, address.port)
    if not all(policy.permits(ip_address, address.port) for ip_address in resolved):
        raise AddressRefused
    return list(dict.fromkeys(resolved))


def _is_literal(host: str) -> bool:
    """An IP address. There is nothing to race for, and asyncio's race may lose a socket when it is cancelled."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, host)
            return True
    return False


def _is_refused(error: OSError) -> bool:
    """Asyncio puts the failures of several addresses of one name into one text: each has to be that one."""
    numbers = set(re.findall(r"\[Errno (-?\d+)\]", str(error)))
    return isinstance(error, ConnectionRefusedError) or numbers == {str(errno.ECONNREFUSED)}
