"""Reads the settings of the connection to ZooKeeper (`--zookeeper-config FILE`) from a broker's own properties.

It understands zookeeper.ssl.client.enable, zookeeper.ssl.* with PEM files, and zookeeper.digest.username and
zookeeper.digest.password (ours: Kafka reads the digest user from a JAAS file). Other properties of a broker are
ignored, except unknown ones that would change this connection, which are refused.
"""

from __future__ import annotations

from pathlib import Path

from kafkafeatures.cli.cluster.client_config import STDIN, ConfigInvalid, parse_properties, resolve, tls_of
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.kafka.base.errors import TlsFailed
from kafkafeatures.kafka.wire import tls as contexts
from kafkafeatures.kafka.wire.pem import Tls
from kafkafeatures.zookeeper.ensemble import Digest

SSL, DIGEST = "zookeeper.ssl.", "zookeeper.digest."
ENABLE = f"{SSL}client.enable"
USER, PASSWORD = f"{DIGEST}username", f"{DIGEST}password"

_UNDERSTOOD = {
    ENABLE, USER, PASSWORD,
    *(f"{SSL}{store}.{of}" for store in ("keystore", "truststore") for of in ("location", "type", "password")),
    f"{SSL}endpoint.identification.algorithm", f"{SSL}protocol", f"{SSL}enabled.protocols",
}  # fmt: skip


def access_of(path: Path | None) -> tuple[Tls | None, Digest | None]:
    """TLS and digest user in the file. Raises CommandFailed that names file and property, never a secret value."""
    if path is None:
        return None, None
    source = "stdin" if path == STDIN else str(path)
    try:
        with open(0, closefd=False, encoding="utf-8") if path == STDIN else path.open(encoding="utf-8") as file:
            # Other properties may refer to providers that exist on the broker alone.
            prefixes = ("zookeeper.", "config.providers")
            properties = {
                name: value for name, value in parse_properties(file.read()).items() if name.startswith(prefixes)
            }
            tls, digest = read_access(resolve(properties, source), source)
        if tls is not None:
            contexts.context(tls)  # raises TlsFailed for certificates and keys that cannot be used
    except ConfigInvalid as error:
        raise CommandFailed(str(error), Exit.USAGE) from None
    except TlsFailed as error:
        raise CommandFailed(f"{source}: {error}; {error.remedy}", Exit.USAGE) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise CommandFailed(f"{source}: {reason}", Exit.USAGE) from None
    return tls, digest


def read_access(properties: dict[str, str], location: str) -> tuple[Tls | None, Digest | None]:
    """TLS and digest user in these properties. `location` names their file in errors. Raises ConfigInvalid."""
    for name, value in properties.items():
        if name.startswith((SSL, DIGEST, "zookeeper.sasl.")) and name not in _UNDERSTOOD and value.lower() != "false":
            raise ConfigInvalid(f"{location}: unsupported property {name}; it would change the connection")
    with_tls = properties.get(ENABLE, "false").lower() == "true"
    if not with_tls and any(name.startswith(SSL) and name != ENABLE for name in properties):
        raise ConfigInvalid(f"{location}: {SSL}* is given, and {ENABLE} is not true; set it, or remove them")
    if (USER in properties) is not (PASSWORD in properties):
        raise ConfigInvalid(f"{location}: {USER} and {PASSWORD} belong together; one of them is missing")
    digest = Digest(properties[USER], properties[PASSWORD]) if USER in properties else None
    return tls_of(properties, location, "zookeeper.") if with_tls else None, digest
