"""Certificates of test clusters: good ones, and the ways in which they are wrong. PEM, keys as PKCS#8 for Kafka."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


class Certificates:
    """One CA with what it signed for nodes at these addresses, and another CA that is not trusted."""

    def __init__(self, *hosts: str) -> None:
        self._hosts = (*(hosts or ("127.0.0.1",)), "localhost")
        self._ca = trustme.CA(organization_name="rig")

    @cached_property
    def ca(self) -> str:
        return self._ca.cert_pem.bytes().decode()

    @cached_property
    def other_ca(self) -> str:
        return trustme.CA(organization_name="another").cert_pem.bytes().decode()

    @cached_property
    def node(self) -> tuple[str, str]:
        """(certificate, key) for the addresses and localhost."""
        return _pem(self._ca.issue_cert(*self._hosts, common_name="node"))

    @cached_property
    def wrong_host(self) -> tuple[str, str]:
        return _pem(self._ca.issue_cert("kafka.example", common_name="node"))

    @cached_property
    def expired(self) -> tuple[str, str]:
        past = datetime.now(UTC) - timedelta(days=1)
        return _pem(self._ca.issue_cert(*self._hosts, common_name="node", not_after=past))

    def server_side(self, folder: Path, pair: tuple[str, str] | None = None) -> ssl.SSLContext:
        """The TLS context of a server with the certificate for the addresses, or with another pair."""
        pem = folder / "server.pem"
        pem.write_text("".join(pair or self.node))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        return context

    def client(self, name: str) -> tuple[str, str]:
        """(certificate, key) of a client; its principal is User:CN=<name>,..."""
        return _pem(self._ca.issue_cert(f"{name}@example.org", common_name=name))


def _pem(cert: trustme.LeafCert) -> tuple[str, str]:
    chain = "".join(part.bytes().decode() for part in cert.cert_chain_pems)
    key = load_pem_private_key(cert.private_key_pem.bytes(), None)
    return chain, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
