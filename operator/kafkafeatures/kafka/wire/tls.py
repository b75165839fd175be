"""Makes TLS contexts from PEM texts, and explains failed handshakes.

`contexts.py` caches the contexts; the modules that open connections use the explanations. Host names are always
verified, except on a connection that only reads a certificate for an explanation (`for_any_name`). A configured CA
replaces the system's CAs.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from kafkafeatures.kafka.base.errors import TlsFailed
from kafkafeatures.kafka.wire.pem import OF_KAFKA, SettingNames, Tls

MOST_NAMES = 6
"""Names of a certificate that are shown."""


OF_ZOOKEEPER = SettingNames(
    "spec.cluster.zookeeper.tls.caSecretRef, or zookeeper.ssl.truststore.location in --zookeeper-config",
    "spec.cluster.zookeeper.tls.clientSecretRef, or zookeeper.ssl.keystore.location in --zookeeper-config",
)
OF_TOKENS = SettingNames("ca.crt in the Secret of spec.cluster.sasl, or ssl.truststore.location in --config", "")

_CONFIGURE_CA = "set {0.ca} to the PEM file of that CA"
# OpenSSL's X509_V_ERR_* -> (problem, remedy).
_VERIFY = {
    9: ("the certificate is not valid yet", "check the clocks"),
    10: ("the certificate has expired", "renew the certificate of the node"),
    18: ("the certificate is self-signed and not trusted", "set {0.ca} to the PEM file of this certificate"),
    19: ("the certificate chain ends in a CA that is not trusted", _CONFIGURE_CA),
    20: ("the CA of the certificate is not trusted", _CONFIGURE_CA),
    21: ("the CA of the certificate is not trusted", _CONFIGURE_CA),
    62: ("the certificate is for another host name", "use a host name the certificate is issued for"),
    64: ("the certificate is for another address", "use a host name or address the certificate is issued for"),
}
_OTHER_NAME = (62, 64)
_ALERTS = {
    "CERTIFICATE_REQUIRED": ("the node requires a client certificate", "configure one (mTLS): {0.client}"),
    "BAD_CERTIFICATE": (
        "the node does not accept our client certificate",
        "check that its CA is in the node's truststore",
    ),
    "UNKNOWN_CA": ("the node does not trust the CA of our client certificate", "use one it trusts: {0.client}"),
    "CERTIFICATE_EXPIRED": ("our client certificate has expired", "renew it: {0.client}"),
    "CERTIFICATE_UNKNOWN": ("the node does not accept our client certificate", "use one it trusts: {0.client}"),
    "HANDSHAKE_FAILURE": ("the node refused the handshake", "it may require a client certificate, or other ciphers"),
    "PROTOCOL_VERSION": ("no TLS version in common", "TLS 1.2 or newer is needed"),
}
_NOT_TLS = (
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
    "UNKNOWN_PROTOCOL",
    "HTTP_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
)
_HASHED = re.compile(r"[0-9a-f]{8}\.[0-9]+")
_CERTIFICATE = re.compile(rb"-----BEGIN (?:TRUSTED )?CERTIFICATE-----(.*?)-----END", re.DOTALL)

_PEM = re.compile(r"-----BEGIN (?:TRUSTED )?CERTIFICATE-----.*?-----END (?:TRUSTED )?CERTIFICATE-----", re.DOTALL)


def context(tls: Tls) -> ssl.SSLContext:
    """A client's context, TLS 1.2 or newer. Raises TlsFailed where a PEM text cannot be used, naming which."""
    if tls == Tls():
        return _system()
    if tls.ca is None:
        ssl_context = ssl.create_default_context(capath=_folder_of_trust())
    else:
        ssl_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            # Text around the certificates, such as names in comments, may be other than ASCII, which `ssl` refuses.
            ssl_context.load_verify_locations(cadata="\n".join(_PEM.findall(tls.ca)) or tls.ca)
        except (ssl.SSLError, ValueError, TypeError):
            raise TlsFailed(
                "the CA is not a PEM certificate", remedy="it must start with -----BEGIN CERTIFICATE"
            ) from None
        # As Java's trust stores have it, whatever is configured is trusted, also a certificate that is no root.
        ssl_context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    ssl_context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.certificate is not None or tls.key is not None:
        _load_client(ssl_context, tls)
    return ssl_context


@cache
def _system() -> ssl.SSLContext:
    """A context with the system's CAs and no client certificate, shared by all connections."""
    ssl_context = ssl.create_default_context(capath=_folder_of_trust())
    ssl_context.minimum_version = ssl.TLSVersion.TLSv1_2
    return ssl_context


@cache
def _folder_of_trust() -> str | None:
    """The folder that has each of the system's CAs in a file named by its hash; None if it lacks CAs of the bundle.

    OpenSSL loads single CAs from such a folder when needed. Loading the bundle takes 0.8 MiB and 45 ms for each
    context.
    """
    paths = ssl.get_default_verify_paths()
    if paths.capath is None:
        return None
    try:
        hashed = [path for path in Path(paths.capath).iterdir() if _HASHED.fullmatch(path.name)]
        hashed_certificates = {certificate for path in hashed for certificate in _certificates(path)}
        bundled_certificates = _certificates(Path(paths.cafile)) if paths.cafile else []
    except OSError:
        return None
    return paths.capath if hashed_certificates and hashed_certificates.issuperset(bundled_certificates) else None


def _certificates(path: Path) -> list[bytes]:
    return [b"".join(match.split()) for match in _CERTIFICATE.findall(path.read_bytes())]


def _load_client(context: ssl.SSLContext, tls: Tls) -> None:
    import tempfile  # only for client certificates: a faster start

    if not tls.certificate or not tls.key:
        raise TlsFailed(
            "a client certificate needs its key, and a key its certificate", remedy="configure both, as PEM"
        )
    # OpenSSL reads a key from a file only; this one is ours alone and is gone at once.
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii", errors="replace") as file:
            file.write(tls.certificate.rstrip() + "\n" + tls.key)
        context.load_cert_chain(path, password=lambda: tls.key_password or "")
    except (ssl.SSLError, ValueError, OSError):
        raise TlsFailed(
            "the client certificate and its key cannot be used", remedy="both must be PEM and belong together"
        ) from None
    finally:
        os.unlink(path)


def is_api_server(certificate: Mapping[str, Any] | None) -> bool:
    """True if a verified certificate, as `getpeercert` shows it, names `kubernetes.default.svc`, as an API
    server's does.
    """
    return ("DNS", "kubernetes.default.svc") in (certificate or {}).get("subjectAltName", ())


def failed(
    error: ssl.SSLError,
    tls: Tls | None,
    *,
    sent: bool = False,
    named: SettingNames = OF_KAFKA,
    names: Sequence[str] = (),
) -> TlsFailed:
    """The error for a handshake, or a later TLS failure, with these settings. `names`: host names in the
    certificate.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        problem, remedy = _VERIFY.get(error.verify_code, (f"the certificate is refused: {error.verify_message}", ""))
        if names:
            problem += f" (it is for {', '.join(names[:MOST_NAMES])}{', ...' if len(names) > MOST_NAMES else ''})"
        if named.trust and "{0.ca}" in remedy:
            remedy = named.trust
        return TlsFailed(problem, remedy=remedy.format(named), sent=sent)
    reason = error.reason or ""
    if "BAD_CERTIFICATE" in reason and tls is not None and tls.certificate is None:
        reason = "CERTIFICATE_REQUIRED"  # a JVM answers BAD_CERTIFICATE if there is none; OpenSSL has an alert for that
    for part, (problem, remedy) in _ALERTS.items():
        if part in reason:
            return TlsFailed(problem, remedy=remedy.format(named), sent=sent)
    if any(part in reason for part in _NOT_TLS):
        return TlsFailed(
            "the node does not speak TLS on this port", remedy="check port and security protocol", sent=sent
        )
    return TlsFailed(f"TLS failed: {reason.replace('_', ' ').lower() or error}", sent=sent)


def is_for_another_name(error: ssl.SSLError) -> bool:
    """True if the certificate is trusted, but not for this host name."""
    return isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _OTHER_NAME


def for_any_name(tls: Tls) -> ssl.SSLContext:
    """A context to read the names of a trusted certificate with, and for nothing else: it has no client certificate."""
    ssl_context = ssl.create_default_context(cadata=tls.ca)
    ssl_context.check_hostname = False
    return ssl_context


def names_in(certificate: Mapping[str, Any] | None) -> list[str]:
    """The host names and addresses that a certificate, as `getpeercert` shows it, is issued for."""
    return [str(name) for kind, name in (certificate or {}).get("subjectAltName", ()) if kind in ("DNS", "IP Address")]


def closed_in_handshake() -> TlsFailed:
    """The error for a connection that the node closed within the handshake: a plaintext Kafka listener takes the hello
    for an impossible length, and closes.
    """
    return TlsFailed(
        "the connection was closed during the TLS handshake", remedy="the node may not speak TLS on this port"
    )
