"""From the references of a document to settings with the secrets in them.

Called by whoever opens a cluster for a document. Where secrets come from is a function: a folder for the command line
(`--secrets-dir DIR/<secret-name>/<key>`), labelled Secrets for the operator. No value of a secret is ever in an error.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kafkafeatures.api.spec import ClusterSpec, SaslSpec, TlsSpec
from kafkafeatures.kafka.errors import TlsFailed
from kafkafeatures.kafka.settings import (
    ClusterSettings,
    OAuthClient,
    OAuthToken,
    Sasl,
    Security,
    Tls,
    parse_addresses,
)

ReadSecret = Callable[[str, str], str | None]
"""(secret name, key) -> text, None where there is no such key. Raises CredentialsInvalid where it cannot be read."""


class CredentialsInvalid(Exception):
    """A Secret, or a key of it, is missing or cannot be read."""


def secrets_in(folder: Path | None) -> ReadSecret:
    """Secrets as a folder of folders, the way they are mounted into pods."""

    def read(name: str, key: str) -> str | None:
        if folder is None:
            raise CredentialsInvalid(f"secret {name} is wanted; say where secrets are with --secrets-dir")
        if not (folder / name).is_dir():
            raise CredentialsInvalid(f"no folder {folder / name}; a secret is a folder of its keys")
        try:
            return (folder / name / key).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not text"
            raise CredentialsInvalid(f"{folder / name / key}: {why}") from None

    return read


def settings_of(cluster: ClusterSpec, read: ReadSecret) -> ClusterSettings:
    """Resolve everything. Raises CredentialsInvalid, ValueError for an address that is none."""
    brokers = Security(_tls(cluster.tls, read), _sasl(cluster.sasl, read))
    controllers = brokers
    if cluster.controller_listener is not None:
        listener = cluster.controller_listener
        controllers = Security(_tls(listener.tls, read), _sasl(listener.sasl, read))
    for security, where in ((brokers, "spec.cluster"), (controllers, "spec.cluster.controllerListener")):
        if security.tls is not None or security.sasl is not None:
            _check(security, where)
    return ClusterSettings(
        bootstrap_servers=parse_addresses(cluster.bootstrap_servers or "", "spec.cluster.bootstrapServers"),
        bootstrap_controllers=parse_addresses(cluster.bootstrap_controllers or "", "spec.cluster.bootstrapControllers"),
        brokers=brokers,
        controllers=controllers,
        request_timeout=cluster.request_timeout_seconds,
    )


def _check(security: Security, where: str) -> None:
    from kafkafeatures.kafka.wire import tls  # brings ssl along, which plaintext does not need

    try:
        tls.check(security)
    except TlsFailed as error:
        raise CredentialsInvalid(f"{where}.tls: {error}; {error.remedy}") from None


def _need(read: ReadSecret, name: str, key: str) -> str:
    text = read(name, key)
    if text is None:
        raise CredentialsInvalid(f"secret {name} has no key {key}")
    return text


def _tls(spec: TlsSpec | None, read: ReadSecret) -> Tls | None:
    if spec is None:
        return None
    ca_ref = spec.ca_secret_ref or spec.ca_config_map_ref
    client = spec.client_secret_ref
    return Tls(
        ca=_need(read, ca_ref.name, ca_ref.key) if ca_ref else None,
        certificate=_need(read, client.name, client.cert_key) if client else None,
        key=_need(read, client.name, client.key_key) if client else None,
    )


def _sasl(spec: SaslSpec | None, read: ReadSecret) -> Sasl | None:
    if spec is None:
        return None
    ref = spec.secret_ref
    if spec.mechanism == "OAUTHBEARER":
        return Sasl(spec.mechanism, oauth=_oauth(ref.name, read))
    username = spec.username or _need(read, ref.name, ref.username_key).strip("\r\n")
    return Sasl(spec.mechanism, username, _need(read, ref.name, ref.password_key).strip("\r\n"))


def _oauth(name: str, read: ReadSecret) -> OAuthToken | OAuthClient:
    """A Secret with `token` holds the token itself; one with `token-url` says where to fetch it (RFC 6749, 4.4)."""
    token = read(name, "token")
    if token is not None:
        return OAuthToken(token.strip())
    url = read(name, "token-url")
    if url is None:
        raise CredentialsInvalid(f"secret {name} has neither token nor token-url, client-id and client-secret")
    ca, scope = read(name, "ca.crt"), read(name, "scope")
    return OAuthClient(
        token_url=url.strip(),
        client_id=_need(read, name, "client-id").strip(),
        client_secret=_need(read, name, "client-secret").strip("\r\n"),
        scope=scope.strip() if scope else None,
        tls=Tls(ca=ca),
    )
