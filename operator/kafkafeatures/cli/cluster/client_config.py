"""Reads Kafka's client properties (`--config FILE`) into `Security`, so that people can use the file they already have.

Called by `connect.py`, and by `zookeeper_config.py` for the same kind of file. It understands bootstrap.servers and
bootstrap.controllers (used if no flag is given), config.providers, security.protocol, sasl.mechanism, sasl.jaas.config,
ssl.* with PEM files, the OAUTHBEARER token endpoint, and sasl.kerberos.service.name. An unknown property that would
change the connection is refused, never ignored. JKS stores are refused, since reading one needs a JVM.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from kafkafeatures.kafka.base.settings import Kerberos, OAuthClient, OAuthToken, Sasl, Security
from kafkafeatures.kafka.wire.pem import Tls

PROTOCOLS = {  # security.protocol -> (with TLS, with SASL)
    "PLAINTEXT": (False, False),
    "SSL": (True, False),
    "SASL_PLAINTEXT": (False, True),
    "SASL_SSL": (True, True),
}
STDIN = Path("-")
"""The name of standard input as a file."""
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
_AWS = "AWS_MSK_IAM"

_JAAS_OPTION = re.compile(r"""([A-Za-z0-9_.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")
"""Groups: 1, the name; then the value: 2, in double quotes; 3, in single quotes; 4, without quotes."""
_PEM = re.compile(r"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----\n?", re.DOTALL)
"""A PEM block. Group 1: its kind."""


_UNDERSTOOD = frozenset(
    "security.protocol sasl.mechanism sasl.jaas.config ssl.truststore.location ssl.truststore.certificates "
    "ssl.truststore.type ssl.keystore.location ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.type "
    "ssl.key.password ssl.endpoint.identification.algorithm sasl.oauthbearer.token.endpoint.url "
    "sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret "
    "sasl.oauthbearer.scope sasl.kerberos.service.name".split()
)
# Properties for the JVM, and passwords of stores, which PEM files do not have: they are ignored.
_WITHOUT_MEANING = frozenset(
    "security.providers ssl.truststore.password ssl.keystore.password ssl.protocol ssl.enabled.protocols ssl.provider "
    "ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation "
    "sasl.client.callback.handler.class".split()
)
_MIN_SIMILARITY = 0.8
"""Similarity (difflib, 0 to 1) from which on an unknown name counts as a misspelt known one."""
_LOGIN_PREFIXES = ("sasl.login.", "sasl.kerberos.", "sasl.oauthbearer.")
"""Beginnings of properties that only tune logins of the Java client: they are ignored too."""


class ConfigInvalid(ValueError):
    """The file cannot be used. `str()` names file and property, never a value that could be secret."""


def read_properties(path: Path) -> dict[str, str]:
    """The properties of one file, with references to its providers resolved; `-` is standard input. Raises
    ConfigInvalid; OSError where the file cannot be read.
    """
    with open(0, closefd=False, encoding="utf-8") if path == STDIN else path.open(encoding="utf-8") as file:
        return resolve(parse_properties(file.read()), "stdin" if path == STDIN else str(path))


def resolve(properties: dict[str, str], location: str) -> dict[str, str]:
    """The properties, with references to `config.providers` replaced by their values. Raises ConfigInvalid."""
    if not any(name.startswith("config.providers") or "${" in value for name, value in properties.items()):
        return properties
    from kafkafeatures.cli.cluster.config_providers import ProviderError, resolved

    try:
        return resolved(properties, parse_properties)
    except ProviderError as error:
        raise ConfigInvalid(f"{location}: {error}") from None


def security_of(properties: dict[str, str], location: str) -> Security:
    """Make `Security` of parsed properties. `location` names the file in errors."""
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise ConfigInvalid(f"{location}: invalid security.protocol: expected one of {', '.join(PROTOCOLS)}")
    _refuse_unsupported(properties, location)
    with_tls, with_sasl = PROTOCOLS[protocol]
    return Security(
        tls=tls_of(properties, location) if with_tls else None,
        sasl=_sasl(properties, location) if with_sasl else None,
    )


def _refuse_unsupported(properties: dict[str, str], location: str) -> None:
    """Raise ConfigInvalid for unknown properties that would change the connection, and for names that are probably
    misspelt. Other unknown properties, such as a consumer's, are ignored.
    """
    for name in properties:
        if name in _UNDERSTOOD or name in _WITHOUT_MEANING or name.startswith(_LOGIN_PREFIXES):
            continue
        similar = difflib.get_close_matches(name.lower(), (*_UNDERSTOOD, *_WITHOUT_MEANING), 1, _MIN_SIMILARITY)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        if name.startswith(("security.", "ssl.", "sasl.")):
            raise ConfigInvalid(f"{location}: unsupported property {name}; it would change the connection{hint}")
        if similar:
            raise ConfigInvalid(f"{location}: unknown property {name}{hint}")


def parse_properties(text: str) -> dict[str, str]:
    """Parse Java's properties format: comments, `=`, `:` or blank between key and value, continued lines, escapes."""
    properties: dict[str, str] = {}
    logical = ""  # the line so far, with the lines that continue it
    for line in text.splitlines():
        part = line.lstrip() if logical else line.strip()
        if not logical and (not part or part[0] in "#!"):
            continue
        logical += part.rstrip("\n")
        if (len(logical) - len(logical.rstrip("\\"))) % 2:  # an even number of backslashes is of escaped ones
            logical = logical[:-1]
            continue
        match = re.match(r"((?:[^\\\s=:]|\\.)+)\s*[=:]?\s*(.*)", logical, re.DOTALL)
        if match:
            properties[_unescape(match[1])] = _unescape(match[2])
        logical = ""
    return properties


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", character, text, flags=re.DOTALL)


def tls_of(properties: dict[str, str], location: str, prefix: str = "") -> Tls:
    """The TLS settings in the properties `ssl.*`. `prefix`: text before each name, such as "zookeeper."."""
    ssl = f"{prefix}ssl."
    algorithm = f"{ssl}endpoint.identification.algorithm"
    if properties.get(algorithm, "https").lower() != "https":
        raise ConfigInvalid(f"{location}: {algorithm} must be https: host names are always verified")
    ca = _pem(properties, location, f"{ssl}truststore")
    keystore = _pem(properties, location, f"{ssl}keystore")  # one file with both the certificates and the key
    chain = properties.get(f"{ssl}keystore.certificate.chain") or keystore
    key = properties.get(f"{ssl}keystore.key") or keystore
    for text, kind, name in ((chain, "CERTIFICATE", "certificate.chain"), (key, "PRIVATE KEY", "key")):
        if text and not _blocks(text, kind):
            raise ConfigInvalid(f"{location}: {ssl}keystore.{name} contains no PEM {kind.lower()}")
    return Tls(
        ca=ca,
        certificate="".join(_blocks(chain, "CERTIFICATE")) or None if chain else None,
        key="".join(_blocks(key, "PRIVATE KEY")) or None if key else None,
        key_password=properties.get(f"{ssl}key.password"),
    )


def _pem(properties: dict[str, str], source: str, store: str) -> str | None:
    """The PEM text of a store: in the properties themselves, or in the file that they name; None without either.
    `source` names the file of the properties in errors.
    """
    inline = properties.get(f"{store}.certificates")
    if inline:
        return inline
    location = properties.get(f"{store}.location")
    if not location:
        return None
    kind = properties.get(f"{store}.type", "").upper()
    try:
        data = Path(location).read_bytes()
    except OSError as error:
        raise ConfigInvalid(f"{source}: {store}.location {location}: {error.strerror}") from None
    if kind not in ("", "PEM") or b"-----BEGIN" not in data:
        flags = "-nokeys" if store.endswith("truststore") else "-nodes"
        raise ConfigInvalid(
            f"{source}: {store}.location {location} is not PEM; make PEM of it: "
            f"keytool -importkeystore -srckeystore {location} -destkeystore store.p12 -deststoretype PKCS12 && "
            f"openssl pkcs12 -in store.p12 {flags} -out store.pem"
        )
    return data.decode("ascii", "replace")


def _blocks(text: str, kind: str) -> list[str]:
    """The PEM blocks whose kind ends like this, as "PRIVATE KEY" and "RSA PRIVATE KEY" do."""
    return [match[0].rstrip("\n") + "\n" for match in _PEM.finditer(text) if match[1].endswith(kind)]


def _sasl(properties: dict[str, str], location: str) -> Sasl:
    mechanism = properties.get("sasl.mechanism", "").upper()
    if not mechanism:  # Kafka's own default is GSSAPI
        raise ConfigInvalid(f"{location}: sasl.mechanism is not set; set it to one of {', '.join(MECHANISMS)}")
    if mechanism == _AWS:
        raise ConfigInvalid(
            f"{location}: {_AWS} is not supported: it signs with keys of AWS, whose libraries are not part of this "
            "installation; enable SASL/SCRAM or mTLS on the cluster, and use that listener"
        )
    if mechanism not in MECHANISMS:
        raise ConfigInvalid(f"{location}: invalid sasl.mechanism {mechanism}: expected one of {', '.join(MECHANISMS)}")
    options = _jaas(properties.get("sasl.jaas.config", ""))
    unresolved = next((name for name, value in options.items() if value.startswith("${")), "")
    if unresolved:
        raise ConfigInvalid(
            f"{location}: sasl.jaas.config: the value of {unresolved} begins with ${{, and is not resolved"
        )
    if mechanism == "OAUTHBEARER":
        return Sasl(mechanism, oauth=_oauth(properties, options, location))
    if mechanism == "GSSAPI":
        return Sasl(mechanism, kerberos=_kerberos(properties, options, location))
    if "username" not in options or "password" not in options:
        raise ConfigInvalid(f"{location}: sasl.jaas.config has no username and password")
    return Sasl(mechanism, options["username"], options["password"])


def _jaas(text: str) -> dict[str, str]:
    """The options in a `sasl.jaas.config`, by name."""
    return {
        match[1]: re.sub(r"\\(.)", r"\1", match[2] or match[3] or match[4] or "")
        for match in _JAAS_OPTION.finditer(text)
    }


def _oauth(properties: dict[str, str], options: dict[str, str], source: str) -> OAuthToken | OAuthClient:
    """The token in a file, if the token endpoint is a `file:` URL; else the client that gets a token there. `source`
    names the file of the properties in errors.
    """
    url = properties.get("sasl.oauthbearer.token.endpoint.url", "")
    if url.startswith("file:"):
        location = url.removeprefix("file://").removeprefix("file:")
        try:
            return OAuthToken(Path(location).read_text(encoding="ascii").strip())
        except (OSError, UnicodeDecodeError):
            raise ConfigInvalid(f"{source}: the token file {location} cannot be read") from None
    client_id = options.get("clientId") or properties.get("sasl.oauthbearer.client.credentials.client.id")
    secret = options.get("clientSecret") or properties.get("sasl.oauthbearer.client.credentials.client.secret")
    if not url or not client_id or not secret:
        raise ConfigInvalid(
            f"{source}: OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url, and clientId and clientSecret in "
            "sasl.jaas.config"
        )
    return OAuthClient(
        token_url=url,
        client_id=client_id,
        client_secret=secret,
        scope=options.get("scope") or properties.get("sasl.oauthbearer.scope"),
        tls=tls_of(properties, source),
    )


def _kerberos(properties: dict[str, str], options: dict[str, str], source: str) -> Kerberos:
    """The login of the options of Krb5LoginModule: with a keytab, or with the tickets of a cache. `source` names the
    file of the properties in errors.
    """
    service = options.get("serviceName") or properties.get("sasl.kerberos.service.name", "")
    if not service:  # as Kafka, which has no default either
        raise ConfigInvalid(f"{source}: GSSAPI needs sasl.kerberos.service.name, such as kafka")
    principal = options.get("principal", "")
    if options.get("useKeyTab", "").lower() == "true":
        location = options.get("keyTab", "").removeprefix("file:")
        if not location or not principal:
            raise ConfigInvalid(f"{source}: sasl.jaas.config: useKeyTab=true needs keyTab and principal")
        try:
            Path(location).open("rb").close()
        except OSError as error:
            raise ConfigInvalid(f"{source}: sasl.jaas.config: keyTab {location}: {error.strerror}") from None
        return Kerberos(service, principal, Path(location).absolute())
    if options.get("useTicketCache", "").lower() == "true":
        return Kerberos(service, principal, ticket_cache=options.get("ticketCache", ""))
    raise ConfigInvalid(
        f"{source}: sasl.jaas.config: GSSAPI needs Krb5LoginModule with useKeyTab=true, keyTab and principal, or with "
        "useTicketCache=true"
    )
