"""Resolve the addresses of a document and its references to Secrets into settings of connections.

Called where a cluster is opened for a document. The secrets are read by a function (`Read`): from a folder on the
command line (`--secrets-dir`, DIR/<secret-name>/<key>), from labelled Secrets in the operator. No error contains the
value of a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from kafkafeatures.api.document import InvalidDocument
from kafkafeatures.api.names import CREDENTIALS
from kafkafeatures.api.references import LoginSecretRef, TlsSpec
from kafkafeatures.api.spec import ClusterSpec, SaslSpec
from kafkafeatures.api.values import replace
from kafkafeatures.kafka.base.errors import TlsFailed
from kafkafeatures.kafka.base.settings import (
    Address,
    ClusterSettings,
    Kerberos,
    OAuthClient,
    OAuthToken,
    Realms,
    Sasl,
    Security,
    parse_addresses,
)
from kafkafeatures.kafka.wire import tls
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kafka.wire.krb5_conf import read_krb5_conf
from kafkafeatures.kafka.wire.pem import Tls
from kafkafeatures.zookeeper.ensemble import Digest, Ensemble, parse_connect


class Reference(NamedTuple):
    """A Secret or a ConfigMap in the namespace of the resource."""

    kind: Literal["Secret", "ConfigMap"]
    name: str


Read = Callable[[Reference, str], str | None]
"""Function that returns the text of a key of a reference; None if it has no such key. Raises CredentialsInvalid if the
reference cannot be read.
"""

Material = Mapping[Reference, Mapping[str, str] | None]
"""Content of each reference; None where it does not exist, or may not be read."""


CERTIFICATES = "*.crt"
"""The key that stands for all keys that end so: a certificate authority that is being replaced is under several."""
KEYTAB = "keytab"
"""The key of a Kerberos keytab: the only value that is not text."""


class CredentialsInvalid(Exception):
    """A Secret or a ConfigMap, or a key of it, is missing or cannot be used."""


class BootstrapAddresses(NamedTuple):
    """The addresses that a document names."""

    servers: tuple[Address, ...]
    controllers: tuple[Address, ...]


def bootstrap_of(cluster: ClusterSpec) -> BootstrapAddresses:
    """Parse the addresses; no Secret is needed. There are none for a cluster that has to be found. Raises
    InvalidDocument for invalid lists, including ZooKeeper's.
    """
    if cluster.found_by:
        return BootstrapAddresses((), ())
    address_lists, problems = [], []
    for text, field_path in (
        (cluster.bootstrap_servers, "spec.cluster.bootstrapServers"),
        (cluster.bootstrap_controllers, "spec.cluster.bootstrapControllers"),
    ):
        try:
            address_lists.append(parse_addresses(text or "", field_path))
        except ValueError as error:
            problems.append(str(error))
    if cluster.zookeeper is not None:
        try:
            parse_connect(cluster.zookeeper.connect, "spec.cluster.zookeeper.connect")
        except ValueError as error:
            problems.append(str(error))
    if not problems and not any(address_lists):
        problems.append("spec.cluster: bootstrapServers and bootstrapControllers are empty; expected host:port")
    if problems:
        raise InvalidDocument(tuple(problems))
    return BootstrapAddresses(*address_lists)


def references(cluster: ClusterSpec, *, ensemble: bool = False) -> tuple[Reference, ...]:
    """References that `settings_of` needs, without duplicates, to be read before. `ensemble`: also those that
    `ensemble_of` needs.
    """
    all_references: list[Reference] = []

    def note(reference: Reference, key: str) -> str:
        """Note a reference instead of reading it, so that the functions below list what they would read."""
        all_references.append(reference)
        return ""

    for listener in (cluster, cluster.controller_listener):
        if listener is not None:
            tls_of(listener.tls, note)
            _sasl(listener.sasl, note)
    if ensemble and cluster.zookeeper is not None:
        tls_of(cluster.zookeeper.tls, note)
        _digest(cluster.zookeeper.digest_secret_ref, note)
    return tuple(dict.fromkeys(all_references))


def material_of(material: Material) -> Read:
    """Function that returns texts of Secrets and ConfigMaps which were read from the API server before."""

    def read(reference: Reference, key: str) -> str | None:
        texts = material[reference]
        if texts is not None:
            text = certificates_in(texts) if key == CERTIFICATES else texts.get(key)
            return _text(text, key, f"the {reference.kind} {reference.name}")
        if reference.kind == "ConfigMap":
            raise CredentialsInvalid(f"ConfigMap {reference.name} not found")
        # The same text for both causes: a user who may write a resource must not learn which Secrets exist.
        raise CredentialsInvalid(
            f'Secret {reference.name} does not exist, or does not have the label {CREDENTIALS}: "true"'
        )

    return read


def secrets_in(folder: Path | None) -> Read:
    """Function that reads Secrets from a folder: one folder for each Secret, one file for each key, as in a pod."""

    def read(reference: Reference, key: str) -> str | None:
        name = reference.name
        if folder is None:
            raise CredentialsInvalid(
                f"secret {name} is required; name the directory of the secrets with --secrets-dir, or for Kafka's "
                "listeners client properties with --config"
            )
        if not (folder / name).is_dir():
            raise CredentialsInvalid(f"directory {folder / name} not found; it must contain a file for each key")
        try:
            if key == CERTIFICATES:
                files = (folder / name).glob(CERTIFICATES)
                return certificates_in({file.name: file.read_text(encoding="utf-8") for file in files})
            # bytes: read_text would make line feeds of the carriage returns in a keytab, and its key another one
            text = (folder / name / key).read_bytes().decode("utf-8", "surrogateescape")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not text"
            raise CredentialsInvalid(f"{folder / name / key}: {reason}") from None
        return _text(text, key, str(folder / name))

    return read


def _text(text: str | None, key: str, location: str) -> str | None:
    """The text itself. Raises CredentialsInvalid where bytes of it are no text, as only those of a keytab may be."""
    if text is not None and key != KEYTAB and any("\ud800" <= character <= "\udfff" for character in text):
        raise CredentialsInvalid(f"{location}: the value of {key} is not text")
    return text


def certificates_in(texts: Mapping[str, str]) -> str | None:
    """The texts of all keys that CERTIFICATES stands for, in the order of the keys; None where there is none."""
    fitting = [text.strip() for name, text in sorted(texts.items()) if name.endswith(CERTIFICATES[1:])]
    return "\n".join(fitting) or None


def settings_of(cluster: ClusterSpec, reader: Read, *, policy: AddressPolicy | None = None) -> ClusterSettings:
    """Resolve all settings of a cluster. `policy`: addresses that may be connected to; it also holds for addresses that
    nodes report.

    Raises InvalidDocument for an invalid address, before any secret is read, and for a cluster that has to be found,
    which `connections` does; CredentialsInvalid.
    """
    if cluster.found_by:
        hint = "kafkafeatures describe -f FILE shows the cluster"
        raise InvalidDocument((f"spec.cluster.{cluster.found_by}: only the operator carries it out; {hint}",))
    bootstrap = bootstrap_of(cluster)
    brokers = Security(tls_of(cluster.tls, reader), _sasl(cluster.sasl, reader))
    controllers = brokers
    if cluster.controller_listener is not None:
        listener = cluster.controller_listener
        controllers = Security(tls_of(listener.tls, reader), _sasl(listener.sasl, reader))
    for security, field_path in ((brokers, "spec.cluster"), (controllers, "spec.cluster.controllerListener")):
        if security.tls is not None or security.sasl is not None:
            _check(security, field_path)
    return ClusterSettings(
        bootstrap_servers=bootstrap.servers,
        bootstrap_controllers=bootstrap.controllers,
        brokers=_within(brokers, policy),
        controllers=_within(controllers, policy),
        request_timeout=cluster.request_timeout_seconds,
    )


def ensemble_of(cluster: ClusterSpec, reader: Read, *, policy: AddressPolicy | None = None) -> Ensemble | None:
    """The ensemble with its addresses and credentials; None where the document names none. Raises InvalidDocument for
    an invalid address, before any secret is read; CredentialsInvalid.
    """
    spec = cluster.zookeeper
    if spec is None:
        return None
    bootstrap_of(cluster)
    servers, chroot = parse_connect(spec.connect, "spec.cluster.zookeeper.connect")
    tls_settings = tls_of(spec.tls, reader)
    if tls_settings is not None:
        try:
            tls.context(tls_settings)
        except TlsFailed as error:
            raise CredentialsInvalid(f"spec.cluster.zookeeper.tls: {error}; {error.remedy}") from None
    return Ensemble(servers, chroot, tls_settings, _digest(spec.digest_secret_ref, reader), policy)


def _digest(ref: LoginSecretRef | None, reader: Read) -> Digest | None:
    if ref is None:
        return None
    login = Reference("Secret", ref.name)
    username = need(reader, login, ref.username_key).strip("\r\n")
    return Digest(username, need(reader, login, ref.password_key).strip("\r\n"))


def _within(security: Security, policy: AddressPolicy | None) -> Security:
    """The security with the policy, which then also holds for the token endpoint of OAUTHBEARER."""
    sasl = security.sasl
    if sasl is not None and isinstance(sasl.oauth, OAuthClient):
        sasl = replace(sasl, oauth=replace(sasl.oauth, policy=policy))
    return replace(security, sasl=sasl, policy=policy)


def _check(security: Security, location: str) -> None:
    try:
        security.check()
    except TlsFailed as error:
        raise CredentialsInvalid(f"{location}.tls: {error}; {error.remedy}") from None


def need(reader: Read, reference: Reference, key: str) -> str:
    """The text of a key. Raises CredentialsInvalid where there is none."""
    text = reader(reference, key)
    if text is None:
        raise CredentialsInvalid(f"the {reference.kind} {reference.name} has no key {key}")
    return text


def tls_of(spec: TlsSpec | None, reader: Read) -> Tls | None:
    """The settings of TLS; None for plaintext. Raises CredentialsInvalid."""
    if spec is None:
        return None
    secret, public, client = spec.ca_secret_ref, spec.ca_config_map_ref, spec.client_secret_ref
    ca = None
    if secret is not None:
        ca = need(reader, Reference("Secret", secret.name), secret.key)
    elif public is not None:
        ca = need(reader, Reference("ConfigMap", public.name), public.key)
    if client is None:
        return Tls(ca=ca)
    pair = Reference("Secret", client.name)
    return Tls(ca=ca, certificate=need(reader, pair, client.cert_key), key=need(reader, pair, client.key_key))


def _sasl(spec: SaslSpec | None, reader: Read) -> Sasl | None:
    if spec is None:
        return None
    ref = spec.secret_ref
    login = Reference("Secret", ref.name)
    if spec.mechanism == "OAUTHBEARER":
        return Sasl(spec.mechanism, oauth=_oauth(login, reader))
    if spec.mechanism == "GSSAPI":
        return Sasl(spec.mechanism, kerberos=_kerberos(spec, login, reader))
    username = spec.username or need(reader, login, ref.username_key).strip("\r\n")
    return Sasl(spec.mechanism, username, need(reader, login, ref.password_key).strip("\r\n"))


def _oauth(login: Reference, reader: Read) -> OAuthToken | OAuthClient:
    """Token or client for OAUTHBEARER: a Secret has either `token`, or `token-url` with the credentials of a client
    that fetches a token there (RFC 6749, section 4.4).
    """
    token = reader(login, "token")
    if token is not None:
        return OAuthToken(token.strip())
    url = reader(login, "token-url")
    if url is None:
        raise CredentialsInvalid(
            f"the Secret {login.name} has neither token nor token-url, client-id and client-secret"
        )
    ca, scope = reader(login, "ca.crt"), reader(login, "scope")
    return OAuthClient(
        token_url=url.strip(),
        client_id=need(reader, login, "client-id").strip(),
        client_secret=need(reader, login, "client-secret").strip("\r\n"),
        scope=scope.strip() if scope else None,
        tls=Tls(ca=ca),
    )


def _kerberos(spec: SaslSpec, login: Reference, reader: Read) -> Kerberos:
    """The login of a Secret with the keys `keytab` and `krb5.conf`, and if needed `service-name`. The user name is the
    principal.
    """
    principal = spec.username or need(reader, login, spec.secret_ref.username_key).strip()
    keytab, text = need(reader, login, KEYTAB), need(reader, login, "krb5.conf")
    try:
        realms = read_krb5_conf(text) if keytab else Realms()  # without one, references are only noted
    except ValueError as error:
        raise CredentialsInvalid(f"the Secret {login.name}: krb5.conf: {error}") from None
    service = (reader(login, "service-name") or "kafka").strip()
    return Kerberos(service, principal, keytab.encode(errors="surrogateescape"), realms=realms)
