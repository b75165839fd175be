"""The policy of addresses that the operator may connect to. It is checked for the IP address, after DNS, at every
connect.

Without it, anybody who may write a resource could make the operator connect to whatever it can reach: the cloud's
metadata service, the API server, its own pod (server-side request forgery). Listeners that brokers advertise are
checked by the same rule, since the brokers belong to the same person. The lists are settings of the operator, never of
a resource. The command line has no policy: it connects to where its user says.

The API server may have addresses that are not known. So before `kafka/wire/opening.py` reports what a peer other than
Kafka answered, it calls `is_api_server`: if the peer is the API server, the report says nothing about its answer.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

Ip = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks(*texts: str) -> tuple[Network, ...]:
    """Parses CIDRs. Raises ValueError for a text that is none."""
    return tuple(ipaddress.ip_network(text) for text in texts)


NEVER = networks(
    "0.0.0.0/8", "::/128",  # this host, by another name
    "169.254.0.0/16", "fe80::/10",  # link-local: the metadata services of clouds, node-local agents
    "100.100.100.200/32", "fd00:ec2::254/128",  # metadata services that are not link-local
    "224.0.0.0/4", "ff00::/8", "240.0.0.0/4",  # multicast, reserved, broadcast
)  # fmt: skip
LOOPBACK = networks("127.0.0.0/8", "::1/128")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class ApiServerAddresses(Protocol):
    """The API server of the Kubernetes that the operator runs on."""

    @property
    def endpoints(self) -> frozenset[tuple[str, int]]:
        """(IP address, port) as far as they are known now."""

    async def answers_at(self, address: str, port: int) -> bool:
        """True if the process at this address proves to be the API server."""


class AddressPolicy(Struct, frozen=True):
    """Addresses that may be connected to: none in `denied`, none of the API server's known endpoints; if `allowed` is
    not empty, only addresses in it.
    """

    denied: tuple[Network, ...] = NEVER
    allowed: tuple[Network, ...] = ()
    api_server: ApiServerAddresses | None = None

    def permits(self, address: str, port: int) -> bool:
        """True if this IP address may be connected to; False for a text that is no IP address."""
        try:
            shapes = _shapes(ipaddress.ip_address(address.partition("%")[0]))
        except ValueError:
            return False
        never = self.api_server.endpoints if self.api_server is not None else frozenset()
        if any(_within(ip, self.denied) or (str(ip), port) in never for ip in shapes):
            return False
        return not self.allowed or any(_within(ip, self.allowed) for ip in shapes)

    async def is_api_server(self, address: str, port: int) -> bool:
        """True if the API server is at this address. Called for answers that are not Kafka's, to hide them."""
        return self.api_server is not None and await self.api_server.answers_at(address, port)


def _within(ip: Ip, among: Iterable[Network]) -> bool:
    return any(ip in network for network in among if network.version == ip.version)


def _shapes(ip: Ip) -> list[Ip]:
    """The address, and the IPv4 addresses that it embeds (IPv4-mapped, 6to4, Teredo, NAT64), to which a gateway may
    route.
    """
    shapes: list[Ip] = [ip]
    if isinstance(ip, ipaddress.IPv6Address):
        shapes += [inner for inner in (ip.ipv4_mapped, ip.sixtofour) if inner is not None]
        if ip.teredo is not None:
            shapes += ip.teredo
        if ip in _NAT64 or int(ip) < 2**32:  # the last: IPv4-compatible, long deprecated
            shapes.append(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
    return shapes
