"""Addresses of a cluster and the security of its listeners, resolved: values, no references to Secrets.

Made by `cli/cluster/connect.py` and `reconcile/credentials.py`, read by everything that connects. `repr` of every type
hides what must not be printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kafka.wire.contexts import Contexts
from kafkafeatures.kafka.wire.kerberos_files import LoginFiles
from kafkafeatures.kafka.wire.lookups import Lookups
from kafkafeatures.kafka.wire.pem import OF_KAFKA, SettingNames, Tls
from kafkafeatures.kafka.wire.secrets import Secrets


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """Host (name, IPv4, or IPv6 without brackets) and port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(text: str, location: str) -> tuple[Address, ...]:
    """Read a list such as "a:9092,[::1]:9093". Raises ValueError that names the part that is no address. `location`:
    the field or flag that the text is from, for that message.
    """
    addresses = []
    for part in (entry.strip() for entry in text.split(",")):
        if not part:
            continue
        host, colon, port = part.rpartition(":")
        host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if "@" in part:  # not repeated: what stands before it may be a password
            raise ValueError(f"{location}: invalid address: it contains a user; expected host:port")
        if not colon or not host or (":" in host and not part.startswith("[")) or set(host) & set("[]/ "):
            raise ValueError(f"{location}: invalid address {part!r}: expected host:port")
        if not _is_name(host):
            raise ValueError(f"{location}: invalid host name {host[:60]!r}")
        if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"{location}: invalid address {part!r}: expected a port from 1 to 65535")
        addresses.append(Address(host, int(port)))
    return tuple(dict.fromkeys(addresses))


def _is_name(host: str) -> bool:
    try:
        return bool(host.encode("idna")) and "\0" not in host
    except UnicodeError:
        return False


NEEDS_VERIFIED_TLS = frozenset({"PLAIN", "OAUTHBEARER"})
"""Mechanisms that send the secret itself. SCRAM and GSSAPI do not, so they may be used over any connection."""


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """A token that is sent as it is, such as one from a Secret."""

    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """Client credentials grant (RFC 6749 section 4.4) at `token_url`, https only, verified with `tls`."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    tls: Tls = field(default_factory=Tls)
    policy: AddressPolicy | None = None


@dataclass(frozen=True, slots=True)
class Realms:
    """The part of a krb5.conf that is taken over. `kdcs`: addresses by realm; `realms`: by domain, or by `.domain` for
    all hosts in it.
    """

    default_realm: str = ""
    kdcs: Mapping[str, tuple[Address, ...]] = field(default_factory=dict)
    realms: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kerberos:
    """A Kerberos login, with a keytab or with the tickets of a cache.

    service: the first part of the principals of the nodes.
    principal: the principal that logs in; empty: that of the cache.
    keytab: its path, or its content; None: a ticket cache.
    ticket_cache: its name; empty: the one that the library finds.
    realms: the KDCs; None: those in the krb5.conf of the machine.
    """

    service: str = "kafka"
    principal: str = ""
    keytab: Path | bytes | None = field(default=None, repr=False)
    ticket_cache: str = ""
    realms: Realms | None = None
    files: LoginFiles = field(default_factory=LoginFiles, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Sasl:
    """One mechanism with what it needs. PLAIN and OAUTHBEARER are refused without verified TLS."""

    mechanism: str  # PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI
    username: str = ""
    password: str = field(default="", repr=False)
    oauth: OAuthToken | OAuthClient | None = None
    kerberos: Kerberos | None = None


@dataclass(frozen=True, slots=True)
class Security:
    """The security of one listener. `tls` and `sasl` None: PLAINTEXT without authentication. `policy` None: any address
    may be connected to.

    `lookups`: limits DNS lookups at once; `contexts`: a cache of TLS contexts; `secrets`: values that are removed from
    what nodes send. A copy by `replace` shares all three. `named`: names of these settings, for remedies.
    """

    tls: Tls | None = None
    sasl: Sasl | None = None
    policy: AddressPolicy | None = None
    lookups: Lookups = field(default_factory=Lookups, repr=False, compare=False)
    contexts: Contexts = field(default_factory=Contexts, repr=False, compare=False)
    secrets: Secrets = field(default_factory=Secrets, repr=False, compare=False)
    named: SettingNames = field(default=OF_KAFKA, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.sasl is not None:
            self.secrets.add_public(self.sasl.username)
            self.secrets.add(self.sasl.password)
            if isinstance(self.sasl.oauth, OAuthToken):
                self.secrets.add(self.sasl.oauth.value)
            elif self.sasl.oauth is not None:
                self.secrets.add_public(self.sasl.oauth.token_url, self.sasl.oauth.client_id)
                self.secrets.add(self.sasl.oauth.client_secret)

    def check(self) -> None:
        """Make the TLS contexts, which are kept for the connections. Raises TlsFailed for invalid PEM texts."""
        if self.tls is not None:
            self.contexts.create(self.tls)
        if self.sasl is not None and isinstance(self.sasl.oauth, OAuthClient):
            self.contexts.create(self.sasl.oauth.tls)

    @property
    def has_credentials(self) -> bool:
        """True if they prove who we are: a login, or the key of a client certificate."""
        return self.sasl is not None or (self.tls is not None and self.tls.key is not None)

    @property
    def protocol(self) -> str:
        """Kafka's name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        return ("SASL_" if self.sasl else "") + ("SSL" if self.tls else "PLAINTEXT")


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Settings of connections to one cluster.

    bootstrap_servers, bootstrap_controllers: addresses to start from; one kind is enough.
    brokers, controllers: security of the listeners of these nodes.
    request_timeout: seconds for connecting, and again for each request.
    client_id: name of this client in the logs and quotas of the nodes.
    """

    bootstrap_servers: tuple[Address, ...] = ()
    bootstrap_controllers: tuple[Address, ...] = ()
    brokers: Security = field(default_factory=Security)
    controllers: Security = field(default_factory=Security)
    request_timeout: float = 30.0
    client_id: str = "kafka-features-operator"

    def __post_init__(self) -> None:
        self.brokers.secrets.share(self.controllers.secrets)
        self.brokers.secrets.add_public(
            *(bootstrap_server.host for bootstrap_server in (*self.bootstrap_servers, *self.bootstrap_controllers))
        )
