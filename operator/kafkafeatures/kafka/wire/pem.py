"""TLS settings as PEM texts. Others read them from Secrets or files; `contexts.py` makes TLS contexts of them. And the
names of these settings where a person writes them, for remedies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Tls:
    """No `ca`: the system trust. `certificate` with `key`: mTLS. Host names are always checked."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)


class SettingNames(NamedTuple):
    """Names of the settings with the CA and with the client certificate, for remedies. `controllers`: remedy where the
    controllers' listener needs other settings than the brokers' one. `trust`: remedy where a CA is not trusted that no
    setting names; empty if `ca` does.
    """

    ca: str
    client: str
    controllers: str = ""
    trust: str = ""


OF_KAFKA = SettingNames(
    "ssl.truststore.location in --config (in a document spec.cluster.tls.caSecretRef)",
    "ssl.keystore.location in --config (in a document spec.cluster.tls.clientSecretRef)",
    "brokers accept these settings and the controllers' listener does not: give its own with --controller-config FILE, "
    "in a document with spec.cluster.controllerListener",
)
